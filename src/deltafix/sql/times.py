"""Days and moments: intervals, parts, truncation.

Python's `date` and `datetime` are the values. Invariant: months are those of the calendar, and a
day that a month has not is its last one, as in DuckDB and PostgreSQL; a result before year 1 or
after 9999 raises OverflowError.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from math import isfinite
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from deltafix.sql.intervals import UNITS as WORDS
from deltafix.sql.intervals import Interval, between, cut, parsed, size
from deltafix.sql.text import Statement, exp

__all__ = [
    "PARTS_OF", "TRUNCATED", "UNITS", "WHOLE", "after", "after_seconds", "age", "apart",
    "borders_between", "bucket", "clocks_apart", "day_name", "days_between", "epoch",
    "interval", "last_day", "later", "make_time", "make_timestamp", "micros", "millis",
    "moment_in", "month_name", "moved", "seen_in", "turned", "whole_between", "zone",
]  # fmt: skip


def interval(statement: Statement, node: exp.Expr) -> Interval:
    """INTERVAL '3' MONTH, '3 months', '1 month -2 days', '1.5 days', '1 day 03:00:00', '1 mon ago'.

    Raises SqlRefusedError for what DuckDB and PostgreSQL do not read alike.
    """
    unit = node.args.get("unit")
    written = node.this
    sign = -1 if isinstance(written, exp.Neg) else 1
    text = "" if written is None else (written.this if sign < 0 else written).name
    if unit is None:
        known = parsed(text, statement.dialect)
    else:
        known = parsed(f"{text} {unit.name}", "spark")  # no short words outside
    if known is None or isinstance(unit, exp.IntervalSpan):
        way_out = (
            f"write INTERVAL '3' DAY or '1 month 2 days': a whole number of {', '.join(WORDS)}"
        )
        raise statement.refused("this INTERVAL", node, way_out)
    return known * sign


def moved(moment: datetime, step: Interval, many: int) -> datetime:
    """A moment and so many times an interval: once (1), taken from it (-1)."""
    months = moment.year * 12 + moment.month - 1 + many * step.months
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError(f"year {year} is not between 1 and 9999")
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day) + many * step.rest


_EPOCH: Final = datetime(1970, 1, 1)


def micros(moment: date | time) -> int:
    """Microseconds since 1970, of a moment, in UTC if it has a zone, or a day; since midnight."""
    if isinstance(moment, time):
        return micros_of(datetime.combine(_EPOCH, moment) - _EPOCH)
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return micros_of(moment.replace(tzinfo=None) - _EPOCH)


def after(micros: int) -> datetime:
    """The moment so many microseconds after 1970 began."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise OverflowError(
            f"{micros} us after 1970 are in a year that is not between 1 and 9999"
        ) from None


def after_seconds(seconds: float) -> datetime:
    """The moment, in UTC, so many seconds after 1970 began, to the nearest microsecond."""
    if not isfinite(seconds):
        raise ValueError(f"{seconds} is no number of seconds")
    return after(round(seconds * 1e6)).replace(tzinfo=UTC)


def micros_of(length: timedelta) -> int:
    """Microseconds of a length of time."""
    return length // timedelta(microseconds=1)


def apart(last: date, first: date) -> Interval:
    """`last - first` of two moments, or a day and one: days, and what is left of one."""
    return between(micros(last) - micros(first))


def turned(clock: time, step: Interval, many: int) -> time:
    """A time and so many times the hours of an interval, round the clock."""
    micros_later = micros(clock) + many * step.microseconds
    return (_EPOCH + timedelta(microseconds=micros_later % micros_of(LENGTHS["DAY"]))).time()


def clocks_apart(last: time, first: time) -> Interval:
    """`last - first` of two times of a day."""
    return Interval(0, 0, micros(last) - micros(first))


@cache
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


