"""Many files to many fragments: a worker's share with Spark, all of them in one process.

    paths (Arrow) -> read, extract -> facts (Arrow)

Invariant: `extract_batch` is what Spark maps and `read_fragments` is all that it does, so both ways
give the same fragments. The folder must be visible to the workers under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from deltafix.analyses.analysis import Extract
from deltafix.analyses.facts import Fragment, to_arrow
from deltafix.analyses.files import Tree

__all__ = ["Progress", "extract_batch", "paths_table", "read_fragments"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) while work goes on."""


def read_fragments(
    tree: Tree, paths: Sequence[str], extract: Extract, progress: Progress | None = None
) -> Iterator[Fragment]:
    """The fragment of each file, in the order given; a file that cannot be opened is an error."""
    for done, path in enumerate(paths, start=1):
        try:
            data = tree.read(path)
        except OSError as error:
            yield Fragment(path, error=error.strerror or str(error))
        else:
            yield extract(path, data, tree.prefix)
        if progress is not None:
            progress(done, len(paths))


def paths_table(paths: Sequence[str]) -> pa.Table:
    """The work as a table: one column `path`."""
    return pa.table({"path": pa.array(paths, pa.string())})


def extract_batch(tree: Tree, extract: Extract, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of `paths_table` to a batch of `FRAGMENT_SCHEMA`."""
    return to_arrow(read_fragments(tree, batch.column("path").to_pylist(), extract))
