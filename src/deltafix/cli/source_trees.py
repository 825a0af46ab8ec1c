"""What the commands over source trees share: extracting many files, and following saves.

Invariant: a tree's files are extracted by Spark or in this process with the same fragments, and
watching ends by Ctrl-C alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from deltafix.cli.console import bar, note, progress
from deltafix.diagnostics import plural
from deltafix.errors import SourceError

if TYPE_CHECKING:
    from deltafix.analyses.analysis import Analysis, Extract
    from deltafix.analyses.facts import Fragment
    from deltafix.analyses.files import Tree
    from deltafix.analyses.job import Job, RowChange
    from deltafix.analyses.watch import Watcher

__all__ = ["extract_here", "extract_with_spark", "follow", "require_sources", "watched"]

C = TypeVar("C")

_LOOK_SECONDS: Final = 0.3


def extract_with_spark(
    tree: Tree, extract: Extract, paths: Sequence[str], *, quiet: bool = False
) -> list[Fragment]:
    """The fragments of many files, extracted by Spark's workers: the job's front end.

    Starts a session if none is active (5 to 20 s) and stops it again.
    """
    from deltafix.analyses import facts, reading  # noqa: PLC0415  quick --help
    from deltafix.spark.ingest import map_batches  # noqa: PLC0415
    from deltafix.spark.session import spark_session  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        with progress("starting Spark", quiet=quiet):
            session = stack.enter_context(spark_session())
        with bar(f"extracting {plural(len(paths), 'file')} with Spark", quiet=quiet) as step:
            table = map_batches(
                session,
                reading.paths_table(paths),
                partial(reading.extract_batch, tree, extract),
                facts.FRAGMENT_SCHEMA,
                progress=step,
            )
    return facts.from_arrow(table)


def extract_here(
    tree: Tree, extract: Extract, paths: Sequence[str], *, quiet: bool = False
) -> list[Fragment]:
    """The fragments of many files, extracted in this process."""
    from deltafix.analyses.reading import read_fragments  # noqa: PLC0415  quick --help

    with bar(f"extracting {plural(len(paths), 'file')}", quiet=quiet) as step:
        return list(read_fragments(tree, paths, extract, step))


def follow(watcher: Watcher[C], tell: Callable[[C], None]) -> None:
    """Look at the tree again and again and tell what changed, until Ctrl-C."""
    from deltafix.analyses.watch import watch  # noqa: PLC0415  quick --help

    def wait() -> bool:
        sleep(_LOOK_SECONDS)
        return True

    watch(watcher, wait, tell)


def require_sources(watcher: Watcher[C], suffix: str = "") -> None:
    """Raise SourceError where the look at a folder found no file, or none with a suffix."""
    tree = watcher.tree
    if tree.only is None and not any(path.endswith(suffix) for path in watcher.seen.files):
        kinds = suffix or ", ".join(tree.suffixes)
        raise SourceError(
            f"{tree.root} has no file to read ({kinds}), but for what --exclude or a hidden folder "
            "leaves out",
            path=str(tree.root),
        )


def watched(
    tree: Tree,
    job: Job,
    analysis: Analysis,
    *,
    spark: bool,
    quiet: bool,
    may_be_empty: bool = False,
) -> Watcher[RowChange]:
    """A tree's files as they are now, brought into a job; notes say which could not be read.

    Raises SourceError if there are none, and there have to be some.
    """
    from deltafix.analyses.watch import Watcher  # noqa: PLC0415  quick --help

    extract_many = extract_with_spark if spark else extract_here
    many = partial(extract_many, tree, analysis.extract, quiet=quiet)
    watcher = Watcher(tree, job, analysis.extract, many)
    with progress("evaluating", quiet=quiet):
        watcher.poll()
    if not may_be_empty:
        require_sources(watcher)
    for skipped, reason in {**watcher.seen.skipped, **job.errors}.items():
        note(f"note: {skipped} skipped: {reason}", quiet=quiet)
    return watcher
