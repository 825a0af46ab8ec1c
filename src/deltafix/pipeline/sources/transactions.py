"""Changes of a table of PostgreSQL as signed rows of a relation, transaction by transaction.

`Changes` takes messages one after another and keeps what whole transactions say; `Seen` tells which
of them a copy has seen; `kinds_of` and `typed` read values of a copy and of changes alike. Without
a key, a row goes as it was and another comes. With one, whatever row the key has goes, so an update
whose new row cannot be taken leaves none. A truncation takes away the rows that are given.
Invariant: what is kept is whole transactions, in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import DriftError, PipelineError, ReplicationError
from deltafix.facts.arrow import table_from_rows
from deltafix.facts.logical import Logical, text_of, to_logical
from deltafix.facts.schema import Column, Schema
from deltafix.facts.values import CONSTRUCTED, read_whole
from deltafix.pipeline.columns import fit
from deltafix.pipeline.keyed import KEYED
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import State, difference_with
from deltafix.pipeline.signed import Bad, Signed, plain
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
from deltafix.pipeline.sources.replication import Column as ServerColumn
from deltafix.pipeline.sources.replication import Position, Table

COLUMNS: Final = (
    "columns were changed, whose values may have been written anew without a change being told, or "
    "others are named"
)
"""Why changes cannot be followed where columns are not those that were read."""

Row: TypeAlias = tuple[Any, ...]

_INTS: Final = (20, 21, 23, 26)
"""Numbers of PostgreSQL's types, the same everywhere: bigint, smallint, integer, oid."""

_FLOATS: Final = {700: "float4", 701: "float8"}
_BOOL, _NUMERIC = 16, 1700
_NESTED: Final = ("A", "C")
"""The categories of types of arrays and of composite ones."""
_NOMINAL: Final = {
    **dict.fromkeys(_INTS, pa.int64()), **dict.fromkeys(_FLOATS, pa.float64()),
    _BOOL: pa.bool_(), _NUMERIC: pa.decimal128(38, 9), 1082: pa.date32(),
    1114: pa.timestamp("us"), 1184: pa.timestamp("us", "UTC"),
}  # fmt: skip
"""What values of its types are, though they come as text: logical types say which they take. What
else there is, texts and what prints as text, is text."""

_READERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "int": int,
    "float4": lambda text: float(np.float32(text)),
    "float8": float,
    "bool": lambda text: "true" if text == b"t" else "false",
    "text": bytes.decode,
}
_ARROW: Final = {"int": pa.int64(), "float4": pa.float64(), "float8": pa.float64()}


