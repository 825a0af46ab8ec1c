"""Absent rows explained, and suggestions that work."""

from __future__ import annotations

import json

import pytest

import deltafix
from deltafix.errors import FactError, NoSuchFactError, TransactionError
from deltafix.reactive import reducer

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl bad(x: symbol)
.decl path(x: symbol, y: symbol)
.decl clean(x: symbol, y: symbol)
.decl lone(x: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
clean(x, y) :- path(x, y), !bad(x), !bad(y).
lone(x) :- edge(x, _), !(edge(y, x), bad(y)).
"""


@pytest.fixture
def db() -> deltafix.Database:
    db = deltafix.connect(PROGRAM)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c"), ("d", "e")])
        tx.insert("bad", [("c",)])
    return db


def test_each_rule_says_how_far_it_got(db):
    found = db.why_not('path("a", "e")', limit=1)
    assert str(found) == (
        'path("a", "e") does not hold\n'
        "  path(x, y) :- edge(x, y).\n"
        '    fails  edge("a", "e")\n'
        "  path(x, z) :- path(x, y), edge(y, z).\n"
        '    holds  path("a", "b")\n'
        '    fails  edge("b", "e")\n'
        'it would hold with  +edge("a", "e")'
    )


def test_suggestions_are_all_the_single_rows_where_one_is_enough(db):
    edits = db.why_not('path("a", "e")', limit=50).suggestions
    joins = {(x, y) for x in "abc" for y in "de"}

    def near(row):  # one to "d" leads on to "e" by another rule
        return row[1] == "d", row

    assert edits == tuple(((1, "edge", row),) for row in sorted(joins, key=near))


def test_a_failing_row_is_explained_in_turn(db):
    (attempt,) = db.why_not('clean("a", "e")', max_depth=2).attempts
    assert attempt.failed == 'path("a", "e")'
    assert attempt.below is not None
    assert [one.failed for one in attempt.below.attempts] == ['edge("a", "e")', 'edge("b", "e")']
    (flat,) = db.why_not('clean("a", "e")', max_depth=1).attempts
    assert flat.below is None


def test_a_row_is_not_explained_by_itself():
    db = deltafix.connect("""
    .decl p(x: number)
    .decl q(x: number)
    p(x) :- q(x).
    q(x) :- p(x).
    """)
    (attempt,) = db.why_not("p(1)", max_depth=5).attempts
    assert attempt.below is not None
    (inner,) = attempt.below.attempts
    assert (inner.failed, inner.below) == ("p(1)", None)


def test_a_row_that_another_dominates_in_recursion_names_that_one():
    db = deltafix.connect("""
    .decl edge(x: number, y: number)
    .decl near(x: number, d: number)
    near(0, 0).
    near(y, d + 1) :- near(x, d), edge(x, y).
    near(x, d) <= near(x, e) :- e < d.
    """)
    with db.transaction() as tx:
        tx.insert("edge", [(0, 1), (1, 2), (0, 2)])
    found = db.why_not("near(2, 2)", limit=0)
    assert found.rivals == ("near(2, 1)",)
    assert found.attempts[-1].derives


def test_what_is_forbidden_is_suggested_to_go(db):
    found = db.why_not('clean("a", "c")')
    (attempt,) = found.attempts
    assert attempt.held == ('path("a", "c")', 'bad("a") is absent')
    assert attempt.failed == '!bad("c"): it holds'
    assert found.suggestions == (((-1, "bad", ("c",)),),)


def test_a_group_that_is_there_after_all(db):
    with db.transaction() as tx:
        tx.insert("edge", [("c", "d")])
    found = db.why_not('lone("d")')
    assert found.attempts[0].failed == 'not (edge(y, "d"), bad(y))'
    assert found.suggestions == (((-1, "bad", ("c",)),), ((-1, "edge", ("c", "d")),))


def test_two_edits_where_one_is_not_enough(db):
    found = db.why_not('clean("c", "e")', limit=50)
    assert {len(edits) for edits in found.suggestions} == {2}
    assert (((-1, "bad", ("c",)), (1, "edge", ("c", "e")))) in found.suggestions


def test_an_input_row_is_simply_not_given(db):
    found = db.why_not('bad("a")')
    assert found.attempts == ()
    assert found.suggestions == (((1, "bad", ("a",)),),)
    assert "no rule derives it" in str(found)


def test_a_head_that_cannot_be_the_row():
    db = deltafix.connect(
        '.decl p(x: number, s: symbol)\np(1, "one").\np(x + 1, "up") :- p(x, "one").'
    )
    found = db.why_not('p(0, "up")', max_depth=1)
    assert found.attempts[0].failed == ""
    assert "which cannot be this row" in str(found)
    assert found.attempts[1].failed == "1 + 1 = 0"


def test_json_has_the_same(db):
    data = json.loads(db.why_not('clean("a", "c")').show("json"))
    assert data["attempts"][0]["failed"] == '!bad("c"): it holds'
    assert data["suggestions"] == [['-bad("c")']]
    assert "does not hold" in db.why_not('clean("a", "c")')._repr_html_()


def test_a_bound_on_work_is_told(db):
    with db.transaction() as tx:
        tx.insert("edge", [("a", f"x{i}") for i in range(200)])
    found = db.why_not('path("a", "zz")', max_work=50, limit=0)
    assert found.attempts[1].is_cut
    assert "(bound reached)" in str(found)
    assert found.suggestions == ()


def test_nothing_is_changed(db):
    before, rows = db.last_epoch, db.rows("path")
    db.why_not('path("c", "e")')
    assert (db.last_epoch, db.rows("path"), db.epoch) == (before, rows, 1)
    db.check_invariants()


def test_questions_out_of_place_are_refused(db):
    with pytest.raises(NoSuchFactError, match="holds, so nothing is missing"):
        db.why_not('path("a", "c")')
    with pytest.raises(FactError, match="max_depth=0"):
        db.why_not('path("a", "e")', max_depth=0)
    with db.transaction(), pytest.raises(TransactionError, match="has a transaction open"):
        db.why_not('path("a", "e")')


def test_an_aggregate_that_has_another_value_is_said_in_words():
    db = deltafix.connect("""
    .decl part(whole: symbol, cost: number)
    .decl item(x: symbol)
    .decl total(x: symbol, n: number)
    total(x, n) :- item(x), n = sum c : { part(x, c) }.
    """)
    with db.transaction() as tx:
        tx.insert("item", [("car",)])
        tx.insert("part", [("car", 3), ("car", 4)])
    found = db.why_not('total("car", 8)')
    assert found.attempts[0].failed == "sum over its rows = 8: it is 7"
    assert "~" not in str(found)
    assert found.suggestions == ()


def test_a_reducer_that_has_another_value_says_which():
    program = deltafix.Program.parse("""
    .functor mid(v: symbol): symbol
    .decl item(x: symbol)
    .decl part(whole: symbol, name: symbol)
    .decl first(x: symbol, n: symbol)
    first(x, n) :- item(x), n = @@mid c : { part(x, c) }.
    """)
    least = reducer("~", min, lambda a, v: None, lambda a: a, name="mid", partial=True)
    with deltafix.connect(program, reducers={"mid": least}) as db:
        with db.transaction() as tx:
            tx.insert("item", [("car",), ("bus",)])
            tx.insert("part", [("car", "b"), ("car", "c")])
        said = [db.why_not(f'first("{x}", "z")').attempts[0].failed for x in ("car", "bus")]
    assert said == [
        '@@mid over its rows = "z": it is "b"',
        '@@mid over its rows = "z": it has none',
    ]


def test_a_function_without_a_value_fails_by_name():
    program = """
    .functor half(x: number): number
    .decl e(x: number)
    .decl found(y: number)
    .input e
    found(y) :- e(x), y = @half(x) + 1.
    """
    with deltafix.connect(program, functors={"half": lambda x: None if x % 2 else x // 2}) as db:
        with db.transaction() as tx:
            tx.insert("e", [(3,)])
            tx.add_rule("found(y) :- e(x), y = @half(x).")
        found = db.why_not("found", (2,))
    assert [one.failed for one in found.attempts] == ["@half(3) = _", "@half(3) = 2"]


def test_what_is_near_is_suggested_first():
    db = deltafix.connect("""
    .decl far(x: symbol, y: symbol)
    .decl near(x: symbol, y: symbol)
    .decl good(y: symbol)
    .decl step(x: symbol, y: symbol)
    .decl may(x: symbol)
    step(x, y) :- far(x, y).
    may(x) :- near(x, y), good(y).
    may(x) :- step(x, y), good(y).
    """)
    with db.transaction() as tx:
        tx.insert("good", [(y,) for y in "abcdefg"])
    found = db.why_not('may("x")', limit=3)
    assert found.suggestions == tuple(((1, "near", ("x", y)),) for y in "abc")


ASKED = """
.decl e(y: number)
.decl s(x: number)
.decl up(x: number)
.decl next(x: number)
.input e, s
up(x) :- s(x).
up(x + 1) :- up(x), x < 20, c = count : { e(y), y < x }, c < 2.
next(x) :- s(x).
next(y) :- next(x), y = min z : { e(z), z > x }, !( e(z), z > 9, z < x ).
"""


def test_what_a_group_is_asked_for_is_no_reason():
    with deltafix.connect(ASKED) as db:
        with db.transaction() as tx:
            tx.insert("e", [(2,), (5,), (7,)])
            tx.insert("s", [(0,)])
        assert db.rows("up") == [(x,) for x in range(7)]
        assert db.rows("next") == [(0,), (2,), (5,), (7,)]
        assert [str(leaf.fact) for leaf in db.why("next(5)").leaves] == ["s(0)", "e(2)", "e(5)"]
        assert "~" not in db.why("up(6)").show()
        found = db.why_not("next(9)")
        assert "~" not in found.show()
        assert ((1, "s", (9,)),) in found.suggestions
        # There are more steps that might be taken before this one than can be looked at.
        assert ((1, "s", (7,)),) in db.why_not("up(7)", max_work=1_000).suggestions
        db.check_invariants()


def test_a_test_that_is_written_as_a_call_is_told_as_one():
    """It was told as `contains(..) = 0`, which holds, and `0 = 1`, which fails."""
    text = """
.decl s(x: symbol)
.decl both(x: symbol)
.decl neither(x: symbol)
.decl none(x: symbol)
.input s
both(x) :- s(x), contains("en", x), match("e.*", x), strlen(x) > 2.
neither(x) :- s(x), !contains("en", x), !match("e.*", x).
none(x) :- s(x), !(contains("en", x), strlen(x) + 1 > 3).
"""
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("s", [("env",), ("even",), ("aen",), ("x",), ("en",)])

        def tried(fact: str) -> tuple[tuple[str, ...], str]:
            (attempt,) = db.why_not(fact, limit=0).attempts
            return attempt.held, attempt.failed

        assert tried('both("x")') == (('s("x")',), 'contains("en", "x")')
        assert tried('both("aen")')[1] == 'match("e.*", "aen")'
        assert tried('both("en")') == (
            ('s("en")', 'contains("en", "en")', 'match("e.*", "en")', 'strlen("en") = 2'),
            "2 > 2",
        )
        assert tried('neither("env")')[1] == '!contains("en", "env")'
        behind = 's("env"), contains("en", "env"), (strlen("env") + 1) > 3'
        assert tried('none("env")')[1] == f"not ({behind})"
        assert db.why('both("even")').steps[0].tests == (
            'contains("en", "even")', 'match("e.*", "even")', 'strlen("even") = 4', "4 > 2",
        )  # fmt: skip
        assert db.why('neither("x")').steps[0].tests == (
            '!contains("en", "x")', '!match("e.*", "x")',
        )  # fmt: skip


def test_records_that_nothing_looks_at_are_nil_and_branches_are_not():
    text = """.type Pair = [x: number, y: number]
    .type Tree = Leaf {} | Node {x: number}
    .decl a(x: number, p: Pair)
    .decl b(x: number, t: Tree)
    .decl c(x: number, p: Pair, q: Pair)
    .decl v(x: number)
    .decl w(x: number)
    .decl z(x: number)
    .input a, b, c
    v(x) :- a(x, _).
    w(x) :- b(x, _).
    z(x) :- c(x, p, q), p = [y, _], y > 3."""
    with deltafix.connect(text) as db:
        assert db.why_not("v(1)").suggestions == (((1, "a", (1, None)),),)
        assert db.why_not("w(1)").suggestions == ()
        assert db.why_not("z(1)").suggestions == ()
