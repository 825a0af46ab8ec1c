"""Baselines: what a project has already, so that only new findings and unread files are reported.

A baseline is a JSON file, sorted and free of lines and dates, so that it merges well under version
control. Invariant: an entry is keyed by symbol *and* path: a name that dies again elsewhere is new.
A file that is not read is its path, whatever the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deltafix.analyses.dead_code.findings import Finding
from deltafix.errors import SourceError

_VERSION = 1


def is_baseline(data: bytes) -> bool:
    """Whether a file begins as one that `write` made: its names are no use of what they name."""
    return data.startswith(b'{\n "version": 1,\n "dead": [')


def _said(error: Exception) -> str:
    if isinstance(error, ValueError):
        return str(error)
    return f"it has no {error}" if isinstance(error, KeyError) else "an entry is no path and symbol"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The (path, symbol) pairs that are known to be dead, and the paths known not to be read."""

    entries: frozenset[tuple[str, str]] = frozenset()
    unread: frozenset[str] = frozenset()

    @classmethod
    def of(cls, findings: Iterable[Finding], unread: Iterable[str] = ()) -> Baseline:
        """The baseline that accepts exactly these findings, and that these files are not read."""
        entries = frozenset((finding.path, finding.symbol) for finding in findings)
        return cls(entries, frozenset(unread))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline file. Raises SourceError saying what is wrong with it."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(document, dict):
                raise ValueError("it is no object of JSON")
            version = document["version"]
            entries = frozenset((str(e["path"]), str(e["symbol"])) for e in document["dead"])
            unread = frozenset(str(path) for path in document.get("unread", ()))
        except OSError as error:
            raise SourceError(f"cannot read the baseline {path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise SourceError(
                f"{path} is not a baseline: {_said(error)}. Write one with --write-baseline"
            ) from error
        if version != _VERSION:
            raise SourceError(
                f"{path}: baseline version {version!r}; this deltafix reads version {_VERSION}. "
                "Write it anew with --write-baseline"
            )
        return cls(entries, unread)

    def write(self, path: Path) -> None:
        """Write the file, sorted by path and symbol. Raises SourceError."""
        dead = [{"path": file, "symbol": symbol} for file, symbol in sorted(self.entries)]
        document: dict[str, object] = {"version": _VERSION, "dead": dead}
        if self.unread:
            document["unread"] = sorted(self.unread)
        text = json.dumps(document, indent=1, ensure_ascii=False)
        try:
            path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise SourceError(f"cannot write the baseline {path}: {error.strerror}") from error

    def split(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """(new findings, known ones)."""
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in findings:
            accepted = (finding.path, finding.symbol) in self.entries
            (known if accepted else new).append(finding)
        return new, known

    def new_unread(self, unread: Mapping[str, str]) -> dict[str, str]:
        """Path to reason of files that are not read, less the known ones."""
        return {path: why for path, why in unread.items() if path not in self.unread}

    def stale(self, findings: Iterable[Finding]) -> list[tuple[str, str]]:
        """Entries that are no longer findings, sorted: time to write the baseline anew."""
        return sorted(self.entries - Baseline.of(findings).entries)
