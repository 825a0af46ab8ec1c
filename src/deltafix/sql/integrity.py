"""PRIMARY KEY, UNIQUE and FOREIGN KEY: the row of an edit that would break one.

An edit's rows are looked at one by one, against what the engine has and what waits for its next
epoch; a `Batch` by columns. Invariant: the second way finds whether
there is such a row, and the first which: both say no, or neither. NULLs are never equal, and refer
to nothing. CHECK is a matter of one row (`sql.rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltafix.errors import SqlError
from deltafix.facts.schema import Row
from deltafix.sql.catalog import Catalog, ForeignKey, Key, Table
from deltafix.sql.rows import Edit
from deltafix.sql.text import Statement
from deltafix.sql.types import Column, decode_rows, shown_rows

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.sql.columns import Batch
    from deltafix.sql.connection import Connection

__all__ = ["actions", "is_sound", "net", "require_keys", "require_references"]


def require_keys(
    connection: Connection, statement: Statement, table: Table, added: Sequence[Row]
) -> None:
    """Raise SqlIntegrityError at the first row that would share a key with another.

    The rows that make room for them are noted as removed before.
    """
    first: tuple[Key, tuple[int, ...]] | None = None
    for key in table.keys:
        values = [key.of(row) for row in added]
        taken: dict[Any, tuple[int, ...]] = dict.fromkeys(
            connection.rows_with(table, key, values), ()
        )
        if not taken and len(set(values)) == len(values):
            continue
        for place, value in enumerate(values[: len(values) if first is None else first[1][0]]):
            if value in taken:
                first = key, (place, *taken[value])
                break
            if None not in value:
                taken[value] = (place,)
    if first is not None:
        raise _duplicate(statement, table, added, *first)


def require_references(connection: Connection, statement: Statement, edit: Edit) -> None:
    """Raise SqlIntegrityError where a row refers to one that is not there, after an edit."""
    name = edit.table.relation.name
    for one in edit.table.foreign:
        wanted = dict[tuple[Any, ...], int]()
        for place, value in enumerate(map(one.of, edit.added)):
            if None not in value:
                wanted.setdefault(value, place)
        there = connection.rows_with(connection.catalog.tables[one.table], one.key, wanted)
        lost = next((at for value, at in wanted.items() if value not in there), None)
        if lost is not None:
            raise _dangling(statement, edit, one, lost)
    for table, one in connection.catalog.referring(name):
        found = _referring(connection, table, one, edit, edit.removed)
        if found:
            mine = table.relation
            names, values = _said(mine.columns, one.places, found[0])
            message = f"{mine.name} has a row with ({names}) = ({values})"
            raise statement.integrity(
                f"{message}, which {name} would lose", f"DELETE it FROM {mine.name} first"
            )


def _referring(
    connection: Connection, table: Table, one: ForeignKey, edit: Edit, gone: Sequence[Row]
) -> list[Row]:
    """The rows that refer to keys which an edit takes away, with some of the rows it removes."""
    lost = {*map(one.key.of, gone)}.difference(map(one.key.of, edit.added))
    asked = [one.referring(value) for value in lost if None not in value]
    if not asked:
        return []
    names = [table.relation.columns[place].name for place in one.places]
    return connection.engine.semijoin(table.relation.name, names, asked)


def actions(connection: Connection, edit: Edit) -> Iterator[Edit]:
    """The edits that ON DELETE says follow an edit, once it is made; each as things are then."""
    deleted = edit.removed[edit.replaced :]
    for table, one in connection.catalog.referring(edit.table.relation.name):
        found = _referring(connection, table, one, edit, deleted) if one.on_delete else []
        if found and one.on_delete == "CASCADE":
            yield Edit(table, found, [])
        elif found:
            freed = [
                tuple(None if place in one.places else value for place, value in enumerate(row))
                for row in found
            ]
            yield Edit(table, found, freed, len(found))


def net(edits: Sequence[Edit]) -> list[Edit]:
    """One edit for each table: the rows that several, one after another, take and bring."""
    if len(edits) == 1:
        return [*edits]
    found: dict[str, tuple[Table, Counter[Row]]] = {}
    for table, removed, added, _ in edits:
        _, counts = found.setdefault(table.relation.name, (table, Counter()))
        counts.subtract(removed)
        counts.update(added)
    return [
        Edit(
            table,
            [row for row, count in counts.items() if count < 0],
            [row for row, count in counts.items() if count > 0],
        )
        for table, counts in found.values()
    ]


def is_sound(engine: Database, catalog: Catalog, table: Table, batch: Batch) -> bool:
    """Whether rows break no key beside those that the engine has, to which they may be added.

    No edit of the table, or of one that it refers to, may wait. O(cells), by column.
    """
    mine = table.relation
    if not (table.keys or table.foreign):
        return True
    with engine.transaction() as tx:
        try:
            for key in table.keys:
                distinct, rows = batch.keys(key.places, mine, key.places)
                if len(distinct) < rows or len(tx.given_rows(mine.name, distinct)):
                    return False
            if any(one.table == mine.name for one in table.foreign):
                tx.insert(mine.name, batch.table)
            for one in table.foreign:
                other = catalog.tables[one.table].relation
                distinct, _ = batch.keys(one.places, other, one.key.places)
                if len(tx.given_rows(one.table, distinct)) < len(distinct):
                    return False
        finally:
            tx.rollback()
    return True


def _duplicate(
    statement: Statement, table: Table, added: Sequence[Row], key: Key, rows: tuple[int, ...]
) -> SqlError:
    names, values = _said(table.relation.columns, key.places, added[rows[0]])
    message = f"{table.relation.name}: {key.kind} ({names}) has a row with ({values}) already"
    return statement.integrity(message, "UPDATE that row, or DELETE it first", rows)


def _dangling(statement: Statement, edit: Edit, one: ForeignKey, place: int) -> SqlError:
    mine = edit.table.relation
    names, values = _said(mine.columns, one.places, edit.added[place])
    message = f"{mine.name}: ({names}) of a row is ({values}), which {one.table} has not"
    return statement.integrity(message, f"INSERT it INTO {one.table} first", (place,))


def _said(columns: Sequence[Column], places: Sequence[int], row: Row) -> tuple[str, str]:
    """The names of some columns, and a row's values there, as errors have them."""
    (shown,) = shown_rows(decode_rows([row], columns), columns)
    names = ", ".join(columns[place].name for place in places)
    return names, ", ".join(repr(shown[place]) for place in places)
