"""Shortest paths with deletes: cycles cut off, ties, zero weights, and how little is done."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tests.unit.engine.beyond.driver import Driver

from deltafix.engine.beyond.facts import Change
from deltafix.plan.clause import Lattice, LatticeColumn

PATHS = """
dist(x, 0) :- root(x).
dist(y, e) :- dist(x, d), edge(x, y, w), e = d + w.
"""
LEAST = {"dist": Lattice((LatticeColumn(1, "min"),))}
Edges = dict[tuple[int, int], int]


def bellman_ford(edges: Edges) -> set[tuple[int, int]]:
    found = {0: 0}
    for _ in range(len(edges) + 1):
        for (x, y), w in edges.items():
            if x in found and found[x] + w < found.get(y, 1 << 60):
                found[y] = found[x] + w
    return set(found.items())


def rows(edges: Edges) -> list[tuple[int, int, int]]:
    return [(x, y, w) for (x, y), w in edges.items()]


def started(edges: Edges) -> Driver:
    driver = Driver(PATHS, LEAST)
    driver.edit(("+", "root", (0,)), *(("+", "edge", row) for row in rows(edges)))
    driver.stratum.keep()
    return driver


def changed(before: Edges, after: Edges) -> dict[str, Change]:
    old, new = set(rows(before)), set(rows(after))
    return {"edge": Change(sorted(new - old), sorted(old - new))}


PLACES = [(x, y) for x in range(3) for y in range(3) if x != y]


@pytest.mark.parametrize("first", [None, 0, 1])
def test_every_graph_of_three_nodes_and_every_single_edit(first: int | None) -> None:
    edits = 0
    for rest in product([None, 0, 1], repeat=len(PLACES) - 1):
        weights = dict(zip(PLACES, (first, *rest), strict=True))
        edges = {place: w for place, w in weights.items() if w is not None}
        driver = started(edges)
        assert set(driver.stratum.rows("dist")) == bellman_ford(edges)
        for place in PLACES:
            for other in {None, 0, 1} - {weights[place]}:
                after = {p: w for p, w in edges.items() if p != place}
                if other is not None:
                    after[place] = other
                driver.stratum.run(changed(edges, after))
                assert set(driver.stratum.rows("dist")) == bellman_ford(after), (edges, after)
                driver.stratum.undo()
                edits += 1
        assert set(driver.stratum.rows("dist")) == bellman_ford(edges)
        driver.stratum.check_invariants()
    assert edits == 3**5 * 12


def test_a_cycle_that_is_cut_off_does_not_count_upwards() -> None:
    cycle = {(n, n % 5 + 1): 1 for n in range(1, 6)}
    driver = started({(0, 1): 1, **cycle})
    assert len(driver.seen["dist"]) == 6
    changes = driver.step(("-", "edge", (0, 1, 1)))
    assert sorted(changes["dist"].removed) == [(n, n) for n in range(1, 6)]
    assert driver.seen["dist"] == {(0, 0)}
    assert driver.stratum.work.derivations < 20


def test_a_cycle_of_weight_zero_does_not_hold_itself_up() -> None:
    driver = started({(0, 1): 4, (1, 2): 0, (2, 1): 0, (0, 2): 7})
    driver.step(("-", "edge", (0, 1, 4)))
    assert driver.seen["dist"] == {(0, 0), (1, 7), (2, 7)}
    driver.step(("-", "edge", (0, 2, 7)))
    assert driver.seen["dist"] == {(0, 0)}


def test_an_edit_at_the_end_of_a_long_path_touches_few_facts() -> None:
    size = 10_000
    driver = started({(n, n + 1): 1 for n in range(size)})
    assert driver.stratum.work.taken == size + 1
    driver.edit(("-", "edge", (size - 3, size - 2, 1)))
    driver.stratum.keep()
    assert driver.seen["dist"] == {(n, n) for n in range(size - 2)}
    assert driver.stratum.work.touched <= 4
    assert driver.stratum.work.derivations <= 8
    driver.edit(("+", "edge", (size - 3, size - 2, 5)))
    driver.stratum.keep()
    assert (size, size + 4) in driver.seen["dist"]
    assert driver.stratum.work.touched <= 4
    driver.edit(("+", "edge", (0, size - 1, 2)))
    driver.stratum.keep()
    assert {(size - 1, 2), (size, 3)} <= driver.seen["dist"]
    assert driver.stratum.work.touched <= 6
    assert driver.stratum.work.derivations <= 12


def test_best_values_first_settle_every_node_once() -> None:
    rng = Random(5)
    edges = {(rng.randrange(300), rng.randrange(300)): rng.randrange(1, 50) for _ in range(2000)}
    driver = started(edges)
    assert driver.seen["dist"] == bellman_ford(edges)
    assert driver.stratum.work.taken == len(driver.seen["dist"])


def test_a_key_with_many_proposals_is_not_scanned() -> None:
    # Node 1 has a thousand ways to be reached; each loss of the best takes the next.
    edges = {(0, n): 1 for n in range(2, 1002)} | {(n, 1): n for n in range(2, 1002)}
    driver = started(edges)
    members = driver.stratum._relations["dist"].proposed
    for n in range(2, 60):
        assert (1, n + 1) in driver.seen["dist"]
        driver.edit(("-", "edge", (n, 1, n)))
        driver.stratum.keep()
        assert driver.stratum.work.touched <= 3
    assert len(members[1]) == 1000 - 58
    driver.stratum.check_invariants()


def test_a_run_that_is_undone_leaves_everything_as_it_was() -> None:
    rng = Random(11)
    edges = {(rng.randrange(6), rng.randrange(6)): rng.randrange(3) for _ in range(12)}
    driver, twin = started(edges), started(edges)
    for _ in range(40):
        after = dict(edges)
        for _ in range(rng.choice([1, 4])):
            place = (rng.randrange(6), rng.randrange(6))
            if after.pop(place, None) is None:
                after[place] = rng.randrange(3)
        driver.stratum.run(changed(edges, after), {"dist": Change([(3, 1)], [])})
        driver.stratum.undo()
        driver.stratum.check_invariants()
        for stratum in (driver.stratum, twin.stratum):
            stratum.run(changed(edges, after))
            stratum.keep()
        assert facts(driver) == facts(twin)
        edges = after


def facts(driver: Driver) -> dict:
    """Every record but for its rank."""
    known = driver.stratum._relations["dist"].facts.by_row
    return {row: (f.total, f.support, f.rank > 0, f.visible) for row, f in known.items()}
