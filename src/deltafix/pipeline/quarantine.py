"""Bad rows, set aside: one file of JSON lines per epoch and input, each line with its reason.

    <state>/quarantine/<input>-<epoch>.jsonl

Invariant: a file of a committed epoch holds exactly the rows that the epoch set aside; files are
written ahead of the commit, and those of epochs that were not committed are removed on opening.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deltafix.engine.state import disk
from deltafix.errors import SinkError
from deltafix.pipeline.signed import Bad

__all__ = ["Quarantine"]

_NAME = re.compile(r"(.+)-(\d{12})\.jsonl")


class Quarantine:
    """The quarantine of a pipeline, in a folder that is made when the first row goes in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, epoch: int, bad: Mapping[str, Sequence[Bad]]) -> None:
        """Write what an epoch sets aside, by input. Raises SinkError."""
        for name, rows in bad.items():
            lines = [json.dumps(asdict(one), default=str) for one in rows]
            path = self.folder / f"{name}-{epoch:012d}.jsonl"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                disk.create(path, [("\n".join(lines) + "\n").encode()])
            except OSError as error:
                message = f"{path}: the quarantine cannot be written: {error.strerror or error}"
                raise SinkError(message, path=str(path)) from error

    def tidy(self, epoch: int) -> None:
        """Remove the files of epochs after `epoch`: they were not committed."""
        for _, number, path in self._files():
            if number > epoch:
                disk.remove(path)

    def counts(self) -> dict[str, int]:
        """How many rows are set aside, by input."""
        found: dict[str, int] = {}
        for name, _, path in self._files():
            found[name] = found.get(name, 0) + path.read_bytes().count(b"\n")
        return found

    def rows(self, name: str, epoch: int | None = None) -> list[dict[str, Any]]:
        """The rows of an input that were set aside, of one epoch or of all."""
        return [
            {"epoch": number, **json.loads(line)}
            for one, number, path in self._files()
            if one == name and epoch in (None, number)
            for line in path.read_text().splitlines()
        ]

    def _files(self) -> Iterator[tuple[str, int, Path]]:
        if self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                match = _NAME.fullmatch(path.name)
                if match:
                    yield match[1], int(match[2]), path
