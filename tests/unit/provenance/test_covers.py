"""Which rows join to a value.

Sees: a set that is left out, or comes twice, or has a row to spare; work that grows with the square
of the rows; a height that is not the least.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

import deltafix
from deltafix.provenance.covers import Cover, Levels
from deltafix.provenance.nodes import Proposal


class Bits:
    """The join of sets as bits, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows):
        found = None
        for row in rows:
            self.calls += 1
            found = row if found is None else tuple(x | y for x, y in zip(found, row, strict=True))
        return found


def cover_of(goal: int, bits: list[int], join=None) -> Cover:
    values = {Proposal("r", (place, value)): (value,) for place, value in enumerate(bits)}
    return Cover((goal,), values, join or Bits())


def places(nodes) -> tuple[int, ...]:
    return tuple(node.row[0] for node in nodes)


@pytest.mark.parametrize("exact", [True, False])
def test_the_sets_are_those_of_brute_force_the_greatest_rows_first(exact) -> None:
    rng = Random(f"covers {exact}")
    several = 0
    for _ in range(200):
        goal = 15 if exact else rng.randrange(1, 16)
        bits = [rng.randrange(1, 16) for _ in range(rng.randrange(7))]
        cover = cover_of(goal, bits)
        joins = [
            set(chosen)
            for size in range(1, len(bits) + 1)
            for chosen in combinations(range(len(bits)), size)
            if cover.is_enough(cover.join((bits[place],) for place in chosen))
        ]
        wanted = sorted(tuple(sorted(one)) for one in joins if not any(o < one for o in joins))
        found = [places(nodes) for nodes in cover.each(cover.values) if nodes is not None]
        assert sorted(found) == wanted
        by_leaving_out = sorted(
            wanted, key=lambda one: [place in one for place in range(len(bits))]
        )
        assert found == by_leaving_out
        several += len(wanted) > 1
        levels, heights = Levels(Proposal("r", ()), cover), {}
        for node in sorted(cover.values, key=lambda _: rng.random()):
            heights[node] = rng.randrange(4)
            least = levels.tell(node, heights[node])
            below = [
                height
                for height in range(4)
                if cover.is_enough(
                    cover.join(cover.values[n] for n in heights if heights[n] <= height)
                )
            ]
            assert least == (below[0] if below else None)
    assert several > 50


def test_the_first_set_takes_work_in_the_rows_not_in_their_square() -> None:
    calls = []
    for size in (100, 1000):
        join = Bits()
        cover = cover_of(255, [1 << (place % 8) for place in range(size)], join)
        join.calls = 0
        first = next(nodes for nodes in cover.each(cover.values) if nodes is not None)
        assert places(first) == tuple(range(size - 8, size))
        calls.append(join.calls)
    assert calls[1] < 11 * calls[0]


JOINED = """
.type S <: number
.functor lub(x: number, y: number): number
.lattice S<> { Bottom -> 0, Lub -> @lub(_, _) }
.decl in0(k: number, v: number)  .input in0
.decl g(k: number, v: S<>)  .input g
.decl r(k: number, v: number)  .output r
g(k, as(v, S)) :- in0(k, v).
r(k, v) :- g(k, v).
"""


def test_given_rows_that_join_to_a_value_are_lower_than_a_rule_that_derives_it() -> None:
    with deltafix.connect(JOINED, functors={"lub": lambda x, y: x | y}) as db:
        with db.transaction() as tx:
            tx.insert("in0", [(2, 3)])
            tx.insert("g", [(2, 2), (2, 1)])
        proof = db.why("r", (2, 3))
        assert (proof.height, proof.is_smallest) == (1, True)
        assert [leaf.row for leaf in proof.leaves] == [(2, 1), (2, 2)]
        assert [p.height for p in db.why("r", (2, 3), all=True, limit=9)] == [1, 2]
        with db.transaction() as tx:
            tx.delete("g", [(2, 2)])
        assert [p.height for p in db.why("r", (2, 3), all=True, limit=9)] == [2]


def test_many_rows_that_join_cost_no_square_of_them() -> None:
    calls = 0

    def lub(x: int, y: int) -> int:
        nonlocal calls
        calls += 1
        return x | y

    asked = []
    with deltafix.connect(JOINED, functors={"lub": lub}) as db:
        for size in (200, 2000):
            with db.transaction() as tx:
                tx.insert("in0", [(size, place) for place in range(1, size)])
            ((_, value),) = [row for row in db.rows("g") if row[0] == size]
            calls = 0
            proof = db.why("r", (size, value))
            assert proof.height == 2
            asked.append(calls)
    assert asked[1] < 15 * asked[0]
