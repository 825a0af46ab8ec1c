"""Parameters: values for `?` and `:name` in a statement, and for literals that change.

Invariant: a value becomes a literal of the tree, or stands in its place (`scalar.Given`); it is
never text of the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from deltafix.diagnostics import plural
from deltafix.errors import SqlError
from deltafix.sql import intervals
from deltafix.sql.binary import to_text
from deltafix.sql.literals import Given, literal, negative
from deltafix.sql.text import Statement, data_type, exp, shown_name
from deltafix.sql.types import (
    BIGINT,
    INTEGER,
    INTERVAL,
    TIME,
    TIMESTAMPTZ,
    SqlType,
    SqlValue,
    Struct,
    fits,
)

__all__ = [
    "Form", "Parameters", "bound", "equalities", "is_value", "kind_of", "literal_of", "signed",
    "written",
]  # fmt: skip

Parameters: TypeAlias = "Sequence[SqlValue] | Mapping[str, SqlValue]"


class _Slot(NamedTuple):
    """Where a value goes, and the name of the parameter that has it, if it has one.

    `given` stands there where the value is only a value. `is_cell`: it is one of an INSERT, and may
    need to be no expression. `sign` is the one before a literal.
    """

    name: str
    node: exp.Expr
    parent: exp.Expr
    key: str
    at: int | None
    given: Given | None
    is_cell: bool
    sign: int = 1


@dataclass(eq=False, slots=True)
class Form:
    """A tree to put values in, and the slots for them, in the order of the text.

    Attributes:
        named: the first parameter that has a name; "" where none has.
        stays: running the statement leaves the tree as it is.
        kinds: the types of the values that stand in it; None where a value became a literal.
        plans: what runs the statement, by these types (`sql.edits`).
        cells: what stands in each slot, where all are cells of an INSERT; they have no types.
        filled: the statement that it was last bound for, and that with this tree.
    """

    node: exp.Expr
    slots: list[_Slot]
    named: str = ""
    stays: bool = True
    kinds: tuple[SqlType, ...] | None = ()
    plans: dict[tuple[SqlType, ...], Any] = field(default_factory=dict)
    cells: list[Given] | None = None
    filled: tuple[Statement, Statement] | None = None

    def bind(self, statement: Statement, values: Sequence[SqlValue]) -> Statement:
        """Put the values in."""
        if self.cells is None:
            self._bind_each(statement, values)
        else:
            for cell, value in zip(self.cells, values, strict=True):
                cell.value = _in_utc(value) if type(value) is datetime else value
        if self.filled is None or self.filled[0] is not statement:
            self.filled = statement, statement.on(self.node, self)
        return self.filled[1]

    def _bind_each(self, statement: Statement, values: Sequence[SqlValue]) -> None:
        kinds: list[SqlType] | None = []
        for slot, parameter in zip(self.slots, values, strict=True):
            given, value = slot.given, parameter
            kind = None
            if given is not None:
                value = parameter if slot.sign > 0 else negative(parameter)
                given.value = value = _in_utc(value) if type(value) is datetime else value
                kind = None if slot.is_cell else kind_of(given.value)
                if slot.is_cell:
                    continue
            if kind is None:
                expression = literal_of(statement, value, slot.node)
                slot.parent.set(slot.key, expression, slot.at)
                kinds = None
                continue
            if self.kinds is None:  # a literal may be there since the last time
                slot.parent.set(slot.key, slot.node, slot.at)
            if kinds is not None:
                kinds.append(kind)
        self.kinds = None if kinds is None else tuple(kinds)


class bound:  # noqa: N801  it is called as a function is, and a generator cost three times as much
    """`with bound(statement, parameters) as filled`: the statement with its parameters in place.

    Raises SqlProgrammingError. Whoever runs it leaves its tree as it is, and has it while the block
    lasts: the next one gets the same tree with other values. Copying it was a third of an INSERT of
    sixteen values. A tree that is kept (of a view) or rewritten (with subqueries) is bound once.
    """

    __slots__ = ("_form", "_parameters", "_statement")

    def __init__(self, statement: Statement, parameters: Parameters) -> None:
        self._statement, self._parameters = statement, parameters

    def __enter__(self) -> Statement:
        statement, parameters = self._statement, self._parameters
        if type(parameters) is not tuple and (
            isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping)
        ):
            kind = type(parameters).__name__
            message = (
                f"parameters are given as a sequence of values, or a dict by name, not as {kind}"
            )
            raise statement.wrong(message, None, "one value alone goes in a tuple: (1,)")
        try:
            form: Form = statement.forms.pop()
        except IndexError:
            form = _form(statement)
        self._form = form
        values = _values(statement, parameters, form)
        if not form.slots:
            return statement
        return form.bind(statement, values)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._form.stays:
            self._statement.forms.append(self._form)


def _form(statement: Statement) -> Form:
    if not statement.literals and statement.node.find(exp.Placeholder) is None:
        return Form(statement.node, [])
    tree = statement.node.copy()
    stays = not statement.explain and (
        isinstance(tree, exp.Query)  # which is read as a copy
        or (isinstance(tree, exp.Insert | exp.Update | exp.Delete) and not tree.find(exp.Query))
    )
    marks = sorted(tree.find_all(exp.Placeholder), key=lambda mark: mark.meta["start"])
    slots = [_slot(mark, stays) for mark in marks if mark.parent is not None]
    named = next((slot.name for slot in slots if slot.name), "")
    slots += _literals(statement, tree)
    cells = [slot.given for slot in slots if slot.given and slot.is_cell and slot.sign > 0]
    return Form(tree, slots, named, stays, cells=cells if len(cells) == len(slots) else None)


def _literals(statement: Statement, tree: exp.Expr) -> Iterator[_Slot]:
    """The slots of the literals that change, with a parameter in each."""
    literals = {node.meta.get("start"): node for node in tree.find_all(exp.Literal)}
    for start in statement.literals:
        node = literals[start]
        mark = exp.Placeholder()
        mark.meta.update(node.meta)
        whole = signed(node)
        whole.replace(mark)
        yield _slot(mark, True)._replace(sign=1 if whole is node else -1)


def _slot(node: exp.Expr, stays: bool) -> _Slot:
    parent: Any = node.parent
    given = None
    if stays and not isinstance(parent.root(), exp.Query) and is_value(node):
        given = node.meta["given"] = Given()
    name = node.name if node.this else ""
    is_cell = isinstance(parent, exp.Tuple) and given is not None
    return _Slot(name, node, parent, node.arg_key or "", node.index, given, is_cell)


def signed(node: exp.Expr) -> exp.Expr:
    """A literal with the sign before it, which is part of a number."""
    return node.parent if isinstance(node.parent, exp.Neg) else node


_OPERATORS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul, exp.And, exp.Or,
    exp.Not, exp.Paren, exp.Where, exp.Cast,
)  # fmt: skip


def is_value(node: exp.Expr) -> bool:
    """Whether a node of an INSERT, UPDATE or DELETE without a query is only a value there.

    What it is part of computes with it, whatever it is.
    """
    inner, parent = node, node.parent
    while isinstance(parent, _OPERATORS):
        inner, parent = parent, parent.parent
    if isinstance(parent, exp.Update | exp.Delete):
        return inner.arg_key in ("expressions", "where")
    values = parent.parent if isinstance(parent, exp.Tuple) else None
    return isinstance(values, exp.Values) and isinstance(values.parent, exp.Insert)


def _in_utc(moment: datetime) -> datetime:
    """A moment with a zone, if UTC has its year, as columns have it: months are those of UTC."""
    if fits(moment, TIMESTAMPTZ):
        return moment.astimezone(UTC)
    return moment


_KINDS: Final = {
    type(value): literal(value).type for value in ("", 0.0, True, b"", UUID(int=0), None)
}


def kind_of(value: Any) -> SqlType | None:
    """The type of a value that can stand in its place as it is."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if type(value) is int:
        return INTEGER if INTEGER.holds(value) else BIGINT if BIGINT.holds(value) else None
    if type(value) in (date, time, datetime) or (type(value) is Decimal and value.is_finite()):
        kind = literal(value).type
        return kind if fits(value, kind) else None
    return None


