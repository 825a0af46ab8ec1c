"""An epoch, or what is left of one behind a superstep: in one go, and with one file a shard.

Everyone who takes part holds some shards and runs the same schedule over them; between supersteps
they exchange messages and reports through a `Link`, so all see the same totals and choose the same
next step. What a superstep costs is an exchange then, and not a job of Spark. An epoch that derives
everything may be a load (`load.Load`): then each shard's given rows, votes and ranks are its first
journal. Invariant: it leaves what `resident.run_step` would leave step by step (the same state,
messages and changes); one that fails leaves nothing that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa

from deltafix.errors import DeltafixError
from deltafix.spark.errors import error_of, note_of
from deltafix.spark.shards.files import write_journal
from deltafix.spark.shards.load import Load
from deltafix.spark.shards.resident import (
    Resident,
    Spec,
    StepFiles,
    given_before,
    keep,
    take,
    tally,
    task_error,
    write_changes,
)
from deltafix.spark.shards.schedule import Epoch, Report, Work, merged
from deltafix.spark.shards.step import Command, Entry, Journal, Judging, Parcel, Verdict
from deltafix.spark.wire import Batch


class RefusedError(Exception):
    """Tasks cannot run together, or not now; one after another they can."""


class FailedError(Exception):
    """A superstep failed in one of those who take part, and all of them have stopped.

    Attributes:
        error: what failed.
    """

    def __init__(self, error: DeltafixError) -> None:
        super().__init__(str(error))
        self.error = error


class Link(Protocol):
    """How those who take part exchange what a superstep gave."""

    def exchange(self, report: Report, away: Sequence[Parcel]) -> tuple[list[Report], list[Parcel]]:
        """Give one's report and the parcels for shards of others; get all reports, own parcels."""


class Alone:
    """The link of one who holds all shards."""

    def exchange(self, report: Report, away: Sequence[Parcel]) -> tuple[list[Report], list[Parcel]]:
        """Nobody to exchange anything with."""
        return [report], [*away]


def exchanged(
    link: Link, report: Report, away: Sequence[Parcel], failed: DeltafixError | None
) -> tuple[Report, list[Parcel]]:
    """What a superstep gave to all: the merged report, and one's own parcels.

    Raises FailedError in all who take part if it failed in one.
    """
    if failed is not None:
        report.error = note_of(failed)
    reports, came = link.exchange(report, away)
    whole = merged(reports)
    if failed is None and whole.error is not None:
        failed = error_of(whole.error)
    if failed is not None:
        raise FailedError(failed)
    return whole, came


@dataclass
class Done:
    """What supersteps cost, and notes of the shards held here, as `resident.run_step` has them."""

    work: Work
    notes: list[dict[str, Any]]


@dataclass(frozen=True)
class RestTask(StepFiles):
    """What is left of an epoch, and where.

    Attributes:
        last: what all shards together reported of the step before; None: there was none, or one
            that judged. `begun`: the stratum that it began, if it did.
        given: the only relations of which the first messages have rows; None: any may.
        judging: how those are judged, if they are.
        fresh: whether all is derived anew.
        loads: whether that is a load, which leaves files and no engines.
    """

    last: Report | None = None
    begun: int | None = None
    given: frozenset[str] | None = None
    judging: Judging | None = None
    fresh: bool = False
    loads: bool = False


def run_rest(spec: Spec, task: RestTask, first: Mapping[int, Sequence[Batch]], link: Link) -> Done:
    """Take the shards that are keys of `first`, whose messages are its values, to the end.

    Raises FailedError in all who take part.
    """
    rest = _Rest(spec, task, first, link)
    epoch = Epoch(spec.layout, rest)
    if task.last is not None:
        epoch.last, epoch.begun = task.last, task.begun
    elif task.judging is None or task.judging.in_place or judged(epoch):
        epoch.begin(task.given)
    else:
        return Done(epoch.work, rest.leave())
    return Done(epoch.finish(), rest.leave())


