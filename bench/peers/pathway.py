"""Pathway in streaming mode: one commit per epoch, timed until the epoch's output has closed.

Edges and a marker row travel through one input stream. The marker is part of the output table, so
the callback that closes the marker's time comes after every change of that epoch. Pathway lives
in an environment of its own (`peers-venv` in the cache) if this one does not have it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Outcome, resident
from bench.peers.base import Peer, installed
from bench.workload import Workload, answer

__all__ = ["make"]

_EDGE, _ROOT, _MARK = 0, 1, 2


def _program(pw: Any, kind: str, stream: Any) -> Any:
    """The output table: columns kind, a, b; derived rows have kind 0."""
    this, left, right = pw.this, pw.left, pw.right
    edge = stream.filter(this.kind == _EDGE).select(this.a, this.b)
    if kind == "reach":
        start = stream.filter(this.kind == _ROOT).groupby(this.a).reduce(this.a)

        def step(found: Any, start: Any, edge: Any) -> dict[str, Any]:
            # reach(y) :- reach(x), edge(x, y).
            new = found.join(edge, left.a == right.a).select(a=right.b)
            return {"found": start.concat_reindex(new).groupby(this.a).reduce(this.a)}

    else:
        start = edge.groupby(this.a, this.b).reduce(this.a, this.b)

        def step(found: Any, start: Any, edge: Any) -> dict[str, Any]:
            # path(x, z) :- path(x, y), edge(y, z).
            new = found.join(edge, left.b == right.a).select(a=left.a, b=right.b)
            both = start.concat_reindex(new)
            return {"found": both.groupby(this.a, this.b).reduce(this.a, this.b)}

    start_from = pw.iterate_universe(start)
    found = pw.iterate(step, found=start_from, start=start, edge=edge)["found"]
    rows = found.select(kind=0, a=this.a, b=this.b if kind == "tc" else 0)
    marks = stream.filter(this.kind == _MARK).select(this.kind, this.a, this.b)
    return rows.concat_reindex(marks)


class _Pathway(Peer):
    def missing(self) -> str | None:
        if installed("pathway"):
            return None
        return "not installed (pip install pathway into peers-venv of the bench cache)"

    def version(self) -> str:
        return installed("pathway") or ""

    def cannot(self, workload: Workload) -> str | None:
        return None if workload.kind in ("reach", "tc") else "written for reach and tc only"

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        import pathway as pw

        found: set[tuple[int, ...]] = set()
        marked, closed = threading.Event(), threading.Event()
        width = workload.ruleset.arity[workload.outputs[0]]

        def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            if row["kind"] == _MARK:
                marked.set()
            else:
                values = (row["a"], row["b"])[:width]
                (found.add if is_addition else found.discard)(values)

        def on_time_end(time: int) -> None:
            if marked.is_set():
                marked.clear()
                closed.set()

        def answers() -> dict[str, list[Any]]:
            rows = np.array(sorted(found), np.int64).reshape(-1, width)
            return {workload.outputs[0]: list(answer(rows))}

        class Rows(pw.Schema):  # type: ignore[misc]  # pathway is not in this environment
            kind: int = pw.column_definition(primary_key=True)
            a: int = pw.column_definition(primary_key=True)
            b: int = pw.column_definition(primary_key=True)

        class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc]  # as above
            def _epoch(self, number: int) -> None:
                closed.clear()
                self.next(kind=_MARK, a=number, b=0)
                self.commit()
                while not closed.wait(timeout=1):
                    if time.monotonic() > deadline:
                        raise TimeoutError

            def run(self) -> None:
                try:
                    self._play()
                except TimeoutError:
                    done = len(outcome.epochs)
                    outcome.notes.append(f"stopped by the time limit after {done} epochs")

            def _play(self) -> None:
                before = resident()
                edges = workload.inputs["edge"].tolist()
                roots = workload.inputs["root"].ravel().tolist() if width == 1 else []
                start = time.perf_counter()
                for a, b in edges:
                    self.next(kind=_EDGE, a=a, b=b)
                for a in roots:
                    self.next(kind=_ROOT, a=a, b=0)
                self._epoch(0)
                outcome.load_seconds = time.perf_counter() - start
                outcome.state_bytes = max(0, resident() - before)
                outcome.answers["0"] = answers()
                for epoch, changes in enumerate(workload.script(), 1):
                    deleted, inserted = (part.tolist() for part in changes["edge"])
                    start = time.perf_counter()
                    for a, b in deleted:
                        self.delete(kind=_EDGE, a=a, b=b)
                    for a, b in inserted:
                        self.next(kind=_EDGE, a=a, b=b)
                    self._epoch(epoch)
                    outcome.epochs.append(time.perf_counter() - start)
                    outcome.timed.append(epoch)
                if workload.epochs:
                    outcome.answers[str(workload.epochs)] = answers()

        stream = pw.io.python.read(Feed(), schema=Rows, autocommit_duration_ms=None)
        table = _program(pw, workload.kind, stream)
        pw.io.subscribe(table, on_change=on_change, on_time_end=on_time_end)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return outcome


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return _Pathway()
