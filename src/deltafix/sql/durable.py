"""What a state folder notes of a connection beside the rows: its catalog, and the way back.

Lives here: marks as JSON. One has the CREATE statements of all tables and views, and is set in the
epoch that changes the rules; one for each epoch of a transaction that is not committed has its
edits. Invariant: without marks of the second kind the rows are those of committed transactions;
`recover` takes back what a process left behind that ended inside one. Not here: rows, which are the
engine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from deltafix.facts.schema import Row
from deltafix.sql.catalog import Catalog, Definition, Table, bare_table, created
from deltafix.sql.text import Statement, exp, statements

__all__ = [
    "ALTERED", "CATALOG", "UNDO", "WITHOUT", "altered", "altered_mark", "bare_tables",
    "catalog_mark", "check", "definitions", "read", "recover",
]  # fmt: skip

CATALOG: Final = "sql"
UNDO: Final = "sql undo "
ALTERED: Final = "sql altered"
"""The table that ALTER TABLE makes and its rows, until the engine has them."""
WITHOUT: Final = "sql without"
"""What the catalog has meanwhile and the engine has not: that table, and the views that read it."""


def check(statement: Statement, dialect: str) -> None:
    """Refuse a definition that its own text does not give. Raises SqlRefusedError."""
    (again,) = statements(statement.sql, dialect)
    if again.node.find(exp.Placeholder) is not None:
        what = "a definition with parameters, in a state folder"
        raise statement.refused(what, None, "write the values in the statement")


def catalog_mark(catalog: Catalog) -> list[list[Any]]:
    """All definitions, in order."""
    return [
        [one.sql, one.dialect, one.times, *([one.seen] if one.seen else ())]
        for one in catalog.definitions.values()
    ]


def definitions(marks: Mapping[str, Any]) -> list[Definition]:
    """What `catalog_mark` gave."""
    return [Definition(*one) for one in marks.get(CATALOG, ())]


def read(definition: Definition) -> Statement:
    """The statement. Raises SqlError if this deltafix does not take it any more."""
    (statement,) = statements(definition.sql, definition.dialect)
    return statement


def bare_tables(made: Iterable[Statement]) -> dict[str, Table]:
    """The tables of CREATE statements but for their foreign keys, which may refer to later ones."""
    found = [one for one in made if str(one.node.args["kind"]).upper() == "TABLE"]
    return {created(one.node).name: bare_table(one, one.node) for one in found}  # type: ignore[arg-type]


def altered_mark(name: str, rows: Sequence[Row]) -> dict[str, list[Any]]:
    """A table and its rows."""
    return written({name: dict.fromkeys(rows, 1)})


def altered(marks: Mapping[str, Any]) -> dict[str, list[Row]]:
    """What `altered_mark` gave, if there is one."""
    return {
        name: [tuple(map(_read, row)) for _, *row in rows]
        for name, rows in marks.get(ALTERED, {}).items()
    }


def written(waiting: Mapping[str, Mapping[Row, int]]) -> dict[str, list[Any]]:
    """The edits of an epoch: for each table its rows and their signs."""
    return {
        name: [[sign, *map(_value, row)] for row, sign in rows.items()]
        for name, rows in waiting.items()
    }


def recover(db: Any, catalog: Catalog) -> None:
    """Undo the epochs of a transaction that did not end, and count hidden numbers on."""
    left = [name for name in db.marks if name.startswith(UNDO)]
    for mark in sorted(left, key=lambda name: -int(name.removeprefix(UNDO))):
        edits = db.marks[mark]
        with db.transaction() as tx:
            for name, rows in edits.items():
                tx.delete(name, [tuple(map(_read, row)) for sign, *row in rows if sign > 0])
                tx.insert(name, [tuple(map(_read, row)) for sign, *row in rows if sign < 0])
            tx.mark(mark, None)
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
