"""Lambdas over arrays: `LIST_TRANSFORM(ns, x -> x + 1)`, `LIST_FILTER(ns, (x, i) -> i < 3)`.

The body is an expression as any other, of one row, in which the lambda's names are an element and
its place; it is compiled once, and computed for each element. Invariant: names of the lambda hide
nothing but columns of the same name, and nothing outside of it sees them. Bodies with subqueries,
aggregates and windows are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from deltafix.sql.literals import Given, Scalar
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, BOOLEAN, NULL, SqlType, array_type

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["NODES", "compiled", "named"]

NODES: Final = (exp.Transform, exp.ArrayFilter)

_NAMES: Final = {
    "LIST_APPLY": exp.Transform,
    "ARRAY_APPLY": exp.Transform,
    "ARRAY_TRANSFORM": exp.Transform,
    "ARRAY_FILTER": exp.ArrayFilter,
}


def named(node: exp.Expr) -> bool:
    """Whether a function that sqlglot has no node for is one of these."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _NAMES


def compiled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """The array that a lambda makes of one. Raises SqlProgrammingError, SqlRefusedError."""
    statement = scalars.statement
    word, usage = statement.called(node), "LIST_TRANSFORM(array, x -> ...)"
    if isinstance(node, exp.Anonymous):
        node = _NAMES[node.name.upper()](
            **dict(zip(("this", "expression"), node.expressions, strict=False))
        )
    body, keeps = node.args.get("expression"), isinstance(node, exp.ArrayFilter)
    if not isinstance(body, exp.Lambda) or not 0 < len(body.expressions) <= 2:
        raise statement.wrong(f"{word} of this", node, f"write {usage}")
    if statement.dialect == "postgres":
        way_out = "PostgreSQL has no lambdas: UNNEST the array, and ARRAY_AGG what is left"
        raise statement.refused(f"{word}(...)", node, way_out)
    if body.find(exp.Query, exp.AggFunc, exp.Window):
        way_out = "UNNEST the array, and ARRAY_AGG what is left"
        raise statement.refused("a lambda that is no expression of one row", body, way_out)
    array = scalars.compile(node.this)
    element = NULL if array.type is NULL else array.type.element
    if element is None:
        raise statement.wrong(f"{word} of {array.type.name}", node.this, "it takes an array")
    if array.type is NULL:
        return array
    places = [Given() for _ in body.expressions]
    kinds: tuple[SqlType, ...] = (element, BIGINT)
    known = {
        name.name.lower(): Scalar(_read(place), kind, nullable=kind is element)
        for name, place, kind in zip(body.expressions, places, kinds, strict=False)
    }

    def leaf(part: exp.Expr) -> Scalar | None:
        # sqlglot knows the names by their letters; neither dialect tells capitals apart
        is_name = isinstance(part, exp.Identifier) or (
            isinstance(part, exp.Column) and not part.table
        )
        found = known.get(part.name.lower()) if is_name else None
        return scalars.leaf(part) if found is None else found

    made = type(scalars)(statement, leaf).compile(body.this)
    if keeps and made.type not in (BOOLEAN, NULL):
        message = f"{word} by {made.type.name}"
        raise statement.wrong(message, body, "it takes BOOLEAN: compare with something")
    first = 0 if statement.dialect == "spark" else 1

    def compute(row: Any) -> tuple[Any, ...] | None:
        values = array.compute(row)
        if values is None:
            return None
        found = []
        for number, value in enumerate(values, first):
            for place, one in zip(places, (value, number), strict=False):
                place.value = one
            one = made.compute(row)
            if not keeps:
                found.append(one)
            elif one is True:
                found.append(value)
        return tuple(found)

    result = array.type if keeps else array_type(made.type)
    return Scalar(compute, result, array.nullable)


def _read(place: Given) -> Callable[[Any], Any]:
    return lambda _: place.value
