"""Edits that wait: the engine has them in the next epoch, with all others that wait until then.

Few rows wait net of each other, beside what they made of each key's values; an edit of many as the
codes that it is made of. Invariant: what the engine has and what waits together are the tables as
the statements before have left them; of a table of which an edit in codes waits, nothing waited
before it. When they become an epoch, and how an epoch is
undone, is the connection's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltafix.facts.schema import Row
from deltafix.sql.rows import CodedEdit, Edit
from deltafix.sql.tables import Key, Table

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["Pending"]

_FEW: Final = 64
"""An epoch costs as much as a look at a few times as many rows."""


class Pending:
    """The edits of all tables that wait. It is true where there are some."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Row, int]] = {}
        self._keyed: dict[str, dict[tuple[int, ...], dict[tuple[Any, ...], Row | None]]] = {}
        self._coded: dict[str, CodedEdit] = {}

    def __bool__(self) -> bool:
        return bool(self._coded) or any(self._rows.values())

    def waits(self, table: str) -> bool:
        """Whether the engine does not have all edits of a table."""
        return bool(self._rows.get(table)) or table in self._coded

    def few(self, table: str) -> Mapping[Row, int] | None:
        """The rows of a table that wait, with their signs; None where they are many to look at."""
        rows = self._rows.get(table, {})
        return None if len(rows) > _FEW or table in self._coded else rows

    def in_codes(self, table: str) -> bool:
        """Whether an edit of a table waits in codes: its rows are not among `keyed`."""
        return table in self._coded

    def keyed(self, table: Table, key: Key) -> Mapping[tuple[Any, ...], Row | None]:
        """What edits by row made of a key's values: the row that has one, None if none has now."""
        return self._keyed.get(table.relation.name, {}).get(key.positions, {})

    def add(self, table: Table, removed: Sequence[Row], added: Sequence[Row]) -> None:
        """Let rows go, then others come. O(rows)."""
        name = table.relation.name
        keyed = self._keyed.get(name)
        if keyed is None:
            keyed = self._keyed[name] = {key.positions: {} for key in table.keys}
        for key in table.keys:
            by_key = keyed[key.positions]
            for row in removed:
                by_key[key.of(row)] = None
            for row in added:
                by_key[key.of(row)] = row
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

    def add_coded(self, edit: CodedEdit) -> None:
        """Let an edit in codes wait, of a table of which nothing waits."""
        self._coded[edit.table.relation.name] = edit

    def take_back(self, edit: Edit | CodedEdit) -> None:
        """Let an edit that was added, or is an epoch already, not have been."""
        name = edit.table.relation.name
        if self._coded.get(name) is edit:
            del self._coded[name]
        else:
            edit = edit.by_row() if isinstance(edit, CodedEdit) else edit
            self.add(edit.table, edit.added, edit.removed)

    def apply(self, db: Database, tx: Any) -> None:
        """Make all of it edits of a transaction of the engine."""
        for name, edit in self._coded.items():
            tx.delete(name, db.recoded(edit.removed))
            tx.insert(name, db.recoded(edit.added))
        for name, counts in self._rows.items():
            for sign, change in ((-1, tx.delete), (1, tx.insert)):
                rows = [row for row, count in counts.items() if count * sign > 0]
                if rows:
                    change(name, rows)

    def rows(self) -> dict[str, list[tuple[int, Row]]]:
        """Rows of each table behind their signs."""
        signed = dict[str, list[tuple[int, Row]]]()
        for name, edit in self._coded.items():
            _, removed, added, *_ = edit.by_row()
            signed[name] = [*((-1, row) for row in removed), *((1, row) for row in added)]
        for name, rows in self._rows.items():
            if rows:
                signed.setdefault(name, []).extend((sign, row) for row, sign in rows.items())
        return signed

    def clear(self) -> None:
        """Nothing waits any more: the engine has it, or it was taken back."""
        self._rows, self._keyed, self._coded = {}, {}, {}
