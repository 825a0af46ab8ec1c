"""The papers' worked examples through the engine, with the numbers printed there.

`incremental fixpoint computation`, section 4 (dead code on small graphs), and `fixing incremental
computation`, section 6 (transitive closure and its change). Where the first paper's algorithm
retracts and re-derives, the engine may only move a rank; the counts say so.
"""

from __future__ import annotations

import pytest

import deltafix
from deltafix.engine.run import STRATEGIES

LIVE = """
.decl base(x: symbol)
.input base
.decl edge(x: symbol, y: symbol)
.input edge
.decl live(x: symbol)
.output live
live(x) :- base(x).
live(y) :- live(x), edge(x, y).
"""
TC = """
.decl e(x: number, y: number)
.input e
.decl tc(x: number, y: number)
.output tc
tc(x, y) :- e(x, y).
tc(x, y) :- e(x, z), tc(z, y).
"""


def graph(strategy: str, *edges: str) -> deltafix.Database:
    """A database over base {R} and edges such as "RA"."""
    db = deltafix.connect(LIVE, strategy=strategy)
    with db.transaction() as tx:
        tx.insert("base", [("R",)])
        tx.insert("edge", [tuple(edge) for edge in edges])
    return db


def live(db: deltafix.Database) -> str:
    return "".join(sorted(x for (x,) in db.rows("live")))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_section_4_1_to_4_3_expansion_and_contraction(strategy: str) -> None:
    with graph(strategy, "RA", "AB", "AD", "BC", "DB", "EF") as db:
        assert live(db) == "ABCDR"
        with db.transaction() as tx:  # 4.2: E and F come
            tx.insert("edge", [("R", "E")])
        assert sorted(tx.delta["live"].added) == [("E",), ("F",)]
        assert live(db) == "ABCDEFR"
        if strategy != "recompute":
            assert db.last_epoch.derivations == 2
        with db.transaction() as tx:  # 4.3: D goes, and nothing with it
            tx.delete("edge", [("A", "D")])
        assert tx.delta["live"].removed == [("D",)]
        assert live(db) == "ABCEFR"
        if strategy == "wavefront":
            assert db.last_epoch.retracted == 1
        db.check_invariants()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_section_4_4_a_cycle_does_not_hold_itself_up(strategy: str) -> None:
    with graph(strategy, "RA", "AB", "BA") as db:
        assert live(db) == "ABR"
        with db.transaction() as tx:
            tx.delete("edge", [("R", "A")])
        assert sorted(tx.delta["live"].removed) == [("A",), ("B",)]
        assert live(db) == "R"
        db.check_invariants()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_section_4_5_a_fact_that_holds_another_way_stays(strategy: str) -> None:
    with graph(strategy, "RB", "RC", "CB") as db:
        with db.transaction() as tx:
            tx.delete("edge", [("R", "B")])
        assert live(db) == "BCR"
        assert "live" not in tx.delta
        if strategy == "wavefront":  # B keeps C's support, or moves above it; it never falls
            assert db.last_epoch.retracted == 0
        db.check_invariants()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_section_6_transitive_closure_and_its_change(strategy: str) -> None:
    with deltafix.connect(TC, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 2), (2, 3), (3, 4), (5, 6)])
        # The paper prints tc without (3, 4); its rules give it, and its change keeps it.
        assert db.rows("tc") == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (5, 6)]
        with db.transaction() as tx:
            tx.insert("e", [(4, 5)])
            tx.delete("e", [(2, 3)])
        assert sorted(tx.delta["tc"].added) == [(3, 5), (3, 6), (4, 5), (4, 6)]
        assert sorted(tx.delta["tc"].removed) == [(1, 3), (1, 4), (2, 3), (2, 4)]
        assert db.rows("tc") == [(1, 2), (3, 4), (3, 5), (3, 6), (4, 5), (4, 6), (5, 6)]
        db.check_invariants()