def _values(statement: Statement, parameters: Parameters, form: Form) -> Sequence[SqlValue]:
    """The values for a statement's slots, in order. Raises SqlProgrammingError."""
    count = len(form.slots) - len(statement.given)
    if not isinstance(parameters, Mapping):
        if form.named:
            message = f"parameter :{form.named} wants parameters by name"
            raise statement.wrong(message, None, "give a dict")
        if len(parameters) != count:
            raise _count(statement, count, len(parameters))
        return statement.given or parameters
    names = [slot.name for slot in form.slots[:count]]
    for name in names:
        if name not in parameters:
            known = [str(name) for name in parameters]
            raise statement.unknown("parameter", name or "?", known, None)
    return statement.given or [parameters[name] for name in names]


def _count(statement: Statement, wanted: int, given: int) -> SqlError:
    message = f"{plural(wanted, 'parameter')} in the statement, {given} given"
    return statement.wrong(message, None, "give one value for each ?")


def literal_of(statement: Statement, value: SqlValue, mark: exp.Expr) -> exp.Expr:
    """A parameter as an expression, where its mark is.

    Raises SqlProgrammingError for what no type of SQL holds.
    """
    try:
        expression = written(value, statement.dialect)
    except ValueError as error:
        way_out = (
            "give None, bool, int, float, str, bytes, date, time, datetime, timedelta, a UUID, a "
            "Decimal of 38 digits, a list, or a dict"
        )
        raise statement.wrong(str(error), None, way_out) from None
    expression.meta.update({word: mark.meta[word] for word in ("start", "end")})
    return expression


