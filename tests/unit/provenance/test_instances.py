"""What follows at once from rows, and in how many ways.

Sees: a pass over the data, a set inside that is not followed, a wrong refusal.
"""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.engine.run import STRATEGIES
from deltafix.errors import ExplanationError, NoSuchFactError
from deltafix.provenance.ask import Held, _step
from deltafix.provenance.state import committed
from deltafix.provenance.words import Words
from deltafix.rules.operators import difference, join, lfp, product, project, union

REACH = """
.decl e(a: number, b: number)  .input e
.decl s(a: number)  .output s
s(0).
s(b) :- s(a), e(a, b).
"""


def _second(a, b, _):
    return b


def test_a_step_looks_at_the_rows_of_its_answer() -> None:
    with deltafix.connect(REACH) as db:
        with db.transaction() as tx:
            tx.insert("e", [(n, n + 1) for n in range(2000)] + [(5, 9)])
        with committed(db) as state:
            rules = Held(state, Words.of(db))
            found = _step(rules, "s", [(5,)], {"s"})
            held = rules.by(rules.words.rules_for("s")[0])
            assert (sorted(found), held.looked_at, held._orders) == ([(6,), (9,)], 2, {})
        assert db.step_from_delta("s", [(5,), (9,)]) == [(6,), (9,), (10,)]
        assert db.derivation_count("s", (9,)) == 2
        assert db.derivation_count("s", (0,)) == 1  # the program's own fact


def test_a_count_goes_from_the_head_through_an_index() -> None:
    with deltafix.connect(REACH) as db:
        with db.transaction() as tx:
            tx.insert("e", [(0, n) for n in range(1, 1000)] + [(7, 8), (8, 8)])
        with committed(db) as state:
            rules = Held(state, Words.of(db))
            (clause,) = [c for c in rules.words.rules_for("s") if c.body]
            held = rules.by(clause)
            assert len(list(held.solutions(clause.body, {clause.args[0]: 8}))) == 3
            assert held.looked_at <= 6
            assert held._orders == {}


def test_a_row_that_does_not_hold_has_no_step_and_no_count() -> None:
    with deltafix.connect(REACH) as db:
        with pytest.raises(NoSuchFactError, match=r"s\(5\) does not hold"):
            db.step_from_delta("s", [(0,), (5,)])
        with pytest.raises(NoSuchFactError, match=r"s\(5\) does not hold"):
            db.derivation_count("s", (5,))
        with pytest.raises(deltafix.DeltafixError, match="no relation"):
            db.step_from_delta("nothing", [])


def test_a_given_row_has_no_derivation() -> None:
    with deltafix.connect(REACH) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 2)])
        assert db.derivation_count("e", (1, 2)) == 0
        assert db.step_from_delta("e", [(1, 2)]) == []


PASSED = """
.type Set <: number
.functor lub(x: number, y: number): number
.lattice Set<> { Bottom -> 0, Lub -> @lub(_, _) }
.decl e(k: number, v: number)  .input e
.decl bits(k: number, v: Set<>)
.decl seen(k: number)
.decl low(k: number, v: number)
.output bits, seen, low
bits(k, as(v, Set)) :- e(k, v).
bits(l, v) :- seen(k), bits(k, v), e(l, k).
seen(k) :- bits(k, _).
low(k, 0) :- bits(k, _).
low(k, v + 1) :- low(k, v), v < 2.
"""


def test_a_rule_of_a_higher_stratum_sees_no_row_that_has_been_replaced() -> None:
    with deltafix.connect(PASSED, functors={"lub": lambda x, y: x | y}) as db:
        for row in ((1, 2), (2, 1), (1, 4), (2, 4), (3, 1)):
            with db.transaction() as tx:
                tx.insert("e", [row])
        assert (1, 7) in set(db.rows("bits"))
        assert db.derivation_count("low", (1, 0)) == 1


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
def test_oracle_counts_of_rows_that_are_given_too(strategy) -> None:
    text = """
    .decl e(a: number, b: number)  .input e
    .decl once(a: number)  .input once
    .decl far(a: number, b: number)  .input far
    once(b) :- e(_, b).
    once(a) :- e(a, a).
    far(a, c) :- e(a, b), e(b, c).
    far(a, c) :- far(a, b), e(b, c), b != c.
    """
    rng = Random(strategy)
    with deltafix.connect(text, strategy=strategy) as db:
        given: dict[str, set] = {"e": set(), "once": set(), "far": set()}
        for _ in range(25):
            with db.transaction() as tx:
                for name, width in (("e", 2), ("once", 1), ("far", 2)):
                    gone = {row for row in given[name] if rng.random() < 0.3}
                    new = {tuple(rng.choices(range(4), k=width)) for _ in range(2)}
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(new))
                    given[name] = (given[name] - gone) | new
            e, far = given["e"], set(db.rows("far"))
            for (b,) in db.rows("once"):
                ways = sum(y == b for _, y in e) + ((b, b) in e)
                assert db.derivation_count("once", (b,)) == ways
            for a, c in far:
                ways = sum((a, b) in e and (b, c) in e for b in range(4))
                ways += sum((a, b) in far and (b, c) in e and b != c for b in range(4))
                assert db.derivation_count("far", (a, c)) == ways


