r"""SQL's values in JSON, as live applications send and get them.

Invariant: `read_sql` of what `write_sql` wrote is the value. A whole number that a double does not
hold (beyond 2^53 - 1) is a text of digits; so is every DECIMAL, with its digits behind the point;
days and moments are ISO 8601; NaN and the infinities are texts; a BLOB is `\x00ff`; an array is an
array, a struct an object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.json_rows import json_object
from deltafix.facts.values import plain_text, shown

if TYPE_CHECKING:
    from deltafix.sql.types import Column, SqlType

SAFE: Final = re.compile(r"-?\d{1,20}", re.ASCII)
"""A whole number as text."""
_MOST: Final = (1 << 53) - 1


def whole_text(value: int) -> int | str:
    """A whole number as JSON has it for everyone: as text where JavaScript would round it."""
    return value if abs(value) <= _MOST else str(value)


def write_sql(value: Any) -> Any:
    """A value of SQL, as callers have it, for JSON."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return whole_text(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, date | time):  # a datetime is one
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Mapping):
        return {name: write_sql(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [write_sql(element) for element in value]
    return plain_text(value)


def object_of(given: Any, names: Sequence[str], takes: str) -> dict[str, Any]:
    """A row of JSON by column: an object, or an array of all values. Raises FactError."""
    if isinstance(given, list) and len(given) == len(names):
        return dict(zip(names, given, strict=True))
    if not isinstance(given, dict):
        raise FactError(f"a row is an object by column, not {shown(given)}; {takes}", value=given)
    for name in given:
        if name not in names:
            raise FactError(f"there is no column {name!r}; {takes}", value=name)
    return given


def read_sql(given: Any, column: Column) -> Any:
    """A value of JSON as one of a column. NULL is the table's to refuse.

    Raises TypeMismatchError, saying what would be valid.
    """
    try:
        return None if given is None else _read(given, column.type)
    except (ValueError, ArithmeticError):
        message = (
            f"column {column.name!r} is {column.type.name}, which {shown(given)} is not; "
            f"it takes {_valid(column.type)}"
        )
        raise TypeMismatchError(message, column=column.name, value=given) from None


def read_text(text: str, column: Column) -> Any:
    """What somebody types as a value of a column; arrays and structs are JSON.

    Raises TypeMismatchError.
    """
    given: Any = text
    if column.type.is_nested:
        with suppress(ValueError, RecursionError):  # told with what the column takes
            given = json.loads(text, object_pairs_hook=json_object)
    return read_sql(given, column)


def _read(given: Any, kind: SqlType) -> Any:
    if given is None:
        return None
    if kind.element is not None and isinstance(given, list):
        return [_read(element, kind.element) for element in given]
    if kind.fields and isinstance(given, dict) and given.keys() == {n for n, _ in kind.fields}:
        return {name: _read(given[name], of) for name, of in kind.fields}
    if isinstance(given, str) and kind.name != "TEXT":
        from deltafix.sql.casts import from_text  # noqa: PLC0415  sqlglot is slow to import

        return from_text(given, kind)
    if isinstance(given, int) and kind.base == "float" and int(float(given)) != given:
        raise ValueError  # as a text it is rounded to the nearest, like any decimal fraction
    if not kind.holds(given):
        raise ValueError
    return given


def _valid(kind: SqlType) -> str:
    if kind.element is not None:
        return f"an array, of {_valid(kind.element)}"
    if kind.fields:
        return "an object with the fields " + ", ".join(name for name, _ in kind.fields)
    if kind.is_integer:
        return f"whole numbers of {kind.bits} bits, beyond 2^53 as text"
    if kind.is_decimal:
        return (
            f'a text of digits with {kind.scale} behind the point, as "{Decimal(1):.{kind.scale}f}"'
        )
    return _VALID[kind.name]


_VALID: Final = {
    "DOUBLE": 'numbers, "NaN", "Infinity", "-Infinity"',
    "TEXT": "text",
    "BOOLEAN": "true and false",
    "DATE": 'ISO days, as "2026-11-27"',
    "TIME": 'ISO times, as "08:30:00"',
    "TIMESTAMP": 'ISO moments without a zone, as "2026-11-27T08:30:00"',
    "TIMESTAMPTZ": 'ISO moments with a zone, as "2026-11-27T08:30:00+00:00"',
    "INTERVAL": 'texts, as "1 month 2 days 03:00:00"',
    "UUID": 'texts of 32 digits, as "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"',
    "BLOB": 'hexadecimal digits, as "\\\\x00ff"',
}
