"""What a scalar function of SQL is: its arguments, the type of its value, and how it is computed.

Lives here: `Function`, and what functions say of the types that they take. Invariant: a result is
None where the arguments' types do not fit, and nothing is converted unasked. The functions are
`sql.functions`', `sql.texts`' and `sql.numbers`'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltafix.sql.types import BIGINT, BLOB, DOUBLE, NULL, TEXT, SqlType, common_type

__all__ = [
    "Function", "Result", "common", "doubles", "number", "of_types", "sized", "texts",
    "texts_or_bytes",
]  # fmt: skip

Result: TypeAlias = Callable[[Sequence[SqlType]], "SqlType | None"]


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        usage: how it is written.
        arguments: the arguments of sqlglot's node, in order; a list there is several.
        result: the type of its value, None where the arguments' types do not fit.
        compute: its value.
        strict: NULL where an argument is NULL; otherwise `compute` sees None.
        nullable: for what is not strict: whether it can be NULL.
        flags: arguments of the node that change nothing here.
        least: the least number of arguments.
        unites: whether the arguments are converted to the type of the value first.
        takes: the types that the arguments are converted to first, if it says them.
        of_type: whether `compute` takes, before the arguments, the type of the value.
        only: the dialects that have it so, if not all do.
        fixed: `compute` of the first argument, for constants in place of the others.
        lazy: whether `compute` takes an iterator, and computes no more arguments than it asks for.
    """

    usage: str
    arguments: tuple[str, ...]
    result: Result
    compute: Callable[..., Any]
    strict: bool = True
    nullable: Callable[[Sequence[bool]], bool] = any
    flags: tuple[str, ...] = ()
    least: int = 1
    unites: bool = False
    takes: tuple[SqlType, ...] = ()
    of_type: bool = False
    only: tuple[str, ...] = ()
    fixed: Callable[..., Callable[[Any], Any]] | None = None
    lazy: bool = False


def of_types(parameters: Sequence[SqlType], returned: SqlType) -> Result:
    """The result of a function of arguments of exactly these types (integers of any width)."""

    def result(types: Sequence[SqlType]) -> SqlType | None:
        fit = len(types) <= len(parameters) and all(
            common_type(kind, parameter) == parameter or (kind.is_integer and parameter.is_integer)
            for kind, parameter in zip(types, parameters, strict=False)
        )
        return returned if fit else None

    return result


def texts(types: Sequence[SqlType]) -> SqlType | None:
    """Of texts: a text."""
    return TEXT if all(kind in (TEXT, NULL) for kind in types) else None


def texts_or_bytes(types: Sequence[SqlType]) -> SqlType | None:
    """Of texts a text, of binary values one of these."""
    return texts(types) or (BLOB if all(kind in (BLOB, NULL) for kind in types) else None)


def common(types: Sequence[SqlType]) -> SqlType | None:
    """The type that all convert to."""
    united: SqlType | None = NULL
    for kind in types:
        united = None if united is None else common_type(united, kind)
    return united


def sized(types: Sequence[SqlType]) -> SqlType | None:
    """The size of an array."""
    return BIGINT if types and (types[0].element or types[0] == NULL) else None


def number(types: Sequence[SqlType]) -> SqlType | None:
    """The type of the first, which is a number."""
    return types[0] if types and (types[0].is_numeric or types[0] == NULL) else None


def doubles(types: Sequence[SqlType]) -> SqlType | None:
    """Of numbers of any type: a DOUBLE."""
    return DOUBLE if types and all(kind.is_numeric or kind == NULL for kind in types) else None
