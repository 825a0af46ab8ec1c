"""FORMAT: values in the braces of a text, `FORMAT('{} of {:.2f}', name, price)`, as {fmt} has it.

Python's own formats are nearly the same. Invariant: a field is filled only where both mean the
same; any other is an error that says what is taken for its value's type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from deltafix.sql.casts import cast
from deltafix.sql.literals import Scalar, strict
from deltafix.sql.types import BIGINT, DOUBLE, NULL, TEXT

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars
    from deltafix.sql.text import exp

__all__ = ["filled"]

_FIELD: Final = re.compile(r"\{\{|\}\}|\{(?P<place>\d{0,3})(?::(?P<how>[^{}]*))?\}|[{}]", re.ASCII)
_WIDE: Final = r"(?:(?:[!-z ]?[<>^])?[+\- ]?(?:[1-9]\d{0,3})?|[+\- ]?0[1-9]\d{0,3})"
_HOW: Final[dict[type, tuple[re.Pattern[str], str]]] = {
    int: (re.compile(rf"{_WIDE}[dxob]?|[,_]", re.ASCII), "{:05d}"),
    float: (re.compile(rf"{_WIDE}(?:(?:\.\d{{1,3}})?[fe])?|,\.\d{{1,3}}f", re.ASCII), "{:>8.2f}"),
    str: (re.compile(r"(?:[!-z ]?[<>^])?(?:[1-9]\d{0,3})?(?:\.\d{1,4})?s?", re.ASCII), "{:>10}"),
}
"""What may stand behind the colon for a whole number, a float and a text, and an example."""
_PADDED: Final = re.compile(r"[+\- ]?\d")
"""A width without a side: NaN and infinity are on the left then."""


def filled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """FORMAT(text, value, ...): whole numbers, other numbers as floats, all else as text."""
    values = [scalars.compile(part) for part in (node.this, *node.expressions)]
    if values[0].type not in (TEXT, NULL) or scalars.statement.dialect != "duckdb":
        message = f"FORMAT of {values[0].type.name} in this dialect"
        raise scalars.statement.wrong(
            message, node, "write FORMAT('{} is {:.2f}', a, b) in DuckDB's"
        )
    parts = [values[0].compute]
    for value, part in zip(values[1:], node.expressions, strict=True):
        kind = BIGINT if value.type.is_integer else DOUBLE if value.type.is_numeric else TEXT
        convert: Callable[[Any], Any] | None = int
        if kind is not BIGINT:
            convert = cast(value.type, kind, dialect=scalars.statement.dialect)
        if convert is None:
            message = f"{value.type.name} in FORMAT"
            raise scalars.statement.wrong(message, part, "CAST(... AS TEXT) it")
        parts.append(strict(convert, value.compute))
    nullable = any(value.nullable for value in values)
    return Scalar(strict(_fill, *parts), TEXT, nullable)


def _fill(text: str, *values: Any) -> str:
    """The text with values in its braces, in order or by their places from 0; `{{` is a brace."""
    fields = [found for found in _FIELD.finditer(text) if found[0] not in ("{{", "}}")]
    if any(found["place"] is None for found in fields):
        raise ValueError(f"a brace alone in FORMAT({text!r}, ...); write {{{{ for one")
    places = [found["place"] or "" for found in fields]
    if "" in places and any(places):
        raise ValueError(f"FORMAT({text!r}, ...) has places and fields without; write one kind")
    for order, found in enumerate(fields):
        place = int(found["place"] or order)
        if place >= len(values):
            raise ValueError(f"FORMAT({text!r}, ...) asks for value {place} of {len(values)}")
        value, how = values[place], found["how"] or ""
        pattern, example = _HOW[type(value)]
        is_endless = isinstance(value, float) and not isfinite(value)
        if (is_endless and _PADDED.match(how)) or not pattern.fullmatch(how):
            raise ValueError(f"{found[0]} of {value!r} in FORMAT; write it like {example}")
    return text.format(*values)
