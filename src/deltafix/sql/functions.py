"""The scalar functions and operators of SQL that are maintained, as tables.

A `Function` says which arguments of sqlglot's node it takes, what type it gives, and how it is
computed; adding one is adding a line, and a row of docs/reference/sql.md. Invariant: everything
here is a pure function of its arguments.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from deltafix.sql import binary
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DECIMALS,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    SqlType,
    common_type,
)

__all__ = [
    "ARITHMETIC",
    "COMPARE",
    "COMPARISONS",
    "DECIMAL_ARITHMETIC",
    "DIVISION",
    "FUNCTIONS",
    "NAMES",
    "Function",
    "is_utf8",
    "itself",
    "order_of",
    "written",
]

Result: TypeAlias = Callable[[Sequence[SqlType]], "SqlType | None"]


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        usage: how it is written.
        arguments: the arguments of sqlglot's node, in order; a list there is several.
        result: the type of its value, None where the arguments' types do not fit.
        compute: its value.
        strict: NULL where an argument is NULL; otherwise `compute` sees None.
        nullable: for what is not strict: whether it can be NULL.
        flags: arguments of the node that change nothing here.
        least: the least number of arguments.
        unites: whether the arguments are converted to the type of the value first.
        orders: whether `compute` takes, before the arguments, the `order_of` the type.
        fixed: `compute` of the first argument, for constants in place of the others.
    """

    usage: str
    arguments: tuple[str, ...]
    result: Result
    compute: Callable[..., Any]
    strict: bool = True
    nullable: Callable[[Sequence[bool]], bool] = any
    flags: tuple[str, ...] = ()
    least: int = 1
    unites: bool = False
    orders: bool = False
    fixed: Callable[..., Callable[[Any], Any]] | None = None


def order_of(kind: SqlType) -> Callable[[Any], Any]:
    """What makes values of a type, which are not NULL, as equal and as great as they are in SQL.

    Python's own comparisons do not: NaN is no equal of itself, not in a tuple either, and None is
    neither less nor greater.
    """
    if kind.is_nested and kind.write is not None:
        return kind.write
    return _ordered if kind == DOUBLE else itself


def _ordered(value: float) -> tuple[bool, float]:
    """A float in the total order: NaN equals itself and is above infinity."""
    return (True, 0.0) if value != value else (False, value)  # noqa: PLR0124  NaN


def itself(value: Any) -> Any:
    """A value that Python orders as SQL does."""
    return value


def is_utf8(node: exp.Expr) -> bool:
    """Whether an ENCODE or a DECODE is of UTF-8."""
    return node.args["charset"].name.upper() in ("UTF-8", "UTF8")


# --- types ---------------------------------------------------------------------------------------


def _of(wanted: Sequence[SqlType], found: SqlType) -> Result:
    """The result of a function of arguments of exactly these types (integers of any width)."""

    def result(types: Sequence[SqlType]) -> SqlType | None:
        fit = len(types) <= len(wanted) and all(
            common_type(one, two) == two or (one.is_integer and two.is_integer)
            for one, two in zip(types, wanted, strict=False)
        )
        return found if fit else None

    return result


def _texts(types: Sequence[SqlType]) -> SqlType | None:
    return TEXT if all(one in (TEXT, NULL) for one in types) else None


def _texts_or_bytes(types: Sequence[SqlType]) -> SqlType | None:
    return _texts(types) or (BLOB if all(one in (BLOB, NULL) for one in types) else None)


def _common(types: Sequence[SqlType]) -> SqlType | None:
    found: SqlType | None = NULL
    for one in types:
        found = None if found is None else common_type(found, one)
    return found


def _sized(types: Sequence[SqlType]) -> SqlType | None:
    return BIGINT if types and (types[0].element or types[0] == NULL) else None


def _number(types: Sequence[SqlType]) -> SqlType | None:
    return types[0] if types and (types[0].is_numeric or types[0] == NULL) else None


# --- parts of arrays ----------------------------------------------------------------------------


