"""Replaying history: each commit is one epoch of an analysis's views.

    Repository -> blobs -> extract -> update -> CommitReport, one per commit

Invariant: after each commit the view is that of the commit's files alone. A file that cannot be
read there (binary, broken, a link) states no fact and is skipped with a reason. Where a sample is
taken, the whole state is also evaluated from scratch; the answers are compared, and a difference
is an InternalError and not a figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Generic, Protocol, Self, TypeVar

from deltafix.analyses.analysis import Extract
from deltafix.analyses.facts import Fragment
from deltafix.analyses.files import Tree
from deltafix.analyses.history import Blob, Commit, Repository
from deltafix.analyses.job import Work
from deltafix.analyses.standing import Standing
from deltafix.closing import Closing
from deltafix.diagnostics import plural
from deltafix.doing import tell
from deltafix.errors import InternalError

_BINARY = "a binary file"


class Update(Protocol):
    """What an update did."""

    @property
    def work(self) -> Work:
        """What it took."""

    def changes_as_data(self) -> dict[str, Any]:
        """What came and went, as JSON data."""

    def sizes(self) -> tuple[int, int]:
        """How much came and how much went."""

    def sides(self) -> tuple[list[str], list[str]]:
        """What came and what went, a line each."""


C = TypeVar("C", bound=Update)
C_co = TypeVar("C_co", bound=Update, covariant=True)


class Replayed(Protocol[C_co]):
    """A view that can go through commits: a job of any analysis."""

    def update(self, fragments: Iterable[Fragment], deleted: Iterable[str] = ()) -> C_co:
        """Replace the fragments of some files, drop those of others, and say what changed."""

    def answer(self) -> object:
        """The whole answer, to be compared."""

    def standing(self) -> Mapping[Hashable, Standing]:
        """The whole answer, each part by what it is known by from one state to another."""

    @property
    def fact_count(self) -> int:
        """How many facts the files state."""

    def close(self) -> None:
        """Close it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class CommitReport(Generic[C]):
    """What one commit did. `scratch` is the work of a full evaluation, where one was sampled.

    Seconds are those of the view, in both; reading and parsing files is `reading`.
    """

    commit: Commit
    files: int
    change: C
    reading: float
    held: int
    scratch: Work | None
    skipped: Mapping[str, str]

    @property
    def work(self) -> Work:
        """What the update took."""
        return self.change.work

    @property
    def facts_changed(self) -> int:
        """Facts that came or went."""
        return self.work.facts_added + self.work.facts_removed

    def as_data(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "commit": asdict(self.commit),
            "files": self.files,
            **self.change.changes_as_data(),
            "work": asdict(self.work),
            "reading": self.reading,
            "held": self.held,
            "scratch": asdict(self.scratch) if self.scratch is not None else None,
            "skipped": dict(self.skipped),
        }


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
    def of(cls, reports: Iterable[CommitReport[Any]], first: Work) -> Summary:
        """The summary of a replay; commits between samples are held against the last one."""
        given = list(reports)
        scratch = first
        shares: list[float] = []
        ratios: list[float] = []
        for report in given:
            scratch = report.scratch or scratch
            if report.facts_changed:
                shares.append(report.work.touched / max(scratch.touched, 1))
                ratios.append(scratch.seconds / max(report.work.seconds, 1e-9))
        return cls(
            len(given),
            len(shares),
            median(shares) if shares else None,
            median(ratios) if ratios else None,
        )


class Replay(Closing, Generic[C]):
    """A view that goes through commits. `make` gives an empty view, as often as it is asked.

    Use in a with-statement or `close` it. `first` is the report of the state that the replay
    starts from; `sample` is how many commits lie between evaluations from scratch (0: none).
    """

    def __init__(
        self,
        repository: Repository,
        tree: Tree,
        extract: Extract,
        make: Callable[[], Replayed[C]],
        start: Commit,
        *,
        sample: int = 10,
    ) -> None:
        self._repository = repository
        self._tree = tree
        self._extract = extract
        self._make = make
        self._sample = sample
        self._at = start
        self._held: dict[str, Fragment] = {}
        self.job = make()
        self.first = self._report(start, repository.files(start), [], None)

    def follow(self, commits: Sequence[Commit]) -> Iterator[CommitReport[C]]:
        """Go from commit to commit and report each. Work follows the change."""
        for number, commit in enumerate(commits, start=1):
            tell(f"commit {number} of {len(commits)}", number - 1, len(commits))
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
    ) -> CommitReport[C]:
        begun = time.perf_counter()
        fragments, skipped = self._read(changed, whole=not self._held)
        reading = time.perf_counter() - begun
        out = [path for path in (*gone, *skipped) if path in self._held]
        for path in out:
            del self._held[path]
        self._held.update((fragment.path, fragment) for fragment in fragments)
        change = self.job.update(fragments, out)
        return CommitReport(
            commit=commit,
            files=len(fragments) + len(out),
            change=change,
            reading=reading,
            held=self.job.fact_count,
            scratch=scratch() if scratch is not None else None,
            skipped=skipped,
        )

    def _read(self, changed: list[Blob], *, whole: bool) -> tuple[list[Fragment], dict[str, str]]:
        """(fragments of what is source, reasons for what looks like it and is not)."""
        source = [blob for blob in changed if self._tree.holds(blob.path)]
        skipped = {blob.path: blob.reason for blob in source if blob.id is None}
        content = self._repository.blobs(blob.id for blob in source if blob.id is not None)
        fragments: list[Fragment] = []
        for number, blob in enumerate(source):
            if blob.id is None:
                continue
            if whole:
                tell(f"reading {plural(len(source), 'file')}", number, len(source))
            data = content[blob.id]
            if b"\0" in data:
                skipped[blob.path] = _BINARY
                continue
            fragment = self._extract(blob.path, data, self._tree.prefix)
            if fragment.error is None:
                fragments.append(fragment)
            else:
                skipped[blob.path] = fragment.error
        if whole:
            tell("", len(source), len(source))
        return fragments, skipped

    def _scratch(self) -> Work:
        """The work of evaluating the present state from nothing; the answers must be the same."""
        with self._make() as other:
            work = other.update(self._held.values()).work
            if other.answer() != self.job.answer():
                raise InternalError("the replayed view is not that of its files")
        return work

    def close(self) -> None:
        """Close the view."""
        self.job.close()
