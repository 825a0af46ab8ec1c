"""Fact files kept as given rows: what changes in a folder becomes an epoch.

Files are looked at by `stat`; one that has changed is read once it stays as it is for a look, so
that a file is not read while it is being written. Invariant: a file that cannot be read changes
nothing: its old rows stay, the message is told once, and the next version is tried again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deltafix.errors import DeltafixError, SourceError
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.facts.source import input_path, read_input

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.rules.ast import Directive

__all__ = ["FactFolder"]

_Mark = tuple[int, int, int] | None
"""What tells versions of a file apart: inode, size, time of change; None: there is no file."""


class FactFolder:
    """The `.input` files of a program in one folder, and the rows last read from them.

    Args:
        db: given the rows.
        folder: where the files lie.
        tell: called with a message for each version of a file that cannot be taken.
        warn: called with what is passed over in reading: a file that is not there when the first
            ones are read, values beyond the columns; without it those are errors.
    """

    def __init__(
        self,
        db: Database,
        folder: Path,
        tell: Callable[[str], None],
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.db = db
        self.folder = folder
        self._tell = tell
        self._warn = warn
        self._inputs = [
            one
            for one in db.program.directives
            if one.kind == "input" and one.parameters.get("IO", "file") in ("file", "jsonfile")
        ]
        self._rows: dict[int, set[Row]] = {}
        self._read: dict[int, _Mark] = {}
        self._seen: dict[int, _Mark] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files looked at."""
        return tuple(self._path(one) for one in self._inputs)

    def load(self) -> Delta:
        """Read every file and give its rows, in one epoch. Raises SourceError, FactError."""
        for number, one in enumerate(self._inputs):
            self._read[number] = self._seen[number] = self._mark(one)
            self._rows[number] = self._rows_of(one)
        return self._give(dict.fromkeys(self._rows, frozenset()))

    def poll(self) -> Delta | None:
        """Look once: the epoch's changes, if files changed and were at rest; else None."""
        before: dict[int, set[Row] | frozenset[Row]] = {}
        for number, one in enumerate(self._inputs):
            mark = self._mark(one)
            at_rest, self._seen[number] = self._seen.get(number) == mark, mark
            if not at_rest or mark == self._read.get(number):
                continue
            self._read[number] = mark
            try:
                if mark is None:
                    raise SourceError(f"{self._path(one)} is gone")
                rows = self._rows_of(one)
            except DeltafixError as error:
                self._tell(f"{error}; its rows stay as they were")
                continue
            before[number], self._rows[number] = self._rows[number], rows
        if not before:
            return None
        try:
            return self._give(before)
        except DeltafixError as error:
            self._rows.update({n: set(rows) for n, rows in before.items()})
            self._tell(str(error))
            return None

    def _give(self, before: dict[int, set[Row] | frozenset[Row]]) -> Delta:
        """Commit the difference to the rows before; a row that two files state stays with one."""
        with self.db.transaction(missing="ignore") as tx:
            for number, old in before.items():
                name = self._inputs[number].relation
                others = [r for n, r in self._rows.items() if self._inputs[n].relation == name]
                tx.delete(name, [row for row in old if not any(row in rows for rows in others)])
                tx.insert(name, list(self._rows[number] - old))
        return tx.delta

    def _rows_of(self, one: Directive) -> set[Row]:
        rows = read_input(self.db.schemas[one.relation], one.parameters, self.folder, self._warn)
        if isinstance(rows, list):
            return set(rows)
        from deltafix.facts.arrow import rows_from_table  # noqa: PLC0415  pyarrow is slow

        return set(rows_from_table(rows))

    def _path(self, one: Directive) -> Path:
        return input_path(one.relation, one.parameters, self.folder)

    def _mark(self, one: Directive) -> _Mark:
        try:
            found = os.stat(self._path(one))
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
