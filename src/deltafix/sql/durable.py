"""What a state folder notes of a connection beside the rows: its catalog, and the way back.

Lives here: marks as JSON. One has the CREATE statements of all tables and views, and is set in the
epoch that changes the rules; one for each step of a transaction that is not committed has its
edits, or the catalog before a definition and the rows that this took away. Invariant: without marks
of the second kind the rows are those of committed transactions; whoever opens a folder that has
some takes those steps back. Not here: rows, which are the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from deltafix.facts.schema import Row
from deltafix.sql.catalog import Catalog, Definition, created
from deltafix.sql.parsing import statements
from deltafix.sql.tables import bare_table
from deltafix.sql.text import Statement, exp

__all__ = [
    "CATALOG", "REMADE", "UNDO", "WITHOUT", "catalog_mark", "catalog_of", "check", "count_on",
    "definition_mark", "left", "read_statement", "rows_mark", "rows_of", "take_back", "written",
]  # fmt: skip

CATALOG: Final = "sql"
UNDO: Final = "sql undo "
REMADE: Final = "sql altered"
"""The tables that a definition makes anew and their rows, until the engine has them."""
WITHOUT: Final = "sql without"
"""What the catalog has meanwhile and the engine has not: those tables, and what reads them."""


def check(statement: Statement, dialect: str) -> None:
    """Refuse a definition that its own text does not give. Raises SqlRefusedError."""
    (again,) = statements(statement.sql, dialect)
    if again.node.find(exp.Placeholder) is not None:
        what = "a definition with parameters, in a state folder"
        raise statement.refused(what, None, "write the values in the statement")


def catalog_mark(catalog: Catalog) -> list[list[Any]]:
    """All definitions, in order."""
    return [
        [
            definition.sql,
            definition.dialect,
            definition.times,
            *([definition.seen] if definition.seen else ()),
        ]
        for definition in catalog.definitions.values()
    ]


def catalog_of(mark: Iterable[Sequence[Any]], now: Catalog) -> Catalog:
    """What `catalog_mark` gave as a catalog; a view that another one has is that very view.

    Raises SqlError if this deltafix does not take a statement any more.
    """
    parsed = [
        (definition, read_statement(definition))
        for definition in (Definition(*fields) for fields in mark)
    ]
    later = {
        created(statement.node).name: bare_table(statement, statement.node)  # type: ignore[arg-type]
        for _, statement in parsed
        if str(statement.node.args["kind"]).upper() == "TABLE"
    }
    catalog = replace(now.copy(), tables={}, views={}, definitions={})
    for definition, statement in parsed:
        name = created(statement.node).name
        if name in now.views and now.definitions[name] == definition:
            catalog.views[name], catalog.definitions[name] = now.views[name], definition
            continue
        catalog.times[name] = definition.times
        catalog.define(statement, definition.dialect, seen=definition.seen, later=later)
    return catalog


def read_statement(definition: Definition) -> Statement:
    """The statement of a definition."""
    (statement,) = statements(definition.sql, definition.dialect)
    return statement


def rows_mark(tables: Mapping[str, Iterable[Row]]) -> dict[str, list[Any]]:
    """Tables and their rows."""
    return written({name: ((1, row) for row in rows) for name, rows in tables.items()})


def rows_of(mark: Mapping[str, list[Any]]) -> dict[str, list[Row]]:
    """What `rows_mark` gave."""
    return {name: [tuple(map(_read, row)) for _, *row in rows] for name, rows in mark.items()}


def definition_mark(before: Catalog, rows: Mapping[str, Iterable[Row]]) -> list[Any]:
    """How a definition of a transaction is undone: the catalog before it, and rows of tables.

    A list, which tells it from the edits of an epoch.
    """
    return [catalog_mark(before), rows_mark(rows)]


def written(waiting: Mapping[str, Iterable[tuple[int, Row]]]) -> dict[str, list[Any]]:
    """The edits of an epoch: for each table its rows behind their signs."""
    return {
        name: [[sign, *map(_value, row)] for sign, row in rows] for name, rows in waiting.items()
    }


def left(marks: Mapping[str, Any]) -> list[str]:
    """The marks of a transaction that did not end, in the order in which they are undone."""
    names = [name for name in marks if name.startswith(UNDO)]
    return sorted(names, key=lambda name: -int(name.removeprefix(UNDO)))


def take_back(db: Any, mark: str) -> None:
    """Undo the edits of an epoch."""
    with db.transaction() as tx:
        for name, rows in db.marks[mark].items():
            tx.delete(name, [tuple(map(_read, row)) for sign, *row in rows if sign > 0])
            tx.insert(name, [tuple(map(_read, row)) for sign, *row in rows if sign < 0])
        tx.mark(mark, None)


def count_on(db: Any, catalog: Catalog) -> None:
    """Have hidden numbers go on behind those that there are."""
    for name, table in catalog.tables.items():
        if table.numbered:
            numbers = db.to_arrow(name, [table.relation.declaration.attributes[-1].name]).column(0)
            table.next_number = 1 + int(numbers.to_numpy().max(initial=0))


def _value(value: Any) -> Any:
    """An engine's value in JSON: NULL, a list of one, or a number or text by itself."""
    if isinstance(value, tuple):
        return [_value(value[0])]
    return {"float": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return (_read(value[0]),)
    return float(value["float"]) if isinstance(value, dict) else value
