"""Values as users see them: base types, constructed values, how they print, compare and fit.

A record is a tuple of its fields, or None for `nil`; a value of an algebraic data type is a
`Branch`. Invariant: constructed values may be nested as deep as memory allows, so nothing here
recurses into them. Floats have one zero and one NaN, and one total order: NaN is above infinity.
Which fields a type has is `facts.shapes`' business.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Number
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import UUID

from deltafix.errors import TypeMismatchError

BaseType: TypeAlias = Literal[
    "number", "unsigned", "float", "symbol", "record", "number?", "unsigned?", "float?", "symbol?"
]
"""The base types: 64-bit signed, 64-bit unsigned, IEEE double, interned string, constructed.

Those with a `?` are constructed, too: records of one field, of the type before it, and `nil`. The
engine holds such a value as it holds the field's, so it costs no more than that.
"""

OPTIONAL: Final[dict[BaseType, BaseType]] = {
    "number?": "number",
    "unsigned?": "unsigned",
    "float?": "float",
    "symbol?": "symbol",
}
"""By the type of a record of one field, the field's."""

CONSTRUCTED: Final[frozenset[BaseType]] = frozenset(("record", *OPTIONAL))
"""The types whose values are made of others, or `nil`."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A value of an algebraic data type: a branch's name and its fields, `$Node(1, 2)`."""

    name: str
    fields: tuple[Value, ...] = ()

    def __str__(self) -> str:
        return show_value(self)


Logical: TypeAlias = bool | date | time | Decimal | bytes | UUID
"""A value of a logical type; a datetime is a date."""

Value: TypeAlias = int | float | str | tuple["Value", ...] | Branch | Logical | None
"""A value as users see it: `int` for number and unsigned, `float`, `str` for symbol.

Of logical types (`facts.logical_types`) it is a `Logical`. A record is a tuple of its
fields, or None for `nil`; a value of an algebraic data type a `Branch`.
"""

_VALID: Final[dict[str, str]] = {
    "float": "a float, or an int that a float holds exactly",
    "symbol": "a str without lone surrogates",
    **dict.fromkeys(CONSTRUCTED, "a tuple of field values, a Branch, or None for nil"),
}

WORD: Final = 64
"""Bits of a number, unless a program asks for 32."""

RANGES: Final[dict[int, dict[str, tuple[int, int]]]] = {
    bits: {"number": (-(1 << bits - 1), (1 << bits - 1) - 1), "unsigned": (0, (1 << bits) - 1)}
    for bits in (32, WORD)
}
"""By word size, the smallest and largest value of the integer types."""
_NAN: Final = math.nan
_MAGNITUDE: Final = (1 << 63) - 1
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


_RAW: Final = re.compile(r'[^\s"\[\](),](?:[^"\[\](),\t\n\r]*[^\s"\[\](),])?')
"""Symbols that a fact file writes inside a record without quotes."""


_AS_THEY_ARE: Final = frozenset({str, int, bool, bytes, type(None)})
"""Types without a float in them: a row of these is settled at a glance."""


def canonical(x: float) -> float:
    """A float as columns hold it: `0.0` for `-0.0`, one NaN object (rows compare by identity)."""
    return x + 0.0 if x == x else _NAN  # noqa: PLR0124  the test for NaN


def settled(value: Any) -> Any:
    """A Python value with its floats as columns hold them, those inside tuples too.

    Equal values are then equal to Python, NaN included. Named tuples keep their class; what is
    no float and no tuple is given back as it is. O(1) for what holds no float.
    """
    if isinstance(value, float):
        return value if value and value == value else canonical(value)  # noqa: PLR0124  NaN
    if isinstance(value, tuple):
        for item in value:
            kind = type(item)
            if kind is tuple and _AS_THEY_ARE.issuperset(map(type, item)):
                continue  # a row in a pair: a call each would be half of an edit of a file
            if kind not in _AS_THEY_ARE:
                return with_items(value, settled)
    return value


