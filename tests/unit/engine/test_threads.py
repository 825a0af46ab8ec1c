"""What threads may do with one database: one at a time writes, and others see epochs as wholes.

Each test makes two threads meet where they must, without waiting for time; what happens where they
meet by chance is `tests/agree/test_threads.py`'s.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from tests.support.threads import elsewhere

import deltafix
from deltafix.engine import invariants, sizes
from deltafix.engine.changes import ChangedRows
from deltafix.engine.codes import FEW
from deltafix.engine.reading import Reading
from deltafix.errors import TransactionError, UnknownRelationError

PROGRAM = """
.decl e(x: number)
.input e
.decl f(x: number)
.output f
f(x) :- e(x).
"""
BOUNDED = """
.decl lim(n: number)
.input lim
.decl upto(n: number)
.output upto
upto(1).
upto(n + 1) :- upto(n), n < 2, !lim(n).
"""


def is_free(db: deltafix.Database) -> bool:
    """Whether another thread could write."""

    def tried() -> bool:
        taken = db.writer.acquire(blocking=False)
        if taken:
            db.writer.release()
        return taken

    return elsewhere(tried)


def test_what_an_epoch_changed_is_copied_before_another_thread_edits(monkeypatch) -> None:
    """Two threads that looked at their deltas got each other's rows."""
    with deltafix.connect(PROGRAM) as db:
        many = [(n,) for n in range(2 * FEW)]  # few are copied at the commit
        with db.transaction() as tx:
            tx.insert("e", many)
        read = ChangedRows.last
        begun = threading.Event()
        waiting: list[threading.Thread] = []

        def write() -> None:
            begun.set()
            with db.transaction() as other:
                other.insert("e", [(-1,)])

        def with_another(rows: ChangedRows) -> Any:
            if not waiting:
                waiting.append(threading.Thread(target=write))
                waiting[0].start()
                begun.wait()
                assert rows.gate.locked()  # so that one stands where it begins
                assert db.epoch == 1
            return read(rows)

        monkeypatch.setattr(ChangedRows, "last", with_another)
        assert tx.delta["e"].added == tx.delta["f"].added == many
        waiting[0].join()
        assert db.rows("f") == [(-1,), *many]


@pytest.mark.parametrize(
    ("where", "name", "ask"),
    [
        (invariants, "check_invariants", lambda db: db.check_invariants()),
        (sizes, "memory", lambda db: db.memory()),
        (Reading, "_reported", lambda db: db.last_epoch),
    ],
)
def test_what_looks_at_the_working_state_keeps_writers_out(monkeypatch, where, name, ask) -> None:
    """Rows half written were told as broken, and work half done as that of the last epoch."""
    with deltafix.connect(PROGRAM) as db:
        inner = getattr(where, name)
        free: list[bool] = []

        def noted(*args: Any) -> Any:
            free.append(is_free(db))
            return inner(*args)

        monkeypatch.setattr(where, name, noted)
        ask(db)
        assert free == [False]
        assert is_free(db)


@pytest.mark.parametrize(
    "read",
    [
        lambda db: db.rows("f"),
        lambda db: db.count("f"),
        lambda db: db.select("f", (1,)),
        lambda db: db.to_arrow("f"),
        lambda db: list(db.relation("f")),
    ],
)
def test_a_relation_that_goes_while_it_is_asked_for_is_unknown(monkeypatch, read) -> None:
    """It was a KeyError of a dictionary."""
    with deltafix.connect(PROGRAM) as db:
        settle = db.settle

        def and_drop() -> None:
            settle()
            if "f" in db.schemas:
                with db.transaction() as tx:
                    tx.change_program(".decl e(x: number)\n.input e")

        monkeypatch.setattr(db, "settle", and_drop)
        with pytest.raises(UnknownRelationError, match="no relation 'f'"):
            read(db)


