"""Proofs by example: what they hold, how they read, what is refused."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

import deltafix
from deltafix.errors import (
    FactError,
    NoSuchFactError,
    ProgramError,
    ProofBoundError,
    TransactionError,
    UnknownRelationError,
)
from deltafix.provenance.nodes import Live
from deltafix.provenance.proof import Proof, Step
from deltafix.provenance.state import committed
from deltafix.provenance.ways import MAX_INPUTS, Ways

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def closure(*edges: tuple[str, str]) -> deltafix.Database:
    db = deltafix.connect(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", list(edges))
    return db


def test_a_smallest_proof_is_the_lowest_tree():
    db = closure(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c"))
    proof = db.why('path("a", "a")')
    assert (proof.height, len(proof), proof.is_smallest) == (3, 6, True)
    assert str(proof) == (
        'path("a", "a")  [path(x, z) :- path(x, y), edge(y, z).]\n'
        '├── path("a", "d")  [path(x, z) :- path(x, y), edge(y, z).]\n'
        '│   ├── path("a", "c")  [path(x, y) :- edge(x, y).]\n'
        '│   │   └── edge("a", "c")  [given]\n'
        '│   └── edge("c", "d")  [given]\n'
        '└── edge("d", "a")  [given]'
    )
    assert db.why("path", ("a", "a")) == proof
    assert {leaf.row for leaf in proof.leaves} == {("d", "a"), ("c", "d"), ("a", "c")}


def test_a_given_row_is_its_own_proof_and_a_fact_of_the_text_says_so():
    db = deltafix.connect(CLOSURE + 'edge("p", "q").\n')
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b")])
    assert str(db.why('edge("a", "b")')) == 'edge("a", "b")  [given]'
    proof = db.why('path("p", "q")')
    assert proof.height == 1
    assert proof.steps[1].text == 'edge("p", "q").'
    assert "[stated in the program]" in str(proof)
    assert proof.leaves == ()


def test_a_proof_follows_the_state():
    db = closure(("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("c", "x"), ("x", "d"))
    assert db.why('path("a", "d")').height == 2
    with db.transaction() as tx:
        tx.delete("edge", [("b", "d"), ("c", "d")])
    assert db.why('path("a", "d")').height == 3
    with db.transaction() as tx:
        tx.delete("edge", [("a", "c")])
    with pytest.raises(NoSuchFactError, match=r"does not hold.*`why_not`"):
        db.why('path("a", "d")')


def test_all_proofs_come_lowest_first_each_once():
    db = closure(("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("d", "a"), ("a", "d"))
    proofs = db.why('path("a", "d")', all=True)
    assert [proof.height for proof in proofs] == [1, 2, 2]
    assert len({str(proof) for proof in proofs}) == 3
    assert db.why('path("a", "d")', all=True, limit=2) == proofs[:2]


def test_all_proofs_use_a_given_row_as_given_and_as_derived():
    db = closure(("a", "b"))
    with db.transaction() as tx:
        tx.insert("path", [("a", "b")])
    assert [proof.height for proof in db.why('path("a", "b")', all=True)] == [0, 1]


def test_negation_tests_and_computed_values_are_said_in_words():
    db = deltafix.connect("""
    .decl size(x: symbol, n: number)
    .decl bad(x: symbol)
    .decl part(x: symbol, y: symbol)
    .decl fine(x: symbol, twice: number)
    fine(x, n * 2) :- size(x, n), n > 3, !bad(x), !(part(x, y), bad(y)).
    """)
    with db.transaction() as tx:
        tx.insert("size", [("a", 5)])
        tx.insert("part", [("a", "b")])
    (step, given) = db.why('fine("a", 10)').steps
    assert given.is_given
    assert step.absent == ('bad("a") is absent', 'nothing fits part("a", y), bad(y)')
    assert step.tests == ("5 > 3", "5 * 2 = 10")
    assert '├── bad("a") is absent\n' in str(db.why('fine("a", 10)'))


def test_a_wildcard_under_negation_is_said_in_words_too():
    db = deltafix.connect("""
    .decl node(x: number)
    .decl edge(x: number, y: number)
    .decl sink(x: number)
    sink(x) :- node(x), !edge(x, _).
    """)
    with db.transaction() as tx:
        tx.insert("node", [(1,)])
    assert db.why("sink(1)").goal.absent == ("nothing fits edge(1, _)",)


def test_rules_without_an_index_for_the_question_are_answered_too():
    # `both` is not recursive: maintenance never asks for it from its head.
    db = deltafix.connect("""
    .decl left(x: number, y: number)
    .decl right(y: number, z: number)
    .decl both(x: number, z: number)
    both(x, z) :- left(x, y), right(y, z).
    """)
    with db.transaction() as tx:
        tx.insert("left", [(i, i % 7) for i in range(100)])
        tx.insert("right", [(i, i * 10) for i in range(7)])
    premises = db.why("both(30, 20)").steps[1:]
    assert [step.fact for step in premises] == ["left(30, 2)", "right(2, 20)"]
    with db.transaction() as tx:
        tx.insert("left", [(500, 2)])
    assert db.why("both(500, 20)").height == 1


def test_a_shared_step_is_drawn_once_in_text():
    db = deltafix.connect("""
    .decl e(x: number)
    .decl p(x: number)
    .decl q(x: number)
    .decl r(x: number)
    p(x) :- e(x).
    q(x) :- p(x), p(x).
    r(x) :- q(x), p(x).
    """)
    with db.transaction() as tx:
        tx.insert("e", [(1,)])
    proof = db.why("r(1)")
    assert len(proof) == 4
    assert str(proof).count("as above") == 1


def test_the_other_forms_hold_the_same_facts():
    db = closure(("a", 'b"<'), ('b"<', "c"))
    proof = db.why("path", ("a", "c"))
    data = json.loads(proof.show("json"))
    assert [step["fact"] for step in data["steps"]] == [step.fact for step in proof.steps]
    assert data["steps"][0]["premises"] == list(proof.goal.premises)
    dot = proof.show("dot")
    assert dot.count("->") == sum(len(step.premises) for step in proof.steps)
    svg = ElementTree.fromstring(proof.show("svg"))  # noqa: S314  our own drawing
    names = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(map(str, names)) == sorted(step.fact for step in proof.steps)
    page = proof._repr_html_()
    assert "&quot;&lt;" not in page.replace("b\\&quot;&lt;", "")
    assert page.count("<li>") == len(proof)


def test_a_bound_on_work_gives_a_proof_that_says_it_may_not_be_smallest():
    # Long way round first: the rank-greedy proof is found without searching for a lowest one.
    n = 60
    db = deltafix.connect("""
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    p(x, y) :- e(x, y).
    p(x, z) :- p(x, y), p(y, z).
    """)
    with db.transaction() as tx:
        tx.insert("e", [(i, i + 1) for i in range(n)])
    exact = db.why("p", (0, n))
    assert exact.is_smallest
    assert exact.height == 7  # 60 edges in halves: 2^6 >= 60, and one step for the edges
    hurried = db.why("p", (0, n), max_work=10)
    assert not hurried.is_smallest
    assert hurried.height >= exact.height
    assert len(hurried.leaves) == n
    assert "a smaller proof may exist" in str(hurried)


def test_the_search_looks_at_what_the_fact_could_rest_on_and_no_more():
    from deltafix.provenance.search import searcher_of

    chain = [(f"n{i}", f"n{i + 1}") for i in range(300)]
    db = closure(*chain)
    db.why('path("n5", "n15")')
    few = searcher_of(db).work
    db.why('path("n5", "n105")')
    more = searcher_of(db).work
    assert few <= 10 * 6
    assert more <= 100 * 6
    assert db.count("path") == 300 * 301 // 2


def test_a_stratum_beyond_plain_recursion_is_joined_by_the_literal_that_fewest_rows_fit():
    # In the order of the text, each of the 3,001 rows of `near` would be tried with its edge.
    db = deltafix.connect("""
    .decl edge(x: number, y: number)
    .decl near(x: number, d: number)
    near(0, 0).
    near(y, d + 1) :- near(x, d), edge(x, y).
    near(x, d) <= near(x, e) :- e < d.
    """)
    with db.transaction() as tx:
        tx.insert("edge", [(0, x) for x in range(1, 3001)])
        tx.insert("edge", [(5, 9999)])
    proof = db.why("near", (9999, 2), max_work=300)
    assert proof.is_smallest
    assert [leaf.row for leaf in proof.leaves] == [(0, 5), (5, 9999)]
    with committed(db) as state:
        ways = Ways(state)
        ways.of(Live("near", (9999, 2)))
        assert ways._rows_of("near").looked_at <= 5


def test_asking_changes_nothing():
    db = closure(("a", "b"), ("b", "c"))
    before = db.last_epoch
    db.why('path("a", "c")')
    db.why_not('path("c", "a")')
    assert db.last_epoch == before
    assert db.epoch == 1
    db.check_invariants()
    with db.transaction() as tx:
        tx.insert("edge", [("c", "d")])
        # The committed state is asked about, whatever is being edited.
        assert db.why('path("a", "c")').height == 2
        with pytest.raises(NoSuchFactError):
            db.why('edge("c", "d")')


def test_rules_added_later_are_known():
    db = closure(("a", "b"))
    assert db.why('path("a", "b")').height == 1
    with db.transaction() as tx:
        tx.add_rule("path(y, x) :- edge(x, y).")
    assert db.why('path("b", "a")').goal.text == "path(y, x) :- edge(x, y)."


@pytest.mark.parametrize(
    ("question", "kind", "wanted"),
    [
        (('path("a", X)',), ProgramError, "column `y` has no value"),
        (('path("a", _)',), ProgramError, "give every column a constant"),
        (('path("a")',), ProgramError, r"has 2 columns, 1 given"),
        (('pth("a", "b")',), UnknownRelationError, "did you mean 'path'"),
        (("pth", ("a", "b")), UnknownRelationError, "did you mean 'path'"),
        (("path", ("a",)), FactError, r"1 value"),
        (("path", ("a", 3)), FactError, "column 'y'"),
        (('path("a", "b"',), ProgramError, "expected"),
        (("path", ("a", "nowhere")), NoSuchFactError, "does not hold"),
    ],
)
def test_a_question_that_does_not_fit_is_refused(question, kind, wanted):
    db = closure(("a", "b"))
    with pytest.raises(kind, match=wanted):
        db.why(*question)


def test_a_proof_beyond_its_bound_is_refused_by_name():
    db = closure(*((f"n{i}", f"n{i + 1}") for i in range(20)))
    with pytest.raises(ProofBoundError, match="more than max_steps=10 facts"):
        db.why('path("n0", "n20")', max_steps=10)
    assert len(db.why('path("n0", "n20")', max_steps=40)) == 40
    with pytest.raises(FactError, match="max_steps=0"):
        db.why('path("n0", "n20")', max_steps=0)


def test_a_closed_database_is_not_asked():
    db = closure(("a", "b"))
    db.close()
    with pytest.raises(TransactionError, match="closed"):
        db.why('path("a", "b")')


AGGREGATES = """
.decl part(whole: symbol, piece: symbol, cost: number)
.decl item(x: symbol)
.decl total(x: symbol, n: number)
.decl worst(x: symbol, n: number)
.decl many(x: symbol)
total(x, n) :- item(x), n = sum c : { part(x, _, c) }.
worst(x, n) :- item(x), n = max c : { part(x, p, c), item(p) }.
many(x) :- item(x), 2 <= count : { part(x, _, _) }.
"""


def test_an_aggregate_is_explained_by_the_rows_that_went_in():
    db = deltafix.connect(AGGREGATES)
    with db.transaction() as tx:
        tx.insert("item", [("car",), ("wheel",), ("seat",), ("bolt",)])
        tx.insert("part", [("car", "wheel", 40), ("car", "seat", 90), ("wheel", "bolt", 1)])
    proof = db.why('total("car", 130)')
    assert {leaf.fact for leaf in proof.leaves} == {
        'item("car")', 'part("car", "wheel", 40)', 'part("car", "seat", 90)',
    }  # fmt: skip
    assert proof.goal.tests == ("sum over 2 rows = 130",)
    assert db.why('total("bolt", 0)').goal.absent == ("no row goes into the aggregate",)
    assert [leaf.fact for leaf in db.why('worst("car", 90)').leaves] == [
        'item("car")', 'part("car", "seat", 90)', 'item("seat")',
    ]  # fmt: skip
    assert "~" not in str(db.why('many("car")'))
    assert len(db.why('many("car")').leaves) == 3
    with db.transaction() as tx:
        tx.delete("part", [("car", "seat", 90)])
    assert tx.delta.why('total("car", 130)').changes == ((-1, "part", ("car", "seat", 90)),)
    assert tx.delta.why('total("car", 40)').sign == 1
    db.check_invariants()


@pytest.mark.parametrize("count", [MAX_INPUTS - 1, MAX_INPUTS, MAX_INPUTS + 1])
def test_an_aggregate_over_many_rows_shows_so_many_and_says_if_there_are_more(count):
    db = deltafix.connect(AGGREGATES)
    with db.transaction() as tx:
        tx.insert("item", [("car",)])
        tx.insert("part", [("car", f"p{i}", 1) for i in range(count)])
    goal = db.why("total", ("car", count)).goal
    said = f"more than {MAX_INPUTS}" if count > MAX_INPUTS else str(count)
    assert goal.tests == (f"sum over {said} rows = {count}",)
    assert len(goal.premises) == 1 + min(count, MAX_INPUTS)


def test_a_row_that_stands_for_several_atoms_is_a_premise_for_each():
    db = deltafix.connect("""
    .decl e(x: number, y: number)
    .decl r(x: number)
    .decl apart(x: number)
    r(x) :- e(x, y), e(y, x), x <= y.
    apart(x) :- e(_, y), e(y, _), e(x, _).
    """)
    with db.transaction() as tx:
        tx.insert("e", [(1, 1)])
    goal = db.why("r(1)").goal
    assert (goal.premises, goal.tests) == ((1, 1), ("1 <= 1",))
    assert db.why("apart(1)").goal.premises == (1, 1, 1)
    assert db.why("r(1)").show("dot").count("->") == 1


def test_a_fact_is_drawn_below_the_middle_of_its_users_in_whatever_layers_these_are():
    def step(name: str, *premises: int) -> Step:
        return Step(name, (), 0, f"{name} :- .", premises)

    proof = Proof(
        (
            step("goal", 1, 2, 3),
            *(step("a", 4, 5, 6, 7), step("b"), step("c", 8)),
            *(step("d", 8), step("e", 9), step("f"), step("g")),
            *(step("x"), step("y")),
        ),
        height=0,
    )
    spots = dict(re.findall(r'<text x="([\d.]+)"[^>]*>(\w)\(\)', proof.show("svg")))
    where = {name: float(x) for x, name in spots.items()}
    assert where["y"] < where["x"]


def test_recursion_beyond_horn_clauses_is_explained_too():
    db = deltafix.connect("""
    .decl edge(x: number, y: number, w: number)
    .decl dist(x: number, d: number <min>)
    .decl pick(x: number, y: number) choice-domain x
    dist(0, 0).
    dist(y, d + w) :- dist(x, d), edge(x, y, w).
    pick(x, y) :- edge(x, y, _).
    """)
    with db.transaction() as tx:
        tx.insert("edge", [(0, 1, 5), (0, 2, 1), (2, 1, 1), (1, 3, 3)])
        tx.insert("dist", [(7, 7)])
    proof = db.why("dist", (3, 5))
    assert [leaf.row for leaf in proof.leaves] == [(0, 2, 1), (2, 1, 1), (1, 3, 3)]
    assert proof.goal.tests == ("2 + 3 = 5",)
    assert str(db.why("dist", (7, 7))) == (
        "dist(7, 7)  [given]\n└── nothing gives dist(7, d) with d < 7"
    )
    assert [one.text for one in db.why_not("dist", (3, 4), limit=0).attempts] == [
        "dist(0, 0).",
        "dist(y, d + w) :- dist(x, d), edge(x, y, w).",
    ]
    (picked,) = (row for row in db.rows("pick") if row[0] == 0)
    assert "~" not in str(db.why("pick", picked))
    assert "~" not in str(db.why_not("pick", (0, 3 - picked[1]), limit=0))
    with db.transaction() as tx:
        tx.delete("edge", [(2, 1, 1)])
    assert tx.delta.why("dist", (3, 8)).changes == ((-1, "edge", (2, 1, 1)),)
    db.check_invariants()


def test_a_relation_under_its_own_even_negation_is_explained_by_what_is_absent():
    db = deltafix.connect("""
    .decl child(x: number, y: number)
    .decl node(x: number)
    .decl ok(x: number)
    ok(x) :- node(x), !(child(x, y), !ok(y)).
    """)
    with db.transaction() as tx:
        tx.insert("node", [(1,), (2,)])
        tx.insert("child", [(1, 2)])
    assert db.why("ok(1)").goal.absent == ("nothing fits child(1, y), ok(y) is absent",)
    assert db.why_not("ok(9)").suggestions == (((1, "node", (9,)),),)


def test_a_rule_that_came_later_is_cited_where_the_plan_has_other_relations_since() -> None:
    """The relations of a plan are in another order than their numbers once rules were edited."""
    text = ".decl m(x: number)\n.input m\n.decl f(x: number, y: number)\n.input f\n"
    with deltafix.connect(text + ".decl d(x: number, v: number <min>)\n") as db:
        with db.transaction() as tx:
            tx.insert("m", [(0,), (1,)])
            tx.insert("f", [(0, 3)])
        for rule in ("d(x, 0) :- m(x).", "d(x, y) :- f(x, y)."):
            with db.transaction() as tx:
                tx.add_rule(rule)
            assert [db.why("d", row).steps[0].text for row in db.rows("d")] == [
                "d(x, 0) :- m(x)."
            ] * 2
