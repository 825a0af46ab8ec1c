"""Aggregates: COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, with DISTINCT and FILTER.

An aggregate of SQL is one of the engine's, over rows told apart by their identity: what SQL counts
twice is two rows. NULLs are rows that the aggregate's pattern does not match; a group where none
matches is NULL, or 0 for COUNT. Invariant: SUM of whole numbers is exact or an error, SUM and AVG
of floats are the exact value rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from deltafix.rules.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Formula,
    FunctorDecl,
    Or,
    conjunction,
)
from deltafix.rules.terms import Aggregate, Const, Term
from deltafix.sql.builder import NIL, Operand, Relation, absent, equal, some
from deltafix.sql.scalar import Scalar
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, BOOLEAN, DOUBLE, MOST_DIGITS, SqlType, decimal_type

if TYPE_CHECKING:
    from deltafix.sql.formulas import Formulas
    from deltafix.sql.scope import Scope

__all__ = [
    "REDUCERS",
    "REDUCER_DECLARATIONS",
    "Wanted",
    "aggregates_in",
    "aggregates_of",
    "fold",
    "fold_over",
    "wanted",
]


@dataclass(frozen=True, slots=True)
class _Sum:
    """SUM of whole numbers: exact, and an error where it is no value of its type."""

    kind: str
    most: int
    initial: int = 0

    def add(self, acc: int, value: int, /) -> int:
        return acc + value

    def remove(self, acc: int, value: int, /) -> int:
        return acc - value

    def finish(self, acc: int, /) -> int:
        if not -self.most <= acc < self.most:
            raise OverflowError(f"SUM is {acc}, which is no {self.kind}")
        return acc


REDUCERS: Final = {
    "sum": _Sum("BIGINT", 1 << 63),
    "decimal_sum": _Sum(f"decimal of {MOST_DIGITS} digits, the point left out", 10**MOST_DIGITS),
}
REDUCER_DECLARATIONS: Final = tuple(
    FunctorDecl(name, (Attribute("value", "number"),), "number") for name in REDUCERS
)
"""What every program of SQL declares and binds."""

_OPS: Final[dict[type, str]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "mean",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
}
_USAGE = "aggregates are COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One aggregate as it was asked for.

    Attributes:
        op: the engine's aggregate.
        argument: what it ranges over, NULL where FILTER is not true; None for COUNT(*).
        by_value: whether a value counts once however often it occurs.
    """

    op: str
    argument: exp.Expr | None
    by_value: bool
    node: exp.Expr

    @property
    def counts_rows(self) -> bool:
        """Whether it makes a difference how often a row occurs."""
        return not self.by_value


def aggregates_of(select: exp.Expr) -> list[exp.Expr]:
    """The aggregates that a SELECT itself computes, FILTER included; not those of subqueries."""
    having = select.args.get("having")
    return aggregates_in(*select.expressions, *(() if having is None else (having,)))


def aggregates_in(*nodes: exp.Expr) -> list[exp.Expr]:
    """The aggregates in expressions, outermost ones; not those of subqueries."""
    found: list[exp.Expr] = []
    for node in nodes:
        if isinstance(node, exp.Filter | exp.AggFunc):
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Subquery | exp.Window):
            found += aggregates_in(*node.iter_expressions())
    return found


def wanted(formulas: Formulas, node: exp.Expr) -> Wanted:
    """Read an aggregate. Raises SqlRefusedError for those that are not maintained."""
    builder = formulas.builder
    condition = None
    inner = node
    if isinstance(node, exp.Filter):
        condition, inner = node.expression.this, node.this
    op = _OPS.get(type(inner))
    if op is None:
        name = inner.name if isinstance(inner, exp.Anonymous) else inner.key.upper()
        raise builder.refused(f"the aggregate {name}", node, _USAGE)
    for key, value in inner.args.items():
        if value and key not in ("this", "big_int") and not (key == "expressions" and value == []):
            raise builder.refused(f"{inner.key.upper()} with {key}", node, _USAGE)
    argument = inner.this
    by_value = op in ("min", "max")
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or argument.args.get("on"):
            raise builder.refused("DISTINCT of several", node, "count a SELECT DISTINCT subquery")
        argument, by_value = argument.expressions[0], True
    if isinstance(argument, exp.Order):
        raise builder.refused("ORDER BY in an aggregate", node, _USAGE)
    if isinstance(argument, exp.Star) or (op == "count" and argument is None):
        argument = None
    if isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
        argument = None
    if condition is not None:
        one = argument if argument is not None else exp.Literal.number(1)
        argument = exp.Case(ifs=[exp.If(this=condition, true=one)])
    nested = aggregates_in(*(() if argument is None else (argument,)))
    if nested:
        message = f"an aggregate inside {inner.key.upper()}"
        raise builder.statement.wrong(message, nested[0], "aggregate a grouped subquery")
    return Wanted(op, argument, by_value, node)


