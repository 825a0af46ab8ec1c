"""UNNEST in FROM: the elements of an array as rows, each beside the row that the array is of.

Invariant: a row is told apart by the place of its element, so equal elements are rows of their own;
an array that is NULL or empty has none. A change of an array costs what the array has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltafix.rules.terms import Call, Const
from deltafix.sql import query as queries
from deltafix.sql.builder import Operand, equal
from deltafix.sql.scalar import Scalar
from deltafix.sql.scope import Source
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT

if TYPE_CHECKING:
    from deltafix.rules.ast import Formula
    from deltafix.sql.formulas import Formulas

__all__ = ["elements", "unnested"]


def unnested(node: exp.Expr) -> exp.Unnest | None:
    """The UNNEST that an item of FROM is, with LATERAL before it or without; else None."""
    inner = node.this if isinstance(node, exp.Lateral) and not node.args.get("view") else node
    return inner if isinstance(inner, exp.Unnest) else None


def elements(formulas: Formulas, item: exp.Expr, node: exp.Unnest) -> tuple[list[Formula], Source]:
    """The literals and names of an UNNEST that is an item of FROM, fresh each time."""
    builder, scope = formulas.builder, formulas.scope
    if item is not node:
        queries.check_clauses(builder, item, ("this", "alias"))
    queries.check_clauses(builder, node, ("expressions", "alias", "offset"))
    if len(node.expressions) != 1:
        way_out = "write one UNNEST for each, and join them by WITH ORDINALITY"
        raise builder.refused("UNNEST of several arrays", node, way_out)
    inner = type(formulas)(builder, scope, [])
    array = inner.operand(node.expressions[0])
    if array.type.element is None:
        message = f"UNNEST of {array.type.name}"
        raise scope.statement.wrong(message, node, "it takes an array: a column of INTEGER[], say")

    def size(row: Any) -> int:
        return 0 if row[0] is None else len(row[0])

    count = builder.apply(Scalar(size, BIGINT, nullable=False), [array], inner.body)
    place = Operand(builder.fresh("i"), BIGINT, nullable=False)
    inner.body.append(equal(place.term, Call("range", (Const(0, "number"), count.term))))

    def element(row: Any) -> Any:
        return row[0][row[1]]

    value = builder.apply(
        Scalar(element, array.type.element, nullable=True), [array, place], inner.body
    )
    alias, numbered = item.args.get("alias"), node.args.get("offset")
    named = [] if alias is None else [one.name for one in alias.columns]
    if isinstance(numbered, exp.Identifier):
        named.append(numbered.name)
    name = item.alias or "unnest"
    shown = [name, "ordinality"] if numbered else [name]
    if len(named) > len(shown):
        message = f"{len(named)} names for {len(shown)} columns"
        raise scope.statement.wrong(message, item, "give each column one name")
    shown[: len(named)] = named
    columns = [value]
    if numbered:
        first = Scalar(lambda row: row[0] + 1, BIGINT, nullable=False)
        columns.append(builder.apply(first, [place], inner.body))
    return inner.body, Source(name, dict(zip(shown, columns, strict=True)), (place,))
