"""Whole columns at the door: checked and converted at once, if nothing in them needs a second look.

From Python values or Arrow columns to columns as the engine has them (`facts.arrow`), and a `Batch`
of these, which are rows of a table without a Python object for each. Invariant: `coded` gives what
`Column.encode` gives for each value, or None: then the caller goes value by value, which converts
what is none of the column's type yet (`casts.assigned`), and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import ARROW_TYPES, is_tabular, rows_from_table, to_table
from deltafix.facts.schema import Column as EngineColumn
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import write_value
from deltafix.sql.cursor import arrow_type
from deltafix.sql.logical import SqlLogical
from deltafix.sql.text import Statement
from deltafix.sql.types import MOST_DIGITS, TIMESTAMP, TIMESTAMPTZ, Column, SqlType

if TYPE_CHECKING:
    from deltafix.sql.builder import Relation

__all__ = ["Batch", "coded", "framed", "listed", "written"]

_PLAIN: Final[dict[str, type]] = {"whole": int, "text": str, "truth": bool, "days": date}
"""The one Python type that a column's values have, by how the engine holds them."""
_MOMENTS: Final = (TIMESTAMP, TIMESTAMPTZ)


class Batch(Sequence[Row]):
    """Rows of a relation as columns of the engine; tuples are made when one is asked for.

    Attributes:
        columns: what the relation's columns are, hidden ones included.
        table: the columns, by the engine's names.
    """

    def __init__(self, relation: Relation, arrays: Sequence[pa.Array]) -> None:
        self.columns = relation.all_columns
        names = [one.name for one in relation.declaration.attributes]
        self.table = pa.table(list(arrays), names)

    @cached_property
    def _rows(self) -> list[Row]:
        columns = tuple(
            EngineColumn(name, "record", SqlLogical.of(column).shape)
            if column.nullable
            else EngineColumn(name, column.type.base)
            for name, column in zip(self.table.column_names, self.columns, strict=True)
        )
        return rows_from_table(self.table, Schema("", columns))

    def __len__(self) -> int:
        return self.table.num_rows  # type: ignore[no-any-return]

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def values(
        self, places: Sequence[int], other: Relation | None = None, theirs: Sequence[int] = ()
    ) -> pa.Table:
        """The values of some columns in the rows where none is NULL.

        As the columns at `theirs` of another relation have them, if one is given.
        """
        found = self.table.select([self.table.column_names[place] for place in places])
        for at, place in enumerate(places):
            if self.columns[place].nullable:
                found = found.filter(pc.not_equal(found.column(at), _NIL))
        if other is None:
            return found
        columns = [other.columns[place] for place in theirs]
        arrays = []
        for at, (place, column) in enumerate(zip(places, columns, strict=True)):
            mine, array = self.columns[place], found.column(at)
            if mine.nullable != column.nullable:
                array = SqlLogical.of(column).encode(SqlLogical.of(mine).decode(array))
            arrays.append(array)
        return pa.table(arrays, [column.name for column in columns])


_NIL: Final = write_value(None)


def framed(statement: Statement, rows: object) -> pa.Table | None:
    """What is a table of Arrow, polars or pandas as one of Arrow; None for rows of values."""
    try:
        return to_table(rows) if is_tabular(rows) else None
    except pa.ArrowException as error:
        raise statement.data(f"no Arrow table: {error}") from None


def listed(
    statement: Statement, column: Column, values: Sequence[Any] | pa.ChunkedArray
) -> Sequence[Any]:
    """A column as Python values. Raises SqlDataError for moments that Python has not."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    try:
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz))
        return values.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise statement.data(f"column {column.name!r}: {error}") from None


def written(column: Column, values: Sequence[Any]) -> pa.Array:
    """The engine's values of a column, as `Column.encode` gives them, as its column of Arrow."""
    if column.nullable:
        return pa.array(list(map(write_value, values)), pa.string())
    return pa.array(values, ARROW_TYPES[column.type.base])


def coded(column: Column, values: Sequence[Any] | pa.ChunkedArray) -> pa.Array | None:
    """A column as the engine has it, or None. O(values)."""
    kind = column.type
    found = values if isinstance(values, pa.ChunkedArray) else _of_values(kind, values)
    if found is None or not _is_plain(kind, found.type):
        return None
    done = SqlLogical.of(column).encode(found)
    return None if done.null_count else done


def _of_values(kind: SqlType, values: Sequence[Any]) -> pa.Array | None:
    """Python values as a column of Arrow, if they are of the one type that needs no conversion."""
    plain = _PLAIN.get(kind.code)
    if plain is not None and not set(map(type, values)) <= {plain, type(None)}:
        return None
    if plain is None and not kind.is_decimal:
        return None
    try:
        if kind.is_decimal:
            return pa.array(values, pa.decimal128(MOST_DIGITS, kind.scale))
        return pa.array(values, arrow_type(kind))
    except (pa.ArrowException, ValueError, TypeError):
        return None


def _is_plain(kind: SqlType, given: pa.DataType) -> bool:
    """Whether a column of Arrow needs no conversion that may be refused or go another way."""
    if pa.types.is_dictionary(given):
        return _is_plain(kind, given.value_type)
    if kind.is_decimal:
        return bool(pa.types.is_decimal(given) or pa.types.is_integer(given))
    if kind.is_integer:
        return bool(pa.types.is_integer(given))
    if kind in _MOMENTS:
        return bool(pa.types.is_timestamp(given)) and (given.tz is None) is (kind is TIMESTAMP)
    return given in _ARROW.get(kind.code, ())


_ARROW: Final = {
    "text": (pa.string(), pa.large_string(), pa.string_view()),
    "days": (pa.date32(),),
    "truth": (pa.bool_(),),
    "float": (pa.float64(),),
}
"""Arrow's types of such columns, by how the engine holds their values."""