def test_a_step_goes_through_the_fixpoints_inside() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)
        same = p.relation("same", a=int, b=int)

        def near(s):
            return lfp(lambda t: union(s, join(same, t, on=[(0, 0)], project=_second)), name="t")

        live = lfp(lambda s: union(r, join(e, near(s), on=[(0, 0)], project=_second)), name="live")
    assert str(live.step_from_delta).splitlines() == [
        "Δt(c0) :- Δlive(c0).",
        "Δt(b) :- old same(a, b), Δt(a).",
        "Δlive(b) :- old e(a, b), Δt(a).",
    ]
    assert str(live.derivation_count).splitlines() == [
        "live(a): count : { r(a) }",
        "live(b): count : { e(a, b), t(a) }",
    ]
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(0,)])
            tx.insert("same", [(0, 1), (1, 2), (2, 0)])
            tx.insert("e", [(2, 10), (1, 10), (10, 11)])
        assert live.step_from_delta(db, [(0,)]) == [(10,)]  # not on to 11: that is another step
        assert live.derivation_count(db, (10,)) == 2


def test_a_set_inside_that_does_not_need_the_argument_may_be_taken_away() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)

        def allowed():
            return difference(e, lfp(lambda _: product(r, r), name="forbidden"))

        s = lfp(lambda s: union(r, join(allowed(), s, on=[(0, 0)], project=_second)), name="s")
    assert s.inner == ()
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(0,), (1,)])
            tx.insert("e", [(0, 1), (1, 2)])
        assert s.step_from_delta(db, [(0,), (1,)]) == [(2,)]


def test_what_takes_itself_away_twice_has_counts_and_no_step() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)
        s = lfp(
            lambda s: difference(r, project(difference(e, product(r, s)), lambda a, b: a)),
            name="s",
        )
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(0,), (1,), (2,)])
            tx.insert("e", [(0, 1), (2, 2)])
        assert list(db.rows("s")) == [(0,), (1,)]
        assert s.derivation_count(db, (0,)) == 1
        with pytest.raises(ExplanationError, match="no step from a delta"):
            s.step_from_delta(db, [(1,)])


CHOICES = """
.decl e(x: number, y: number)
.decl a(x: number, y: number)
.decl b(x: number)
.input e, a, b
.decl r(x: number)
.decl q(x: number)
.output r, q
r(x) :- b(x), e(x, x).
r(x) :- e(y, x), (a(y, x), r(y) ; b(x), r(x)), (r(y) ; a(x, z), b(z)), (b(y) ; r(x), a(x, y)).
q(x) :- q(y), e(y, x), (a(y, x) ; b(x)), (a(x, z) ; b(x), z = y), (b(y) ; e(x, x)),
        !(a(x, w), w != z).
q(x) :- b(x).
"""
"""Disjunctions that stand alone: relations of the planner's, within the recursion and below it."""


def _instances(name: str, held: dict[str, set]) -> list[tuple]:
    """The instances of the rules, each with its head and the rows of the relation in its body."""
    e, a, b, s = held["e"], held["a"], held["b"], held[name]
    found = [(x, frozenset()) for (x,) in b if name == "q" or (x, x) in e]
    for y, x in e:
        if name == "r":
            one = [[y]] * ((y, x) in a and (y,) in s) + [[x]] * ((x,) in b and (x,) in s)
            two = [[y]] * ((y,) in s) + [[] for u, z in a if u == x and (z,) in b]
            three = [[]] * ((y,) in b) + [[x]] * ((x,) in s and (x, y) in a)
            ways = [(*p, *q, *r) for p in one for q in two for r in three]
        else:
            some = ((y, x) in a) + ((x,) in b), ((y,) in b) + ((x, x) in e)
            zs = [z for u, z in a if u == x] + [y] * ((x,) in b)
            fit = sum(all(w == z for u, w in a if u == x) for z in zs)
            ways = [(y,)] * (some[0] * some[1] * fit * ((y,) in s))
        found += [(x, frozenset(way)) for way in ways]
    return found


@pytest.mark.parametrize("pragma", ["", '.pragma "magic-transform" "*"'])
def test_oracle_steps_and_counts_go_through_disjunctions_that_stand_alone(pragma: str) -> None:
    rng = Random(f"choices {pragma}")
    steps = 0
    with deltafix.connect(CHOICES + pragma) as db:
        assert any(one.hidden for one in db.plan.relations)
        held: dict[str, set] = {"e": set(), "a": set(), "b": set()}
        for _ in range(60):
            with db.transaction() as tx:
                for name, rows in held.items():
                    width = len(db.schemas[name].types)
                    gone = {row for row in rows if rng.random() < 0.2}
                    new = {tuple(rng.choices(range(4), k=width)) for _ in range(rng.randint(1, 3))}
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(new))
                    held[name] = (rows - gone) | new
            for name in ("r", "q"):
                rows = set(db.rows(name))
                some = {row for row in rows if rng.random() < 0.4}
                used = {x for (x,) in some}
                ways = _instances(name, {**held, name: rows})
                assert {(x,) for x, _ in ways} <= rows
                follows = {(x,) for x, way in ways if way & used}
                assert db.step_from_delta(name, sorted(some)) == sorted(follows), (name, held, some)
                steps += bool(follows)
                for x in [x for (x,) in rows]:
                    assert db.derivation_count(name, (x,)) == sum(x == head for head, _ in ways)
    assert steps > 40


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("s(x) :- e(x, _), !(e(x, y), !s(y)).", "the rules of s negate 's'"),
        ("s(x) :- e(x, _), !t(x). t(x) :- e(x, y), !s(y).", "the rules of s, t negate 's'"),
    ],
)
def test_a_step_that_is_refused_says_by_which_construct(rule: str, reason: str) -> None:
    text = ".decl e(x: number, y: number) .input e .decl s(x: number) .output s "
    text += (".decl t(x: number) " if "t(" in rule else "") + rule
    with deltafix.connect(text) as db, pytest.raises(ExplanationError, match=reason):
        db.step_from_delta("s", [], through=["t"] if "t(" in rule else [])
