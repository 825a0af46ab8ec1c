"""Exact totals: sums that give back precisely the old value when a summand leaves.

One noun: a *total*. While only integers have been added it is a plain `int` (or a `Fraction` or
`Decimal`, if those were added); once floats take part it is the tuple `(units, floats, nans,
rises, falls)`: the finite part as an integer multiple of 2**-1074 (the smallest positive double,
so every double is a whole number of units), how many floats are in it, and how many of these were
NaN, +inf and -inf. When the last float leaves, the total is an `int` again.

Invariant: a total is a function of the multiset that was added, never of its order; so
`(t + x) - x == t` exactly. IEEE addition violates that: (0.1 + 1e16) - 1e16 is 0.0, not 0.1.
Cost, measured together on a busy machine: adding a float 3.2 µs against 0.5 µs for an int, and
rounding the total once to read it 2.7 µs. A total takes up to 310 bytes.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any, TypeAlias

Total: TypeAlias = Any
"""`int`, `Fraction`, `Decimal`, or `(units, floats, nans, rises, falls)`; see the module."""

SHIFT = 1074
_UNIT = 1 << SHIFT
# Decimals are added with room for every digit; running out raises instead of rounding.
_EXACT = Context(prec=5000, traps=[Inexact, InvalidOperation, Overflow])


def units(value: float) -> int:
    """A finite float as a whole number of units of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (SHIFT + 1 - denominator.bit_length())


def extend(total: Total, value: Any, count: int) -> Total:
    """The total with `value` added `count` times (taken away if `count` is negative).

    Raises TypeError for what is no number, and for floats mixed with Decimal or Fraction, which
    would be exact in neither.
    """
    if isinstance(value, float):
        return _extend_float(total, value, count)
    if isinstance(value, (Fraction, Decimal)):
        if isinstance(total, tuple):
            raise TypeError(f"cannot add {value!r} exactly to a sum of floats")
        if isinstance(value, Fraction):
            return total + value * count
        return _EXACT.add(total, _EXACT.multiply(value, count))
    if not hasattr(value, "__index__"):
        raise TypeError(f"{value!r} ({type(value).__name__}) is not a number to sum")
    whole = value.__index__() * count  # numpy integers become Python's, which cannot overflow
    if isinstance(total, tuple):
        return (total[0] + (whole << SHIFT), *total[1:])
    if isinstance(total, Decimal):
        return _EXACT.add(total, whole)
    return total + whole


def _extend_float(total: Total, value: float, count: int) -> Total:
    if isinstance(total, tuple):
        whole, floats, nans, rises, falls = total
    elif isinstance(total, int):
        whole, floats, nans, rises, falls = total << SHIFT, 0, 0, 0, 0
    else:
        raise TypeError(
            f"cannot add the float {value!r} exactly to a sum of {type(total).__name__}"
        )
    floats += count
    if isfinite(value):
        whole += units(value) * count
    elif value > 0:
        rises += count
    elif value < 0:
        falls += count
    else:
        nans += count
    if floats == 0:
        return whole >> SHIFT
    return (whole, floats, nans, rises, falls)


def _special(total: tuple[int, int, int, int, int]) -> float | None:
    """The IEEE answer when NaN or infinities are in the total, else None."""
    _, _, nans, rises, falls = total
    if nans or (rises and falls):
        return nan
    if rises:
        return inf
    return -inf if falls else None


def ratio(numerator: int, denominator: int) -> float:
    """The quotient of two integers, correctly rounded; ±inf beyond the largest double.

    One that is too small is the one zero, also from below.
    """
    try:
        return numerator / denominator + 0.0
    except OverflowError:
        return inf if numerator > 0 else -inf


def same_total(left: Total, right: Total) -> bool:
    """Whether two totals have the same exact value and the same NaNs and infinities.

    1 and 1.0 are one value of a multiset, so whether a float took part may depend on which of them
    was given first; the sum does not.
    """
    if isinstance(left, tuple) and isinstance(right, tuple):
        return bool(left[0] == right[0] and left[2:] == right[2:])
    if not isinstance(left, tuple) and not isinstance(right, tuple):
        return bool(left == right)
    floats, other = (left, right) if isinstance(left, tuple) else (right, left)
    return not any(floats[2:]) and bool(Fraction(floats[0], _UNIT) == other)


def total_value(total: Total) -> Any:
    """The total as a number: exact for int, Fraction and Decimal, correctly rounded for floats."""
    if isinstance(total, tuple):
        special = _special(total)
        return ratio(total[0], _UNIT) if special is None else special
    return total


def divide(total: Total, count: int) -> Any:
    """The mean of a total of `count` numbers, correctly rounded.

    Fractions stay exact; Decimals are divided in the current context.
    """
    if isinstance(total, tuple):
        special = _special(total)
        return ratio(total[0], count * _UNIT) if special is None else special
    return ratio(total, count) if isinstance(total, int) else total / count