def judged(epoch: Epoch) -> bool:
    """Have the seats judge the first messages; whether that changes anything."""
    epoch.step("judge")
    return bool(epoch.last.sent)


class _Rest:
    """The shards held here by one who takes part, and the messages that wait for them."""

    def __init__(
        self, spec: Spec, task: RestTask, first: Mapping[int, Sequence[Batch]], link: Link
    ) -> None:
        self.spec = spec
        self.task = task
        self.link = link
        self.first = first
        self.shards: dict[int, Resident] = {}
        self.inbox: dict[int, list[Batch]] = {}
        self.clocks: dict[int, int] = {}
        self.entries: dict[int, list[Entry]] = {}
        self.changes: dict[int, dict[str, pa.Table]] = {}
        self.verdicts: dict[int, dict[str, Verdict]] = {}
        self.judging = task.judging

    def step(self, command: Command) -> Report:
        """One superstep of the shards held here, then the exchange."""
        report, away = Report(ended=True), list[Parcel]()
        failed: DeltafixError | None = None
        try:
            if not self.shards:
                self.take(report)
            for number in self.shards:
                self.run(number, command, report, away)
        except (DeltafixError, OSError) as error:
            failed = task_error(self.spec, error)
        whole, came = exchanged(self.link, report, away, failed)
        for target, batch in came:
            self.inbox.setdefault(target, []).append(batch)
        self.judging = None
        return whole

    def take(self, report: Report) -> None:
        """Begin with the shards, and the messages that wait."""
        spec = self.spec
        for number, came in sorted(self.first.items()):
            wanted = list(self.task.files.get(number, ()))
            if self.task.loads:
                before = given_before(spec, number, wanted)
                load = Load(spec.layout, number, spec.shards, spec.users, before)
                self.shards[number] = Resident(load)
            else:
                self.shards[number], loaded = take(spec, number, wanted)
                report.loads += loaded
            if self.task.fresh:
                self.shards[number].shard = self.shards[number].shard.anew()
            self.clocks[number] = self.shards[number].shard.clock
            self.entries[number] = []
            self.inbox[number] = [*came]

    def run(self, number: int, command: Command, report: Report, away: list[Parcel]) -> None:
        """Let one shard do a step; `away` are the messages it has for others."""
        shard = self.shards[number].shard
        inbox, columns = self.inbox.pop(number, ()), self.spec.columns
        outcome = shard.step(self.task.attempt, command, inbox, self.judging, columns)
        if self.judging is not None:
            self.verdicts[number] = outcome.verdicts
        if not self.task.loads:
            self.entries[number] += shard.journal
        self.changes[number] = outcome.changes
        away += tally(outcome, report)

    def leave(self) -> list[dict[str, Any]]:
        """Write what the steps did to the shards; a note of the files of each, as in `run_step`."""
        notes: list[dict[str, Any]] = []
        failed: DeltafixError | None = None
        try:
            notes += map(self._leave, self.shards)
        except (DeltafixError, OSError) as error:
            failed = task_error(self.spec, error)
        exchanged(self.link, Report(), (), failed)
        return notes

    def _leave(self, number: int) -> dict[str, Any]:
        resident, entries, task = self.shards[number], self.entries[number], self.task
        clock, fresh = resident.shard.clock, task.fresh or task.loads
        note: dict[str, Any] = {"shard": number}
        if entries or clock != self.clocks[number] or fresh:
            name = task.file(number)
            left = resident.shard.given() if task.loads else entries
            size, rows = write_journal(
                self.spec.root, name, Journal(clock, task.attempt, left, fresh)
            )
            resident.files = [*task.files.get(number, ()), name]
            note |= {"file": name, "size": size, "rows": rows}
        note["changes"] = write_changes(self.spec, task, number, self.changes[number])
        verdicts = self.verdicts.get(number, {})
        note["verdicts"] = {name: asdict(verdict) for name, verdict in verdicts.items()}
        if not task.loads:
            keep(self.spec, number, resident)
        return note
