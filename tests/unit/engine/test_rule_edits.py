"""Rules edited in a transaction: exact, for the work of what changed, or without a trace."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judges.oracle import evaluate

import deltafix
from deltafix.engine import link
from deltafix.engine.run import STRATEGIES
from deltafix.engine.state import folder
from deltafix.engine.state.log import read_log
from deltafix.errors import (
    BudgetError,
    FactError,
    FunctorError,
    ProgramError,
    StateError,
    UnknownRelationError,
)
from deltafix.plan import build, recognise
from deltafix.plan.ir import Variant
from deltafix.plan.order import Variants
from deltafix.plan.recognise import same_rule
from deltafix.rules import check
from deltafix.rules.ast import Program, Rule
from deltafix.rules.infer import infer
from deltafix.rules.show import show_rule

GRAPH = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
.input edge
path(x, y) :- edge(x, y).
"""
ORDER = "path(x, y) <= path(x, z) :- y < z."
STEP = "path(x, z) :- path(x, y), edge(y, z)."


@pytest.fixture
def db() -> deltafix.Database:
    db = deltafix.connect(GRAPH)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c")])
    return db


def test_a_rule_added_and_removed_says_what_changed(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.add_rule(STEP)
        tx.insert("edge", [("c", "d")])
    assert tx.delta.show().split("\n") == [
        '+edge("c", "d")', '+path("a", "c")', '+path("a", "d")', '+path("b", "d")',
        '+path("c", "d")',
    ]  # fmt: skip
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
    assert sorted(tx.delta["path"].removed) == [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
    with db.transaction() as tx:
        tx.remove_rule(STEP)
    assert db.rows("path") == db.rows("edge")
    assert db.epoch == 4
    db.check_invariants()


def test_a_new_relation_may_come_with_its_rule(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.add_rule(".decl end(x: symbol)\nend(y) :- edge(_, y), !edge(y, _).")
    assert tx.delta["end"].added == [("c",)]


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (lambda tx: tx.add_rule("path(x, y) :- edg(x, y)."), ProgramError, "<rule>:1:15"),
        (lambda tx: tx.add_rule("path(x, y) :- edge(x"), ProgramError, "<rule>:1"),
        (lambda tx: tx.remove_rule(STEP), FactError, "no such rule"),
        (lambda tx: tx.remove_rule(ORDER), FactError, "no such rule"),
    ],
)
def test_a_refused_rule_leaves_no_trace(db, edit, error, words) -> None:
    before = (db.epoch, db.rows("path"), db.program)
    with pytest.raises(error, match=words), db.transaction() as tx:
        tx.insert("edge", [("c", "d")])
        edit(tx)
    assert (db.epoch, db.rows("path"), db.program) == before
    db.check_invariants()


def test_a_rule_over_budget_leaves_no_trace() -> None:
    with deltafix.connect(GRAPH, max_rows=30) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(20)])
        with pytest.raises(BudgetError, match=r"max_rows=30 .*, in `path`"), db.transaction() as tx:
            tx.add_rule(STEP)
        assert db.count("path") == 20


