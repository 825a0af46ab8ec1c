"""Python files as a tree of a pipeline: the same extraction, as facts by file.

    [input.code]  source = "tree"  extractor = "python"  path = "src/"  relations = ["symbol", ...]

Invariant: a file says here what it says to the dead-code analysis (`extract_batch`). Where symbols
stand is not among the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from deltafix.analyses.dead_code.batch import extract_batch
from deltafix.analyses.dead_code.facts import INPUTS
from deltafix.analyses.dead_code.files import Tree

__all__ = ["PYTHON", "PythonFiles"]


class PythonFiles:
    """The extractor `python`. `relations` are those of `program.dl`, all of symbols."""

    relations: Mapping[str, tuple[str, ...]] = INPUTS

    def scan(self, root: Path) -> Mapping[str, list[int]]:
        """Python and project files, with time and size. Raises SourceError without such a tree."""
        files = Tree.at(root).scan().files
        return {path: [stamp.modified_ns, stamp.size] for path, stamp in files.items()}

    def extract(self, root: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The facts of a batch of paths."""
        return extract_batch(Tree.at(root), batch)


PYTHON = PythonFiles()
