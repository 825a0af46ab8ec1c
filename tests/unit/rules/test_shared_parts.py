"""Hidden relations that say the same are one, and what an aggregate ranges over is not copied.

That rows are right is the oracle's to say (`tests/agree/test_engine_oracle.py`, whose programs
repeat aggregates and write equations into them); here is what is saved.
"""

from __future__ import annotations

import pytest

import deltafix
from deltafix.datalog.program import Program
from deltafix.plan.build import lower
from deltafix.plan.clause import Apply, Match
from deltafix.plan.normalize import Core
from deltafix.rules.check import typed

DECLARED = """
.decl p(x: number)
.input p
.decl q(x: number, y: number, f: float)
.input q
.decl o(x: number, n: number)
.output o
"""


def core_of(rules: str) -> Core:
    return lower(typed(Program.parse(DECLARED + rules)))


@pytest.mark.parametrize(
    "body",
    [
        "q(x, y, _)",
        "q(z, y, _), z = x",
        "q(z, y, _), x = z",
        "q(z, v, _), z = x, v = y",
        "q(z, v, f), y = v, z = w, w = x, f = f",
    ],
)
def test_an_aggregate_over_one_atom_folds_its_rows_where_they_lie(body: str) -> None:
    core = core_of(f"o(x, n) :- p(x), n = sum y : {{ {body} }}.")
    assert [(fold.source, fold.group, fold.value) for fold in core.folds] == [("q", (0,), 1)]
    assert {clause.head for clause in core.clauses} == {"o"}


@pytest.mark.parametrize(
    "body",
    ["q(x, y, _), y = 1", "q(x, y, _), x = y", "q(z, z, _), y = z", "q(z, y, _), z < x"],
)
def test_what_is_a_test_of_its_rows_is_a_relation_of_its_own(body: str) -> None:
    core = core_of(f"o(x, n) :- p(x), n = sum y : {{ {body} }}.")
    assert [fold.source for fold in core.folds] == ["~1"]


def test_alternatives_share_what_they_count() -> None:
    """Three aggregates, one twice, in a rule of two alternatives: there were twelve folds."""
    one = "count : { q(x, y, _), y > 1 }"
    core = core_of(
        f"o(x, a + b + c + m) :- p(x), a = {one}, b = {one}, "
        "c = sum y : { q(x, y, _), y > 2 }, (m = 1 ; q(x, m, _)), !(q(x, z, _), z > 7)."
    )
    assert [fold.op for fold in core.folds] == ["count", "sum"]
    hidden = {clause.head for clause in core.clauses if clause.head.startswith("~")}
    assert len(hidden) == 3  # what is counted, summed up and negated
    assert {fold.source for fold in core.folds} < hidden


def test_a_literal_of_a_proof_stays_for_each_that_is_written() -> None:
    core = core_of("o(x, 1) :- p(x), q(_, _, _), q(y, z, _), q(v, w, _).")
    (clause,) = (one for one in core.clauses if one.head == "o")
    assert len({*clause.body}) == len(clause.body) == 4


def test_what_is_counted_once_costs_once() -> None:
    rules = "o(x, a + b + m) :- p(x), {0} = count : {{ {1} }}, {2} = count : {{ {1} }}, "
    text = DECLARED + rules.format("a", "q(x, y, _), y > 1", "b") + "(m = 1 ; m = 2)."
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("p", [(x,) for x in range(10)])
            tx.insert("q", [(x, y, 0.5) for x in range(10) for y in range(30)])
        assert db.rows("o") == [(x, 56 + m) for x in range(10) for m in (1, 2)]
        assert db.last_epoch.derivations == 10 * 28 + 2 * 10  # those counted, and the rows of o


GROUPS = """
.decl sale(shop: symbol, item: number, amount: number)  .input sale
.decl o(shop: symbol, n: number)                        .output o
"""


@pytest.mark.parametrize(
    ("rule", "derivations"),
    [
        ("o(s, n) :- sale(s, _, _), n = count : { sale(s, _, _) }.", 2),
        ("o(s, n) :- sale(s, i, a), n = sum x : { sale(s, _, x) }.", 2),
        ("o(s, n) :- n = min x : { sale(s, _, x) }, sale(s, _, _), sale(s, _, _).", 2),
        ("o(s, n) :- sale(s, i, _), n = sum x : { sale(s, i, x) }.", 4),  # one row a group
        ("o(s, n + a) :- sale(s, _, a), n = count : { sale(s, _, _) }.", 4),  # each row says more
        ("o(s, n) :- sale(s, i, _), i > 0, n = count : { sale(s, _, _) }.", 3),
        ("o(s, n) :- sale(s, i, i), n = count : { sale(s, _, _) }.", 2),
    ],
)
def test_a_group_that_has_a_value_is_not_asked_for_its_rows(rule: str, derivations: int) -> None:
    """An edit of one row breaks the derivations of its group's value, and makes others."""
    given = {("a", 0, 5), ("a", 1, 1), ("a", 2, 3), ("b", 1, 1)}
    with deltafix.connect(GROUPS + rule) as db:
        with db.transaction() as tx:
            tx.insert("sale", sorted(given))
        assert db.last_epoch.derivations == derivations
        before = db.rows("o")
        assert {row[0] for row in before} == {"a", "b"}
        for row in (("b", 2, -1), ("c", 1, 1)):
            with db.transaction() as tx:
                tx.insert("sale", [row])
            assert {one[0] for one in tx.delta["o"].added} == {row[0]}
            with db.transaction() as tx:
                tx.delete("sale", [row])
            assert db.rows("o") == before
            db.check_invariants()