def _typed(formulas: Formulas, asked: Wanted, kind: SqlType) -> tuple[str, SqlType]:
    """The engine's aggregate and the type of its value, for an argument of a type."""
    inner = asked.node.this if isinstance(asked.node, exp.Filter) else asked.node
    if asked.op == "count":
        return "count", BIGINT
    logical = isinstance(inner, exp.LogicalAnd | exp.LogicalOr)
    if (logical and kind != BOOLEAN) or (asked.op in ("sum", "mean") and not kind.is_numeric):
        message = f"{inner.key.upper()} of {kind.name}"
        way_out = "it takes BOOLEAN" if logical else "it takes numbers: CAST(... AS DOUBLE)"
        raise formulas.scope.statement.wrong(message, asked.node, way_out)
    if asked.op == "sum":
        if kind.is_decimal:
            return "@@decimal_sum", decimal_type(MOST_DIGITS, kind.scale)
        return ("@@sum", BIGINT) if kind.is_integer else ("sum", DOUBLE)
    return asked.op, DOUBLE if asked.op == "mean" else kind


Rows = Callable[[Term | None], Formula]
"""The body of an aggregate: the rows whose argument is a term; None for any argument."""


def _value(
    formulas: Formulas,
    op: str,
    result: SqlType,
    rows: Rows,
    *,
    opens: SqlType | None,
    may_be_empty: bool,
) -> Operand:
    """An aggregate over `rows`; what it is equal to goes to the body.

    `opens` is the type of an argument that can be NULL, whose NULLs do not count.
    """
    builder = formulas.builder

    def pattern(bare: Term) -> Term:
        return bare if opens is None else some(bare, opens)

    def counted() -> Formula:
        argument = None if opens is None else pattern(builder.fresh("v"))
        return equal(number, Aggregate("count", None, rows(argument)))

    number = builder.fresh("n")
    if op == "count":
        formulas.body.append(counted())
        return Operand(number, result, nullable=False)
    bare, term = builder.fresh("v"), builder.fresh("a")
    total = equal(term, Aggregate(op, bare, rows(pattern(bare))))
    if not may_be_empty:
        formulas.body.append(total)
        return Operand(term, result, nullable=False)
    found = Operand(builder.fresh("a"), result, nullable=True)
    there: list[Formula] = [total, equal(found.term, some(term, result))]
    if op == "sum":  # the engine's sum of nothing is 0
        there += [counted(), Comparison(">", number, Const(0, "number"))]
    none = (absent(rows(pattern(builder.fresh("v")))), equal(found.term, NIL))
    formulas.body.append(Or((And(tuple(there)), And(none))))
    return found


def _folded(
    formulas: Formulas,
    asked: Wanted,
    kind: SqlType,
    rows: Rows,
    *,
    opens: SqlType | None,
    may_be_empty: bool,
) -> Operand:
    """An aggregate over `rows`, whose argument is of a type."""
    op, result = _typed(formulas, asked, kind)
    if op != "mean" or not kind.is_decimal:
        return _value(formulas, op, result, rows, opens=opens, may_be_empty=may_be_empty)
    parts = [
        _value(formulas, one, of, rows, opens=opens, may_be_empty=may_be_empty)
        for one, of in (("@@decimal_sum", decimal_type(MOST_DIGITS, kind.scale)), ("count", BIGINT))
    ]

    def mean(row: Any) -> float | None:
        total, count = row
        return None if total is None else float(Fraction(total) / count)

    scalar = Scalar(mean, DOUBLE, parts[0].nullable)
    return formulas.builder.apply(scalar, parts, formulas.body)


def fold(
    formulas: Formulas, source: Relation, group: Sequence[Operand], place: int | None, asked: Wanted
) -> Operand:
    """An aggregate over the rows of a relation whose first columns are the group."""
    builder = formulas.builder
    columns = source.all_columns
    if place is not None and asked.by_value and asked.op not in ("min", "max"):
        kept = [*columns[: len(group)], columns[place]]
        distinct = builder.relation(kept)
        atom, found = builder.bind(source)
        picked = [*found[: len(group)], found[place]]
        builder.rule(distinct, [one.term for one in picked], [atom])
        source, columns, place = distinct, tuple(kept), len(group)
    relation, width, at = source, len(group), place
    fixed = [one.term for one in group]

    def rows(argument: Term | None) -> Formula:
        atom, found = builder.bind(relation)
        args = [*fixed, *(one.term for one in found[width:])]
        if at is not None and argument is not None:
            args[at] = argument

        return Atom(atom.relation, tuple(args))

    kind = BIGINT if place is None else columns[place].type
    opens = kind if place is not None and columns[place].nullable else None
    may_be_empty = opens is not None or not group
    return _folded(formulas, asked, kind, rows, opens=opens, may_be_empty=may_be_empty)


def fold_over(formulas: Formulas, scope: Scope, body: Sequence[Formula], node: exp.Expr) -> Operand:
    """An aggregate over the rows of a body inside the rule (a correlated scalar subquery)."""
    from deltafix.sql.formulas import Formulas as Inner  # noqa: PLC0415  it imports this module

    inner = Inner(formulas.builder, scope, list(body))
    asked = wanted(inner, node)
    if asked.by_value and asked.op not in ("min", "max"):
        way_out = "join with a subquery that groups by the columns it is correlated by"
        raise formulas.builder.refused("DISTINCT in a correlated aggregate", node, way_out)
    argument = None if asked.argument is None else inner.operand(asked.argument)
    kind = BIGINT if argument is None else argument.type

    def rows(term: Term | None) -> Formula:
        parts = list(inner.body)
        if argument is not None and term is not None:
            parts.append(equal(argument.term, term))
        return conjunction(parts)

    opens = kind if argument is not None and argument.nullable else None
    return _folded(formulas, asked, kind, rows, opens=opens, may_be_empty=True)
