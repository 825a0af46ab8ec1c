"""Parameters: values for `?` and `:name` in a statement.

Invariant: a value becomes a literal of the tree, or is a value to insert; never text of the
statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from sqlglot.dialects.dialect import Dialect

from deltafix.errors import SqlError
from deltafix.sql.binary import to_text
from deltafix.sql.scalar import literal
from deltafix.sql.text import Statement, data_type, exp, shown_name
from deltafix.sql.types import SqlValue, Struct, fits

__all__ = ["Parameters", "bound", "equalities", "literal_of", "written"]

Parameters: TypeAlias = "Sequence[SqlValue] | Mapping[str, SqlValue]"


class _Place(NamedTuple):
    """Where a parameter goes, and its name, if it has one.

    One that is a value of an INSERT stays, and notes its own: most need to be no expression.
    """

    name: str
    node: exp.Expr
    parent: exp.Expr
    key: str
    at: int | None
    inserted: bool


class _Form(NamedTuple):
    """A tree to put values in, their places in the order of the text.

    It stays as it is where running the statement does not change it.
    """

    node: exp.Expr
    places: list[_Place]
    stays: bool = True


@contextmanager
def bound(statement: Statement, parameters: Parameters) -> Iterator[Statement]:
    """The statement with its parameters in place. Raises SqlProgrammingError.

    Whoever runs it leaves its tree as it is, and has it while the block lasts: the next one gets
    the same tree with other values. Copying it was a third of an INSERT of
    sixteen values. A tree that is kept (of a view) or rewritten (with subqueries) is bound
    once.
    """
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        kind = type(parameters).__name__
        message = f"parameters are given as a sequence of values, or a dict by name, not as {kind}"
        raise statement.wrong(message, None, "one value alone goes in a tuple: (1,)")
    try:
        form = statement.forms.pop()
    except IndexError:
        form = _form(statement)
    values = _values(statement, parameters, form)
    for one, value in zip(form.places, values, strict=True):
        if one.inserted:
            one.node.meta["value"] = value
            continue
        is_place = one.key == "expressions" and isinstance(one.parent, exp.Bracket)
        value_there = _from_0(value, statement) if is_place else value
        one.parent.set(one.key, literal_of(statement, value_there), one.at)
    yield replace(statement, node=form.node) if form.places else statement
    if form.stays:
        statement.forms.append(form)


def _form(statement: Statement) -> _Form:
    if statement.node.find(exp.Placeholder) is None:
        return _Form(statement.node, [])
    tree = statement.node.copy()
    places = [
        _Place(
            one.name if one.this else "",
            one,
            one.parent,
            one.arg_key or "",
            one.index,
            _is_inserted(one),
        )
        for one in sorted(tree.find_all(exp.Placeholder), key=_order)
        if one.parent is not None
    ]
    stays = not statement.explain and (
        isinstance(tree, exp.Query)  # which is read as a copy
        or (isinstance(tree, exp.Insert | exp.Update | exp.Delete) and not tree.find(exp.Query))
    )
    return _Form(tree, places, stays)


def _is_inserted(node: exp.Expr) -> bool:
    """Whether a node is a value of an INSERT ... VALUES."""
    row = node.parent
    values = row.parent if isinstance(row, exp.Tuple) else None
    return isinstance(values, exp.Values) and isinstance(values.parent, exp.Insert)


def _values(statement: Statement, parameters: Parameters, form: _Form) -> Sequence[SqlValue]:
    """The values of a statement's places, in order. Raises SqlProgrammingError."""
    names = [one.name for one in form.places]
    if not isinstance(parameters, Mapping):
        named = next(filter(None, names), None)
        if named is not None:
            message = f"parameter :{named} wants parameters by name"
            raise statement.wrong(message, None, "give a dict")
        if len(names) != len(parameters):
            raise _count(statement, len(names), len(parameters))
        return parameters
    for name in names:
        if name not in parameters:
            known = [str(name) for name in parameters]
            raise statement.unknown("parameter", name or "?", known, None)
    return [parameters[name] for name in names]


def _order(node: exp.Expr) -> tuple[int, ...]:
    """Where a node stands in its statement: sqlglot notes no offsets for `?`."""
    path: list[int] = []
    while node.parent is not None:
        path.append(node.index or 0)
        path.append(_ORDER.get(node.arg_key or "", 50))
        node = node.parent
    return tuple(reversed(path))


_ORDER = {
    "with_": 0, "this": 10, "expressions": 20, "from_": 30, "joins": 40, "ifs": 50, "low": 55,
    "high": 56, "true": 57, "default": 60, "false": 60, "expression": 65, "where": 70, "query": 72,
    "group": 75, "having": 80, "order": 85, "limit": 90, "offset": 95,
}  # fmt: skip


def _from_0(value: SqlValue, statement: Statement) -> SqlValue:
    """A place in an array as trees have it: sqlglot counts those in the text from 0."""
    first: int = Dialect.get_or_raise(statement.dialect).INDEX_OFFSET
    return value - first if isinstance(value, int) and not isinstance(value, bool) else value


def _count(statement: Statement, wanted: int, given: int) -> SqlError:
    message = f"{wanted} parameters in the statement, {given} given"
    return statement.wrong(message, None, "give one value for each ?")


def literal_of(statement: Statement, value: SqlValue) -> exp.Expr:
    """A parameter as an expression. Raises SqlProgrammingError for what no type of SQL holds."""
    try:
        return written(value, statement.dialect)
    except ValueError as error:
        way_out = (
            "give None, bool, int, float, str, bytes, date, datetime, a Decimal of 18 digits, a "
            "list, or a dict"
        )
        raise statement.wrong(str(error), None, way_out) from None


def equalities(row: Mapping[str, SqlValue], dialect: str) -> str:
    """A row as the condition that it fits."""
    return " AND ".join(
        f"{shown_name(name, dialect)} "
        + ("IS NULL" if value is None else f"= {written(value, dialect).sql(dialect)}")
        for name, value in row.items()
    )


def written(value: SqlValue, dialect: str) -> exp.Expr:
    """A value as an expression of a dialect. Raises ValueError for what no type of SQL holds."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        one = exp.Literal.number(abs(value))
        return exp.Neg(this=one) if value < 0 else one
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
                    this=exp.to_identifier(name, quoted=True), expression=written(one, dialect)
                )
                for name, one in value.items()
            ]
        )
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[written(one, dialect) for one in value])
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes(value)
        if dialect == "spark":
            return exp.HexString(this=value.hex())
        return _cast(to_text(dialect)(value), "BLOB")
    if isinstance(value, datetime):
        return _cast(value.isoformat(), "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP")
    if isinstance(value, date):
        return _cast(value.isoformat(), "DATE")
    if isinstance(value, Decimal):
        kind = literal(value).type if value.is_finite() else None
        if kind is not None and fits(value, kind):
            return _cast(f"{value:f}", kind.name)
    raise ValueError(f"a parameter of type {type(value).__name__}")


def _cast(text: str, kind: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=data_type(kind))