def typed(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """Columns of text as `_READERS` would give them."""
    for index, kind in enumerate(kinds):
        column = rows.column(index)
        if kind == "bool":
            column = pc.if_else(pc.equal(column, "t"), "true", "false")
        elif kind == "float4":
            column = column.cast(pa.float32()).cast(pa.float64())
        elif kind in _ARROW:
            column = column.cast(_ARROW[kind])
        rows = rows.set_column(index, rows.column_names[index], column)
    return rows


def kinds_of(schema: Schema, table: Table, names: Sequence[str], origin: str) -> list[str]:
    """How values of a table's columns are read, for the relation's. Raises DriftError."""
    columns = {column.name: column for column in table.columns}
    kinds = []
    for name, target in zip(names, schema.columns, strict=True):
        column = columns[name]
        logical = target.logical
        kind = _kind(column, target) if logical is None else _logical_kind(column, target, logical)
        if kind is None:
            message = (
                f"{origin}: column {name!r} is of type {column.type_name}, but {target.name!r} is "
                f"{logical or f'a {target.type}'}"
            )
            if column.category in _NESTED:
                message += "; such values of a server are not read: have them in a table as JSON"
            raise DriftError(message, origin=origin, column=name, value=column.type_name)
        kinds.append(kind)
    return kinds


def _kind(column: ServerColumn, wanted: Column) -> str | None:
    if wanted.type == "symbol" or wanted.type in CONSTRUCTED:
        return "bool" if column.base == _BOOL else "text"
    if column.base in _INTS:
        return "int"
    if column.base in _FLOATS and wanted.type == "float":
        return _FLOATS[column.base]
    return "text" if column.base == _NUMERIC or column.category == "S" else None


def _logical_kind(column: ServerColumn, wanted: Column, logical: Logical) -> str | None:
    """Text is what is exact for most: `0.1` of a float4 is a tenth for a DECIMAL."""
    if column.category in _NESTED and pa.types.is_nested(logical.arrow):
        return None
    if not logical.takes(_NOMINAL.get(column.base, pa.string())):
        return None
    if column.base in _INTS or column.base == _BOOL:
        return "int" if column.base in _INTS else "bool"
    return _FLOATS.get(column.base, "text") if wanted.type == "float" else "text"


@dataclass(frozen=True, slots=True)
class Seen:
    """Which transactions a moment saw: of those below `high`, all that were not `open`."""

    high: int = 0
    open: frozenset[int] = frozenset()

    @classmethod
    def of(cls, mark: Mapping[str, Any]) -> Self:
        """From a mark, as `pg_current_snapshot` prints it."""
        if "seen" not in mark:
            return cls()
        _, high, some = mark["seen"].split(":")
        return cls(int(high), frozenset(map(int, filter(None, some.split(",")))))

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


class Changes:
    """Messages of transactions, as rows of one table; `take` them one after another.

    Args:
        schema: the relation.
        policy: its input's.
        where: what errors begin with.
        table: the table, of which `names` are the columns for the relation's.
        state: has the rows that are given.
        seen: transactions to pass over.

    Attributes:
        end: the position behind the last transaction that was taken.
        rows: what was taken.
    """

    def __init__(
        self, schema: Schema, policy: Policy, where: str, *,
        table: Table, names: Sequence[str], state: State, seen: Seen,
    ) -> None:  # fmt: skip
        self.end: Position = 0
        self.rows = _Rows()
        self._open = _Rows()
        self._passes = False
        self._schema = schema
        self._policy = policy
        self._where = where
        self._table = table
        self._names = names
        self._state = state
        self._seen = seen
        self._kinds = kinds_of(schema, table, names, where)
        self._readers = [_READERS[kind] for kind in self._kinds]
        self._key = [index for index, name in enumerate(schema.names) if name in policy.keying.key]
        self._indices: list[int] = []
        self._is_told = False
        self._latest: dict[Row, Row | None] = {}
        self._truncated = False

    def take(self, data: bytes, limit: int) -> bool:
        """The next message; False where what was taken is enough, or all that can be."""
        try:
            message = _parsed(data)
            if isinstance(message, Commit):
                if self.rows and len(self.rows) + len(self._open) > limit:
                    return False
                self.rows.extend(self._open)
                self.end = message.end
            else:
                self._said(message)
        except PipelineError:
            if not self.rows:
                raise
            return False  # what is before it is taken first
        return True

    def signed(self, origin: str) -> Signed:
        """What was taken, as signed rows."""
        signed = self._fit(self.rows.rows, self.rows.signs, origin)
        before = self._fit(self.rows.before, [1] * len(self.rows.before), origin)
        if self.rows.truncated:
            gone = difference_with(self._state, self._fit([], [], origin), self._policy)
            parts = [plain(self._schema, table) for table in (gone, signed.table)]
            signed.table = pa.concat_tables(parts, promote_options="permissive")
        signed.bad = [*self.rows.bad, *before.bad, *signed.bad]
        return signed

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
            self._emptied()

    def _laid_out(self, message: Relation) -> None:
        """Where the columns are from here on; nowhere, if they were others."""
        known = {column.name: column.type for column in self._table.columns}
        indices = {column[:2]: index for index, column in enumerate(message.columns)}
        found_at = [indices.get((name, known[name])) for name in self._names]
        self._indices = [index for index in found_at if index is not None]
        replicated = {name for name, _, is_told in message.columns if is_told}
        self._is_told = all(self._names[index] in replicated for index in self._key)

    def _emptied(self) -> None:
        if not self._passes:
            self._open.truncate()
            self._latest.clear()
            self._truncated = True

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
        key = [old[index] if old is not None else None for index in self._key]
        for number, index in enumerate(self._key):
            if key[number] is None and new is not None:
                key[number] = new[index]
        if not self._is_told or any(value is None or value is UNCHANGED for value in key):
            raise PipelineError(
                f"the key of a row that goes is not told: ALTER TABLE "
                f"{self._table.schema}.{self._table.name} REPLICA IDENTITY FULL"
            )
        gone: list[Any] = [None] * len(self._names)
        for index, value in zip(self._key, key, strict=True):
            gone[index] = value
        if new is not None and any(value is UNCHANGED for value in new):
            new = self._filled(old, new, tuple(key))
        self._add(-1, tuple(gone))
        if new is not None:
            self._add(1, new)

    def _filled(self, old: Row | None, new: Row, key: Row) -> Row | None:
        """A row with the values that an update left as they were; None if they are not known."""
        known = self._known(key)
        filled = list(new)
        for index, value in enumerate(new):
            if value is UNCHANGED:
                before = old[index] if old is not None else None
                if before is None and known is not None:
                    before = known[index]
                if before is None:
                    name = self._names[index]
                    reason = (
                        f"{name} is long, was left as it was, and is not known here, since the row "
                        f"was set aside: ALTER TABLE {self._table.schema}.{self._table.name} "
                        "REPLICA IDENTITY FULL has it told"
                    )
                    row = {column: repr(cell) if cell is UNCHANGED else cell
                           for column, cell in zip(self._names, new, strict=True)}  # fmt: skip
                    self._open.bad.append(Bad(reason, self._where, row))
                    return None
                filled[index] = before
        return tuple(filled)

    def _known(self, key: Row) -> Row | None:
        """The row of a key before the change at hand, as readers give its long values."""
        if key in self._latest:
            return self._latest[key]
        if self._truncated:
            return None
        schema = self._schema
        pattern: list[Any] = [...] * len(self._names)
        for index, part in zip(self._key, key, strict=True):
            value = self._held(index, part)
            if value is None:
                return None  # it is not of the type, so no row has it
            is_text = isinstance(value, str) and schema.types[index] != "symbol"
            pattern[index] = read_whole(value) if is_text else value
        matches = self._state.select(schema.relation + KEYED, pattern)
        if not matches:
            return None
        rows = table_from_rows(schema, [matches[0][: len(self._names)]])
        (row,) = to_logical(schema, rows).to_pylist()
        return tuple(
            text_of(value) if kind == "text" and value is not None else value
            for kind, value in zip(self._kinds, row.values(), strict=True)
        )

    def _held(self, index: int, value: Any) -> Any:
        """A key's value as the engine's column has it; None if it is not of the logical type."""
        logical = self._schema.columns[index].logical
        if logical is None:
            return value
        text = pa.array([value], _ARROW.get(self._kinds[index], pa.string()))
        return logical.encode(text)[0].as_py()

    def _add(self, sign: int, row: Row) -> None:
        self._open.signs.append(sign)
        self._open.rows.append(row)
        if self._key:
            key = tuple(row[index] for index in self._key)
            self._latest[key] = row if sign > 0 else None

    # --- values ----------------------------------------------------------------------------------

    def _values(self, values: Values) -> Row:
        """The relation's columns of a row that is told. Raises PipelineError."""
        if len(self._indices) < len(self._names):
            raise ReplicationError(COLUMNS)
        row = []
        for index, read in zip(self._indices, self._readers, strict=True):
            value = values[index]
            try:
                row.append(read(value) if isinstance(value, bytes) else value)
            except UnicodeDecodeError as error:
                message = f"{value!r} is no text of UTF-8, which its database does not see to"
                raise PipelineError(message, value=value) from error
        return tuple(row)

    def _fit(self, rows: list[Row], signs: list[int], origin: str) -> Signed:
        """Rows as signed ones; what goes and does not fit was never taken."""
        columns: list[Any] = list(zip(*rows, strict=True)) or [() for _ in self._names]
        arrays = {
            name: pa.array(values, _ARROW.get(kind, pa.string()))
            for name, kind, values in zip(self._names, self._kinds, columns, strict=True)
        }
        table = pa.table({**arrays, _SIGN: pa.array(signs, pa.int8())})
        keying = self._policy.keying
        signed = fit(self._schema, table, self._names, origin, sign=_SIGN, keying=keying)
        signed.bad = [bad_row for bad_row in signed.bad if bad_row.row.pop(_SIGN) > 0]
        return signed


_SIGN: Final = ""
"""A column that no table has."""


def _parsed(data: bytes) -> Begin | Commit | Relation | Change | Truncate | None:
    """As `parse`; raises PipelineError."""
    try:
        return parse(data)
    except ValueError as error:
        raise PipelineError(f"a change cannot be read: {error}") from error