def equalities(row: Mapping[str, SqlValue], dialect: str) -> str:
    """A row as the condition that it fits."""
    return " AND ".join(
        equated(shown_name(name, dialect), value, dialect) for name, value in row.items()
    )


def equated(said: str, value: SqlValue, dialect: str) -> str:
    """That what is said so has a value."""
    return f"{said} {'IS' if value is None else '='} {_compared(value, dialect).sql(dialect)}"


def equal(node: exp.Expr, value: SqlValue, dialect: str) -> exp.Expr:
    """The condition that an expression has a value."""
    kind = exp.Is if value is None else exp.EQ
    return kind(this=node, expression=_compared(value, dialect))


def _compared(value: SqlValue, dialect: str) -> exp.Expr:
    """A value beside `=`: a DOUBLE without CAST, if it has so few digits that any reads it so."""
    shown = repr(value)
    if isinstance(value, float) and math.isfinite(value) and len(shown) <= _EXACT_DIGITS:
        number = exp.Literal.number(shown.removeprefix("-"))
        return exp.Neg(this=number) if shown.startswith("-") else number
    return written(value, dialect)


_EXACT_DIGITS: Final = 15
"""A DECIMAL of so many is exact as a whole number of DOUBLE, and one division from its value."""


def written(value: SqlValue, dialect: str) -> exp.Expr:
    """A value as an expression of a dialect. Raises ValueError for what no type of SQL holds."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, float):
        return _cast(repr(value), "DOUBLE")
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, Struct):
        value = dict(zip(value.names, value, strict=True))
    if isinstance(value, Mapping):
        return exp.Struct(
            expressions=[
                exp.PropertyEQ(
                    this=exp.to_identifier(name, quoted=True), expression=written(field, dialect)
                )
                for name, field in value.items()
            ]
        )
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[written(element, dialect) for element in value])
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value)
        if dialect == "spark":
            return exp.HexString(this=value.hex())
        return _cast(to_text(dialect)(value), "BLOB")
    if isinstance(value, datetime):
        return _cast(value.isoformat(), "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP")
    if isinstance(value, date):
        return _cast(value.isoformat(), "DATE")
    if isinstance(value, time) and fits(value, TIME):
        return _cast(value.isoformat(), "TIME")
    if isinstance(value, UUID):
        return _cast(str(value), "UUID")
    interval = intervals.given(value)
    if isinstance(interval, intervals.Interval) and fits(interval, INTERVAL):
        return _cast(str(interval), "INTERVAL")
    if isinstance(value, Decimal):
        kind = literal(value).type if value.is_finite() else None
        if kind is not None and fits(value, kind):
            return _cast(f"{value:f}", kind.name)
    raise ValueError(f"a parameter of type {type(value).__name__}")


def _cast(text: str, kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=data_type(kind))