def test_a_state_has_its_edits_with_the_program_it_was_opened_with(tmp_path) -> None:
    ends = ".decl end(x: symbol)\nend(y) :- edge(_, y), !edge(y, _)."
    with deltafix.connect(GRAPH, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b")])
        with db.transaction() as tx:
            tx.add_rule(STEP)
            end = tx.add_rule(ends)
            tx.insert("edge", [("b", "c")])
        with db.transaction() as tx:
            tx.replace_rule(end, "end(x) :- edge(x, _), !edge(_, x).")
        assert db.rows("end") == [("a",)]
        rows, program = {name: db.rows(name) for name in db.schemas}, db.program
    for _ in range(2):  # from the log, and from the snapshot
        with deltafix.connect(GRAPH, tmp_path / "state") as db:
            assert (db.epoch, db.recovered) == (3, ())
            assert (db.program, {name: db.rows(name) for name in db.schemas}) == (program, rows)
            assert len(db.rows("path")) == 3
            db.compact()
    with deltafix.connect(program, tmp_path / "state") as db:  # it may also be written down
        assert (db.rows("end"), db.recovered) == ([("a",)], ())
    other = GRAPH + "path(y, x) :- edge(x, y)."
    with deltafix.connect(other, tmp_path / "state") as db:
        assert "edits of rules went with another program" in db.recovered[0]
        assert db.rows("path") == [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]
    with deltafix.connect(GRAPH, tmp_path / "state") as db:
        assert db.rows("path") == [("a", "b"), ("b", "c")]


def test_only_rules_that_come_are_planned(monkeypatch) -> None:
    planned: list[str] = []
    inferred: list[int] = []

    class Counted(Variants):
        def of(self, trigger: int | None) -> Variant:
            planned.append(self.clause.head)
            return super().of(trigger)

    views = [
        f".decl v{n}(x: symbol)\n.rule r{n}\nv{n}(x) :- path(x, _), !path(x, x).\n"
        f".decl w{n}(x: symbol)\nw{n}(x) :- v{n}(x), n = count : edge(x, _), n > {n}."
        for n in range(20)
    ]
    with deltafix.connect(GRAPH + STEP + "\n".join(views)) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c"), ("c", "c")])
        monkeypatch.setattr(build, "Variants", Counted)
        monkeypatch.setattr(check, "infer", lambda *of: inferred.append(1) or infer(*of))
        for edit, heads in (
            (lambda tx: tx.add_rule("v3(x) :- edge(_, x)."), {"v3"}),
            (lambda tx: tx.remove_rule("r0"), set()),  # later rules have other numbers now
            (lambda tx: tx.remove_rule("v3(x) :- edge(_, x)."), set()),
            (lambda tx: tx.add_rule(".rule last path(y, x) :- edge(x, y)."), {"path"}),
            (lambda tx: tx.replace_rule("r1", ".rule r1 v1(y) :- path(y, _), y = y."), {"v1"}),
        ):
            planned.clear()
            inferred.clear()
            with db.transaction() as tx:
                edit(tx)
            assert {head for head in planned if not head.startswith("~")} == heads
            assert len(inferred) <= 2  # the rule as it is read, and in its program
            given = {"edge": set(db.rows("edge"))}
            wanted = evaluate(db.program, given)
            assert {name: set(db.rows(name)) for name in wanted} == wanted
            db.check_invariants()
            with db.transaction() as tx:
                tx.insert("edge", [("c", f"z{len(given['edge'])}")])
            wanted = evaluate(db.program, {"edge": set(db.rows("edge"))})
            assert {name: set(db.rows(name)) for name in wanted} == wanted


def test_a_rule_is_taken_out_and_replaced_by_its_name(tmp_path) -> None:
    named = f".rule step {STEP}\n.rule last path(x, y) <= path(x, z) :- y < z."
    with deltafix.connect(GRAPH + named, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
            tx.remove_rule("last")
        assert db.count("path") == 3
        with db.transaction() as tx:
            tx.replace_rule("step", ".rule step path(y, x) :- edge(x, y).")
        assert tx.delta["path"].added == [("b", "a"), ("c", "b")]
        assert tx.delta["path"].removed == [("a", "c")]
        with db.transaction() as tx:
            tx.add_rule(".rule base path(u, v) :- edge(u, v).")  # it is there, and named now
        assert db.last_epoch.derivations == 0
        for edit, said in (
            (
                lambda tx: tx.add_rule(f"\n.rule step {STEP}"),
                r"<rule>:2:12: error\[DF111\].*`step`",
            ),
            (lambda tx: tx.remove_rule(" stop"), r"<rule>:1:2: error\[DF110\](.|\n)*mean `step`"),
            (lambda tx: tx.add_rule(".rule step .input x"), r"<rule>:1:1: error\[DF103\]"),
        ):
            with pytest.raises(ProgramError, match=said), db.transaction() as tx:
                edit(tx)
        assert db.count("path") == 4
    with deltafix.connect(GRAPH + named, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.remove_rule("base")
            tx.remove_rule("step")
        assert (db.count("path"), db.program.rules) == (0, ())


def test_a_state_takes_a_whole_program_and_forgets_relations_without_rows(tmp_path) -> None:
    parts = ".decl part(x: symbol)\npart(x) :- edge(x, _)."
    state = tmp_path / "state"
    with deltafix.connect(GRAPH + parts, state) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b")])
            tx.insert("part", [("z",)])
        with pytest.raises(UnknownRelationError, match="'part' has given"), db.transaction() as tx:
            tx.change_program(GRAPH)
        with db.transaction() as tx:
            tx.delete("part", [("z",)])
            tx.change_program(GRAPH + STEP)
        with db.transaction() as tx:
            tx.insert("edge", [("b", "c")])
    other = GRAPH + STEP + ".decl part(x: symbol, y: symbol)\npart(x, x) :- path(x, _)."
    for compacts in (True, False):  # rows of `part` that came and went are in the log
        with deltafix.connect(GRAPH + STEP, state) as db:
            assert (db.recovered, db.count("path")) == ((), 3)
            with db.transaction() as tx:
                tx.change_program(other)
            assert tx.delta["part"].added == [("a", "a"), ("b", "b")]
            with db.transaction() as tx:
                tx.insert("part", [("y", "y")])
        with deltafix.connect(other, state) as db:
            assert (db.recovered, db.count("part")) == ((), 3)
            with db.transaction() as tx:
                tx.delete("part", [("y", "y")])
                tx.change_program(GRAPH + STEP)
            if compacts:
                db.compact()
    with deltafix.connect(GRAPH, state) as db:  # not the program it was left with
        assert (len(db.recovered), db.count("path")) == (1, 2)
        with db.transaction() as tx:
            tx.change_program(other)
        with db.transaction() as tx:
            tx.insert("part", [("y", "y")])
    with pytest.raises(StateError, match=r"given rows of part\(x: .*not declared"):
        deltafix.connect(GRAPH, state)


def _multiplying(choices: int) -> str:
    """A rule that recursion writes out: two to the `choices` conjunctions, with a group of each."""
    parts = ", ".join(f"(a(x, z{n}) ; b(x), z{n} = y + {n})" for n in range(choices))
    tests = ", ".join(f"w != z{n}" for n in range(choices))
    return f"r(x) :- r(y), e(y, x), {parts}, !(e(x, w), {tests})."


def test_an_edit_beside_many_conjunctions_plans_and_links_its_own_alone(monkeypatch) -> None:
    made: list[str] = []
    written: list[str] = []
    spelled: list[str] = []

    class Counted(Variants):
        def of(self, trigger):
            made.append(self.clause.head)
            return super().of(trigger)

    def writing(self, stage, found, of=link.Writer.variant):
        written.append(found.clause.head)
        return of(self, stage, found)

    def spelling(clause, of=recognise._spelled):
        spelled.append(clause.head)
        return of(clause)

    work = []
    for choices in (3, 4):
        text = ".decl e(x: number, y: number) .decl a(x: number, y: number) .decl b(x: number)\n"
        text += ".decl r(x: number) .input e, a, b .output r r(0).\n" + _multiplying(choices)
        with deltafix.connect(text) as db, monkeypatch.context() as patched:
            clauses = sum(len(stage.clauses) for stage in db.plan.stages)
            assert clauses >= 2**choices
            with db.transaction() as tx:
                tx.insert("e", [(0, 1), (1, 2)])
                tx.insert("a", [(1, 5), (2, 6)])
            patched.setattr(build, "Variants", Counted)
            patched.setattr(link.Writer, "variant", writing)
            patched.setattr(recognise, "_spelled", spelling)
            for edit in ("add_rule", "remove_rule"):
                made.clear(), written.clear(), spelled.clear()
                with db.transaction() as tx:
                    getattr(tx, edit)("r(x) :- e(x, x), e(x, _).")
                work.append((edit, len(made), len(written)))
                assert len(spelled) <= 4 * clauses + 4
            db.check_invariants()
    assert len(set(work)) == 2, work


def test_opening_a_state_reads_its_log_once(tmp_path, monkeypatch) -> None:
    with deltafix.connect(GRAPH, tmp_path / "state") as db, db.transaction() as tx:
        tx.add_rule(STEP)
    read: list[object] = []
    monkeypatch.setattr(folder, "read_log", lambda path: read.append(path) or read_log(path))
    with deltafix.connect(GRAPH, tmp_path / "state") as db:
        assert show_rule(db.program.rules[-1]) == STEP
    assert len(read) == 1


def test_an_image_is_of_the_rules_as_they_were_edited(tmp_path) -> None:
    with deltafix.connect(GRAPH, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
        db.compact()
        assert (tmp_path / "state" / "image").exists()
        with db.transaction() as tx:
            tx.add_rule(STEP)
        assert not (tmp_path / "state" / "image").exists()
    count = 3
    for added in (("c", "d"), ("d", "e"), ("e", "f")):
        with deltafix.connect(GRAPH, tmp_path / "state") as db:
            assert db.recovered == ()
            assert (db.last_epoch.derivations, db.last_epoch.probed) == (0, 0)
            assert db.count("path") == count
            db.check_invariants()
            with db.transaction() as tx:
                tx.insert("edge", [added])
            count += len(tx.delta["path"].added)
    assert count == 15


@pytest.mark.parametrize("durable", [False, True])
def test_compacting_forgets_what_no_rule_needs_and_no_row_says(tmp_path, durable) -> None:
    def tables(db: deltafix.Database) -> tuple[object, ...]:
        return (
            len(db.instance.linked.tables.numbers),
            db.instance.linked.tables.indexes(),
            list(db.instance.codes.symbols),
        )

    def grow(db: deltafix.Database) -> None:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])

    with deltafix.connect(GRAPH) as new:
        grow(new)
        wanted = tables(new)
    with deltafix.connect(GRAPH, *([tmp_path / "state"] if durable else [])) as db:
        grow(db)
        more = STEP + " .decl back(x: symbol) back(x) :- edge(y, x), path(x, y), !edge(x, y)."
        with db.transaction() as tx:
            tx.add_rule(more)
            tx.insert("edge", [("c", "z"), ("z", "b")])
        with db.transaction() as tx:
            tx.change_program(GRAPH)
            tx.delete("edge", [("c", "z"), ("z", "b")])
        epoch = db.epoch
        assert len(db.instance.codes.symbols) > len(wanted[2])
        assert tables(db)[1] != wanted[1]
        db.compact()
        assert (tables(db), db.epoch, db.count("path")) == (wanted, epoch, 2)
        db.check_invariants()
        with db.transaction() as tx:
            tx.insert("edge", [("c", "d")])
        assert tx.delta.show().split("\n") == ['+edge("c", "d")', '+path("c", "d")']
    if durable:
        with deltafix.connect(GRAPH, tmp_path / "state") as db:
            assert (db.last_epoch.derivations, db.recovered, db.count("path")) == (0, (), 3)


def test_a_state_hears_of_given_rows_that_an_edit_moves(tmp_path) -> None:
    text = ".decl p(x: number, y: number) .input p"
    with deltafix.connect(text, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.insert("p", [(1, 1), (1, 2), (2, 5)])
        with db.transaction() as tx:
            tx.add_rule("p(x, y) <= p(x, z) :- y < z.")
            tx.insert("p", [(2, 4), (3, 3)])
            tx.delete("p", [(1, 2)])
        assert tx.delta["p"].removed == [(1, 2)]
        assert tx.delta["p"].added == [(3, 3)]
        with db.transaction() as tx:
            tx.delete("p", [(2, 5)])
    with deltafix.connect(text, tmp_path / "state") as db:
        assert db.rows("p") == [(1, 1), (2, 4), (3, 3)]
        with db.transaction() as tx:
            tx.insert("p", [(2, 1)])
            tx.remove_rule("p(x, y) <= p(x, z) :- y < z.")
        assert tx.delta["p"].added == [(2, 1)]
    with deltafix.connect(text, tmp_path / "state") as db:
        assert db.rows("p") == [(1, 1), (2, 1), (2, 4), (3, 3)]


def test_oracle_random_rule_edits_equal_recomputation() -> None:
    rules = [
        STEP,
        "path(x, y) :- path(y, x).",
        "path(x, x) :- edge(x, _), !edge(x, x).",
        "edge(x, x) :- edge(_, x).",
    ]
    rng = Random(3)
    held: set[str] = set()
    edges: set[tuple[str, str]] = set()
    with deltafix.connect(GRAPH) as db:
        for _ in range(25):
            rule = rng.choice(rules)
            edge = (rng.choice("abcd"), rng.choice("abcd"))
            before = {name: set(db.rows(name)) for name in db.schemas}
            with db.transaction() as tx:
                (tx.remove_rule if rule in held else tx.add_rule)(rule)
                (tx.delete if edge in edges else tx.insert)("edge", [edge])
            held ^= {rule}
            edges ^= {edge}
            program = db.program
            assert isinstance(program, Program)
            expected = evaluate(program, {"edge": edges})
            for name in db.schemas:
                assert set(db.rows(name)) == expected[name]
                assert set(tx.delta[name].added) == expected[name] - before[name]
                assert set(tx.delta[name].removed) == before[name] - expected[name]


CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl start(x: number)
.decl hit(x: number)
.input edge, start
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
hit(y) :- start(x), path(x, y).
"""


@pytest.fixture
def closure() -> deltafix.Database:
    db = deltafix.connect(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", [(n, n + 1) for n in range(60)])
        tx.insert("start", [(57,)])
    return db


@pytest.mark.parametrize(
    ("rule", "probed", "changed"),
    [
        ("hit(x) :- start(x).", 1, 1),  # a view over the closure: the closure is not looked at
        ("hit(z) :- start(x), edge(y, x), z = y.", 2, 1),  # an index of its own
        ("path(x, y) :- start(x), edge(y, x).", 20, 4),  # within the recursion
        ("path(x, x) :- start(x).", 20, 2),
        ("start(x) :- hit(x).", 40, 8),  # an input gets a rule: 58, 59 and 60 are hit, and start
    ],
)
def test_an_edit_costs_what_its_rule_derives(closure, rule, probed, changed) -> None:
    rows = {name: closure.rows(name) for name in closure.schemas}
    with closure.transaction() as tx:
        tx.add_rule(rule)
    report = closure.last_epoch
    assert 0 < report.changed <= changed
    assert report.probed <= probed
    added = report.changed
    with closure.transaction() as tx:
        tx.remove_rule(rule)
    report = closure.last_epoch
    assert report.changed == added
    assert report.probed <= 2 * probed
    assert {name: closure.rows(name) for name in closure.schemas} == rows
    closure.check_invariants()


def test_only_strata_that_merge_or_split_are_evaluated_anew(closure) -> None:
    loop = "edge(x, y) :- path(x, y), start(x)."
    with closure.transaction() as tx:
        tx.add_rule(loop)
    assert closure.last_epoch.recomputed == ("edge, path",)
    assert tx.delta["edge"].added == [(57, 59), (57, 60)]
    with closure.transaction() as tx:
        tx.remove_rule(loop)
    assert closure.last_epoch.recomputed == ("edge", "path")
    assert tx.delta["edge"].removed == [(57, 59), (57, 60)]
    assert "path" not in tx.delta
    closure.check_invariants()


def test_strata_in_python_go_on_where_an_edit_does_not_concern_them() -> None:
    aggregated = (
        CLOSURE + ".decl far(x: number, n: number) far(x, n) :- start(x), n = count : path(x, _)."
    )
    with deltafix.connect(aggregated) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(n, n + 1) for n in range(60)])
            tx.insert("start", [(50,)])
        with db.transaction() as tx:
            tx.add_rule("path(x, x) :- start(x).")
        assert tx.delta["far"].added == [(50, 11)]
        assert db.last_epoch.recomputed == ()
        with db.transaction() as tx:
            tx.add_rule("far(x, n) :- start(x), n = sum y : path(x, y).")
        assert tx.delta["far"].added == [(50, sum(range(50, 61)))]
        with db.transaction() as tx:  # the folds that were there hear of rows as before
            tx.delete("edge", [(59, 60)])
        assert tx.delta["far"].added == [(50, 10), (50, sum(range(50, 60)))]
        db.check_invariants()


def test_a_helper_that_comes_back_finds_its_table(closure) -> None:
    rule = "hit(x) :- start(x), !edge(_, x)."
    tables = []
    for _ in range(3):
        with closure.transaction() as tx:
            tx.add_rule(rule)
        with closure.transaction() as tx:
            tx.remove_rule(rule)
        closure.check_invariants()
        tables.append(len(closure.instance.linked.tables.numbers))
    assert len(set(tables)) == 1


def test_symbols_get_an_order_with_the_first_rule_that_asks_for_it(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.add_rule(
            ".decl up(x: symbol, y: symbol)\nup(x, y) :- edge(x, z), edge(_, y), x < y, z = z."
        )
    assert tx.delta["up"].added == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize(
    "spelled",
    [
        "path(a, c) :- edge(b, c), path(a, b).",
        "path(x, z) :- path(x, y), edge(y, z).",
        "path(z, x) :- path(z, y), edge(y, x).",
    ],
)
def test_a_rule_is_the_same_by_other_names_and_in_another_order(closure, spelled) -> None:
    with closure.transaction() as tx:
        tx.add_rule(spelled)
    assert not tx.delta
    assert len(closure.program.rules) == 3
    with closure.transaction() as tx:
        tx.remove_rule(spelled)
    assert closure.rows("path") == closure.rows("edge")


@pytest.mark.parametrize(
    ("rule", "other", "same"),
    [
        ("p(x) :- q(x, y), q(y, x).", "p(b) :- q(a, b), q(b, a).", True),
        ("p(x) :- q(x, y), q(y, z), q(z, x).", "p(x) :- q(z, x), q(x, y), q(y, z).", True),
        ("p(x) :- q(x, y), q(y, z), q(z, x).", "p(y) :- q(z, x), q(x, y), q(y, z).", True),
        ("p(x) :- q(x, y), q(y, z).", "p(x) :- q(x, y), q(z, y).", False),
        ("p(x) :- q(x, x).", "p(x) :- q(x, y), q(y, x).", False),
        ("p(x) :- q(x, _), !q(_, x).", "p(a) :- !q(_, a), q(a, _).", True),
        ("p(n) :- q(x, _), n = count : q(x, _).", "p(m) :- m = count : q(y, _), q(y, _).", True),
        ("p(n) :- q(x, _), n = count : q(x, _).", "p(m) :- m = count : q(_, y), q(y, _).", False),
        ("p(x) :- q(x, y), x < y.", "p(x) :- q(x, y), y < x.", False),
        ("p(x) :- q(x, 1).", "p(x) :- q(x, 2).", False),
        ("p(x) :- q(x, y), !(q(y, z), z > x).", "p(a) :- !(q(b, c), c > a), q(a, b).", True),
    ],
)
def test_rules_are_told_apart_by_what_they_say(rule, other, same) -> None:
    declared = ".decl p(x: number) .decl q(x: number, y: number) .input q "
    one, two = (deltafix.Program.parse(declared + text).rules[-1] for text in (rule, other))
    assert same_rule(one, two) is same


def test_a_rule_is_taken_out_or_replaced_by_what_adding_it_gave(closure) -> None:
    with closure.transaction() as tx:
        near = tx.add_rule(".decl near(x: number) near(y) :- start(x), edge(x, y).")
    assert tx.delta["near"].added == [(58,)]
    with closure.transaction() as tx:
        near = tx.replace_rule(near, "near(y) :- start(x), edge(y, x).")
        tx.replace_rule("hit(b) :- path(a, b), start(a).", "hit(x) :- start(x).")
    assert (tx.delta["near"].added, tx.delta["near"].removed) == ([(56,)], [(58,)])
    assert (tx.delta["hit"].added, tx.delta["hit"].removed) == ([(57,)], [(58,), (59,), (60,)])
    with closure.transaction() as tx:
        tx.remove_rule(near)
    assert tx.delta["near"].removed == [(56,)]
    with (
        pytest.raises(FactError, match="no such rule"),
        closure.transaction() as tx,
    ):
        tx.remove_rule(near)


def test_a_whole_program_takes_the_place_of_another(closure) -> None:
    other = CLOSURE.replace("hit(y) :- start(x), path(x, y).", "hit(a) :- start(a).") + (
        ".decl far(x: number) far(x) :- hit(x), !edge(x, _)."
    )
    with closure.transaction() as tx:
        tx.change_program(other)
        tx.insert("start", [(60,)])
    assert tx.delta["hit"].added == [(57,)]
    assert tx.delta["hit"].removed == [(58,), (59,)]
    assert tx.delta["far"].added == [(60,)]
    assert closure.last_epoch.probed < 100
    assert closure.last_epoch.recomputed == ()
    closure.check_invariants()


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (CLOSURE.replace("number", "symbol"), FactError, "rows keep their columns"),
        (".decl edge(x: number, y: number) .input edge", UnknownRelationError, "'start' has given"),
        (f'.pragma "word-size" "32"\n{CLOSURE}', FactError, "words of 64 bits"),
    ],
)
def test_a_program_that_rows_do_not_fit_is_refused(closure, program, error, words) -> None:
    before = {name: closure.rows(name) for name in closure.schemas}
    with pytest.raises(error, match=words), closure.transaction() as tx:
        tx.change_program(program)
    assert {name: closure.rows(name) for name in closure.schemas} == before
    closure.check_invariants()


def test_a_new_index_holds_the_rows_that_are_there_and_no_other() -> None:
    """Rows that have left lie in the table still; a new index passes them over."""
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl f(y: number)
    .input f
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("e", [(x, x % 3) for x in range(30)])
            tx.insert("f", [(1,)])
        with db.transaction() as tx:
            tx.delete("e", [(x, x % 3) for x in range(0, 30, 2)])
        with db.transaction() as tx:
            tx.add_rule(".decl g(x: number)\ng(x) :- f(y), e(x, y).")
        assert db.rows("g") == [(x,) for x in range(1, 30, 6)]
        db.check_invariants()
        assert db.last_epoch.probed <= 6


def test_a_relation_that_comes_back_has_its_indexes_or_is_another_one(closure) -> None:
    without = CLOSURE.replace(".decl hit(x: number)\n", "").replace(
        "hit(y) :- start(x), path(x, y).", ""
    )
    with closure.transaction() as tx:
        tx.add_rule(".decl pair(x: number, y: number) pair(x, y) :- hit(x), hit(y).")
    with closure.transaction() as tx:
        tx.change_program(without)
    assert "hit" not in closure.schemas
    with closure.transaction() as tx:
        tx.change_program(CLOSURE)
    assert tx.delta["hit"].added == [(58,), (59,), (60,)]
    closure.check_invariants()
    with closure.transaction() as tx:
        tx.change_program(without)
    other = without + ".decl hit(x: number, y: number) hit(x, x) :- start(x)."
    with pytest.raises(FactError, match="had other columns"), closure.transaction() as tx:
        tx.change_program(other)
    closure.compact()
    with closure.transaction() as tx:
        tx.change_program(other)
    assert tx.delta["hit"].added == [(57, 57)]
    closure.check_invariants()


def test_a_new_program_brings_functions_of_its_own() -> None:
    text = """
    .decl e(x: number)
    .input e
    .decl out(x: number)
    .functor {0}(x: number): number
    out(@{0}(x)) :- e(x).
    """
    with deltafix.connect(text.format("one"), functors={"one": lambda x: x + 1}) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1,), (2,)])
        with db.transaction() as tx:
            tx.change_program(text.format("two"), functors={"two": lambda x: x + 2})
        assert (tx.delta["out"].added, tx.delta["out"].removed) == ([(4,)], [(2,)])
        # What `one` was for 1 and 2 is remembered: another function would agree with it in part.
        other = {"one": lambda x: x * 10}
        with pytest.raises(FunctorError, match="@one was another"), db.transaction() as tx:
            tx.change_program(text.format("one"), functors=other)
        assert db.rows("out") == [(3,), (4,)]
        db.compact()
        with db.transaction() as tx:
            tx.change_program(text.format("one"), functors=other)
        assert db.rows("out") == [(10,), (20,)]
        db.check_invariants()


@pytest.mark.parametrize("rule", ["", "near(y, v + 1) :- near(x, v), v < 5, edge(x, y)."])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_row_given_while_its_relation_moves_to_python_is_heard_of_once(rule, strategy) -> None:
    """What read it counted a derivation for each time it was listed: a row stayed for ever."""
    text = f"""
        .decl edge(x: number, y: number)
        .decl near(x: number, y: number)
        .decl dist(x: number, y: number)
        .input edge, near
        .output near, dist
        {rule}
        dist(x, y) :- near(x, y).
    """
    with deltafix.connect(text, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(3, 0)])
            tx.insert("near", [(n, n) for n in range(9)])
        with db.transaction() as tx:
            tx.insert("near", [(10, 2)])
            tx.delete("near", [(0, 0)])
            tx.add_rule("near(x, y) <= near(x, z) :- z < y.")
        assert tx.delta["dist"].added == [(10, 2)]
        assert tx.delta["dist"].removed == [(0, 0)]
        assert db.derivation_count("dist", (10, 2)) == 1
        with db.transaction() as tx:
            tx.delete("near", [(10, 2)])
            tx.remove_rule("near(x, y) <= near(x, z) :- z < y.")
        assert tx.delta["dist"].removed == [(10, 2)]
        db.check_invariants()


def test_an_index_that_was_taken_back_leaves_nothing_to_the_next_one() -> None:
    with deltafix.connect(
        ".decl e(x: number, y: number) .input e .decl p(x: number) .input p"
    ) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 1), (1, 2)])

        def fail() -> None:
            raise BudgetError("at the last moment")

        db._before_commit = fail
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.add_rule(".decl q(x: number) .output q q(y) :- p(x), e(x, y).")
        db._before_commit = None
        with db.transaction() as tx:
            tx.delete("e", [(1, 1)])
        with db.transaction() as tx:
            tx.add_rule(".decl q(x: number) .output q q(y) :- p(x), e(x, y).")
            tx.insert("p", [(1,)])
        db.check_invariants()
        assert db.rows("q") == [(2,)]


@pytest.mark.parametrize("edit", ["r(x) :- e(x, y), d(y).", ".decl q(x: number) q(y) :- d(y)."])
def test_what_a_refused_rule_laid_out_moves_nothing_that_others_read(edit: str) -> None:
    text = """
    .decl d(x: number) .input d
    .decl e(x: number, y: number) .input e
    .decl g(a: symbol, b: symbol) .input g
    .decl r(x: number) .output r
    .decl s(x: number) .output s
    r(x) :- d(x).
    s(y) :- d(x), h(x, y).
    .decl h(x: number, y: number) .input h
    t(b) :- t(a), g(a, b).
    .decl t(a: symbol) .input t .output t
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("h", [(1, 2), (1, 3)])
            tx.insert("g", [("a", "b")])
        with db.probing() as probe:
            assert probe.others("g", 0, probe.code("a")) == [probe.code("b")]

        def fail() -> None:
            raise BudgetError("at the last moment")

        db._before_commit = fail
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.add_rule(edit)
        db._before_commit = None
        with db.transaction() as tx:
            tx.insert("d", [(1,)])
            tx.insert("g", [(f"{n}", "a") for n in range(200)])
        assert db.rows("s") == [(2,), (3,)]
        with db.probing() as probe:
            assert probe.others("g", 0, probe.code("7")) == [probe.code("a")]


PAIRS = st.lists(st.tuples(*[st.integers(0, 4)] * 2), min_size=1, max_size=5)


@given(PAIRS, PAIRS, st.permutations(range(5)), st.randoms(use_true_random=False))
def test_rules_are_the_same_whatever_their_variables_are_called(one, other, names, rng) -> None:
    def rule(pairs) -> Rule:
        body = ", ".join(f"e(v{a}, v{b})" for a, b in pairs)
        text = ".decl e(x: number, y: number) .input e .decl r(x: number) .output r "
        return deltafix.Program.parse(f"{text} r(v0) :- {body}, e(v0, 7).").rules[0]

    names.remove(0)
    names.insert(0, 0)
    renamed = [(names[a], names[b]) for a, b in one]
    rng.shuffle(renamed)
    assert same_rule(rule(one), rule(renamed))
    maps = ((0, *rest) for rest in permutations(range(1, 5)))
    same = any(sorted(other) == sorted((to[a], to[b]) for a, b in one) for to in maps)
    assert same_rule(rule(one), rule(other)) == same


def test_a_rule_of_many_variables_that_nothing_tells_apart_is_removed() -> None:
    rule = "r(x) :- {}."
    orders = [", ".join(f"e(x, v{n})" for n in order) for order in (range(6), range(5, -1, -1))]
    text = ".decl e(x: number, y: number) .input e .decl r(x: number) .output r "
    with deltafix.connect(text + rule.format(orders[0])) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 1)])
        with db.transaction() as tx:
            tx.remove_rule(rule.format(orders[1]))
        assert db.rows("r") == []


