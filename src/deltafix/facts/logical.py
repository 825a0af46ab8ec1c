"""Logical types: what a column holds for its users, where the engine holds it as something else.

A column of the engine is of a base type, its physical type (`facts.arrow`). Where a `Column` has a
logical type too, its values cross every border of a pipeline as that one: read from files, feeds
and DataFrames, written to delta logs and their targets. Invariant: `encode` and `decode` are
inverse on the values that the type has, so equal rows outside are equal rows inside. What types
there are is not said here: SQL's are `deltafix.sql.logical`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from deltafix.facts.values import plain_text, settled

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.facts.schema import Row, Schema


class Logical(Protocol):
    """A logical type; picklable, compares by value."""

    @property
    def nullable(self) -> bool:
        """Whether NULL is one of its values."""

    @property
    def name(self) -> str:
        """What SQL calls it, whether or not NULL is one of its values."""

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type for its values."""

    @property
    def like(self) -> str:
        """A text of one, if not every text is."""

    def takes(self, kind: pa.DataType) -> bool:
        """Whether values of an Arrow type may be values of this one."""

    def encode(self, array: Any) -> pa.Array:
        """Values, as Arrow has them, as the engine's column; null where one is not of the type.

        O(cells), with a Python object for each distinct value that Arrow does not convert.
        """

    def decode(self, array: Any) -> pa.Array:
        """The engine's column as values of `arrow`."""


def as_columns(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Names that come from outside, each as a table's columns have it.

    SQL compares names without regard to capitals: `Name` of a file is the column `name`, unless the
    table has one that is written so, or the file has. What is no column stays as it is.
    """
    given, known = list(names), set(columns)
    folded = {name.lower(): name for name in known}
    if len(folded) < len(known):  # "Name" beside "name": PostgreSQL's dialect tells them apart
        return given
    taken = known.intersection(given)
    matches = (name if name in known else folded.get(name.lower(), name) for name in given)
    return [old if new in taken else new for old, new in zip(given, matches, strict=True)]


def logical_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a relation's rows as its users have them."""
    import pyarrow as pa  # noqa: PLC0415  slow to import

    from deltafix.facts.arrow import arrow_schema  # noqa: PLC0415

    return pa.schema(
        field
        if column.logical is None
        else pa.field(column.name, column.logical.arrow, column.nullable)
        for column, field in zip(schema.columns, arrow_schema(schema), strict=True)
    )


def to_logical(schema: Schema, table: pa.Table) -> pa.Table:
    """The engine's rows as users have them; columns behind the relation's stay. O(cells)."""
    return _converted(schema, table, logical_schema, lambda kind: kind.decode)


def from_logical(schema: Schema, table: pa.Table) -> pa.Table:
    """The inverse of `to_logical`. O(cells)."""
    from deltafix.facts.arrow import arrow_schema  # noqa: PLC0415

    return _converted(schema, table, arrow_schema, lambda kind: kind.encode)


def _converted(
    schema: Schema,
    table: pa.Table,
    fields: Callable[[Schema], pa.Schema],
    way: Callable[[Logical], Callable[[Any], pa.Array]],
) -> pa.Table:
    logical = [
        (n, column.logical) for n, column in enumerate(schema.columns) if column.logical is not None
    ]
    if not logical:
        return table
    wanted = fields(schema)
    for position, kind in logical:
        table = table.set_column(
            position, wanted.field(position), way(kind)(table.column(position))
        )
    return table


def logical_rows(schema: Schema, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The engine's rows of Python values as users have them."""
    from deltafix.facts.arrow import table_from_rows  # noqa: PLC0415

    physical = list(rows)
    if all(column.logical is None for column in schema.columns):
        return physical
    return rows_of(to_logical(schema, table_from_rows(schema, physical)))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """A table of logical values as rows that hash, and are equal where users' are."""
    return list(zip(*(map(_hashed, column.to_pylist()) for column in table.columns), strict=True))


def _hashed(value: Any) -> Any:
    if isinstance(value, list | dict):
        return tuple(map(_hashed, value.values() if isinstance(value, dict) else value))
    return settled(value)


def line_of(row: Iterable[Any]) -> str:
    r"""A row as a line has it: values with tabs between, NULL so, what has parts is JSON.

    A text has escapes for a backslash, tabs and line breaks; one that says NULL is `\NULL`.
    """
    return "\t".join(map(cell, row))


def cell(value: Any) -> str:
    r"""A value as a line has it: see `line_of`."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value == "NULL":
        return r"\NULL"
    text = text_of(value)
    for raw, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(raw, escaped)
    return text


def text_of(value: Any) -> str:
    """A value that is not NULL, as callers have it, as text that inputs take."""
    return as_json(value) if isinstance(value, list | dict) else plain_text(value)


def as_json(value: Any) -> str:
    """An array or a struct, as callers have it, as text that inputs take."""
    return json.dumps(value, default=plain_text, ensure_ascii=False)


def logical_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key that orders rows of one relation: NULLs last, NaN above infinity; in arrays too."""
    return tuple(map(_placed, row))


def _placed(value: Any) -> tuple[Any, ...]:
    if value is None or value != value:  # noqa: PLR0124  NaN
        return (value is None, True, 0)
    return (False, False, logical_order(value) if isinstance(value, tuple) else value)
