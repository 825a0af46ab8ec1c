"""Intervals: lengths of time of months, days and microseconds, which are not made of each other.

A month has no number of days, and a day may have other hours than 24, so the three are kept apart,
as in DuckDB, PostgreSQL and Arrow. The engine holds one as 32 hexadecimal digits: its length, in
which a month has 30 days and a day 24 hours, its months, its days. Invariant: of two such texts the
lesser is of the shorter interval; `as_text` and `from_text` are inverse. What is of one length and
of other parts (1 month, 30 days) compares as equal in conditions (`size`), and is another value to
keys, groups and sets. What an expression makes of intervals is `sql.moments`'.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, Final

__all__ = [
    "UNITS",
    "Interval",
    "as_text",
    "between",
    "cut",
    "from_text",
    "given",
    "mean",
    "of_parquet",
    "parsed",
    "scaled",
    "size",
    "written",
]

_DAY: Final = 86_400_000_000
_MONTH: Final = 30 * _DAY
"""Microseconds."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time: months, days, and microseconds, each of which may be below zero.

    It sorts by its length, in which a month has 30 days and a day 24 hours; of one length by its
    parts. `str` gives it as SQL's CAST does in DuckDB: `1 year 2 months 3 days 04:05:06.5`.
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    @property
    def rest(self) -> timedelta:
        """What of it has one length, but for the hours of a day."""
        return timedelta(days=self.days, microseconds=self.microseconds)

    def __add__(self, other: Interval) -> Interval:
        """Part by part."""
        return Interval(
            self.months + other.months,
            self.days + other.days,
            self.microseconds + other.microseconds,
        )

    def __sub__(self, other: Interval) -> Interval:
        """Part by part."""
        return self + -other

    def __neg__(self) -> Interval:
        """Each part below zero where it was above."""
        return self * -1

    def __mul__(self, count: int) -> Interval:
        """So many times each part."""
        return Interval(self.months * count, self.days * count, self.microseconds * count)

    def __lt__(self, other: Interval) -> bool:
        """Whether it is shorter, or, of one length, before it by its parts."""
        return self._place < other._place

    def __str__(self) -> str:
        return written(self, "duckdb")

    @property
    def _place(self) -> tuple[int, int, int]:
        return size(self), self.months, self.days


def size(interval: Interval) -> int:
    """Microseconds of it, as it is compared with others: a month has 30 days, a day 24 hours."""
    return interval.months * _MONTH + interval.days * _DAY + interval.microseconds


def between(micros: int) -> Interval:
    """The days and microseconds that two moments are apart, both of one sign."""
    days = cut(micros, _DAY)
    return Interval(0, days, micros - days * _DAY)


def scaled(interval: Interval, factor: float) -> Interval:
    """A multiple: what is no whole month is days of it, and what is no whole day microseconds.

    By floats, rounded where DuckDB and PostgreSQL round. Raises OverflowError, ValueError for a
    factor that is not finite.
    """
    months, whole = interval.months * factor, int(interval.days * factor)
    of_month = round((months - int(months)) * 30, 6)
    part = float(Fraction(interval.days) * Fraction(factor) - whole)  # in one step, rounded once
    seconds = round((part + of_month - int(of_month)) * 86_400, 6)
    more = int(seconds / 86_400)
    micros = round(interval.microseconds * factor + (seconds - more * 86_400) * 1e6)
    return Interval(int(months), whole + int(of_month) + more, micros)


def mean(total: Interval, count: int) -> Interval:
    """A sum by its number: exact, and rounded once, to microseconds."""
    months = cut(total.months, count)
    of_days = total.days + 30 * (total.months - months * count)
    days = cut(of_days, count)
    micros = Fraction(total.microseconds + _DAY * (of_days - days * count), count)
    return Interval(months, days, round(micros))


def cut(number: int, unit: int) -> int:
    """Whole units, cut towards zero."""
    return number // unit if number >= 0 else -(-number // unit)


