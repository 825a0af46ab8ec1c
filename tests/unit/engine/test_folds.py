"""Aggregates in the engine: values, work per edit, undo, reducers of the user's.

Sees: values that drift, groups that are looked at in full where their change would do, state that
survives a rollback.
"""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.engine.functors import Functors
from deltafix.engine.run import STRATEGIES
from deltafix.errors import BudgetError, ProgramError

SALES = """
.decl sale(shop: symbol, item: symbol, amount: number)
.input sale
.decl shop(name: symbol)
.input shop
.decl total(shop: symbol, n: number, sum: number, low: number, high: number)
.output total
total(s, count : { sale(s, _, _) }, t, lo, hi) :-
    shop(s), t = sum a : { sale(s, _, a) }, lo = min a : { sale(s, _, a) },
    hi = max a : { sale(s, _, a) }.
.decl average(shop: symbol, mean: float)
average(s, m) :- shop(s), m = mean a : { sale(s, _, a) }.
"""


def sales(rng: Random, count: int) -> list[tuple]:
    rows = {(f"s{rng.randrange(8)}", f"i{n}", rng.randrange(-50, 50)) for n in range(count)}
    return sorted(rows)


def expected(rows: set[tuple]) -> dict[str, tuple]:
    by_shop: dict[str, list[int]] = {}
    for shop, _, amount in rows:
        by_shop.setdefault(shop, []).append(amount)
    return {s: (len(v), sum(v), min(v), max(v), sum(v) / len(v)) for s, v in by_shop.items()}


def shown(db: deltafix.Database) -> dict[str, tuple]:
    means = dict(db.rows("average"))
    return {row[0]: (*row[1:], means[row[0]]) for row in db.rows("total")}


