"""`is` and numeric comparison: evaluation of arithmetic terms, without recursion.

Invariant: integers are exact and of any size; `/` on integers is exact when it divides and a
float otherwise. An `ArithmeticFaultError` has no place yet: the caller adds clause and literal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from deltafix.tabling.terms import Atom, Float, Int, Struct, Term, Var, floating, integer
from deltafix.tabling.writer import show

Number: TypeAlias = int | float

MAX_BITS: Final = 1 << 20
"""Largest integer result of `**`, `^` and `<<`, in bits: beyond, memory is the runaway."""


class ArithmeticFaultError(ValueError):
    """An expression that has no value: unbound variable, unknown function, wrong type, range."""


def _divide(x: Number, y: Number) -> Number:
    if y == 0:
        msg = "division by zero"
        raise ArithmeticFaultError(msg)
    if isinstance(x, int) and isinstance(y, int) and x % y == 0:
        return x // y
    return x / y


def _whole(function: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def apply(x: Number, y: Number) -> Number:
        if not isinstance(x, int) or not isinstance(y, int):
            msg = f"integers expected, not {x} and {y}"
            raise ArithmeticFaultError(msg)
        return function(x, y)

    return apply


def _nonzero(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def apply(x: int, y: int) -> int:
        if y == 0:
            msg = "division by zero"
            raise ArithmeticFaultError(msg)
        return function(x, y)

    return apply


def _truncating(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _power(x: Number, y: Number) -> Number:
    if isinstance(x, int) and isinstance(y, int):
        if y < 0 and x not in (1, -1):
            msg = f"{x} ** {y} is no integer"
            raise ArithmeticFaultError(msg)
        if y < 0:
            return x if y % 2 else 1
        if x.bit_length() * y > MAX_BITS:
            msg = f"{x} ** {y} has more than {MAX_BITS} bits"
            raise ArithmeticFaultError(msg)
        return int(x**y)
    result = float(x) ** float(y) if x >= 0 or y == int(y) else math.nan
    return float(result)


def _shift(x: int, y: int) -> int:
    if y < 0:
        return x >> -y
    if x.bit_length() + y > MAX_BITS:
        msg = f"{x} << {y} has more than {MAX_BITS} bits"
        raise ArithmeticFaultError(msg)
    return x << y


def _sign(x: Number) -> Number:
    sign = (x > 0) - (x < 0)
    return sign if isinstance(x, int) else float(sign)


FUNCTIONS: Final[Mapping[tuple[str, int], Callable[..., Number]]] = {
    ("+", 2): lambda x, y: x + y,
    ("-", 2): lambda x, y: x - y,
    ("*", 2): lambda x, y: x * y,
    ("/", 2): _divide,
    ("//", 2): _whole(_nonzero(_truncating)),
    ("div", 2): _whole(_nonzero(lambda x, y: x // y)),
    ("mod", 2): _whole(_nonzero(lambda x, y: x % y)),
    ("rem", 2): _whole(_nonzero(lambda x, y: x - y * _truncating(x, y))),
    ("min", 2): min,
    ("max", 2): max,
    ("**", 2): _power,
    ("^", 2): _power,
    ("<<", 2): _whole(_shift),
    (">>", 2): _whole(lambda x, y: _shift(x, -y)),
    ("/\\", 2): _whole(lambda x, y: x & y),
    ("\\/", 2): _whole(lambda x, y: x | y),
    ("xor", 2): _whole(lambda x, y: x ^ y),
    ("gcd", 2): _whole(math.gcd),
    ("+", 1): lambda x: x,
    ("-", 1): lambda x: -x,
    ("abs", 1): abs,
    ("sign", 1): _sign,
    ("\\", 1): lambda x: _whole(lambda y, _: ~y)(x, 0),
    ("float", 1): float,
    ("integer", 1): lambda x: math.floor(x + 0.5) if isinstance(x, float) else x,
    ("truncate", 1): math.trunc,
    ("floor", 1): math.floor,
    ("ceiling", 1): math.ceil,
    ("round", 1): lambda x: math.floor(x + 0.5) if isinstance(x, float) else x,
    ("sqrt", 1): math.sqrt,
}

CONSTANTS: Final[Mapping[str, Number]] = {
    "pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan,
}  # fmt: skip


def number_term(value: Number) -> Term:
    """The term of a number."""
    return integer(value) if isinstance(value, int) else floating(value)


def _leaf(term: Term) -> Number:
    if isinstance(term, Int | Float):
        return term.value
    if isinstance(term, Var):
        msg = "an unbound variable has no value"
        raise ArithmeticFaultError(msg)
    if isinstance(term, Atom) and term.name in CONSTANTS:
        return CONSTANTS[term.name]
    msg = f"{show(term)} is no number and no function of arithmetic"
    raise ArithmeticFaultError(msg)


def evaluate(term: Term) -> Number:
    """The value of an arithmetic term. O(its size).

    Raises:
        ArithmeticFaultError: see the class.
    """
    if not isinstance(term, Struct):
        return _leaf(term)
    frames: list[tuple[Struct, list[Number]]] = [(term, [])]
    while True:
        top, values = frames[-1]
        if len(values) < len(top.args):
            argument = top.args[len(values)]
            if isinstance(argument, Struct):
                frames.append((argument, []))
            else:
                values.append(_leaf(argument))
            continue
        frames.pop()
        function = FUNCTIONS.get((top.name, len(top.args)))
        if function is None:
            msg = f"{show(top)}: {top.name}/{len(top.args)} is no function of arithmetic"
            raise ArithmeticFaultError(msg)
        try:
            value = function(*values)
        except (OverflowError, ValueError) as cause:
            if isinstance(cause, ArithmeticFaultError):
                raise
            msg = f"{show(top)}: {cause}"
            raise ArithmeticFaultError(msg) from cause
        if not frames:
            return value
        frames[-1][1].append(value)
