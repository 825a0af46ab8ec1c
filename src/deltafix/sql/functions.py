"""The scalar functions and operators of SQL that are maintained, as tables.

A `Function` (`sql.signatures`) says which arguments of sqlglot's node it takes, what type it gives,
and how it is computed; adding one is adding a line, and a row of docs/reference/sql.md. Those of
texts are in `sql.text_functions`, those of numbers in `sql.number_functions`; here are operators,
what is of values of any type, and `function_of`, which finds one for a node. Invariant: everything
here is a pure function of its arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from deltafix.sql import binary, number_functions, text_functions, times
from deltafix.sql.intervals import UNITS, Interval
from deltafix.sql.signatures import (
    Function,
    common,
    doubles,
    of_types,
    sized,
    texts,
    texts_or_bytes,
)
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BLOB,
    DECIMALS,
    DOUBLE,
    INTERVAL,
    NULL,
    TEXT,
    TIME,
    TIMESTAMP,
    SqlType,
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
    "bounded",
    "float_remainder",
    "is_utf8",
    "itself",
    "order_of",
    "written",
]


def order_of(kind: SqlType) -> Callable[[Any], Any]:
    """What makes values of a type, which are not NULL, as equal and as great as they are in SQL.

    Python's own comparisons do not: NaN is no equal of itself, not in a tuple either, and None is
    neither less nor greater.
    """
    if kind.is_nested:
        return kind.write
    return kind.length or (_ordered if kind == DOUBLE else itself)


def _ordered(value: float) -> tuple[bool, float]:
    """A float in the total order: NaN equals itself and is above infinity."""
    return (True, 0.0) if value != value else (False, value)  # noqa: PLR0124  NaN


def itself(value: Any) -> Any:
    """A value that Python orders as SQL does."""
    return value


def is_utf8(node: exp.Expr) -> bool:
    """Whether an ENCODE or a DECODE is of UTF-8."""
    return node.args["charset"].name.upper() in ("UTF-8", "UTF8")


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
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError(f"division by zero: {a} % 0")
    if isinstance(a, float) or isinstance(b, float):
        return float_remainder(a, b)
    return a - b * _quotient(a, b)


def float_remainder(a: float, b: float) -> float:
    """`%` of floats as IEEE 754 has it: NaN where there is none."""
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


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


def bounded(operate: Callable[[float, float], float]) -> Callable[[float, float], float]:
    """PostgreSQL's arithmetic of floats: what is too large or too small for one is an error."""
    keeps = operate is not operator.add and operate is not operator.sub

    def checked(a: float, b: float) -> float:
        value = operate(a, b)
        if math.isfinite(a) and math.isfinite(b):
            lost = value == 0 and keeps and a != 0 and b != 0
            if math.isinf(value) or lost:
                raise OverflowError(f"out of the range of a DOUBLE: of {a} and {b}")
        return value

    return checked


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


