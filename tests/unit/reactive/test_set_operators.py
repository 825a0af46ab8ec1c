"""Set operators between collections and level-1 fixpoints.

Sees: a level that misses a change, an epoch whose work goes with the data instead of the change.
"""

from __future__ import annotations

from random import Random

import deltafix
from deltafix.fixpoint import ManagedFixpoint
from deltafix.reactive import fixpoint
from deltafix.rules.operators import const, difference, join, lfp, project, union


def _program() -> deltafix.Program:
    with deltafix.Program() as program:
        root, edge = program.relation("root", n=int), program.relation("edge", a=int, b=int)
        live = lfp(
            lambda s: union(const(root), join(edge, s, on=[(0, 0)], project=lambda a, b, _: b)),
            name="live",
        )
        lfp(lambda _: difference(project(edge, lambda a, b: b), live), name="dead")
        program.output("live", "dead")
    return program


def test_levels_and_collections_feed_each_other() -> None:
    rng = Random(5)
    loaded = ManagedFixpoint(base=[0], pairs=[])  # level 1: its elements are the roots of level 2
    roots = deltafix.Collection.input(key=int, value=int)
    edges = deltafix.Collection.input(key=int, value=tuple)
    roots.insert(0, 0)
    sets = fixpoint(_program(), {"root": roots, "edge": edges})
    # And on: what is reached from the dead, along the same edges, is a fixpoint of the graph.
    beyond = edges.fixpoint(None, roots=sets["dead"])
    pairs: set[tuple[int, int]] = set()
    steps: set[tuple[int, int]] = set()
    for _ in range(60):
        pair = (rng.randrange(6), rng.randrange(6))
        if rng.random() < 0.5:
            change = loaded.remove_step(*pair) if pair in steps else loaded.add_step(*pair)
            steps ^= {pair}
            counts = dict.fromkeys(change.added, 1) | dict.fromkeys(change.removed, -1)
            if counts:
                roots.apply({0: counts})
        else:
            (edges.delete if pair in pairs else edges.insert)(pair[0], pair)
            pairs ^= {pair}
        live = _reached({0}, steps)
        assert set(loaded) == live
        live = _reached(live, pairs)
        dead = {b for _, b in pairs} - live
        assert set(sets["live"].values(())) == live
        assert set(sets["dead"].values(())) == dead
        assert set(beyond.values(())) == _reached(dead, pairs)


def test_an_edit_of_a_collection_costs_its_consequences() -> None:
    work = set()
    for size in (20, 500):
        roots = deltafix.Collection.input(value=int)
        edges = deltafix.Collection.input(key=int, value=tuple)
        sets = fixpoint(_program(), {"root": roots, "edge": edges})
        roots.insert((), 0)
        edges.apply({n: {(n, n + 1): 1} for n in range(size)})
        edges.delete(size - 3)
        assert sorted(sets["dead"].values(())) == [size - 1, size]
        report = sets.database.last_epoch
        work.add((report.derivations, report.changed))
    # `live` loses three nodes, `dead` gains two, a derivation each; and the edge itself.
    assert work == {(5, 6)}


def _reached(start: set[int], pairs: set[tuple[int, int]]) -> set[int]:
    found, waiting = set(start), list(start)
    while waiting:
        here = waiting.pop()
        new = {b for a, b in pairs if a == here} - found
        found |= new
        waiting += new
    return found
