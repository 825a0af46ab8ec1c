"""Expressions over arrays and structs: made, taken apart, looked into.

Places in arrays are as the dialect has them: from the end back in DuckDB, from 0 in Spark. A place
where there is nothing is NULL. How such values lie in the engine is `sql.arrays`'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import SqlProgrammingError
from deltafix.sql import functions
from deltafix.sql.literals import Scalar, literal, strict, typed
from deltafix.sql.text import exp
from deltafix.sql.types import BOOLEAN, NULL, Struct, array_of, array_type, common_type, struct_of

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

_END: Final = (1 << 63) - 1
"""A place behind every array."""


def any_of(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`x = ANY (array)`: unknown where only a NULL may be equal; DuckDB's NULL is an empty one."""
    if not isinstance(node, exp.EQ):
        way_out = "write EXISTS (SELECT 1 FROM UNNEST(array) AS u (x) WHERE ...)"
        raise scalars.statement.refused(f"{functions.written(node)} ANY", node, way_out)
    value, array, contains = element_of(scalars, node, node.this, node.expression.this)
    missing = False if scalars.statement.dialect == "duckdb" else None

    def compute(row: Any) -> bool | None:
        element, elements = value.compute(row), array.compute(row)
        if not elements:
            return missing if elements is None else False
        if element is None:
            return None
        return True if contains(element, elements) else None if None in elements else False

    return Scalar(compute, BOOLEAN, nullable=True)


def contains(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`LIST_CONTAINS(array, x)`: NULLs in the array are equal to nothing, in Spark perhaps."""
    value, array, contains = element_of(scalars, node, node.expression, node.this)
    if scalars.statement.dialect == "spark":

        def perhaps(element: Any, elements: Sequence[Any]) -> bool | None:
            return True if contains(element, elements) else None if None in elements else False

        return Scalar(strict(perhaps, value.compute, array.compute), BOOLEAN, nullable=True)
    compute = strict(contains, value.compute, array.compute)
    return Scalar(compute, BOOLEAN, value.nullable or array.nullable)


def element_of(
    scalars: Scalars, node: exp.Expr, value_node: exp.Expr, array_node: exp.Expr
) -> tuple[Scalar, Scalar, Callable[[Any, Any], bool]]:
    """A value and an array, of one type, and whether one that is not NULL is in the other."""
    array = scalars.compile(array_node)
    element = array.type.element
    value = scalars.compile(value_node if element is None else typed(value_node, element))
    kind = None if element is None else common_type(value.type, element)
    if kind is None:
        message = f"{node.key.upper()} of {value.type.name} and {array.type.name}"
        way_out = "it takes a value and an array of its type: CAST(... AS ...) one side"
        raise scalars.statement.wrong(message, node, way_out)
    order = functions.order_of(kind)

    def contains(value: Any, elements: Sequence[Any]) -> bool:
        return order(value) in (order(other) for other in elements if other is not None)

    return scalars.converted(value, kind), scalars.converted(array, array_type(kind)), contains


def array(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`[a, b]`, `ARRAY[a, b]`."""
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Comprehension):
        return scalars.compile(node.expressions[0])
    kind, values = scalars.one_type(node, node.expressions)
    array_kind = array_of(kind, scalars.statement, node)
    parts = [value.compute for value in values]
    return Scalar(lambda row: tuple(part(row) for part in parts), array_kind, False)