@pytest.mark.parametrize("size", [20, 2000])
def test_aggregates_follow_every_edit(size: int) -> None:
    rng = Random(size)
    rows = set(sales(rng, size))
    with deltafix.connect(SALES) as db:
        with db.transaction() as tx:
            tx.insert("shop", [(f"s{n}",) for n in range(8)])
            tx.insert("sale", sorted(rows))
        assert shown(db) == expected(rows)
        for epoch in range(30):
            gone = set(rng.sample(sorted(rows), min(len(rows), rng.choice([1, 3, size // 4]))))
            # Every few epochs the extremes themselves go, which is what `min` cannot subtract.
            if epoch % 3 == 0:
                gone |= {min(rows, key=lambda r: r[2]), max(rows, key=lambda r: r[2])}
            came = {
                (f"s{rng.randrange(8)}", f"n{epoch}.{n}", rng.randrange(-60, 60)) for n in range(3)
            }
            rows = (rows - gone) | came
            with db.transaction() as tx:
                tx.delete("sale", sorted(gone))
                tx.insert("sale", sorted(came))
            db.check_invariants()
            assert shown(db) == expected(rows)


def test_an_edit_touches_its_group_only() -> None:
    with deltafix.connect(SALES) as db:
        with db.transaction() as tx:
            tx.insert("shop", [(f"s{n}",) for n in range(500)])
            tx.insert("sale", [(f"s{n % 500}", f"i{n}", n) for n in range(5000)])
        with db.transaction() as tx:
            tx.insert("sale", [("s7", "more", 1)])
        assert {row[0] for row in tx.delta["total"].added} == {"s7"}
        assert db.last_epoch.derivations < 20


def test_float_sums_return_to_the_old_value() -> None:
    program = """
    .decl v(k: number, x: float)
    .input v
    .decl total(x: float)
    total(t) :- t = sum x : { v(_, x) }.
    """
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("v", [(1, 0.1), (2, 0.2)])
        before = db.rows("total")
        with db.transaction() as tx:
            tx.insert("v", [(3, 1e16)])
        with db.transaction() as tx:
            tx.delete("v", [(3, 1e16)])
        assert db.rows("total") == before == [(0.1 + 0.2,)]


def test_a_rolled_back_epoch_leaves_the_groups_as_they_were() -> None:
    program = SALES + "\n.decl twice(a: symbol, b: symbol)\ntwice(a, b) :- shop(a), shop(b).\n"
    with deltafix.connect(program, max_rows=2000) as db:
        with db.transaction() as tx:
            tx.insert("shop", [("s1",), ("s2",)])
            tx.insert("sale", [("s1", "a", 3), ("s1", "b", 5), ("s2", "c", 7)])
        before = shown(db)
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.delete("sale", [("s1", "a", 3)])
            tx.insert("sale", [("s2", "d", -1)])
            tx.insert("shop", [(f"x{n}",) for n in range(60)])
        assert shown(db) == before
        with db.transaction() as tx:
            tx.delete("sale", [("s1", "b", 5)])
        assert shown(db)["s1"] == (1, 3, 3, 3, 3.0)


def test_an_aggregate_over_nothing() -> None:
    program = """
    .decl v(x: number)
    .input v
    .decl n(x: number)
    n(count : { v(_) }).
    .decl least(x: number)
    least(m) :- m = min x : { v(x) }.
    """
    with deltafix.connect(program) as db:
        assert db.rows("n") == [(0,)]
        assert db.rows("least") == []
        with db.transaction() as tx:
            tx.insert("v", [(4,)])
        assert (db.rows("n"), db.rows("least")) == ([(1,)], [(4,)])
        with db.transaction() as tx:
            tx.delete("v", [(4,)])
        assert (tx.delta["n"].added, tx.delta["least"].removed) == ([(0,)], [(4,)])


def test_a_count_of_a_recursive_relations_groups() -> None:
    program = """
    .decl edge(x: number, y: number)
    .input edge
    .decl reach(x: number, fan: number)
    reach(0, count : { edge(0, _) }).
    reach(y, n) :- reach(x, _), edge(x, y), n = count : { edge(y, _) }.
    """
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(0, 1), (1, 2), (1, 3)])
        assert db.rows("reach") == [(0, 1), (1, 2), (2, 0), (3, 0)]
        with db.transaction() as tx:
            tx.insert("edge", [(3, 0)])
            tx.delete("edge", [(1, 2)])
        assert db.rows("reach") == [(0, 1), (1, 1), (3, 1)]


def test_an_aggregate_in_recursion_with_itself_is_refused() -> None:
    program = """
    .decl p(x: number)
    p(1).
    p(n) :- p(x), n = count : { p(y), y <= x }.
    """
    with pytest.raises(ProgramError) as caught:
        deltafix.connect(program)
    assert {found.code for found in caught.value.diagnostics} == {"DF140"}


def test_a_string_functor_is_asked_once_per_argument_tuple_of_many_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops: list[int] = []
    asked: list[int] = []
    plain, one = Functors.reply, Functors._answer_one

    def stopped(self: Functors) -> None:
        stops.append(1)
        plain(self)

    def counted(self: Functors, number: int, *arguments: int) -> None:
        asked.append(number)
        one(self, number, *arguments)

    monkeypatch.setattr(Functors, "reply", stopped)
    monkeypatch.setattr(Functors, "_answer_one", counted)
    program = """
    .decl part(a: symbol, b: symbol)
    .input part
    .decl path(p: symbol, n: number)
    path(cat(a, "/", b), strlen(b)) :- part(a, b), !contains("x", a).
    """
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("part", [("a", "b"), ("ax", "b"), ("c", "dd")])
        assert db.rows("path") == [("a/b", 1), ("c/dd", 2)]
        assert len(asked) == 9  # contains: 3; cat: "a/" and "a/b", twice; strlen: 2
        assert len(stops) == 4
        with db.transaction() as tx:
            tx.delete("part", [("a", "b")])
        with db.transaction() as tx:
            tx.insert("part", [("a", "b")])
        assert (len(asked), len(stops)) == (9, 4)
        db.check_invariants()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("o(cat(a, b)) :- p(a), p(b).", 'o(cat(a, "-")) :- q(a, b), b = "x".'),
        ("o(cat(a, b)) :- p(a), p(b).", 'o(cat(a, "-")) :- q(a, b), b != "y", a != "y".'),
        ("o(cat(a, b)) :- p(a), q(a, b).", 'o(cat(a, "-")) :- q(a, b), b != "x", a != "y".'),
    ],
)
def test_rows_behind_a_stop_for_functors_are_tested_by_their_own_rule(one: str, other: str) -> None:
    """Looking ahead for calls goes up to the next rule, whose tests drop rows before they join."""
    text = f"""
    .decl p(a: symbol)
    .decl q(a: symbol, b: symbol)
    .input p, q
    .decl o(a: symbol)
    .output o
    {one}
    {other}
    """
    rows = [("p", (f"a{n}",)) for n in range(6)] + [("q", (f"a{n}", "x")) for n in range(3)]
    with deltafix.connect(text) as at_once, deltafix.connect(text) as one_by_one:
        with at_once.transaction() as tx:
            for name, row in rows:
                tx.insert(name, [row])
        for name, row in rows:
            with one_by_one.transaction() as tx:
                tx.insert(name, [row])
        found = at_once.rows("o")
        assert found == one_by_one.rows("o")
        assert len(found) >= 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_load_stops_for_functors_once_for_many_rows_wherever_they_stand(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    asked: list[int] = []
    plain = Functors.reply

    def counted(self: Functors) -> None:
        asked.append(1)
        plain(self)

    monkeypatch.setattr(Functors, "reply", counted)
    program = """
    .decl part(a: symbol, b: symbol)
    .decl more(b: symbol, n: number)
    .input part, more
    .decl named(p: symbol, n: number)
    .output named
    named(cat(a, to_string(n)), strlen(cat(b, a))) :- part(a, b), more(b, n), n < 90.
    """
    parts = [(f"a{n % 40}", f"b{n}") for n in range(200)]
    more = [(f"b{n}", n % 100) for n in range(200)]
    with deltafix.connect(program, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("part", parts)
            tx.insert("more", more)
        first = len(asked)
        assert first <= 8
        held = {
            (f"{a}{n}", len(b + a)) for (a, b), (_, n) in zip(parts, more, strict=True) if n < 90
        }
        assert set(db.rows("named")) == held
        with db.transaction() as tx:
            tx.delete("more", more[:50])
            tx.insert("more", [(b, n + 1) for b, n in more[:50]])
        assert len(asked) - first <= 8
        db.check_invariants()
