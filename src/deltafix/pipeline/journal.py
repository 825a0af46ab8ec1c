"""The journal: a line of JSON per epoch, in `<state>/epochs.jsonl`, for logs and for `status`.

A line is written after its commit and is no part of it; what it says is also in the epoch's marks
(`LINE`). Invariant: when a state is open, the journal has a line for each epoch of its log and none
for an epoch that is not there; a process that was killed before or in the middle of a line is
mended on opening. Nothing reads the journal to decide anything.

In an object store, where nothing is appended, it is cut into objects of some epochs each.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from deltafix.errors import StateError
from deltafix.pipeline.epoch import Epoch
from deltafix.store import disk
from deltafix.store.folder import Folder, LocalFolder, Where, folder_at

LINE = "pipeline/epoch"
"""The mark that says of the last epoch what its line says, as far as it is known in its commit.

A list: lines of epochs before it that could not be written yet are there too.
"""

_MOST = 100
"""Such lines at most: marks are written with every epoch."""

_TAIL = 1 << 16
_EPOCHS = 500
"""Epochs in one object, which is put anew with each."""


class Journal:
    """The journal of a state folder. Raises StateError for what is no file."""

    def __init__(self, state: Where) -> None:
        folder = folder_at(state)
        self._lines: _Lines = (
            _File(folder.path / "epochs.jsonl")
            if isinstance(folder, LocalFolder)
            else _Objects(folder)
        )
        self._waiting: list[Epoch] = []
        self._unmended: tuple[int, list[Epoch]] | None = None

    def write(self, epoch: Epoch) -> None:
        """Append a line; while the disk is full, lines wait for room, and the epoch stands."""
        self._waiting.append(epoch)
        with suppress(OSError):
            self._mend()
            self._lines.append(self._waiting)
            self._waiting.clear()

    def mend(self, epoch: int, known: Iterable[Epoch]) -> None:
        """Bring it up to the state's epoch: lines of `known` that are not there, no others.

        What cannot be written now is before the next line.
        """
        with suppress(OSError):
            self._unmended = epoch, [*known]
            self._mend()

    @property
    def waiting(self) -> list[Epoch]:
        """The last lines that could not be written yet."""
        known = self._unmended[1] if self._unmended else []
        return [*known, *self._waiting][-_MOST:]

    def _mend(self) -> None:
        if self._unmended is None:
            return
        epoch, known = self._unmended
        last = self._lines.keep(epoch)
        self._lines.append([entry for entry in known if last < entry.epoch <= epoch])
        self._unmended = None

    def last(self) -> dict[str, Any] | None:
        """What the last whole line says; None if there is none."""
        return next(self.backwards(), None)

    def backwards(self) -> Iterator[dict[str, Any]]:
        """What whole lines say, from the last on."""
        for line in self._lines.backwards():
            with suppress(ValueError):
                yield json.loads(line)


class _Lines(Protocol):
    def append(self, epochs: Sequence[Epoch]) -> None: ...

    def keep(self, epoch: int) -> int:
        """Drop what is behind the last line of an epoch up to that one; returns its epoch, or 0."""

    def backwards(self) -> Iterator[bytes]:
        """Whole lines, from the last on."""


def _epoch_of(line: bytes) -> int:
    """The epoch of a line; -1 if it is none."""
    with suppress(ValueError, LookupError, TypeError):
        return int(json.loads(line)["epoch"])
    return -1


def _bytes(epochs: Iterable[Epoch]) -> bytes:
    return "".join(epoch.json() + "\n" for epoch in epochs).encode()


class _File:
    """All lines in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            is_file = stat.S_ISREG(path.lstat().st_mode)
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"{path}: cannot be read: {error.strerror or error}"
            raise StateError(message, path=str(path)) from None
        if not is_file:
            message = f"{path} is a link or a folder, and takes lines only as a file; remove it"
            raise StateError(message, path=str(path))

    def append(self, epochs: Sequence[Epoch]) -> None:
        data = _bytes(epochs)
        if not data:
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            end = os.fstat(fd).st_size
            try:
                disk.write_at(fd, end, [data])
            except OSError:
                disk.cut(fd, end)
                raise
        finally:
            os.close(fd)

    def keep(self, epoch: int) -> int:
        end, last = 0, 0
        for line_end, line in self._placed():
            if 0 <= (number := _epoch_of(line)) <= epoch:
                end, last = line_end, number
                break
        if self.path.exists() and self.path.stat().st_size > end:
            fd = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                disk.cut(fd, end)
            finally:
                os.close(fd)
        return last

    def backwards(self) -> Iterator[bytes]:
        return (line for _, line in self._placed())

    def _placed(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines from the last on, each with where it ends."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as stream:
                size = tail = self.path.stat().st_size
                while tail:
                    # As much as holds a whole line; more, if the lines of it were not enough.
                    start = max(0, tail - _TAIL)
                    stream.seek(start)
                    data = stream.read(size - start)
                    if start and b"\n" not in data[:-1]:
                        tail = start
                        continue
                    begin = data.index(b"\n") + 1 if start else 0
                    end = data.rfind(b"\n") + 1
                    while end > begin:
                        first = max(begin, data.rfind(b"\n", begin, end - 1) + 1)
                        yield start + end, data[first : end - 1]
                        end = first
                    size = tail = start + begin
        except FileNotFoundError:
            return


class _Objects:
    """The lines of `_EPOCHS` epochs in one object.

    It is replaced as it was seen: what a store does late, of an epoch that was told to have failed,
    does not take the lines behind it away.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def append(self, epochs: Sequence[Epoch]) -> None:
        for epoch in epochs:
            number = epoch.epoch - epoch.epoch % _EPOCHS
            name = f"epochs-{number:012d}.jsonl"
            data, seen = self._folder.look(name) or (b"", None)
            lines = data.splitlines(keepends=True)
            before = [line for line in lines if _epoch_of(line) < epoch.epoch]
            self._folder.commit(name, [*before, _bytes([epoch])], seen)

    def keep(self, epoch: int) -> int:
        for name in self._names():
            data, seen = self._folder.look(name) or (b"", None)
            lines = data.splitlines(keepends=True)
            kept = [line for line in lines if 0 <= _epoch_of(line) <= epoch]
            if kept != lines:
                self._folder.commit(name, kept, seen)
            if kept:
                return _epoch_of(kept[-1])
        return 0

    def backwards(self) -> Iterator[bytes]:
        for name in self._names():
            yield from reversed(self._folder.read(name).splitlines())

    def _names(self) -> list[str]:
        """Those of the objects, the last first."""
        names = [name for name in self._folder.names() if re.fullmatch(r"epochs-\d+\.jsonl", name)]
        return names[::-1]
