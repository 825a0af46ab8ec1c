"""Many numbers at once, in numpy: exact sums of runs of them.

One noun: `Digits` are floats as digits of 31 bits over one scale, so that sums of digits are exact
in 64 bits. Invariant: what comes out is what `exact` makes of the same numbers one by one.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from deltafix.changes.exact import SHIFT, Total

__all__ = ["Digits", "float_totals", "int_totals", "units_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# A digit of a float's mantissa: 2**31 rows of one key sum without leaving 63 bits.
_DIGIT = 31
_MASK = (1 << _DIGIT) - 1
_MOST = 1 << _DIGIT


class Digits:
    """Finite floats, fewer than 2^31: two's complement, all digits but the highest not negative.

    Attributes:
        digits: the least first, each an array of as many as there are floats.
        scale: the power of two that the least one counts.
    """

    def __init__(self, numbers: Floats) -> None:
        fractions, powers = np.frexp(numbers)
        mantissas = (fractions * 2.0**53).astype(np.int64)  # whole, below 2**53: exact
        exponents = powers.astype(np.int64) - 53
        used = exponents[mantissas != 0]
        low, high = (int(used.min()), int(used.max())) if len(used) else (0, 0)
        shifts = np.where(mantissas != 0, exponents - low, 0)
        top = (53 + high - low) // _DIGIT
        self.scale = low
        self.digits: list[Ints] = []
        for digit in range(top + 1):
            left = shifts - _DIGIT * digit
            part = mantissas >> np.clip(-left, 0, 63)
            if digit < top:
                part = ((part & _MASK) << np.clip(left, 0, _DIGIT)) & _MASK
            self.digits.append(part)

    def wholes(self, sums: list[Ints]) -> list[int]:
        """Sums of each digit as whole numbers of 2^scale."""
        wholes = [0] * len(sums[0])
        for part in reversed(sums):
            pairs = zip(wholes, part.tolist(), strict=True)
            wholes = [(whole << _DIGIT) + more for whole, more in pairs]
        return wholes

    def rounded(self, sums: list[Ints]) -> Floats:
        """Sums of each digit as the nearest floats."""
        digits = _carried([*sums, *(np.zeros_like(sums[0]) for _ in range(2))])
        negative = digits[-1] < 0
        digits = _carried([np.where(negative, -digit, digit) for digit in digits])
        # From the leading digit on 62 bits, the last of which also stands for all that are behind.
        lead = np.zeros(len(negative), dtype=np.int64)
        for number, digit in enumerate(digits):
            lead[digit != 0] = number
        stacked = np.stack([*(np.zeros_like(negative, dtype=np.int64) for _ in range(2)), *digits])
        columns = np.arange(len(negative))
        first, second, third = (stacked[lead + back, columns] for back in (2, 1, 0))
        behind = np.zeros(len(negative), dtype=np.bool_)
        for number, digit in enumerate(digits):
            behind |= (digit != 0) & (number < lead - 2)
        room = _DIGIT - np.frexp(first.astype(np.float64))[1].astype(np.int64)
        bits = ((first << _DIGIT | second) << room) | (third >> (_DIGIT - room))
        behind |= (third & ((1 << (_DIGIT - room)) - 1)) != 0
        bits |= behind
        powers = _DIGIT * (lead - 2) + (_DIGIT - room) + self.scale
        with np.errstate(over="ignore"):
            found = np.ldexp(bits.astype(np.float64), powers)
        return cast("Floats", np.where(negative, -found, found) + 0.0)


def units_of(whole: int, scale: int) -> int:
    """A whole number of 2^scale as one of units of 2^-1074."""
    shift = scale + SHIFT  # below 0 only for subnormals, whose low bits are zeros
    return whole << shift if shift >= 0 else whole >> -shift


def _carried(sums: list[Ints]) -> list[Ints]:
    """Digits from 0 to before 2^31, but for the highest."""
    digits: list[Ints] = []
    carry: Any = 0
    for part in sums[:-1]:
        whole = part + carry
        carry = whole >> _DIGIT
        digits.append(whole & _MASK)
    return [*digits, sums[-1] + carry]


def int_totals(numbers: Ints, starts: Ints, longest: int) -> list[Total] | None:
    """The total of each run, which begin at `starts`; None where there are too many."""
    bound = max(abs(int(numbers.min())), abs(int(numbers.max())))
    if bound * longest < 1 << 63:
        return cast("list[Total]", np.add.reduceat(numbers, starts).tolist())
    if longest >= _MOST:
        return None
    low = np.add.reduceat(numbers & 0xFFFFFFFF, starts).tolist()
    high = np.add.reduceat(numbers >> 32, starts).tolist()
    return [(above << 32) + below for above, below in zip(high, low, strict=True)]


def float_totals(
    numbers: Floats, starts: Ints, sizes: list[int], longest: int
) -> list[Total] | None:
    """The total of each run; None where there are too many, or some are not finite."""
    if longest >= _MOST or not np.isfinite(numbers).all():
        return None
    parts = Digits(numbers)
    wholes = parts.wholes([np.add.reduceat(digit, starts) for digit in parts.digits])
    return [
        (units_of(whole, parts.scale), size, 0, 0, 0)
        for whole, size in zip(wholes, sizes, strict=True)
    ]
