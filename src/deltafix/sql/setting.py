"""SET column = value, and what computes values of a row: parts of UPDATE, MERGE and ON CONFLICT.

Which rows are changed is said elsewhere (`sql.edits`, `sql.merging`, `sql.upserts`). Invariant:
what computing a value raises is an error of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deltafix.sql.literals import Compute
from deltafix.sql.rows import CodedEdit
from deltafix.sql.scans import Columns, passing, stored
from deltafix.sql.tables import Table
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column, SqlValue
from deltafix.sql.vectors import ByValueError

if TYPE_CHECKING:
    from deltafix.engine.coded import CodedRows
    from deltafix.sql.connection import Connection

__all__ = ["computed", "set_positions", "sound", "to_insert", "where_of"]


def set_positions(
    statement: Statement, node: exp.Expr, table: str, columns: Sequence[Column]
) -> Iterator[int]:
    """The columns of a table that SET names."""
    names = [column.name for column in columns]
    seen = set()
    for assignment in node.expressions:
        name = assignment.this.name
        if not isinstance(assignment.this, exp.Column) or assignment.this.table not in ("", table):
            way_out = "set the whole column, and write out the parts that stay"
            raise statement.refused("SET of a part of a column", assignment.this, way_out)
        if name not in names:
            raise statement.unknown("column", name, names, assignment.this)
        if name in seen:
            raise statement.wrong(f"column {name!r} is set twice", assignment.this, "set it once")
        seen.add(name)
        yield names.index(name)


def where_of(node: exp.Expr) -> exp.Expr | None:
    """The condition of a WHERE."""
    where = node.args.get("where")
    return None if where is None else where.this


def computed(
    statement: Statement,
    compute: Compute,
    row: Sequence[SqlValue],
    node: exp.Expr | None = None,
    column: Column | None = None,
) -> SqlValue:
    """A value of a row, or of a node without one, for a column. Raises SqlDataError."""
    try:
        return compute(row)  # type: ignore[no-any-return]
    except (ValueError, ArithmeticError) as error:
        of = "" if column is None else f"column {column.name!r}: "
        raise statement.data(f"{of}{error}", node) from None


def sound(edit: CodedEdit) -> CodedEdit | None:
    """The edit, if no row that it adds breaks a CHECK, or is to be asked about by itself."""
    columns = edit.table.relation.columns
    try:
        broken = any(
            len(passing(edit.added, columns, [check.broken])) for check in edit.table.checks
        )
    except (ValueError, ArithmeticError):
        return None
    return None if broken else edit


def to_insert(
    connection: Connection, table: Table, names: Sequence[str], given: Columns
) -> CodedRows | None:
    """Rows of a table of values for the columns named, codes of these; the others have defaults.

    None where a column has no value, and is NOT NULL.
    """
    relation, tables = table.relation, given.tables
    codes = np.empty((len(given), len(relation.all_columns)), np.int32)
    try:
        for at, cell in enumerate(table.cells(names)):
            if cell.position is None:
                codes[:, at] = stored([cell.default], cell.column, tables)
            else:
                codes[:, at] = given.codes[cell.position]
    except ByValueError:
        return None
    if table.numbered:
        numbers = np.fromiter(table.numbers(len(given)), np.int64)
        codes[:, -1] = tables.encode_numbers("number", numbers)
    return connection.of_table(relation.name, codes, tables)
