"""Lambdas over arrays: `LIST_TRANSFORM(ns, x -> x + 1)`, `[x for x in ns if x > 2]`, LIST_REDUCE.

The body is an expression as any other, of one row, in which the lambda's names are an element and
its place, of LIST_REDUCE what is there so far before these; it is compiled once, and computed for
each element. Invariant: names of the lambda hide nothing but columns of the same name, and nothing
outside of it sees them. Bodies with subqueries, aggregates and windows are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltafix.sql.literals import Given, Scalar
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BOOLEAN,
    MOST_DIGITS,
    NULL,
    SqlType,
    array_type,
    common_type,
    computed_decimal,
)

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["NODES", "compiled", "comprehension", "named"]

NODES: Final = (exp.Transform, exp.ArrayFilter, exp.Reduce)

_NAMES: Final[dict[str, tuple[Any, tuple[str, ...]]]] = {
    **dict.fromkeys(
        ("LIST_APPLY", "ARRAY_APPLY", "ARRAY_TRANSFORM"), (exp.Transform, ("this", "expression"))
    ),
    "ARRAY_FILTER": (exp.ArrayFilter, ("this", "expression")),
    **dict.fromkeys(("LIST_REDUCE", "ARRAY_REDUCE"), (exp.Reduce, ("this", "merge", "initial"))),
}
"""Functions that sqlglot has no node for: the one that they are, and its arguments in order."""


def named(node: exp.Expr) -> bool:
    """Whether a function that sqlglot has no node for is one of these."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _NAMES


def compiled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """What a lambda makes of an array. Raises SqlProgrammingError, SqlRefusedError."""
    statement, word = scalars.statement, scalars.statement.called(node)
    usage = "LIST_TRANSFORM(array, x -> ...)"
    if isinstance(node, exp.Anonymous):
        kind, keys = _NAMES[node.name.upper()]
        if len(node.expressions) > len(keys):
            message = f"{word} of {len(node.expressions)} values"
            raise statement.wrong(message, node, f"it takes {len(keys)}")
        node = kind(**dict(zip(keys, node.expressions, strict=False)))
    reduces = isinstance(node, exp.Reduce)
    body = node.args.get("merge" if reduces else "expression")
    least, most = (2, 3) if reduces else (1, 2)
    if reduces:
        usage = "LIST_REDUCE(array, (x, y) -> ...)"
    if not isinstance(body, exp.Lambda) or not least <= len(body.expressions) <= most:
        raise statement.wrong(f"{word} of this", node, f"write {usage}")
    if statement.dialect == "postgres":
        way_out = "PostgreSQL has no lambdas: UNNEST the array, and ARRAY_AGG what is left"
        raise statement.refused(f"{word}(...)", node, way_out)
    if reduces:
        return _reduced(scalars, node, body, word)
    keeps = isinstance(node, exp.ArrayFilter)
    value = body.expressions[0] if keeps else body.this
    condition = body.this if keeps else None
    return _mapped(scalars, _Over(word, node.this, body.expressions, value, condition))


def comprehension(scalars: Scalars, node: exp.Comprehension) -> Scalar:
    """`[x + i for x, i in array if x > 2]`."""
    names = [name for name in (node.args["expression"], node.args.get("position")) if name]
    iterator, condition = node.args["iterator"], node.args.get("condition")
    return _mapped(scalars, _Over("a list comprehension", iterator, names, node.this, condition))


@dataclass(frozen=True, slots=True)
class _Over:
    """A value for each element of an array for which a condition, if there is one, is true.

    `names` are those of the element and of its place; `word` is what errors call it.
    """

    word: str
    array: exp.Expr
    names: Sequence[exp.Expr]
    value: exp.Expr
    condition: exp.Expr | None


def _array(scalars: Scalars, node: exp.Expr, word: str) -> tuple[Scalar, SqlType]:
    """An array that is taken, and the type of its elements."""
    array = scalars.compile(node)
    element = NULL if array.type is NULL else array.type.element
    if element is None:
        raise scalars.statement.wrong(f"{word} of {array.type.name}", node, "it takes an array")
    return array, element


