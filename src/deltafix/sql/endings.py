"""WITH RECURSIVE ... UNION ALL: that it ends, and what tells its rows apart.

UNION ALL counts every way in which a row is found, so a cycle in the data would count for ever.
It is taken where a column shows that it ends: one that every step raises by a constant and that a
condition bounds. A row's key is its path: a digest of the rows that each step read. Invariant:
the same path has the same digest in every process and after every start, so rows in shards and in
states are told apart as they were; different paths have different ones (160 bits of BLAKE2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from deltafix.sql.connectives import conditions
from deltafix.sql.literals import Scalar, constant
from deltafix.sql.text import exp
from deltafix.sql.types import TEXT

if TYPE_CHECKING:
    from deltafix.sql.builder import Builder

__all__ = ["path_of", "require_end"]


def path_of(side: int) -> Scalar:
    """The digest of a path by what a side of the recursion read."""

    def compute(row: Sequence[Any]) -> str:
        return blake2b(repr((side, *row)).encode(), digest_size=20).hexdigest()

    return Scalar(compute, TEXT, nullable=False)


def require_end(
    builder: Builder, steps: Sequence[exp.Expr], name: str, names: Sequence[str]
) -> None:
    """Refuse a recursion by UNION ALL that no column shows to end. Raises SqlRefusedError."""
    bounded = [_rising(builder, step, name, names) for step in steps]
    if not set.intersection(*bounded):
        way_out = (
            f"count the steps: a column depth, 1 at first and {name}.depth + 1 in each step, with "
            f"WHERE {name}.depth < 100; or write UNION, which ends where rows repeat"
        )
        raise builder.refused("a recursion by UNION ALL that may not end", steps[0], way_out)


def _rising(builder: Builder, step: exp.Expr, name: str, names: Sequence[str]) -> set[int]:
    """The columns that a step raises by a constant under a bound, by position."""
    while isinstance(step, exp.Paren | exp.Subquery):
        step = step.this
    reads = [table for table in step.find_all(exp.Table) if table.name == name]
    if not isinstance(step, exp.Select) or len(reads) != 1 or step.args.get("distinct"):
        way_out = f"write a SELECT that reads {name} once, without DISTINCT; or write UNION"
        raise builder.refused("this step of a recursion by UNION ALL", step, way_out)
    alias = reads[0].alias_or_name
    bounds = set(_bounded(step, alias))
    rising = set()
    for position, shown in enumerate(step.expressions):
        node = shown.unalias()
        if isinstance(node, exp.Add) and position < len(names):
            more = constant(node.expression)
            rises = more is not None and more.type.is_integer and more.compute(None) > 0
            if rises and _is(node.this, alias, names[position]) and names[position] in bounds:
                rising.add(position)
    return rising


def _is(node: exp.Expr, alias: str, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name == name and node.table in ("", alias)


def _bounded(step: exp.Select, alias: str) -> Iterator[str]:
    """The columns of the recursion that WHERE or an inner join bounds from above."""
    where = step.args.get("where")
    parts = list(conditions(where.this if where is not None else None))
    for join in step.args.get("joins") or ():
        if not join.args.get("side") and join.args.get("kind") in (None, "", "INNER"):
            parts += conditions(join.args.get("on"))
    for part in parts:
        small, large = part.this, part.args.get("expression")
        if isinstance(part, exp.GT | exp.GTE):
            small, large = large, small
        elif not isinstance(part, exp.LT | exp.LTE):
            continue
        if isinstance(small, exp.Column) and small.table in ("", alias):
            limit = constant(large) if isinstance(large, exp.Expr) else None
            if limit is not None and limit.type.is_numeric:
                yield small.name
