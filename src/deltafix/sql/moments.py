"""Expressions over days, moments and intervals: their parts, sums, how far moments are apart.

A day is not a moment: what has hours makes it one. The calendar is `sql.times`'.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from deltafix.sql import intervals, times
from deltafix.sql.casts import in_wholes
from deltafix.sql.intervals import Interval
from deltafix.sql.literals import Scalar, constant, literal, strict
from deltafix.sql.text import data_type, exp
from deltafix.sql.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL,
    NULL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
)

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars


def interval(scalars: Scalars, node: exp.Interval) -> Scalar:
    """INTERVAL '1 month 2 days'; INTERVAL (n) DAY, so many of a unit."""
    unit, count = node.args.get("unit"), node.this.unnest()
    is_written = isinstance(count.this if isinstance(count, exp.Neg) else count, exp.Literal)
    if is_written or isinstance(unit, exp.IntervalSpan) or unit is None:
        return literal(times.interval(scalars.statement, node))
    one = times.interval(scalars.statement, exp.Interval(this=exp.Literal.string("1"), unit=unit))
    number = scalars.compile(count)
    if not (number.type.is_integer or number.type is NULL):
        way_out = "write whole numbers of a smaller unit"
        raise scalars.statement.refused(f"an INTERVAL of {number.type.name}", count, way_out)
    return scalars.checked(strict(one.__mul__, number.compute), INTERVAL, number.nullable)


def lengths(scalars: Scalars, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """`+ - * /` where one side is an INTERVAL."""
    if isinstance(node, exp.Add | exp.Mul) and right.type is INTERVAL:
        left, right = right, left
    nullable, word = left.nullable or right.nullable, type(node)
    if isinstance(node, exp.Add | exp.Sub):
        if left.type in (INTERVAL, NULL) and right.type in (INTERVAL, NULL):
            operate: Callable[[Any, Any], Any] = operator.add if word is exp.Add else operator.sub
            compute = strict(operate, left.compute, right.compute)
            return scalars.checked(compute, INTERVAL, nullable)
        if word is exp.Add and right.type.is_time:
            left, right = right, left
        if left.type.is_time:
            return _moved(scalars, node, left, right)
    elif left.type is INTERVAL and (right.type.is_numeric or right.type is NULL):
        times_whole = word is exp.Mul and right.type.is_integer
        multiple = operator.mul if times_whole else _MULTIPLES.get(word)
        if multiple is not None:
            compute = strict(multiple, left.compute, right.compute)
            return scalars.checked(compute, INTERVAL, nullable)
    wanted = "an INTERVAL and a DATE, a TIMESTAMP, another one, or times a number"
    raise scalars.mismatch(node, left, right, wanted)


def _by(interval: Interval, factor: Any) -> Interval:
    return intervals.scaled(interval, float(factor))


def _part(interval: Interval, factor: Any) -> Interval:
    number = float(factor)
    if number == 0:
        raise ZeroDivisionError(f"division by zero: INTERVAL '{interval}' / 0")
    return intervals.scaled(interval, 1 / number)


_MULTIPLES: Final[dict[type, Callable[[Any, Any], Any]]] = {exp.Mul: _by, exp.Div: _part}
"""By numbers that may not be whole."""


def _moved(scalars: Scalars, node: exp.Expr, start: Scalar, step: Scalar) -> Scalar:
    """A day or a moment plus or minus an INTERVAL: in Spark's dialect of whole days a day."""
    kind = TIMESTAMP if start.type is DATE else start.type
    sign = 1 if isinstance(node, exp.Add) else -1
    compute = strict(
        lambda moment, by: times.moved(moment, by, sign),
        scalars.converted(start, kind).compute,
        step.compute,
    )
    if start.type is DATE and scalars.statement.dialect == "spark" and _is_of_days(node):
        kind, compute = DATE, strict(datetime.date, compute)
    return Scalar(compute, kind, start.nullable or step.nullable)


def _is_of_days(node: exp.Expr) -> bool:
    """Whether what is added is written in days, weeks, months and years alone."""
    return not any(
        re.search("HOUR|MINUTE|SECOND", interval.sql().upper())
        for interval in node.find_all(exp.Interval)
    )


