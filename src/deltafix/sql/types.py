"""The types of SQL: what a column holds, and what the engine holds for it.

A value of a nullable column is a record of one field, and NULL is `nil`; a column that cannot be
NULL holds the bare value, so it pays nothing for NULLs elsewhere. Booleans are the numbers 0 and 1.
Invariant: `encode` and `decode` are inverse on the values that a type has; `encode` is the one
door, and refuses all others. Casts between types are `sql.scalar`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from deltafix.facts.schema import BaseType, Row
from deltafix.rules.ast import Attribute, Constructor, TypeDecl

__all__ = [
    "BIGINT",
    "BOOLEAN",
    "DOUBLE",
    "INTEGER",
    "NULL",
    "NULLABLE_TYPES",
    "SMALLINT",
    "TEXT",
    "Column",
    "SqlType",
    "SqlValue",
    "common_type",
    "decode",
    "decode_rows",
    "encode",
    "fits",
    "type_of",
]

SqlValue: TypeAlias = "int | float | str | bool | None"


@dataclass(frozen=True, slots=True, eq=False)
class SqlType:
    """One type of SQL: its name, the engine's base type, and the bits of an integer.

    There is one object for each type, so types are compared by identity: values are checked by type
    one by one, and comparing fields was a seventh of the time of an insert (cProfile).
    """

    name: str
    base: BaseType
    bits: int = 0

    @property
    def is_integer(self) -> bool:
        """Whether its values are whole numbers."""
        return self.bits > 0

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic takes its values."""
        return self.bits > 0 or self.base == "float"

    @property
    def zero(self) -> int | float | str:
        """The engine's value that stands where a column has no meaning."""
        zeros: dict[BaseType, int | float | str] = {"float": 0.0, "symbol": ""}
        return zeros.get(self.base, 0)


SMALLINT: Final = SqlType("SMALLINT", "number", 16)
INTEGER: Final = SqlType("INTEGER", "number", 32)
BIGINT: Final = SqlType("BIGINT", "number", 64)
DOUBLE: Final = SqlType("DOUBLE", "float")
TEXT: Final = SqlType("TEXT", "symbol")
BOOLEAN: Final = SqlType("BOOLEAN", "number")
NULL: Final = SqlType("NULL", "number")
"""The type of NULL where nothing else says one; it fits every type."""

_NULLABLE: Final[dict[str, str]] = {
    base: f"nullable_{base}" for base in ("number", "float", "symbol")
}

NULLABLE_TYPES: Final = tuple(
    TypeDecl(name, "record", branches=(Constructor("", (Attribute("value", base),)),))
    for base, name in _NULLABLE.items()
)
"""The engine's types of nullable columns: every program has them."""

_RANK: Final = (NULL, SMALLINT, INTEGER, BIGINT, DOUBLE)
"""Each converts to those after it."""

_NAMES: Final = {
    "SMALLINT": SMALLINT,
    "INT": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, a view or a result."""

    name: str
    type: SqlType
    nullable: bool = True

    @property
    def engine_type(self) -> str:
        """The name of the engine's type for its values."""
        return _NULLABLE[self.type.base] if self.nullable else self.type.base

    def attribute(self, name: str) -> Attribute:
        """The engine's column."""
        return Attribute(name, self.engine_type)

    def encode(self, value: SqlValue) -> Any:
        """The engine's value. Raises ValueError, saying what would be valid."""
        return encode(value, self.type, nullable=self.nullable)


def type_of(name: str) -> SqlType | None:
    """The type that sqlglot calls `name`, or None if tables cannot have it."""
    return _NAMES.get(name)


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type to which both convert without loss of meaning, or None."""
    if right in (left, NULL):
        return left
    if left == NULL:
        return right
    if left in _RANK and right in _RANK:
        return max(left, right, key=_RANK.index)
    return None


def fits(value: SqlValue, kind: SqlType) -> bool:
    """Whether a value that is not NULL is one of the type's."""
    if kind == BOOLEAN:
        return isinstance(value, bool)
    if kind.is_integer:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and -(1 << kind.bits - 1) <= value < 1 << kind.bits - 1  # type: ignore[operator]
    if kind == DOUBLE:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def encode(value: SqlValue, kind: SqlType, *, nullable: bool) -> Any:
    """The engine's value for a value of SQL. Raises ValueError, saying what would be valid."""
    if value is None:
        if nullable:
            return None
        raise ValueError("NULL in a column that is NOT NULL")
    if not fits(value, kind):
        valid = f"whole numbers of {kind.bits} bits" if kind.is_integer else kind.name
        raise ValueError(f"{value!r} is no {kind.name}; the column takes {valid}")
    if kind.base == "float":
        found: Any = _one_nan(float(value))
    else:
        found = int(value) if kind == BOOLEAN else value
    return (found,) if nullable else found


def decode(value: Any, column: Column) -> SqlValue:
    """The value of SQL for an engine's value."""
    if column.nullable:
        if value is None:
            return None
        (value,) = value
    if column.type is DOUBLE:
        return _one_nan(value)
    return bool(value) if column.type is BOOLEAN else value


def _one_nan(value: float) -> float:
    """The value; NaN as one object, which is equal to itself as a key and in a row."""
    return value if value == value else math.nan  # noqa: PLR0124  NaN


def decode_rows(rows: Iterable[Row], columns: Iterable[Column]) -> list[tuple[SqlValue, ...]]:
    """Rows of the engine as rows of SQL: the first columns of each."""
    shape = tuple(columns)
    return [tuple(map(decode, row, shape)) for row in rows]
