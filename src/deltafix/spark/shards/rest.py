"""An epoch, or what is left of one behind a superstep: in one go, and with one file a shard.

Everyone who takes part holds some shards and runs the same schedule over them, as in a `load`;
between supersteps they exchange messages and reports through a `Link`. What a superstep costs is
an exchange then, and not a job of Spark. Invariant: it leaves what `resident.run_step` would leave
step by step (the same state, messages and changes); one that fails leaves nothing that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from deltafix.errors import DeltafixError
from deltafix.spark.shards.files import write_journal
from deltafix.spark.shards.load import Link, Loaded, Supersteps, exchanged
from deltafix.spark.shards.resident import (
    Place,
    Resident,
    Spec,
    keep,
    take,
    tally,
    told,
    write_changes,
)
from deltafix.spark.shards.schedule import Epoch, Report
from deltafix.spark.shards.step import Command, Entry, Journal, Judging, Parcel, Verdict
from deltafix.spark.wire import Batch


@dataclass(frozen=True)
class RestTask(Place):
    """What is left of an epoch, and where.

    Attributes:
        last: what all shards together reported of the step before; None: there was none, or one
            that judged. `begun`: the stratum that it began, if it did.
        given: the only relations of which the first messages have rows; None: any may.
        judging: how those are judged, if they are.
        fresh: whether all is derived anew.
    """

    last: Report | None = None
    begun: int | None = None
    given: frozenset[str] | None = None
    judging: Judging | None = None
    fresh: bool = False


def run_rest(
    spec: Spec, task: RestTask, first: Mapping[int, Sequence[Batch]], link: Link
) -> Loaded:
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
        return Loaded(epoch.work, rest.leave())
    return Loaded(epoch.finish(), rest.leave())


def judged(epoch: Epoch) -> bool:
    """Have the seats judge the first messages; whether that changes anything."""
    epoch.step("judge")
    return bool(epoch.last.sent)


class _Rest(Supersteps[RestTask, Resident]):
    def __init__(
        self, spec: Spec, task: RestTask, first: Mapping[int, Sequence[Batch]], link: Link
    ) -> None:
        super().__init__(spec, task, first, link)
        self.clocks: dict[int, int] = {}
        self.entries: dict[int, list[Entry]] = {}
        self.changes: dict[int, dict[str, pa.Table]] = {}
        self.verdicts: dict[int, dict[str, Verdict]] = {}
        self.judging = task.judging

    def step(self, command: Command) -> Report:
        whole = super().step(command)
        self.judging = None
        return whole

    def take(self, report: Report) -> None:
        """Begin with the shards, and the messages that wait."""
        for number, came in sorted(self.first.items()):
            wanted = list(self.task.files.get(number, ()))
            self.shards[number], loaded = take(self.spec, number, wanted)
            if self.task.fresh:
                self.shards[number].shard = self.shards[number].shard.anew()
            report.loads += loaded
            self.clocks[number] = self.shards[number].shard.clock
            self.entries[number] = []
            self.inbox[number] = [*came]

    def run(self, number: int, command: Command, report: Report, away: list[Parcel]) -> None:
        shard = self.shards[number].shard
        inbox, columns = self.inbox.pop(number, ()), self.spec.columns
        outcome = shard.step(self.task.attempt, command, inbox, self.judging, columns)
        if self.judging is not None:
            self.verdicts[number] = outcome.verdicts
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
            failed = told(self.spec, error)
        exchanged(self.link, Report(), (), failed)
        return notes

    def _leave(self, number: int) -> dict[str, Any]:
        resident, entries, task = self.shards[number], self.entries[number], self.task
        clock = resident.shard.clock
        note: dict[str, Any] = {"shard": number}
        if entries or clock != self.clocks[number] or task.fresh:
            name = task.file(number)
            journal = Journal(clock, task.attempt, entries, task.fresh)
            size, rows = write_journal(self.spec.place, name, journal)
            resident.files = [*task.files.get(number, ()), name]
            note |= {"file": name, "size": size, "rows": rows}
        note["changes"] = write_changes(self.spec, task, number, self.changes[number])
        verdicts = self.verdicts.get(number, {})
        note["verdicts"] = {name: asdict(verdict) for name, verdict in verdicts.items()}
        keep(self.spec, number, resident)
        return note