def _from_ends(array: tuple[Any, ...], first: int, last: int) -> tuple[Any, ...]:
    """DuckDB's `array[first:last]`: places from 1 on, or from the end back."""
    first = max(first + len(array) + 1 if first < 0 else first, 1)
    return array[first - 1 : max(last + len(array) + 1 if last < 0 else last, 0)]


def _within(array: tuple[Any, ...], first: int, last: int) -> tuple[Any, ...]:
    """PostgreSQL's: places below the first have nothing."""
    return array[max(first, 1) - 1 : max(last, 0)]


def _of_length(array: tuple[Any, ...], first: int, length: int) -> tuple[Any, ...]:
    """Spark's `SLICE(array, first, length)`."""
    if not first or length < 0:
        raise ValueError("SLICE takes a place that is not 0, and a length that is not below it")
    start = first - 1 if first > 0 else len(array) + first
    return array[start : start + length] if start >= 0 else ()


PARTS: Final = {"duckdb": _from_ends, "postgres": _within, "spark": _of_length}
"""A slice of an array, by dialect."""


# --- operators -----------------------------------------------------------------------------------


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} / 0")
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} % 0")
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return a - b * _quotient(a, b)


def _decimal_remainder(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} % 0")
    return DECIMALS.remainder(a, b)


def _float_division(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def _checked_division(a: float, b: float) -> float:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} / 0")
    return a / b


DIVISION: Final = {
    "float": _float_division,
    "error": _checked_division,
    "null": lambda a, b: None if b == 0 else a / b,
}
"""`/` with a result of DOUBLE, by what division by zero gives."""

ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.IntDiv: _quotient,
    exp.Mod: _remainder,
}

DECIMAL_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    exp.Add: DECIMALS.add,
    exp.Sub: DECIMALS.subtract,
    exp.Mul: DECIMALS.multiply,
    exp.Mod: _decimal_remainder,
}
"""Of decimals and whole numbers. Python's own operators would round to 28 digits."""

COMPARE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.NullSafeEQ: operator.eq,
    exp.NullSafeNEQ: operator.ne,
}


# --- functions -----------------------------------------------------------------------------------


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _concat(*values: Any) -> Any:
    return None if None in values else values[0][:0].join(values)


def _joined(*values: Any) -> str:
    return "".join(value for value in values if value is not None)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def found(order: Callable[[Any], Any], *values: Any) -> Any:
        known = [value for value in values if value is not None]
        return choose(known, key=order) if known else None

    return found


def _substring(text: str, start: int, length: int | None = None) -> str:
    if length is not None and length < 0:
        raise ValueError(f"a substring of negative length: {length}")
    first = start if start >= 0 else max(1, len(text) + start + 1)
    last = len(text) + 1 if length is None else first + length
    return text[max(0, first - 1) : max(0, last - 1)]


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(0, len(text) + count)]


def _right(text: str, count: int) -> str:
    return (
        text[len(text) - count :]
        if 0 <= count < len(text)
        else text
        if count >= 0
        else text[-count:]
    )


@lru_cache(maxsize=256)
def _like(pattern: str) -> Callable[[str], bool]:
    """Whether a text is LIKE the pattern; without `_` its parts are looked for, one by one."""
    if "_" in pattern:
        return _matched(pattern, 0)
    first, *middle = pattern.split("%")
    if not middle:
        return lambda text: text == first
    last = middle.pop()
    parts = [part for part in middle if part]
    if not first and not last and len(parts) == 1:
        (part,) = parts
        return lambda text: part in text

    def found(text: str) -> bool:
        start, end = len(first), len(text) - len(last)
        if start > end or not (text.startswith(first) and text.endswith(last)):
            return False
        for part in parts:
            start = text.find(part, start, end)
            if start < 0:
                return False
            start += len(part)
        return True

    return found


@lru_cache(maxsize=256)
def _ilike(pattern: str) -> Callable[[str], bool]:
    """Whether a text is ILIKE the pattern."""
    return _matched(pattern, re.IGNORECASE)


