"""Rows as objects of a class of the user's: a NamedTuple or a dataclass.

Invariant: the fields of a class that gets through `maker` are the relation's columns: the same
names in the same order, and every value of a column is of its field's type. So objects are made
without a check, and type checkers know what comes out. The way back is `Schema.as_row`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    ForwardRef,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)  # fmt: skip

from deltafix.errors import TypeMismatchError
from deltafix.facts.logical_types import LogicalType
from deltafix.facts.schema import Column, Row, Schema
from deltafix.facts.shapes import Types
from deltafix.facts.values import Branch

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Row)
    """What a row is for whoever asked: a tuple, unless a class was named."""
else:
    from typing import TypeVar

    R = TypeVar("R")

_HELD: Final = {"number": int, "unsigned": int, "float": float, "symbol": str}


def maker(schema: Schema, cls: type[R]) -> Callable[[Row], R]:
    """What makes objects of a class from a relation's rows. O(columns).

    A field may be of a wider type than its column's values (`object`, `str | None`), or of a
    NewType of theirs; fields without a type may be anything. Raises TypeMismatchError, naming the
    first column that does not fit.
    """
    names, make = _fields(schema, cls)
    if names != schema.names:
        shown = ", ".join(names)
        raise _unfit(schema, cls, f"its fields are ({shown}), not the columns in their order")
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError) as error:
        raise _unfit(schema, cls, f"the types of its fields cannot be read: {error}") from None
    for column in schema.columns:
        hint = hints.get(column.name, Any)
        shape = column.shape
        if column.of is not None:
            _require_class(schema, cls, column, column.of, hint)
            continue
        types: Types = {} if shape is None else shape.types
        kind = column.type if shape is None else shape.kind
        if not _admits(hint, kind, types, set()):
            wanted = _python_type(kind, types)
            given = hint.__name__ if isinstance(hint, type) else str(hint)
            why = f"field {column.name!r} is {given}, but column {column.name!r} holds {wanted}"
            raise _unfit(schema, cls, why, column.name)
    return make


def _require_class(
    schema: Schema, cls: type[Any], column: Column, kind: LogicalType, hint: Any
) -> None:
    """Raise TypeMismatchError if a field's type has not every value of a logical type."""
    options = list(_options(hint))
    held = {kind.python, NoneType} if kind.nullable else {kind.python}
    if Any in options or object in options or held <= {*options}:
        return
    wanted = (
        " | ".join(sorted(python_type.__name__ for python_type in held - {NoneType}))
        + " | None" * kind.nullable
    )
    given = hint.__name__ if isinstance(hint, type) else str(hint)
    why = f"field {column.name!r} is {given}, but column {column.name!r} holds {wanted}"
    raise _unfit(schema, cls, why, column.name)


def _fields(schema: Schema, cls: type[R]) -> tuple[tuple[str, ...], Callable[[Row], R]]:
    """Names of the fields, and how an object is made of their values."""
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_make"):
        named: Any = cls
        return named._fields, named._make
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        raise _unfit(schema, cls, "a row's class is a NamedTuple or a dataclass")
    fields = dataclasses.fields(cls)
    unset = [field.name for field in fields if not field.init]
    if unset:
        raise _unfit(schema, cls, f"field {unset[0]!r} is not set by its constructor")
    names = tuple(field.name for field in fields)
    if any(field.kw_only for field in fields):
        return names, lambda row: cls(**dict(zip(names, row, strict=True)))
    return names, lambda row: cls(*row)


def _admits(hint: Any, kind: str, types: Types, seen: set[tuple[int, str]]) -> bool:
    """Whether a field's type has every value of a kind: a base type, or a constructed one by name.

    `seen`: what is being asked already, of types that contain themselves.
    """
    if (id(hint), kind) in seen:
        return True
    seen = {*seen, (id(hint), kind)}
    options = list(_options(hint))
    if (
        Any in options
        or object in options
        or any(isinstance(option, ForwardRef) for option in options)
    ):
        return True  # get_type_hints leaves a name where a type has come back to itself
    branches = types.get(kind)
    if branches is None:
        return _HELD[kind] in options
    if "" not in branches:
        return Branch in options
    kinds = [of for _, of in branches[""]]

    def is_record(option: Any) -> bool:
        if option is tuple:
            return True
        items = get_args(option)
        if get_origin(option) is not tuple:
            return False
        if len(items) == 2 and items[1] is ...:
            items = (items[0],) * len(kinds)
        return len(items) == len(kinds) and all(
            _admits(item, of, types, seen) for item, of in zip(items, kinds, strict=True)
        )

    return NoneType in options and any(map(is_record, options))


def _options(hint: Any) -> Iterator[Any]:
    """The types of a union; names and NewTypes are what they stand for."""
    if hasattr(hint, "__supertype__"):
        yield from _options(hint.__supertype__)
    elif hasattr(hint, "__value__"):
        yield from _options(hint.__value__)
    elif get_origin(hint) in (Union, UnionType):
        for option in get_args(hint):
            yield from _options(option)
    else:
        yield hint


def _python_type(kind: str, types: Types) -> str:
    """The type of a column's values in Python, as one would write it."""
    branches = types.get(kind)
    if branches is None:
        return _HELD[kind].__name__
    return "tuple | None" if "" in branches else "Branch"


def _unfit(schema: Schema, cls: Any, why: str, column: str | None = None) -> TypeMismatchError:
    name = cls.__qualname__ if isinstance(cls, type) else repr(cls)
    message = f"{name} is no class for rows of {schema.show()}: {why}"
    return TypeMismatchError(message, relation=schema.relation, column=column, value=cls)
