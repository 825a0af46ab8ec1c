"""The maintenance contract on small stories, the sources' known errors among them."""

from __future__ import annotations

import pytest

import deltafix
from deltafix.engine.run import STRATEGIES

GRAPH = """
.decl edge(x: symbol, y: symbol)
.decl base(x: symbol)
.decl live(x: symbol)
.input edge
.input base
.input live
live(x) :- base(x).
live(y) :- live(x), edge(x, y).
"""


@pytest.fixture(params=STRATEGIES)
def db(request: pytest.FixtureRequest) -> deltafix.Database:
    return deltafix.connect(GRAPH, strategy=request.param)


def live(db: deltafix.Database) -> set[str]:
    db.check_invariants()
    return {x for (x,) in db.rows("live")}


def test_ranks_are_not_reused_so_an_unreachable_cycle_dies(db: deltafix.Database) -> None:
    """Ranks restarted for what is rederived would let B and C keep each other alive.

    Incremental fixpoint computation, section 3.2.2, restarts them (docs/sources.md).
    """
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "B"), ("R", "C"), ("C", "B"), ("B", "C")])
    with db.transaction() as tx:
        tx.delete("edge", [("R", "B")])
    assert live(db) == {"R", "B", "C"}
    with db.transaction() as tx:
        tx.delete("edge", [("R", "C")])
    assert live(db) == {"R"}
    assert sorted(tx.delta["live"].removed) == [("B",), ("C",)]


def test_an_edge_between_known_elements_is_seen(db: deltafix.Database) -> None:
    """The expand of section 3.2.1 looks only at new elements; here the new edge is what saves B."""
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "A"), ("R", "B")])
    with db.transaction() as tx:
        tx.insert("edge", [("A", "B")])
    with db.transaction() as tx:
        tx.delete("edge", [("R", "B")])
    assert live(db) == {"R", "A", "B"}


def test_counting_alone_would_keep_a_cycle(db: deltafix.Database) -> None:
    """The reduce combinator, section 6.6, counts references: A and B would hold each other."""
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "A"), ("A", "B"), ("B", "A")])
    with db.transaction() as tx:
        tx.delete("edge", [("R", "A")])
    assert live(db) == {"R"}


def test_delete_and_reinsert_in_one_epoch_is_no_change(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "A"), ("A", "B")])
    with db.transaction() as tx:
        tx.delete("edge", [("R", "A")])
        tx.insert("edge", [("R", "A")])
    assert len(tx.delta) == 0
    assert live(db) == {"R", "A", "B"}


def test_an_edge_replaced_in_one_epoch_saves_what_hangs_on_it(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "A"), ("A", "B"), ("B", "C"), ("C", "D")])
    with db.transaction() as tx:
        tx.delete("edge", [("A", "B")])
        tx.insert("edge", [("R", "B")])
    assert not tx.delta["live"]
    assert live(db) == {"R", "A", "B", "C", "D"}


def test_a_fact_both_given_and_derived_needs_both_gone(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [("R", "A")])
        tx.insert("live", [("A",)])
    with db.transaction() as tx:
        tx.delete("live", [("A",)])
    assert live(db) == {"R", "A"}
    with db.transaction() as tx:
        tx.insert("live", [("A",)])
        tx.delete("edge", [("R", "A")])
    assert live(db) == {"R", "A"}
    with db.transaction() as tx:
        tx.delete("live", [("A",)])
    assert live(db) == {"R"}


def test_a_given_fact_does_not_hold_up_its_own_cycle(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.insert("live", [("A",)])
        tx.insert("edge", [("A", "B"), ("B", "A")])
    with db.transaction() as tx:
        tx.delete("live", [("A",)])
    assert live(db) == set()
