"""What set operators write, and what they refuse. Sees: a wrong rule, an unclear refusal."""

from __future__ import annotations

import re

import pytest

import deltafix
from deltafix.errors import ProgramError
from deltafix.rules.operators import (
    aggregate,
    const,
    difference,
    filter_,
    join,
    lfp,
    product,
    project,
    union,
)


def rules_of(program: deltafix.Program) -> list[str]:
    return [line for line in program.show().splitlines() if not line.startswith(".")]


def test_operators_lower_to_the_rules_that_one_would_write() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)
        lfp(lambda _: product(r, r), name="pairs")
        lfp(lambda _: difference(project(e, lambda a, b: b), r), name="ends")
        lfp(lambda _: difference(r, project(e, lambda a, b: a)), name="sinks")
        lfp(lambda _: aggregate(e, "sum", 1, by=[0]), name="total")
        lfp(lambda _: aggregate(union(r, project(e, lambda a, b: a)), "count"), name="nodes")
    assert rules_of(p) == [
        "pairs(a, a2) :- r(a), r(a2).",
        "ends(b) :- e(a, b), !r(b).",
        "sinks(a) :- r(a), !e(a, _).",
        "group_1(a) :- e(a, b).",
        "total(a, sum) :- group_1(a), sum = sum b : { e(a, b) }.",
        "set_1(a) :- r(a).",
        "set_1(a) :- e(a, b).",
        "nodes(count) :- count = count : { set_1(c0) }.",
    ]


def test_an_equality_of_a_column_with_what_is_computed_from_it_is_a_test() -> None:
    with deltafix.Program() as p:
        r = p.relation("r", a=int)
        steps = project(r, lambda a: (a, a * a))
        lfp(lambda _: join(steps, r, on=[(0, 0), (1, 0)]), name="s")
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(0,), (1,), (2,)])
        assert list(db.rows("s")) == [(0, 0, 0), (1, 1, 1)]


def test_what_has_no_value_is_not_taken_away() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)
        lfp(lambda _: difference(r, aggregate(e, "max", 1)), name="s")
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(1,), (2,)])
        assert list(db.rows("s")) == [(1,), (2,)]
        with db.transaction() as tx:
            tx.insert("e", [(7, 2)])
        assert tx.delta["s"].removed == [(2,)]


def test_python_functions_filter_and_project() -> None:
    with deltafix.Program() as p:
        name = p.relation("name", n=str)
        short = p.functor("short", returns=int, n=str)
        upper = p.functor("upper", returns=str, n=str)
        lfp(lambda _: project(filter_(short, name), upper), name="s")
    functors = {"short": lambda n: int(len(n) < 4), "upper": str.upper}
    with deltafix.connect(p, functors=functors) as db:
        with db.transaction() as tx:
            tx.insert("name", [("ann",), ("bertha",)])
        assert tx.delta["s"].added == [("ANN",)]


def test_a_fixpoint_inside_another_uses_its_set() -> None:
    with deltafix.Program() as p:
        r, e, same = (
            p.relation("r", a=int),
            p.relation("e", a=int, b=int),
            p.relation("same", a=int, b=int),
        )

        def closed_under(s, pairs, name):
            return lfp(lambda t: union(s, join(pairs, t, on=[(0, 0)], project=_second)), name=name)

        outer = lfp(
            lambda s: union(
                r, join(e, closed_under(s, same, "near"), on=[(0, 0)], project=_second)
            ),
            name="live",
        )
    assert outer.name == "live"
    assert [relation.name for relation in p.relations] == ["r", "e", "same", "live", "near"]
    assert rules_of(p) == [
        "near(c0) :- live(c0).",
        "near(b) :- same(a, b), near(a).",
        "live(a) :- r(a).",
        "live(b) :- e(a, b), near(a).",
    ]


def _second(a, b, _):
    return b


def test_several_sets_at_once() -> None:
    with deltafix.Program() as p:
        zero, up = p.relation("zero", a=int), p.relation("up", a=int, b=int)
        even, odd = lfp(
            lambda even, odd: (
                union(zero, join(up, odd, on=[(0, 0)], project=_second)),
                join(up, even, on=[(0, 0)], project=_second),
            ),
            name=("even", "odd"),
        )
        lfp(lambda _: join(even, odd, on=[(0, 0)]), name="both")
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("zero", [(0,)])
            tx.insert("up", [(0, 1), (1, 2), (2, 3)])
        assert (list(db.rows("even")), list(db.rows("odd"))) == ([(0,), (2,)], [(1,), (3,)])
        with db.transaction() as tx:
            tx.insert("up", [(3, 3)])
        assert tx.delta["both"].added == [(3, 3)]


