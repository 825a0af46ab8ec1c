"""Offsets of RANGE: how far a value of a sorted column is from another one.

    ORDER BY d RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW

Values are the engine's. Invariant: exact, but for a DOUBLE, which is added to as `+` adds; and
shifting keeps their order, so frames only move on: what is of no year is beyond all there are.
Which rows those are is `sql.frames`'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

from deltafix.facts.wide import as_number
from deltafix.reducers.ordered import placed
from deltafix.sql import times
from deltafix.sql.intervals import Interval, size
from deltafix.sql.literals import constant
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import DATE, DOUBLE, SqlType

__all__ = ["measure", "offset"]

_DAY = timedelta(days=1) // timedelta(microseconds=1)


class Measure(NamedTuple):
    """How values of a type are measured.

    Attributes:
        measure: makes values comparable.
        shift: makes one that is an `offset` later so.
        step: of an offset, where that is all, how often a value as a number is taken for its
            measure, and what is added; None: it depends on the value, or values are no numbers.
    """

    measure: Callable[[Any], Any]
    shift: Callable[[Any, Any], Any]
    step: Callable[[Any], tuple[int, Any] | None]


def measure(kind: SqlType) -> Measure:
    """How values of a type are measured."""
    if kind.is_wide:
        return Measure(as_number, lambda value, by: as_number(value) + by, lambda _: None)
    if not kind.is_time:

        def added(by: Any) -> tuple[int, Any] | None:
            if kind is DOUBLE:
                return 1, by
            return (1, int(by)) if by == int(by) else None

        return Measure(placed, lambda value, by: placed(value + by), added)
    read, day = kind.read, kind is DATE
    assert read is not None  # noqa: S101  a day or moment is none of the engine's values

    def moved(value: int, by: Interval) -> float:
        moment: Any = read(value)
        if not isinstance(moment, datetime):
            moment = datetime.combine(moment, datetime.min.time())
        try:
            later = times.moved(moment, by, 1)
        except OverflowError:  # of no year: beyond all that there are
            return math.copysign(math.inf, size(by))
        start = datetime(1970, 1, 1, tzinfo=later.tzinfo)
        return (later - start) // timedelta(microseconds=1)

    def later(by: Interval) -> tuple[int, int] | None:
        if by.months:
            return None
        return _DAY if day else 1, by.rest // timedelta(microseconds=1)

    return Measure((lambda value: value * _DAY) if day else (lambda value: value), moved, later)


def offset(statement: Statement, kind: SqlType, node: exp.Expr, sign: int) -> Any:
    """The offset that is written, times 1 or -1. Raises SqlProgrammingError, SqlRefusedError."""
    message = "RANGE takes an offset that is not negative"
    if kind.is_time:
        inner = node.unnest()
        if not isinstance(inner, exp.Interval):
            way_out = "write INTERVAL '1' DAY"
            raise statement.wrong(f"RANGE over {kind.name} takes an INTERVAL", node, way_out)
        interval = times.interval(statement, inner)
        if interval.months < 0 or interval.rest < timedelta():
            raise statement.wrong(message, node, "write PRECEDING or FOLLOWING")
        return interval * sign
    scalar = constant(node)
    value: Any = None if scalar is None or not scalar.type.is_numeric else scalar.compute(None)
    if value is None or value < 0:
        raise statement.wrong(message, node, "write a number, as in RANGE 1.5 PRECEDING")
    if kind is DOUBLE:
        return sign * float(value)
    return sign * Fraction(value) * 10**kind.scale
