"""GROUP BY: its keys, and the grouping sets that ROLLUP, CUBE and GROUPING SETS stand for.

Each grouping set groups all rows anew, by some of the keys; the others are NULL there. Invariant:
sets are numbered as they are written, and equal ones are two: each gives its groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Final

from deltafix.rules.terms import Const
from deltafix.sql.aggregates import aggregates_in
from deltafix.sql.builder import NIL, Operand
from deltafix.sql.formulas import Formulas
from deltafix.sql.literals import Scalar
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, Column

__all__ = ["NUMBER", "Grouping", "grouping"]

NUMBER: Final = exp.column("~set")
"""What stands for the number of a row's grouping set among the keys, where there are several."""

_MOST_SETS: Final = 128
"""Each is a rule."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a GROUP BY, and which of them each of its sets has."""

    keys: tuple[exp.Expr, ...]
    sets: tuple[frozenset[exp.Expr], ...]

    @property
    def several(self) -> bool:
        """Whether rows are grouped more than once."""
        return len(self.sets) > 1

    @property
    def totals(self) -> list[int]:
        """The sets without keys: their groups are there without rows."""
        return [number for number, keys in enumerate(self.sets) if not keys]

    def within(self, outer: Sequence[exp.Expr]) -> Grouping:
        """The same for each of the values of other keys."""
        if not outer:
            return self
        return Grouping((*outer, *self.keys), tuple(keys.union(outer) for keys in self.sets))

    def columns(self, operands: Sequence[Operand]) -> list[Column]:
        """The columns of `row`."""
        rows = (self.row(number, operands) for number in range(len(self.sets)))
        return [
            replace(parts[0], nullable=any(part.nullable for part in parts)).column(f"g{at}")
            for at, parts in enumerate(zip(*rows, strict=True))
        ]

    def row(self, number: int, operands: Sequence[Operand]) -> list[Operand]:
        """The keys as a set has them, behind its number where there are several."""
        if not self.several:
            return list(operands)
        shown = [
            operand if key in self.sets[number] else Operand(NIL, operand.type, nullable=True)
            for key, operand in zip(self.keys, operands, strict=True)
        ]
        return [_number(number), *shown]

    def grouping_id(self, formulas: Formulas, node: exp.Expr) -> Operand:
        """GROUPING(...): a bit for each argument, the last the lowest: 1 where the set lacks it."""
        asked = [formulas.scope.qualified(key) for key in node.expressions] or list(self.keys)
        for key in asked:
            if key not in self.keys:
                message = f"{key.sql()} is not grouped by"
                raise formulas.scope.statement.wrong(message, node, "name a key of GROUP BY")
        values = [
            sum((key not in keys) << bit for bit, key in enumerate(reversed(asked)))
            for keys in self.sets
        ]
        if not self.several:
            return _number(values[0])
        assert formulas.scope.known is not None  # noqa: S101  it is asked after grouping
        number = formulas.scope.known[NUMBER]

        scalar = Scalar(lambda row: values[row[0]], BIGINT, nullable=False)
        return formulas.builder.apply(scalar, [number], formulas.body)


def _number(value: int) -> Operand:
    return Operand(Const(value, "number"), BIGINT, nullable=False)


def grouping(formulas: Formulas, select: exp.Select) -> Grouping:
    """What a SELECT groups by: positions and names of what it shows stand for that.

    Raises SqlRefusedError for more sets than the rules of a view can be.
    """
    group = select.args.get("group")
    if group is None:
        return Grouping((), (frozenset(),))
    reader = _Reader(formulas, select)
    if group.args.get("all"):
        shown = [item.unalias() for item in select.expressions]
        sets = [[tuple(reader.spelled(node) for node in shown if not aggregates_in(node))]]
    else:
        sets = [reader.sets(key) for key in group.expressions]
        for kind in (exp.Rollup, exp.Cube):  # WITH ROLLUP, as Spark has it
            if group.args.get(kind.key):
                sets = [reader.sets(kind(expressions=group.expressions))]
    count = 1
    for options in sets:
        count *= len(options)
    if count > _MOST_SETS:
        way_out = f"at most {_MOST_SETS}: write GROUPING SETS with those that are read"
        raise formulas.builder.refused(f"GROUP BY of {count} grouping sets", group, way_out)
    combined = [tuple(key for part in parts for key in part) for parts in product(*sets)]
    keys = tuple(dict.fromkeys(key for parts in combined for key in parts))
    return Grouping(keys, tuple(map(frozenset, combined)))


class _Reader:
    """What the items of one GROUP BY mean."""

    def __init__(self, formulas: Formulas, select: exp.Select) -> None:
        self.scope = formulas.scope
        self.shown = select.expressions

    def sets(self, item: exp.Expr) -> list[tuple[exp.Expr, ...]]:
        """The grouping sets of an item, each as its keys."""
        if isinstance(item, exp.GroupingSets):
            return [keys for part in item.expressions for keys in self.sets(part)]
        if isinstance(item, exp.Rollup | exp.Cube):
            parts = [self.keys(part) for part in item.expressions]
            sizes = range(len(parts), -1, -1)
            if isinstance(item, exp.Rollup):
                chosen = [tuple(parts[:size]) for size in sizes]
            else:
                chosen = [subset for size in sizes for subset in combinations(parts, size)]
            return [tuple(key for part in subset for key in part) for subset in chosen]
        return [self.keys(item)]

    def keys(self, node: exp.Expr) -> tuple[exp.Expr, ...]:
        """The keys that a column, an expression or a tuple of them is."""
        if isinstance(node, exp.Tuple):
            return tuple(key for part in node.expressions for key in self.keys(part))
        if isinstance(node, exp.Paren):
            return self.keys(node.this)
        position = self.scope.statement.position(node, "GROUP BY", len(self.shown))
        if position is not None:
            return (self.spelled(self.shown[position].unalias()),)
        return (self.spelled(self.scope.meant(node, self.shown)),)

    def spelled(self, node: exp.Expr) -> exp.Expr:
        """A key in the one spelling of its meaning."""
        return self.scope.qualified(node)
