"""Dictionaries that can be put back: every write of an update is logged with the old entry.

One noun, `Journal`. Invariant: after `undo` all tables written through `put` and `drop` hold what
they held at `begin`. Writes that go around it are not undone.
"""

from __future__ import annotations

from typing import Any

_MISSING = object()


class Journal:
    """A log of writes to any number of dictionaries."""

    __slots__ = ("_log", "_logs")

    def __init__(self) -> None:
        self._log: list[tuple[dict[Any, Any], Any, Any]] = []
        self._logs = True

    def begin(self, *, undoable: bool = True) -> None:
        """Start an update, forgetting the last one.

        Args:
            undoable: Keep a log; a first build needs none, and its log would outweigh the tables.
        """
        self._log.clear()
        self._logs = undoable

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """`table[key] = value`, undone by `undo`."""
        if self._logs:
            self._log.append((table, key, table.get(key, _MISSING)))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        """`table.pop(key, None)`, undone by `undo`."""
        old = table.pop(key, _MISSING)
        if self._logs:
            self._log.append((table, key, old))

    def undo(self) -> None:
        """Put every entry back that this update changed; O(writes)."""
        for table, key, old in reversed(self._log):
            if old is _MISSING:
                table.pop(key, None)
            else:
                table[key] = old
        self._log.clear()
