"""INSERT, UPDATE, DELETE, TRUNCATE: which rows of a table go and come.

Nothing is changed here: `edit_of` gives the rows removed and the rows added, as the engine has
them, and the connection applies them, keys checked. Invariant: every value was checked against its
column; a statement that fails has no effect. A statement that comes again with other parameters of
the same types is planned once: what a plan knows is its tree and its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from deltafix.engine.coded import CodedRows, numbered, places_among
from deltafix.errors import SqlDataError, SqlError
from deltafix.kernel.values import NIL
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.literals import Compute, Given, Scalar, typed
from deltafix.sql.parameters import kind_of, literal_of
from deltafix.sql.rows import CodedEdit, Edit, Other, checked, encoded, inserted
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.scans import Columns
from deltafix.sql.setting import computed, set_positions, sound, to_insert, where_of
from deltafix.sql.tables import ForeignKey, Table
from deltafix.sql.text import Statement, cells_of, exp
from deltafix.sql.types import (
    NULL,
    Column,
    SqlType,
    SqlValue,
    common_type,
    decode_rows,
    row_as_sql,
)
from deltafix.sql.upserts import Upsert, conflict_of
from deltafix.sql.vectors import ByValueError

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["check_table", "edit_of", "edited_table", "many", "returned", "truncate"]

_Run: TypeAlias = "Callable[[Connection, Statement], Edit | CodedEdit]"


class _Plan(NamedTuple):
    """How a statement edits a table; it fits as long as that is the table of its name."""

    table: Table
    run: _Run


_PLANS: Final = 16
"""A statement is planned for so many lists of types before all are forgotten."""


def edit_of(connection: Connection, statement: Statement) -> Edit | CodedEdit:
    """The edit of an INSERT, UPDATE or DELETE. Raises SqlError; O(its rows) where it came before.

    A WHERE that no key fixes adds a pass over the table.
    """
    form = statement.form
    kinds = form.kinds if form is not None and form.stays else None
    plan = form.plans.get(kinds) if kinds is not None else None
    if plan is None or connection.catalog.tables.get(plan.table.relation.name) is not plan.table:
        plan = _PLANNERS[type(statement.node)](connection, statement, statement.node)
        if kinds is not None:
            if len(form.plans) >= _PLANS:
                form.plans.clear()
            form.plans[kinds] = plan
    return plan.run(connection, statement)


def edited_table(connection: Connection, statement: Statement, node: exp.Expr) -> Table:
    """The table that a statement edits. Raises SqlProgrammingError."""
    name = node.name
    table = connection.catalog.tables.get(name)
    if table is None:
        if name in connection.catalog.views:
            message = f"{name} is a view: its rows follow from its query"
            raise statement.wrong(message, node, "change the tables it reads")
        raise statement.unknown("table", name, list(connection.catalog.tables), node)
    return table


def many(connection: Connection, statement: Statement, rows: Sequence[Any]) -> CodedEdit | None:
    """INSERT ... VALUES (?, ?) of many rows of parameters, as one edit.

    None for another statement, and where a row is to be looked at as the statement does.
    """
    node = statement.node
    if not isinstance(node, exp.Insert):
        return None
    values = node.args.get("expression")
    if not isinstance(values, exp.Values) or len(values.expressions) != 1:
        return None
    (cells,) = cells_of(values)
    plain = all(isinstance(cell, exp.Placeholder) and not cell.this for cell in cells)
    alike = all(type(row) in (tuple, list) and len(row) == len(cells) for row in rows)
    if not (plain and alike) or node.args.get("returning") or node.args.get("by_name"):
        return None
    table, wanted = _target(connection, statement, node)
    if len(wanted) != len(cells):
        return None
    conflict = conflict_of(statement, node, table, wanted)
    try:
        edit = connection.in_codes(inserted(statement, table, wanted, rows))
    except SqlError:
        return None
    if any(key.table == table.relation.name and _refers_ahead(edit, key) for key in table.foreign):
        return None
    if conflict is None:
        return edit
    return Upsert.of(statement, table, conflict).in_codes(connection, edit)


def _refers_ahead(edit: CodedEdit, foreign: ForeignKey) -> bool:
    """Whether a row refers to one behind it, which is not there yet when it is inserted."""
    codes = edit.added.codes
    referring, keys = codes[:, list(foreign.positions)], codes[:, list(foreign.key.positions)]
    targets = places_among(referring, keys)
    targets[(referring == NIL).any(axis=1)] = -1
    return bool((targets > np.arange(len(codes))).any())


def _target(
    connection: Connection, statement: Statement, node: exp.Insert
) -> tuple[Table, list[str]]:
    """The table of an INSERT, and the columns that it names. Raises SqlProgrammingError."""
    target = node.this
    named = isinstance(target, exp.Schema)
    into = target.this if named else target
    statement.require_only(into, ("this",))
    table = edited_table(connection, statement, into)
    columns = table.relation.columns
    names = [column.name for column in columns]
    wanted = [identifier.name for identifier in target.expressions] if named else names
    for index, (name, identifier) in enumerate(
        zip(wanted, target.expressions if named else (), strict=False)
    ):
        if name not in names:
            raise statement.unknown("column", name, names, identifier)
        if name in wanted[:index]:
            raise statement.wrong(f"column {name!r} is given twice", identifier, "give it once")
    return table, wanted


def _insert(connection: Connection, statement: Statement, node: exp.Insert) -> _Plan:
    """INSERT ... VALUES, INSERT ... SELECT, with ON CONFLICT."""
    builder = Builder(statement, "", {})
    table, wanted = _target(connection, statement, node)
    columns = table.relation.columns
    names = [column.name for column in columns]
    query = node.args.get("expression")
    rows: Callable[[Connection, Statement], tuple[Sequence[Sequence[SqlValue]], Other | None]]
    if node.args.get("by_name"):
        return _by_name(statement, node, table, query)
    if isinstance(query, exp.Values):
        rows = _cells(statement, query, [columns[names.index(name)] for name in wanted])
    elif node.args.get("default"):
        wanted = []
        rows = _no_values
    elif query is None:
        raise builder.refused("INSERT of nothing", node, "write VALUES (...) or a SELECT")
    else:
        return _of_query(statement, node, table, wanted, query)
    conflict = conflict_of(statement, node, table, wanted)
    if conflict is None:
        return _Plan(table, lambda c, s: inserted(s, table, wanted, *rows(c, s)))
    upserted = Upsert.of(statement, table, conflict)
    return _Plan(table, lambda c, s: upserted.edit(c, s, inserted(s, table, wanted, *rows(c, s))))


def _no_values(_: Connection, __: Statement) -> tuple[Sequence[Sequence[SqlValue]], None]:
    """The rows of INSERT ... DEFAULT VALUES."""
    return [()], None


def _of_query(
    statement: Statement, node: exp.Insert, table: Table, wanted: Sequence[str], query: exp.Expr
) -> _Plan:
    """INSERT ... SELECT."""
    conflict = conflict_of(statement, node, table, wanted)
    upserted = None if conflict is None else Upsert.of(statement, table, conflict)
    cells = [cell for cell in table.cells(wanted) if cell.position is not None]
    columns = [cell.column for cell in sorted(cells, key=lambda cell: cell.position or 0)]

    def edit_(connection: Connection, statement: Statement) -> Edit | CodedEdit:
        def by_row(result: reading.Result | None = None) -> Edit:
            result = result or reading.select(connection, statement, query)
            return _of_result(statement, table, wanted, query, result)

        result = reading.coded(connection, statement, query, columns)
        edit: Edit | CodedEdit | None = None
        if isinstance(result, Columns):
            added = to_insert(connection, table, wanted, result)
            if added is not None:
                edit = sound(CodedEdit(table, added.nothing, added, 0, by_row))
        if edit is None:
            edit = by_row(result if isinstance(result, reading.Result) else None)
        return edit if upserted is None else upserted.edit(connection, statement, edit)

    return _Plan(table, edit_)


def _by_name(
    statement: Statement, node: exp.Insert, table: Table, query: exp.Query | None
) -> _Plan:
    """INSERT ... BY NAME SELECT ...: each column of the query to the one of its name."""
    names = [column.name for column in table.relation.columns]
    beside = node.args.get("conflict") or node.args.get("alternative")
    if beside or isinstance(node.this, exp.Schema) or query is None:
        way_out = "write INSERT INTO table BY NAME SELECT ..., or name the columns"
        raise statement.refused("BY NAME beside this", node, way_out)

    def edit(connection: Connection, statement: Statement) -> Edit:
        result = reading.select(connection, statement, query)
        wanted = [column.name for column in result.columns]
        for index, name in enumerate(wanted):
            if name not in names:
                raise statement.unknown("column", name, names, query)
            if name in wanted[:index]:
                raise statement.wrong(f"column {name!r} is given twice", query, "give it once")
        return _of_result(statement, table, wanted, query, result)

    return _Plan(table, edit)


def _of_result(
    statement: Statement,
    table: Table,
    wanted: Sequence[str],
    query: exp.Expr,
    result: reading.Result,
) -> Edit:
    """A query's rows, to insert: of a value without a place its column is told if types differ."""
    try:
        return inserted(statement, table, wanted, result.rows)
    except SqlDataError:
        into = {column.name: column.type for column in table.relation.columns}
        for position, (name, given) in enumerate(zip(wanted, result.columns, strict=True)):
            if common_type(given.type, into[name]) is None:
                message = f"column {name!r} takes {into[name].name}, not {given.type.name}"
                heads = query.selects if isinstance(query, exp.Query) else []
                node = heads[position] if len(heads) == len(wanted) else query
                way_out = f"write CAST(... AS {into[name].name})"
                raise statement.wrong(message, node, way_out) from None
        raise


