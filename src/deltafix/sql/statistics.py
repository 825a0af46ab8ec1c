"""Reducers behind the aggregates of two columns, CORR and REGR_SLOPE, and of the shape of one.

Invariant: sums are exact, in whole units (`changes.exact`), so nothing cancels and a value that
goes leaves nothing behind; the result is their quotient rounded once, and where there is a root
twice. NaN and infinity are counted beside the sums. What has no value, since what it is divided by
is 0, is NaN; whether SQL has NULL for that is `sql.aggregates`'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, TypeAlias

from deltafix.changes.exact import SHIFT, ratio, units
from deltafix.reducers.reducer import Additive

__all__ = ["Paired", "Shape"]

_Sums: TypeAlias = tuple[int, ...]


class Paired(Additive[Any, _Sums, float]):
    """An aggregate of pairs, of y and x: an array of two floats as the engine has it.

    Its state is how many there are, how many with NaN or infinity, and Σy, Σx, Σyy, Σxx, Σxy.
    """

    initial: _Sums = (0,) * 7

    def __init__(self, op: str, read: Callable[[Any], Any]) -> None:
        self.op = op
        self.read = read

    def shift(self, acc: _Sums, value: Any, count: int, /) -> _Sums:
        """With so many pairs more, or fewer."""
        y, x = self.read(value)
        if not (math.isfinite(y) and math.isfinite(x)):
            return (acc[0] + count, acc[1] + count, *acc[2:])
        y_units, x_units = units(y), units(x)
        parts = (y_units, x_units, y_units * y_units, x_units * x_units, y_units * x_units)
        sums = (total + count * part for total, part in zip(acc[2:], parts, strict=True))
        return (acc[0] + count, acc[1], *sums)

    def finish(self, acc: _Sums, /) -> float:
        """The result."""
        n, odd, y, x, yy, xx, xy = acc
        if odd or not n:
            return math.nan
        # n times the sums of what is around the means
        both, across, along = n * xy - x * y, n * xx - x * x, n * yy - y * y
        return _PAIRS[self.op](n, y, x, both, across, along)


_UNIT: Final = 1 << SHIFT
"""Of a sum; that of a product is its square."""


def _correlation(both: int, across: int, along: int) -> float:
    if not across or not along:
        return math.nan
    absolute = math.sqrt(Fraction(both * both, across * along))
    return absolute if both > 0 else 0.0 - absolute


def _over(top: int, bottom: int) -> float:
    return ratio(top, bottom) if bottom else math.nan


_PAIRS: Final[dict[str, Callable[[int, int, int, int, int, int], float]]] = {
    "covar_pop": lambda n, y, x, both, across, along: _over(both, n * n * _UNIT**2),
    "covar_samp": lambda n, y, x, both, across, along: _over(both, n * (n - 1) * _UNIT**2),
    "corr": lambda n, y, x, both, across, along: _correlation(both, across, along),
    "regr_slope": lambda n, y, x, both, across, along: _over(both, across),
    "regr_intercept": lambda n, y, x, both, across, along: _over(
        y * across - both * x, n * across * _UNIT
    ),
    "regr_r2": lambda n, y, x, both, across, along: (
        math.nan if not across else 1.0 if not along else ratio(both * both, across * along)
    ),
    "regr_sxx": lambda n, y, x, both, across, along: _over(across, n * _UNIT**2),
    "regr_syy": lambda n, y, x, both, across, along: _over(along, n * _UNIT**2),
    "regr_sxy": lambda n, y, x, both, across, along: _over(both, n * _UNIT**2),
}


class Shape(Additive[float, _Sums, float]):
    """SKEWNESS and KURTOSIS of floats: how many, how many odd ones, and Σ of powers up to four."""

    initial: _Sums = (0,) * 6

    def __init__(self, op: str) -> None:
        self.op = op

    def shift(self, acc: _Sums, value: float, count: int, /) -> _Sums:
        """With so many values more, or fewer."""
        if not math.isfinite(value):
            return (acc[0] + count, acc[1] + count, *acc[2:])
        scaled = units(value)
        powers = (total + count * scaled**power for power, total in enumerate(acc[2:], 1))
        return (acc[0] + count, acc[1], *powers)

    def finish(self, acc: _Sums, /) -> float:
        """The result."""
        n, odd, s1, s2, s3, s4 = acc
        least = {"skewness": 3, "kurtosis": 4}.get(self.op, 1)
        second = n * s2 - s1 * s1  # n² times the second moment around the mean
        if odd or n < least or not second:
            return math.nan
        if self.op == "skewness":
            third = n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3
            square = Fraction(third * third * n * (n - 1), second**3 * (n - 2) ** 2)
            return math.sqrt(square) if third > 0 else 0.0 - math.sqrt(square)
        fourth = n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4
        ratio = Fraction(fourth, second * second)  # its fourth moment by the square of its second
        if self.op == "kurtosis":
            return float(Fraction(n - 1, (n - 2) * (n - 3)) * ((n + 1) * ratio - 3 * (n - 1)))
        return float(ratio - 3)