@cache
def zone(name: str, *, abbreviated: bool) -> ZoneInfo:
    """The time zone of a name of IANA's, in any capitals, as the machine's data have it.

    Without `abbreviated` no CET is one: PostgreSQL has those that do not know of summer. Raises
    ValueError.
    """
    known = _zones().get(name.lower())
    if known is None or not (abbreviated or "/" in known or known in ("UTC", "GMT")):
        raise ValueError(f"{name!r} is no time zone; they have names as Europe/Berlin and UTC")
    return ZoneInfo(known)


def seen_in(moment: datetime, where: ZoneInfo) -> datetime:
    """What clocks of a zone show at a moment."""
    try:
        return moment.astimezone(where).replace(tzinfo=None, fold=0)
    except OverflowError:
        raise OverflowError(_beyond(moment, where)) from None


def moment_in(shown: datetime, where: ZoneInfo) -> datetime:
    """The moment at which clocks of a zone show a time.

    Of one that they show twice the second, and one that they pass over counts on from before, as
    in DuckDB and PostgreSQL.
    """
    first, second = (shown.replace(tzinfo=where, fold=fold) for fold in (0, 1))
    try:
        return max(first.astimezone(UTC), second.astimezone(UTC))
    except OverflowError:
        raise OverflowError(_beyond(shown, where)) from None


def _beyond(moment: datetime, where: ZoneInfo) -> str:
    return f"{moment} AT TIME ZONE '{where.key}' has a year that is not between 1 and 9999"


def age(last: datetime, first: datetime) -> Interval:
    """AGE: months of the calendar that are over from one moment to the other, and what is left.

    What is left of a month is counted from the day in the month of the earlier one.
    """
    if last < first:
        return -age(first, last)
    months = last.year * 12 + last.month - first.year * 12 - first.month
    days, rest = last.day - first.day, _since_midnight(last) - _since_midnight(first)
    if rest < timedelta():
        days, rest = days - 1, rest + timedelta(days=1)
    if days < 0:
        months -= 1
        days += calendar.monthrange(first.year, first.month)[1]
    return Interval(months, days, micros_of(rest))


def _since_midnight(moment: datetime) -> timedelta:
    return moment - _midnight(moment)


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


def _of_minute(moment: date | time) -> int:
    """Microseconds of its minute; none of a day."""
    if isinstance(moment, datetime | time):
        return moment.second * 1_000_000 + moment.microsecond
    return 0


_OF_DAYS: Final[dict[str, dict[str, Callable[[Any], int]]]] = {
    "duckdb": {
        **_ISO,
        "SECOND": lambda m: m.second if isinstance(m, datetime) else 0,
        "MILLISECOND": lambda moment: _of_minute(moment) // 1_000,
        "MICROSECOND": _of_minute,
        "WEEKDAY": _ISO["DOW"],
        "YEARWEEK": lambda day: day.isocalendar().year * 100 + day.isocalendar().week,
        "CENTURY": lambda day: (day.year - 1) // 100 + 1,
        "MILLENNIUM": lambda day: (day.year - 1) // 1000 + 1,
    },
    "postgres": _ISO,
    "spark": {**PARTS, "DOW": lambda day: day.isoweekday() % 7 + 1},
}
"""The same by dialect: Spark counts the days of a week from 1, which is Sunday."""


def epoch(interval: Interval) -> float:
    """Its seconds, as EXTRACT has them: a year has 365.25 days, a month 30."""
    years = cut(interval.months, 12)
    days = Interval(0, 30 * (interval.months - 12 * years), years * _YEAR)
    return micros_of((days + interval).rest) / 1e6


def millis(interval: Interval) -> int:
    """Its milliseconds, as EPOCH_MS has them: of a second they are cut."""
    months = Interval(interval.months, interval.days)
    return size(months) // 1_000 + cut(interval.microseconds, 1_000)


_YEAR: Final = 31_557_600_000_000


