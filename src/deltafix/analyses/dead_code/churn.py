"""Replaying history: each commit is one epoch of the dead-code view.

    Repository -> blobs -> extract -> DeadCode.update -> CommitReport, one per commit

Invariant: after each commit the view is that of the commit's files alone. A file that cannot be
read there (binary, broken, a link) states no fact and is skipped with a reason. Where a sample is
taken, the whole state is also evaluated from scratch; the answers are compared, and a difference
is an InternalError and not a figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.findings import Finding
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.report import Change
from deltafix.analyses.facts import Fragment
from deltafix.analyses.files import Tree
from deltafix.analyses.history import Blob, Commit, Repository
from deltafix.analyses.job import Work
from deltafix.errors import InternalError

__all__ = ["CommitReport", "Replay", "Summary"]

_BINARY = "a binary file"


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What one commit did. `scratch` is the work of a full evaluation, where one was sampled.

    Seconds are those of the view, in both; reading and parsing files is `reading`.
    """

    commit: Commit
    files: int
    became_dead: tuple[Finding, ...]
    became_alive: tuple[Finding, ...]
    gone: tuple[str, ...]
    work: Work
    reading: float
    held: int
    scratch: Work | None
    skipped: Mapping[str, str]

    @property
    def facts_changed(self) -> int:
        """Facts that came or went."""
        return self.work.facts_added + self.work.facts_removed

    def as_data(self) -> dict[str, Any]:
        """The report as JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Summary:
    """Medians over the commits that changed a fact, each against a full evaluation.

    `touched` is the share of facts touched, `faster` how many times less time; None without such
    commits or without a sample.
    """

    commits: int
    changing: int
    touched: float | None
    faster: float | None

    @classmethod
    def of(cls, reports: Iterable[CommitReport], first: Work) -> Summary:
        """The summary of a replay; commits between samples are held against the last one."""
        given = list(reports)
        scratch = first
        shares: list[float] = []
        ratios: list[float] = []
        for one in given:
            scratch = one.scratch or scratch
            if one.facts_changed:
                shares.append(one.work.touched / max(scratch.touched, 1))
                ratios.append(scratch.seconds / max(one.work.seconds, 1e-9))
        return cls(
            len(given),
            len(shares),
            median(shares) if shares else None,
            median(ratios) if ratios else None,
        )


class Replay:
    """A view that goes through commits. `make` gives an empty view, as often as it is asked.

    Use in a with-statement or `close` it. `first` is the report of the state that the replay
    starts from; `sample` is how many commits lie between evaluations from scratch (0: none).
    """

    def __init__(
        self,
        repository: Repository,
        tree: Tree,
        make: Callable[[], DeadCode],
        start: Commit,
        *,
        sample: int = 10,
    ) -> None:
        self._repository = repository
        self._tree = tree
        self._make = make
        self._sample = sample
        self._at = start
        self._held: dict[str, Fragment] = {}
        self.job = make()
        self.first = self._report(start, repository.files(start), [], None)

    def follow(self, commits: Iterable[Commit]) -> Iterator[CommitReport]:
        """Go from commit to commit and report each. Work follows the change."""
        for number, commit in enumerate(commits, start=1):
            changed, gone = self._repository.changed(self._at, commit)
            due = self._sample > 0 and (number % self._sample == 0 or number == 1)
            yield self._report(commit, changed, gone, self._scratch if due else None)
            self._at = commit

    def _report(
        self,
        commit: Commit,
        changed: list[Blob],
        gone: list[str],
        scratch: Callable[[], Work] | None,
    ) -> CommitReport:
        begun = time.perf_counter()
        fragments, skipped = self._read(changed)
        reading = time.perf_counter() - begun
        out = [path for path in (*gone, *skipped) if path in self._held]
        for path in out:
            del self._held[path]
        self._held.update((one.path, one) for one in fragments)
        change: Change = self.job.update(fragments, out)
        return CommitReport(
            commit=commit,
            files=len(fragments) + len(out),
            became_dead=change.became_dead,
            became_alive=change.became_alive,
            gone=change.gone,
            work=change.work,
            reading=reading,
            held=self.job.fact_count,
            scratch=scratch() if scratch is not None else None,
            skipped=skipped,
        )

    def _read(self, changed: list[Blob]) -> tuple[list[Fragment], dict[str, str]]:
        """(fragments of what is source, reasons for what looks like it and is not)."""
        source = [blob for blob in changed if self._tree.holds(blob.path)]
        skipped = {blob.path: blob.reason for blob in source if blob.id is None}
        content = self._repository.blobs(blob.id for blob in source if blob.id is not None)
        fragments: list[Fragment] = []
        for blob in source:
            if blob.id is None:
                continue
            data = content[blob.id]
            if b"\0" in data:
                skipped[blob.path] = _BINARY
                continue
            one = extract(blob.path, data, self._tree.prefix)
            if one.error is None:
                fragments.append(one)
            else:
                skipped[blob.path] = one.error
        return fragments, skipped

    def _scratch(self) -> Work:
        """The work of evaluating the present state from nothing; the answers must be the same."""
        with self._make() as other:
            work = other.update(self._held.values()).work
            if other.dead() != self.job.dead():
                raise InternalError("the replayed view is not that of its files")
        return work

    def close(self) -> None:
        """Close the view."""
        self.job.close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
