"""Edits of tables: what a statement's edit makes come and go, keys and references held.

Invariants: rows that are read are what the statements before say, those that wait included; an edit
that breaks a constraint is noted nowhere. How an edit follows from a statement is `sql.edits`, what
constraints say `sql.integrity`, and what becomes of it `sql.transactions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltafix.errors import SqlError, SqlIntegrityError
from deltafix.facts.schema import Row
from deltafix.sql.integrity import (
    actions,
    is_sound,
    net,
    require_end,
    require_keys,
    require_references,
)
from deltafix.sql.rows import Edit, checked, name_rows
from deltafix.sql.transactions import Transactions

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction
    from deltafix.sql.builder import Relation
    from deltafix.sql.columns import Batch
    from deltafix.sql.tables import Key, Table
    from deltafix.sql.text import Statement


class Editing(Transactions):
    """Rows of tables, looked up and edited."""

    def _edit(self, statement: Statement, *edits: Edit, whole: bool = False) -> int:
        """Make an edit, and those that follow from it; `Transaction` undoes what is refused.

        Several are of a table each. `whole` ones say all of its rows: nothing follows there.
        """
        try:
            return self._make_all(statement, edits, whole=whole)
        except SqlError:
            raise
        except BaseException as error:
            self._abort(error)  # an interrupt may leave half of a row's edit behind
            raise

    def _make_all(self, statement: Statement, edits: tuple[Edit, ...], *, whole: bool) -> int:
        table, removed, added, replaced, _ = edits[0]
        if not isinstance(added, list):
            if self._take_batch(table, added):
                self._journal.append(edits[0])
                return len(added)
            added = list(added)  # by row, which names the one that breaks a key
            edits = (Edit(table, removed, added, replaced),)
        said = {one.table.relation.name for one in edits if whole}
        made, doing = [*edits], edits[0]
        try:
            for doing in edits:
                self._make(statement, doing)
            chains = [0] * len(edits)  # how many edits of keys in a row each is the end of
            for cause, chain in zip(made, chains, strict=True):  # which grow
                require_end(statement, cause, chain)
                for doing in actions(self, statement, cause, made):
                    if doing.table.relation.name in said:
                        continue
                    self._make(statement, checked(statement, doing))
                    made.append(doing)
                    chains.append(chain + 1 if doing.replaced else 0)
            for doing in net(made):
                require_references(self, statement, doing)
        except SqlIntegrityError as error:
            name_rows(error, doing, edits)
            raise
        return sum(len(one.removed) + len(one.added) - len(one.replaced) for one in edits)

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

    def _take_batch(self, table: Table, batch: Batch) -> bool:
        """Let many rows wait by column; False, and nothing, where one would break a key."""
        name = table.relation.name
        if any(map(self._pending.waits, (name, *(one.table for one in table.foreign)))):
            self._settle_edits()
        if not is_sound(self._engine(), self.catalog, table, batch):
            return False
        self._pending.add_batch(batch)
        return True

    def rows_with(
        self, table: Table, key: Key, values: Iterable[tuple[Any, ...]]
    ) -> dict[tuple[Any, ...], Row]:
        """The rows that have these values of a key, by value; edits that wait are included.

        O(values), or one pass over the table where they are many.
        """
        if self._pending.by_column(table.relation.name):
            self._settle_edits()
        edited, found, asked = self._pending.keyed(table, key), dict[tuple[Any, ...], Row](), []
        for value in values:
            if value not in edited:
                asked.append(value)
            elif (row := edited[value]) is not None and None not in value:
                found[value] = row
        name = table.relation.name
        is_there = self._db is not None and name in self._known.tables
        if asked and is_there and self._engine().count(name):
            sure = (value for value in asked if None not in value)
            names = [table.relation.columns[place].name for place in key.places]
            found.update((key.of(row), row) for row in self._engine().semijoin(name, names, sure))
        return found

    def rows_at(
        self, table: Table, places: Sequence[int], values: Collection[tuple[Any, ...]]
    ) -> list[Row]:
        """The rows that have one of these values at some places; edits that wait are included.

        O(values + rows found) where the places are a key's, of this table or of one that it refers
        to; or one pass over the table where they are many.
        """
        name = table.relation.name
        waiting = self._pending.few(name)
        if waiting is None:
            self._settle_edits()
            waiting = {}
        found: list[Row] = []
        if self._db is not None and name in self._known.tables:
            names = [table.relation.columns[place].name for place in places]
            found = self._engine().semijoin(name, names, values)
        if waiting:
            found = [row for row in found if row not in waiting]
            for row, sign in waiting.items():
                if sign > 0 and tuple([row[place] for place in places]) in values:
                    found.append(row)
        return found

    def rows_of(self, name: str) -> list[Row]:
        """The engine's rows of a table or view, as they are for the next statement."""
        self._settle_edits()
        return self._engine().rows(name)

    def copy(self, name: str, tx: Transaction) -> None:
        """Give those rows to another database in which it is declared alike."""
        self._settle_edits()
        tx.copy(name, self._engine())

    def lookup(self, found: Relation, fixed: Mapping[int, Any]) -> Iterable[Row]:
        """The engine's rows with these values: by a key in O(1), else by a pattern."""
        table = self.catalog.tables.get(found.name)
        for key in table.keys if table is not None else ():
            # Rows without a value are of no key, and many may be.
            if table is not None and all(fixed.get(place) is not None for place in key.places):
                return self.rows_with(table, key, [tuple(fixed[n] for n in key.places)]).values()
        self._settle_edits()
        if not fixed:
            return self._engine().ordered(found.name)
        width = len(found.all_columns)
        return self._engine().select(found.name, [fixed.get(place, ...) for place in range(width)])
