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

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import DriftError, PipelineError, ReplicationError
from deltafix.facts.schema import Schema
from deltafix.facts.values import read_whole
from deltafix.pipeline.columns import fit
from deltafix.pipeline.keyed import KEYED
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State, difference_with
from deltafix.pipeline.signed import Bad, Signed
from deltafix.pipeline.sources.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Relation,
    Truncate,
    Values,
    parse,
)
from deltafix.pipeline.sources.replication import (
    Column,
    Position,
    Server,
    Slot,
    Table,
    position,
    shown,
)
from deltafix.pipeline.sources.single import Single

__all__ = ["PostgresTable"]

_SEGMENT: Final = 16 << 20
"""So much of the log may say nothing of the table before the mark moves on, and the slot with it:
until then the server keeps it."""

Row = tuple[Any, ...]


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
        self.where = f"input {name}: table {values['table']}"
        self._slot = values["slot"]
        self._publication = values["publication"] or self._slot
        self._unique = False
        self._copy: _Copy | None = None

    @property
    def merges(self) -> bool:
        """As for `Single`; columns that are left out matter not where the others tell rows apart."""
        return self._unique or super().merges

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rest of the first rows, or the next transactions."""
        mark = state.marks.get(f"postgres/{self.name}")
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
        mark = state.marks.get(f"postgres/{self.name}")
        with self._asking():
            self._server.require_logical()
            slot = self._server.slot(self._slot)
            if mark is None:
                made = [] if slot else [f"slot {self._slot}"]
                if self._server.has_publication(self._publication):
                    self._judged(self._server.table(self.values["table"], self._publication))
                else:
                    made.insert(0, f"publication {self._publication}")
                return "all rows are read first" + (f"; makes {', '.join(made)}" if made else "")
            table = self._server.table(self.values["table"], self._publication)
            names = self._judged(table)
            try:
                self._require_same(mark, self._read_of(table, names), slot)
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
                kinds = [_kind(self.schema, place, table, name, self.where)
                         for place, name in enumerate(names)]  # fmt: skip
                rows = self._server.copy(table, names)
            self._copy = _Copy(mark, _typed(rows, kinds))
        portion = self.whole(state, self._copy.rows, self.where, limit)
        if not portion.more:
            portion.marks[f"postgres/{self.name}"] = self._copy.mark
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
        until = server.horizon(self.name, done)
        if until <= done:
            return None
        changes = _Changes(self, table, names, state, _Seen.of(mark))
        told, stopped = 0, False
        with closing(server.changes(self._slot, self._publication, until, limit)) as messages:
            for data in messages:
                told += 1
                stopped = not changes.take(data, limit)
                if stopped:
                    break
        # All that was committed before `until` has been told, unless it stopped at the limit.
        whole = not stopped and told < limit
        at = max(until, changes.end) if whole else changes.end
        if whole and not changes.rows and at - done < _SEGMENT:
            server.reach(self.name, at)
            return None
        portion = changes.portion(f"{self.where}, changes behind {mark['at']}")
        portion.more = not whole
        after = dict(mark)
        if at >= position(mark.get("until", "0/0")):
            after.pop("seen", None), after.pop("until", None)
        portion.marks[f"postgres/{self.name}"] = {**after, "at": shown(at)}
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
        columns = {one.name: one for one in table.columns}
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
        wanted = set(self.values["columns"] or self.schema.names)
        self._unique = any(one <= wanted for one in table.unique)
        names = self.choose([one.name for one in table.columns], (), self.where)
        for place, name in enumerate(names):
            _kind(self.schema, place, table, name, self.where)
        own = dict(zip(names, self.schema.names, strict=True))
        full = f"ALTER TABLE {table.schema}.{table.name} REPLICA IDENTITY FULL"
        keys = [name for name in names if own[name] in self.policy.keying.key]
        fitting = [[own[name] for name in names if name in one] for one in table.unique
                   if one <= own.keys()]  # fmt: skip
        if keys:
            told = own.keys() if table.identity == "f" else set(table.old)
            if not any(one <= set(keys) for one in table.unique):
                way = f"say key = {fitting[0]}" if fitting else "make a unique index of them"
                raise PipelineError(
                    f"key = {[own[name] for name in keys]} is not what tells its rows apart: no "
                    f"unique index is of columns of it alone, that are NOT NULL; {way}"
                )
            if not told >= set(keys):
                raise PipelineError(
                    f"of a row that goes it tells {', '.join(sorted(told)) or 'nothing'} (its "
                    f"replica identity), but the key has {', '.join(keys)}: {full}"
                )
            return names
        if table.old and table.identity in ("d", "i"):
            way = [own[name] for name in names if name in table.old]
            said = f"say key = {way}, or " if len(way) == len(table.old) else ""
            raise PipelineError(
                f"of a row that goes it tells {', '.join(table.old)} alone (its replica identity): "
                f"{said}{full}"
            )
        if not self._unique and not self.values["duplicates"]:
            raise PipelineError(
                "no primary key or unique index tells its rows apart, so a row may be there twice: "
                'say duplicates = "count", to keep how often, or duplicates = "ignore", if that '
                "cannot happen"
            )
        return names


_WHAT: Final = {
    "system": "the server is another one, or was promoted or restored since",
    "database": "the database is another one",
    "table": "the table was made anew",
    "slot": "it was read through another slot",
    "publication": "the publication was made anew, or lost the table for a while",
    "where": "the publication has another row filter",
    "columns": "columns were changed, whose values may have been written anew without a change "
    "being told, or others are named",
}
"""What is wrong where a mark has another value than the server."""


def _kind(schema: Schema, place: int, table: Table, name: str, origin: str) -> str:
    """How values of a column are read for one of the relation. Raises DriftError."""
    column = next(one for one in table.columns if one.name == name)
    wanted = schema.columns[place]
    if wanted.type in ("symbol", "record"):
        return "bool" if column.base == _BOOL else "text"
    if column.base in _INTS:
        return "int"
    if column.base in _FLOATS and wanted.type == "float":
        return _FLOATS[column.base]
    if column.base == _NUMERIC or column.category == "S":
        return "text"
    message = (
        f"{origin}: column {name!r} is of type {column.type_name}, but {wanted.name!r} is a "
        f"{wanted.type}"
    )
    raise DriftError(message, origin=origin, column=name, value=column.type_name)


_INTS: Final = (20, 21, 23, 26)
"""Numbers of PostgreSQL's types, the same everywhere: bigint, smallint, integer, oid."""

