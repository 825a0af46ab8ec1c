"""Values in expressions: what a literal is, what stands for a parameter, and of which type.

`Scalar` is an expression that can be computed; here are those that need no other. Invariant: a
literal has the type that SQL gives it as it stands; beside a value of a type one in quotes is of
that type (`typed`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from operator import is_
from typing import Any, Final, TypeAlias

from deltafix.sql.intervals import Interval
from deltafix.sql.text import data_type, exp
from deltafix.sql.types import (
    BEYOND,
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MOST_DIGITS,
    NULL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
    SqlValue,
    decimal_type,
    fits,
)

Compute: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression that can be computed: `compute(environment)` is its value.

    Those that say the same, where it is known what they say, compute the same. `partial`: it may
    have no value for some arguments, and raise.
    """

    compute: Compute
    type: SqlType
    nullable: bool
    says: Hashable = None
    partial: bool = False


def literal(value: SqlValue) -> Scalar:
    """A constant."""
    if value is None:
        kind = NULL
    elif isinstance(value, bool):
        kind = BOOLEAN
    elif isinstance(value, int) and fits(value, BIGINT):
        kind = INTEGER if fits(value, INTEGER) else BIGINT
    elif isinstance(value, int):
        return literal(Decimal(value))
    elif isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)  # noqa: S101  a literal is finite
        scale = max(-exponent, 0)  # none of 1E+2
        size = max(len(digits) + max(exponent, 0), scale)
        kind = decimal_type(size, scale) if size <= MOST_DIGITS else BEYOND
    elif isinstance(value, datetime):
        kind = TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
    elif isinstance(value, date):
        kind = DATE
    elif isinstance(value, time):
        kind = TIME
    elif isinstance(value, bytes):
        kind = BLOB
    elif isinstance(value, uuid.UUID):
        kind = UUID
    elif isinstance(value, Interval):
        kind = INTERVAL
    else:
        kind = DOUBLE if isinstance(value, float) else TEXT
    return Scalar(lambda _: value, kind, value is None)


class Given:
    """What a parameter stands for, in its place in a tree: a value, another one each time.

    It is that of every copy of the tree, so that what was compiled of one computes with it.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: SqlValue = None

    def __deepcopy__(self, _: object) -> Given:
        return self

    @staticmethod
    def at(node: exp.Expr) -> Given | None:
        """What stands in a node's place."""
        return node.meta.get("given") if isinstance(node, exp.Placeholder) else None


def number(text: str) -> SqlValue:
    """The value of a number as it is written: exact, but for one with an exponent.

    A whole number that is none of BIGINT is a decimal.
    """
    if not text.replace(".", "", 1).isdigit():
        return float(text)
    is_whole = "." not in text and len(text.lstrip("0")) <= _DIGITS and int(text) < _END
    return int(text) if is_whole else Decimal(text)


_END: Final = 1 << 63
_DIGITS: Final = len(str(_END))


def negative(value: Any) -> Any:
    """Minus a number: Python's own is rounded to 28 digits, if it is a decimal."""
    if not isinstance(value, Decimal):
        return -value
    is_least = value == _END and value.as_tuple().exponent == 0  # of BIGINT
    return -_END if is_least else value.copy_negate()


def constant(node: exp.Expr) -> Scalar | None:
    """The Scalar of a literal, or of what is given for one; None for any other node."""
    if isinstance(node, exp.Null):
        return literal(None)
    if isinstance(node, exp.Boolean):
        return literal(bool(node.this))
    if isinstance(node, exp.Literal):
        text = str(node.this)
        return literal(text if node.is_string else number(text))
    if isinstance(node, exp.ByteString | exp.RawString):  # E'a\nb', and Spark's r'a\b'
        return literal(str(node.this))
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        if inner is not None and inner.type.is_numeric:
            return literal(negative(inner.compute(None)))
    if isinstance(node, exp.Placeholder):
        given = Given.at(node)
        if given is not None:
            return replace(literal(given.value), compute=lambda _: given.value)
    return constant(node.this) if isinstance(node, exp.Paren) else None


def whole(node: exp.Expr) -> int | None:
    """The whole number that a literal is; None for any other node."""
    scalar = constant(node)
    return None if scalar is None or not scalar.type.is_integer else scalar.compute(None)


