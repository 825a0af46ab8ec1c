"""Marks, and the Delta that a transaction is told before it is seen or durable."""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.errors import StateError

TEXT = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl any()
.input edge
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
any() :- edge(_, _).
"""


def test_marks_live_and_die_with_their_epoch(tmp_path) -> None:
    with deltafix.connect(TEXT, tmp_path / "s") as db:
        with db.transaction() as tx:
            tx.mark("read", {"file": "a", "rows": 3})
            tx.mark("other", 1)
        assert dict(db.marks) == {"read": {"file": "a", "rows": 3}, "other": 1}
        with pytest.raises(ZeroDivisionError), db.transaction() as tx:
            tx.mark("read", 0)
            raise ZeroDivisionError
        with db.transaction() as tx:
            tx.mark("other", None)
        with pytest.raises(ValueError, match="JSON compliant"), db.transaction() as tx:
            tx.mark("read", float("nan"))
    for _ in range(2):
        with deltafix.connect(TEXT, tmp_path / "s") as db:
            assert (db.epoch, dict(db.marks)) == (2, {"read": {"file": "a", "rows": 3}})
            db.compact()  # the second round reads them from the snapshot


@pytest.mark.parametrize("state", [":memory:", "s"])
def test_a_transaction_hears_its_delta_before_the_epoch_is_durable(tmp_path, state) -> None:
    rng = Random(8)
    with deltafix.connect(TEXT, tmp_path / state if state == "s" else state) as db:
        edges: set[tuple[int, int]] = set()
        for epoch in range(1, 60):
            heard = []
            with db.transaction() as tx:
                tx.prepared = heard.append
                for edge in {(rng.randrange(6), rng.randrange(6)) for _ in range(3)}:
                    (tx.delete if edge in edges else tx.insert)("edge", [edge])
                    edges ^= {edge}
                # Taken and given back, or the other way, is no change.
                tx.insert("edge", [(9, 9)])
                tx.delete("edge", [(9, 9)])
                tx.views = None if epoch % 2 else ["path"]
            if epoch % 2:
                assert heard == [tx.delta]
            assert heard[0]["path"] == tx.delta["path"]
            assert (heard[0].epoch, db.epoch) == (epoch, epoch)


def test_what_must_not_be_is_refused_in_memory() -> None:
    def refuse(delta):
        if delta["path"].added:
            raise ValueError(f"no paths: {delta['path'].added}")

    with deltafix.connect(TEXT) as db:
        with pytest.raises(ValueError, match=r"no paths: \[\(1, 2\)\]"), db.transaction() as tx:
            tx.prepared = refuse
            tx.insert("edge", [(1, 2)])
        assert (db.epoch, db.rows("edge"), db.rows("path")) == (0, [], [])
        db.check_invariants()
        with pytest.raises(ValueError, match="no paths"), db.transaction() as tx:
            tx.prepared = refuse
            tx.insert("edge", [(1, 2)])
            tx.add_rule("any() :- path(x, x).")
        assert len(db.program.rules) == 3
        with db.transaction() as tx:
            tx.prepared = refuse
            tx.remove_rule("path(x, y) :- edge(x, y).")
            tx.insert("edge", [(1, 2)])
        assert (db.rows("any"), db.rows("path")) == ([()], [])


def test_what_hears_the_delta_may_refuse_the_epoch(tmp_path) -> None:
    def refuse(delta):
        raise StateError("no room")

    with deltafix.connect(TEXT, tmp_path / "s") as db:
        with pytest.raises(StateError, match="no room"), db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
            tx.mark("read", 1)
            tx.prepared = refuse
        assert (db.epoch, db.rows("path"), dict(db.marks)) == (0, [], {})
        db.check_invariants()


def test_a_transaction_knows_which_rows_are_given(tmp_path) -> None:
    with deltafix.connect(TEXT) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
            assert tx.given("edge", [(1, 2), (2, 3), (2, 4)]).tolist() == [False, True, False]
            assert tx.given("path", [(1, 2), (2, 3)]).tolist() == [False, False]  # derived
            assert tx.given("edge", []).tolist() == []
