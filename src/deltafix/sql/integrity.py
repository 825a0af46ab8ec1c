"""PRIMARY KEY, UNIQUE and FOREIGN KEY: the row of an edit that would break one.

An edit's rows are looked at one by one, against what the engine has and what waits for its next
epoch; those of an edit in codes all at once. Invariant: the second way finds whether there is such
a row, and the first which: both say no, or neither, and both make the same follow. NULLs are never
equal, and refer to nothing. CHECK is a matter of one row (`sql.rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.engine.coded import CodedRows, distinct, numbered, places_among, without_nil
from deltafix.errors import SqlError
from deltafix.facts.logical import logical_order
from deltafix.facts.schema import Row
from deltafix.kernel.values import NIL
from deltafix.sql.catalog import Catalog
from deltafix.sql.rows import CodedEdit, Edit, checked
from deltafix.sql.tables import ForeignKey, Key, Table
from deltafix.sql.text import Statement
from deltafix.sql.types import Column, as_sql, decode_rows, row_as_sql

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.kernel.arena import Words
    from deltafix.sql.editing import Editing

__all__ = [
    "actions", "following", "net", "require_end", "require_keys", "require_references",
    "require_sound", "rows_with",
]  # fmt: skip


def require_keys(
    connection: Editing, statement: Statement, table: Table, added: Sequence[Row]
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
        for index, value in enumerate(values[: len(values) if first is None else first[1][0]]):
            if value in taken:
                first = key, (index, *taken[value])
                break
            if None not in value:
                taken[value] = (index,)
    if first is not None:
        raise _duplicate(statement, table, added, *first)


def require_sound(connection: Editing, statement: Statement, table: Table, rows: list[Row]) -> None:
    """Raise SqlIntegrityError at the first of a table's rows that breaks one of its constraints.

    The rows are those that the engine has, as ALTER TABLE makes them. O(rows).
    """
    for key in table.keys:
        taken = dict[tuple[Any, ...], int]()
        for index, value in enumerate(map(key.of, rows)):
            if None in value:
                continue
            first = taken.setdefault(value, index)
            if first != index:
                names, _ = _names_and_values(table.relation.columns, key.positions, rows[index])
                both = decode_rows([rows[first], rows[index]], table.relation.columns)
                left, right = map(row_as_sql, both)
                message = f"{table.relation.name}: {left} and {right} have one {key.kind} ({names})"
                raise statement.integrity(message, "UPDATE or DELETE one of them first")
    checked(statement, Edit(table, [], rows))
    lost = _lost(connection, Edit(table, [], rows))
    if lost is not None:
        raise _dangling(statement, Edit(table, [], rows), *lost)


def _lost(connection: Editing, edit: Edit) -> tuple[ForeignKey, int] | None:
    """The first foreign key that a row added breaks, and its first row."""
    for foreign in edit.table.foreign:
        wanted: dict[tuple[Any, ...], int] = {}
        for index, value in enumerate(map(foreign.of, edit.added)):
            if None not in value:
                wanted.setdefault(value, index)
        target = connection.catalog.tables[foreign.table]
        there = connection.rows_with(target, foreign.key, wanted)
        lost = next((at for value, at in wanted.items() if value not in there), None)
        if lost is not None:
            return foreign, lost
    return None


def require_references(connection: Editing, statement: Statement, edit: Edit) -> None:
    """Raise SqlIntegrityError where a row refers to one that is not there, after an edit."""
    name = edit.table.relation.name
    lost = _lost(connection, edit)
    if lost is not None:
        raise _dangling(statement, edit, *lost)
    for table, foreign in connection.catalog.referring(name) if edit.removed else ():
        gone = {*map(foreign.key.of, edit.removed)}.difference(map(foreign.key.of, edit.added))
        rows = _referring(connection, table, foreign, gone)
        if rows:
            mine = table.relation
            names, values = _names_and_values(mine.columns, foreign.positions, rows[0])
            message = f"{mine.name} has a row with ({names}) = ({values})"
            raise statement.integrity(
                f"{message}, which {name} would lose", f"DELETE it FROM {mine.name} first"
            )


def _referring(
    connection: Editing, table: Table, foreign: ForeignKey, keys: Iterable[tuple[Any, ...]]
) -> list[Row]:
    """The rows that refer to some of these keys, in order: an error names the first."""
    referring = {foreign.referring(value) for value in keys if None not in value}
    rows = connection.rows_at(table, foreign.positions, referring) if referring else []
    if len(rows) < 2:
        return rows
    shown = decode_rows(rows, table.relation.columns)
    order = sorted(range(len(rows)), key=lambda index: logical_order(shown[index]))
    return [rows[index] for index in order]


def actions(
    connection: Editing, statement: Statement, edit: Edit, edits: Sequence[Edit]
) -> Iterator[Edit]:
    """The edits that ON DELETE and ON UPDATE say follow one; each as things are then.

    `edits` are those of the statement so far. A key that changes twice is followed twice, so all
    that follows an edit is made before what follows the next.

    A row deleted for which another of its key is inserted has changed, and has no ON DELETE. All
    that an UPDATE does to keys happens at once: 1 may become 2 and 2 become 1.
    """
    if not edit.removed:
        return
    count = len(edit.replaced)
    for table, foreign in connection.catalog.referring(edit.table.relation.name):
        of = foreign.key.of
        if foreign.on_delete and len(edit.removed) > count:
            become = {*edit.replaced}
            lost = {*map(of, edit.removed[count:])}
            lost.difference_update(of(row) for row in edit.added if row not in become)
            rows = _referring(connection, table, foreign, lost)
            if rows and foreign.on_delete == "CASCADE":
                yield Edit(table, rows, [])
            elif rows:
                values = dict.fromkeys(lost, _fixed(table, foreign, foreign.on_delete))
                yield _set(statement, table, foreign, rows, values)
        if foreign.on_update and count:
            pairs = zip(edit.removed, edit.replaced, strict=False)
            keys = {of(old): of(new) for old, new in pairs if of(old) != of(new)}
            rows = _referring(connection, table, foreign, keys)
            if rows and not keys.keys().isdisjoint(keys.values()):
                moved = _moved(table, foreign, edits, edit)
                rows = [row for row in rows if row not in moved]
            if rows and foreign.on_update == "CASCADE":
                values = {old: foreign.referring(new) for old, new in keys.items()}
                yield _set(statement, table, foreign, rows, values)
            elif rows:
                values = dict.fromkeys(keys, _fixed(table, foreign, foreign.on_update))
                yield _set(statement, table, foreign, rows, values)


def _fixed(table: Table, foreign: ForeignKey, action: str) -> tuple[Any, ...]:
    """What SET NULL or SET DEFAULT has a row refer to."""
    if action == "SET NULL":
        return (None,) * len(foreign.positions)
    columns = table.relation.columns
    return tuple(columns[at].encode(table.defaults.get(at)) for at in foreign.positions)


def _set(
    statement: Statement,
    table: Table,
    foreign: ForeignKey,
    rows: list[Row],
    become: Mapping[tuple[Any, ...], tuple[Any, ...]],
) -> Edit:
    """Have rows refer to something else; by the key that each refers to."""
    columns = table.relation.columns
    changed = []
    for row in rows:
        cells = list(row)
        for position, value in zip(foreign.positions, become[foreign.of(row)], strict=True):
            if value is None and not columns[position].nullable:
                name = f"{table.relation.name}.{columns[position].name}"
                message = f"ON UPDATE CASCADE would make {name} NULL, which is NOT NULL"
                raise statement.integrity(message, "DELETE that row first")
            cells[position] = value
        changed.append(tuple(cells))
    return Edit(table, rows, changed, changed)


def _moved(table: Table, foreign: ForeignKey, edits: Sequence[Edit], edit: Edit) -> set[Row]:
    """The rows of a table that refer to another key by an edit of a statement, but this one.

    Where a key becomes what another one was, they are not to follow a second time: they may be
    reached by several ways, or in a circle.
    """
    moved = set[Row]()
    for before in edits:
        if before.table is table:
            come = {
                new
                for old, new in zip(before.removed, before.replaced, strict=False)
                if old in moved or (before is not edit and foreign.of(old) != foreign.of(new))
            }
            moved = moved.difference(before.removed) | come
    return moved


_CHAIN = 1000
"""So many edits of keys may follow one from the other; no chain that ends is known to have more
than a few."""


def require_end(statement: Statement, edit: Edit, chain: int) -> None:
    """Raise SqlIntegrityError where ON UPDATE of tables in a circle would never end."""
    if chain > _CHAIN:
        message = f"ON UPDATE of {edit.table.relation.name} goes round in a circle"
        raise statement.integrity(message, "leave one of the actions in that circle out")


def net(edits: Sequence[Edit]) -> list[Edit]:
    """One edit for each table: the rows that several, one after another, take and bring."""
    if len({edit.table.relation.name for edit in edits}) == len(edits):
        return [*edits]
    by_table: dict[str, tuple[Table, Counter[Row]]] = {}
    for table, removed, added, *_ in edits:
        _, counts = by_table.setdefault(table.relation.name, (table, Counter()))
        counts.subtract(removed)
        counts.update(added)
    return [
        Edit(
            table,
            [row for row, count in counts.items() if count < 0],
            [row for row, count in counts.items() if count > 0],
        )
        for table, counts in by_table.values()
    ]


# --- in codes ------------------------------------------------------------------------------------


def following(engine: Database, catalog: Catalog, edit: CodedEdit) -> list[CodedEdit] | None:
    """An edit in codes and those that ON DELETE and ON UPDATE say follow, if all constraints hold.

    None where a row breaks one, and where a table would be edited twice, or a default be set: then
    rows are looked at one by one. No edit may wait. O(cells), and at most a pass over each table
    that the keys of these refer to.
    """
    edits = {edit.table.relation.name: edit}
    waiting = [edit]
    for cause in waiting:  # which grow
        if not _keys_hold(engine, cause):
            return None
        for table, foreign in catalog.referring(cause.table.relation.name):
            follows = _follows(engine, edits, table, foreign, cause)
            if follows is None:
                return None
            if len(follows.removed):
                if table.checks or table.relation.name in edits:
                    return None
                edits[table.relation.name] = follows
                waiting.append(follows)
    for queued in waiting:
        if not _refers_soundly(engine, catalog, edits, queued):
            return None
    return waiting


def _of(rows: CodedRows, positions: Sequence[int]) -> Words:
    """The codes in some columns of the rows that are not NULL there."""
    return without_nil(rows.codes[:, list(positions)])


def _without(keys: Words, others: Words) -> Words:
    """The keys that are none of others."""
    if not (len(keys) and len(others)):
        return keys
    mine, theirs = numbered(keys, others)
    return keys[~np.isin(mine, theirs)]


def rows_with(
    engine: Database,
    edits: Mapping[str, CodedEdit],
    name: str,
    positions: Sequence[int],
    keys: Words,
) -> CodedRows:
    """The engine's rows of a table that have some keys, but for those that an edit removes."""
    order = np.argsort(positions)
    sorted_places = [positions[n] for n in order]
    rows = engine.coded_with(name, sorted_places, np.ascontiguousarray(distinct(keys)[:, order]))
    gone = edits[name].removed.codes if name in edits else rows.codes[:0]
    if len(gone) and len(rows):
        mine, theirs = numbered(rows.codes, gone)
        rows = rows.where(~np.isin(mine, theirs))
    return rows