_OF_INTERVALS: Final[dict[str, Callable[[Interval], int]]] = {
    "YEAR": lambda interval: cut(interval.months, 12),
    "MONTH": lambda interval: interval.months - 12 * cut(interval.months, 12),
    "DAY": lambda interval: interval.days,
    "HOUR": lambda interval: cut(interval.microseconds, 3_600_000_000),
    "MINUTE": lambda i: cut(i.microseconds, 60_000_000) - 60 * cut(i.microseconds, 3_600_000_000),
}
_OF_LENGTHS: Final[dict[str, dict[str, Callable[[Any], int]]]] = {
    "duckdb": {
        **_OF_INTERVALS,
        "SECOND": lambda i: cut(i.microseconds, 1_000_000) - 60 * cut(i.microseconds, 60_000_000),
    },
    "postgres": _OF_INTERVALS,
    "spark": {},
}
"""What EXTRACT gives of an INTERVAL, by dialect and the name of the part."""

_OF_CLOCKS: Final[dict[str, Callable[[Any], int]]] = {
    "HOUR": lambda clock: clock.hour,
    "MINUTE": lambda clock: clock.minute,
}
PARTS_OF: Final[dict[str | None, dict[str, dict[str, Callable[[Any], int]]]]] = {
    "TIME": {
        "duckdb": {
            **_OF_CLOCKS,
            "SECOND": lambda clock: clock.second,
            "MILLISECOND": lambda clock: _of_minute(clock) // 1_000,
            "MICROSECOND": _of_minute,
        },
        "postgres": _OF_CLOCKS,
        "spark": {},
    },
    "INTERVAL": _OF_LENGTHS,
    None: _OF_DAYS,
}
"""What EXTRACT gives: by the name of the type, of days and moments None, dialect and part."""


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


_DURATIONS: Final = {**LENGTHS, "WEEK": timedelta(weeks=1)}
WHOLE: Final = (*_MONTHS, *_DURATIONS)
"""The units of DATE_SUB."""


def whole_between(unit: str, first: datetime, last: datetime) -> int:
    """DATE_SUB: how many whole units there are from one moment to another."""
    if last < first:
        return -whole_between(unit, last, first)
    if unit not in _MONTHS:
        return (last - first) // _DURATIONS[unit]
    months = (last.year - first.year) * 12 + last.month - first.month
    months -= moved(first, Interval(months), 1) > last
    return months // _MONTHS[unit]


_MONDAY: Final = datetime(2000, 1, 3)


def bucket(width: Interval, moment: datetime) -> datetime:
    """TIME_BUCKET: the last multiple of a width, counted from a Monday or a January in 2000.

    Raises ValueError for a width of months and days, or none.
    """
    if size(width) <= 0 or (width.months and width != Interval(width.months)):
        raise ValueError(f"a bucket of {width} is neither of months nor of days and hours")
    if width.months:
        months = (moment.year - 2000) * 12 + moment.month - 1
        return moved(datetime(2000, 1, 1), width, months // width.months)
    return moment - (moment - _MONDAY) % width.rest


def make_timestamp(year: int, month: int, day: int, *clock: float) -> datetime:
    """MAKE_TIMESTAMP, with an hour, a minute and seconds. Raises ValueError for no moment."""
    hour, minute, second = clock
    if not 0 <= second < 61:
        raise ValueError(f"{second} is no second of a minute")
    at = datetime(year, month, day, int(hour), int(minute))
    return at + timedelta(microseconds=round(second * 1e6))


def make_time(hour: int, minute: int, second: float) -> time:
    """MAKE_TIME. Raises ValueError for no time of a day."""
    if not 0 <= second <= 60:
        raise ValueError(f"{second} is no second of a minute")
    at = datetime.combine(_EPOCH, time(hour, minute)) + timedelta(microseconds=round(second * 1e6))
    if at.day != _EPOCH.day:
        raise ValueError("24:00 is no time of a day")
    return at.time()


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