def test_a_rule_that_comes_is_asked_nothing_of_rows_that_go_with_it() -> None:
    def wrong(x: int) -> int:
        raise ValueError(f"{x} is wrong")

    text = """
        .functor f(x: number): number
        .decl root(x: number) .decl e(x: number, y: number) .decl g(x: number, y: number)
        .decl r(x: number)
        .input root, e, g
        .output r
        r(x) :- root(x).
        r(y) :- r(x), e(x, y).
    """
    with deltafix.connect(text, functors={"f": wrong}) as db:
        with db.transaction() as tx:
            tx.insert("root", [(1,)])
            tx.insert("e", [(1, 2), (2, 3)])
            tx.insert("g", [(3, 9)])
        rule, before = "r(@f(y)) :- r(x), g(x, y).", db.rows("r")
        with (
            pytest.raises(FunctorError, match="9 is wrong, in `r`"),
            db.transaction() as tx,
        ):
            tx.add_rule(rule)
        assert db.rows("r") == before
        with db.transaction() as tx:
            tx.add_rule(rule)
            tx.delete("root", [(1,)])
        assert tx.delta["r"].removed == before
        assert db.last_epoch.abandoned == 1
        assert same_rule(db.program.rules[-1], deltafix.Program.parse(f"{text} {rule}").rules[-1])
        db.check_invariants()
