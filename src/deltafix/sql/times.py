"""Days and moments: intervals, parts, truncation.

Python's `date` and `datetime` are the values. Invariant: months are those of the calendar, and a
day that a month has not is its last one, as in DuckDB and PostgreSQL; a result before year 1 or
after 9999 raises OverflowError.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, Final, NamedTuple

from deltafix.sql.text import Statement, exp

__all__ = [
    "PARTS_OF", "TRUNCATED", "UNITS", "Interval", "borders_between", "day_name", "days_between",
    "interval", "last_day", "later", "micros", "month_name", "moved", "size",
]  # fmt: skip


class Interval(NamedTuple):
    """A length of time: months of the calendar, and what has one length."""

    months: int
    rest: timedelta


_UNITS: Final = {
    "YEAR": Interval(12, timedelta()),
    "QUARTER": Interval(3, timedelta()),
    "MONTH": Interval(1, timedelta()),
    "WEEK": Interval(0, timedelta(weeks=1)),
    "DAY": Interval(0, timedelta(days=1)),
    "HOUR": Interval(0, timedelta(hours=1)),
    "MINUTE": Interval(0, timedelta(minutes=1)),
    "SECOND": Interval(0, timedelta(seconds=1)),
    "MILLISECOND": Interval(0, timedelta(milliseconds=1)),
    "MICROSECOND": Interval(0, timedelta(microseconds=1)),
}
_SHORT: Final = {
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

_PART: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)(\s*)([A-Z]+)")
_CLOCK: Final = re.compile(r"\s*([+-]?)(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d{1,6})?))?")


def interval(statement: Statement, node: exp.Expr) -> Interval:
    """INTERVAL '3' MONTH, '3 months', '1 month -2 days', '1.5 days', '1 day 03:00:00', '1 mon ago'.

    Raises SqlRefusedError for what DuckDB and PostgreSQL do not read alike.
    """
    unit = node.args.get("unit")
    written = node.this
    sign = -1 if isinstance(written, exp.Neg) else 1
    text = "" if written is None else (written.this if sign < 0 else written).name.upper()
    if unit is None:
        parsed = _in_words(text, statement.dialect)
    else:
        parsed = _in_words(f"{text} {unit.name.upper()}", "spark")  # no short words outside
    if parsed is None or isinstance(unit, exp.IntervalSpan):
        way_out = (
            f"write INTERVAL '3' DAY or '1 month 2 days': a whole number of {', '.join(_UNITS)}"
        )
        raise statement.refused("this INTERVAL", node, way_out)
    return Interval(sign * parsed.months, sign * parsed.rest)


def _in_words(text: str, dialect: str) -> Interval | None:
    """An interval as its text has it; None where it is none, or not one everywhere.

    Parts of a month are days, each of which is the 30th part, parts of a year are months; nothing
    is rounded. Spark has whole numbers and long words.
    """
    plain, months, rest, at = dialect == "spark", 0, timedelta(), 0
    seen = set[str]()
    while part := _PART.match(text, at):
        number, space, word = part.groups()
        name = word.removesuffix("S") if plain else _SHORT.get(word, word.removesuffix("S"))
        unit = _UNITS.get(name)
        if unit is None or name in seen or (plain and ("." in number or not space)):
            return None
        if (dialect, name) == ("postgres", "QUARTER") or (dialect == "duckdb" and "+" in number):
            return None
        seen.add(name)
        if name == "SECOND" and "." in number:  # PostgreSQL has these then, too
            if seen & {"MILLISECOND", "MICROSECOND"}:
                return None
            seen.update(("MILLISECOND", "MICROSECOND"))
        count, at = Fraction(number), part.end()
        whole = int(count * unit.months)
        days = (count * unit.months - whole) * 30
        length = count * micros_of(unit.rest)
        if days and unit.months > 1:  # which is rounded, or not
            return None
        if days.denominator > 1 or length.denominator > 1:
            return None
        months += whole
        rest += timedelta(days=int(days), microseconds=int(length))
    clock = None if plain else _CLOCK.match(text, at)
    if clock is not None:
        if any(
            unit.rest < timedelta(days=1) for unit in map(_UNITS.__getitem__, seen) if unit.rest
        ):
            return None  # which PostgreSQL has twice then
        at = clock.end()
        seconds = 3600 * int(clock[2]) + 60 * int(clock[3]) + Fraction(clock[4] or 0)
        by = timedelta(microseconds=int(seconds * 1_000_000))
        rest += -by if clock[1] == "-" else by
    end = text[at:].strip()
    if at == 0 or (end and (plain or clock is not None or end != "AGO")):
        return None
    return Interval(-months, -rest) if end else Interval(months, rest)


def moved(moment: datetime, step: Interval, many: int) -> datetime:
    """A moment and so many times an interval: once (1), taken from it (-1)."""
    months = moment.year * 12 + moment.month - 1 + many * step.months
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError(f"year {year} is not between 1 and 9999")
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day) + many * step.rest


_EPOCH: Final = datetime(1970, 1, 1)


def micros(moment: datetime) -> int:
    """Microseconds since 1970, of a moment, in UTC if it has a zone, or a day."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return micros_of(moment.replace(tzinfo=None) - _EPOCH)


