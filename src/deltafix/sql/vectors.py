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
    truths = _truth(scalars, node, columns)
    true = truths.values if truths.null is None else truths.values & ~truths.null
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
    sides = [numbers(scalars, side, columns) for side in (node.this, node.expression)]
    if not all(side.kind.is_numeric for side in sides):
        raise ByValueError
    null, operate = _either(sides[0].null, sides[1].null), _ARITHMETIC[type(node)]
    if kind is DOUBLE:
        if scalars.statement.dialect == "postgres":  # what is too large or small is an error there
            raise ByValueError
        left, right = (as_kind(side, DOUBLE).values for side in sides)
        with np.errstate(all="ignore"):
            return Numbers(DOUBLE, operate(left, right), null)
    if isinstance(node, exp.Mul):
        room = _magnitude(sides[0]) * _magnitude(sides[1])
        if sides[0].kind.scale + sides[1].kind.scale != kind.scale:
            raise ByValueError
    else:
        sides = [_scaled(side, kind.scale) for side in sides]
        room = _magnitude(sides[0]) + _magnitude(sides[1])
    if room >= _ROOM:
        raise ByValueError
    return _within(Numbers(kind, operate(sides[0].values, sides[1].values), null))


def as_kind(vector: Numbers, kind: SqlType) -> Numbers:
    """Numbers as those of another type, where each is one of its values. Raises ByValueError."""
    if kind is DOUBLE and vector.kind.is_integer:
        return Numbers(DOUBLE, np.asarray(vector.values).astype(np.float64), vector.null)
    if kind.is_exact and vector.kind.is_exact and kind.scale >= vector.kind.scale:
        return _within(Numbers(kind, *_scaled(vector, kind.scale)[1:]))
    if kind.code != vector.kind.code:
        raise ByValueError
    return Numbers(kind, vector.values, vector.null)


# --- inside --------------------------------------------------------------------------------------


def _constant(scalars: Scalars, node: exp.Expr) -> Numbers:
    """The value of a node that reads no column."""
    fixed = constant(node)
    scalar = scalars.compile(node) if fixed is None or fixed.type is BEYOND else fixed
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
        both = [_truth(scalars, side, columns) for side in (node.this, node.expression)]
        return _joined(both, decisive=isinstance(node, exp.Or))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        both = [_compared(scalars, bound, columns) for bound in (low, high)]
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
    vector = numbers(scalars, node, columns)
    if vector.kind is not BOOLEAN:
        raise ByValueError
    return Numbers(BOOLEAN, vector.values != 0, vector.null)


def _joined(sides: list[Numbers], *, decisive: bool) -> Numbers:
    """AND, or OR where it is true that is decisive."""
    decided: Any = np.False_
    for side in sides:
        mine = side.values if decisive else ~side.values
        decided = decided | (mine if side.null is None else mine & ~side.null)
    null = _either(sides[0].null, sides[1].null)
    unknown = None if null is None else null & ~decided
    return Numbers(BOOLEAN, decided if decisive else ~decided, unknown)


def _member(scalars: Scalars, node: exp.In, columns: Columns) -> Numbers:
    """`x IN (1, 2)`, of whole numbers."""
    tested = numbers(scalars, node.this, columns)
    others = [_constant(scalars, other) for other in node.expressions]
    if not tested.kind.is_integer or not all(other.kind.is_integer for other in others):
        raise ByValueError
    wanted = np.array([other.values for other in others], np.int64)
    return Numbers(BOOLEAN, np.isin(tested.values, wanted), tested.null)


def _compared(scalars: Scalars, node: exp.Expr, columns: Columns) -> Numbers:
    left, right = node.this, node.expression
    if isinstance(node, _NULL_SAFE) or isinstance(right, exp.Any | exp.All | exp.Tuple):
        raise ByValueError
    if isinstance(left, exp.Tuple) or is_of_no_column(node):
        raise ByValueError
    left_kind, right_kind = scalars.compile(left).type, scalars.compile(right).type
    if left_kind is not right_kind:
        left, right = typed(left, right_kind), typed(right, left_kind)
    sides = [numbers(scalars, side, columns) for side in (left, right)]
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
    holds = COMPARE[type(node)](sides[0].values, sides[1].values)
    return Numbers(BOOLEAN, holds, _either(sides[0].null, sides[1].null))


def _either(left: Mask | None, right: Mask | None) -> Mask | None:
    return right if left is None else left if right is None else left | right


def _magnitude(vector: Numbers) -> int:
    """The largest magnitude, of values that are NULL too: these are numbers like others."""
    values = np.asarray(vector.values)
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))


def _scaled(vector: Numbers, scale: int) -> Numbers:
    """The same values with so many digits behind the point. Raises ByValueError."""
    more = scale - vector.kind.scale
    if not more:
        return vector
    if more < 0 or _magnitude(vector) * 10**more >= _ROOM:
        raise ByValueError
    return Numbers(vector.kind, vector.values * 10**more, vector.null)


def _within(vector: Numbers) -> Numbers:
    """Numbers, if all of them are of their type. Raises ByValueError."""
    kind, values = vector.kind, np.asarray(vector.values)
    least, most = -(10**kind.digits) + 1, 10**kind.digits - 1
    if kind.is_integer:
        least, most = -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1
    if int(values.min(initial=0)) < least or int(values.max(initial=0)) > most:
        raise ByValueError
    return vector
