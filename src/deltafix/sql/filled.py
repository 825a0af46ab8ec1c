"""FORMAT and PRINTF: values in the fields of a text, in braces or behind `%`, as {fmt} has them.

    FORMAT('{} of {:.2f}', name, price), PRINTF('%s of %.2f', name, price)

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

__all__ = ["filled", "printed"]

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


_PRINTED: Final = re.compile(r"%%|%(?P<how>[-+ 0,]?(?:[1-9]\d{0,3})?(?:\.\d{1,3})?[a-zA-Z])|%")
_PRINTED_AS: Final[dict[type, tuple[re.Pattern[str], str]]] = {
    int: (re.compile(r"[-+ 0]?\d*[di]|0?\d*[xXo]|,d|c"), "%05d"),
    float: (re.compile(r"[-+ 0]?\d*(?:\.\d+)?[feE]|,\.\d+f"), "%8.2f"),
    str: (re.compile(r"-?\d*(?:\.\d+)?s"), "%10s"),
}
"""The same behind `%`."""


def filled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """FORMAT(text, value, ...): whole numbers, other numbers as floats, all else as text."""
    return _compiled(scalars, node, [node.this, *node.expressions], _fill)


def printed(scalars: Scalars, node: exp.Expr) -> Scalar:
    """PRINTF(text, value, ...), likewise."""
    return _compiled(scalars, node, node.expressions, _print)


def _compiled(
    scalars: Scalars, node: exp.Expr, given: list[exp.Expr], fill: Callable[..., str]
) -> Scalar:
    values = [scalars.compile(part) for part in given]
    is_text = bool(values) and values[0].type in (TEXT, NULL)
    if not is_text or scalars.statement.dialect != "duckdb":
        called, like = "FORMAT", "FORMAT('{} is {:.2f}', a, b)"
        if fill is _print:
            called, like = "PRINTF", "PRINTF('%s is %.2f', a, b)"
        message = f"{called} of {values[0].type.name if values else 'nothing'} in this dialect"
        raise scalars.statement.wrong(message, node, f"write {like} in DuckDB's")
    parts = [values[0].compute]
    for value, part in zip(values[1:], given[1:], strict=True):
        kind = BIGINT if value.type.is_integer else DOUBLE if value.type.is_numeric else TEXT
        convert: Callable[[Any], Any] | None = int
        if kind is not BIGINT:
            convert = cast(value.type, kind, dialect=scalars.statement.dialect)
        if convert is None:
            message = f"{value.type.name} in FORMAT"
            raise scalars.statement.wrong(message, part, "CAST(... AS TEXT) it")
        parts.append(strict(convert, value.compute))
    nullable = any(value.nullable for value in values)
    return Scalar(strict(fill, *parts), TEXT, nullable)


def _print(text: str, *values: Any) -> str:
    """The text with values behind `%`, in order; `%%` is one."""
    left = iter(values)

    def field(found: re.Match[str]) -> str:
        how = found["how"]
        if found[0] == "%%":
            return "%"
        if how is None:
            raise ValueError(f"a % alone in PRINTF({text!r}, ...); write %% for one")
        value = next(left, None)
        if value is None:
            raise ValueError(f"PRINTF({text!r}, ...) has fields for more than {len(values)} values")
        pattern, example = _PRINTED_AS[type(value)]
        is_wide = how[0] not in ".," and not how[0].isalpha()
        is_odd = isinstance(value, float) and not isfinite(value) and is_wide
        is_odd = is_odd or (isinstance(value, int) and value < 0 and how[-1] in "xXoc")
        if is_odd or not pattern.fullmatch(how):
            raise ValueError(f"{found[0]} of {value!r} in PRINTF; write it like {example}")
        return format(value, how) if how[0] == "," else found[0] % value

    return _PRINTED.sub(field, text)


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
