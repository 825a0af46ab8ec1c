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
from typing import Any, Final

from deltafix.errors import BadRowError, SinkError
from deltafix.pipeline.signed import Bad
from deltafix.store.folder import Where, folder_at

__all__ = ["BAD_ROWS", "Quarantine", "refused", "require_few"]

BAD_ROWS: Final = 100_000
"""An epoch with more bad rows of an input fails: the input is not what its section says."""

_NAME = re.compile(r"(.+)-(\d{12})(?:-(\d+))?\.jsonl")


def require_few(bad: Sequence[Bad], beyond: int = 0) -> None:
    """Raise BadRowError for more than `BAD_ROWS`; `beyond` says how many are left out of `bad`."""
    if len(bad) + beyond > BAD_ROWS:
        first = bad[0]
        message = (
            f"{first.origin}: {first.reason}: {first.row!r}, and {len(bad) + beyond - 1:,} more "
            f"bad rows; with more than {BAD_ROWS:,} in an epoch the input is not what its section "
            "says, so nothing of it was taken"
        )
        raise BadRowError(message, reason=first.reason, row=first.row, count=len(bad) + beyond)


class Quarantine:
    """The quarantine of a pipeline, in a folder that is made when the first row goes in.

    `writer` is the generation of a state in an object store: a writer that was fenced off writes
    over nothing.
    """

    def __init__(self, folder: Where, writer: int = 0) -> None:
        self.folder = folder_at(folder)
        self._writer = writer

    def write(self, epoch: int, bad: Mapping[str, Sequence[Bad]]) -> None:
        """Write what an epoch sets aside, by input. Raises SinkError."""
        by = f"-{self._writer}" if self._writer else ""
        for name, rows in bad.items():
            lines = [json.dumps(asdict(one), default=str) for one in rows]
            file = f"{name}-{epoch:012d}{by}.jsonl"
            try:
                self.folder.write(file, [("\n".join(lines) + "\n").encode()])
            except OSError as error:
                path = f"{self.folder}/{file}"
                message = f"{path}: the quarantine cannot be written: {error.strerror or error}"
                raise SinkError(message, path=path) from error

    def tidy(self, epoch: int) -> None:
        """Remove the files of epochs after `epoch`: they were not committed."""
        for file in self.folder.names():
            match = _NAME.fullmatch(file)
            if match and int(match[2]) > epoch:
                self.folder.remove(file)

    def counts(self) -> dict[str, int]:
        """How many rows are set aside, by input. Raises SinkError."""
        found: dict[str, int] = {}
        for name, _, file in self._files():
            found[name] = found.get(name, 0) + self._read(file).count(b"\n")
        return found

    def rows(self, name: str, epoch: int | None = None) -> list[dict[str, Any]]:
        """The rows of an input that were set aside, of one epoch or of all."""
        return [
            {"epoch": number, **json.loads(line)}
            for one, number, file in self._files()
            if one == name and epoch in (None, number)
            for line in self._read(file).decode().split("\n")[:-1]
        ]

    def _read(self, file: str) -> bytes:
        try:
            return self.folder.read(file)
        except OSError as error:
            path = f"{self.folder}/{file}"
            message = f"{path}: the quarantine cannot be read: {error.strerror or error}"
            raise SinkError(message, path=path) from error

    def _files(self) -> Iterator[tuple[str, int, str]]:
        """Input, epoch and name of each file; of several for one epoch, that of its last writer.

        An object store may do late what it answered with an error, when the epoch has been taken
        by a later writer: only that one can have committed it.
        """
        last: dict[tuple[str, int], tuple[int, str]] = {}
        for file in self.folder.names():
            match = _NAME.fullmatch(file)
            if match:
                key, found = (match[1], int(match[2])), (int(match[3] or 0), file)
                last[key] = max(found, last.get(key, found))
        yield from ((name, epoch, file) for (name, epoch), (_, file) in sorted(last.items()))


def refused(source: str, bad: Sequence[Bad], what: str) -> BadRowError:
    """The error for bad rows of an input that sets none aside; `what` has become of them."""
    first = bad[0]
    message = (
        f"input {source}: {first.origin}: {first.reason}: {first.row!r}"
        + (f" (and {len(bad) - 1:,} more bad rows)" if len(bad) > 1 else "")
        + f'; {what}; bad_rows = "quarantine" sets such rows aside'
    )
    return BadRowError(message, input=source, reason=first.reason, row=first.row)
