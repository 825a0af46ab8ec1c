"""Change files: a folder where each file holds signed rows and is read once, in name order.

Marks: `files/<input>/<file>` = [time, size, rows taken]. Invariant: rows are taken in the order of
the files and of the rows in them, each once; a file that is larger than an epoch may be is taken
in parts. A file that changes after it was read is refused by name, since what it said before is in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltafix.errors import PipelineError
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.sources.folder import Folder, Stamp
from deltafix.pipeline.sources.reading import FileReader

__all__ = ["ChangeFiles"]


class ChangeFiles:
    """A source of change files (`source = "files"`, `mode = "changes"`)."""

    def __init__(self, name: str, folder: Folder, reader: FileReader, policy: Policy) -> None:
        self.name = name
        self.relations = (reader.schema.relation,)
        self._folder = folder
        self._reader = reader
        self._policy = policy
        self._open: tuple[Path, Stamp, Signed] | None = None

    def poll(self, state: State, limit: int) -> Portion | None:
        """The next rows, of as many files as fit."""
        portion = Portion(self.name, policy=self._policy)
        left = limit
        for file, stamp in self._folder.files().items():
            mark = f"files/{self.name}/{file}"
            done = state.marks.get(mark)
            taken = self._taken(file, stamp, done)
            if taken is None:
                continue
            if left <= 0:
                portion.more = True
                break
            signed = self._read(self._folder.at(file), stamp)
            part, after, rows = _part(signed, taken, left)
            portion.signed.append(part)
            left -= part.rows
            portion.marks[mark] = [*stamp, -1 if after >= rows else after]
            portion.more |= after < rows
            portion.stamp = min(portion.stamp or stamp[0] / 1e9, stamp[0] / 1e9)
        return portion if portion.marks else None

    def close(self) -> None:
        """Forget the file at hand."""
        self._open = None

    def _taken(self, file: str, stamp: Stamp, done: Any) -> int | None:
        """Rows of the file that are in; None if all are."""
        if done is None:
            return 0
        if done[:2] != stamp:
            message = (
                f"input {self.name}: {self._folder.at(file)} changed after it was read; a change "
                "file is written once, whole (write it beside and rename it): put it back as it "
                "was, and say what is new in a file of its own"
            )
            raise PipelineError(message, input=self.name, path=file)
        return None if done[2] < 0 else int(done[2])

    def _read(self, path: Path, stamp: Stamp) -> Signed:
        """The rows of a file, read once while it is taken in parts."""
        if self._open is None or self._open[:2] != (path, stamp):
            self._open = (path, stamp, self._reader.read(path))
        return self._open[2]


def _part(signed: Signed, start: int, limit: int) -> tuple[Signed, int, int]:
    """Rows from `start` on, and where the part ends; bad rows go with the first part."""
    rows = signed.table.num_rows
    end = min(rows, start + limit)
    bad = list(signed.bad) if start == 0 else []
    return Signed(signed.schema, signed.table.slice(start, end - start), bad), end, rows