def _keys_hold(engine: Database, edit: CodedEdit) -> bool:
    """Whether rows added have no key twice, nor one that another row has that stays."""
    for key in edit.table.keys:
        positions = list(key.positions)
        if edit.replaced == len(edit.added) and np.array_equal(
            edit.removed.codes[: edit.replaced, positions], edit.added.codes[:, positions]
        ):
            continue
        keys = _of(edit.added, positions)
        if len(distinct(keys)) < len(keys):
            return False
        fresh = _without(keys, _of(edit.removed, positions))
        if len(fresh) and len(rows_with(engine, {}, edit.table.relation.name, positions, fresh)):
            return False
    return True


def _follows(
    engine: Database,
    edits: Mapping[str, CodedEdit],
    table: Table,
    foreign: ForeignKey,
    cause: CodedEdit,
) -> CodedEdit | None:
    """What a foreign key of a table has its rows do after an edit of those that they refer to."""
    schema = engine.schemas[table.relation.name]
    nothing = CodedRows(schema, np.empty((0, schema.arity), np.int32), cause.removed.tables)
    none = CodedEdit(table, nothing, nothing)
    positions, mine, count = list(foreign.key.positions), list(foreign.positions), cause.replaced
    old, new = cause.removed.codes[:, positions], cause.added.codes[:count][:, positions]
    changed = np.ones(len(old), np.bool_)
    changed[:count] = (old[:count] != new).any(axis=1)
    changed &= (old != NIL).all(axis=1)
    if not changed.any():
        return none
    deleted = len(old) > count
    action = foreign.on_delete if deleted else foreign.on_update
    if deleted and (count or len(cause.added)):
        return None  # a row may come for the one that goes
    # what another edit changed is found as it was, and then by row; what one removed is gone
    other = edits.get(table.relation.name)
    known = edits if other is not None and not len(other.added) else {}
    rows = rows_with(engine, known, table.relation.name, mine, old[changed])
    if not len(rows):
        return none
    if action == "CASCADE" and deleted:
        return CodedEdit(table, rows, rows.nothing)
    if action not in ("CASCADE", "SET NULL"):
        return None
    codes = rows.codes.copy()
    if action == "SET NULL":
        codes[:, mine] = NIL
    else:
        codes[:, mine] = new[changed][places_among(codes[:, mine], old[changed])]
    columns = table.relation.columns
    if any((codes[:, at] == NIL).any() for at in mine if not columns[at].nullable):
        return None
    return CodedEdit(table, rows, CodedRows(schema, codes, rows.tables), len(rows))


