"""SET column = value, and what computes values of a row: parts of UPDATE, MERGE and ON CONFLICT.

Which rows are changed is said elsewhere (`sql.edits`, `sql.merging`, `sql.upserts`). Invariant:
what computing a value raises is an error of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltafix.sql.literals import Compute
from deltafix.sql.rows import CodedEdit
from deltafix.sql.scans import passing
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column, SqlValue

__all__ = ["computed", "set_places", "sound", "where_of"]


def set_places(
    statement: Statement, node: exp.Expr, table: str, columns: Sequence[Column]
) -> Iterator[int]:
    """The columns of a table that SET names."""
    names = [column.name for column in columns]
    seen = set()
    for one in node.expressions:
        name = one.this.name
        if not isinstance(one.this, exp.Column) or one.this.table not in ("", table):
            way_out = "set the whole column, and write out the parts that stay"
            raise statement.refused("SET of a part of a column", one.this, way_out)
        if name not in names:
            raise statement.unknown("column", name, names, one.this)
        if name in seen:
            raise statement.wrong(f"column {name!r} is set twice", one.this, "set it once")
        seen.add(name)
        yield names.index(name)


def where_of(node: exp.Expr) -> exp.Expr | None:
    """The condition of a WHERE."""
    where = node.args.get("where")
    return None if where is None else where.this


def computed(
    statement: Statement, compute: Compute, row: Sequence[SqlValue], node: exp.Expr | None = None
) -> SqlValue:
    """A value of a row, or of a node without one. Raises SqlDataError."""
    try:
        return compute(row)  # type: ignore[no-any-return]
    except (ValueError, ArithmeticError) as error:
        raise statement.data(str(error), node) from None


def sound(edit: CodedEdit) -> CodedEdit | None:
    """The edit, if no row that it adds breaks a CHECK, or is to be asked about by itself."""
    columns = edit.table.relation.columns
    try:
        broken = any(len(passing(edit.added, columns, [one.broken])) for one in edit.table.checks)
    except (ValueError, ArithmeticError):
        return None
    return None if broken else edit