def test_a_group_without_rows_is_beside_none_of_them() -> None:
    core = core_of("o(x, n) :- q(x, _, _), n = count : { q(x, _, _) }.")
    (clause,) = (one for one in core.clauses if one.head == "o")
    assert [type(one) for one in clause.body] == [Match]
    assert clause.body[0].relation == core.folds[0].relation
    with_zero = core_of("o(x, n) :- p(x), n = count : { q(x, _, _) }.")
    assert len([one for one in with_zero.clauses if one.head == "o"]) == 2


def terms_of(rules: str) -> list[str]:
    bodies = (clause.body for clause in core_of(rules).clauses)
    return [str(one) for body in bodies for one in body if isinstance(one, Apply)]


def test_a_term_is_computed_once_and_one_of_constants_not_at_all() -> None:
    rule = (
        "o(x, a + b) :- q(x, y, _), a = (y + 1) * (y + 1) * (60 * 60), b = (y + 1) * 3600 - 0 * 7."
    )
    assert len(terms_of(rule)) == 6  # y + 1, twice times, times 3600, minus 0, and the sum
    assert not [one for one in terms_of(rule) if "60 *" in one or "0 * 7" in one]


ROWS = [(x, y, y / 2) for x in range(4) for y in range(5)]


@pytest.mark.parametrize(
    ("rule", "terms", "rows"),
    [
        # y and z are atoms' variables: both stay
        (
            "o(x, y) :- q(x, y, _), y = x + 1, z = x + 1, q(_, z, _).",
            2,
            [(x, x + 1) for x in range(4)],
        ),
        ("o(x, z) :- p(x), z = x / 0.", 1, []),
        # what may have no value is left to the engine
        ("o(x, z) :- p(x), z = 6 / 4 + x.", 2, [(x, x + 1) for x in range(4)]),
        (
            "o(x, z) :- p(x), z = 9223372036854775807 + 1 + x.",
            1,
            [(x, x - 2**63) for x in range(4)],
        ),
        (
            "o(x, z) :- q(x, z, f), f * 2.0 > 1.0 * 2.0, f * 2.0 < 4.0.",
            2,
            [(x, y) for x, y, f in ROWS if 2 < f * 2 < 4],
        ),
    ],
)
def test_terms_that_stay(rule: str, terms: int, rows: list[tuple]) -> None:
    assert len(terms_of(rule)) == terms
    with deltafix.connect(DECLARED + rule) as db:
        with db.transaction() as tx:
            tx.insert("p", [(x,) for x in range(4)])
            tx.insert("q", ROWS)
        assert db.rows("o") == rows


@pytest.mark.parametrize(
    ("body", "xs"),
    [
        ("z = x + 1, z = w * 2, y = x + 1, y > 0", [1, 3, 5]),
        ("y = x + 1, z = x + 1, z = w * 2, y > 0", [1, 3, 5]),
        ("a = x + 1, b = w * 2, c = x + 1, c = w * 2, a <= b", [1, 3, 5]),
        ("a = w * 2, b = x + 1, c = x + 1, a = x + 1, c = w * 2, b > 0", [1, 3, 5]),
        ("a = 2 * 2, a = x + 1, b = x + 1, b = w * 2", [3]),
        ("a = [x + 1], b = [x + 1], b = [v], v = w * 2, a = [v]", [1, 3, 5]),
    ],
)
def test_a_variable_that_several_terms_say_is_still_one(body: str, xs: list[int]) -> None:
    """A term that went left the others of its variable with one that nothing bound."""
    text = f"""
.type cell = [value: number]
.decl p(x: number)
.decl q(w: number)
.decl o(x: number)
.decl none(x: number)
p(1). p(2). p(3). p(5). q(1). q(2). q(3). q(7).
o(x) :- p(x), q(w), {body}.
none(x) :- p(x), !( q(w), {body} ).
"""
    with deltafix.connect(Program.parse(text)) as db:
        db.settle()
        assert db.rows("o") == [(x,) for x in xs]
        assert db.rows("none") == [(x,) for x in (1, 2, 3, 5) if x not in xs]