def _matched(pattern: str, flags: int) -> Callable[[str], bool]:
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    whole = re.compile("".join(parts), re.DOTALL | flags).fullmatch
    return lambda text: whole(text) is not None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _doubles(types: Sequence[SqlType]) -> SqlType | None:
    return DOUBLE if types and all(one.is_numeric or one == NULL for one in types) else None


def _sqrt(value: Any) -> float:
    number = float(value)
    return math.sqrt(number) if number >= 0 else math.nan


def _ln(value: Any) -> float:
    number = float(value)
    return math.log(number) if number > 0 else -math.inf if number == 0 else math.nan


def _exp(value: Any) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: Any, exponent: Any) -> float:
    """As IEEE 754 has it: never an error."""
    one, two = float(base), float(exponent)
    try:
        return math.pow(one, two)
    except OverflowError:
        return -math.inf if one < 0 and two % 2 == 1 else math.inf
    except ValueError:
        return math.inf if one == 0 else math.nan


def _split_part(text: str, delimiter: str, place: int) -> str:
    parts = text.split(delimiter) if delimiter else list(text)
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if place and 0 <= at < len(parts) else ""


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int):
        return value if digits >= 0 else round(value, digits)
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, DECIMALS)
    if not math.isfinite(value):
        return value
    scale = 10.0**digits
    scaled = value * scale
    whole = math.floor(abs(scaled) + 0.5)  # half away from zero
    return math.copysign(whole, scaled) / scale + 0.0


def _whole(step: Callable[[Any], int]) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        if isinstance(value, int) or not math.isfinite(value):
            return value
        return step(value) if isinstance(value, Decimal) else float(step(value)) + 0.0

    return found


