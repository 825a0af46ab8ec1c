"""An analysis's files as a tree of a pipeline: the same extraction, as facts by file.

    [input.code]  source = "tree"  extractor = "lineage"  path = "sql/"  relations = ["reads", ...]

Invariant: a file says here what it says to the analysis (`extract_batch`). Where symbols stand is
not among the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.reading import extract_batch
from deltafix.analyses.registry import ANALYSES, find_analysis

NAMES = tuple(ANALYSES)
"""The analyses there are."""


@dataclass(frozen=True, slots=True)
class TreeExtractor:
    """The extractor of one analysis. `relations` are the inputs of its program, all of symbols."""

    analysis: Analysis

    @property
    def relations(self) -> Mapping[str, tuple[str, ...]]:
        """Relation to columns."""
        return self.analysis.inputs

    def scan(self, root: Path) -> Mapping[str, list[int]]:
        """The tree's files, with time and size. Raises SourceError without such a tree."""
        files = self.analysis.tree(root).scan().files
        return {path: [stamp.modified_ns, stamp.size] for path, stamp in files.items()}

    def extract(self, root: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The facts of a batch of paths."""
        return extract_batch(self.analysis.tree(root), self.analysis.extract, batch)


def extractor(name: str) -> TreeExtractor:
    """The extractor of the analysis of that name. Raises UnknownAnalysisError."""
    return TreeExtractor(find_analysis(name))


PYTHON = extractor("dead-code")
"""The extractor `python`: what Python files say of names, the base of every analysis of Python."""