def returned(statement: Statement, edit: Edit, node: exp.Expr) -> reading.Result:
    """RETURNING: what it shows of the rows added, or of those removed where none are."""
    relation = edit.table.relation
    scalars = over(statement, (relation.name, relation.columns))
    outputs: list[tuple[str, Scalar]] = []
    scope = reading.scope_of(statement, relation.name, relation)
    for name, expression in reading.spelled(scope, node.expressions):
        outputs.append((name, scalars.compile(expression)))
    changed = edit.removed if isinstance(node.parent, exp.Delete) else edit.added
    rows = decode_rows(changed, relation.columns)
    columns = tuple(Column(name, scalar.type, scalar.nullable) for name, scalar in outputs)
    computes = [scalar.compute for _, scalar in outputs]
    computed_rows = [
        tuple([computed(statement, compute, row) for compute in computes]) for row in rows
    ]
    return reading.Result(columns, computed_rows)


def _cells(
    statement: Statement, values: exp.Values, columns: Sequence[Column]
) -> Callable[[Connection, Statement], tuple[list[list[SqlValue]], Other]]:
    """What gives the values of VALUES, for these columns."""
    table: list[list[tuple[exp.Expr, Given, Compute | None, Column | None]]] = []
    for cells in cells_of(values):
        table.append([])
        for position, cell in enumerate(cells):
            if isinstance(cell.meta.get("column", cell), exp.Column):
                message = f"{cell.sql()} is a name, not a value"
                way_out = "write text in single quotes: 'text'"
                raise statement.wrong(message, cell, way_out)
            given = Given.at(cell)
            column = columns[position] if position < len(columns) else None
            kind = NULL if column is None else column.type
            compute = _value(statement, cell, kind) if given is None else None
            table[-1].append((cell, given or Given(), compute, column))

    ways: dict[tuple[int, int, SqlType], Compute] = {}

    def rows(_: Connection, statement: Statement) -> tuple[list[list[SqlValue]], Other]:
        def other(number: int, position: int, value: SqlValue) -> tuple[SqlValue, exp.Expr]:
            cell, _, compute, column = table[number][position]
            if compute is None and value is not None:
                kind = kind_of(value)
                way = None if kind is None else ways.get((number, position, kind))
                if way is None:
                    node = cell if kind is not None else literal_of(statement, value, cell)
                    way = _value(statement, node, columns[position].type)
                    if kind is not None:
                        ways[number, position, kind] = way
                value = computed(statement, way, (), cell, column)
            return value, cell

        value_rows = [
            [
                computed(statement, compute, (), cell, column) if compute else given.value
                for cell, given, compute, column in cells
            ]
            for cells in table
        ]
        return value_rows, other

    return rows


