"""INSERT, UPDATE, DELETE: which rows of a table go and come.

Nothing is changed here: each function gives the rows removed and the rows added, as the engine has
them, and the connection applies them, keys checked. Invariant: every value was checked against its
column; a statement that fails has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix.facts.schema import Row
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.casts import assigned
from deltafix.sql.catalog import Table
from deltafix.sql.query import check_clauses
from deltafix.sql.scalar import Scalars, typed
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import NULL, Column, SqlType, SqlValue, fits

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["Edit", "delete", "insert", "inserted", "update"]

Edit: TypeAlias = "tuple[Table, list[Row], list[Row]]"
"""A table, the rows removed, and the rows added."""


def _table(connection: Connection, statement: Statement, node: exp.Expr) -> Table:
    name = node.name
    found = connection.catalog.tables.get(name)
    if found is None:
        if name in connection.catalog.views:
            message = f"{name} is a view: its rows follow from its query"
            raise statement.wrong(message, node, "change the tables it reads")
        raise statement.unknown("table", name, list(connection.catalog.tables), node)
    return found


def encoded(statement: Statement, column: Column, value: SqlValue) -> Any:
    """A value as the engine has it. Raises SqlIntegrityError, SqlDataError."""
    try:
        if not fits(value, column.type):
            value = assigned(value, column.type)
        return column.encode(value)
    except (ValueError, ArithmeticError) as error:
        message = f"column {column.name!r}: {error}"
        if value is None:
            raise statement.integrity(message, "give it a value") from None
        raise statement.data(message) from None


def insert(connection: Connection, statement: Statement, node: exp.Insert) -> Edit:
    """INSERT ... VALUES, INSERT ... SELECT."""
    builder = Builder(statement, "", {})
    check_clauses(builder, node, ("this", "expression"))
    target = node.this
    named = isinstance(target, exp.Schema)
    table = _table(connection, statement, target.this if named else target)
    columns = table.relation.columns
    names = [column.name for column in columns]
    wanted = [one.name for one in target.expressions] if named else names
    for place, (name, one) in enumerate(
        zip(wanted, target.expressions if named else (), strict=False)
    ):
        if name not in names:
            raise statement.unknown("column", name, names, one)
        if name in wanted[:place]:
            raise statement.wrong(f"column {name!r} is given twice", one, "give it once")
    query = node.args.get("expression")
    if isinstance(query, exp.Values):
        kinds = [columns[names.index(name)].type for name in wanted]
        rows: Sequence[Sequence[SqlValue]] = _cells(statement, query, kinds)
    elif query is None:
        raise builder.refused("INSERT of nothing", node, "write VALUES (...) or a SELECT")
    else:
        rows = reading.select(connection, statement, query).rows
    return inserted(statement, table, wanted, rows)


def inserted(
    statement: Statement, table: Table, names: Sequence[str], rows: Sequence[Sequence[SqlValue]]
) -> Edit:
    """Rows to insert, of the columns named; the others are NULL."""
    columns = table.relation.columns
    places = [names.index(c.name) if c.name in names else None for c in columns]
    added = []
    for row in rows:
        if len(row) != len(names):
            message = f"{len(row)} values for {len(names)} columns ({', '.join(names)})"
            raise statement.wrong(message, None, "give each column one value")
        values = [
            encoded(statement, column, None if place is None else row[place])
            for column, place in zip(columns, places, strict=True)
        ]
        if table.numbered:
            values.append(table.next_number)
            table.next_number += 1
        added.append(tuple(values))
    return table, [], added


def _cells(
    statement: Statement, values: exp.Values, kinds: Sequence[SqlType]
) -> list[list[SqlValue]]:
    """The values of VALUES, for columns of these types."""
    found = []
    scalars = Scalars(statement, lambda _: None)
    for row in values.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        shown: list[SqlValue] = []
        for place, cell in enumerate(cells):
            if isinstance(cell, exp.Column):
                message = f"{cell.sql()} is a name, not a value"
                way_out = "write text in single quotes: 'text'"
                raise statement.wrong(message, cell, way_out)
            kind = kinds[place] if place < len(kinds) else NULL
            scalar = scalars.compile(typed(cell, kind))
            try:
                shown.append(scalar.compute(()))
            except (ValueError, ArithmeticError) as error:
                raise statement.data(str(error), cell) from None
        found.append(shown)
    return found


def delete(connection: Connection, statement: Statement, node: exp.Delete) -> Edit:
    """DELETE FROM ... WHERE."""
    check_clauses(Builder(statement, "", {}), node, ("this", "where"))
    _check_table(statement, node.this)
    table = _table(connection, statement, node.this)
    found = reading.matching(connection, statement, node.this, _where(node))
    return table, [row for row, _ in found], []


def update(connection: Connection, statement: Statement, node: exp.Update) -> Edit:
    """UPDATE ... SET ... WHERE."""
    check_clauses(Builder(statement, "", {}), node, ("this", "expressions", "where"))
    _check_table(statement, node.this)
    table = _table(connection, statement, node.this)
    columns = table.relation.columns
    names = [column.name for column in columns]
    places = list(_places(statement, node, names))
    kinds = [columns[place].type for place in places]
    computed = [typed(one.expression, k) for one, k in zip(node.expressions, kinds, strict=True)]
    removed, added = [], []
    for row, values in reading.matching(connection, statement, node.this, _where(node), computed):
        changed = list(row)
        for place, value in zip(places, values, strict=True):
            changed[place] = encoded(statement, columns[place], value)
        removed.append(row)
        added.append(tuple(changed))
    return table, removed, added


def _check_table(statement: Statement, node: exp.Expr) -> None:
    check_clauses(Builder(statement, "", {}), node, ("this", "alias"))


def _places(statement: Statement, node: exp.Update, names: list[str]) -> Iterator[int]:
    """The columns that SET names."""
    seen = set()
    for one in node.expressions:
        name = one.this.name
        if name not in names:
            raise statement.unknown("column", name, names, one.this)
        if name in seen:
            raise statement.wrong(f"column {name!r} is set twice", one.this, "set it once")
        seen.add(name)
        yield names.index(name)


def _where(node: exp.Expr) -> exp.Expr | None:
    where = node.args.get("where")
    return None if where is None else where.this
