"""Relations in SQLite databases: `IO=sqlite`, by the standard library.

A relation is the table (or view) of its name, its columns by position. Numbers are INTEGER, floats
REAL, symbols TEXT; records, and what SQLite's signed integers and floats cannot hold (unsigned
values from 2^63 on, NaN), are the text that fact files have, and text is read like a fact file's
cell. Invariant: what `write_table` writes, `read_table` reads back equal; a table changes whole or
not at all. Where databases lie is the business of `source` and `sink`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from deltafix.diagnostics import plural
from deltafix.errors import DeltafixError, FactError, SinkError, SourceError
from deltafix.facts.codec import read_value
from deltafix.facts.schema import Column, Row, Schema
from deltafix.facts.values import BaseType, Value, write_value

_STORED: Final[dict[BaseType, str]] = {"number": "INTEGER", "float": "REAL", "symbol": "TEXT"}
"""Column types of a table; a column without one (unsigned) keeps integers and text apart."""

_HOLDS: Final = "holds"
"""The one column of a nullary relation's table, which has a row if the relation has."""


def database_name(relation: str, parameters: Mapping[str, str]) -> str:
    """The database a directive names. Raises FactError if it names none."""
    name = parameters.get("dbname", parameters.get("filename", ""))
    if not name:
        message = f'{relation}: IO=sqlite wants a database: dbname="name.db"'
        raise FactError(message, relation=relation)
    return name


def read_table(path: Path, schema: Schema) -> list[Row]:
    """All rows of a relation's table. O(rows).

    Raises:
        SourceError: no such file, no database, or no such table.
        FactError: another number of columns, or a value that its column does not take.
    """
    if not path.is_file():
        raise SourceError(f"{path}: no such database for {schema.show()}", path=str(path))
    label = f"{path}: {schema.relation}"
    with _opened(path, f"{path.absolute().as_uri()}?mode=ro", SourceError) as database:
        cursor = database.execute(f"SELECT * FROM {_quoted(schema.relation)}")  # noqa: S608  quoted
        width = len(cursor.description)
        if width != max(schema.arity, 1):
            has = plural(width, "column")
            message = f"{label}: the table has {has}, {schema.show()} has {schema.arity}"
            raise FactError(message, path=str(path), relation=schema.relation)
        if not schema.columns:
            return [()] if cursor.fetchone() else []
        return [_row(cells, schema, label, n) for n, cells in enumerate(cursor, start=1)]


def write_table(path: Path, schema: Schema, rows: Iterable[Row]) -> None:
    """Make a relation's table anew, in one transaction; other tables stay. O(rows).

    Raises SinkError for a place or database that cannot be written.
    """
    table = _quoted(schema.relation)
    columns = [f"{_quoted(c.name)} {_stored_type(c)}" for c in schema.columns]
    marks = ", ".join("?" * max(schema.arity, 1))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror or error}"
        raise SinkError(message, path=str(path)) from None
    with _opened(path, path.absolute().as_uri(), SinkError) as database:
        database.execute("BEGIN IMMEDIATE")
        known = "SELECT type FROM sqlite_master WHERE name = ?"
        for (kind,) in database.execute(known, (schema.relation,)).fetchall():
            database.execute(f"DROP {'VIEW' if kind == 'view' else 'TABLE'} {table}")
        database.execute(f"CREATE TABLE {table} ({', '.join(columns) or _HOLDS})")
        stored = (tuple(map(_stored, schema.columns, row)) or (1,) for row in rows)
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", stored)  # noqa: S608  quoted
        database.commit()


@contextmanager
def _opened(path: Path, uri: str, refused: type[DeltafixError]) -> Iterator[sqlite3.Connection]:
    """A connection that is closed at the end, uncommitted work undone; its errors are ours."""
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            yield database
    except sqlite3.Error as error:
        raise refused(f"{path}: {error}", path=str(path)) from None


def _quoted(name: str) -> str:
    """An identifier as SQL writes it; nothing inside the quotes is read as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _row(cells: tuple[object, ...], schema: Schema, label: str, number: int) -> Row:
    return tuple(
        _value(cell, column, label, number)
        for cell, column in zip(cells, schema.columns, strict=True)
    )


def _value(cell: object, column: Column, label: str, number: int) -> Value:
    if cell is None and column.nullable:
        return None
    if not isinstance(cell, int | float | str):
        return _refuse(cell, column.name, label, number)
    if column.of is not None and column.of.inner == "boolean" and cell in (0, 1):
        cell = "true" if cell else "false"
    return read_value(str(cell), column, label, number)


def _stored_type(column: Column) -> str:
    """The type of a column of a table."""
    if column.of is None:
        return _STORED.get(column.type, "")
    return {int: "INTEGER", bool: "INTEGER", float: "REAL"}.get(column.of.python, "TEXT")


def _refuse(cell: object, column: str, label: str, number: int) -> Value:
    shown = "NULL" if cell is None else "bytes"
    message = f"{label}:{number}: column {column!r} is {shown}, which is no value"
    raise FactError(message, line=number, column=column)


def _stored(column: Column, value: Value) -> int | float | str | None:
    if value is None and column.nullable:
        return None
    if column.of is not None and not isinstance(value, int | float):
        return column.of.to_text(value)
    if not isinstance(value, int | float | str):
        return write_value(value)
    if isinstance(value, int) and value >= 1 << 63:
        return str(value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value
