"""Expressions over days and moments: their parts, what is so far from them, how far they are apart.

A day is not a moment: what has hours makes it one. The calendar is `sql.times`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.sql import times
from deltafix.sql.literals import Scalar, strict
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, DATE, NULL, TIMESTAMP

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars


def moved(scalars: Scalars, node: exp.Expr) -> Scalar:
    """A day or a moment plus or minus INTERVAL."""
    left = scalars.compile(node.this)
    step = times.interval(scalars.statement, node.expression.unnest())
    if not left.type.is_time or not isinstance(node, exp.Add | exp.Sub):
        message = f"{node.key.upper()} of {left.type.name} and INTERVAL"
        way_out = "an interval is added to a DATE or TIMESTAMP, or taken from it"
        raise scalars.statement.wrong(message, node, way_out)
    kind = TIMESTAMP if left.type is DATE else left.type
    start = scalars.converted(left, kind)
    sign = 1 if isinstance(node, exp.Add) else -1
    compute = strict(lambda moment: times.moved(moment, step, sign), start.compute)
    return Scalar(compute, kind, left.nullable)


def days(scalars: Scalars, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
    """DATE + 3, 3 + DATE, DATE - 3, DATE - DATE."""
    nullable = left.nullable or right.nullable
    if isinstance(node, exp.Add) and right.type is DATE:
        left, right = right, left
    if left.type is right.type is DATE and isinstance(node, exp.Sub):
        compute = strict(times.days_between, right.compute, left.compute)
        return Scalar(compute, BIGINT, nullable)
    if left.type is not DATE or not (right.type.is_integer or right.type is NULL):
        raise scalars.mismatch(node, left, right, "a DATE and whole days, or an INTERVAL")
    if not isinstance(node, exp.Add | exp.Sub):
        raise scalars.mismatch(node, left, right, "numbers")
    sign = 1 if isinstance(node, exp.Add) else -1
    compute = strict(lambda day, n: times.later(day, sign * n), left.compute, right.compute)
    return Scalar(compute, DATE, nullable)


def part(scalars: Scalars, node: exp.Expr) -> Scalar:
    """EXTRACT(YEAR FROM x), YEAR(x)."""
    asked = node.expression if isinstance(node, exp.Extract) else node.this
    name = node.this.name if isinstance(node, exp.Extract) else node.key
    inner = scalars.compile(moment(scalars, asked))
    read = times.PARTS.get(name.upper())
    if read is None:
        way_out = f"parts are {', '.join(times.PARTS)}"
        raise scalars.statement.refused(f"EXTRACT of {name}", node, way_out)
    if not inner.type.is_time and inner.type is not NULL:
        message = f"{name.upper()} of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "CAST(... AS DATE) it")
    return Scalar(strict(read, inner.compute), BIGINT, inner.nullable)


def truncated(scalars: Scalars, node: exp.Expr) -> Scalar:
    """DATE_TRUNC('month', x)."""
    inner = scalars.compile(moment(scalars, node.this))
    unit = node.args["unit"].name.upper()
    cut = times.TRUNCATED.get(unit)
    if cut is None:
        way_out = f"units are {', '.join(times.TRUNCATED)}"
        raise scalars.statement.refused(f"DATE_TRUNC of {unit}", node, way_out)
    if not inner.type.is_time:
        message = f"DATE_TRUNC of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "CAST(... AS DATE) it")
    kind = TIMESTAMP if inner.type is DATE else inner.type
    start = scalars.converted(inner, kind)
    return Scalar(strict(cut, start.compute), kind, inner.nullable)


def moment(scalars: Scalars, node: exp.Expr) -> exp.Expr:
    """What Spark's functions of days are asked about: sqlglot notes that it is cast to one."""
    return node.this if isinstance(node, exp.TsOrDsToDate) else node
