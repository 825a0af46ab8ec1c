"""Whole columns at the door: checked and converted at once, if nothing in them needs a second look.

From Python values or Arrow columns to a `Batch`: rows of a table without a Python object for each.
Invariant: `coded` gives what `Column.encode` gives for each value, or None: then the caller goes
value by value, which converts what is none of the column's type yet (`casts.assigned`), and names
what is wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, overload

import pyarrow as pa

from deltafix.facts.arrow import ARROW_TYPES, is_tabular, settled_floats, to_table
from deltafix.facts.schema import Row
from deltafix.facts.values import canonical, shown
from deltafix.sql.cursor import array_of
from deltafix.sql.logical import SqlLogical, is_beyond_day, python_value
from deltafix.sql.text import Statement
from deltafix.sql.types import MOST_DIGITS, NARROW_DIGITS, TIME, UUID, Column, SqlType

if TYPE_CHECKING:
    from deltafix.sql.builder import Relation

__all__ = ["Batch", "coded", "framed", "listed", "written"]

_PLAIN: Final[dict[str, type]] = {
    "whole": int,
    "text": str,
    "truth": bool,
    "bytes": bytes,
    "days": date,
    "uuid": uuid.UUID,
}
"""The one Python type that a column's values have, by how the engine holds them."""


class Batch(Sequence[Row]):
    """Rows of a relation by column; tuples are made when one is asked for.

    Attributes:
        relation: whose rows they are.
        arrays: a column for each of the relation's, hidden ones included: the engine's values as of
            a column that is NOT NULL, and null for NULL.
    """

    def __init__(self, relation: Relation, arrays: Sequence[pa.Array]) -> None:
        self.relation = relation
        self.arrays = [*arrays]

    @cached_property
    def _rows(self) -> list[Row]:
        columns = []
        for column, array in zip(self.relation.all_columns, self.arrays, strict=True):
            values = array.to_pylist()
            if pa.types.is_floating(array.type):
                values = [value and canonical(value) for value in values]
            if column.nullable:
                values = [None if value is None else (value,) for value in values]
            columns.append(values)
        return list(zip(*columns, strict=True))

    def __len__(self) -> int:
        return len(self.arrays[0])

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def table(self) -> pa.Table:
        """The rows as the engine takes them."""
        attributes = self.relation.declaration.attributes
        pairs = zip(self.relation.all_columns, self.arrays, strict=True)
        return pa.table(list(starmap(_closed, pairs)), [attribute.name for attribute in attributes])


def _closed(column: Column, array: pa.Array) -> pa.Array:
    """Bare values as the engine takes those of a column; NULL is nil, and others are records."""
    if not column.nullable:
        return array
    return pa.StructArray.from_arrays([array], ["value"], mask=array.is_null())


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
    converted = []
    is_moment, has_clocks = pa.types.is_timestamp(values.type), column.type.has(TIME)
    for row, value in enumerate(values):
        try:
            scalar = value.cast(pa.timestamp("us", values.type.tz)) if is_moment else value
            if has_clocks and is_beyond_day(scalar):
                raise ValueError("24:00")
            converted.append(scalar.as_py())
        except (ValueError, OverflowError):
            text = shown(python_value(value))
            message = f"column {column.name!r} of row {row}: {text} is no {column.type.name}"
            raise statement.data(message) from None
    return converted


def written(column: Column, values: Sequence[Any]) -> pa.Array:
    """The engine's values of a column, as `Column.encode` gives them, for a `Batch`."""
    if column.nullable:
        values = [None if value is None else value[0] for value in values]
    array = pa.array(values, ARROW_TYPES[column.type.base])
    # -0.0 is 0.0, also where keys are grouped
    return settled_floats(array) if pa.types.is_floating(array.type) else array


def coded(column: Column, values: Sequence[Any] | pa.ChunkedArray) -> pa.Array | None:
    """A column for a `Batch`, or None. O(values)."""
    kind = column.type
    array = values if isinstance(values, pa.ChunkedArray) else _of_values(kind, values)
    if array is None or not _is_plain(kind, array.type):
        return None
    done, _ = SqlLogical.of(column).bare(array)
    if done.null_count > (array.null_count if column.nullable else 0):
        return None
    return done


def _of_values(kind: SqlType, values: Sequence[Any]) -> pa.Array | None:
    """Python values as a column of Arrow, if they are of the one type that needs no conversion."""
    if not kind.is_decimal and not set(map(type, values)) <= {_PLAIN.get(kind.code), type(None)}:
        return None
    try:
        if kind.is_decimal:
            digits = MOST_DIGITS if kind.is_wide else NARROW_DIGITS
            return pa.array(values, pa.decimal128(digits, kind.scale))
        return array_of(values, kind)
    except (pa.ArrowException, ValueError, TypeError):
        return None


def _is_plain(kind: SqlType, given: pa.DataType) -> bool:
    """Whether a column of Arrow needs no conversion that may be refused or go another way."""
    if pa.types.is_dictionary(given):
        return _is_plain(kind, given.value_type)
    if kind.fields:
        types = {field.name: field.type for field in given} if pa.types.is_struct(given) else {}
        return types.keys() == {name for name, _ in kind.fields} and all(
            _is_plain(field, types[name]) for name, field in kind.fields
        )
    if kind.element is not None:
        return bool(pa.types.is_list(given)) and _is_plain(kind.element, given.value_type)
    if kind.is_decimal:
        return bool(pa.types.is_decimal(given) or pa.types.is_integer(given))
    if kind.is_integer:
        return bool(pa.types.is_integer(given))
    if kind.is_time or kind is UUID:
        is_one = kind is UUID or pa.types.is_temporal(given)
        return bool(is_one) and SqlLogical(kind, nullable=True).takes(given)
    return given in _ARROW.get(kind.code, ())


_ARROW: Final = {
    "text": (pa.string(), pa.large_string(), pa.string_view()),
    "bytes": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "truth": (pa.bool_(),),
    "float": (pa.float64(),),
    "interval": (pa.month_day_nano_interval(), *map(pa.duration, ("s", "ms", "us", "ns"))),
}
"""Arrow's types of such columns, by how the engine holds their values."""
