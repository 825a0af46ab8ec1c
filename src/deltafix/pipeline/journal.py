"""The journal: a line of JSON per epoch, in `<state>/epochs.jsonl`, for logs and for `status`.

It is written after the commit and is no part of it: a process that is killed in between leaves an
epoch without a line, never a line without an epoch. Nothing reads it to decide anything.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from deltafix.pipeline.epoch import Epoch

__all__ = ["Journal"]

_TAIL = 1 << 16


class Journal:
    """The journal of a state folder."""

    def __init__(self, state: Path) -> None:
        self.path = state / "epochs.jsonl"

    def write(self, epoch: Epoch) -> None:
        """Append a line; a disk that is full loses the line, not the epoch."""
        with suppress(OSError), self.path.open("a", encoding="utf-8") as stream:
            stream.write(epoch.json() + "\n")

    def last(self) -> dict[str, Any] | None:
        """The last whole line, read from the end of the file; None if there is none."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(0, self.path.stat().st_size - _TAIL))
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return None
        for line in reversed(lines):
            with suppress(ValueError):
                found: dict[str, Any] = json.loads(line)
                return found
        return None