def at(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`array[1]`, `array[-1]`: DuckDB counts from the end, too, Spark from 0."""
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Slice):
        return part(scalars, node, node.expressions[0])
    if len(node.expressions) == 1 and node.expressions[0].is_string:
        return field(scalars, node, node.this, node.expressions[0])
    array = scalars.compile(node.this)
    if array.type.element is None:
        message = f"an element of {array.type.name}"
        raise scalars.statement.wrong(message, node, "it takes an array")
    if len(node.expressions) != 1:
        raise scalars.statement.refused("this place in an array", node, "write array[place]")
    index = scalars.compile(node.expressions[0])
    if not (index.type.is_integer or index.type is NULL):
        message = f"a place of type {index.type.name} in an array"
        raise scalars.statement.wrong(message, node, "places are whole numbers")
    first = node.args.get("offset") or 0
    dialect = scalars.statement.dialect
    is_from_end = dialect == "duckdb" or (dialect == "spark" and first == 1)

    def element(elements: Sequence[Any], at: int) -> Any:
        number = at - first if at >= first else at + len(elements) if is_from_end and at else -1
        return elements[number] if 0 <= number < len(elements) else None

    compute = strict(element, array.compute, index.compute)
    return Scalar(compute, array.type.element, nullable=True)


def struct(scalars: Scalars, node: exp.Expr) -> Scalar:
    """`{'a': 1}`, `STRUCT_PACK(a := 1, b)`; in Spark `STRUCT(1 AS a, b)`."""
    fields, parts = [], []
    for field in node.expressions:
        if not isinstance(field, exp.PropertyEQ | exp.Column | exp.Dot):
            message, way_out = "a field without a name", "write {'name': value}"
            raise scalars.statement.refused(message, field, way_out)
        value = scalars.compile(field.expression if isinstance(field, exp.PropertyEQ) else field)
        fields.append((str(field.name), value.type))
        parts.append(value.compute)
    kind = struct_of(fields, scalars.statement, node)
    names = tuple(name for name, _ in fields)
    return Scalar(lambda row: Struct.of(names, (part(row) for part in parts)), kind, False)


def field(scalars: Scalars, node: exp.Expr, of: exp.Expr, named: exp.Expr) -> Scalar:
    """`s.a`, `s['a']`, `STRUCT_EXTRACT(s, 'a')`."""
    try:
        struct = scalars.compile(of)
    except SqlProgrammingError as error:
        unknown = error.diagnostics[0].message.startswith("unknown column")
        if unknown and "column" in node.meta:  # neither is there a table of that name
            scalars.leaf(node.meta["column"])
        raise
    names = [name for name, _ in struct.type.fields]
    if not names:
        message = f"a field of {struct.type.name}"
        raise scalars.statement.wrong(message, node, "it takes a STRUCT")
    if named.name not in names or not isinstance(named, exp.Identifier | exp.Literal):
        raise scalars.statement.unknown("field", named.name, names, named)
    position = names.index(named.name)
    compute = strict(itemgetter(position), struct.compute)
    return Scalar(compute, struct.type.fields[position][1], nullable=True)


def part(scalars: Scalars, node: exp.Expr, bounds: exp.Expr) -> Scalar:
    """`array[2:3]`, `ARRAY_SLICE(array, 2, 3)`; in Spark `SLICE(array, 2, 2)`."""
    array = scalars.compile(node.this)
    if array.type.element is None:
        message, way_out = f"a slice of {array.type.name}", "it takes an array; of text, SUBSTR"
        raise scalars.statement.wrong(message, node, way_out)
    if isinstance(bounds, exp.Slice) and scalars.statement.dialect == "spark":
        message, way_out = "a slice, which Spark has not,", "write SLICE(array, first, length)"
        raise scalars.statement.refused(message, node, way_out)
    words = ("this", "expression") if isinstance(bounds, exp.Slice) else ("start", "end")
    given = [bounds.args.get(word) for word in words]
    none = (literal(1), literal(_END))
    ends = [
        scalars.compile(end) if end else default for end, default in zip(given, none, strict=True)
    ]
    for end in ends:
        if not (end.type.is_integer or end.type is NULL):
            message = f"a slice to a place of type {end.type.name}"
            raise scalars.statement.wrong(message, node, "places are whole numbers, from 1 on")
    cut = functions.PARTS["spark" if bounds.args.get("is_length") else scalars.statement.dialect]
    compute = strict(cut, array.compute, *(end.compute for end in ends))
    return Scalar(compute, array.type, array.nullable or any(end.nullable for end in ends))
