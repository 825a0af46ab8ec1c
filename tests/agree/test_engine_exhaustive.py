"""oracle_*: all small graphs and all edits on them, for reachability and for closure.

Sees: any cycle that keeps itself alive, any fact lost with a derivation left.
"""

from __future__ import annotations

from itertools import product

import pytest

import deltafix
from deltafix.kernel import layout
from deltafix.kernel.jit import JIT_DISABLED

REACH = """
.decl edge(x: number, y: number)
.decl reach(x: number)
.input edge
reach(0).
reach(y) :- reach(x), edge(x, y).
"""
CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""


def reachable(edges: frozenset[tuple[int, int]]) -> set[tuple[int, ...]]:
    seen = {0}
    while True:
        more = {y for x, y in edges if x in seen} - seen
        if not more:
            return {(x,) for x in seen}
        seen |= more


def closure(edges: frozenset[tuple[int, int]]) -> set[tuple[int, ...]]:
    paths = set(edges)
    while True:
        more = {(x, w) for x, y in paths for z, w in edges if y == z} - paths
        if not more:
            return set(paths)
        paths |= more


CASES = [
    pytest.param(REACH, "reach", reachable, id="reach"),
    pytest.param(CLOSURE, "path", closure, id="closure"),
]


def toggle(db: deltafix.Database, edge: tuple[int, int], present: set[tuple[int, int]]) -> None:
    with db.transaction() as tx:
        (tx.delete if edge in present else tx.insert)("edge", [edge])
    present ^= {edge}


@pytest.mark.parametrize("looks", [0, 1], ids=["search", "wait"])
@pytest.mark.parametrize(("text", "view", "judge"), CASES)
def test_oracle_every_edit_of_every_graph(text: str, view: str, judge, looks: int) -> None:
    """A Gray code visits all graphs on the nodes; at each, every edge is toggled and put back."""
    nodes = 3 if JIT_DISABLED else 4
    pairs = [pair for pair in product(range(nodes), repeat=2) if pair[0] != pair[1]]
    known: dict[frozenset[tuple[int, int]], set[tuple[int, ...]]] = {}

    def expected(edges: set[tuple[int, int]]) -> set[tuple[int, ...]]:
        key = frozenset(edges)
        if key not in known:
            known[key] = judge(key)
        return known[key]

    with deltafix.connect(text) as db:
        db.instance.arena.cells[layout.LOOKS] = looks
        present: set[tuple[int, int]] = set()
        for step in range(1, 2 ** len(pairs)):
            toggle(db, pairs[(step & -step).bit_length() - 1], present)
            for pair in pairs if step % 4 == 0 or nodes == 3 else pairs[:3]:
                toggle(db, pair, present)
                assert set(db.rows(view)) == expected(present)
                toggle(db, pair, present)
            assert set(db.rows(view)) == expected(present)
        db.check_invariants()
    assert len(known) == 2 ** len(pairs)


@pytest.mark.parametrize("looks", [0, 1], ids=["search", "wait"])
@pytest.mark.parametrize(("text", "view", "judge"), CASES)
def test_oracle_every_pair_of_edits_on_three_nodes(text: str, view: str, judge, looks: int) -> None:
    """Two edits in one epoch and one after the other, from every graph on three nodes."""
    pairs = [pair for pair in product(range(3), repeat=2) if pair[0] != pair[1]]
    with deltafix.connect(text) as db:
        db.instance.arena.cells[layout.LOOKS] = looks
        present: set[tuple[int, int]] = set()
        for step in range(1, 2 ** len(pairs) if not JIT_DISABLED else 12):
            toggle(db, pairs[(step & -step).bit_length() - 1], present)
            for first, second in product(pairs, repeat=2):
                if first == second:
                    continue
                with db.transaction() as tx:
                    for edge in (first, second):
                        (tx.delete if edge in present else tx.insert)("edge", [edge])
                assert set(db.rows(view)) == judge(frozenset(present ^ {first, second}))
                toggle(db, first, present := present ^ {first, second})
                toggle(db, second, present)
                assert set(db.rows(view)) == judge(frozenset(present))
        db.check_invariants()
