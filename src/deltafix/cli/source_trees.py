"""What the commands over source trees share: extracting many files, and following saves.

Invariant: a tree's files are extracted by Spark or in this process with the same fragments, which
of the two is decided in `extractor` alone, and watching ends by Ctrl-C alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from os import cpu_count
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from deltafix.cli.console import note, progress
from deltafix.diagnostics import plural
from deltafix.doing import hearer, tell
from deltafix.errors import JavaNotFoundError, SourceError

if TYPE_CHECKING:
    from deltafix.analyses.analysis import Analysis, Extract
    from deltafix.analyses.facts import Fragment
    from deltafix.analyses.files import Tree
    from deltafix.analyses.job import Job, RowChange
    from deltafix.analyses.watch import ExtractMany, Watcher

__all__ = ["extractor", "follow", "require_sources", "watched"]

C = TypeVar("C")

_LOOK_SECONDS: Final = 0.3
# Reading pandas or numba for dead code takes 1.3 s of a processor a megabyte, measured. With Spark
# a session is started (5 to 20 s) and rows come back through one process (0.2 s a megabyte): two
# processors would make up for that from 20 to 40 MB on, and then by little.
_LARGE: Final = 40_000_000  # bytes of sources
_PROCESSORS: Final = 4


def extractor(
    tree: Tree, extract: Extract, *, spark: bool | None, quiet: bool = False
) -> ExtractMany:
    """What extracts many files of a tree: Spark's workers or this process, as `spark` says.

    Where it says nothing, files of `_LARGE` bytes and more together go to Spark, if there are
    `_PROCESSORS` for it; a note says so, or what is missing for it.
    """

    def many(paths: Sequence[str]) -> list[Fragment]:
        chosen = _is_for_spark(tree.size(paths), quiet=quiet) if spark is None else spark
        return (_extract_with_spark if chosen else _extract_here)(tree, extract, paths, quiet=quiet)

    return many


def _is_for_spark(size: int, *, quiet: bool) -> bool:
    """Whether so many bytes are for Spark, and Spark is there; a note says what was found."""
    if size < _LARGE or (cpu_count() or 1) < _PROCESSORS:
        return False
    from deltafix.spark.java import find_java  # noqa: PLC0415  for large trees only

    much = f"{size // 1_000_000:,} MB of sources are read"
    try:
        if find_spec("pyspark") is not None:
            find_java()
            note(f"note: {much} with Spark; --no-spark reads them in this process", quiet=quiet)
            return True
    except JavaNotFoundError:
        pass
    needed = "pip install 'deltafix[spark,java]'"
    note(f"note: {much} on one processor; on all of them with Spark: {needed}", quiet=quiet)
    return False


def _extract_with_spark(
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
        what = f"extracting {plural(len(paths), 'file')} with Spark"
        with progress(what, quiet=quiet):
            hear = hearer()  # for the thread that looks at Spark's tasks
            table = map_batches(
                session,
                reading.paths_table(paths),
                partial(reading.extract_batch, tree, extract),
                facts.FRAGMENT_SCHEMA,
                progress=partial(hear, what) if hear is not None else None,
            )
    return facts.from_arrow(table)


def _extract_here(
    tree: Tree, extract: Extract, paths: Sequence[str], *, quiet: bool = False
) -> list[Fragment]:
    """The fragments of many files, extracted in this process."""
    from deltafix.analyses.reading import read_fragments  # noqa: PLC0415  quick --help

    what = f"extracting {plural(len(paths), 'file')}"
    with progress(what, quiet=quiet):
        return list(read_fragments(tree, paths, extract, partial(tell, what)))


def follow(watcher: Watcher[C], tell: Callable[[C], None]) -> None:
    """Look at the tree again and again and tell what changed, until Ctrl-C."""
    from deltafix.analyses.watch import watch  # noqa: PLC0415  quick --help

    def wait() -> bool:
        sleep(_LOOK_SECONDS)
        return True

    watch(watcher, wait, tell, note)


def require_sources(watcher: Watcher[C], suffix: str = "", *, is_source: bool) -> None:
    """Raise SourceError where a folder has no file, or none with a suffix.

    `is_source` says whether a file that was given in place of a folder is one to read.
    """
    tree = watcher.tree
    kinds = suffix or ", ".join(tree.suffixes)
    if tree.only is not None and not is_source:
        path = tree.root / tree.only
        raise SourceError(f"{path} is no file to read ({kinds})", path=str(path))
    if tree.only is None and not any(path.endswith(suffix) for path in watcher.seen.files):
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
    spark: bool | None,
    quiet: bool,
    may_be_empty: bool = False,
) -> Watcher[RowChange]:
    """A tree's files as they are now, brought into a job; notes say which could not be read.

    Raises SourceError if there are none, and there have to be some.
    """
    from deltafix.analyses.watch import Watcher  # noqa: PLC0415  quick --help

    many = extractor(tree, analysis.extract, spark=spark, quiet=quiet)
    watcher = Watcher(tree, job, analysis.extract, many)
    with progress("evaluating", quiet=quiet):
        watcher.poll()
    if not may_be_empty:
        is_source = tree.only is None or analysis.reads(tree.only)
        require_sources(watcher, is_source=is_source)
    for skipped, reason in {**watcher.seen.skipped, **job.errors}.items():
        note(f"note: {skipped} skipped: {reason}", quiet=quiet)
    return watcher