_FLOATS: Final = {700: "float4", 701: "float8"}
_BOOL, _NUMERIC = 16, 1700

_READERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "int": int,
    "float4": lambda text: float(np.float32(text)),
    "float8": float,
    "bool": lambda text: "true" if text == b"t" else "false",
    "text": bytes.decode,
}
_ARROW: Final = {"int": pa.int64(), "float4": pa.float64(), "float8": pa.float64()}


def _typed(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """Columns of text as `_READERS` would give them."""
    for place, kind in enumerate(kinds):
        column = rows.column(place)
        if kind == "bool":
            column = pc.if_else(pc.equal(column, "t"), "true", "false")
        elif kind == "float4":
            column = column.cast(pa.float32()).cast(pa.float64())
        elif kind in _ARROW:
            column = column.cast(_ARROW[kind])
        rows = rows.set_column(place, rows.column_names[place], column)
    return rows


@dataclass(frozen=True, slots=True)
class _Seen:
    """Which transactions a moment saw: those below `low`, and of those below `high` all but some."""

    low: int = 0
    high: int = 0
    open: frozenset[int] = frozenset()

    @classmethod
    def of(cls, mark: Mapping[str, Any]) -> Self:
        """From a mark, as `pg_current_snapshot` prints it."""
        if "seen" not in mark:
            return cls()
        low, high, some = mark["seen"].split(":")
        return cls(int(low), int(high), frozenset(map(int, filter(None, some.split(",")))))

    def sees(self, xid: int) -> bool:
        """Whether it saw a transaction, given the lower 32 bits of its number."""
        xid = (xid - self.high + (1 << 31)) % (1 << 32) + self.high - (1 << 31)  # the nearest
        return xid < self.high and xid not in self.open


@dataclass(slots=True)
class _Rows:
    """Signed rows in order. Those before a truncation only count if they cannot be taken.

    Attributes:
        stamp: when the first was committed, in seconds since 1970.
    """

    signs: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    before: list[Row] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    truncated: bool = False
    stamp: float | None = None

    def __len__(self) -> int:
        return len(self.rows) + len(self.before) + len(self.bad) + self.truncated

    def truncate(self) -> None:
        self.before += (row for row, sign in zip(self.rows, self.signs, strict=True) if sign > 0)
        self.rows, self.signs, self.truncated = [], [], True

    def extend(self, other: _Rows) -> None:
        if other.truncated:
            self.truncate()
        self.signs += other.signs
        self.rows += other.rows
        self.before += other.before
        self.bad += other.bad
        if other and self.stamp is None:
            self.stamp = other.stamp


class _Changes:
    """Messages of transactions, as rows of one table; `take` them one after another.

    Attributes:
        end: the position behind the last transaction that was taken.
        rows: what was taken.
    """

    def __init__(
        self, source: PostgresTable, table: Table, names: list[str], state: State, seen: _Seen
    ) -> None:
        self.end: Position = 0
        self.rows = _Rows()
        self._open = _Rows()
        self._passes = False
        self._source = source
        self._table = table
        self._names = names
        self._state = state
        self._seen = seen
        schema, keying = source.schema, source.policy.keying
        self._kinds = [_kind(schema, place, table, name, "") for place, name in enumerate(names)]
        self._readers = [_READERS[kind] for kind in self._kinds]
        self._key = [place for place, name in enumerate(schema.names) if name in keying.key]
        self._places: list[int] = []
        self._latest: dict[Row, Row | None] = {}
        self._truncated = False

    def take(self, data: bytes, limit: int) -> bool:
        """The next message; False where what was taken is enough, or all that can be."""
        try:
            message = parse(data)
            if isinstance(message, Commit):
                if self.rows and len(self.rows) + len(self._open) > limit:
                    return False
                self.rows.extend(self._open)
                self.end = message.end
            else:
                self._said(message)
        except (PipelineError, ValueError) as error:
            if self.rows:
                return False  # what is before it is taken first
            if isinstance(error, PipelineError):
                raise
            hint = "" if not isinstance(error, UnicodeDecodeError) else (
                "; a database without an encoding (SQL_ASCII) can be read if its text is UTF-8"
            )  # fmt: skip
            raise PipelineError(f"a change cannot be read: {error}{hint}") from error
        return True

    def portion(self, origin: str) -> Portion:
        """What was taken, as a portion without marks."""
        source, state = self._source, self._state
        portion = Portion(source.name, policy=source.policy, stamp=self.rows.stamp)
        if self.rows.truncated:
            nothing = self._fit([], [], origin)
            gone = difference_with(state, nothing, source.policy)
            portion.signed.append(Signed(source.schema, gone))
        signed = self._fit(self.rows.rows, self.rows.signs, origin)
        before = self._fit(self.rows.before, [1] * len(self.rows.before), origin)
        signed.bad = [*self.rows.bad, *before.bad, *signed.bad]
        portion.signed.append(signed)
        return portion

    # --- messages --------------------------------------------------------------------------------

    def _said(self, message: Begin | Relation | Change | Truncate | None) -> None:
        if isinstance(message, Begin):
            self._open = _Rows(stamp=message.stamp)
            self._passes = self._seen.sees(message.xid)
        elif isinstance(message, Relation) and message.oid == self._table.oid:
            self._laid_out(message)
        elif isinstance(message, Change) and message.oid == self._table.oid and not self._passes:
            self._changed(message)
        elif isinstance(message, Truncate) and self._table.oid in message.oids:
            if not self._passes:
                self._open.truncate()
                self._latest.clear()
                self._truncated = True

    def _laid_out(self, message: Relation) -> None:
        """Where the columns are from here on. Raises ReplicationError if they were others."""
        if self._passes:
            return
        there = {name: (place, kind) for place, (name, kind) in enumerate(message.columns)}
        known = {one.name: one.type for one in self._table.columns}
        for name in self._names:
            if name not in there or there[name][1] != known[name]:
                raise ReplicationError(_WHAT["columns"])
        self._places = [there[name][0] for name in self._names]

    def _changed(self, change: Change) -> None:
        old = None if change.old is None else self._values(change.old)
        new = None if change.new is None else self._values(change.new)
        if new is not None and not change.was_there:
            self._add(1, new)
            return
        if self._key:
            self._replaced(old, new)
            return
        if old is None or change.is_key:
            raise PipelineError(
                f"a row before a change is not told, but for its key: ALTER TABLE "
                f"{self._table.schema}.{self._table.name} REPLICA IDENTITY FULL, or say key"
            )
        self._add(-1, old)
        if new is not None:
            self._add(1, tuple(was if is_ is UNCHANGED else is_
                               for was, is_ in zip(old, new, strict=True)))  # fmt: skip

    def _replaced(self, old: Row | None, new: Row | None) -> None:
        """A row of a key goes; another may come."""
        key = [old[place] if old is not None else None for place in self._key]
        for number, place in enumerate(self._key):
            if key[number] is None and new is not None:
                key[number] = new[place]
        if any(value is None or value is UNCHANGED for value in key):
            raise PipelineError(
                f"the key of a row that goes is not told: ALTER TABLE "
                f"{self._table.schema}.{self._table.name} REPLICA IDENTITY FULL"
            )
        gone: list[Any] = [None] * len(self._names)
        for place, value in zip(self._key, key, strict=True):
            gone[place] = value
        if new is not None and any(value is UNCHANGED for value in new):
            new = self._filled(old, new, tuple(key))
        self._add(-1, tuple(gone))
        if new is not None:
            self._add(1, new)

    def _filled(self, old: Row | None, new: Row, key: Row) -> Row | None:
        """A row with the values that an update left as they were; None if they are not known."""
        known = self._known(key)
        filled = list(new)
        for place, value in enumerate(new):
            if value is UNCHANGED:
                before = old[place] if old is not None else None
                if before is None and known is not None:
                    before = known[place]
                if before is None:
                    name = self._names[place]
                    reason = (
                        f"{name} is long, was left as it was, and is not known here, since the row "
                        f"was set aside: ALTER TABLE {self._table.schema}.{self._table.name} "
                        "REPLICA IDENTITY FULL has it told"
                    )
                    row = {one: repr(is_) if is_ is UNCHANGED else is_
                           for one, is_ in zip(self._names, new, strict=True)}  # fmt: skip
                    self._open.bad.append(Bad(reason, self._source.where, row))
                    return None
                filled[place] = before
        return tuple(filled)

    def _known(self, key: Row) -> Row | None:
        """The row of a key before the change at hand."""
        if key in self._latest:
            return self._latest[key]
        if self._truncated:
            return None
        schema = self._source.schema
        pattern: list[Any] = [...] * len(self._names)
        for place, value in zip(self._key, key, strict=True):
            is_text = isinstance(value, str) and schema.types[place] != "symbol"
            pattern[place] = read_whole(value) if is_text else value
        found = self._state.select(schema.relation + KEYED, pattern)
        if not found:
            return None
        return tuple(str(value) if kind == "text" else value
                     for kind, value in zip(self._kinds, found[0], strict=True))  # fmt: skip

    def _add(self, sign: int, row: Row) -> None:
        self._open.signs.append(sign)
        self._open.rows.append(row)
        if self._key:
            key = tuple(row[place] for place in self._key)
            self._latest[key] = row if sign > 0 else None

    # --- values ----------------------------------------------------------------------------------

    def _values(self, values: Values) -> Row:
        """The relation's columns of a row that is told."""
        row = []
        for place, read in zip(self._places, self._readers, strict=True):
            value = values[place]
            row.append(read(value) if isinstance(value, bytes) else value)
        return tuple(row)

    def _fit(self, rows: list[Row], signs: list[int], origin: str) -> Signed:
        """Rows as signed ones; what goes and does not fit was never taken."""
        columns: list[Any] = list(zip(*rows, strict=True)) or [() for _ in self._names]
        arrays = {
            name: pa.array(values, _ARROW.get(kind, pa.string()))
            for name, kind, values in zip(self._names, self._kinds, columns, strict=True)
        }
        table = pa.table({**arrays, _SIGN: pa.array(signs, pa.int8())})
        keying = self._source.policy.keying
        signed = fit(self._source.schema, table, self._names, origin, sign=_SIGN, keying=keying)
        signed.bad = [one for one in signed.bad if one.row.pop(_SIGN) > 0]
        return signed


_SIGN: Final = ""
"""A column that no table has."""
