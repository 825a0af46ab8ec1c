"""A table of PostgreSQL: its rows as of one moment, then its changes by logical replication.

    first look   a slot that tells all that is committed from now on; then the rows that one
                 transaction sees, diffed with those that are given
    from then on transactions of the slot, in the order of their commits, whole; those that the
                 first look has seen are passed over

Mark: `postgres/<input>` = {what was read (server, table, publication, columns), slot, `at`: the
position up to which changes are in, and for a while `seen`: which transactions the first look saw}.
The slot moves on at the look after an epoch, to the mark of what is durable. Invariant: what holds
is what the table held at `at`, as far as its rows fit; a transaction is in one epoch; where the
slot, the table or the publication is not the one that was read, or the slot is past the mark,
nothing is taken: changes were missed. With `lost = "snapshot"` all rows are then diffed again.

What a row that cannot be taken says of others still counts: of an update, the old row goes though
the new one is set aside. A row that goes and was never taken is no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltafix.errors import PipelineError, ReplicationError
from deltafix.facts.schema import Schema
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.replication import (
    Position,
    Server,
    Slot,
    Table,
    position,
    shown,
)
from deltafix.pipeline.sources.single import Single
from deltafix.pipeline.sources.transactions import COLUMNS, Changes, Seen, kinds_of, typed

_SEGMENT: Final = 16 << 20
"""So much of the log may say nothing of the table before the mark moves on, and the slot with it:
until then the server keeps it."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """All rows as of one moment, and the mark that goes with them."""

    mark: dict[str, Any]
    rows: pa.Table


class PostgresTable(Single):
    """A source of a table's rows and changes (`source = "postgres"`).

    Args:
        server: the database.
        name, schema, values, policy: as for `Single`.

    Attributes:
        where: what errors begin with.
    """

    def __init__(
        self, server: Server, name: str, schema: Schema, values: Mapping[str, Any], policy: Policy
    ) -> None:
        super().__init__(name, schema, values, policy)
        self._server = server
        server.join(name)
        self.where = f"input {name}: table {values['table']}"
        self._mark = _MARK + name
        self._slot = values["slot"]
        self._publication = values["publication"] or self._slot
        self._unique = False
        self._copy: _Copy | None = None

    @property
    def merges(self) -> bool:
        """As for `Single`; columns may be left out where the others tell rows apart."""
        return self._unique or super().merges

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rest of the first rows, or the next transactions."""
        mark = state.marks.get(self._mark)
        try:
            with self._asking():
                self._server.require_logical()
                if mark is None:
                    return self._first(state, limit)
                try:
                    return self._next(mark, state, limit)
                except ReplicationError as error:
                    if self.values["lost"] == "fail":
                        raise self._missed(error, mark) from error
                    return self._first(state, limit)
        except BaseException:
            self._server.leave(self.name)
            raise

    def look(self, state: State) -> str:
        """What a run would begin with, in words; makes nothing. Raises what `poll` raises."""
        mark = state.marks.get(self._mark)
        with self._asking():
            self._server.require_logical()
            slot = self._server.slot(self._slot)
            if mark is None:
                missing = [] if slot else [f"slot {self._slot}"]
                published = self._server.has_publication(self._publication)
                publication = self._publication if published else None
                self._judged(self._server.table(self.values["table"], publication))
                if not published:
                    missing.insert(0, f"publication {self._publication}")
                return "all rows are read first" + (
                    f"; makes {', '.join(missing)}" if missing else ""
                )
            try:
                table = self._server.table(self.values["table"], self._publication)
                read = self._read_of(table, self._judged(table))
                self._require_same(mark, read, slot)
            except ReplicationError as error:
                if self.values["lost"] == "fail":
                    raise self._missed(error, mark) from error
                return f"all rows are read again: {error}"
            return f"read up to {mark['at']}"

    def close(self) -> None:
        """Let go of the connection."""
        self._copy = None
        self._server.leave(self.name)
        self._server.close()

    # --- all rows --------------------------------------------------------------------------------

    def _first(self, state: State, limit: int) -> Portion:
        """What differs between the rows of one moment and those given; the mark with the last."""
        self._server.leave(self.name)
        if self._copy is None:
            self._server.publish(self._publication, self.values["table"])
            self._server.begin(self._slot)
            with self._server.still(self.values["table"]) as (seen, until):
                table = self._server.table(self.values["table"], self._publication)
                names = self._judged(table)
                slot = self._server.slot(self._slot)
                if slot is None:
                    raise PipelineError(f"slot {self._slot} was dropped meanwhile; try again")
                mark = {
                    **self._read_of(table, names), "at": shown(slot.confirmed),
                    "seen": seen, "until": shown(until),
                }  # fmt: skip
                kinds = kinds_of(self.schema, table, names, self.where)
                rows = self._server.copy(table, names)
            self._copy = _Copy(mark, typed(rows, kinds))
        portion = self.whole(state, self._copy.rows, self.where, limit)
        if not portion.more:
            portion.marks[self._mark] = self._copy.mark
        return portion

    # --- transactions ----------------------------------------------------------------------------

    def _next(self, mark: Mapping[str, Any], state: State, limit: int) -> Portion | None:
        """The next transactions; at least one, if there is one. Raises ReplicationError."""
        server, done = self._server, position(mark["at"])
        if self._copy is not None and self._copy.mark == mark:
            self._copy = None
        table = server.table(self.values["table"], self._publication)
        names = self._judged(table)
        self._require_same(mark, self._read_of(table, names), server.slot(self._slot))
        server.advance(self._slot, done)
        until = server.horizon(self.name, _positions(state.marks))
        if until <= done:
            return None
        changes = Changes(
            self.schema, self.policy, self.where,
            table=table, names=names, state=state, seen=Seen.of(mark),
        )  # fmt: skip
        count, stopped = 0, False
        with closing(server.changes(self._slot, self._publication, until, limit)) as messages:
            for data in messages:
                count += 1
                stopped = not changes.take(data, limit)
                if stopped:
                    break
        # All that was committed before `until` has been told, unless it stopped at the limit.
        whole = not stopped and count < limit
        at = max(until, changes.end) if whole else changes.end
        if whole and not changes.rows and at - done < _SEGMENT:
            server.reach(self.name, at)
            return None
        signed = changes.signed(f"{self.where}, changes behind {mark['at']}")
        portion = Portion(
            self.name, [signed], more=not whole, policy=self.policy, stamp=changes.rows.stamp
        )
        after = dict(mark)
        if at >= position(mark.get("until", "0/0")):
            after = {name: value for name, value in mark.items() if name not in _FIRST}
        portion.marks[self._mark] = {**after, "at": shown(at)}
        return portion

    # --- what can go wrong -----------------------------------------------------------------------

    def _asking(self) -> Any:
        return self._server.asking(self.where, input=self.name, table=self.values["table"])

    def _missed(self, error: ReplicationError, mark: Mapping[str, Any]) -> ReplicationError:
        message = (
            f"{self.where}: {error}; what changed behind {mark['at']} may be missing here: with "
            'lost = "snapshot" all rows are read again, and what differs is taken'
        )
        return ReplicationError(message, slot=self._slot, at=mark["at"])

    def _read_of(self, table: Table, names: Sequence[str]) -> dict[str, Any]:
        """What a mark says of what was read."""
        columns = {column.name: column for column in table.columns}
        return {
            "system": table.system, "database": table.database, "table": table.oid,
            "publication": [table.publication, table.member], "where": table.where,
            "slot": self._slot,
            "columns": [[name, columns[name].number, columns[name].type] for name in names],
        }  # fmt: skip

    def _require_same(
        self, mark: Mapping[str, Any], read: Mapping[str, Any], slot: Slot | None
    ) -> None:
        """Raise ReplicationError unless all changes behind a mark are told."""
        for name, what in _WHAT.items():
            if mark[name] != read[name]:
                shown_ = "" if name == "columns" else f" ({mark[name]}, now {read[name]})"
                raise ReplicationError(f"{what}{shown_}")
        if slot is None:
            raise ReplicationError(f"slot {self._slot} is gone")
        if slot.lost:
            raise ReplicationError(f"slot {self._slot} tells no more: {slot.lost}")
        at, now = position(mark["at"]), self._server.now()
        if slot.confirmed > at:
            raise ReplicationError(
                f"slot {self._slot} is at {shown(slot.confirmed)}, but changes are in up to "
                f"{mark['at']}: it was made anew, somebody else reads it, or the state was put "
                "back from an older copy"
            )
        if now < at:
            raise ReplicationError(
                f"the server is at {shown(now)}, before {mark['at']}, up to which it was read: it "
                "was put back from an older copy"
            )

    def _judged(self, table: Table) -> list[str]:
        """The table's columns for the relation's. Raises what a table is refused with."""
        columns = set(self.values["columns"] or self.schema.names)
        self._unique = any(key <= columns for key in table.unique)
        names = self.choose([column.name for column in table.columns], (), self.where)
        kinds_of(self.schema, table, names, self.where)
        own = dict(zip(names, self.schema.names, strict=True))
        full = f"ALTER TABLE {table.schema}.{table.name} REPLICA IDENTITY FULL"
        keys = [name for name in names if own[name] in self.policy.keying.key]
        fitting = [[own[name] for name in names if name in key] for key in table.unique
                   if key <= own.keys()]  # fmt: skip
        if keys:
            sent = own.keys() if table.identity == "f" else set(table.old)
            if not any(key <= set(keys) for key in table.unique):
                way = f"say key = {fitting[0]}" if fitting else "make a unique index of them"
                raise PipelineError(
                    f"key = {[own[name] for name in keys]} is not what tells its rows apart: no "
                    f"unique index is of columns of it alone, that are NOT NULL; {way}"
                )
            if not sent >= set(keys):
                raise PipelineError(
                    f"of a row that goes it tells {', '.join(sorted(sent)) or 'nothing'} (its "
                    f"replica identity), but the key has {', '.join(keys)}: {full}"
                )
            return names
        if table.old and table.identity in ("d", "i"):
            some = [own[name] for name in names if name in table.old]
            advice = f"say key = {some}, or " if len(some) == len(table.old) else ""
            raise PipelineError(
                f"of a row that goes it tells {', '.join(table.old)} alone (its replica identity): "
                f"{advice}{full}"
            )
        if not self._unique and not self.values["duplicates"]:
            raise PipelineError(
                "no primary key or unique index tells its rows apart, so a row may be there twice: "
                'say duplicates = "count", to keep how often, or duplicates = "ignore", if that '
                "cannot happen"
            )
        return names


def _positions(marks: Mapping[str, Any]) -> dict[str, Position]:
    """Up to where each input's changes are in."""
    by_input = {name.removeprefix(_MARK): mark for name, mark in marks.items()
             if name.startswith(_MARK)}  # fmt: skip
    return {name: position(mark["at"]) for name, mark in by_input.items()}


_MARK: Final = "postgres/"

_FIRST: Final = ("seen", "until")
"""What a mark says of transactions that the first look saw, while some may still be told."""

_WHAT: Final = {
    "system": "the server is another one, or was promoted or restored since",
    "database": "the database is another one",
    "table": "the table was made anew",
    "slot": "it was read through another slot",
    "where": "the publication has another row filter",
    "publication": "the publication was made anew, or lost the table for a while",
    "columns": COLUMNS,
}
"""What is wrong where a mark has another value than the server."""
