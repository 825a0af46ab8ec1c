"""Days and moments as terms of the engine: what of DATE_TRUNC, EXTRACT and CAST needs no Python.

A DATE is the days since 1970, a TIMESTAMP the microseconds. Years are reckoned as from March on, so
that a leap day is a year's last (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
https://howardhinnant.github.io/date_algorithms.html). Invariant: no day is before the year 1, so
nothing that is divided here is below zero, where quotients are cut the other way; but for moments.
Not here: other units, moments of a zone, Spark's TRUNC (`sql.moments`, in Python).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from deltafix.rules.terms import Call, Const, Term
from deltafix.sql import arithmetic
from deltafix.sql.builder import Operand
from deltafix.sql.text import exp
from deltafix.sql.times import LENGTHS
from deltafix.sql.types import DATE, TIMESTAMP

if TYPE_CHECKING:
    from deltafix.sql.formulas import Formulas

__all__ = ["computed"]

_LENGTHS: Final = {unit: length // timedelta(microseconds=1) for unit, length in LENGTHS.items()}
_DAY: Final = _LENGTHS["DAY"]
_PARTS: Final = ("YEAR", "QUARTER", "MONTH", "DAY")
_YEAR_0: Final = 719_468
"""Days from the first of March of the year 0 to 1970."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A whole number; what is written with it is a term."""

    term: Term

    def __add__(self, other: _Number | int) -> _Number:
        return self._with("+", other)

    def __sub__(self, other: _Number | int) -> _Number:
        return self._with("-", other)

    def __mul__(self, other: _Number | int) -> _Number:
        return self._with("*", other)

    def __floordiv__(self, other: _Number | int) -> _Number:
        return self._with("/", other)

    def __mod__(self, other: _Number | int) -> _Number:
        return self._with("%", other)

    def _with(self, op: str, other: _Number | int) -> _Number:
        right = Const(other, "number") if isinstance(other, int) else other.term
        return _Number(Call(op, (self.term, right)))


_Named = Callable[[_Number], _Number]
"""The same number, as a variable: what is said twice is computed once."""


def computed(formulas: Formulas, node: exp.Expr) -> tuple[Operand, Term] | None:
    """The column that a function is of, and its value where that is there; None for others."""
    extracts = isinstance(node, exp.Extract)
    argument = node.expression if extracts else node.this
    operand = formulas.leaf(argument) if isinstance(argument, exp.Column) else None
    if operand is None or operand.type not in (DATE, TIMESTAMP):
        return None
    part = node.this.name.upper() if extracts else node.key.upper()
    is_cast = type(node) is exp.Cast and operand.type is TIMESTAMP and formulas.kind(node) is DATE
    is_cut = isinstance(node, exp.TimestampTrunc)
    if not (is_cast or is_cut or part in _PARTS):
        return None

    def named(number: _Number) -> _Number:
        return _Number(arithmetic.bound(formulas, number.term))

    term = arithmetic.opened(formulas, operand)[0] if operand.nullable else operand.term
    value = _Number(term)
    days = value if operand.type is DATE else named(_cut(value, _DAY) // _DAY)
    if is_cast:
        return operand, days.term
    if part in _PARTS:
        return operand, _parts(days, named)[part].term
    unit = node.args["unit"].name.upper().removesuffix("S")
    if unit in _LENGTHS and operand.type is TIMESTAMP:
        return operand, _cut(value, _LENGTHS[unit]).term
    first = _first(days, unit, named)
    return None if first is None else (operand, (first * _DAY).term)


def _cut(value: _Number, length: int) -> _Number:
    """A moment without what is more than a multiple of a length, before 1970 too."""
    return value - ((value % length) + length) % length


def _parts(days: _Number, named: _Named) -> dict[str, _Number]:
    """Year, quarter, month and day; and how many days of the month are over."""
    z = named(days + _YEAR_0)
    of_era = named(z % 146_097)
    leaps = of_era // 1_460 - of_era // 36_524 + of_era // 146_096
    year = named((of_era - leaps) // 365)  # of the era, from March
    of_year = named(of_era - (year * 365 + year // 4 - year // 100))
    month = named((of_year * 5 + 2) // 153)  # from March
    over = named(of_year - (month * 153 + 2) // 5)
    is_next = named(month // 10)  # January and February are of the next year
    civil = named(month + 3 - is_next * 12)
    return {
        "YEAR": z // 146_097 * 400 + year + is_next,
        "QUARTER": (civil + 2) // 3,
        "MONTH": civil,
        "DAY": over + 1,
        "OVER": over,
    }


def _first(days: _Number, unit: str, named: _Named) -> _Number | None:
    """The first day of its unit; None for one that is not known here."""
    if unit in _LENGTHS:
        return days
    if unit not in ("MONTH", "QUARTER", "YEAR"):
        return None
    parts = _parts(days, named)
    if unit == "MONTH":
        return days - parts["OVER"]
    month = parts["QUARTER"] * 3 - 2 if unit == "QUARTER" else _Number(Const(1, "number"))
    month = named(month)
    is_first = named(_Number(Call("lnot", ((month // 3).term,))))
    year = named(parts["YEAR"] - is_first)
    before = ((month - 3 + is_first * 12) * 153 + 2) // 5
    return year * 365 + year // 4 - year // 100 + year // 400 + before - _YEAR_0
