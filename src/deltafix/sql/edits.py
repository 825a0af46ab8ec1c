"""INSERT, UPDATE, DELETE, TRUNCATE: which rows of a table go and come.

Nothing is changed here: each function gives the rows removed and the rows added, as the engine has
them, and the connection applies them, keys checked. Invariant: every value was checked against its
column; a statement that fails has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltafix.facts.schema import Row
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.catalog import Key, Table
from deltafix.sql.parameters import literal_of
from deltafix.sql.query import check_clauses
from deltafix.sql.rows import Edit, checked, encoded, inserted
from deltafix.sql.scalar import EXCLUDED, Scalar, Scalars, over, typed
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import NULL, Column, SqlType, SqlValue, decode_rows, shown_rows

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = [
    "check_table", "delete", "edited_table", "insert", "returned", "set_places", "truncate",
    "update",
]  # fmt: skip


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
    replaced: list[Row] = []
    check_clauses(
        Builder(statement, "", {}), conflict, ("action", "conflict_keys", "expressions", "where")
    )
    columns = table.relation.columns
    keys = _conflicting(statement, table, conflict)
    changes = bool(conflict.expressions)
    scalars = over(statement, (table.relation.name, columns), (EXCLUDED, columns))
    places = list(set_places(statement, conflict, table.relation.name, columns))
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
                (shown,) = shown_rows(decode_rows([row], columns), columns)
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
                replaced.append(tuple(changed))
                added.append(replaced[-1])
    return checked(statement, Edit(table, removed, added, replaced))


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
            if isinstance(cell.meta.get("column", cell), exp.Column):
                message = f"{cell.sql()} is a name, not a value"
                way_out = "write text in single quotes: 'text'"
                raise statement.wrong(message, cell, way_out)
            kind = kinds[place] if place < len(kinds) else NULL
            value = cell.meta.get("value", ...)  # of a parameter
            if value is None or (value is not ... and kind.holds(value)):
                shown.append(value)
                continue
            node = cell if value is ... else literal_of(statement, value)
            scalar = scalars.compile(typed(node, kind))
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


def truncate(connection: Connection, statement: Statement, node: exp.TruncateTable) -> list[Edit]:
    """TRUNCATE: all rows of some tables, and with CASCADE of all that refer to them.

    As in PostgreSQL, a table that another one refers to is not emptied alone, whatever rows there
    are, and ON DELETE does not act: who refers goes, too. O(rows).
    """
    check_clauses(Builder(statement, "", {}), node, ("expressions", "option"))
    found, asked = dict[str, Table](), dict[str, exp.Expr]()
    for one in node.expressions:
        check_clauses(Builder(statement, "", {}), one, ("this",))
        found[one.name], asked[one.name] = edited_table(connection, statement, one), one
    waiting = [*found]
    for name in waiting:  # which grows
        for table, _ in connection.catalog.referring(name):
            other = table.relation.name
            if other in found:
                continue
            if node.args.get("option") != "CASCADE":
                way_out = f"write TRUNCATE {', '.join((*found, other))}, or CASCADE behind it"
                raise statement.wrong(f"{other} refers to {name}", asked[name], way_out)
            found[other] = table
            waiting.append(other)
    return [Edit(table, list(connection.rows_of(name)), []) for name, table in found.items()]


def update(connection: Connection, statement: Statement, node: exp.Update) -> Edit:
    """UPDATE ... SET ... WHERE."""
    check_clauses(Builder(statement, "", {}), node, ("this", "expressions", "where", "returning"))
    check_table(statement, node.this)
    table = edited_table(connection, statement, node.this)
    columns = table.relation.columns
    if not node.expressions:
        raise statement.wrong("UPDATE of no column", node, "write SET column = value")
    places = list(set_places(statement, node, node.this.alias_or_name, columns))
    kinds = [columns[place].type for place in places]
    computed = [typed(one.expression, k) for one, k in zip(node.expressions, kinds, strict=True)]
    removed, added = [], []
    for row, values in reading.matching(connection, statement, node.this, _where(node), computed):
        changed = list(row)
        for place, value in zip(places, values, strict=True):
            changed[place] = encoded(statement, columns[place], value)
        removed.append(row)
        added.append(tuple(changed))
    return checked(statement, Edit(table, removed, added, added))


def check_table(statement: Statement, node: exp.Expr) -> None:
    """Refuse what is said of the edited table beyond its name and alias."""
    check_clauses(Builder(statement, "", {}), node, ("this", "alias"))


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


def _where(node: exp.Expr) -> exp.Expr | None:
    where = node.args.get("where")
    return None if where is None else where.this
