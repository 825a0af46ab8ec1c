"""What a peer did with a workload, and the stopwatch all in-process peers share.

Lives here: `Outcome` (data, goes through JSON from the worker process to the report), `Session`
(what an in-process peer must offer) and `drive` (loads, edits, times, collects answers).
Invariant: the clock runs only around the peer's own work; reading the script and hashing answers
are outside. Answers are taken after loading (epoch 0) and after the last epoch.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from bench.graphs import Ints
from bench.workload import Workload

__all__ = ["Changes", "Outcome", "Session", "drive", "resident"]

Changes = dict[str, tuple[Ints, Ints]]
"""One epoch: relation to (deleted rows, inserted rows)."""


@dataclass(slots=True)
class Outcome:
    """Figures of one peer on one workload; times in seconds, memory in bytes.

    `epochs[i]` is the time of epoch `timed[i]` (peers that recompute time some epochs only).
    `answers` maps an epoch (as text) and a relation to [count, hash]; `when` is the day and the
    commit of the run.
    """

    mode: str = "incremental"
    version: str = ""
    load_seconds: float | None = None
    timed: list[int] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)
    answers: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    touched: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    state_bytes: int | None = None
    peak_bytes: int | None = None
    notes: list[str] = field(default_factory=list)
    skipped: str | None = None
    when: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; `Outcome(**data)` is the way back."""
        return asdict(self)


class Session(Protocol):
    """An in-process peer with a workload's program in it."""

    def load(self) -> None:
        """Put the given rows in and evaluate. Timed."""

    def apply(self, changes: Changes, evaluate: bool) -> None:
        """Apply one epoch. With `evaluate` the new answer must exist on return. Timed then.

        Whoever maintains the answer has also read what changed in it, row by row.
        """

    def answers(self) -> dict[str, list[Any]]:
        """Relation to [count, hash] now. Not timed."""

    def counters(self) -> tuple[int, int] | None:
        """(facts touched, facts changed) of the last epoch, where the peer counts them."""


def resident() -> int:
    """Resident memory of this process in bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def drive(session: Session, workload: Workload, outcome: Outcome, deadline: float) -> Outcome:
    """Run a session through a workload, filling `outcome`; stop early at `deadline`.

    Args:
        session: a fresh session; its `load` has not been called.
        workload: what to run.
        outcome: its `mode` decides whether all epochs or only the samples are evaluated.
        deadline: on `time.monotonic`'s clock; epochs after it are not run, and a note says so.
    """
    before = resident()
    start = time.perf_counter()
    session.load()
    outcome.load_seconds = time.perf_counter() - start
    outcome.state_bytes = max(0, resident() - before)
    outcome.answers["0"] = session.answers()
    samples = set(workload.samples)
    for epoch, changes in enumerate(workload.script(), 1):
        if time.monotonic() > deadline:
            outcome.notes.append(f"stopped by the time limit after {epoch - 1} epochs")
            return outcome
        evaluate = outcome.mode == "incremental" or epoch in samples
        start = time.perf_counter()
        session.apply(changes, evaluate)
        seconds = time.perf_counter() - start
        if evaluate:
            outcome.timed.append(epoch)
            outcome.epochs.append(seconds)
        counted = session.counters() if evaluate else None
        if counted is not None:
            outcome.touched.append(counted[0])
            outcome.changed.append(counted[1])
    if workload.epochs:
        outcome.answers[str(workload.epochs)] = session.answers()
    return outcome