def _refers_soundly(
    engine: Database, catalog: Catalog, edits: Mapping[str, CodedEdit], edit: CodedEdit
) -> bool:
    """Whether what rows added refer to is there, and nothing is lost that others refer to."""
    name = edit.table.relation.name
    for foreign in edit.table.foreign:
        positions = list(foreign.positions)
        if edit.replaced == len(edit.added) and np.array_equal(
            edit.removed.codes[: edit.replaced, positions], edit.added.codes[:, positions]
        ):
            continue  # a row that lost what it refers to would have followed
        wanted = distinct(_of(edit.added, positions))
        if foreign.table in edits:
            wanted = _without(wanted, _of(edits[foreign.table].added, foreign.key.positions))
        if len(wanted):
            targets = rows_with(engine, edits, foreign.table, foreign.key.positions, wanted)
            if len(targets) < len(wanted):
                return False
    for table, foreign in catalog.referring(name) if len(edit.removed) else ():
        other, key = table.relation.name, foreign.key.positions
        gone = _without(_of(edit.removed, key), _of(edit.added, key))
        if len(gone) and len(rows_with(engine, edits, other, foreign.positions, gone)):
            return False
    return True


# --- errors --------------------------------------------------------------------------------------


def _duplicate(
    statement: Statement, table: Table, added: Sequence[Row], key: Key, rows: tuple[int, ...]
) -> SqlError:
    names, values = _names_and_values(table.relation.columns, key.positions, added[rows[0]])
    message = f"{table.relation.name}: {key.kind} ({names}) has a row with ({values}) already"
    return statement.integrity(message, "UPDATE that row, or DELETE it first", rows)


def _dangling(statement: Statement, edit: Edit, foreign: ForeignKey, index: int) -> SqlError:
    mine = edit.table.relation
    names, values = _names_and_values(mine.columns, foreign.positions, edit.added[index])
    message = f"{mine.name}: ({names}) of a row is ({values}), which {foreign.table} has not"
    return statement.integrity(message, f"INSERT it INTO {foreign.table} first", (index,))


def _names_and_values(
    columns: Sequence[Column], positions: Sequence[int], row: Row
) -> tuple[str, str]:
    """The names of some columns, and a row's values there, as errors have them."""
    (shown,) = decode_rows([row], columns)
    names = ", ".join(columns[position].name for position in positions)
    return names, ", ".join(as_sql(shown[position]) for position in positions)
