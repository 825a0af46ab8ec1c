"""One analysis over one tree: a first run, then single-file edits, each of them undone.

The clock runs around `extract` of the one file and around `Job.update`, kept apart. Invariant: the
answer after the last edit, and after its undo, is that of a fresh job over the same fragments; else
`WrongAnswerError`. A fresh job's time is what recomputing takes, extraction left out.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.analyses.edits import edited
from bench.report import number, seconds, table
from bench.results import quantile
from deltafix.analyses.analysis import Analysis
from deltafix.analyses.facts import Fragment
from deltafix.analyses.files import Tree
from deltafix.analyses.job import Job
from deltafix.analyses.reading import read_fragments
from deltafix.facts.schema import Row

__all__ = ["Figures", "WrongAnswerError", "measure", "show"]

SEED = 11
_UNREAD = frozenset({"failed", "broken"})
"""Relations in which an extractor says that it could not read a part of a file."""


class WrongAnswerError(RuntimeError):
    """The maintained answer is not that of its files."""


@dataclass(slots=True)
class Figures:
    """What was measured; times in seconds. Lists have one entry an update: edit, undo, edit, …"""

    name: str
    project: str
    files: int
    facts: int
    rows: int
    extract_seconds: float
    rules_seconds: float
    touched_at_first: int
    extracts: list[float] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    facts_changed: list[int] = field(default_factory=list)
    rows_changed: list[int] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)
    scratch: list[float] = field(default_factory=list)

    def share(self, q: float) -> float | None:
        """Rows touched by an update, at this quantile, against those of the first run."""
        found = quantile([float(one) for one in self.touched], q)
        return None if found is None else found / self.touched_at_first

    def faster(self) -> float:
        """How many times a median update is quicker than evaluating from scratch."""
        return (quantile(self.scratch, 0.5) or 0) / (quantile(self.updates, 0.5) or 1)


def measure(analysis: Analysis, folder: Path, *, edits: int) -> Figures:
    """Run the analysis over the folder, then make so many edits.

    Raises:
        WrongAnswerError: an answer differs from that of a fresh run.
    """
    tree = analysis.tree(folder)
    start = time.perf_counter()
    fragments = list(read_fragments(tree, list(tree.scan().files), analysis.extract))
    extract_seconds = time.perf_counter() - start
    _fresh(analysis, fragments[:1])  # the kernel is read from its cache before the clock runs
    with Job(analysis) as job:
        first = job.update(fragments)
        found = Figures(
            analysis.name,
            folder.name,
            len(job.fragments),
            job.fact_count,
            sum(map(len, first.came.values())),
            extract_seconds,
            first.work.seconds,
            first.work.touched,
        )
        _edit(job, found, edits, tree)
    return found


def _edit(job: Job, found: Figures, edits: int, tree: Tree) -> None:
    chance = random.Random(SEED)
    paths = sorted(job.fragments)
    done = 0
    while done < edits:
        path = chance.choice(paths)
        data, before = tree.read(path), job.fragments[path]

        def differs(content: bytes, path: str = path, before: Fragment = before) -> bool:
            said = job.analysis.extract(path, content, tree.prefix)
            read = said.error is None and _unread(said) <= _unread(before)
            return read and said.facts != before.facts

        changed = edited(path, data, chance, differs)
        if changed is None:
            continue  # a file without a function or a statement
        done += 1
        for content in (changed, data):
            _update(job, found, tree, path, content)
            if done == edits:
                _compare(job, found)


def _unread(fragment: Fragment) -> int:
    return sum(relation in _UNREAD for relation, _ in fragment.facts)


def _update(job: Job, found: Figures, tree: Tree, path: str, content: bytes) -> None:
    start = time.perf_counter()
    fragment = job.analysis.extract(path, content, tree.prefix)
    middle = time.perf_counter()
    change = job.update([fragment])
    end = time.perf_counter()
    found.extracts.append(middle - start)
    found.updates.append(end - middle)
    found.facts_changed.append(change.work.facts_added + change.work.facts_removed)
    found.rows_changed.append(sum(map(len, [*change.came.values(), *change.went.values()])))
    found.touched.append(change.work.touched)


def _compare(job: Job, found: Figures) -> None:
    answer, took = _fresh(job.analysis, list(job.fragments.values()))
    found.scratch.append(took)
    held = job.answer()
    if answer != held:
        wrong = [view for view in answer if answer[view] != held[view]]
        raise WrongAnswerError(f"{', '.join(wrong)} differ from a fresh run's")


def _fresh(analysis: Analysis, fragments: list[Fragment]) -> tuple[dict[str, list[Row]], float]:
    """The answer of a new job, and the seconds that it took from facts to answer."""
    with Job(analysis) as fresh:
        took = fresh.update(fragments).work.seconds
        return fresh.answer(), took


def show(figures: list[Figures]) -> list[str]:
    """The tables."""
    if not figures:
        return []
    first = table(
        ["analysis", "tree", "files", "facts", "rows", "extract", "rules"],
        [
            [
                one.name,
                one.project,
                *(f"{count:,}" for count in (one.files, one.facts, one.rows)),
                seconds(one.extract_seconds),
                seconds(one.rules_seconds),
            ]
            for one in figures
        ],
    )
    head = ["analysis", "updates", "extract p50", "extract p99", "update p50", "update p99"]
    head += ["facts changed", "rows changed", "rows touched", "of full run, p50", "p99"]
    head += ["from scratch", "faster"]
    then = table(head, [_line(one) for one in figures])
    return [first, "Single-file edits and their undoing; counts are medians.\n", then]


def _line(one: Figures) -> list[str]:
    both = (one.extracts, one.updates)
    times = [seconds(quantile(some, q)) for some in both for q in (0.5, 0.99)]
    counts = (one.facts_changed, one.rows_changed, one.touched)
    return [
        one.name,
        str(len(one.updates)),
        *times,
        *(number(quantile([float(n) for n in some], 0.5)) for some in counts),
        *("–" if share is None else f"{share:.2%}" for share in map(one.share, (0.5, 0.99))),
        seconds(quantile(one.scratch, 0.5)),
        number(one.faster(), "x"),
    ]