def with_items(value: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A tuple with each item changed; itself where no item is. Named tuples keep their class."""
    for index, item in enumerate(value):
        if change(item) is not item:
            items = [*value[:index], *map(change, value[index:])]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def plain_text(value: object) -> str:
    """A value that JSON or CSV has no form of as text: bytes as PostgreSQL prints them, in hex."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def float_order(x: float) -> int:
    """The place of a canonical float in the total order, as a signed integer of 64 bits.

    Ascending: -inf, the finite floats, inf, NaN.
    """
    (pattern,) = struct.unpack("<q", struct.pack("<d", x))
    return cast("int", pattern ^ ((pattern >> 63) & _MAGNITUDE))


def float_at(position: int) -> float:
    """The float at a position in the total order: the inverse of `float_order`."""
    (value,) = struct.unpack("<d", struct.pack("<q", position ^ ((position >> 63) & _MAGNITUDE)))
    return canonical(value)


_WHOLE: Final = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)", re.ASCII)
_REAL: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)
_BASES: Final = {"0x": 16, "0b": 2}
_MOST_DIGITS: Final = 400
"""Python refuses to read more than 4,300 decimal digits; no type holds a tenth of that."""


def read_whole(text: str) -> int | None:
    """The whole number that a text is: decimal, `0x1F` or `0b11`, signed, blanks around; or None.

    Past 400 digits the number is some one of that sign that no type holds.
    """
    match = _WHOLE.fullmatch(text.strip(" \t"))
    if match is None:
        return None
    sign, digits = match[1], match[2].lower()
    base = _BASES.get(digits[:2], 10)
    digits = digits[2 * (base != 10) :].lstrip("0") or "0"
    size = int(digits, base) if len(digits) <= _MOST_DIGITS else 1 << _MOST_DIGITS
    return -size if sign == "-" else size


def read_real(text: str) -> float | None:
    """The float that a text is: decimal, with or without an exponent, `inf` or `nan`; or None."""
    text = text.strip(" \t")
    return float(text) if _REAL.fullmatch(text) is not None else None


