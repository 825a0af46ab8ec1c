"""Tables kept as files say: what changes in a file is a transaction of its table.

Files are looked at as `engine.follow` does: one that has changed is read once it stays as it is for
a look. Invariant: a table with a file has that file's rows, no others, from one version to the
next; a version that cannot be taken (a value, a key, a reference) changes nothing, is told once and
stands as a problem. It is tried again with the next file that changes, which may be what it lacked.

The script is not followed: it was run, and running it again would not be an edit of what it made.
That it has changed is told.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deltafix.engine.follow import Mark, Problem, ProgramEdit, mark_of
from deltafix.errors import DeltafixError, SourceError, SqlError
from deltafix.facts.carets import with_caret
from deltafix.sql.files import lacks_file, read_table, replace_from, table_file, take_in

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["TableFolder"]


class TableFolder:
    """The files of a connection's tables in one folder: `<table>.parquet` or `<table>.csv`.

    Args:
        db: given the rows.
        folder: where the files lie.
        tell: called with a message for what cannot be taken.
        script: the file of the script that was run, and its text.
    """

    def __init__(
        self,
        db: Connection,
        folder: Path,
        tell: Callable[[str], None],
        script: tuple[Path, str] | None = None,
    ) -> None:
        self._db = db
        self._folder = folder
        self._tell = tell
        self._script = script
        self._script_seen: Mark = None  # it may have changed while it was run
        self._script_read: Mark = None
        self._problems: dict[str, Problem] = {}
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

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The files of which the present version is not taken; the script, if it has changed."""
        return tuple(self._problems.values())

    @property
    def edit(self) -> ProgramEdit | None:
        """None: a script is not edited while it is served."""
        return None

    def load(self) -> None:
        """Take every file in, in one transaction. A table with neither file nor rows is told of.

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
        for name in self._db.catalog.tables:
            if name not in self._files and not self._db.engine.count(name):
                lacks = lacks_file(self._folder, name)
                self._tell(f"note: {lacks}; table {name} has no rows, and none is followed")

    def poll(self) -> None:
        """Look once, and take in what has changed and was at rest."""
        self._poll_script()
        changed = []
        for name, path in self._files.items():
            mark = mark_of(path)
            at_rest, self._seen[name] = self._seen[name] == mark, mark
            if at_rest and mark != self._read[name]:
                self._read[name] = mark
                changed.append(name)
        if changed:
            self._take(changed)

    def _poll_script(self) -> None:
        if self._script is None:
            return
        path, text = self._script
        mark = mark_of(path)
        at_rest, self._script_seen = self._script_seen == mark, mark
        if not at_rest or mark == self._script_read:
            return
        self._script_read = mark
        try:
            is_same = path.read_text(encoding="utf-8") == text
        except (OSError, UnicodeDecodeError):
            is_same = False
        if is_same:
            self._problems.pop("", None)
        else:
            reason = f"{path} has changed since it was run, and a script is run once"
            kept = "tables and views stay as they were; start the server again to take it"
            self._stand("", Problem(path, reason, kept))

    def _take(self, changed: list[str]) -> None:
        """Take in the files of these tables, and with them what was refused before, if it fits."""
        rows: dict[str, object] = {}
        waiting = [name for name in self._files if name in self._problems and name not in changed]
        for name in [*changed, *waiting]:
            path = self._files[name]
            try:
                if self._read[name] is None:
                    raise SourceError(f"{path} is gone")
                columns = self._db.catalog.tables[name].relation.columns
                rows[name] = read_table(path, columns)[0]
            except DeltafixError as error:
                self._refuse([name], error)
        ready = [name for name in changed if name in rows]
        more = [name for name in waiting if name in rows]
        refused = self._committed([*ready, *more], rows)
        if refused is not None and more and ready:
            refused = self._committed(ready, rows)
        if refused is not None:
            self._refuse(ready or more, refused)

    def _committed(self, names: list[str], rows: dict[str, object]) -> DeltafixError | None:
        """Make these the rows of the tables, as one transaction; else why that cannot be."""
        if not names:
            return None
        try:
            replace_from(self._db, {name: (self._files[name], rows[name]) for name in names})
        except DeltafixError as error:
            return error
        for name in names:
            self._problems.pop(name, None)
        return None

    def _refuse(self, names: list[str], error: DeltafixError) -> None:
        """Have a problem with the files of these tables."""
        reason = with_caret(error)
        if isinstance(error, SqlError) and error.diagnostics:  # of a statement that nobody wrote
            files = ", ".join(str(self._files[name]) for name in names)
            reason = f"{files}: error[{error.code}]: {error.diagnostics[0].message}"
        for name in names:
            self._stand(name, Problem(self._files[name], reason, "its rows stay as they were"))

    def _stand(self, name: str, problem: Problem) -> None:
        """Have a problem, and tell it if it is another one. Files that share one are told once."""
        is_told = any(other.text == problem.text for other in self._problems.values())
        self._problems[name] = problem
        if not is_told:
            self._tell(str(problem))
