"""Cursors, as PEP 249 has them: a statement's rows, to be fetched.

Invariant: the rows are those of the moment the statement ran; later statements do not change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Self

from deltafix.diagnostics import plural
from deltafix.errors import SqlOperationalError
from deltafix.facts.logical import cell
from deltafix.facts.relation_delta import SHOWN, Tabular, html_table
from deltafix.sql.types import (
    INTERVAL,
    NULL,
    UUID,
    Column,
    SqlType,
    SqlValue,
    optional_of,
    shown_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.sql.connection import Connection
    from deltafix.sql.parameters import Parameters

__all__ = ["Cursor", "array_of", "arrow_type", "as_arrow"]


def arrow_type(kind: SqlType) -> Any:
    """Arrow's type for the values of a type of SQL."""
    import pyarrow as pa  # noqa: PLC0415  only when a table is asked for

    from deltafix.facts import logical_arrow  # noqa: PLC0415

    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.fields:
        return pa.struct([(name, arrow_type(field)) for name, field in kind.fields])
    if kind is NULL:
        return pa.null()
    if kind is INTERVAL:
        return pa.month_day_nano_interval()
    if kind.is_integer:
        return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
    return logical_arrow.arrow_type(optional_of(kind))


def array_of(values: Sequence[Any], kind: SqlType) -> pa.Array:
    """Values of a type, as callers have them, as one column of Arrow."""
    import pyarrow as pa  # noqa: PLC0415

    from deltafix.facts.logical_arrow import texts_for_uuids  # noqa: PLC0415

    return pa.array(texts_for_uuids(values) if kind.has(UUID) else values, arrow_type(kind))


def as_arrow(rows: Sequence[Sequence[Any]], columns: Sequence[Column]) -> pa.Table:
    """Rows, as callers have them, as an Arrow table with the types of their columns."""
    import pyarrow as pa  # noqa: PLC0415  only when a table is asked for

    arrays = [array_of([row[n] for row in rows], column.type) for n, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


class Cursor(Tabular):
    """Made by `Connection.cursor` and `Connection.execute`; iterating gives the rows left.

    Attributes:
        description: for each column its name and type, then five times None; None without rows.
        rowcount: rows that an edit changed, or that a SELECT has; -1 before any statement.
        arraysize: how many rows `fetchmany` gives.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._columns: tuple[Column, ...] = ()
        self._rows: list[tuple[SqlValue, ...]] | None = None
        self._next = 0

    def execute(self, sql: str, parameters: Parameters = (), *, path: str | None = None) -> Self:
        """See `Connection.execute`."""
        self._forget()
        for result in self.connection.run(sql, parameters, path):
            self._forget()
            if isinstance(result, int):
                self.rowcount = result
                continue
            self._columns = result.columns
            self._rows = shown_rows(result.rows, result.columns)
            self.rowcount = len(result.rows)
            nothing = (None,) * 5
            self.description = [(c.name, c.type.name, *nothing) for c in result.columns]
        return self

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> Self:
        """Run one statement for each row of parameters, as one transaction."""
        self._forget()
        self.rowcount = self.connection.run_many(sql, rows)
        return self

    def fetchone(self) -> tuple[SqlValue, ...] | None:
        """The next row, or None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[SqlValue, ...]]:
        """The next rows, `arraysize` of them if no size is given."""
        rows = self._known()
        first = self._next
        self._next = min(len(rows), first + (self.arraysize if size is None else size))
        return rows[first : self._next]

    def fetchall(self) -> list[tuple[SqlValue, ...]]:
        """All rows left."""
        return self.fetchmany(len(self._known()))

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table, with the types of their columns."""
        return as_arrow(self._known(), self._columns)

    def close(self) -> None:
        """Forget the rows."""
        self._forget()

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """PEP 249 has it; nothing depends on it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """PEP 249 has it; nothing depends on it."""

    def __repr__(self) -> str:
        if self._rows is None:
            return f"<Cursor, {self.rowcount} rows changed>" if self.rowcount >= 0 else "<Cursor>"
        names = ", ".join(column.name for column in self._columns)
        return f"<Cursor, {plural(len(self._rows), 'row')} of ({names})>"

    def _repr_html_(self) -> str:
        """All rows, those that were fetched too, as a notebook shows them."""
        if self._rows is None:
            return f"<p>{escape(repr(self)[1:-1])}</p>"
        lines = ([cell(value) for value in row] for row in self._rows[:SHOWN])
        caption = plural(len(self._rows), "row")
        names = [column.name for column in self._columns]
        return html_table(caption, names, lines, len(self._rows) - SHOWN)

    def __iter__(self) -> Iterator[tuple[SqlValue, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _known(self) -> list[tuple[SqlValue, ...]]:
        if self._rows is None:
            raise SqlOperationalError("the last statement has no rows; execute a SELECT first")
        return self._rows

    def _forget(self) -> None:
        self.description, self.rowcount, self._rows, self._next = None, -1, None, 0