FUNCTIONS: Final[dict[type, Function]] = {
    exp.Coalesce: Function(
        "COALESCE(a, b, ...)",
        ("this", "expressions"),
        _common,
        _coalesce,
        strict=False,
        unites=True,
        nullable=all,
    ),
    exp.DPipe: Function(
        "a || b",
        ("this", "expression"),
        _texts_or_bytes,
        _concat,
        strict=False,
        flags=("safe",),
        least=2,
    ),
    exp.Greatest: Function(
        "GREATEST(a, b, ...)",
        ("this", "expressions"),
        _common,
        _extreme(max),
        strict=False,
        unites=True,
        orders=True,
        nullable=all,
        flags=("ignore_nulls",),
    ),
    exp.Least: Function(
        "LEAST(a, b, ...)",
        ("this", "expressions"),
        _common,
        _extreme(min),
        strict=False,
        unites=True,
        orders=True,
        nullable=all,
        flags=("ignore_nulls",),
    ),
    exp.Lower: Function("LOWER(text)", ("this",), _texts, str.lower),
    exp.Upper: Function("UPPER(text)", ("this",), _texts, str.upper),
    exp.Length: Function(
        "LENGTH(text)", ("this",), lambda t: BIGINT if _texts_or_bytes(t) else _sized(t), len
    ),
    exp.ByteLength: Function("OCTET_LENGTH(blob)", ("this",), _of([BLOB], BIGINT), len),
    exp.Hex: Function(
        "HEX(blob)", ("this",), lambda t: TEXT if _texts_or_bytes(t) else None, binary.hexadecimal
    ),
    exp.Unhex: Function("UNHEX(text)", ("this",), _of([TEXT], BLOB), binary.unhexed),
    exp.Encode: Function(
        "ENCODE(text)", ("this",), _of([TEXT], BLOB), str.encode, flags=("charset",)
    ),
    exp.Decode: Function(
        "DECODE(blob)", ("this",), _of([BLOB], TEXT), binary.utf8_text, flags=("charset",)
    ),
    exp.ArraySize: Function("CARDINALITY(array)", ("this",), _sized, len),
    exp.Trim: Function("TRIM(text)", ("this",), _texts, lambda text: text.strip(" ")),
    exp.Substring: Function(
        "SUBSTRING(text, start, length)",
        ("this", "start", "length"),
        _of([TEXT, BIGINT, BIGINT], TEXT),
        _substring,
        least=2,
    ),
    exp.Left: Function(
        "LEFT(text, count)", ("this", "expression"), _of([TEXT, BIGINT], TEXT), _left, least=2
    ),
    exp.Right: Function(
        "RIGHT(text, count)", ("this", "expression"), _of([TEXT, BIGINT], TEXT), _right, least=2
    ),
    exp.Replace: Function(
        "REPLACE(text, old, new)",
        ("this", "expression", "replacement"),
        _texts,
        lambda text, old, new: text.replace(old, new) if old else text,
        least=3,
    ),
    exp.StartsWith: Function(
        "STARTS_WITH(text, prefix)",
        ("this", "expression"),
        _of([TEXT, TEXT], BOOLEAN),
        str.startswith,
        least=2,
    ),
    exp.Like: Function(
        "text LIKE 'a%_'",
        ("this", "expression"),
        _of([TEXT, TEXT], BOOLEAN),
        lambda text, pattern: _like(pattern)(text),
        least=2,
        fixed=_like,
    ),
    exp.ILike: Function(
        "text ILIKE 'a%_'",
        ("this", "expression"),
        _of([TEXT, TEXT], BOOLEAN),
        lambda text, pattern: _ilike(pattern)(text),
        least=2,
        fixed=_ilike,
    ),
    exp.StrPosition: Function(
        "STRPOS(text, part)",
        ("this", "substr"),
        _of([TEXT, TEXT], BIGINT),
        lambda text, part: text.find(part) + 1,
        least=2,
    ),
    exp.SplitPart: Function(
        "SPLIT_PART(text, delimiter, place)",
        ("this", "delimiter", "part_index"),
        _of([TEXT, TEXT, BIGINT], TEXT),
        _split_part,
        least=3,
    ),
    exp.Sqrt: Function("SQRT(number)", ("this",), _doubles, _sqrt),
    exp.Ln: Function("LN(number)", ("this",), _doubles, _ln),
    exp.Exp: Function("EXP(number)", ("this",), _doubles, _exp),
    exp.Pow: Function("POWER(base, exponent)", ("this", "expression"), _doubles, _power, least=2),
    exp.Abs: Function("ABS(number)", ("this",), _number, abs),
    exp.Sign: Function("SIGN(number)", ("this",), lambda t: INTEGER if _number(t) else None, _sign),
    exp.Floor: Function("FLOOR(number)", ("this",), _number, _whole(math.floor)),
    exp.Ceil: Function("CEIL(number)", ("this",), _number, _whole(math.ceil)),
    exp.Round: Function(
        "ROUND(number, digits)",
        ("this", "decimals"),
        lambda t: _number(t) if len(t) == 1 or t[1].is_integer else None,
        _round,
    ),
}
"""By sqlglot's node."""

CONCAT: Final = {
    True: Function(
        "CONCAT(a, b, ...)",
        ("expressions",),
        _texts,
        _joined,
        strict=False,
        nullable=lambda _: False,
        flags=("safe", "coalesce"),
    ),
    False: Function(
        "CONCAT(a, b, ...)",
        ("expressions",),
        _texts,
        _concat,
        strict=False,
        flags=("safe", "coalesce"),
    ),
}
"""CONCAT, by whether it takes NULL for the empty text (DuckDB, PostgreSQL) or not (Spark)."""

NAMES: Final = ", ".join(
    sorted(
        {one.usage.split("(")[0] for one in FUNCTIONS.values() if "(" in one.usage}
        | {"CONCAT", "NULLIF"}
    )
)
"""What is offered where a function is not known."""


COMPARISONS: Final[dict[type, str]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The comparisons, and how rules write them."""

_SIGNS: Final[dict[type, str]] = {
    **COMPARISONS,
    exp.Add: "+",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Mul: "*",
    exp.Neg: "-",
    exp.Sub: "-",
}


def written(node: exp.Expr) -> str:
    """An operator as it is written, or its word."""
    return _SIGNS.get(type(node), node.key.upper())