def shown(value: object, most: int = 60) -> str:
    """Any object as an error shows it, cut where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > most * 4:
        digits = round(value.bit_length() * math.log10(2))
        return f"an int of about {digits} digits"  # Python refuses to print large ones
    try:
        text = repr(value)
    except ValueError:  # an int inside it is too large to print
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}…"


def show_value(value: Value) -> str:
    """A value as program text spells it: symbols quoted and escaped, floats with a point.

    Floats round-trip (Python's repr); infinities and NaN show as `inf`, `-inf`, `nan`.
    """
    return _spelt(value, _quoted)


def write_value(value: Value) -> str:
    """A value as a fact file holds it: symbols bare, inside a record only where that is clear."""
    if isinstance(value, str):
        return value
    return _spelt(value, lambda text: text if _RAW.fullmatch(text) else _quoted(text))


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def unquoted(text: str) -> str:
    """The text that stands in quotes, with escapes: the inverse of how a symbol is shown."""
    inside = text.removeprefix('"').removesuffix('"')
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), inside)


def _spelt(value: Value, symbol: Any) -> str:
    """A value with its fields, without recursion: what is left to write is on a stack."""
    if not isinstance(value, tuple | Branch):
        return _plain(value, symbol)
    if isinstance(value, tuple) and len(value) == 1 and not isinstance(value[0], tuple | Branch):
        return f"[{_plain(value[0], symbol)}]"  # a value of SQL that may be NULL
    out: list[str] = []
    left: list[tuple[bool, Any]] = [(False, value)]
    while left:
        is_text, item = left.pop()
        if is_text:
            out.append(item)
        elif isinstance(item, Branch) and not item.fields:
            out.append(f"${item.name}")
        elif isinstance(item, tuple | Branch):
            branch = isinstance(item, Branch)
            fields = item.fields if isinstance(item, Branch) else item
            out.append(f"${item.name}(" if isinstance(item, Branch) else "[")
            left.append((True, ")" if branch else "]"))
            for index in range(len(fields) - 1, -1, -1):
                left.append((False, fields[index]))
                if index:
                    left.append((True, ", "))
        else:
            out.append(_plain(item, symbol))
    return "".join(out)


def _plain(value: Value, symbol: Any) -> str:
    """A value without fields."""
    if value is None:
        return "nil"
    if isinstance(value, Decimal) and len(value.as_tuple().digits) <= FLOAT_DIGITS:
        return logical_text(value)
    if isinstance(value, Logical):
        return str(symbol(logical_text(value)))
    return str(symbol(value)) if isinstance(value, str) else repr(value)


FLOAT_DIGITS: Final = 15
"""As many digits of a decimal number are a float's for certain."""


def logical_text(value: Logical) -> str:
    """A value of a logical type as text, which its type reads."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return value.hex()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def sorted_rows(types: Sequence[BaseType], rows: Iterable[Any]) -> list[Any]:
    """Rows in order: constructed values by how they print, the rest by value, NaN last."""
    ordered = list(rows)
    if len(ordered) > 1:
        ordered.sort(key=row_order(types))
    return ordered


def row_order(types: Sequence[BaseType]) -> Callable[[Any], Any] | None:
    """The key by which `sorted_rows` orders; None where rows compare as they are."""
    if not {*CONSTRUCTED, "float"} & set(types):
        return None
    records = [index for index, kind in enumerate(types) if kind in CONSTRUCTED]
    floats = [index for index, kind in enumerate(types) if kind == "float"]

    def key(row: tuple[Value, ...]) -> tuple[Any, ...]:
        plain: list[Any] = list(row)
        for index in records:
            plain[index] = show_value(row[index])
        for index in floats:
            if row[index] != row[index]:  # NaN
                plain[index] = ABOVE
        return tuple(plain)

    return key


class _Above:
    """What NaN is sorted as: greater than every other number, of whichever type."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False if isinstance(other, Number | _Above) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return other is not self if isinstance(other, Number | _Above) else NotImplemented

    def __deepcopy__(self, _: object) -> _Above:
        return self

    def __repr__(self) -> str:
        return "nan"


ABOVE: Final = _Above()


def valid_values(base: str, bits: int = WORD) -> str:
    """What a column of a base type takes, as error messages say it."""
    if base not in RANGES[bits]:
        return _VALID[base]
    low, high = RANGES[bits][base]
    return f"an int from {low} to {high}"


def fitting(base: str, value: object, bits: int = WORD) -> int | float | str | None:
    """The value as a base type holds it, as exactly int, float or str; None if it does not fit.

    `bits` is the word size of the program's integers.
    """
    match base:
        case "symbol":
            if isinstance(value, str):
                text = str.__str__(value)
                if text.isascii() or encodable(text):
                    return text
        case "float":
            real = _as_float(value)
            return None if real is None else canonical(real)
        case "number" | "unsigned":
            low, high = RANGES[bits][base]
            whole = value if type(value) is int else _as_int(value)
            if whole is not None and low <= whole <= high:
                return whole
    return None


def _as_int(value: object) -> int | None:
    # numpy integers have __index__; numpy's bool is refused by name, it has no common base.
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asking is the test
    except TypeError:
        return None


def _as_float(value: object) -> float | None:
    if isinstance(value, float):
        return float(value)
    if hasattr(value, "dtype") and getattr(value.dtype, "kind", "") == "f":
        return float(cast("float", value))
    whole = _as_int(value)
    if whole is None:
        return None
    try:
        number = float(whole)
    except OverflowError:
        return None
    return number if int(number) == whole else None


def encodable(text: str) -> bool:
    """Whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_callback(given: object, takes: str) -> None:
    """Raise TypeMismatchError for what cannot be called, before an epoch finds out."""
    if not callable(given):
        message = f"{shown(given)} cannot be called; it is to be a function of {takes}"
        raise TypeMismatchError(message, value=given)
