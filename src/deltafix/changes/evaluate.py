"""The naive evaluator of formulae: try every tuple of a finite universe. The judge of the rest.

Invariant: it follows the definition line by line and knows no derivative; `formula_derivative`,
`simplify` and `recursive` are tested against it. Not for work: a formula over n variables costs
|universe|ⁿ, quantifiers inside multiply.

Source: Fixing incremental computation, figure "Formula semantics for Datalog".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

from deltafix.changes import formula as f
from deltafix.changes.sets import SetChange
from deltafix.errors import ChangeError

Rows: TypeAlias = frozenset[tuple[Hashable, ...]]
"""A relation's value: a set of equally wide tuples."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_AGGREGATES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
}
_DEFINED_ON_NOTHING = ("count", "sum")


@dataclass(frozen=True, slots=True)
class Interpretation:
    """What relation symbols mean: their rows, how those change, and the universe of values."""

    universe: tuple[Hashable, ...]
    relations: Mapping[str, Rows]
    changes: Mapping[str, SetChange[tuple[Hashable, ...]]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def rows(self, relation: f.Relation) -> Rows:
        """The rows of a relation in the state the symbol names.

        Raises:
            ChangeError: The relation has no value here.
        """
        try:
            now = self.relations[relation.name]
        except KeyError:
            known = ", ".join(sorted(self.relations)) or "none"
            raise ChangeError(
                f"the formula reads relation {relation.name!r}, which has no value; "
                f"relations with a value: {known}"
            ) from None
        change = self.changes.get(relation.name)
        match relation.state:
            case "now":
                return now
            case "up":
                return change.added if change else frozenset()
            case "down":
                return change.removed if change else frozenset()
            case "next":
                return change.apply(now) if change else now


def evaluate(formula: f.Formula, schema: Sequence[str], given: Interpretation) -> Rows:
    """All tuples over `schema` for which the formula holds.

    Raises:
        ChangeError: A free variable is missing from the schema, or a relation has no value.
    """
    missing = f.free_variables(formula) - set(schema)
    if missing:
        raise ChangeError(
            f"free variable {min(missing)!r} is not in the schema ({', '.join(schema)})"
        )
    return frozenset(
        row
        for row in product(given.universe, repeat=len(schema))
        if holds(formula, dict(zip(schema, row, strict=True)), given)
    )


def holds(formula: f.Formula, at: Mapping[str, Hashable], given: Interpretation) -> bool:
    """Whether the formula holds under a binding of its free variables."""
    match formula:
        case f.Truth(value):
            return value
        case f.Relation(_, args):
            return tuple(_value(arg, at) for arg in args) in given.rows(formula)
        case f.Test(op, left, right):
            return _COMPARISONS[op](_value(left, at), _value(right, at))
        case f.And(left, right):
            return holds(left, at, given) and holds(right, at, given)
        case f.Or(left, right):
            return holds(left, at, given) or holds(right, at, given)
        case f.Not(body):
            return not holds(body, at, given)
        case f.Exists(variable, body):
            return any(holds(body, {**at, variable: v}, given) for v in given.universe)
        case f.Forall(variable, body):
            return all(holds(body, {**at, variable: v}, given) for v in given.universe)
        case f.Aggregate():
            return _aggregate_holds(formula, at, given)
        case f.Connected():
            return holds(formula.spelled_out, at, given)
        case _:
            raise f.unknown(formula)


def _value(argument: f.Argument, at: Mapping[str, Hashable]) -> Hashable:
    return argument.value if isinstance(argument, f.Constant) else at[argument]


def _aggregate_holds(
    formula: f.Aggregate, at: Mapping[str, Hashable], given: Interpretation
) -> bool:
    names = (*formula.over, formula.value)
    members = f.And(formula.domain, formula.body)
    values = [
        row[-1]
        for row in product(given.universe, repeat=len(names))
        if holds(members, {**at, **dict(zip(names, row, strict=True))}, given)
    ]
    if not values and formula.function not in _DEFINED_ON_NOTHING:
        return False
    return bool(_AGGREGATES[formula.function](values) == at[formula.result])