def days(scalars: Scalars, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """DATE + 3, 3 + DATE, DATE - 3, DATE - DATE; an INTERVAL of what else is apart."""
    nullable = left.nullable or right.nullable
    if isinstance(node, exp.Add) and right.type is DATE:
        left, right = right, left
    if left.type is right.type is DATE and isinstance(node, exp.Sub):
        if scalars.statement.dialect == "spark":
            message, way_out = "DATE - DATE, which is an INTERVAL in Spark,", "write DATEDIFF(b, a)"
            raise scalars.statement.refused(message, node, way_out)
        compute = strict(times.days_between, right.compute, left.compute)
        return Scalar(compute, BIGINT, nullable)
    if isinstance(node, exp.Sub) and {left.type, right.type} in _APART:
        return Scalar(strict(times.apart, left.compute, right.compute), INTERVAL, nullable)
    if left.type is not DATE or not (right.type.is_integer or right.type is NULL):
        raise scalars.mismatch(node, left, right, "a DATE and whole days, or an INTERVAL")
    if not isinstance(node, exp.Add | exp.Sub):
        raise scalars.mismatch(node, left, right, "numbers")
    sign = 1 if isinstance(node, exp.Add) else -1
    compute = strict(lambda day, n: times.later(day, sign * n), left.compute, right.compute)
    return Scalar(compute, DATE, nullable)


def clocks(scalars: Scalars, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """TIME + INTERVAL, round the clock; DATE + TIME, a moment; in PostgreSQL's TIME - TIME."""
    nullable = left.nullable or right.nullable
    if isinstance(node, exp.Add) and (right.type is TIME or left.type is INTERVAL):
        left, right = right, left
    if isinstance(node, exp.Add | exp.Sub) and left.type is TIME and right.type is INTERVAL:
        sign = 1 if isinstance(node, exp.Add) else -1
        turned = strict(
            lambda clock, by: times.turned(clock, by, sign), left.compute, right.compute
        )
        return Scalar(turned, TIME, nullable)
    if isinstance(node, exp.Add) and {left.type, right.type} == {DATE, TIME}:
        day, clock = (left, right) if left.type is DATE else (right, left)
        return Scalar(strict(datetime.combine, day.compute, clock.compute), TIMESTAMP, nullable)
    is_apart = isinstance(node, exp.Sub) and left.type is right.type
    if is_apart and scalars.statement.dialect == "postgres":
        compute = strict(times.clocks_apart, left.compute, right.compute)
        return Scalar(compute, INTERVAL, nullable)
    raise scalars.mismatch(node, left, right, "a TIME and an INTERVAL, or a DATE + a TIME")


def in_zone(scalars: Scalars, node: exp.Expr) -> Scalar:
    """AT TIME ZONE: the moment of what clocks of a zone show, and the other way."""
    if isinstance(node, exp.Anonymous):
        zone, asked = node.expressions if len(node.expressions) == 2 else (node, node)
    else:
        zone, asked = node.args["zone"], node.this
    way_out = "write x AT TIME ZONE 'Europe/Berlin', of a TIMESTAMP or a TIMESTAMPTZ"
    statement = scalars.statement
    if statement.dialect == "spark" or zone is node:
        raise statement.refused("this AT TIME ZONE", node, way_out)
    name, value = scalars.compile(zone), scalars.compile(asked)
    if name.type not in (TEXT, NULL) or value.type not in (TIMESTAMP, TIMESTAMPTZ, NULL):
        message = f"{value.type.name} AT TIME ZONE of {name.type.name}"
        raise statement.wrong(message, node, f"{way_out}: CAST it to one")
    find = partial(times.zone, abbreviated=statement.dialect != "postgres")
    if constant(zone) is not None and name.type is TEXT:
        try:
            find(name.compute(()))
        except ValueError as error:
            raise statement.wrong(str(error), zone, way_out) from None
    seen = value.type is TIMESTAMPTZ
    change = times.seen_in if seen else times.moment_in
    compute = strict(lambda moment, where: change(moment, find(where)), value.compute, name.compute)
    kind = TIMESTAMP if seen else TIMESTAMPTZ
    return Scalar(compute, kind, value.nullable or name.nullable)


_APART: Final = ({TIMESTAMP}, {DATE, TIMESTAMP}, {TIMESTAMPTZ})
"""Types of two moments that are an INTERVAL apart."""


def since(scalars: Scalars, node: exp.Expr) -> Scalar:
    """EPOCH(x), EXTRACT(EPOCH FROM a - b), EPOCH_MS, EPOCH_US, Spark's UNIX_TIMESTAMP(x)."""
    argument = node.expression if isinstance(node, exp.Extract) else node.this
    name = node.name.upper() if isinstance(node, exp.Anonymous) else node.key
    if isinstance(node, exp.Anonymous):
        argument = node.expressions[0] if len(node.expressions) == 1 else node
    is_one = argument is not node and argument is not None
    inner = scalars.compile(argument) if is_one else literal(1)
    if name == "unixtotime" and (inner.type.is_numeric or node.args.get("scale") is None):
        return _at(scalars, node, inner)
    of_interval = inner.type is INTERVAL and name != "strtounix"
    if not of_interval and inner.type not in (DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NULL):
        message = f"{scalars.statement.called(node)} of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "it takes a DATE, a TIMESTAMP, an INTERVAL")
    unit = {"EPOCH_US": 1, "strtounix": 1_000_000, "unixtotime": 1_000}.get(name)
    if inner.type is INTERVAL:
        read = _SINCE_OF_INTERVALS[unit]
        kind = DOUBLE if unit is None else BIGINT
        return Scalar(strict(read, inner.compute), kind, inner.nullable)
    elapsed = Scalar(strict(times.micros, inner.compute), BIGINT, inner.nullable)
    if unit is None:
        return Scalar(
            strict(lambda micros: micros / 1e6, elapsed.compute), DOUBLE, elapsed.nullable
        )
    is_rounded = name == "unixtotime" and inner.type is not TIME
    whole = in_wholes if is_rounded else intervals.cut
    return Scalar(strict(partial(whole, unit=unit), elapsed.compute), BIGINT, elapsed.nullable)


def _at(scalars: Scalars, node: exp.Expr, number: Scalar) -> Scalar:
    """TO_TIMESTAMP(seconds), EPOCH_MS(milliseconds), MAKE_TIMESTAMP(microseconds): since 1970."""
    scale = node.args.get("scale")
    if scale is None and (number.type.is_numeric or number.type is NULL):
        seconds = scalars.converted(number, DOUBLE)
        return Scalar(strict(times.after_seconds, seconds.compute), TIMESTAMPTZ, seconds.nullable)
    unit = None if scale is None else {"3": 1_000, "6": 1}.get(scale.name)
    if unit is None or not number.type.is_integer:
        message = f"{scalars.statement.called(node)} of {number.type.name}"
        way_out = "it takes seconds since 1970" if scale is None else "it takes a whole number"
        raise scalars.statement.wrong(message, node, way_out)
    compute = strict(lambda count: times.after(count * unit), number.compute)
    return Scalar(compute, TIMESTAMP, number.nullable)


_SINCE_OF_INTERVALS: Final[dict[int | None, Callable[[Interval], float]]] = {
    None: times.epoch, 1: intervals.size, 1_000: times.millis,
}  # fmt: skip
"""EPOCH, EPOCH_US and EPOCH_MS of an INTERVAL: a year has 365.25 days in the first one alone."""


def day_later(scalars: Scalars, node: exp.Expr) -> Scalar:
    """Spark's DATE_ADD(x, 7), DATE_SUB(x, 7), ADD_MONTHS(x, 1): days."""
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() not in ("DAY", "DAYS"):
        way_out = "write x + INTERVAL '3' MONTH"
        raise scalars.statement.refused(
            f"{scalars.statement.called(node)} of {unit.name}", node, way_out
        )
    first = scalars.compile(moment(scalars, node.this))
    count = scalars.compile(node.expression)
    fits = count.type.is_integer or count.type is NULL
    if (
        first.type not in (DATE, TIMESTAMP, NULL)
        or not fits
        or scalars.statement.dialect != "spark"
    ):
        message = f"{scalars.statement.called(node)} of {first.type.name} and {count.type.name}"
        way_out = "write x + INTERVAL '3' DAY; it takes a DATE and a whole number"
        raise scalars.statement.wrong(message, node, way_out)
    day = scalars.converted(first, DATE)

    def by_months(start: date, months: int) -> date:
        midnight = datetime(start.year, start.month, start.day)
        return times.moved(midnight, Interval(months), 1).date()

    step = by_months if isinstance(node, exp.AddMonths) else times.later
    compute = strict(step, day.compute, count.compute)
    return Scalar(compute, DATE, day.nullable or count.nullable)


def part(scalars: Scalars, node: exp.Expr) -> Scalar:
    """EXTRACT(YEAR FROM x), YEAR(x)."""
    asked = node.expression if isinstance(node, exp.Extract) else node.this
    name = node.this.name if isinstance(node, exp.Extract) else _PARTS.get(node.key, node.key)
    if name.upper() == "EPOCH" and scalars.statement.dialect != "spark":
        return since(scalars, node)
    inner = scalars.compile(moment(scalars, asked))
    kind = inner.type if inner.type in (INTERVAL, TIME) else None
    known = times.PARTS_OF[None if kind is None else kind.name][scalars.statement.dialect]
    read = known.get(name.upper())
    if read is None:
        way_out = f"parts are {', '.join(known)}" if known else "subtract, compare or add it"
        of = "" if kind is None else f" of {kind.name}"
        raise scalars.statement.refused(f"EXTRACT of {name}{of}", node, way_out)
    if kind is None and not inner.type.is_time and inner.type is not NULL:
        message = f"{name.upper()} of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "CAST(... AS DATE) it")
    return Scalar(strict(read, inner.compute), BIGINT, inner.nullable)


_PARTS: Final = {
    "dayofmonth": "DAY", "dayofweek": "DOW", "dayofweekiso": "ISODOW", "dayofyear": "DOY",
    "weekofyear": "WEEK",
}  # fmt: skip
"""Functions that have not the name of their part."""


def part_named(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_PART('year', x)."""
    if len(node.expressions) != 2 or not node.expressions[0].is_string:
        raise scalars.statement.wrong("DATE_PART of this", node, "write DATE_PART('year', x)")
    name, asked = node.expressions
    return part(scalars, exp.Extract(this=exp.var(name.name), expression=asked))


PARTS_BY_NAME: Final = (
    "WEEKDAY", "YEARWEEK", "CENTURY", "MILLENNIUM", "MILLISECOND", "MICROSECOND",
)  # fmt: skip
"""Parts that are functions of DuckDB's, which sqlglot has no node for."""


def part_called(scalars: Scalars, node: exp.Expr) -> Scalar:
    """CENTURY(x)."""
    if len(node.expressions) != 1:
        raise scalars.statement.wrong(f"{node.name} of this", node, f"write {node.name}(x)")
    return part(scalars, exp.Extract(this=exp.var(node.name), expression=node.expressions[0]))


def over(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_SUB('month', a, b): whole units that are over from a to b."""
    given, unit = node.expressions, node.expressions[0] if node.expressions else None
    name = unit.name.upper().removesuffix("S") if unit is not None and unit.is_string else ""
    if len(given) != 3 or name not in times.WHOLE or scalars.statement.dialect != "duckdb":
        way_out = f"write DATE_SUB('day', a, b); units are {', '.join(times.WHOLE)}"
        raise scalars.statement.refused(f"{node.name} of this", node, way_out)
    first, last = (_moment(scalars, node, side) for side in given[1:])
    compute = strict(
        lambda a, b: times.whole_between(name, a, b),
        *(scalars.converted(value, TIMESTAMP).compute for value in (first, last)),
    )
    return scalars.checked(compute, BIGINT, first.nullable or last.nullable)


def bucket(scalars: Scalars, node: exp.Expr) -> Scalar:
    """TIME_BUCKET(INTERVAL '15 minutes', x): a day of a day."""
    width, value = scalars.compile(node.this), _moment(scalars, node, node.expression)
    if width.type is not INTERVAL:
        message = f"TIME_BUCKET by {width.type.name}"
        raise scalars.statement.wrong(message, node, "write TIME_BUCKET(INTERVAL '1 day', x)")
    compute = strict(times.bucket, width.compute, scalars.converted(value, TIMESTAMP).compute)
    if value.type is DATE:
        compute = strict(datetime.date, compute)
    kind = DATE if value.type is DATE else TIMESTAMP
    return Scalar(compute, kind, width.nullable or value.nullable)


def as_date(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE(x), a cast."""
    return scalars.compile(exp.Cast(this=node.this, to=data_type("DATE")))


def difference(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_DIFF('month', a, b), Spark's DATEDIFF(b, a): borders of a unit from a to b."""
    unit = node.args.get("unit")
    name = "DAY" if unit is None else unit.name.upper()
    has_unit = scalars.statement.dialect == "duckdb"
    if has_unit is (unit is None) or name not in times.UNITS:
        way_out = f"write DATE_DIFF('day', a, b); units are {', '.join(times.UNITS)}"
        if not has_unit:
            way_out = "write b - a, or in Spark DATEDIFF(b, a), of days"
        raise scalars.statement.refused(f"DATE_DIFF of {name}", node, way_out)
    sides = (node.expression, node.this)
    first, last = (_moment(scalars, node, moment(scalars, side)) for side in sides)
    compute = strict(
        lambda a, b: times.borders_between(name, a, b),
        *(scalars.converted(value, TIMESTAMP).compute for value in (first, last)),
    )
    return scalars.checked(compute, BIGINT, first.nullable or last.nullable)


def of_day(scalars: Scalars, node: exp.Expr) -> Scalar:
    """LAST_DAY(x), DAYNAME(x), MONTHNAME(x)."""
    value = _moment(scalars, node, moment(scalars, node.this))
    of_day, kind = _OF_DAY[node.key]
    compute = strict(of_day, value.compute)
    if kind is TEXT and scalars.statement.dialect == "spark":
        compute = strict(itemgetter(slice(3)), compute)
    return Scalar(compute, kind, value.nullable)


_OF_DAY: Final = {
    "lastday": (times.last_day, DATE),
    "dayname": (times.day_name, TEXT),
    "monthname": (times.month_name, TEXT),
}


def _moment(scalars: Scalars, node: exp.Expr, argument: exp.Expr) -> Scalar:
    """A day or a moment that a function takes."""
    value = scalars.compile(argument)
    if value.type not in (DATE, TIMESTAMP, NULL):
        message = f"{scalars.statement.called(node)} of {value.type.name}"
        raise scalars.statement.wrong(message, node, "CAST(... AS DATE) it")
    return value


def make_date(scalars: Scalars, node: exp.Expr) -> Scalar:
    """MAKE_DATE(year, month, day)."""
    if isinstance(node, exp.Anonymous):
        arguments = node.expressions
    else:
        arguments = [node.args[key] for key in ("year", "month", "day") if node.args[key]]
    parts = [scalars.compile(argument) for argument in arguments]
    if len(parts) != 3 or any(not (p.type.is_integer or p.type is NULL) for p in parts):
        message = "MAKE_DATE of this"
        raise scalars.statement.wrong(message, node, "write MAKE_DATE(year, month, day)")
    compute = strict(date, *(part.compute for part in parts))
    return Scalar(compute, DATE, any(part.nullable for part in parts))


def later(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_ADD(x, INTERVAL '3' MONTH)."""
    if scalars.compile(node.expression).type is not INTERVAL:
        way_out = "write x + INTERVAL '3' DAY, or of a DATE x + 3"
        raise scalars.statement.refused("DATE_ADD of this", node, way_out)
    return scalars.compile(exp.Add(this=node.this, expression=node.expression))


def truncated(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_TRUNC('month', x)."""
    inner = scalars.compile(moment(scalars, node.this))
    unit = node.args["unit"].name.upper()
    unit = unit.removesuffix("S")
    cut = times.TRUNCATED.get(unit)
    is_of_spark = scalars.statement.dialect == "spark"
    if cut is None or (is_of_spark and unit == "DECADE"):
        way_out = f"units are {', '.join(times.TRUNCATED)}"
        raise scalars.statement.refused(f"DATE_TRUNC of {unit}", node, way_out)
    if not inner.type.is_time:
        message = f"DATE_TRUNC of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "CAST(... AS DATE) it")
    kind = TIMESTAMP if inner.type is DATE else inner.type
    compute = strict(cut, scalars.converted(inner, kind).compute)
    if is_of_spark and isinstance(node, exp.DateTrunc):  # its TRUNC(x, 'month')
        return Scalar(strict(datetime.date, compute), DATE, inner.nullable)
    return Scalar(compute, kind, inner.nullable)


def moment(scalars: Scalars, node: exp.Expr) -> exp.Expr:
    """What Spark's functions of days are asked about: sqlglot notes that it is cast to one."""
    is_noted = isinstance(node, exp.TsOrDsToDate) and not node.args.get("safe")
    return node.this if is_noted else node
