"""Rows of values for a table as callers have them: sequences, dicts, dataclass objects, frames.

Nothing is changed here: what comes of them is an `Edit`, as of a statement (`sql.edits`).
Invariant: its rows are as the engine has them, every value was checked against its column, and no
row breaks a CHECK; keys are the connection's to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deltafix.diagnostics import plural
from deltafix.errors import SqlIntegrityError
from deltafix.facts.logical import as_columns
from deltafix.facts.schema import Row
from deltafix.facts.values import shown
from deltafix.sql import scans
from deltafix.sql.casts import assigned
from deltafix.sql.tables import Cell, Table
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import TIMESTAMPTZ, Column, SqlValue, decode_rows, row_as_sql

if TYPE_CHECKING:
    from deltafix.engine.coded import CodedRows
    from deltafix.sql.columns import Batch

__all__ = [
    "CodedEdit",
    "Edit",
    "Other",
    "checked",
    "encoded",
    "given",
    "inserted",
    "name_rows",
    "replaced",
]


class Edit(NamedTuple):
    """A table, the rows removed, and the rows added.

    The first of those removed became those `replaced`, in this order, which are the first of those
    added. `numbers` say where those added stand among the rows given, if these are not the same.
    Many to insert may be a `Batch`, until they are codes.
    """

    table: Table
    removed: list[Row]
    added: list[Row] | Batch
    replaced: Sequence[Row] = ()
    numbers: Sequence[int] | None = None

    @property
    def size(self) -> int:
        """How many rows it changes."""
        return len(self.removed) + len(self.added) - len(self.replaced)


class CodedEdit(NamedTuple):
    """An edit of many rows as codes; so many of those removed, the first, became those added.

    `again` makes it by row, in the order in which an error is to find them; before it is made.
    """

    table: Table
    removed: CodedRows
    added: CodedRows
    replaced: int = 0
    again: Callable[[], Edit] | None = None

    @property
    def size(self) -> int:
        """How many rows it changes."""
        return len(self.removed) + len(self.added) - self.replaced

    def by_row_again(self) -> Edit:
        """It anew by row, in the order in which an error finds them."""
        return self.by_row() if self.again is None else self.again()

    def by_row(self) -> Edit:
        """The same with rows as tuples. O(cells)."""
        removed, added = self.removed.rows(), self.added.rows()
        return Edit(self.table, removed, added, added[: self.replaced])


def name_rows(error: SqlIntegrityError, edit: Edit, given: Sequence[Edit]) -> None:
    """Have the error of an edit name rows by where they stand among those given, if they do."""
    error.table = edit.table.relation.name
    if all(edit is not other for other in given):  # it follows from them
        error.rows = ()
    elif edit.numbers is not None:
        error.rows = tuple(edit.numbers[number] for number in error.rows)


def encoded(
    statement: Statement,
    column: Column,
    value: SqlValue,
    node: exp.Expr | None = None,
    row: int | None = None,
) -> Any:
    """A value as the engine has it. Raises SqlIntegrityError, SqlDataError, naming the `row`."""
    try:
        try:
            return column.encode(value)
        except ValueError:  # few values are: each is looked at once
            return column.encode(assigned(value, column.type))
    except (ValueError, ArithmeticError) as error:
        message = f"column {column.name!r}: {error}"
        if row is not None:
            message = f"row {row}, {message}"
        if value is None:
            raise statement.integrity(message, "give it a value", node=node) from None
        raise statement.data(message, node, _way_out(statement, column, value)) from None


def _way_out(statement: Statement, column: Column, value: SqlValue) -> str | None:
    """What to do about a moment without a zone for a column of those with one; or a whole float."""
    if column.type.is_integer and isinstance(value, float) and value.is_integer():
        as_whole = f"df.astype({{{column.name!r}: 'Int64'}})"
        return f"give it as int; a frame of pandas has it so, and NULLs beside it, by {as_whole}"
    if column.type is not TIMESTAMPTZ or not isinstance(value, datetime):
        return None
    kind = "TIMESTAMP_NTZ" if statement.dialect == "spark" else "TIMESTAMP"
    return f"give it one, tzinfo=datetime.UTC; without zones the column is a {kind}"


def checked(statement: Statement, edit: Edit) -> Edit:
    """The edit, if no row that it adds breaks a CHECK. Raises SqlIntegrityError, SqlDataError."""
    table, added = edit.table, edit.added
    rows = decode_rows(added if table.checks else (), table.relation.columns)
    for number, row in enumerate(rows):
        for check in table.checks:
            try:
                holds = check.compute(row) is not False
            except (ValueError, ArithmeticError) as error:
                raise statement.data(f"CHECK ({check.text}): {error}") from None
            if not holds:
                message = f"{table.relation.name}: {row_as_sql(row)} breaks CHECK ({check.text})"
                raise statement.integrity(message, rows=(number,))
    return edit


Other: TypeAlias = "Callable[[int, int, SqlValue], tuple[SqlValue, exp.Expr]]"
"""What a statement makes of a value that is none of its column's type, and where that stands.

