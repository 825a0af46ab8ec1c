"""deltafix itself, through its public interface, with each maintenance strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.graphs import Ints
from bench.outcome import Changes, Outcome, Session, drive
from bench.peers.base import Peer, installed
from bench.workload import Workload, row_hash

__all__ = ["make", "open_session"]

_PART = 1 << 20
"""Rows that are hashed at once."""


class _Session:
    def __init__(self, workload: Workload, strategy: str) -> None:
        import deltafix

        self._workload = workload
        program = deltafix.Program.parse(workload.ruleset.datalog())
        self._db = deltafix.connect(program, strategy=strategy)
        self._waiting: list[Changes] = []
        self._read = 0
        # Compiled code is loaded before the clock starts; the `cold` workload measures that.
        warm = deltafix.connect(program, strategy=strategy)
        for name, rows in workload.inputs.items():
            for change in ("insert", "delete"):
                if len(rows):
                    with warm.transaction() as tx:
                        getattr(tx, change)(name, rows[:1])
        warm.close()

    def load(self) -> None:
        with self._db.transaction() as tx:
            for name, rows in self._workload.inputs.items():
                tx.insert(name, rows)

    def apply(self, changes: Changes, evaluate: bool) -> None:
        # Epochs that are not asked about wait: recomputation would pay for each of them.
        self._waiting.append(changes)
        if not evaluate:
            return
        with self._db.transaction() as tx:
            for waiting in self._waiting:
                for name, (deleted, inserted) in waiting.items():
                    if len(deleted):
                        tx.delete(name, _rows(deleted))
                    if len(inserted):
                        tx.insert(name, _rows(inserted))
        self._waiting.clear()
        delta = tx.delta
        for name in self._workload.outputs:
            self._read += sum(1 for _ in delta[name].signed())

    def answers(self) -> dict[str, list[Any]]:
        found = {}
        for name in self._workload.outputs:
            count = hashed = 0
            # In parts: the whole as a table would be most of the process's peak.
            for part in self._db.relation(name).batches(_PART):
                rows = np.column_stack([np.asarray(column, np.int64) for column in part.columns])
                count, hashed = count + len(rows), hashed + row_hash(rows)
            found[name] = [count, f"{hashed % 2**64:016x}"]
        return found

    def counters(self) -> tuple[int, int] | None:
        report = self._db.last_epoch
        return report.touched, report.changed


def _rows(rows: Ints) -> Any:
    """Few rows as tuples, the way a caller has them at hand; many as the array they are."""
    return list(map(tuple, rows.tolist())) if len(rows) <= 16 else rows


def open_session(workload: Workload, strategy: str = "wavefront") -> Session:
    """A fresh database with the workload's program, compiled code loaded, nothing in it."""
    return _Session(workload, strategy)


class _Deltafix(Peer):
    def __init__(self, strategy: str) -> None:
        self._strategy = strategy
        self.mode = "recompute" if strategy == "recompute" else "incremental"

    def missing(self) -> str | None:
        try:
            from deltafix import Program, connect  # noqa: F401  is the engine there?
        except ImportError as error:
            return f"deltafix: {error}"
        return None

    def version(self) -> str:
        return installed("deltafix") or "unknown"

    def cannot(self, workload: Workload) -> str | None:
        return None

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        return drive(open_session(workload, self._strategy), workload, outcome, deadline)


def make(variant: str) -> Peer:
    """The adapter; `variant` is the maintenance strategy."""
    return _Deltafix(variant)