def micros_of(length: timedelta) -> int:
    """Microseconds of a length of time."""
    return length // timedelta(microseconds=1)


def size(step: Interval) -> int:
    """Microseconds of an interval as it is compared with others: a month has 30 days."""
    return micros_of(step.rest + timedelta(days=30 * step.months))


def later(day: date, count: int) -> date:
    """A day so many days later."""
    return day + timedelta(days=count)


def days_between(first: date, last: date) -> int:
    """Days from the first to the last."""
    return (last - first).days


PARTS: Final[dict[str, Callable[[Any], int]]] = {
    "YEAR": lambda day: day.year,
    "QUARTER": lambda day: (day.month + 2) // 3,
    "MONTH": lambda day: day.month,
    "DAY": lambda day: day.day,
    "HOUR": lambda moment: moment.hour if isinstance(moment, datetime) else 0,
    "MINUTE": lambda moment: moment.minute if isinstance(moment, datetime) else 0,
    "DOY": lambda day: day.timetuple().tm_yday,
    "WEEK": lambda day: day.isocalendar().week,
}
"""What EXTRACT gives, by the name of the part. No seconds: some dialects give fractions of them."""

_ISO: Final[dict[str, Callable[[Any], int]]] = {
    **PARTS,
    "DOW": lambda day: day.isoweekday() % 7,
    "ISODOW": lambda day: day.isoweekday(),
    "ISOYEAR": lambda day: day.isocalendar().year,
    "DECADE": lambda day: day.year // 10,
}

PARTS_OF: Final[dict[str, dict[str, Callable[[Any], int]]]] = {
    "duckdb": {**_ISO, "SECOND": lambda m: m.second if isinstance(m, datetime) else 0},
    "postgres": _ISO,
    "spark": {**PARTS, "DOW": lambda day: day.isoweekday() % 7 + 1},
}
"""The same by dialect: Spark counts the days of a week from 1, which is Sunday."""


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


TRUNCATED: Final[dict[str, Callable[[datetime], datetime]]] = {
    "YEAR": lambda moment: _midnight(moment).replace(month=1, day=1),
    "QUARTER": lambda m: _midnight(m).replace(month=(m.month - 1) // 3 * 3 + 1, day=1),
    "MONTH": lambda moment: _midnight(moment).replace(day=1),
    "WEEK": lambda moment: _midnight(moment) - timedelta(days=moment.weekday()),
    "DAY": _midnight,
    "HOUR": lambda moment: moment.replace(minute=0, second=0, microsecond=0),
    "MINUTE": lambda moment: moment.replace(second=0, microsecond=0),
    "SECOND": lambda moment: moment.replace(microsecond=0),
    "MILLISECOND": lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000),
    "MICROSECOND": lambda moment: moment,
    "DECADE": lambda moment: _midnight(moment).replace(year=moment.year // 10 * 10, month=1, day=1),
}
"""DATE_TRUNC, by its unit. No centuries: DuckDB's begin a year before PostgreSQL's."""

_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120}
LENGTHS: Final = {
    "DAY": timedelta(days=1), "HOUR": timedelta(hours=1), "MINUTE": timedelta(minutes=1),
    "SECOND": timedelta(seconds=1), "MILLISECOND": timedelta(milliseconds=1),
    "MICROSECOND": timedelta(microseconds=1),
}  # fmt: skip
"""Units of one length."""

UNITS: Final = (*_MONTHS, *LENGTHS)
"""The units of DATE_DIFF."""


def borders_between(unit: str, first: datetime, last: datetime) -> int:
    """DATE_DIFF: how many borders of a unit lie between two moments."""
    size = _MONTHS.get(unit)
    if size is not None:
        first_month, last_month = (moment.year * 12 + moment.month - 1 for moment in (first, last))
        return last_month // size - first_month // size
    cut, length = TRUNCATED[unit], LENGTHS[unit]
    return (cut(last) - cut(first)) // length


def last_day(day: date) -> date:
    """The last day of a day's month."""
    return date(day.year, day.month, calendar.monthrange(day.year, day.month)[1])


_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def day_name(day: date) -> str:
    """The English name of its day of the week."""
    return _DAYS[day.weekday()]


def month_name(day: date) -> str:
    """The English name of its month."""
    return _MONTH_NAMES[day.month - 1]