By the number of its row, and its place among those named."""


def given(statement: Statement, table: Table, rows: Any, columns: Sequence[str] = ()) -> Edit:
    """Rows to insert: one by one, or a frame; of the columns named, or of all it has."""
    frame = None
    if isinstance(rows, str | bytes | Mapping) or not (
        isinstance(rows, Iterable) or hasattr(rows, "__arrow_c_stream__")
    ):
        message = f"rows are given as an iterable of rows, or a frame, not as {type(rows).__name__}"
        is_lazy = hasattr(rows, "collect")  # as polars has frames that are not computed yet
        raise statement.wrong(message, None, "call .collect()" if is_lazy else _ROWS)
    if not isinstance(rows, list | tuple):
        from deltafix.sql.columns import framed  # noqa: PLC0415  pyarrow is slow to import

        frame = framed(statement, rows)
    known = [column.name for column in table.relation.columns]
    if frame is not None:
        frame = frame.rename_columns(as_columns(frame.column_names, known))
    names = as_columns(columns, known) or (known if frame is None else frame.column_names)
    present = names if frame is None else frame.column_names
    for some in (known, present) if columns or frame is not None else ():
        for name in names:
            if name not in some:
                raise statement.unknown("column", name, some, None)
            if names.count(name) > 1 or present.count(name) > 1:
                raise statement.wrong(f"column {name!r} is given twice", None, "give it once")
    if frame is None:
        return inserted(statement, table, names, _in_order(statement, table, names, list(rows)))
    return _tabular(statement, table, {n: frame.column(n) for n in names}, frame.num_rows)


_ROWS = "one row alone goes in a list: [(1, 'a')], or by name [{'id': 1, 'name': 'a'}]"


def _in_order(
    statement: Statement, table: Table, names: Sequence[str], rows: list[Any]
) -> list[Sequence[SqlValue]]:
    """Rows as sequences of values for the columns named; one by name has its values put in order.

    Raises SqlProgrammingError, SqlIntegrityError, naming the row from 0.
    """
    if set(map(type, rows)) <= {tuple, list}:
        return rows
    columns = {column.name: (at, column) for at, column in enumerate(table.relation.columns)}
    ordered = list[Sequence[SqlValue]]()
    for number, row in enumerate(rows):
        given = row
        if is_dataclass(row) and not isinstance(row, type):
            given = {field.name: getattr(row, field.name) for field in fields(row)}
        if isinstance(given, Mapping):
            if not given.keys() <= columns.keys():
                spelled = as_columns(map(str, given), columns)
                if len({*spelled}) < len(spelled):
                    twice = next(name for name in spelled if spelled.count(name) > 1)
                    message = f"column {twice!r} is given twice in row {number}"
                    raise statement.wrong(message, None, "give it once")
                given = dict(zip(spelled, given.values(), strict=True))
            for name in given:
                if name not in names:
                    raise statement.unknown(f"column in row {number},", str(name), names, None)
            values = []
            for name in names:
                at, column = columns[name]
                value = given[name] if name in given else table.defaults.get(at)
                if value is None and name not in given and not column.nullable:
                    message = f"row {number} has no value for column {name!r}, which is NOT NULL"
                    raise statement.integrity(message, f"the row has: {', '.join(given)}")
                values.append(value)
            ordered.append(values)
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes | bytearray):
            ordered.append(row)
        else:
            message = (
                f"row {number} is {shown(row)} ({type(row).__name__}), but a row is a value for "
                f"each of ({', '.join(names)}): a tuple, a list, a dict, an object of a dataclass"
            )
            raise statement.wrong(message, None, _ROWS)
    return ordered


def _tabular(
    statement: Statement,
    table: Table,
    named: Mapping[str, Any],
    count: int,
    other: Other | None = None,
) -> Edit:
    """Rows to insert, as so many values of each column named, or columns of Arrow."""
    from deltafix.sql.columns import Batch, coded, listed, written  # noqa: PLC0415  as above

    columns = []
    for cell in table.cells([*named]):
        column, values = cell.column, named.get(cell.column.name)
        if values is None:
            default = encoded(statement, column, cell.default)
            columns.append(written(column, [default] * count))
            continue
        done = coded(column, values)
        if done is None:
            each = [
                _encoded(statement, cell, value, number, other)
                for number, value in enumerate(listed(statement, column, values))
            ]
            done = written(column, each)
        columns.append(done)
    if table.numbered:
        columns.append(written(table.relation.hidden[0], table.numbers(count)))
    return checked(statement, Edit(table, [], Batch(table.relation, columns)))


def inserted(
    statement: Statement,
    table: Table,
    names: Sequence[str],
    rows: Sequence[Sequence[SqlValue]],
    other: Other | None = None,
) -> Edit:
    """Rows to insert, of the columns named; the others have their default, or are NULL."""
    if len(rows) >= scans.MANY and all(len(row) == len(names) for row in rows):
        named = dict(zip(names, zip(*rows, strict=True), strict=True))
        return _tabular(statement, table, named, len(rows), other)
    cells = table.cells(names)
    added = []
    for number, row in enumerate(rows):
        if len(row) != len(names):
            message = (
                f"row {number} has {plural(len(row), 'value')} for {plural(len(names), 'column')}"
                f" ({', '.join(names)})"
            )
            raise statement.wrong(message, None, "give each column one value")
        values: list[Any] = []
        for cell in cells:  # as `_encoded` begins: a call for each value was 40 % of the time more
            _, write, position, default, nullable = cell
            value = default if position is None else row[position]
            written = write(value)
            if written is None:
                values.append(_encoded(statement, cell, value, number, other))
            else:
                values.append((written,) if nullable else written)
        if table.numbered:
            values += table.numbers(1)
        added.append(tuple(values))
    return checked(statement, Edit(table, [], added))


def _encoded(
    statement: Statement, cell: Cell, value: SqlValue, number: int, other: Other | None
) -> Any:
    """A value of a row as the engine has it. Raises SqlIntegrityError, SqlDataError."""
    column, write, position, *_ = cell
    written = write(value)
    if written is not None:
        return (written,) if column.nullable else written
    if value is None and column.nullable:
        return None
    node = None
    if other is not None and position is not None:
        value, node = other(number, position, value)
    return encoded(statement, column, value, node, number if other is None else None)


def replaced(statement: Statement, table: Table, rows: Any, stored: Sequence[Row]) -> Edit:
    """What makes the `stored` rows of a table to be `rows`; equal ones stay. O(rows)."""
    width = len(table.relation.columns)
    kept: dict[Row, list[Row]] = {}
    for row in stored:
        kept.setdefault(row[:width], []).append(row)
    added = {}
    for number, row in enumerate(given(statement, table, rows).added):
        same = kept.get(row[:width])
        if same:
            same.pop()
        else:
            added[number] = row
    removed = [row for rest in kept.values() for row in rest]
    return Edit(table, removed, [*added.values()], numbers=[*added])
