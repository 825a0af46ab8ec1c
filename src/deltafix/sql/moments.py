"""Expressions over days and moments: their parts, what is so far from them, how far they are apart.

A day is not a moment: what has hours makes it one. The calendar is `sql.times`'.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from deltafix.sql import times
from deltafix.sql.casts import in_wholes
from deltafix.sql.literals import Scalar, literal, strict
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, DATE, DOUBLE, NULL, TEXT, TIMESTAMP, TIMESTAMPTZ

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars


def moved(scalars: Scalars, node: exp.Expr) -> Scalar:
    """A day or a moment plus or minus INTERVAL."""
    left = scalars.compile(node.this)
    written, factor = step_of(node.expression) or (node.expression, None)
    step = times.interval(scalars.statement, written)
    if not left.type.is_time or not isinstance(node, exp.Add | exp.Sub):
        message = f"{node.key.upper()} of {left.type.name} and INTERVAL"
        way_out = "an interval is added to a DATE or TIMESTAMP, or taken from it"
        raise scalars.statement.wrong(message, node, way_out)
    kind = TIMESTAMP if left.type is DATE else left.type
    start = scalars.converted(left, kind)
    if left.type is DATE and scalars.statement.dialect == "spark" and _is_of_days(node.expression):
        kind = DATE
    sign = 1 if isinstance(node, exp.Add) else -1
    if factor is None:
        compute = strict(lambda moment: times.moved(moment, step, sign), start.compute)
        nullable = left.nullable
    else:
        count = scalars.compile(factor)
        if not (count.type.is_integer or count.type is NULL):
            way_out = "write whole numbers of a smaller INTERVAL"
            raise scalars.statement.refused(f"INTERVAL times {count.type.name}", factor, way_out)
        compute = strict(
            lambda moment, n: times.moved(moment, step, sign * n), start.compute, count.compute
        )
        nullable = left.nullable or count.nullable
    if kind is DATE:
        compute = strict(datetime.date, compute)
    return Scalar(compute, kind, nullable)


def step_of(node: exp.Expr) -> tuple[exp.Interval, exp.Expr | None] | None:
    """The INTERVAL that an expression is, and by what it is multiplied: `3 * INTERVAL '1' DAY`."""
    inner = node.unnest()
    if isinstance(inner, exp.Interval):
        return inner, None
    if isinstance(inner, exp.Mul):
        for factor, other in ((inner.this, inner.expression), (inner.expression, inner.this)):
            if isinstance(factor.unnest(), exp.Interval):
                return factor.unnest(), other
    return None


def _is_of_days(interval: exp.Expr) -> bool:
    """Whether an INTERVAL is written in days, weeks, months and years alone."""
    return not re.search("HOUR|MINUTE|SECOND", interval.sql().upper())


def days(scalars: Scalars, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """DATE + 3, 3 + DATE, DATE - 3, DATE - DATE."""
    nullable = left.nullable or right.nullable
    if isinstance(node, exp.Add) and right.type is DATE:
        left, right = right, left
    if left.type is right.type is DATE and isinstance(node, exp.Sub):
        if scalars.statement.dialect == "spark":
            message, way_out = "DATE - DATE, which is an INTERVAL in Spark,", "write DATEDIFF(b, a)"
            raise scalars.statement.refused(message, node, way_out)
        compute = strict(times.days_between, right.compute, left.compute)
        return Scalar(compute, BIGINT, nullable)
    if left.type is not DATE or not (right.type.is_integer or right.type is NULL):
        raise scalars.mismatch(node, left, right, "a DATE and whole days, or an INTERVAL")
    if not isinstance(node, exp.Add | exp.Sub):
        raise scalars.mismatch(node, left, right, "numbers")
    sign = 1 if isinstance(node, exp.Add) else -1
    compute = strict(lambda day, n: times.later(day, sign * n), left.compute, right.compute)
    return Scalar(compute, DATE, nullable)


def apart(scalars: Scalars, node: exp.Expr) -> Scalar | None:
    """The microseconds of `a - b`, of which one at least is a moment; None for any other node."""
    node = node.unnest()
    if not isinstance(node, exp.Sub) or isinstance(node.expression.unnest(), exp.Interval):
        return None
    sides = [scalars.compile(side) for side in (node.this, node.expression)]
    kinds = {side.type for side in sides}
    if not kinds <= {DATE, TIMESTAMP} or TIMESTAMP not in kinds:
        return None
    compute = strict(
        lambda a, b: times.micros(a) - times.micros(b), *(side.compute for side in sides)
    )
    return Scalar(compute, BIGINT, any(side.nullable for side in sides))


def compared(scalars: Scalars, node: exp.Expr) -> tuple[Scalar, Scalar] | None:
    """`a - b > INTERVAL '30' MINUTE`, as microseconds; None for any other comparison."""
    sides: list[Scalar] = []
    for side in (node.this, node.expression):
        inner = side.unnest()
        if isinstance(inner, exp.Interval):
            sides.append(literal(times.size(times.interval(scalars.statement, inner))))
        elif isinstance(inner, exp.Sub) and isinstance(
            node.this.unnest() if side is node.expression else node.expression.unnest(),
            exp.Interval,
        ):
            elapsed = apart(scalars, inner)
            if elapsed is None:
                return None
            sides.append(elapsed)
        else:
            return None
    return sides[0], sides[1]


def since(scalars: Scalars, node: exp.Expr) -> Scalar:
    """EPOCH(x), EXTRACT(EPOCH FROM a - b), EPOCH_MS, EPOCH_US, Spark's UNIX_TIMESTAMP(x)."""
    argument = node.expression if isinstance(node, exp.Extract) else node.this
    name = node.name.upper() if isinstance(node, exp.Anonymous) else node.key
    if isinstance(node, exp.Anonymous):
        argument = node.expressions[0] if len(node.expressions) == 1 else node
    elapsed = None if argument is node or argument is None else apart(scalars, argument)
    if elapsed is None:
        inner = (
            scalars.compile(argument)
            if argument is not node and argument is not None
            else literal(1)
        )
        if inner.type not in (DATE, TIMESTAMP, TIMESTAMPTZ, NULL):
            message = f"{scalars.statement.called(node)} of {inner.type.name}"
            raise scalars.statement.wrong(message, node, "it takes a DATE or a TIMESTAMP")
        elapsed = Scalar(strict(times.micros, inner.compute), BIGINT, inner.nullable)
    scale = node.args.get("scale")
    unit = {"EPOCH_US": 1, "strtounix": 1_000_000, "unixtotime": 1_000}.get(name)
    if name == "unixtotime" and (scale is None or scale.name != "3"):
        raise scalars.statement.refused("TO_TIMESTAMP of a number", node, "add an INTERVAL to 1970")
    if unit is None:
        return Scalar(
            strict(lambda micros: micros / 1e6, elapsed.compute), DOUBLE, elapsed.nullable
        )
    whole = in_wholes if name == "unixtotime" else _cut
    return Scalar(strict(partial(whole, unit=unit), elapsed.compute), BIGINT, elapsed.nullable)


def _cut(micros: int, unit: int) -> int:
    """Whole units, cut as Java does for Spark."""
    return micros // unit if micros >= 0 else -(-micros // unit)


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
        return times.moved(midnight, times.Interval(months, timedelta()), 1).date()

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
    known = times.PARTS_OF[scalars.statement.dialect]
    read = known.get(name.upper())
    if read is None:
        way_out = f"parts are {', '.join(known)}"
        raise scalars.statement.refused(f"EXTRACT of {name}", node, way_out)
    if not inner.type.is_time and inner.type is not NULL:
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
    if not isinstance(node.expression, exp.Interval):
        way_out = "write x + INTERVAL '3' DAY, or of a DATE x + 3"
        raise scalars.statement.refused("DATE_ADD of this", node, way_out)
    return moved(scalars, exp.Add(this=node.this, expression=node.expression))


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