def _value(statement: Statement, cell: exp.Expr, kind: SqlType) -> Compute:
    return Scalars(statement, lambda _: None).compile(typed(cell, kind)).compute


def _delete(connection: Connection, statement: Statement, node: exp.Delete) -> _Plan:
    """DELETE FROM ... [USING ...] WHERE."""
    check_table(statement, node.this)
    table = edited_table(connection, statement, node.this)
    beside = node.args.get("using") or ()
    rows = reading.matcher(connection, statement, node.this, where_of(node), beside=beside)

    def edit(connection: Connection, statement: Statement) -> Edit | CodedEdit:
        matches = rows(connection, statement)
        if isinstance(matches, list):
            return Edit(table, [row for row, _ in matches], [])
        gone = matches.rows
        return CodedEdit(table, gone, gone.nothing, 0, lambda: Edit(table, gone.in_order(), []))

    return _Plan(table, edit)


def truncate(
    connection: Connection, statement: Statement, node: exp.TruncateTable
) -> list[CodedEdit]:
    """TRUNCATE: all rows of some tables, and with CASCADE of all that refer to them.

    As in PostgreSQL, a table that another one refers to is not emptied alone, whatever rows there
    are, and ON DELETE does not act: who refers goes, too. O(rows).
    """
    tables, nodes = dict[str, Table](), dict[str, exp.Expr]()
    for reference in node.expressions:
        statement.require_only(reference, ("this",))
        tables[reference.name] = edited_table(connection, statement, reference)
        nodes[reference.name] = reference
    waiting = [*tables]
    for name in waiting:  # which grows
        for table, _ in connection.catalog.referring(name):
            other = table.relation.name
            if other in tables:
                continue
            if node.args.get("option") != "CASCADE":
                way_out = f"write TRUNCATE {', '.join((*tables, other))}, or CASCADE behind it"
                raise statement.wrong(f"{other} refers to {name}", nodes[name], way_out)
            tables[other] = table
            waiting.append(other)
    rows = {name: connection.coded(name) for name in tables}
    return [CodedEdit(tables[name], coded, coded.nothing) for name, coded in rows.items()]


