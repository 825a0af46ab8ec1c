"""The examples of "Fixing incremental computation", section 6: treeP and height."""

from __future__ import annotations

from random import Random

from tests.unit.engine.beyond.driver import Driver

import deltafix
from deltafix.plan.clause import Lattice, LatticeColumn

TREE = """
tree(x) :- p(x), !~1(x).
~1(x) :- child(x, y), !tree(y).
"""
HEIGHT = """
height(n, 0) :- node(n), !~1(n).
~1(n) :- child(n, _).
height(n, h) :- child(n, c), height(c, k), h = k + 1.
"""
TALLEST = {"height": Lattice((LatticeColumn(1, "max"),))}
Pairs = set[tuple[int, int]]


def up(p: set[int], child: Pairs, tree: set[int], new: set[int]) -> set[int]:
    """The printed upwards derivative of treeP: its guard, and then its third conjunct."""
    return {
        x
        for x in p
        if any(y in new for (z, y) in child if z == x)
        and not any(y not in tree | new for (z, y) in child if z == x)
    }


def down(p: set[int], child: Pairs, old: set[int]) -> set[int]:
    """The printed downwards derivative of treeP."""
    return {x for x in p if any(y in old for (z, y) in child if z == x)}


def test_tree_p_grows_by_the_printed_upwards_derivative() -> None:
    rng = Random(1)
    for _ in range(30):
        child = {(rng.randrange(8), rng.randrange(8)) for _ in range(9)}
        p = {x for x in range(8) if rng.random() < 0.9}
        driver = Driver(TREE)
        driver.step(*(("+", "p", (x,)) for x in p), *(("+", "child", row) for row in child))
        tree: set[int] = set()
        new = {x for x in p if all(z != x for z, _ in child)}
        while new:
            tree, new = tree | new, up(p, child, tree, new) - tree - new
        assert driver.seen["tree"] == {(x,) for x in tree}


def test_tree_p_shrinks_by_the_printed_downwards_derivative() -> None:
    rng = Random(2)
    for _ in range(30):
        # Edges from greater to smaller numbers: without cycles the derivative is exact.
        child = {
            (a, b) for a, b in ((rng.randrange(9), rng.randrange(9)) for _ in range(12)) if a > b
        }
        driver = Driver(TREE)
        driver.step(*(("+", "p", (x,)) for x in range(9)), *(("+", "child", row) for row in child))
        tree = {x for (x,) in driver.seen["tree"]}
        assert tree == set(range(9))
        lost = {rng.randrange(9)}
        changes = driver.step(*(("-", "p", (x,)) for x in lost))
        gone: set[int] = set()
        while lost:
            gone, lost = gone | lost, down(tree - gone, child, lost) - gone
        assert {x for (x,) in changes["tree"].removed} == gone


def test_the_third_conjunct_is_not_evaluated_where_nothing_changed() -> None:
    # 1,000 parents with ten children each; one leaf goes: one group is looked at, by its count.
    driver = Driver(TREE)
    edges = [(n, 1000 + 10 * n + k) for n in range(1000) for k in range(10)]
    nodes = [*range(1000), *(y for _, y in edges)]
    driver.edit(*(("+", "child", row) for row in edges), *(("+", "p", (n,)) for n in nodes))
    driver.stratum.keep()
    assert len(driver.seen["tree"]) == 11_000
    changes = driver.edit(("-", "p", (1000,)))
    driver.stratum.keep()
    assert sorted(changes["tree"].removed) == [(0,), (1000,)]
    assert driver.stratum.work.touched == 3
    assert driver.stratum.work.derivations == 3
    changes = driver.edit(("+", "p", (1000,)))
    assert sorted(changes["tree"].added) == [(0,), (1000,)]
    assert driver.stratum.work.derivations == 3


def test_a_node_on_a_cycle_is_no_tree() -> None:
    driver = Driver(TREE)
    driver.step(
        *(("+", "p", (n,)) for n in range(4)), ("+", "child", (0, 1)), ("+", "child", (1, 2))
    )
    assert driver.seen["tree"] == {(0,), (1,), (2,), (3,)}
    driver.step(("+", "child", (2, 0)))
    assert driver.seen["tree"] == {(3,)}
    driver.step(("-", "child", (1, 2)))
    assert driver.seen["tree"] == {(0,), (1,), (2,), (3,)}


def test_height_of_a_tree() -> None:
    driver = Driver(HEIGHT, TALLEST)
    edges = [(0, 1), (0, 2), (1, 3), (3, 4)]
    driver.step(*(("+", "node", (n,)) for n in range(5)), *(("+", "child", row) for row in edges))
    assert driver.seen["height"] == {(0, 3), (1, 2), (2, 0), (3, 1), (4, 0)}
    changes = driver.step(("-", "child", (3, 4)))
    assert sorted(changes["height"].added) == [(0, 2), (1, 1), (3, 0)]
    assert sorted(changes["height"].removed) == [(0, 3), (1, 2), (3, 1)]
    changes = driver.step(("+", "child", (2, 3)))
    assert sorted(changes["height"].added) == [(2, 1)]


def test_tree_p_through_the_database() -> None:
    with deltafix.connect(
        """
        .decl p(x: symbol)
        .decl child(x: symbol, y: symbol)
        .decl treeP(x: symbol)
        .input p, child
        treeP(x) :- p(x), !( child(x, y), !treeP(y) ).
        """
    ) as db:
        with db.transaction() as tx:
            tx.insert("p", [("root",), ("left",), ("right",), ("leaf",)])
            tx.insert("child", [("root", "left"), ("root", "right"), ("right", "leaf")])
        assert db.count("treeP") == 4
        db.check_invariants()
        with db.transaction() as tx:
            tx.delete("p", [("leaf",)])
        assert tx.delta["treeP"].removed == [("leaf",), ("right",), ("root",)]
        with db.transaction() as tx:
            tx.insert("treeP", [("leaf",)])
        assert tx.delta["treeP"].added == [("leaf",), ("right",), ("root",)]
        with db.transaction() as tx:
            tx.delete("treeP", [("leaf",)])
        assert db.rows("treeP") == [("left",)]
        db.check_invariants()
