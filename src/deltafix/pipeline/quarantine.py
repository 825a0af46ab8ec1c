"""Bad rows, set aside: one file of JSON lines per epoch and input, each line with its reason.

    <state>/quarantine/<input>-<epoch>.jsonl
    <state>/quarantine/<input>-<epoch>-<writer>-<attempt>.jsonl        in an object store

Invariant: the files of a committed epoch hold exactly the rows that the epoch set aside; files are
written ahead of the commit, and those of attempts that were not committed are removed on opening,
on a disk ahead of the next attempt too. An object store may do late what it answered with an error:
there each attempt has names of its own, and those of the last one count. One that sets nothing
aside where an earlier one may have leaves a file without an input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from deltafix.diagnostics import plural
from deltafix.errors import BadRowError, SinkError
from deltafix.facts.values import plain_text
from deltafix.pipeline.signed import Bad
from deltafix.store.folder import Where, folder_at

BAD_ROWS: Final = 100_000
"""An epoch with more bad rows of an input fails: the input is not what its section says."""

_NAME = re.compile(r"(.*)-(\d{12})(?:-(\d+)(?:-(\d+))?)?\.jsonl")


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
    """The quarantine of a pipeline, in a folder that is made when the first row goes in."""

    def __init__(self, folder: Where) -> None:
        self.folder = folder_at(folder)
        self._tried = -1
        """The last epoch that was written; -1: others may have tried the next one."""

    def write(self, epoch: int, bad: Mapping[str, Sequence[Bad]], attempt: str = "") -> None:
        """Write what an attempt at an epoch sets aside, by input. Raises SinkError."""
        if self._tried == epoch and not attempt:
            self.tidy(epoch - 1, "")
        by = f"-{attempt}" if attempt else ""
        is_told = bool(bad) or not by or self._tried not in (-1, epoch)
        self._tried = epoch
        for name, rows in (bad if is_told else {"": ()}).items():
            lines = [json.dumps(asdict(bad_row), default=plain_text) + "\n" for bad_row in rows]
            file = f"{name}-{epoch:012d}{by}.jsonl"
            try:
                self.folder.write(file, ["".join(lines).encode()])
            except OSError as error:
                raise self._failed("written", error, file) from error

    def tidy(self, epoch: int, attempt: str) -> None:
        """Remove what was not committed: files of epochs after `epoch`, which `attempt` committed.

        Raises SinkError.
        """
        try:
            for file in self.folder.names():
                match = _NAME.fullmatch(file)
                if match is None:
                    continue
                by = "-".join(filter(None, match.groups()[2:]))
                if int(match[2]) > epoch or (int(match[2]) == epoch and by != attempt):
                    self.folder.remove(file)
        except OSError as error:
            raise self._failed("tidied", error) from error

    def counts(self) -> dict[str, int]:
        """How many rows are set aside, by input. Raises SinkError."""
        counts: dict[str, int] = {}
        for name, _, file in self._files():
            counts[name] = counts.get(name, 0) + self._read(file).count(b"\n")
        return counts

    def rows(self, name: str, epoch: int | None = None) -> list[dict[str, Any]]:
        """The rows of an input that were set aside, of one epoch or of all."""
        return [
            {"epoch": number, **json.loads(line)}
            for input_name, number, file in self._files()
            if input_name == name and epoch in (None, number)
            for line in self._read(file).decode().split("\n")[:-1]
        ]

    def _read(self, file: str) -> bytes:
        try:
            return self.folder.read(file)
        except OSError as error:
            raise self._failed("read", error, file) from error

    def _files(self) -> Iterator[tuple[str, int, str]]:
        """Input, epoch and name of each file that counts: of each epoch, those of one attempt."""
        last: dict[int, tuple[int, int]] = {}
        files = []
        try:
            names = self.folder.names()
        except OSError as error:
            raise self._failed("read", error) from error
        for file in names:
            if match := _NAME.fullmatch(file):
                epoch, attempt = int(match[2]), (int(match[3] or 0), int(match[4] or 0))
                last[epoch] = max(attempt, last.get(epoch, attempt))
                files.append((match[1], epoch, file, attempt))
        for name, epoch, file, attempt in sorted(files):
            if name and attempt == last[epoch]:
                yield name, epoch, file

    def _failed(self, what: str, error: OSError, file: str = "") -> SinkError:
        path = f"{self.folder}/{file}".rstrip("/")
        message = f"{path}: the quarantine cannot be {what}: {error.strerror or error}"
        return SinkError(message, path=path)


def refused(source: str, bad: Sequence[Bad], what: str) -> BadRowError:
    """The error for bad rows of an input that sets none aside; `what` has become of them."""
    first = bad[0]
    message = (
        f"input {source}: {first.origin}: {first.reason}: {first.row!r}"
        + (f" (and {plural(len(bad) - 1, 'more bad row')})" if len(bad) > 1 else "")
        + f'; {what}; bad_rows = "quarantine" sets such rows aside'
    )
    return BadRowError(message, input=source, reason=first.reason, row=first.row)