def _update(connection: Connection, statement: Statement, node: exp.Update) -> _Plan:
    """UPDATE ... SET ... [FROM ...] WHERE."""
    check_table(statement, node.this)
    table = edited_table(connection, statement, node.this)
    columns = table.relation.columns
    if not node.expressions:
        raise statement.wrong("UPDATE of no column", node, "write SET column = value")
    positions = list(set_positions(statement, node, node.this.alias_or_name, columns))
    kinds = [columns[position].type for position in positions]
    values = [
        typed(assignment.expression, k)
        for assignment, k in zip(node.expressions, kinds, strict=True)
    ]
    source = node.args.get("from_")
    beside = () if source is None else (source.this,)
    rows = reading.matcher(connection, statement, node.this, where_of(node), values, beside=beside)

    def edit(connection: Connection, statement: Statement) -> Edit | CodedEdit:
        matches = rows(connection, statement)
        if isinstance(matches, list):
            return by_row(statement, matches)
        coded = _changed(table, positions, matches)
        if coded is None:
            return by_row(statement, matches.by_row())
        return coded._replace(again=lambda: by_row(statement, matches.by_row()))

    def by_row(statement: Statement, pairs: reading.Pairs) -> Edit:
        removed, added = [], []
        if len(pairs) > 1 and len({row for row, _ in pairs}) < len(pairs):
            twice = next(row for row, n in Counter(row for row, _ in pairs).items() if n > 1)
            shown = row_as_sql(*decode_rows([twice], columns))
            message = f"rows of FROM would change one row of the table to different ones: {shown}"
            raise statement.integrity(message, "let each row meet one row of FROM, or SET MAX(...)")
        for row, values in pairs:
            changed = list(row)
            for position, value in zip(positions, values, strict=True):
                changed[position] = encoded(statement, columns[position], value)
            removed.append(row)
            added.append(tuple(changed))
        return checked(statement, Edit(table, removed, added, added))

    return _Plan(table, edit)


def _changed(table: Table, positions: Sequence[int], matches: reading.Many) -> CodedEdit | None:
    """Rows of which some columns become others, as codes; None if one is to be looked at."""
    rows = matches.rows
    (numbers,) = numbered(rows.codes)
    if len(np.unique(numbers)) < len(rows):
        return None
    try:
        assigned = matches.assigned([table.relation.columns[position] for position in positions])
    except ByValueError:
        return None
    codes = rows.codes.copy()
    for position, column in zip(positions, assigned, strict=True):
        codes[:, position] = column
    return sound(CodedEdit(table, rows, CodedRows(rows.schema, codes, rows.tables), len(rows)))


def check_table(statement: Statement, node: exp.Expr) -> None:
    """Refuse what is said of the edited table beyond its name and alias."""
    statement.require_only(node, ("this", "alias"))
    if node.args.get("alias") is not None:
        statement.require_only(node.args["alias"], ("this",))


_PLANNERS: Final[Mapping[type, Callable[[Any, Statement, Any], _Plan]]] = MappingProxyType(
    {exp.Insert: _insert, exp.Update: _update, exp.Delete: _delete}
)
