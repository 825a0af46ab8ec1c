"""UNNEST, in FROM and in SELECT: the elements of an array as rows, beside the row it is of.

Invariant: a row is told apart by the place of its element, so equal elements are rows of their own;
an array that is NULL or empty has none. Several in one SELECT go side by side, with NULL where one
has no more. A change of an array costs what the array has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from deltafix.rules.terms import Call, Const
from deltafix.sql.aggregates import AGGREGATE
from deltafix.sql.builder import Operand, equal
from deltafix.sql.literals import Scalar
from deltafix.sql.scope import Source, shown_as
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT

if TYPE_CHECKING:
    from deltafix.rules.ast import Formula
    from deltafix.sql.formulas import Formulas

__all__ = ["elements", "expand", "expanded_in", "unnested"]


def unnested(node: exp.Expr) -> exp.Unnest | None:
    """The UNNEST that an item of FROM is, with LATERAL before it or without; else None."""
    inner = node.this if isinstance(node, exp.Lateral) and not node.args.get("view") else node
    return inner if isinstance(inner, exp.Unnest) else None


def elements(formulas: Formulas, item: exp.Expr, node: exp.Unnest) -> tuple[list[Formula], Source]:
    """The literals and names of an UNNEST that is an item of FROM, fresh each time."""
    builder, scope = formulas.builder, formulas.scope
    inner = type(formulas)(builder, scope, [])
    arrays = node.expressions
    index, columns = _side_by_side(inner, [node] * len(arrays), arrays)
    alias, numbered = item.args.get("alias"), node.args.get("offset")
    named = [] if alias is None else [column.name for column in alias.columns]
    if isinstance(numbered, exp.Identifier):
        named.append(numbered.name)
    name = item.alias or "unnest"
    if len(named) < len(arrays) > 1:
        message = f"UNNEST of {len(arrays)} arrays, with names for {len(named)}"
        raise scope.statement.wrong(message, item, "name the elements of each: AS u (x, y)")
    given = [name] * len(arrays) + ["ordinality"] * bool(numbered)
    shown = shown_as(scope.statement, item, named, given)
    if numbered:
        first = Scalar(lambda row: row[0] + 1, BIGINT, nullable=False)
        columns.append(builder.apply(first, [index], inner.body))
    return inner.body, Source(name, dict(zip(shown, columns, strict=True)), (index,))


def _side_by_side(
    formulas: Formulas, nodes: list[exp.Expr], arrays: list[exp.Expr]
) -> tuple[Operand, list[Operand]]:
    """The indexes of the longest of some arrays, and the element of each there, or NULL."""
    builder, scope = formulas.builder, formulas.scope
    operands = [formulas.operand(array) for array in arrays]
    kinds = [operand.type.element for operand in operands]
    for node, kind, operand in zip(nodes, kinds, operands, strict=True):
        if kind is None:
            message = f"UNNEST of {operand.type.name}"
            way_out = "it takes an array: a column of INTEGER[], say"
            raise scope.statement.wrong(message, node, way_out)

    def size(row: Any) -> int:
        return max(0 if array is None else len(array) for array in row)

    def element(row: Any) -> Any:
        array, at = row
        return None if array is None or at >= len(array) else array[at]

    count = builder.apply(Scalar(size, BIGINT, nullable=False), operands, formulas.body)
    index = Operand(builder.fresh("i"), BIGINT, nullable=False)
    formulas.body.append(equal(index.term, Call("range", (Const(0, "number"), count.term))))
    values = [
        builder.apply(Scalar(element, kind, nullable=True), [operand, index], formulas.body)
        for kind, operand in zip(kinds, operands, strict=True)
        if kind is not None
    ]
    return index, values


# --- in SELECT -----------------------------------------------------------------------------------


def expanded_in(nodes: Iterable[exp.Expr]) -> list[exp.Expr]:
    """The UNNESTs in expressions, which Spark calls EXPLODE; of aggregates and subqueries none."""
    wanted = {exp.Explode, exp.Unnest}

    def ends(node: exp.Expr) -> bool:
        return type(node) in wanted or isinstance(node, exp.Query | exp.Subquery | AGGREGATE)

    each = (part for node in nodes for part in node.walk(bfs=False, prune=ends))
    return [part for part in each if type(part) in wanted]


def expand(formulas: Formulas, nodes: Iterable[exp.Expr]) -> list[Operand]:
    """Have each row be as many as the longest array of the UNNESTs in expressions has elements.

    The scope learns what they are, and what tells these rows apart is returned, if there are any.
    What has a value already, since it is grouped by, is none of them.
    """
    scope = formulas.scope
    known = scope.known or {}

    def within(node: exp.Expr) -> bool:
        """Whether it is a part of what is known."""
        part: exp.Expr | None = node
        while part is not None and not isinstance(part, exp.Query):
            if scope.qualified(part) in known:
                return True
            part = part.parent
        return False

    asked = {
        scope.qualified(node): node for node in expanded_in(nodes) if not (known and within(node))
    }
    if not asked:
        return []
    unnests = list(asked.values())
    arrays = []
    for unnest in unnests:
        arguments = unnest.expressions if isinstance(unnest, exp.Unnest) else [unnest.this]
        scope.statement.require_only(unnest, ("this", "expressions"))
        if len(arguments) != 1 or expanded_in(arguments):
            way_out = "write one UNNEST for each array, and those of elements in FROM"
            message = "UNNEST of several arrays, or of UNNEST"
            raise formulas.builder.refused(message, unnest, way_out)
        arrays.append(arguments[0])
    index, values = _side_by_side(formulas, unnests, arrays)
    scope.elements = dict(zip(asked, values, strict=True))
    return [index]
