"""Running an experiment by a strategy, by the kernel route, and what is written down.

Invariant: every way of running one experiment ends with the same answers, or it raises: a figure
is only worth printing for the right answer. Times are seconds of processor time of the updates
alone, so that a busy machine changes them less; every way but the kernel's compiler is one thread.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import deltafix
from deltafix.tabling import Tables, open_tables
from deltafix.tabling.table import Counters

__all__ = ["Edit", "Experiment", "Record", "answers_hash", "run_kernel", "run_strategy"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Facts to insert and to delete in one update: tuples, functor first."""

    insert: list[tuple[Any, ...]]
    delete: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A program, its facts, the goals kept, and the updates to make one after the other."""

    name: str
    size: str
    program: str
    facts: list[tuple[Any, ...]]
    goals: list[str]
    edits: list[Edit]


@dataclass(slots=True)
class Record:
    """One run. `touched` counts answers inserted, deleted or marked over all edits."""

    experiment: str
    size: str
    how: str
    scratch_seconds: float
    update_seconds: float
    edits: int
    answers: str
    calls: int = 0
    table_answers: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    visited: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def touched(self) -> int:
        """Answers taken up by the updates."""
        return self.counters.get("answers_inserted", 0) + self.counters.get("marked", 0)

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**asdict(self), "touched": self.touched}


def answers_hash(answers: Iterable[str]) -> str:
    """A short hash of the answers of all goals, blanks aside, in any order."""
    text = "\n".join(sorted({a.replace(" ", "") for a in answers}))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_strategy(experiment: Experiment, strategy: Any, edits: int | None = None) -> Record:
    """Consult, ask, make the edits by a strategy of the term route."""
    tables = Tables(experiment.program, strategy=strategy)
    tables.update(insert=experiment.facts)
    start = time.process_time()
    for goal in experiment.goals:
        for _ in tables.query(goal):
            pass
    scratch = time.process_time() - start
    total = Counters()
    visited: dict[str, int] = {}
    gc.freeze()  # the tables live on: full collections would only walk them
    script = experiment.edits[:edits]
    start = time.process_time()
    for edit in script:
        tables.update(insert=edit.insert, delete=edit.delete)
        total.add(tables.last)
        for name, count in tables.visited.items():
            visited[name] = visited.get(name, 0) + count
    seconds = time.process_time() - start
    gc.unfreeze()
    found = answers_hash(str(s) for goal in experiment.goals for s in tables.query(goal))
    return Record(
        experiment.name, experiment.size, strategy, scratch, seconds, len(script), found,
        tables.calls, tables.answers, asdict(total), visited,
    )  # fmt: skip


def run_kernel(experiment: Experiment, edits: int | None = None) -> Record:
    """The same through the rules engine; raises PrologError where the program has terms."""
    opened = open_tables(experiment.program, engine="kernel", connect=deltafix.connect)
    opened.update(insert=experiment.facts)
    start = time.process_time()
    for goal in experiment.goals:
        for _ in opened.query(goal):
            pass
    scratch = time.process_time() - start
    script = experiment.edits[:edits]
    start = time.process_time()
    for edit in script:
        opened.update(insert=edit.insert, delete=edit.delete)
    seconds = time.process_time() - start
    found = answers_hash(str(s) for goal in experiment.goals for s in opened.query(goal))
    return Record(experiment.name, experiment.size, "kernel", scratch, seconds, len(script), found)
