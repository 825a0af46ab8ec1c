"""Edits of tables: what a statement's edit makes come and go, keys and references held.

Invariants: rows that are read are what the statements before say, those that wait included; an edit
that breaks a constraint is noted nowhere. How an edit follows from a statement is `sql.edits`, what
constraints say `sql.integrity`, and what becomes of it `sql.transactions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltafix.engine.coded import CodedRows
from deltafix.errors import SqlError, SqlIntegrityError
from deltafix.facts.schema import Row
from deltafix.sql.integrity import (
    actions,
    following,
    net,
    require_end,
    require_keys,
    require_references,
    rows_with,
)
from deltafix.sql.rows import CodedEdit, Edit, checked, name_rows
from deltafix.sql.transactions import Transactions

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes
    from deltafix.engine.transaction import Transaction
    from deltafix.kernel.arena import Words
    from deltafix.sql.builder import Relation
    from deltafix.sql.tables import Key, Table
    from deltafix.sql.text import Statement


class Editing(Transactions):
    """Rows of tables, looked up and edited."""

    def _edit(self, statement: Statement, *edits: Edit | CodedEdit, whole: bool = False) -> int:
        """Make an edit, and those that follow from it; `Transaction` undoes what is refused.

        Several, by row, are of a table each. `whole` ones say all of its rows: nothing follows
        there.
        """
        try:
            return self._make_all(statement, edits, whole=whole)
        except SqlError:
            raise
        except BaseException as error:
            self._abort(error)  # an interrupt may leave half of a row's edit behind
            raise

    def _make_all(
        self, statement: Statement, edits: tuple[Edit | CodedEdit, ...], *, whole: bool
    ) -> int:
        count = sum([edit.size for edit in edits])
        by_row: list[Edit] = []  # called, list[Edit] takes ten times as long
        for edit in edits:
            if isinstance(edit, Edit) and isinstance(edit.added, list):
                by_row.append(edit)
                continue
            coded = edit if isinstance(edit, CodedEdit) else self.in_codes(edit)
            if len(edits) == 1 and self._take(coded):
                return count
            by_row.append(coded.by_row_again())  # which names a row
        replaced = {edit.table.relation.name for edit in by_row} if whole else set()
        causes, current = [*by_row], by_row[0]
        try:
            for current in by_row:
                self._make(statement, current)
            chains = [0] * len(by_row)  # how many edits of keys in a row each is the end of
            for cause, chain in zip(causes, chains, strict=True):  # which grow
                require_end(statement, cause, chain)
                for current in actions(self, statement, cause, causes):
                    if current.table.relation.name in replaced:
                        continue
                    self._make(statement, checked(statement, current))
                    causes.append(current)
                    chains.append(chain + 1 if current.replaced else 0)
            for current in causes if len(causes) == 1 else net(causes):
                require_references(self, statement, current)
        except SqlIntegrityError as error:
            name_rows(error, current, by_row)
            raise
        return count

    def _make(self, statement: Statement, edit: Edit) -> None:
        """Note the rows that an edit removes and adds. Raises SqlIntegrityError: none are."""
        table, removed, added, *_ = edit
        if removed:
            self._pending.add(table, removed, ())
        if added:
            try:
                require_keys(self, statement, table, added)
            except SqlError:
                self._pending.add(table, (), removed)
                raise
            self._pending.add(table, (), added)
        self._journal.append(edit)

    def in_codes(self, edit: Edit) -> CodedEdit:
        """Rows to insert by column as codes. O(cells)."""
        name, rows = edit.table.relation.name, edit.added
        with self._engine().transaction() as tx:
            try:
                added = tx.coded(name, rows if isinstance(rows, list) else rows.table)
            finally:
                tx.rollback()
        return CodedEdit(edit.table, added.nothing, added, 0, lambda: edit._replace(added=[*rows]))

    def take(self, edit: CodedEdit, *, alone: bool = False) -> bool:
        """Let an edit of many rows wait as codes, and those that follow from it.

        False, and nothing, where a row breaks a constraint, or what follows is to be found row by
        row. `alone` nothing follows, and no constraint is asked.
        """
        try:
            return self._take(edit, alone=alone)
        except SqlError:
            raise
        except BaseException as error:
            self._abort(error)  # as above
            raise

    def _take(self, edit: CodedEdit, *, alone: bool = False) -> bool:
        if any(map(self._pending.waits, self._concerned(edit))):
            self._settle_edits()
        edits = [edit] if alone else following(self._engine(), self.catalog, edit)
        for step in edits or ():
            self._pending.add_coded(step)
            self._journal.append(step)
        return edits is not None

    def _concerned(self, edit: CodedEdit) -> set[str]:
        """The tables that what follows from an edit may edit, and those that these refer to."""
        tables, concerned = self.catalog.tables, [edit.table.relation.name]
        for name in concerned if len(edit.removed) else ():  # which grows
            others = (table.relation.name for table, _ in self.catalog.referring(name))
            concerned += [other for other in dict.fromkeys(others) if other not in concerned]
        return {
            *concerned,
            *(foreign.table for name in concerned for foreign in tables[name].foreign),
        }

    def rows_with(
        self, table: Table, key: Key, values: Iterable[tuple[Any, ...]]
    ) -> dict[tuple[Any, ...], Row]:
        """The rows that have these values of a key, by value; edits that wait are included.

        O(values), or one pass over the table where they are many.
        """
        if self._pending.in_codes(table.relation.name):
            self._settle_edits()
        edited, missing = self._pending.keyed(table, key), []
        rows: dict[tuple[Any, ...], Row] = {}
        for value in values:
            if None in value:
                continue
            if value not in edited:
                missing.append(value)
            elif (row := edited[value]) is not None:
                rows[value] = row
        name = table.relation.name
        is_there = self._db is not None and name in self._known.tables
        if missing and is_there and (len(missing) == 1 or self._engine().count(name)):
            names = [table.relation.columns[position].name for position in key.positions]
            for row in self._engine().semijoin(name, names, missing):
                rows[key.of(row)] = row
        return rows

    def rows_at(
        self, table: Table, positions: Sequence[int], values: Collection[tuple[Any, ...]]
    ) -> list[Row]:
        """The rows that have one of these values at some positions; edits that wait are included.

        O(values + rows found) where the positions are a key's, of this table or of one that it
        refers to; or one pass over the table where they are many.
        """
        name = table.relation.name
        waiting = self._pending.few(name)
        if waiting is None:
            self._settle_edits()
            waiting = {}
        rows: list[Row] = []
        if self._db is not None and name in self._known.tables:
            names = [table.relation.columns[position].name for position in positions]
            rows = self._engine().semijoin(name, names, values)
        if waiting:
            rows = [row for row in rows if row not in waiting]
            for row, sign in waiting.items():
                if sign > 0 and tuple([row[position] for position in positions]) in values:
                    rows.append(row)
        return rows

    def rows_of(self, name: str) -> list[Row]:
        """The engine's rows of a table or view, as they are for the next statement."""
        self._settle_edits()
        return self._engine().rows(name)

    def coded(self, name: str) -> CodedRows:
        """The same as codes, in no order."""
        self._settle_edits()
        return self._engine().coded(name)

    def rows_in_codes(self, table: Table, key: Key, values: Words) -> CodedRows:
        """The rows that have these values of a key, one of which is no row's twice, as codes."""
        self._settle_edits()
        return rows_with(self._engine(), {}, table.relation.name, key.positions, values)

    def recoded(self, rows: CodedRows) -> CodedRows:
        """Rows of another database in the codes of the engine."""
        return self._engine().recoded(rows)

    def of_table(self, name: str, codes: Words, tables: Codes) -> CodedRows:
        """Codes (n, columns) of the engine, of which a table has the first, as its rows."""
        schema = self._engine().schemas[name]
        return CodedRows(schema, codes[:, : schema.arity], tables)

    def copy(self, name: str, tx: Transaction) -> None:
        """Give those rows to another database in which it is declared alike."""
        self._settle_edits()
        tx.copy(name, self._engine())

    def rows_like(self, relation: Relation, fixed: Mapping[int, Any]) -> Iterable[Row]:
        """The engine's rows with these values, in order: by a key in O(1), else by a pattern."""
        rows = self.lookup(relation, fixed)
        return rows.in_order() if isinstance(rows, CodedRows) else rows

    def lookup(self, relation: Relation, fixed: Mapping[int, Any]) -> Iterable[Row] | CodedRows:
        """The same; what a pattern finds as codes, in no order."""
        table = self.catalog.tables.get(relation.name)
        for key in table.keys if table is not None else ():
            value = tuple([fixed.get(position) for position in key.positions])
            # Rows without a value are of no key, and many may be.
            if table is not None and None not in value:
                return self.rows_with(table, key, [value]).values()
        self._settle_edits()
        if not fixed:
            return self._engine().coded(relation.name)
        pattern = [fixed.get(position, ...) for position in range(len(relation.all_columns))]
        return self._engine().coded_like(relation.name, pattern)
