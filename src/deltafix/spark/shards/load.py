"""A load: an epoch that derives everything, on columns, in one go and with one file a shard.

Everyone who takes part holds some shards and runs the same schedule over them; between
supersteps they exchange messages and reports through a `Link`, so all see the same totals and
choose the same next step. Nothing is written before the end: then each shard's given rows, votes
and ranks are its first journal, from which an engine is made when the first change comes.
Invariant: a load leaves what `shard` would (the same state, messages and changes); one that fails
leaves nothing that counts.

A load begins with nothing derived and takes nothing away, so a derivation is found once, a row is
new once, and all a shard must know is which rows it has seen. Commands, messages, ranks and reports
are those of `Shard`; what a load leaves is the given rows of the local program
(tests/spark/test_shards_bulk.py holds them side by side). A row of a recursive relation has a rank
above those of the votes that brought it; strata run lowest first, each when everything below it is
complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from deltafix.errors import DeltafixError
from deltafix.facts.arrow import to_numpy
from deltafix.spark.errors import error_of, note_of
from deltafix.spark.hashing import Key, cut, hash_columns
from deltafix.spark.shards.bulkrules import Rules, bulk_rules
from deltafix.spark.shards.columns import Columns, Run, Seen, distinct, joined, taken
from deltafix.spark.shards.files import write_journal
from deltafix.spark.shards.layout import Derived, Layout
from deltafix.spark.shards.resident import Place, Spec, given_before, tally, told, write_changes
from deltafix.spark.shards.schedule import Epoch, Report, Work, merged
from deltafix.spark.shards.step import (
    RANK_BITS,
    Command,
    Entry,
    Journal,
    Outcome,
    Parcel,
    rank_rows,
    ranked_parts,
)
from deltafix.spark.wire import Batch, fold, signed, split


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


T = TypeVar("T", bound=Place)
S = TypeVar("S")


class Supersteps(Generic[T, S]):
    """The shards held here by one who takes part, and the messages that wait for them."""

    def __init__(
        self, spec: Spec, task: T, first: Mapping[int, Sequence[Batch]], link: Link
    ) -> None:
        self.spec = spec
        self.task = task
        self.link = link
        self.first = first
        self.shards: dict[int, S] = {}
        self.inbox: dict[int, list[Batch]] = {}

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
            failed = told(self.spec, error)
        whole, came = exchanged(self.link, report, away, failed)
        for target, batch in came:
            self.inbox.setdefault(target, []).append(batch)
        return whole

    def take(self, report: Report) -> None:
        """Begin with the shards, and the first messages."""
        raise NotImplementedError

    def run(self, number: int, command: Command, report: Report, away: list[Parcel]) -> None:
        """Let one shard do a step; `away` are the messages it has for others."""
        raise NotImplementedError


class _Load(Supersteps[Place, "BulkShard"]):
    def __init__(
        self, spec: Spec, task: Place, first: Mapping[int, Sequence[Batch]], link: Link
    ) -> None:
        super().__init__(spec, task, first, link)
        rules = bulk_rules(spec.layout)
        assert rules is not None  # noqa: S101  who has a layout loaded has asked
        self.rules = rules
        self.notes: list[dict[str, Any]] = []

    def step(self, command: Command) -> Report:
        whole = super().step(command)
        whole.ended = command.action == "commit"
        return whole

    def take(self, report: Report) -> None:
        """Begin with what is given already, and the first messages."""
        spec = self.spec
        for number, came in sorted(self.first.items()):
            before = given_before(spec, number, list(self.task.files.get(number, ())))
            self.shards[number] = BulkShard(spec.layout, self.rules, number, spec.shards, before)
            self.inbox[number] = [*came]

    def run(self, number: int, command: Command, report: Report, away: list[Parcel]) -> None:
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


class BulkShard:
    """Shard `number` of `shards`, which begins with the rows of `begin` (see `Shard.restart`)."""

    def __init__(
        self, layout: Layout, rules: Rules, number: int, shards: int, begin: Sequence[Entry] = ()
    ) -> None:
        self.layout = layout
        self.number = number
        self.shards = shards
        self.clock = 0
        self._rules = rules
        self._begin: Sequence[Entry] | None = begin
        self._gone = [entry.batch for entry in begin if entry.kind == "gone"]
        self._strata: dict[int, list[Derived]] = {}
        for made in layout.derived.values():
            self._strata.setdefault(made.stratum, []).append(made)
        self._waiting = set(self._strata)
        self._named = {
            made.part(role): made
            for made in layout.derived.values()
            for role in ("out", "vote", "given")
        }
        self._ranked = {name for made in layout.derived.values() for name in ranked_parts(made)}
        self._within = {copy.name for made in layout.derived.values() for copy in made.within}
        self._seen = {name: Seen() for name in layout.derived}
        self._runs: dict[str, list[Run]] = {}
        self._votes: dict[str, list[Columns]] = {}
        self._fresh: dict[str, list[Columns]] = {}
        self._outbox: dict[tuple[int, str], list[Columns]] = {}

    def step(self, command: Command, inbox: Iterable[Batch]) -> Outcome:
        """One superstep. Batches of the first inbox are signed, later ones have no sign."""
        self._outbox = {}
        if self._begin is not None:
            self._give([*(e.batch for e in self._begin if e.kind == "edit"), *inbox])
            self._begin = None
        else:
            self._hear(inbox)
        action, stratum = command
        if action in ("send", "retract", "apply"):
            self._decide()
        if action in ("send", "retract"):
            self._waiting.discard(stratum)
            for head, rows in self._rules.base(stratum, self._runs):
                self._vote(self._named[head], rows)
        elif action == "insert":
            self._settle(stratum)
        elif action == "finish":
            self._publish(stratum)
        outcome = Outcome(pending=self._pending())
        if action == "commit":
            outcome.changes = self._changes()
        for (shard, name), parts in self._outbox.items():
            outcome.messages.setdefault(shard, []).append(Batch(name, _table(joined(parts))))
        return outcome

    def given(self) -> Iterator[Entry]:
        """All given rows of the local program: the journal that makes this shard from nothing."""
        for name, types in self.layout.types.items():
            parts = self._votes.get(name) or [run.columns for run in self._runs.get(name, ())]
            if parts and name not in self.layout.derived:
                yield Entry("edit", Batch(name, signed(_table(joined(parts)), types, 1)))

    # --- what comes --------------------------------------------------------------------------

    def _give(self, batches: Iterable[Batch]) -> None:
        """Enter the given rows: signs are added up, a row that is left is there once."""
        found: dict[str, list[pa.Table]] = {}
        for batch in batches:
            found.setdefault(batch.name, []).append(batch.table)
        for name, tables in found.items():
            rows = distinct(_columns(split(fold(tables))[1]))
            if len(rows[0]):
                self._append(name, rows)
                made = self._named.get(name)
                if made is not None:
                    self._fresh.setdefault(made.relation, []).append(rows)

    def _hear(self, batches: Iterable[Batch]) -> None:
        """Enter votes and copies that other shards sent."""
        for batch in batches:
            columns = _columns(batch.table)
            made = self._named.get(batch.name)
            if batch.name in self._ranked:
                rank = columns[made.arity if made else -1]
                self.clock = max(self.clock, int(rank.max()) >> RANK_BITS)
            if made is not None:
                self._heard(made, columns)
            elif batch.name in self._within:
                self._derive(batch.name, columns)
            else:
                self._append(batch.name, columns)

    def _heard(self, made: Derived, votes: Columns) -> None:
        self._votes.setdefault(made.part("vote"), []).append(votes)
        self._fresh.setdefault(made.relation, []).append(votes[: made.arity])

    def _append(self, name: str, columns: Columns) -> None:
        """A run more; earlier ones are put together so that they stay few."""
        runs = self._runs.setdefault(name, [])
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            runs[-2:] = [Run(joined((runs[-2].columns, runs[-1].columns)))]
        runs.append(Run(columns))

    # --- what goes ---------------------------------------------------------------------------

    def _vote(self, made: Derived, rows: Columns) -> None:
        """Tell the homes of derived rows; of a recursive relation, hear the own ones at once."""
        votes = (*rows, np.full(len(rows[0]), self.number, np.int64))
        for shard, part in self._route(votes, made.home):
            if made.ranked and shard == self.number:
                self._heard(made, part)
            else:
                self._outbox.setdefault((shard, made.part("vote")), []).append(part)

    def _route(self, rows: Columns, key: Key) -> Iterator[tuple[int, Columns]]:
        if key.columns is None or self.shards == 1:
            for shard in range(self.shards):
                yield shard, rows
            return
        hashes = hash_columns(tuple(rows[column] for column in key.columns), len(rows[0]))
        if key.heavy is not None and (heavy := key.heavy.rows(hashes)).any():
            yield from self._route(taken(rows, heavy), Key(key.heavy.columns))
            yield from self._route(taken(rows, ~heavy), Key(key.columns))
            return
        order, parts = cut(hashes, self.shards)
        rows = rows if order is None else taken(rows, order)
        for shard, where in parts.items():
            yield shard, taken(rows, where)

    # --- what holds --------------------------------------------------------------------------

    def _decide(self) -> None:
        """Relations without recursion: what has a vote or is given holds."""
        for made in self.layout.derived.values():
            parts = None if made.ranked else self._fresh.pop(made.relation, None)
            if parts is None:
                continue
            rows = self._seen[made.relation].add(joined(parts))
            if len(rows[0]):
                self._append(made.relation, rows)
                self._copy(made, rows)

    def _settle(self, stratum: int) -> None:
        """Rows that are new come, with ranks, and what they derive, until nothing is new here."""
        moved = True
        while moved:
            moved = False
            self.clock += 1
            # All of a round before its votes: they belong to rows of the next.
            round_ = [(m, self._fresh.pop(m.relation, None)) for m in self._strata[stratum]]
            for made, parts in round_:
                if parts is None:
                    continue
                rows = self._seen[made.relation].add(joined(parts))
                if not len(rows[0]):
                    continue
                moved = True
                ranked = (*rows, rank_rows(hash_columns(rows), self.clock))
                self._derive(made.part("now"), ranked)
                for copy in made.within:
                    for shard, part in self._route(ranked, copy.key):
                        if shard == self.number:
                            self._derive(copy.name, part)
                        else:
                            self._outbox.setdefault((shard, copy.name), []).append(part)
        self.clock -= 1  # in the last round nothing moved

    def _derive(self, name: str, rows: Columns) -> None:
        """New rows for the rules of their own stratum."""
        self._append(name, rows)
        for head, found in self._rules.derive(name, self._runs):
            self._vote(self._named[head], found)

    def _publish(self, stratum: int) -> None:
        for made in self._strata[stratum]:
            for run in self._runs.get(made.part("now"), ()):
                self._copy(made, run.columns[:-1])

    def _copy(self, made: Derived, rows: Columns) -> None:
        for copy in made.above:
            for shard, part in self._route(rows, copy.key):
                self._outbox.setdefault((shard, copy.name), []).append(part)

    # --- the ends ----------------------------------------------------------------------------

    def _pending(self) -> dict[int, int]:
        """Strata that have not been begun count, so that each is."""
        found = dict.fromkeys(self._waiting, 1)
        for name, parts in self._fresh.items():
            made = self.layout.derived[name]
            if made.ranked:
                rows = sum(len(part[0]) for part in parts)
                found[made.stratum] = found.get(made.stratum, 0) + rows
        return found

    def _changes(self) -> dict[str, pa.Table]:
        """What each relation has now, less what it had."""
        tables: dict[str, list[pa.Table]] = {}
        for batch in self._gone:
            tables.setdefault(batch.name, []).append(batch.table)
        for name, report in self.layout.reports.items():
            if report.everywhere and self.number:
                continue
            types = self.layout.types[name]
            types = types[:-1] if name in self._ranked else types
            for run in self._runs.get(name, ()):
                table = signed(_table(run.columns[: len(types)]), types, 1)
                tables.setdefault(report.relation, []).append(table)
        changes = {name: fold(found) for name, found in tables.items()}
        return {name: table for name, table in changes.items() if table.num_rows}


def _columns(table: pa.Table) -> Columns:
    return tuple(to_numpy(column) for column in table.columns)


def _table(columns: Columns) -> pa.Table:
    return pa.table([pa.array(c) for c in columns], names=[f"c{n}" for n in range(len(columns))])
