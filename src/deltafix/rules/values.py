"""What functors and comparisons mean on Python values: pure functions, one per functor and type.

The meaning is the kernel's (`kernel.values`), on ints, floats and strings instead of column codes:
integers wrap at 64 bits, `/` and `%` truncate towards zero, floats are IEEE doubles with one zero
and one NaN, which is equal to itself and greater than every other float. Invariant: a function
returns a value of its result type or `NO_VALUE`, and never raises on values of its argument types;
a binding in which some functor has no value does not hold.
`ord` is absent: the number of a symbol is its database's, not a function of the text.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

from deltafix.facts import values
from deltafix.rules.like import is_like
from deltafix.rules.regex import RegexError, compile_regex


class _NoValue:
    """The type of `NO_VALUE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_VALUE"


NO_VALUE: Final = _NoValue()
"""What a functor without a value returns: division by zero, `to_number("abc")`."""

Function: TypeAlias = Callable[..., Any]
"""Values of one type in, a value or `NO_VALUE` out."""

Test: TypeAlias = Callable[[Any, Any], bool]
"""Whether a comparison holds between two values of one type."""

_NAN: Final = math.nan
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63


def _signed(x: int) -> int:
    return ((x + _SIGN) & _MASK) - _SIGN


def _unsigned(x: int) -> int:
    return x & _MASK


def _divide(a: int, b: int) -> Any:
    if b == 0:
        return NO_VALUE
    quotient = abs(a) // abs(b)
    return _signed(quotient if (a < 0) == (b < 0) else -quotient)


def _rest(a: int, b: int) -> Any:
    if b == 0:
        return NO_VALUE
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


def _power(a: int, b: int) -> Any:
    if b >= 0:
        return _signed(pow(a, b, 1 << 64))
    if abs(a) == 1:
        return a if b % 2 else 1
    return NO_VALUE if a == 0 else 0


def _real_divide(x: float, y: float) -> float:
    if y == 0.0:
        return _NAN if x == 0.0 or math.isnan(x) else math.copysign(math.inf, x)
    return values.canonical(x / y)


def _real_power(x: float, y: float) -> float:
    try:
        return values.canonical(math.pow(x, y))
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # zero to a negative power, or a negative base and no whole exponent
        return math.inf if x == 0 else _NAN


def _whole_functions(wrap: Callable[[int], int]) -> dict[str, Function]:
    """What number and unsigned share, apart from how a result wraps around."""
    return {
        "+": lambda a, b: wrap(a + b),
        "-": lambda a, b: wrap(a - b),
        "*": lambda a, b: wrap(a * b),
        "neg": lambda a: wrap(-a),
        "band": lambda a, b: a & b,
        "bor": lambda a, b: a | b,
        "bxor": lambda a, b: a ^ b,
        "bnot": lambda a: wrap(~a),
        "bshl": lambda a, b: wrap(a << (b & 63)),
        "bshr": lambda a, b: a >> (b & 63),
        "bshru": lambda a, b: wrap((a & _MASK) >> (b & 63)),
        "land": lambda a, b: int(a != 0 and b != 0),
        "lor": lambda a, b: int(a != 0 or b != 0),
        "lxor": lambda a, b: int((a != 0) != (b != 0)),
        "lnot": lambda a: int(a == 0),
        "to_string": str,
    }


def _below(x: float, y: float) -> bool:
    return x < y or (y != y and x == x)  # noqa: PLR0124  NaN is greater than all others


def _equal(x: float, y: float) -> bool:
    return x == y or (x != x and y != y)  # noqa: PLR0124  NaN


def _real_to(low: int) -> Function:
    """Cut off towards zero, so -0.5 is an unsigned 0."""
    return lambda x: int(x) if math.isfinite(x) and low <= int(x) < low + 2**64 else NO_VALUE


def _unsigned_to_float(x: int) -> float:
    # Rounded as the kernel rounds: the signed pattern first.
    return float(x) if x < _SIGN else float(x - (1 << 64)) + 2.0**64


def _read_whole(wrap: Callable[[int], int]) -> Function:
    def read(text: str) -> Any:
        value = values.read_whole(text)
        return value if value is not None and wrap(value) == value else NO_VALUE

    return read


def _read_real(text: str) -> Any:
    value = values.read_real(text)
    return NO_VALUE if value is None else values.canonical(value)


def _substring(text: str, start: int, count: int) -> str:
    return text[start : start + count] if start >= 0 and count >= 0 else ""


_FUNCTIONS: Final[dict[values.BaseType, dict[str, Function]]] = {
    "number": _whole_functions(_signed)
    | {
        "/": _divide,
        "%": _rest,
        "^": _power,
        "min": min,
        "max": max,
        "to_number": lambda a: a,
        "to_unsigned": _unsigned,
        "to_float": float,
    },
    "unsigned": _whole_functions(_unsigned)
    | {
        "/": lambda a, b: a // b if b else NO_VALUE,
        "%": lambda a, b: a % b if b else NO_VALUE,
        "^": lambda a, b: pow(a, b, 1 << 64),
        "min": min,
        "max": max,
        "to_number": _signed,
        "to_unsigned": lambda a: a,
        "to_float": _unsigned_to_float,
    },
    "float": {
        "+": lambda x, y: values.canonical(x + y),
        "-": lambda x, y: values.canonical(x - y),
        "*": lambda x, y: values.canonical(x * y),
        "/": _real_divide,
        "^": _real_power,
        "neg": lambda x: values.canonical(-x),
        "min": lambda x, y: x if _below(x, y) else y,
        "max": lambda x, y: y if _below(x, y) else x,
        "to_number": _real_to(-(2**63)),
        "to_unsigned": _real_to(0),
        "to_float": lambda x: x,
        "to_string": repr,
    },
    "symbol": {
        "cat": operator.add,
        "min": min,
        "max": max,
        "strlen": len,
        "substr": _substring,
        "to_number": _read_whole(_signed),
        "to_unsigned": _read_whole(_unsigned),
        "to_float": _read_real,
        "to_string": lambda text: text,
    },
}


def function(functor: str, of: values.BaseType) -> Function:
    """The meaning of a functor on arguments of type `of` (of the first, where they differ).

    `cat`, `min` and `max` take two arguments here; core clauses chain longer ones. Raises
    KeyError for a functor that has no meaning on that type.
    """
    return _FUNCTIONS[of][functor]


def constructor(functor: str) -> Function:
    """The meaning of `[T]` and `$branch` (make a value), `[T].0` and `$branch.0` (read a field).

    A field of `nil`, or of a value of another branch, has no value.
    """
    name, _, position = functor.rpartition(".")
    if not position.isdigit():
        if functor.startswith("["):
            return lambda *fields: fields
        return lambda *fields: values.Branch(functor[1:], fields)
    at = int(position)
    if functor.startswith("["):
        return lambda value: NO_VALUE if value is None else value[at]
    return lambda value: value.fields[at] if value.name == name[1:] else NO_VALUE


def _matches(pattern: str, text: str) -> bool:
    try:
        return compile_regex(pattern).fullmatch(text) is not None
    except RegexError:
        return False


def _is_like(text: str, pattern: str) -> bool:
    try:
        return is_like(pattern)(text)
    except ValueError:
        return False


_TESTS: Final[dict[str, Test]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "match": _matches,
    "contains": lambda part, text: part in text,
}
_REAL_TESTS: Final[dict[str, Test]] = {
    "=": _equal,
    "!=": lambda x, y: not _equal(x, y),
    "<": _below,
    "<=": lambda x, y: not _below(y, x),
    ">": lambda x, y: _below(y, x),
    ">=": lambda x, y: not _below(x, y),
}


def _natives(of: values.BaseType) -> dict[str, Function]:
    tests = _REAL_TESTS if of == "float" else _TESTS
    same, less = tests["="], tests["<"]
    functions: dict[str, Function] = {
        f"~there_{of}": lambda record: int(record is not None),
        f"~or_{of}": lambda record, other: other if record is None else record[0],
        f"~when_{of}": lambda condition, value: (value,) if condition else None,
        f"~pick_{of}": lambda condition, then, otherwise: then if condition else otherwise,
        f"~same_{of}": lambda left, right: int(same(left, right)),
    }
    if of == "symbol":  # their order the kernel keeps only where rules ask for it
        functions["~like_symbol"] = lambda text, pattern: int(_is_like(text, pattern))
    else:
        functions[f"~less_{of}"] = lambda left, right: int(less(left, right))
    return functions


NATIVE: Final[dict[str, Function]] = {
    **_natives("number"),
    **_natives("float"),
    **_natives("symbol"),
}
"""Functors that every program may declare as a user's, and the kernel computes.

They are about values, conditions that are 1 or 0, and records of one field, or `nil`. No text can
spell them; SQL computes with NULL so.
"""


def native(functor: str) -> str:
    """What one of `NATIVE` does, as a call names it: `there` of `@~there_float`; else no text."""
    return functor[2:].partition("_")[0] if functor[1:] in NATIVE else ""


def comparison(op: str, of: values.BaseType) -> Test:
    """The meaning of `left op right` on values of type `of`. Raises KeyError for no such test.

    Symbols compare by code points; NaN is greater than every other float.
    `match(pattern, text)` wants the whole text; a pattern that is no pattern matches nothing.
    """
    return (_REAL_TESTS if of == "float" else _TESTS)[op]


def numbers(of: values.BaseType, start: Any, end: Any, step: Any = None) -> Iterator[values.Value]:
    """The values of `range(start, end[, step])`: from `start`, short of `end`.

    Without a step it counts towards `end` by one. A step that leads away from `end` gives
    nothing; step 0 gives `start` alone unless it is `end`. Stops where a sum would leave the type
    or, for floats, no longer move. NaN gives nothing.
    """
    if start != start or end != end or step != step:  # noqa: PLR0124  NaN
        return
    if step is None:
        step = 1 if start <= end else -1
    elif of == "unsigned":
        step = _signed(step)  # counting down is written as the two's complement
    if step == 0:
        if start != end:
            yield start
        return
    at = start
    while at < end if step > 0 else at > end:
        yield at
        following = at + step
        if following == at:
            return
        at = following


_FORMATS: Final[dict[int, dict[str, str]]] = {
    32: {"number": "<i", "unsigned": "<I", "float": "<f"},
    values.WORD: {"number": "<q", "unsigned": "<Q", "float": "<d"},
}


def reinterpret(
    value: values.Value, of: values.BaseType, to: values.BaseType, bits: int = values.WORD
) -> values.Value:
    """`as(value, to)`: the same bits read as another numeric type; a symbol stays itself.

    A float of 32 bits has single precision: the nearest one, an infinity beyond all of them.
    """
    if of == to or "symbol" in (of, to):
        return value
    formats = _FORMATS[bits]
    try:
        pattern = struct.pack(formats[of], value)
    except OverflowError:
        pattern = struct.pack(formats[of], math.copysign(math.inf, cast(float, value)))
    read = struct.unpack(formats[to], pattern)[0]
    return values.canonical(read) if to == "float" else cast(int, read)