def is_beyond(node: exp.Expr) -> bool:
    """Whether it is a number of more digits than any type has."""
    scalar = constant(node)
    return scalar is not None and scalar.type is BEYOND


def is_of_no_column(node: exp.Expr) -> bool:
    """Whether a comparison is of a number that no column holds."""
    return is_beyond(node.this) or is_beyond(node.expression)


def typed(node: exp.Expr, kind: SqlType) -> exp.Expr:
    """A node beside one of a type: a literal in quotes is of that type, in an array too.

    Beside a DOUBLE a number of any digits is one. The node itself where nothing becomes another:
    what it is compiled to is known then, and arrays in arrays are compiled once.
    """
    inner = node.unnest()
    if kind.element is not None and isinstance(inner, exp.Array):
        elements = [typed(element, kind.element) for element in inner.expressions]
        if all(map(is_, elements, inner.expressions)):
            return node
        return exp.Array(expressions=[element.copy() for element in elements])
    if kind.fields and isinstance(inner, exp.Struct):
        kinds = dict(kind.fields)
        values = {
            number: typed(field.expression, kinds[field.name])
            for number, field in enumerate(inner.expressions)
            if isinstance(field, exp.PropertyEQ) and field.name in kinds
        }
        if all(value is inner.expressions[number].expression for number, value in values.items()):
            return node
        inner = inner.copy()
        for number, value in values.items():
            inner.expressions[number].set("expression", value.copy())
        return inner
    is_row = isinstance(inner, exp.Anonymous) and inner.name.upper() == "ROW"
    if is_row and kind.fields and len(inner.expressions) == len(kind.fields):
        named = [
            exp.PropertyEQ(this=exp.to_identifier(name), expression=typed(value, of).copy())
            for (name, of), value in zip(kind.fields, inner.expressions, strict=True)
        ]
        return exp.Struct(expressions=named)
    given = Given.at(inner)
    quoted = isinstance(inner, exp.Literal) and inner.is_string
    quoted = quoted or (given is not None and isinstance(given.value, str))
    # An array in quotes is one of PostgreSQL's: what it has inside is no array or struct.
    quoted = quoted and kind not in (TEXT, NULL, BEYOND) and not (kind.element or kind).is_nested
    if quoted or (kind is DOUBLE and is_beyond(inner)):
        return exp.Cast(this=inner.copy(), to=data_type(kind.name))
    return node


def inside(cast: exp.Expr, kind: SqlType) -> exp.Expr:
    """What a CAST to a type is of: a ROW has the names of the struct's fields."""
    of = kind if kind.element is None else kind.element
    inner: exp.Expr = cast.this
    return typed(inner, kind) if of.fields else inner


class _Chain:
    """`a + b - c`: what is first, and each step on from it, NULL where a side is.

    As functions of functions a chain of 400 parts took more of Python's stack than there is.
    """

    __slots__ = ("_first", "_steps")

    def __init__(self, first: Compute, *steps: tuple[Callable[[Any, Any], Any], Compute]) -> None:
        self._first, self._steps = first, steps

    def __call__(self, row: Any) -> Any:
        value = self._first(row)
        for step, right in self._steps:
            other = right(row)
            value = None if value is None or other is None else step(value, other)
        return value

    def on(self, step: Callable[[Any, Any], Any], right: Compute) -> _Chain:
        """The chain with one more part."""
        return _Chain(self._first, *self._steps, (step, right))

    def then(self, follows: Callable[[Any], Any]) -> _Chain:
        """The chain whose last step is followed by another function of its value."""
        *steps, (last, right) = self._steps

        def step(left: Any, other: Any) -> Any:
            value = last(left, other)
            return None if value is None else follows(value)

        return _Chain(self._first, *steps, (step, right))


def strict(compute: Callable[..., Any], *args: Compute) -> Compute:
    """A function that is NULL where an argument is."""
    if len(args) == 2:
        left, right = args
        return (left if isinstance(left, _Chain) else _Chain(left)).on(compute, right)
    if len(args) == 1:
        (argument,) = args
        if isinstance(argument, _Chain):
            return argument.then(compute)

        def unary(row: Any) -> Any:
            value = argument(row)
            return None if value is None else compute(value)

        return unary

    def applied(row: Any) -> Any:
        values = [arg(row) for arg in args]
        return None if None in values else compute(*values)

    return applied
