"""Whole columns at the door: checked and coded at once, where nothing in them needs a second look.

From Python values or Arrow columns. Invariant: `coded` gives what `Column.encode` gives for each
value, or None: then the caller goes value by value, which converts what is none of the column's
type yet (`casts.assigned`), and names what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute

from deltafix.facts.arrow import is_tabular, to_numpy, to_table
from deltafix.sql.text import Statement
from deltafix.sql.types import TIMESTAMP, TIMESTAMPTZ, Column, SqlType

__all__ = ["coded", "framed", "listed"]

_PLAIN: Final[dict[str, type]] = {"whole": int, "text": str, "truth": bool, "days": date}
"""The one Python type that a column's values have, by how the engine holds them."""
_MOMENTS: Final = (TIMESTAMP, TIMESTAMPTZ)


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


def coded(column: Column, values: Sequence[Any] | pa.ChunkedArray) -> list[Any] | None:
    """The engine's values of a column, or None. O(values)."""
    arrow = isinstance(values, pa.ChunkedArray)
    found = (_of_arrow if arrow else _of_values)(column.type, values)
    if found is None or (not column.nullable and None in found):
        return None
    if not column.nullable:
        return found
    return [None if value is None else (value,) for value in found]


def _of_values(kind: SqlType, values: Sequence[Any]) -> list[Any] | None:
    if kind.is_decimal:
        try:
            return _decimals(
                pa.chunked_array([pa.array(values, pa.decimal128(18, kind.scale))]), kind
            )
        except (pa.ArrowException, TypeError):
            return None
    plain = _PLAIN.get(kind.code)
    if plain is None or not set(map(type, values)) <= {plain, type(None)}:
        return None
    there = [value for value in values if value is not None]
    if kind.is_integer:
        most = 1 << kind.bits - 1
        return list(values) if not there or -most <= min(there) <= max(there) < most else None
    write = kind.write
    if write is None:
        return list(values)
    return [None if value is None else write(value) for value in values]


def _of_arrow(kind: SqlType, values: pa.ChunkedArray) -> list[Any] | None:
    given = values.type
    try:
        if kind.is_decimal and (pa.types.is_decimal(given) or pa.types.is_integer(given)):
            return _decimals(values, kind)
        if kind.is_integer and pa.types.is_integer(given):
            return values.cast(pa.from_numpy_dtype(f"i{kind.bits // 8}")).to_pylist()  # type: ignore[no-any-return]
        if kind.code == "text" and (pa.types.is_string(given) or given == pa.string_view()):
            return values.to_pylist()  # type: ignore[no-any-return]
        if kind.code == "days" and pa.types.is_date32(given):
            return _times(kind, values.cast(pa.int32()))
        if kind in _MOMENTS and pa.types.is_timestamp(given):
            if (given.tz is None) is not (kind is TIMESTAMP):
                return None
            return _times(kind, values.cast(pa.timestamp("us", given.tz)).cast(pa.int64()))
        if kind.code == "truth" and pa.types.is_boolean(given):
            return values.cast(pa.int8()).to_pylist()  # type: ignore[no-any-return]
        if kind.code == "float" and pa.types.is_float64(given):
            return [math.nan if one != one else one for one in values.to_pylist()]  # noqa: PLR0124
    except pa.ArrowException:
        return None
    return None


def _times(kind: SqlType, values: pa.ChunkedArray) -> list[Any] | None:
    """Days or microseconds; None where Arrow has one that Python has not, of the year 29349 say."""
    ends = compute.min_max(values).as_py()
    try:
        for end in ends.values():
            if end is not None and kind.read is not None:
                kind.read(end)
    except (ValueError, OverflowError):
        return None
    return values.to_pylist()  # type: ignore[no-any-return]


def _decimals(values: pa.ChunkedArray, kind: SqlType) -> list[Any]:
    """Numbers as they are without the point. Raises ArrowException for one with more digits."""
    exact = values.cast(pa.decimal128(kind.digits, kind.scale)).combine_chunks()
    words = np.frombuffer(exact.buffers()[1], dtype="<i8").reshape(-1, 2)[:, 0]
    found: list[Any] = words[exact.offset : exact.offset + len(exact)].tolist()
    if exact.null_count:
        there = to_numpy(exact.is_valid().cast(pa.int8())).tolist()
        found = [one if known else None for one, known in zip(found, there, strict=True)]
    return found