def _coalesce(values: Iterator[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _concat(*values: Any) -> Any:
    return None if None in values else values[0][:0].join(values)


def _joined(*values: Any) -> str:
    return "".join(value for value in values if value is not None)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(kind: SqlType, *values: Any) -> Any:
        known = [value for value in values if value is not None]
        return choose(known, key=order_of(kind)) if known else None

    return chosen


def _of_units(unit: str) -> Function:
    """TO_HOURS(n) and the like; of seconds there may be parts."""
    one, usage = UNITS[unit], f"TO_{unit}S(n)"
    if unit in ("SECOND", "MILLISECOND"):
        return Function(
            usage, ("this",), lambda t: doubles(t) and INTERVAL,
            lambda n: Interval(0, 0, round(n * one.microseconds)), takes=(DOUBLE,),
            only=("duckdb",),
        )  # fmt: skip
    return Function(usage, ("this",), of_types([BIGINT], INTERVAL), one.__mul__, only=("duckdb",))


FUNCTIONS: Final[dict[type, Function]] = {
    exp.Coalesce: Function(
        "COALESCE(a, b, ...)",
        ("this", "expressions"),
        common,
        _coalesce,
        strict=False,
        lazy=True,
        unites=True,
        nullable=all,
    ),
    exp.DPipe: Function(
        "a || b",
        ("this", "expression"),
        texts_or_bytes,
        operator.add,
        flags=("safe",),
        least=2,
    ),
    exp.Greatest: Function(
        "GREATEST(a, b, ...)",
        ("this", "expressions"),
        common,
        _extreme(max),
        strict=False,
        unites=True,
        of_type=True,
        nullable=all,
        flags=("ignore_nulls",),
    ),
    exp.Least: Function(
        "LEAST(a, b, ...)",
        ("this", "expressions"),
        common,
        _extreme(min),
        strict=False,
        unites=True,
        of_type=True,
        nullable=all,
        flags=("ignore_nulls",),
    ),
    exp.Length: Function(
        "LENGTH(text)", ("this",), lambda t: BIGINT if texts_or_bytes(t) else sized(t), len
    ),
    exp.ByteLength: Function("OCTET_LENGTH(blob)", ("this",), of_types([BLOB], BIGINT), len),
    exp.Hex: Function(
        "HEX(blob)", ("this",), lambda t: TEXT if texts_or_bytes(t) else None, binary.hexadecimal
    ),
    exp.Unhex: Function("UNHEX(text)", ("this",), of_types([TEXT], BLOB), binary.unhexed),
    exp.Encode: Function(
        "ENCODE(text)", ("this",), of_types([TEXT], BLOB), str.encode, flags=("charset",)
    ),
    exp.Decode: Function(
        "DECODE(blob)", ("this",), of_types([BLOB], TEXT), binary.utf8_text, flags=("charset",)
    ),
    exp.ArraySize: Function("CARDINALITY(array)", ("this",), sized, len),
    exp.ToDays: _of_units("DAY"),
    exp.TimestampFromParts: Function(
        "MAKE_TIMESTAMP(year, month, day, hour, minute, second)",
        ("year", "month", "day", "hour", "min", "sec"),
        lambda t: TIMESTAMP if len(t) == 6 and of_types([BIGINT] * 5, TIMESTAMP)(t[:5]) else None,
        times.make_timestamp,
        takes=(*[BIGINT] * 5, DOUBLE),
        only=("duckdb",),
    ),
    exp.TimeFromParts: Function(
        "MAKE_TIME(hour, minute, second)",
        ("hour", "min", "sec"),
        lambda t: of_types([BIGINT] * 2, TIME)(t[:2]) if len(t) == 3 and doubles(t[2:]) else None,
        times.make_time,
        takes=(BIGINT, BIGINT, DOUBLE),
        only=("duckdb", "postgres"),
    ),
    **text_functions.TEXTS,
    **number_functions.NUMBERS,
}
"""By sqlglot's node."""

INTERVALS: Final = {
    "AGE": Function(
        "AGE(later, earlier)", ("this",),
        lambda t: of_types([TIMESTAMP] * 2, INTERVAL)(t) if len(t) == 2 else None, times.age,
        takes=(TIMESTAMP, TIMESTAMP), only=("duckdb", "postgres"),
    ),
    **{f"TO_{unit}S": _of_units(unit) for unit in UNITS},
}  # fmt: skip
"""Functions whose values are intervals, by name."""

NAMED: Final[dict[str, Function]] = {
    name: replace(function, arguments=("expressions",), flags=("this",))
    for names in (text_functions.NAMED, number_functions.NAMED, INTERVALS)
    for name, function in names.items()
}
"""What sqlglot has no node for, by name."""

CONCAT: Final = {
    True: Function(
        "CONCAT(a, b, ...)",
        ("expressions",),
        texts,
        _joined,
        strict=False,
        nullable=lambda _: False,
        flags=("safe", "coalesce"),
    ),
    False: Function(
        "CONCAT(a, b, ...)",
        ("expressions",),
        texts,
        _concat,
        strict=False,
        flags=("safe", "coalesce"),
    ),
}
"""CONCAT, by whether it takes NULL for the empty text (DuckDB, PostgreSQL) or not (Spark)."""


def _length(array: Sequence[Any] | None, dimension: int | None = 1) -> int | None:
    """ARRAY_LENGTH(array, 1): of an empty array there is none."""
    return None if array is None or dimension != 1 else len(array) or None


OWN: Final = {
    **text_functions.OWN,
    **number_functions.OWN,
    (exp.ArraySize, "postgres"): Function(
        "CARDINALITY(array), ARRAY_LENGTH(array, 1)",
        ("this", "expression"),
        lambda t: sized(t[:1]) if len(t) == 1 or t[1].is_integer or t[1] is NULL else None,
        lambda array, *dim: _length(array, *dim) if dim else None if array is None else len(array),
        strict=False,
        nullable=lambda nullable: len(nullable) > 1 or nullable[0],
    ),
}
"""What each dialect has in its own way, by node and dialect."""


def function_of(node: exp.Expr, dialect: str) -> Function | None:
    """The function of a node; None where there is none in a dialect."""
    if type(node) is exp.Concat:  # CONCAT_WS is one, too
        return CONCAT[bool(node.args.get("coalesce"))]
    if isinstance(node, exp.Trim):
        return text_functions.TRIMS.get((str(node.args.get("position") or ""), dialect))
    if isinstance(node, exp.Like | exp.ILike):
        return text_functions.LIKES[dialect, isinstance(node, exp.ILike)]
    if isinstance(node, exp.Pad):
        return text_functions.PADS[bool(node.args.get("is_left")), dialect]
    if isinstance(node, exp.Initcap):
        return text_functions.INITCAP.get(dialect)
    function = NAMED.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
    function = function or OWN.get((type(node), dialect)) or FUNCTIONS.get(type(node))
    return function if function is not None and dialect in (function.only or (dialect,)) else None


_FAMILIES: Final = {
    "JSON": "of JSON, which is a TEXT, there are x -> '$.a', x ->> '$.a', JSON_EXTRACT_STRING",
    "LIST": "of arrays there are LEN, LIST_SORT, LIST_CONTAINS, LIST_CONCAT, LIST_SUM and others",
    "REGEXP": "of patterns there are REGEXP_MATCHES, REGEXP_REPLACE, REGEXP_EXTRACT and others",
    "DATE": "of days there are EXTRACT, DATE_TRUNC, DATE_DIFF, DATE_ADD, STRFTIME and others",
}
"""By the first word of their names, in DuckDB's dialect."""

_WORDS: Final = {
    "ARRAY": "LIST",
    "TIME": "DATE",
    "TO_DATE": "DATE",
    "TO_JSON": "JSON",
}
"""Other names, and first words of names, of functions of a family."""


NAMES: Final = {
    "CONCAT", "NULLIF", "TRIM",
    *(
        function.usage.partition("(")[0]
        for kind in (FUNCTIONS, NAMED, text_functions.PADS, OWN)
        for function in kind.values()
        if "(" in function.usage
    ),
}  # fmt: skip
"""What a name that is not known may mean."""

_NO_MAP: Final = "there is no type MAP: write a row for each key, SELECT x, COUNT(*) ... GROUP BY x"
_NO_JSON: Final = "there is no type JSON: write a STRUCT, {'a': x}, and [x, y], which outputs have"
_OTHERWISE: Final = {
    **dict.fromkeys(("HISTOGRAM", "MAP", "TO_MAP", "MAP_FROM_ENTRIES"), _NO_MAP),
    **dict.fromkeys(("JSON_OBJECT", "JSON_ARRAY"), _NO_JSON),
    "LIST_ZIP": "write structs, whose fields have names: "
    "[{'a': a[i], 'b': b[i]} for i in RANGE(1, LEN(a) + 1)]",
    "GEOMEAN": "write EXP(AVG(LN(x)))", "GEOMETRIC_MEAN": "write EXP(AVG(LN(x)))",
}  # fmt: skip
"""What to write for functions of which there are none."""


def instead_of(name: str, dialect: str) -> str:
    """What there is where a function, in capitals, is not known: its family, and where all are."""
    if name in _OTHERWISE:
        return _OTHERWISE[name]
    word = name.partition("_")[0]
    word = _WORDS.get(name) or _WORDS.get(word, word)
    family = _FAMILIES.get(word) if dialect == "duckdb" else None
    page = "the page `SQL, construct by construct` has all functions there are"
    begins = page if family is None else f"{family}: {page}"
    return f"{begins}; else compute it beforehand, or give it to deltafix.sql.create_function"


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
