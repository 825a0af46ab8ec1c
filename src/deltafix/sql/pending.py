"""Edits that wait: the engine has them in the next epoch, with all others that wait until then.

Rows of statements wait net of each other, beside what they made of each key's values; rows by
column (`Batch`) as they were given. Invariant: what the engine has and what waits together are the
tables as the statements before have left them. When they become an epoch, and how an epoch is
undone, is the connection's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltafix.facts.schema import Row
from deltafix.sql.rows import Edit
from deltafix.sql.tables import Key, Table

if TYPE_CHECKING:
    from deltafix.sql.columns import Batch

__all__ = ["Pending"]

_FEW: Final = 64
"""An epoch costs as much as a look at a few times as many rows."""


class Pending:
    """The edits of all tables that wait. It is true where there are some."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Row, int]] = {}
        self._keyed: dict[str, dict[tuple[int, ...], dict[tuple[Any, ...], Row | None]]] = {}
        self._batches: dict[str, Batch] = {}

    def __bool__(self) -> bool:
        return bool(self._batches) or any(self._rows.values())

    def waits(self, table: str) -> bool:
        """Whether the engine does not have all edits of a table."""
        return bool(self._rows.get(table)) or table in self._batches

    def few(self, table: str) -> Mapping[Row, int] | None:
        """The rows of a table that wait, with their signs; None where they are many to look at."""
        rows = self._rows.get(table, {})
        return None if len(rows) > _FEW or table in self._batches else rows

    def by_column(self, table: str) -> bool:
        """Whether rows of a table wait by column: they are not among `keyed`."""
        return table in self._batches

    def keyed(self, table: Table, key: Key) -> Mapping[tuple[Any, ...], Row | None]:
        """What edits by row made of a key's values: the row that has one, None if none has now."""
        return self._keyed.get(table.relation.name, {}).get(key.places, {})

    def add(self, table: Table, removed: Sequence[Row], added: Sequence[Row]) -> None:
        """Let rows go, then others come. O(rows)."""
        name = table.relation.name
        keyed = self._keyed.get(name)
        if keyed is None:
            keyed = self._keyed[name] = {key.places: {} for key in table.keys}
        for key in table.keys:
            there = keyed[key.places]
            for row in removed:
                there[key.of(row)] = None
            for row in added:
                there[key.of(row)] = row
        waiting = self._rows.get(name)
        if waiting is None:
            waiting = self._rows[name] = {}
        if not waiting and not removed:
            waiting.update(dict.fromkeys(added, 1))
            return
        for rows, sign in ((removed, -1), (added, 1)):
            for row in rows:
                count = waiting.pop(row, 0) + sign
                if count:
                    waiting[row] = count
        if not waiting:  # the engine has it all, in whatever columns ALTER TABLE gives it next
            del self._keyed[name]

    def add_batch(self, batch: Batch) -> None:
        """Let rows of a table of which nothing waits come by column."""
        self._batches[batch.relation.name] = batch

    def take_back(self, edit: Edit) -> None:
        """Let an edit that was added, or is an epoch already, not have been."""
        name = edit.table.relation.name
        if self._batches.get(name) is edit.added:
            del self._batches[name]
        else:
            self.add(edit.table, edit.added, edit.removed)

    def apply(self, tx: Any) -> None:
        """Make all of it edits of a transaction of the engine."""
        for name, batch in self._batches.items():
            tx.insert(name, batch.table)
        for name, rows in self._rows.items():
            for sign, edit in ((-1, tx.delete), (1, tx.insert)):
                found = [row for row, count in rows.items() if count * sign > 0]
                if found:
                    edit(name, found)

    def rows(self) -> dict[str, dict[Row, int]]:
        """Rows of each table and their signs."""
        found = {name: dict.fromkeys(batch, 1) for name, batch in self._batches.items()}
        for name, rows in self._rows.items():
            if rows:
                found.setdefault(name, {}).update(rows)
        return found

    def clear(self) -> None:
        """Nothing waits any more: the engine has it, or it was taken back."""
        self._rows, self._keyed, self._batches = {}, {}, {}
