"""Row values: `(a, b) = (c, d)` and `(a, b) < (c, d)` as conditions of their parts.

PostgreSQL compares part by part, and a NULL that decides makes the whole unknown. DuckDB and Spark
compare structs: inside of one NULL equals NULL and is above all else. Invariant: what is made here
has each part at most three times, and means what the dialect means. Rows of a subquery are
`sql.subqueries`', where all dialects are as PostgreSQL is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from deltafix.sql.text import Statement, exp

__all__ = ["compared", "parts"]

_SWAPPED = {exp.GT: exp.LT, exp.GTE: exp.LTE}


def parts(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of `(a, b)` or `ROW(a, b)`; None for what is no row of values."""
    node = node.unnest()
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "ROW":
        return list(node.expressions)
    return None


def compared(statement: Statement, node: exp.Expr) -> exp.Expr | None:
    """A comparison of two rows of values by these; None for a comparison of others.

    Raises SqlProgrammingError for rows of different lengths, SqlRefusedError for one beside what is
    none.
    """
    left, right = parts(node.this), parts(node.expression)
    if left is None and right is None:
        return None
    if left is None or right is None:
        way_out = "compare it with a row of as many values, or with IN (SELECT a, b ...)"
        raise statement.refused("a row of values, (a, b), beside this", node, way_out)
    if len(left) != len(right) or not left:
        message = f"a row of {len(left)} beside a row of {len(right)}"
        raise statement.wrong(message, node, "give both as many values")
    kind = type(node)
    if kind in _SWAPPED:
        left, right, kind = right, left, _SWAPPED[kind]
    pairs = list(zip(left, right, strict=True))
    strict = statement.dialect == "postgres"
    same: type[exp.Expr] = exp.EQ if strict and kind in (exp.EQ, exp.NEQ) else exp.NullSafeEQ
    if kind in (exp.EQ, exp.NullSafeEQ):
        return _all([_of(same, *pair) for pair in pairs])
    if kind in (exp.NEQ, exp.NullSafeNEQ):
        return exp.Not(this=exp.Paren(this=_all([_of(same, *pair) for pair in pairs])))
    return _less(pairs, or_equal=kind is exp.LTE, strict=strict)


def _less(pairs: Sequence[tuple[exp.Expr, exp.Expr]], *, or_equal: bool, strict: bool) -> exp.Expr:
    """Whether the first pair that differs rises."""
    (left, right), *rest = pairs
    less = _of(exp.LT, left, right)
    if not strict:
        is_last = exp.Is(this=right.copy(), expression=exp.Null())
        is_none = exp.Is(this=left.copy(), expression=exp.Null())
        above = _both(exp.Not(this=is_none), is_last)
        less = exp.Coalesce(this=less, expressions=[above])
    equal = _of(exp.EQ if strict else exp.NullSafeEQ, left, right)
    if rest:
        then = _both(equal, exp.Paren(this=_less(rest, or_equal=or_equal, strict=strict)))
    elif or_equal:
        then = equal
    else:
        return less
    return exp.Or(this=less, expression=then)


def _of(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return kind(this=left.copy(), expression=right.copy())


def _both(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _all(conditions: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(_both, conditions)
