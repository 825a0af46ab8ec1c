"""Tables kept as files say: what changes in a file is a transaction of its table.

Files are looked at as `engine.follow` does: one that has changed is read once it stays as it is for
a look. Invariant: a table with a file has that file's rows, no others, from one version to the
next; a version that cannot be taken (a value, a key, a reference) is told once and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deltafix.engine.follow import mark_of
from deltafix.errors import DeltafixError, SourceError, SqlError, SqlIntegrityError
from deltafix.sql.files import read_table, table_file, take_in

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["TableFolder"]


class TableFolder:
    """The files of a connection's tables in one folder: `<table>.parquet` or `<table>.csv`.

    Args:
        db: given the rows.
        folder: where the files lie.
        tell: called with a message for what cannot be taken.
    """

    def __init__(self, db: Connection, folder: Path, tell: Callable[[str], None]) -> None:
        self._db = db
        self._folder = folder
        self._tell = tell
        self._files: dict[str, Path] = {}
        for name in db.catalog.tables:
            path = table_file(folder, name)
            if path is not None:
                self._files[name] = path
        self._read = {name: mark_of(path) for name, path in self._files.items()}
        self._seen = dict(self._read)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files looked at."""
        return tuple(self._files.values())

    def load(self) -> None:
        """Take every file in, in one transaction.

        Raises SourceError for a file that cannot be read, and for one whose table has rows already.
        """
        self._db.begin()
        try:
            for name, path in self._files.items():
                if self._db.rows_of(name):
                    message = (
                        f"table {name} has rows of the script, and {path} is to be all of its "
                        "rows; take the INSERT or the file away"
                    )
                    raise SourceError(message, value=name)
                others = take_in(self._db, name, path)
                if others:
                    shown = ", ".join(others)
                    self._tell(f"note: {path}: table {name} has no column {shown}")
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise

    def poll(self) -> None:
        """Look once, and take in what has changed and was at rest."""
        changed = []
        for name, path in self._files.items():
            mark = mark_of(path)
            at_rest, self._seen[name] = self._seen[name] == mark, mark
            if at_rest and mark != self._read[name]:
                self._read[name] = mark
                if mark is None:
                    self._tell(f"{path} is gone; its rows stay as they were")
                else:
                    changed.append(name)
        if changed:
            self._take(changed)

    def _take(self, names: list[str]) -> None:
        try:
            columns = {n: self._db.catalog.tables[n].relation.columns for n in names}
            rows = {name: read_table(self._files[name], columns[name])[0] for name in names}
            try:
                self._replace(names, rows)
            except SqlIntegrityError:
                if len(names) == 1:
                    raise
                self._replace(names[::-1], rows)  # what refers goes before what is referred to
        except DeltafixError as error:
            said = str(error)
            if isinstance(error, SqlError) and error.diagnostics:
                said = error.diagnostics[0].message
            files = ", ".join(str(self._files[name]) for name in names)
            where = "" if isinstance(error, SourceError) else f"{files}: "
            self._tell(f"{where}{said}; its rows stay as they were")

    def _replace(self, names: list[str], rows: dict[str, object]) -> None:
        self._db.begin()
        try:
            for name in names:
                self._db.replace(name, rows[name])
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise
