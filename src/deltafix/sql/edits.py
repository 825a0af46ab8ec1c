"""INSERT, UPDATE, DELETE: which rows of a table go and come.

Nothing is changed here: each function gives the rows removed and the rows added, as the engine has
them, and the connection applies them, keys checked. Invariant: every value was checked against its
column; a statement that fails has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltafix.facts.schema import Row
from deltafix.facts.values import shown
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.casts import assigned
from deltafix.sql.catalog import Key, Table
from deltafix.sql.query import check_clauses
from deltafix.sql.scalar import EXCLUDED, Scalar, Scalars, over, typed
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import NULL, Column, SqlType, SqlValue, decode_rows

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = [
    "Edit", "check_table", "checked", "delete", "edited_table", "encoded", "given", "insert",
    "replaced", "returned", "set_places", "update",
]  # fmt: skip


class Edit(NamedTuple):
    """A table, the rows removed, and the rows added; so many of them stand for one removed."""

    table: Table
    removed: list[Row]
    added: list[Row]
    replaced: int = 0


def edited_table(connection: Connection, statement: Statement, node: exp.Expr) -> Table:
    """The table that a statement edits. Raises SqlProgrammingError."""
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
        try:
            return column.encode(value)
        except ValueError:  # few values are: each is looked at once
            return column.encode(assigned(value, column.type))
    except (ValueError, ArithmeticError) as error:
        message = f"column {column.name!r}: {error}"
        if value is None:
            raise statement.integrity(message, "give it a value") from None
        raise statement.data(message) from None


def insert(connection: Connection, statement: Statement, node: exp.Insert) -> Edit:
    """INSERT ... VALUES, INSERT ... SELECT, with ON CONFLICT."""
    builder = Builder(statement, "", {})
    check_clauses(builder, node, ("this", "expression", "conflict", "returning"))
    target = node.this
    named = isinstance(target, exp.Schema)
    table = edited_table(connection, statement, target.this if named else target)
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
    edit = inserted(statement, table, wanted, rows)
    conflict = node.args.get("conflict")
    return edit if conflict is None else _upserted(connection, statement, edit, conflict)


def _upserted(
    connection: Connection, statement: Statement, edit: Edit, conflict: exp.OnConflict
) -> Edit:
    """Rows to insert where those whose key is there are left out, or change the row that has it."""
    table, removed, rows = edit.table, list[Row](), edit.added
    check_clauses(
        Builder(statement, "", {}), conflict, ("action", "conflict_keys", "expressions", "where")
    )
    columns = table.relation.columns
    keys = _conflicting(statement, table, conflict)
    changes = bool(conflict.expressions)
    scalars = over(statement, (table.relation.name, columns), (EXCLUDED, columns))
    places = list(set_places(statement, conflict, [column.name for column in columns]))
    nodes = [
        typed(one.expression, columns[place].type)
        for one, place in zip(conflict.expressions, places, strict=True)
    ]
    values = [scalars.compile(one).compute for one in nodes]
    where = _where(conflict)
    test = None if where is None else scalars.truth(where, where).compute
    added: list[Row] = []
    seen: set[tuple[Key, tuple[Any, ...]]] = set()
    held = {key: connection.rows_with(table, key, map(key.of, rows)) for key in keys}
    for row in rows:
        mine = [(key, key.of(row)) for key in keys if None not in key.of(row)]
        there = next((held[k][v] for k, v in mine if v in held[k]), None)
        if not seen.isdisjoint(mine):
            if changes:
                shown = decode_rows([row], columns)[0]
                message = f"two rows of the statement have one key; the second is {shown}"
                raise statement.integrity(message, "insert each key once")
            continue
        seen.update(mine)
        if there is None:
            added.append(row)
        elif changes:
            both = [*decode_rows([there], columns)[0], *decode_rows([row], columns)[0]]
            if test is None or test(both) is True:
                changed = list(there)
                for place, compute in zip(places, values, strict=True):
                    changed[place] = encoded(statement, columns[place], compute(both))
                removed.append(there)
                added.append(tuple(changed))
    return checked(statement, Edit(table, removed, added, len(removed)))


def checked(statement: Statement, edit: Edit) -> Edit:
    """The edit, if no row that it adds breaks a CHECK."""
    table, added = edit.table, edit.added
    for row in decode_rows(added if table.checks else (), table.relation.columns):
        for check in table.checks:
            try:
                holds = check.compute(row) is not False
            except (ValueError, ArithmeticError) as error:
                raise statement.data(f"CHECK ({check.text}): {error}") from None
            if not holds:
                message = f"{table.relation.name}: {row} breaks CHECK ({check.text})"
                raise statement.integrity(message)
    return edit


def _conflicting(statement: Statement, table: Table, conflict: exp.OnConflict) -> Sequence[Key]:
    """The keys that ON CONFLICT is about."""
    columns = table.relation.columns
    named = [
        one.this.name if isinstance(one, exp.Ordered) else one.name
        for one in conflict.args.get("conflict_keys") or ()
    ]
    fitting = [k for k in table.keys if sorted(columns[p].name for p in k.places) == sorted(named)]
    if not named and (len(table.keys) == 1 or not conflict.expressions):
        fitting = list(table.keys)
    if not fitting:
        keys = "; ".join(", ".join(columns[p].name for p in key.places) for key in table.keys)
        message = f"ON CONFLICT ({', '.join(named)}) names no key of {table.relation.name}"
        raise statement.wrong(message, conflict, f"its keys are: {keys or 'none'}")
    return fitting


def returned(statement: Statement, edit: Edit, node: exp.Expr) -> reading.Result:
    """RETURNING: what it shows of the rows added, or of those removed where none are."""
    relation = edit.table.relation
    scalars = over(statement, (relation.name, relation.columns))
    shown: list[tuple[str, Scalar]] = []
    for place, one in enumerate(node.expressions):
        if isinstance(one, exp.Star):
            names = [column.name for column in relation.columns]
            shown += [(name, scalars.compile(exp.column(name))) for name in names]
        else:
            name = one.alias_or_name or f"column_{place + 1}"
            shown.append((name, scalars.compile(one.unalias())))
    changed = edit.removed if isinstance(node.parent, exp.Delete) else edit.added
    rows = decode_rows(changed, relation.columns)
    columns = tuple(Column(name, one.type, one.nullable) for name, one in shown)
    return reading.Result(columns, [tuple(one.compute(row) for _, one in shown) for row in rows])


_MANY = 256
"""Rows from which on they are checked column by column."""


def given(statement: Statement, table: Table, rows: Any, columns: Sequence[str] = ()) -> Edit:
    """Rows to insert: one by one, or a frame; of the columns named, or of all it has."""
    frame = None
    if isinstance(rows, str | bytes | Mapping) or not (
        isinstance(rows, Iterable) or hasattr(rows, "__arrow_c_stream__")
    ):
        message = f"rows are given as an iterable of rows, or a frame, not as {type(rows).__name__}"
        raise statement.wrong(message, None, _ROWS)
    if not isinstance(rows, list | tuple):
        from deltafix.sql.columns import framed  # noqa: PLC0415  pyarrow is slow to import

        frame = framed(statement, rows)
    known = [column.name for column in table.relation.columns]
    names = list(columns) or (known if frame is None else frame.column_names)
    there = names if frame is None else frame.column_names
    for name in names:
        for some in (known, there):
            if name not in some:
                raise statement.unknown("column", name, some, None)
        if names.count(name) > 1 or there.count(name) > 1:
            raise statement.wrong(f"column {name!r} is given twice", None, "give it once")
    if frame is None:
        return inserted(statement, table, names, _in_order(statement, table, names, list(rows)))
    return _tabular(statement, table, names, list(map(frame.column, names)), frame.num_rows)


_ROWS = "one row alone goes in a list: [(1, 'a')], or by name [{'id': 1, 'name': 'a'}]"


def _in_order(
    statement: Statement, table: Table, names: Sequence[str], rows: list[Any]
) -> list[Sequence[SqlValue]]:
    """Rows as sequences of values for the columns named; one by name has its values put in order.

    Raises SqlProgrammingError, SqlIntegrityError, naming the row from 0.
    """
    if set(map(type, rows)) <= {tuple, list}:
        return rows
    columns = {one.name: (at, one) for at, one in enumerate(table.relation.columns)}
    found = list[Sequence[SqlValue]]()
    for place, row in enumerate(rows):
        given = row
        if is_dataclass(row) and not isinstance(row, type):
            given = {one.name: getattr(row, one.name) for one in fields(row)}
        if isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise statement.unknown(f"column in row {place},", str(name), names, None)
            values = []
            for name in names:
                at, column = columns[name]
                value = given[name] if name in given else table.defaults.get(at)
                if value is None and name not in given and not column.nullable:
                    message = f"row {place} has no value for column {name!r}, which is NOT NULL"
                    raise statement.integrity(message, f"the row has: {', '.join(given)}")
                values.append(value)
            found.append(values)
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes | bytearray):
            found.append(row)
        else:
            message = (
                f"row {place} is {shown(row)} ({type(row).__name__}), but a row is a value for "
                f"each of ({', '.join(names)}): a tuple, a list, a dict, an object of a dataclass"
            )
            raise statement.wrong(message, None, _ROWS)
    return found


def _tabular(
    statement: Statement, table: Table, names: Sequence[str], values: Sequence[Any], count: int
) -> Edit:
    """Rows to insert, as so many values of each column named, or Arrow columns."""
    from deltafix.sql.columns import coded, listed  # noqa: PLC0415  pyarrow is slow to import

    found = []
    for at, column in enumerate(table.relation.columns):
        if column.name not in names:
            found.append([encoded(statement, column, table.defaults.get(at))] * count)
            continue
        one = values[names.index(column.name)]
        done = coded(column, one)
        if done is None:
            done = [encoded(statement, column, v) for v in listed(statement, column, one)]
        found.append(done)
    if table.numbered:
        found.append(list(range(table.next_number, table.next_number + count)))
        table.next_number += count
    return checked(statement, Edit(table, [], list(zip(*found, strict=True))))


def inserted(
    statement: Statement, table: Table, names: Sequence[str], rows: Sequence[Sequence[SqlValue]]
) -> Edit:
    """Rows to insert, of the columns named; the others have their default, or are NULL."""
    if len(rows) >= _MANY and all(len(row) == len(names) for row in rows):
        return _tabular(statement, table, names, list(zip(*rows, strict=True)), len(rows))
    columns = table.relation.columns
    places = [names.index(c.name) if c.name in names else None for c in columns]
    added = []
    for number, row in enumerate(rows):
        if len(row) != len(names):
            message = (
                f"row {number} has {len(row)} values for {len(names)} columns ({', '.join(names)})"
            )
            raise statement.wrong(message, None, "give each column one value")
        values = [
            encoded(statement, column, table.defaults.get(at) if place is None else row[place])
            for at, (column, place) in enumerate(zip(columns, places, strict=True))
        ]
        if table.numbered:
            values.append(table.next_number)
            table.next_number += 1
        added.append(tuple(values))
    return checked(statement, Edit(table, [], added))


def replaced(statement: Statement, table: Table, rows: Any, there: Sequence[Row]) -> Edit:
    """What makes the rows of a table, which are `there`, to be `rows`; equal ones stay. O(rows)."""
    width = len(table.relation.columns)
    kept: dict[Row, list[Row]] = {}
    for row in there:
        kept.setdefault(row[:width], []).append(row)
    added = []
    for row in given(statement, table, rows).added:
        same = kept.get(row[:width])
        if same:
            same.pop()
        else:
            added.append(row)
    return Edit(table, [row for rest in kept.values() for row in rest], added)


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
    check_clauses(Builder(statement, "", {}), node, ("this", "where", "returning"))
    check_table(statement, node.this)
    table = edited_table(connection, statement, node.this)
    found = reading.matching(connection, statement, node.this, _where(node))
    return Edit(table, [row for row, _ in found], [])


def update(connection: Connection, statement: Statement, node: exp.Update) -> Edit:
    """UPDATE ... SET ... WHERE."""
    check_clauses(Builder(statement, "", {}), node, ("this", "expressions", "where", "returning"))
    check_table(statement, node.this)
    table = edited_table(connection, statement, node.this)
    columns = table.relation.columns
    names = [column.name for column in columns]
    if not node.expressions:
        raise statement.wrong("UPDATE of no column", node, "write SET column = value")
    places = list(set_places(statement, node, names))
    kinds = [columns[place].type for place in places]
    computed = [typed(one.expression, k) for one, k in zip(node.expressions, kinds, strict=True)]
    removed, added = [], []
    for row, values in reading.matching(connection, statement, node.this, _where(node), computed):
        changed = list(row)
        for place, value in zip(places, values, strict=True):
            changed[place] = encoded(statement, columns[place], value)
        removed.append(row)
        added.append(tuple(changed))
    return checked(statement, Edit(table, removed, added, len(removed)))


def check_table(statement: Statement, node: exp.Expr) -> None:
    """Refuse what is said of the edited table beyond its name and alias."""
    check_clauses(Builder(statement, "", {}), node, ("this", "alias"))


def set_places(statement: Statement, node: exp.Expr, names: list[str]) -> Iterator[int]:
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