REFUSED = {
    "lfp 's' > union[1] > difference.right takes away 's'": lambda r, s: union(r, difference(r, s)),
    "lfp 's' > union[0] > join.left > aggregate goes over 's'": lambda r, s: union(
        join(aggregate(union(r, s), "max", 0), r, on=[(0, 0)], project=lambda a, b: a), r
    ),
    "lfp 's' > union[1] > lfp 't' > union[2] > difference.right takes away 's'": lambda r, s: union(
        r, lfp(lambda t: union(r, t, difference(r, s)), name="t")
    ),
    "lfp 's' > union[1] > difference.left > difference.right takes away 's'": lambda r, s: union(
        r, difference(difference(r, s), r)
    ),
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_not_monotone_is_refused_by_its_path(path) -> None:
    with deltafix.Program() as p:
        r = p.relation("r", a=int)
        with pytest.raises(ProgramError, match=re.escape(path)):
            lfp(lambda s: REFUSED[path](r, s), name="s")


def test_a_set_of_several_that_takes_away_another_is_refused() -> None:
    with deltafix.Program() as p:
        r = p.relation("r", a=int)
        with pytest.raises(ProgramError, match=r"lfp 'a' > difference.right takes away 'b'"):
            lfp(lambda a, b: (difference(r, b), difference(r, a)), name=("a", "b"))


def test_what_is_taken_away_twice_may_recur() -> None:
    with deltafix.Program() as p:
        r, e = p.relation("r", a=int), p.relation("e", a=int, b=int)
        # A node is safe if it has no successor that is not: from the leaves up.
        unsafe = lambda s: project(  # noqa: E731  the inner difference, as it is read
            difference(e, product(r, s)), lambda a, b: a
        )
        lfp(lambda s: difference(r, unsafe(s)), name="s")
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("r", [(n,) for n in range(5)])
            tx.insert("e", [(0, 1), (1, 2), (3, 4), (4, 3)])
        assert list(db.rows("s")) == [(0,), (1,), (2,)]
        with db.transaction() as tx:
            tx.delete("e", [(4, 3)])
            tx.insert("e", [(2, 2)])
        assert (tx.delta["s"].added, tx.delta["s"].removed) == (
            [(3,), (4,)],
            [(0,), (1,), (2,)],
        )


def test_operators_refuse_what_does_not_fit() -> None:
    with deltafix.Program() as p:
        one, two = p.relation("one", a=int), p.relation("two", a=int, b=str)
        with pytest.raises(TypeError, match="difference of different columns"):
            difference(one, two)
        with pytest.raises(ValueError, match="no aggregate 'median'; one of count, sum"):
            aggregate(one, "median", 0)
        with pytest.raises(ValueError, match="sum wants a column"):
            aggregate(one, "sum")
        with pytest.raises(ValueError, match="count counts rows"):
            aggregate(one, "count", 0)
        with pytest.raises(ValueError, match="column 2: positions go to 1"):
            aggregate(two, "count", by=[2])
        with pytest.raises(TypeError, match="holds symbols"):
            aggregate(two, "sum", 1)
        with pytest.raises(TypeError, match="2 argument"):
            lfp(lambda s, t: (one, one), name="s")
        with pytest.raises(TypeError, match="its function gave 1"):
            lfp(lambda s, t: one)
        with pytest.raises(ProgramError, match="'b' needs a part that does not use"):
            lfp(lambda a, b: (one, b), name=("a", "b"))
        with pytest.raises(TypeError, match="gives a comparison, an atom or a functor"):
            filter_(lambda a: a + 1, one)
        assert const([1]).types == ("number",)
    assert [relation.name for relation in p.relations] == ["one", "two"]


def test_fixpoints_lower_to_plain_rules() -> None:
    with deltafix.Program() as p:
        roots, edges = p.relation("root", n=int), p.relation("edge", source=int, target=int)
        lfp(
            lambda s: union(
                roots, const([7]), join(edges, s, on=[(0, 0)], project=lambda u, v, _: v)
            ),
            name="live",
        )
        lfp(lambda s: union(edges, join(s, s, on=[(1, 0)], project=lambda a, b, c, d: (a, d))))
        lfp(
            lambda s: filter_(lambda a, b: a < b, project(edges, lambda a, b: (b, a + 1))),
            name="up",
        )
    assert (
        p.show()
        == """\
.decl root(n: number)
.decl edge(source: number, target: number)
.decl live(c0: number)
.decl lfp_1(c0: number, c1: number)
.decl up(c0: number, c1: number)
live(n) :- root(n).
live(7).
live(target) :- edge(source, target), live(source).
lfp_1(source, target) :- edge(source, target).
lfp_1(c0, c1) :- lfp_1(c0, c12), lfp_1(c12, c1).
up(target, source + 1) :- edge(source, target), target < source + 1.
"""
    )


def test_fixpoints_and_joins_refuse_what_does_not_fit() -> None:
    with deltafix.Program() as p:
        one, two = p.relation("one", a=int), p.relation("two", a=int, b=str)
        with pytest.raises(TypeError, match="different columns"):
            union(one, two)
        with pytest.raises(ValueError, match="positions go to 0 and 1"):
            join(one, two, on=[(0, 2)])
        with pytest.raises(ValueError, match="at least one row"):
            const([])
        with pytest.raises(TypeError, match="differ"):
            const([1, "a"])
        with pytest.raises(ProgramError, match="does not use its argument"):
            lfp(lambda s: s)
    with pytest.raises(ProgramError, match="no program is open"):
        lfp(lambda s: const([1]))
