"""A file of a store, read in parts: each read is a request for just these bytes.

Invariant: what is read is the file as it was opened, of the size it had; stores keep files whole.
"""

from __future__ import annotations

import io
import os
from typing import Any, Final, Protocol

PART: Final = 1 << 20
"""Bytes that are asked for at once."""


class InParts(Protocol):
    """A folder whose files can be read in parts."""

    def size(self, name: str) -> int:
        """As `Folder.size`."""

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file. Raises FileNotFoundError."""


class Parts(io.RawIOBase):
    """A file of a folder as a stream. Raises FileNotFoundError where there is none."""

    def __init__(self, folder: InParts, name: str) -> None:
        self._folder = folder
        self._name = name
        self._offset = 0
        self._size = folder.size(name)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As for any stream."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = begin + offset
        return self._offset

    def readinto(self, room: Any) -> int:
        """As for any stream."""
        end = min(self._offset + len(room), self._size)
        if end <= self._offset:
            return 0
        data = self._folder.part(self._name, self._offset, end)
        room[: len(data)] = data
        self._offset += len(data)
        return len(data)
