"""A load: an epoch that derives everything, on columns, in one go and with one file a shard.

Everyone who takes part holds some shards (`bulk`) and runs the same schedule over them; between
supersteps they exchange messages and reports through a `Link`, so all see the same totals and
choose the same next step. Nothing is written before the end: then each shard's given rows, votes
and ranks are its first journal, from which an engine is made when the first change comes.
Invariant: a load leaves what `shard` would (the same state, messages and changes); one that fails
leaves nothing that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltafix.errors import DeltafixError
from deltafix.spark.errors import error_of, note_of
from deltafix.spark.shards.bulk import BulkShard
from deltafix.spark.shards.bulkrules import bulk_rules
from deltafix.spark.shards.files import write_journal
from deltafix.spark.shards.resident import Place, Spec, given_before, tally, told, write_changes
from deltafix.spark.shards.schedule import Epoch, Report, Work, merged
from deltafix.spark.shards.step import Command, Journal, Parcel
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
class Loaded:
    """What a load cost, and a note for each shard held here (as `resident.run_step` reports)."""

    work: Work
    notes: list[dict[str, Any]]


def run_load(spec: Spec, task: Place, first: Mapping[int, Sequence[Batch]], link: Link) -> Loaded:
    """Load the shards that are keys of `first`, whose messages are its values.

    The layout has rules over columns (`bulk_rules`). Raises FailedError in all who take part.
    """
    load = _Load(spec, task, first, link)
    return Loaded(Epoch(spec.layout, load).run(), load.notes)


class _Load:
    def __init__(
        self, spec: Spec, task: Place, first: Mapping[int, Sequence[Batch]], link: Link
    ) -> None:
        rules = bulk_rules(spec.layout)
        assert rules is not None  # noqa: S101  who has a layout loaded has asked
        self.spec = spec
        self.task = task
        self.link = link
        self.rules = rules
        self.first = first
        self.notes: list[dict[str, Any]] = []
        self.shards: dict[int, BulkShard] = {}
        self.inbox: dict[int, list[Batch]] = {}

    def step(self, command: Command) -> Report:
        """One superstep of the shards held here, then the exchange."""
        report, away = Report(), list[Parcel]()
        failed: DeltafixError | None = None
        try:
            if not self.shards:
                self._take()
            for number in self.shards:
                self._step(number, command, report, away)
        except (DeltafixError, OSError) as error:
            failed = told(self.spec, error)
        whole, came = exchanged(self.link, report, away, failed)
        whole.ended = command.action == "commit"
        for number, batch in came:
            self.inbox.setdefault(number, []).append(batch)
        return whole

    def _take(self) -> None:
        """Begin with what is given already, and the first messages."""
        spec = self.spec
        for number, came in sorted(self.first.items()):
            before = given_before(spec, number, list(self.task.files.get(number, ())))
            self.shards[number] = BulkShard(spec.layout, self.rules, number, spec.shards, before)
            self.inbox[number] = [*came]

    def _step(self, number: int, command: Command, report: Report, away: list[Parcel]) -> None:
        shard = self.shards[number]
        outcome = shard.step(command, self.inbox.pop(number, ()))
        away += tally(outcome, report)
        if command.action == "commit":
            name = self.task.file(number)
            journal = Journal(shard.clock, self.task.attempt, shard.given(), fresh=True)
            size, rows = write_journal(self.spec.place, name, journal)
            changes = write_changes(self.spec, self.task, number, outcome.changes)
            note = {"shard": number, "file": name, "size": size, "rows": rows, "changes": changes}
            self.notes.append(note)
