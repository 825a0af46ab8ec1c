"""Change files: a folder where each file holds signed rows and is read once, in name order.

Marks: `files/<input>/<file>` = [time, size, rows taken or -1 for all, digest], with the number of
its rows while the file is taken in part; `files/<input>` = a name, if marks of files that are gone
were forgotten, up to that name (`REMEMBERED`). Invariant: rows are taken in the order of the files
and of the rows in them, each once; a file that is larger than an epoch may be is taken in parts,
and finished before any other. A file is known by its content: one with another time is the same,
one with other content is refused by name, since what it said before is in. A file of no bytes said
nothing: filled later, it is read like one that comes late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from deltafix.errors import PipelineError
from deltafix.pipeline.decode import File
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.sources.folder import Folder, Stamp
from deltafix.pipeline.sources.reading import FileReader

REMEMBERED = 10_000
"""So many files that were read and removed are known by name; of those before, the last name."""


class ChangeFiles:
    """A source of change files (`source = "files"`, `mode = "changes"`)."""

    def __init__(self, name: str, folder: Folder, reader: FileReader, policy: Policy) -> None:
        self.name = name
        self.relations = (reader.schema.relation,)
        self._folder = folder
        self._reader = reader
        self._policy = policy
        self._prefix = f"files/{name}/"
        self._open: tuple[str, Stamp, Signed, str] | None = None
        self._same: dict[str, Stamp] = {}

    def poll(self, state: State, limit: int) -> Portion | None:
        """The next rows, of as many files as fit."""
        portion = Portion(self.name, policy=self._policy)
        left = limit
        files, marks = self._listed(state)
        for file in self._in_order(files, marks):
            try:
                taken = self._taken(file, files[file], marks.get(file), state)
                if taken is None:
                    continue
                if left <= 0:
                    portion.more = True
                    break
                signed, digest = self._read(file, files[file])
            except PipelineError:
                if not portion.marks:
                    raise
                portion.more = True  # what is before it is taken first
                break
            part, after, rows = _part(signed, taken, left)
            portion.signed.append(part)
            left -= part.rows
            begun = () if after >= rows else (after, rows)
            self._mark(portion, file, files[file], digest, begun)
            portion.more |= bool(begun)
        if not portion.marks:
            return None
        portion.marks |= self._forgotten(files, marks, state)
        return portion

    def close(self) -> None:
        """Forget the file at hand."""
        self._open = None

    def _listed(self, state: State) -> tuple[dict[str, Stamp], dict[str, Any]]:
        """The files there are, and the marks of those that were read."""
        marks = {name.removeprefix(self._prefix): done for name, done in state.marks.items()
                 if name.startswith(self._prefix)}  # fmt: skip
        return self._folder.files(), marks

    def _mark(
        self, portion: Portion, file: str, stamp: Stamp, digest: str, begun: Sequence[int] = ()
    ) -> None:
        """Say that a file is in; in part, if `begun` says so many of so many rows."""
        taken, *of = begun or (-1,)
        portion.marks[self._prefix + file] = [*stamp, taken, digest, *of]
        written = stamp[0] / 1e9
        portion.stamp = min(portion.stamp or written, written)

    def _in_order(self, files: Mapping[str, Stamp], marks: Mapping[str, Any]) -> list[str]:
        """The files: one that is taken in part, then the others by name."""
        begun = [file for file, done in marks.items() if done[2] >= 0]
        for file in begun:
            if file not in files:
                message = (
                    f"input {self.name}: {self._folder.at(file)} is gone, of which "
                    f"{marks[file][2]:,} rows are in and the rest is not; put it back"
                )
                raise PipelineError(message, input=self.name, path=file)
        return [*begun, *(file for file in files if file not in begun)]

    def _taken(self, file: str, stamp: Stamp, done: Any, state: State) -> int | None:
        """Rows of the file that are in; None if all are."""
        path = self._folder.at(file)
        if done is None:
            known = state.marks.get(self._prefix.rstrip("/"), "")
            if file <= known:
                message = (
                    f"input {self.name}: {path} may have been read before: files up to {known!r} "
                    "were, and are gone so long that their names are forgotten; if it is new, give "
                    "it a name behind that one"
                )
                raise PipelineError(message, input=self.name, path=file)
            return 0
        if not done[1] and stamp[1]:
            return 0  # made, and filled later: nothing of it is in
        if stamp not in (done[:2], self._same.get(file)):
            if stamp[1] != done[1] or digest_of(path) != done[3]:
                message = (
                    f"input {self.name}: {path} changed after it was read; a change file is "
                    "written once, whole (write it beside and rename it): put it back as it was, "
                    "and say what is new in a file of its own"
                )
                raise PipelineError(message, input=self.name, path=file)
            self._same[file] = stamp  # touched, or copied
        return None if done[2] < 0 else int(done[2])

    def _forgotten(
        self, files: Mapping[str, Stamp], marks: Mapping[str, Any], state: State
    ) -> dict[str, Any]:
        """Marks to take away: of the first of the files that are gone, if they are too many."""
        gone = sorted(file for file in marks if file not in files)
        first = gone[: max(0, len(gone) - REMEMBERED)]
        if not first:
            return {}
        name = self._prefix.rstrip("/")
        known = max(state.marks.get(name, ""), first[-1])
        return {name: known, **dict.fromkeys((self._prefix + file for file in first), None)}

    def _read(self, file: str, stamp: Stamp) -> tuple[Signed, str]:
        """The rows of a file and its digest, read once while it is taken in parts."""
        if self._open is None or self._open[:2] != (file, stamp):
            path = self._folder.at(file)
            self._open = (file, stamp, self._reader.read(path), digest_of(path))
        return self._open[2:]


def digest_of(path: File) -> str:
    """What tells a file's content from others'. Raises PipelineError."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, partial(hashlib.blake2b, digest_size=16)).hexdigest()
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise PipelineError(message, path=str(path)) from None


def _part(signed: Signed, start: int, limit: int) -> tuple[Signed, int, int]:
    """Rows from `start` on, and where the part ends; bad rows go with the first part."""
    rows = signed.table.num_rows
    end = min(rows, start + limit)
    bad = list(signed.bad) if start == 0 else []
    return signed.part(start, end - start, bad), end, rows