def _inside(
    scalars: Scalars,
    names: Sequence[exp.Expr],
    kinds: Sequence[SqlType],
    bodies: Sequence[exp.Expr],
) -> tuple[list[Given], list[Scalar]]:
    """Where the values of a lambda's names are put, and its bodies."""
    slots = [Given() for _ in names]
    known = {
        name.name.lower(): Scalar(_read(slot), kind, nullable=True)
        for name, slot, kind in zip(names, slots, kinds, strict=False)
    }

    def leaf(part: exp.Expr) -> Scalar | None:
        # sqlglot knows the names by their letters; neither dialect tells capitals apart
        is_name = isinstance(part, exp.Identifier) or (
            isinstance(part, exp.Column) and not part.table
        )
        scalar = known.get(part.name.lower()) if is_name else None
        return scalars.leaf(part) if scalar is None else scalar

    for body in bodies:
        if body.find(exp.Query, exp.AggFunc, exp.Window):
            way_out = "UNNEST the array, and ARRAY_AGG what is left"
            message = "a lambda that is no expression of one row"
            raise scalars.statement.refused(message, body, way_out)
    within = type(scalars)(scalars.statement, leaf)
    return slots, [within.compile(body) for body in bodies]


def _mapped(scalars: Scalars, over: _Over) -> Scalar:
    array, element = _array(scalars, over.array, over.word)
    if array.type is NULL:
        return array
    bodies = [body for body in (over.value, over.condition) if body is not None]
    slots, (transform, *tests) = _inside(scalars, over.names, (element, BIGINT), bodies)
    if tests and tests[0].type not in (BOOLEAN, NULL):
        message = f"{over.word} by {tests[0].type.name}"
        way_out = "it takes BOOLEAN: compare with something"
        raise scalars.statement.wrong(message, bodies[1], way_out)
    first = 0 if scalars.statement.dialect == "spark" else 1

    def compute(row: Any) -> tuple[Any, ...] | None:
        values = array.compute(row)
        if values is None:
            return None
        results = []
        for number, value in enumerate(values, first):
            for slot, given in zip(slots, (value, number), strict=False):
                slot.value = given
            if all(test.compute(row) is True for test in tests):
                results.append(transform.compute(row))
        return tuple(results)

    return Scalar(compute, array_type(transform.type), array.nullable)


def _reduced(scalars: Scalars, node: exp.Expr, body: exp.Lambda, word: str) -> Scalar:
    """LIST_REDUCE(array, (x, y, i) -> ..., first); Spark's REDUCE(array, first, merge, finish)."""
    array, element = _array(scalars, node.this, word)
    if array.type is NULL:
        return array
    initial = node.args.get("initial")
    first = None if initial is None else scalars.compile(initial)
    kind = element if first is None else first.type
    while True:  # types only widen
        kind = computed_decimal(MOST_DIGITS, kind.scale, kind) if kind.is_decimal else kind
        slots, (merged,) = _inside(scalars, body.expressions, (kind, element, BIGINT), [body.this])
        both = common_type(kind, merged.type)
        both = computed_decimal(MOST_DIGITS, both.scale, both) if both and both.is_decimal else both
        if both is None or (scalars.statement.dialect == "spark" and both is not kind):
            message = f"{word} that makes {merged.type.name} of {kind.name}"
            raise scalars.statement.wrong(message, body, "CAST(... AS ...) one of them")
        if both is kind:
            break
        kind = both
    step = scalars.converted(merged, kind)
    start = None if first is None else scalars.converted(first, kind)
    convert = (
        scalars.converted(Scalar(_itself, element, nullable=True), kind) if not first else None
    )
    finish = node.args.get("finish")
    ends, last = [Given()], None
    if finish is not None:
        if not isinstance(finish, exp.Lambda) or len(finish.expressions) != 1:
            raise scalars.statement.wrong(f"{word} of this", finish, "write x -> ...")
        ends, (last,) = _inside(scalars, finish.expressions, (kind,), [finish.this])

    def compute(row: Any) -> Any:
        values = array.compute(row)
        if values is None:
            return None
        rest = enumerate(values, 1)
        if start is not None:
            acc = start.compute(row)
        elif values:
            acc = convert.compute(next(rest)[1]) if convert else None
        else:
            raise ValueError("LIST_REDUCE of an empty array: say what is first")
        for number, value in rest:
            for slot, given in zip(slots, (acc, value, number), strict=False):
                slot.value = given
            acc = step.compute(row)
        if last is None:
            return acc
        ends[0].value = acc
        return last.compute(row)

    return scalars.checked(compute, kind if last is None else last.type, nullable=True)


def _itself(value: Any) -> Any:
    return value


def _read(slot: Given) -> Callable[[Any], Any]:
    return lambda _: slot.value