def test_the_epoch_that_connect_left_open_is_seen_by_nobody() -> None:
    """A watch that began while it ran heard of no later epoch, and the epoch's number was -1."""
    with deltafix.connect(BOUNDED) as db:
        heard: list[Any] = []
        seen: list[int] = []

        def look() -> None:
            seen.append(elsewhere(lambda: db.epoch))
            elsewhere(lambda: db.watch("upto", heard.append))

        db._before_commit = look
        assert db.rows("upto") == [(1,), (2,)]
        db._before_commit = None
        assert (seen, db.epoch, heard) == ([0], 0, [])
        with db.transaction() as tx:
            tx.insert("lim", [(1,)])
        assert [delta.removed for delta in heard] == [[(2,)]]
        assert db.epoch == tx.delta.epoch == 1


def test_a_transaction_that_waited_for_a_database_that_closes_does_not_begin(monkeypatch) -> None:
    """It went into the files of a state that had been given back."""
    with deltafix.connect(PROGRAM) as db:
        writer = db.writer

        class Closing:
            def __enter__(self) -> bool:
                db.close()  # another thread does, before this one's turn comes
                return writer.acquire()

            def __exit__(self, *_: object) -> None:
                writer.release()

        monkeypatch.setattr(db, "writer", Closing())
        with pytest.raises(TransactionError, match="the database is closed"):
            db.transaction()
        monkeypatch.setattr(db, "writer", writer)
        assert is_free(db)


def test_a_cancel_that_comes_when_nothing_runs_stops_nothing() -> None:
    """It stopped the next epoch, whosever that was."""
    with deltafix.connect(PROGRAM) as db:
        db.cancel()
        with db.transaction() as tx:
            tx.insert("e", [(1,)])
        assert db.rows("f") == [(1,)]


@pytest.mark.parametrize(
    "work",
    [
        lambda tx: tx.commit(),
        lambda tx: tx.rollback(),
        lambda tx: tx.insert("e", [(2,)]),
        lambda tx: tx.delete("e", [(1,)]),
        lambda tx: tx.add_rule("f(x + 1) :- e(x)."),
    ],
)
def test_a_transaction_is_its_threads_own(work) -> None:
    """A commit from elsewhere stood, was told as a RuntimeError, and kept everybody out."""
    with deltafix.connect(PROGRAM) as db:
        tx = db.transaction()
        tx.insert("e", [(1,)])
        error = elsewhere(lambda: work(tx))
        assert isinstance(error, TransactionError)
        assert "belongs to the thread that began it" in str(error)
        tx.commit()
        assert db.rows("f") == elsewhere(lambda: tx.delta["f"].added) == [(1,)]
        assert is_free(db)


def test_a_transaction_whose_thread_ends_is_rolled_back() -> None:
    """Nobody could write any more."""
    with deltafix.connect(PROGRAM) as db:
        kept: list[Any] = []

        def leave() -> None:
            kept.append(db.transaction())
            kept[0].insert("e", [(1,)])

        elsewhere(leave)
        with pytest.raises(TransactionError, match="rolled back already"):
            kept[0].commit()
        assert is_free(db)
        with db.transaction() as tx:
            tx.insert("e", [(2,)])
        assert db.rows("f") == [(2,)]
        db.check_invariants()


def test_a_transaction_that_is_dropped_elsewhere_is_rolled_back_by_its_own_thread() -> None:
    """As a part of a cycle, which whatever thread comes to it collects."""
    with deltafix.connect(PROGRAM) as db:
        dropped, collected = threading.Event(), threading.Event()
        left: list[bool] = []

        def write(again: bool) -> None:
            cycle: list[Any] = [db.transaction()]
            cycle[0].insert("e", [(1,)])
            cycle.append(cycle)
            del cycle
            dropped.set()
            collected.wait()
            left.append(db._dropped is not None)
            if again:
                with db.transaction() as tx:
                    tx.insert("e", [(2,)])

        gc.disable()
        try:
            for again in (True, False):
                dropped.clear()
                collected.clear()
                thread = threading.Thread(target=write, args=(again,))
                thread.start()
                dropped.wait()
                gc.collect()
                collected.set()
                thread.join()
                assert left.pop()
                assert db._dropped is None
                assert is_free(db)
                assert db.rows("f") == [(2,)]
        finally:
            gc.enable()
        db.check_invariants()
