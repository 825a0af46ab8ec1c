"""Conditions and values of many rows at once, by numpy: comparisons, logic, `+ - *` of numbers.

`truth` and `numbers` give for a node what its `Scalar` computes of each row, or raise ByValueError:
then that one is asked, of each list of values that there is (`sql.scans`). Invariant: nothing here
is an error of SQL. Where a number may leave its type or 64 bits, or floats are compared that are
NaN, the answer is ByValueError; what Python then computes raises, or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from deltafix.sql.functions import COMPARE
from deltafix.sql.literals import constant, is_of_no_column, typed
from deltafix.sql.text import exp
from deltafix.sql.types import BEYOND, BOOLEAN, DOUBLE, NULL, SqlType, common_type

if TYPE_CHECKING:
    from deltafix.engine.coded import Mask
    from deltafix.sql.scalar import Scalars
    from deltafix.sql.scans import Columns

__all__ = ["ByValueError", "Numbers", "as_kind", "numbers", "truth"]


class ByValueError(Exception):
    """Value by value, in Python."""


class Numbers(NamedTuple):
    """The engine's numbers for values of a type: an array, or one for all rows.

    `null` says which of them are NULL; None where none is.
    """

    kind: SqlType
    values: Any
    null: Mask | None = None


_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
}
_NULL_SAFE: Final = (exp.NullSafeEQ, exp.NullSafeNEQ)
_ROOM: Final = 1 << 63


def truth(scalars: Scalars, node: exp.Expr, columns: Columns) -> Mask:
    """For which rows a condition is true. Raises ByValueError."""
    found = _truth(scalars, node, columns)
    true = found.values if found.null is None else found.values & ~found.null
    return np.broadcast_to(true, len(columns))


def numbers(scalars: Scalars, node: exp.Expr, columns: Columns) -> Numbers:
    """The values of a node whose type the engine has as numbers. Raises ByValueError."""
    node = node.unnest()
    leaf = scalars.leaf(node)
    if leaf is not None:
        return columns.numbers(leaf.compute(range(len(columns.shape))))
    if node.find(exp.Column) is None:
        return _constant(scalars, node)
    kind = scalars.compile(node).type
    if type(node) not in _ARITHMETIC or not kind.is_numeric or kind.is_wide:
        raise ByValueError
    sides = [numbers(scalars, one, columns) for one in (node.this, node.expression)]
    if not all(one.kind.is_numeric for one in sides):
        raise ByValueError
    null, operate = _either(sides[0].null, sides[1].null), _ARITHMETIC[type(node)]
    if kind is DOUBLE:
        if scalars.statement.dialect == "postgres":  # what is too large or small is an error there
            raise ByValueError
        left, right = (as_kind(one, DOUBLE).values for one in sides)
        with np.errstate(all="ignore"):
            return Numbers(DOUBLE, operate(left, right), null)
    if isinstance(node, exp.Mul):
        room = _magnitude(sides[0]) * _magnitude(sides[1])
        if sides[0].kind.scale + sides[1].kind.scale != kind.scale:
            raise ByValueError
    else:
        sides = [_scaled(one, kind.scale) for one in sides]
        room = _magnitude(sides[0]) + _magnitude(sides[1])
    if room >= _ROOM:
        raise ByValueError
    return _within(Numbers(kind, operate(sides[0].values, sides[1].values), null))


def as_kind(one: Numbers, kind: SqlType) -> Numbers:
    """Numbers as those of another type, where each is one of its values. Raises ByValueError."""
    if kind is DOUBLE and one.kind.is_integer:
        return Numbers(DOUBLE, np.asarray(one.values).astype(np.float64), one.null)
    if kind.is_exact and one.kind.is_exact and kind.scale >= one.kind.scale:
        return _within(Numbers(kind, *_scaled(one, kind.scale)[1:]))
    if kind.code != one.kind.code:
        raise ByValueError
    return Numbers(kind, one.values, one.null)


# --- inside --------------------------------------------------------------------------------------


def _constant(scalars: Scalars, node: exp.Expr) -> Numbers:
    """The value of a node that reads no column."""
    found = constant(node)
    scalar = scalars.compile(node) if found is None or found.type is BEYOND else found
    if scalar.type.base == "symbol" or scalar.type in (NULL, BEYOND):
        raise ByValueError
    try:
        value = scalar.compute(())
    except (ValueError, ArithmeticError):  # it may be one where no row asks
        raise ByValueError from None
    written = None if value is None else scalar.type.write(value)
    if written is None:
        raise ByValueError
    return Numbers(scalar.type, np.float64(written) if scalar.type is DOUBLE else np.int64(written))


def _truth(scalars: Scalars, node: exp.Expr, columns: Columns) -> Numbers:
    node = node.unnest()
    if isinstance(node, exp.Not):
        inner = _truth(scalars, node.this, columns)
        return Numbers(BOOLEAN, ~inner.values, inner.null)
    if isinstance(node, exp.And | exp.Or):
        both = [_truth(scalars, one, columns) for one in (node.this, node.expression)]
        return _joined(both, decisive=isinstance(node, exp.Or))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        both = [_compared(scalars, one, columns) for one in (low, high)]
        return _joined(both, decisive=False)
    if isinstance(node, exp.In) and not (node.args.get("unnest") or node.args.get("query")):
        return _member(scalars, node, columns)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        leaf = scalars.leaf(node.this.unnest())
        if leaf is None:
            raise ByValueError
        null = columns.null(leaf.compute(range(len(columns.shape))))
        return Numbers(BOOLEAN, np.False_ if null is None else null)
    if type(node) in COMPARE:
        return _compared(scalars, node, columns)
    found = numbers(scalars, node, columns)
    if found.kind is not BOOLEAN:
        raise ByValueError
    return Numbers(BOOLEAN, found.values != 0, found.null)


def _joined(sides: list[Numbers], *, decisive: bool) -> Numbers:
    """AND, or OR where it is true that is decisive."""
    decided: Any = np.False_
    for one in sides:
        mine = one.values if decisive else ~one.values
        decided = decided | (mine if one.null is None else mine & ~one.null)
    null = _either(sides[0].null, sides[1].null)
    unknown = None if null is None else null & ~decided
    return Numbers(BOOLEAN, decided if decisive else ~decided, unknown)


def _member(scalars: Scalars, node: exp.In, columns: Columns) -> Numbers:
    """`x IN (1, 2)`, of whole numbers."""
    one = numbers(scalars, node.this, columns)
    others = [_constant(scalars, other) for other in node.expressions]
    if not one.kind.is_integer or not all(other.kind.is_integer for other in others):
        raise ByValueError
    wanted = np.array([other.values for other in others], np.int64)
    return Numbers(BOOLEAN, np.isin(one.values, wanted), one.null)


def _compared(scalars: Scalars, node: exp.Expr, columns: Columns) -> Numbers:
    one, two = node.this, node.expression
    if isinstance(node, _NULL_SAFE) or isinstance(two, exp.Any | exp.All | exp.Tuple):
        raise ByValueError
    if isinstance(one, exp.Tuple) or is_of_no_column(node):
        raise ByValueError
    left, right = scalars.compile(one).type, scalars.compile(two).type
    if left is not right:
        one, two = typed(one, right), typed(two, left)
    sides = [numbers(scalars, side, columns) for side in (one, two)]
    kind = common_type(sides[0].kind, sides[1].kind)
    if kind is None:
        raise ByValueError
    if sides[0].kind.is_exact and sides[1].kind.is_exact:
        scale = max(side.kind.scale for side in sides)
        sides = [_scaled(side, scale) for side in sides]
    else:
        sides = [as_kind(side, kind) for side in sides]
    if kind is DOUBLE and any(np.isnan(side.values).any() for side in sides):
        raise ByValueError
    found = COMPARE[type(node)](sides[0].values, sides[1].values)
    return Numbers(BOOLEAN, found, _either(sides[0].null, sides[1].null))


def _either(one: Mask | None, two: Mask | None) -> Mask | None:
    return two if one is None else one if two is None else one | two


def _magnitude(one: Numbers) -> int:
    """The largest magnitude, of values that are NULL too: these are numbers like others."""
    values = np.asarray(one.values)
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))


def _scaled(one: Numbers, scale: int) -> Numbers:
    """The same values with so many digits behind the point. Raises ByValueError."""
    more = scale - one.kind.scale
    if not more:
        return one
    if more < 0 or _magnitude(one) * 10**more >= _ROOM:
        raise ByValueError
    return Numbers(one.kind, one.values * 10**more, one.null)


def _within(one: Numbers) -> Numbers:
    """Numbers, if all of them are of their type. Raises ByValueError."""
    kind, values = one.kind, np.asarray(one.values)
    least, most = -(10**kind.digits) + 1, 10**kind.digits - 1
    if kind.is_integer:
        least, most = -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1
    if int(values.min(initial=0)) < least or int(values.max(initial=0)) > most:
        raise ByValueError
    return one
