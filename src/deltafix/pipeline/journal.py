"""The journal: a line of JSON per epoch, in `<state>/epochs.jsonl`, for logs and for `status`.

A line is written after its commit and is no part of it; what it says is also in the epoch's marks
(`LINE`). Invariant: when a state is open, the journal has a line for each epoch of its log and none
for an epoch that is not there; a process that was killed before or in the middle of a line is
mended on opening. Nothing reads the journal to decide anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from deltafix.engine.state import disk
from deltafix.pipeline.epoch import Epoch

__all__ = ["LINE", "Journal"]

LINE = "pipeline/epoch"
"""The mark that says of the last epoch what its line says, as far as it is known in its commit."""

_TAIL = 1 << 16


class Journal:
    """The journal of a state folder."""

    def __init__(self, state: Path) -> None:
        self.path = state / "epochs.jsonl"
        self._waiting: list[Epoch] = []

    def write(self, epoch: Epoch) -> None:
        """Append a line; while the disk is full, lines wait for room, and the epoch stands."""
        self._waiting.append(epoch)
        with suppress(OSError):
            self._append(self._waiting)
            self._waiting.clear()

    def mend(self, epoch: int, known: Iterable[Epoch]) -> None:
        """Bring it up to the state's epoch: lines of `known` that are not there, no others."""
        with suppress(OSError):
            end, last = self._end(epoch)
            if self.path.exists() and self.path.stat().st_size > end:
                self._cut(end)
            self._append([one for one in known if last < one.epoch <= epoch])

    def last(self) -> dict[str, Any] | None:
        """What the last whole line says; None if there is none."""
        for _, line in self._lines():
            with suppress(ValueError):
                found: dict[str, Any] = json.loads(line)
                return found
        return None

    def _end(self, epoch: int) -> tuple[int, int]:
        """Where the lines up to an epoch end, and the epoch of the last; (0, 0) without any."""
        for end, line in self._lines():
            with suppress(ValueError, LookupError, TypeError):
                number = int(json.loads(line)["epoch"])
                if number <= epoch:
                    return end, number
        return 0, 0

    def _lines(self) -> Iterable[tuple[int, bytes]]:
        """Whole lines from the last on, each with where it ends."""
        try:
            with self.path.open("rb") as stream:
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

    def _append(self, epochs: Iterable[Epoch]) -> None:
        data = "".join(one.json() + "\n" for one in epochs).encode()
        if not data:
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            end = os.fstat(fd).st_size
            try:
                disk.write_at(fd, end, [data])
            except OSError:
                disk.cut(fd, end)
                raise
        finally:
            os.close(fd)

    def _cut(self, end: int) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            disk.cut(fd, end)
        finally:
            os.close(fd)
