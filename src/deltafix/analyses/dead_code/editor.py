"""The view behind an editor: which files' findings to show again after a save.

    saved paths -> extract -> DeadCode.update -> {path: findings}, for the files that are affected

Invariant: `shown` is what was last handed out per file, and equals the outermost findings of every
file; a file is handed out again only if its findings or their lines changed. The work of a save
follows the change and the sizes of the affected files, not the tree. Nothing here knows a protocol.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.findings import Finding
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.report import Change
from deltafix.analyses.files import Tree
from deltafix.analyses.reading import read_fragments

__all__ = ["EditorView", "Findings"]

Findings = dict[str, list[Finding]]
"""Path to its outermost findings, by line; an empty list takes back what was shown."""


class EditorView:
    """A tree, its job, and what was shown of it."""

    def __init__(self, tree: Tree, job: DeadCode) -> None:
        self.tree = tree
        self.job = job
        self.shown: Findings = {}

    def load(self) -> Findings:
        """Read the whole tree; the findings of every file that has some."""
        change = self.job.update(read_fragments(self.tree, list(self.tree.scan().files), extract))
        return self._news({*change.changed})

    def saved(self, paths: Iterable[str]) -> tuple[Change, Findings]:
        """Read these files again (one that is no longer there is deleted) and say what to show.

        Paths that are not source of the tree are ignored.
        """
        ours = sorted(path for path in set(paths) if self.tree.holds(path))
        there = [path for path in ours if self.tree.has(path)]
        known = set(self.job.paths)
        gone = [path for path in ours if path not in there and path in known]
        change = self.job.update(read_fragments(self.tree, there, extract), gone)
        affected = {*change.changed, *change.deleted}
        turned = (*change.became_dead, *change.became_alive, *change.confidence_changed)
        affected.update(one.path for one in turned)
        return change, self._news(affected)

    def _news(self, paths: set[str]) -> Findings:
        """What is to be shown anew of these files."""
        news: Findings = {}
        for path in sorted(paths):
            found = self.job.outermost(path)
            if found != self.shown.get(path, []):
                news[path] = found
                self.shown[path] = found
        return news
