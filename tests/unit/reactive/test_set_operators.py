"""Set operators between collections and level-1 fixpoints.

Sees: a level that misses a change, an epoch whose work goes with the data instead of the change.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import deltafix
from deltafix.errors import OperatorError, ProgramError, ReactiveError
from deltafix.fixpoint import ManagedFixpoint
from deltafix.reactive import fixpoint
from deltafix.rules.operators import aggregate, const, difference, join, lfp, project, union


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


def _second(a, b, *_):
    return b


def test_oracle_collections_stand_in_set_operators_and_their_sets_are_collections() -> None:
    """Two programs, the second over a set of the first and over a reduction of another."""
    rng = Random("const of collections")
    roots = deltafix.Collection.input(value=int)
    edges = deltafix.Collection.input(key=int, value=tuple)  # file -> the pairs that it says
    with deltafix.Program() as program:
        edge = const(edges, "edge", a=int, b=int)
        live = lfp(
            lambda s: union(
                const(roots, n=int),
                join(const(edges, a=int, b=int), s, on=[(0, 0)], project=_second),
            ),
            name="live",
        )
        lfp(lambda _: difference(project(edge, _second), live), name="dead")
        program.output("live", "dead")
    assert [one.name for one in program.relations] == ["edge", "live", "rows_1", "dead"]
    sets = fixpoint(program)
    degrees = edges.map(lambda _, pair: (pair[0], pair[1])).reduce(deltafix.reactive.Count())
    counted = degrees.map(lambda node, count: ((), (node, count)))
    with deltafix.Program() as above:
        busy = join(
            const(sets["live"], "alive", n=int),
            const(counted, "degree", n=int, count=int),
            on=[(0, 0)],
            project=lambda n, _, count: (n, count),
        )
        lfp(lambda _: aggregate(busy, "max", 1), name="busiest")
    busiest = fixpoint(above)["busiest"]
    said: Counter[tuple[int, tuple[int, int]]] = Counter()
    first: set[int] = set()
    found = 0
    for _ in range(150):
        if rng.random() < 0.2:
            node = rng.randrange(6)
            (roots.delete if node in first else roots.insert)((), *[node])
            first ^= {node}
        else:
            one = rng.randrange(3), (rng.randrange(6), rng.randrange(6))
            if said[one] and rng.random() < 0.6:
                edges.delete(*one)
                said[one] -= 1
            else:
                edges.insert(*one)
                said[one] += 1
        pairs = {pair for (_, pair), count in said.items() if count}
        alive = _reached(first, pairs)
        degree: Counter[int] = Counter()
        for (_, pair), count in said.items():
            degree[pair[0]] += count
        assert set(sets["live"].values(())) == alive
        assert set(sets["dead"].values(())) == {b for _, b in pairs} - alive
        most = [degree[node] for node in alive if degree[node]]
        assert busiest.values(()) == ([max(most)] if most else [])
        found += bool(most)
    assert found > 50
    sets.database.check_invariants()


def test_const_of_a_collection_says_what_is_wrong() -> None:
    calls = deltafix.Collection.input(value=tuple)
    other = deltafix.Collection.input(value=tuple)
    with pytest.raises(ProgramError, match="no program is open"):
        const(calls, a=int)
    with deltafix.Program() as program:
        with pytest.raises(
            TypeError, match=r"wants the columns of its values, as in const\(calls, "
        ):
            const(calls)
        with pytest.raises(TypeError, match=r"const of list: only a collection is given columns"):
            const([1], a=int)
        with pytest.raises(TypeError, match="column 'a' of 'edge' has type <class 'list'>"):
            const(calls, "edge", a=list)
        lfp(lambda _: const(calls, "edge", a=int, b=str), name="seen")
        with pytest.raises(ProgramError, match="there is a relation 'edge' already"):
            const(other, "edge", a=int, b=str)
        with pytest.raises(ProgramError, match="there is a relation 'edge' already"):
            const(calls, "edge", a=int)
    with pytest.raises(ProgramError, match="collections feed 'edge' of this program: run it by"):
        deltafix.connect(program)
    with pytest.raises(ReactiveError, match="relation 'edge' is fed twice"):
        fixpoint(program, {"edge": other})
    seen = fixpoint(program, views=["seen"])["seen"]
    calls.insert("file", (1, "one"))
    for row, message in (
        ((1,), r"it has 1 value, but edge\(a: number, b: symbol\) takes 2"),
        ((1, 2), "edge: column 'b' of row 0 is 2"),
        (("one", "two"), "edge: column 'a' of row 0 is 'one'"),
    ):
        with pytest.raises(OperatorError, match=message):
            calls.insert("file", row)
        assert seen.values(()) == [(1, "one")]
    calls.delete("file")
    assert seen.values(()) == []


def test_a_collection_feeds_by_const_beside_those_that_feed_by_name() -> None:
    root, edge = deltafix.Collection.input(value=int), deltafix.Collection.input(value=tuple)
    with deltafix.Program() as program:
        near = program.relation("near", a=int, b=int)
        lfp(
            lambda s: union(const(root, n=int), join(near, s, on=[(0, 0)], project=_second)),
            name="live",
        )
    live = edge.fixpoint(program)  # `near` is the one relation that nothing feeds yet
    root.insert((), 1)
    edge.insert((), (1, 2))
    assert sorted(live.values(())) == [1, 2]