def given(value: Any) -> Any:
    """A value of Python's, Arrow's or pandas' as an Interval; any other one as it is.

    A nanosecond that is no whole microsecond is none.
    """
    if isinstance(value, timedelta) and not getattr(value, "nanoseconds", 0):
        return Interval(0, value.days, value.seconds * 1_000_000 + value.microseconds)
    if type(value).__name__ == "MonthDayNano" and value.nanoseconds % 1000 == 0:
        return Interval(value.months, value.days, value.nanoseconds // 1000)
    return value


def of_parquet(value: bytes) -> Interval:
    """The twelve bytes that Parquet has for one: months, days and milliseconds, none below zero."""
    months, days, millis = struct.unpack("<III", value)
    return Interval(months, days, millis * 1000)


# --- as the engine has it ------------------------------------------------------------------------

_LONG: Final = 1 << 63
_SHORT: Final = 1 << 31


def as_text(value: Any) -> str | None:
    """The engine's text of an Interval; None for any other value, and one out of range."""
    if not isinstance(value, Interval):
        return None
    length = size(value)
    fits = (
        -_LONG <= length < _LONG
        and -_LONG <= value.microseconds < _LONG
        and all(-_SHORT <= part < _SHORT for part in (value.months, value.days))
    )
    if not fits:
        return None
    return f"{length + _LONG:016x}{value.months + _SHORT:08x}{value.days + _SHORT:08x}"


def from_text(text: str) -> Interval:
    """The inverse of `as_text`."""
    length = int(text[:16], 16) - _LONG
    months, days = int(text[16:24], 16) - _SHORT, int(text[24:], 16) - _SHORT
    return Interval(months, days, length - months * _MONTH - days * _DAY)


# --- as SQL writes it ----------------------------------------------------------------------------


def written(interval: Interval, dialect: str) -> str:
    """An interval as CAST writes it: `1 year 2 months -3 days 04:05:06.5`; `mons` in PostgreSQL."""
    years = cut(interval.months, 12)
    is_of_postgres = dialect == "postgres"
    words = ("year", "mon" if is_of_postgres else "month", "day")
    parts, is_below = [], False
    for count, word in zip(
        (years, interval.months - 12 * years, interval.days), words, strict=True
    ):
        if count:
            sign = "+" if is_of_postgres and is_below and count > 0 else ""
            plural = count != 1 if is_of_postgres else abs(count) != 1
            parts.append(f"{sign}{count} {word}{'s' * plural}")
            is_below = count < 0
    micros = interval.microseconds
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if is_of_postgres and is_below else ""
        seconds, rest = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(f"{sign}{clock}{f'.{rest:06}'.rstrip('0') if rest else ''}")
    return " ".join(parts)


UNITS: Final = {
    "YEAR": Interval(12),
    "QUARTER": Interval(3),
    "MONTH": Interval(1),
    "WEEK": Interval(0, 7),
    "DAY": Interval(0, 1),
    "HOUR": Interval(0, 0, 3_600_000_000),
    "MINUTE": Interval(0, 0, 60_000_000),
    "SECOND": Interval(0, 0, 1_000_000),
    "MILLISECOND": Interval(0, 0, 1_000),
    "MICROSECOND": Interval(0, 0, 1),
}
_SHORT_WORDS: Final = {
    short: name
    for name, shorts in {
        "YEAR": "Y YR YRS",
        "MONTH": "MON MONS",
        "WEEK": "W",
        "DAY": "D",
        "HOUR": "H HR HRS",
        "MINUTE": "M MIN MINS",
        "SECOND": "S SEC SECS",
        "MILLISECOND": "MS MSEC MSECS",
        "MICROSECOND": "US USEC USECS",
    }.items()
    for short in shorts.split()
}
"""What DuckDB and PostgreSQL have for them within the quotes."""

_PART: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)(\s*)([A-Z]+)", re.ASCII)
_CLOCK: Final = re.compile(r"\s*([+-]?)(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d{1,6})?))?", re.ASCII)


def parsed(text: str, dialect: str) -> Interval | None:
    """An interval as its text has it; None where it is none, or not one everywhere.

    '3 months', '1 month -2 days', '1.5 days', '1 day 03:00:00', '1 mon ago', in any capitals. Parts
    of a month are days, each of which is the 30th part, parts of a year are months; nothing is
    rounded. Spark has whole numbers and long words.
    """
    text = text.upper()
    plain, total, at = dialect == "spark", Interval(), 0
    seen = set[str]()
    while part := _PART.match(text, at):
        number, space, word = part.groups()
        name = word.removesuffix("S") if plain else _SHORT_WORDS.get(word, word.removesuffix("S"))
        unit = UNITS.get(name)
        if unit is None or name in seen or (plain and ("." in number or not space)):
            return None
        if (dialect, name) == ("postgres", "QUARTER") or (
            "+" in number and dialect not in ("postgres", "spark")
        ):
            return None
        seen.add(name)
        if name == "SECOND" and "." in number:  # PostgreSQL has these then, too
            if seen & {"MILLISECOND", "MICROSECOND"}:
                return None
            seen.update(("MILLISECOND", "MICROSECOND"))
        count, at = Fraction(number), part.end()
        months = count * unit.months
        if months.denominator > 1 and unit.months > 1:  # which is rounded, or not
            return None
        days = count * unit.days + (months - int(months)) * 30
        micros = count * unit.microseconds + (days - int(days)) * _DAY * (unit.months == 0)
        if micros.denominator > 1 or (unit.months and days.denominator > 1):
            return None
        total += Interval(int(months), int(days), int(micros))
    clock = None if plain else _CLOCK.match(text, at)
    if clock is not None:
        if any(UNITS[name].microseconds for name in seen):
            return None  # which PostgreSQL has twice then
        at = clock.end()
        seconds = 3600 * int(clock[2]) + 60 * int(clock[3]) + Fraction(clock[4] or 0)
        by = int(seconds * 1_000_000)
        total += Interval(0, 0, -by if clock[1] == "-" else by)
    end = text[at:].strip()
    if at == 0 or (end and (plain or clock is not None or end != "AGO")):
        return None
    return -total if end else total
