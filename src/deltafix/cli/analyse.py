"""`deltafix analyse`: the views of any analysis over a source tree, once or on every save."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltafix.cli.console import announce_kernel, note
from deltafix.cli.source_trees import extract_here, extract_with_spark, follow
from deltafix.cli.tree_options import Exclude
from deltafix.errors import MissingDependencyError, SourceError
from deltafix.facts.schema import show_row

if TYPE_CHECKING:
    from deltafix.analyses.job import Job, RowChange
    from deltafix.facts.schema import Row

__all__ = ["analyse"]


def analyse(
    name: Annotated[
        str | None, typer.Argument(help="Which analysis; without a name, which there are.")
    ] = None,
    path: Annotated[Path | None, typer.Argument(help="A folder or a file.", metavar="PATH")] = None,
    *,
    view: Annotated[
        list[str] | None,
        typer.Option(help="A relation to show; the analysis's views by default. Repeatable."),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            help="COLUMN=PATTERN: only rows with such a column, like it as in fnmatch. Repeatable."
        ),
    ] = None,
    exclude: Exclude = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running; show the rows that come and go.")
    ] = False,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How rows are printed.")
    ] = "text",
    spark: Annotated[
        bool, typer.Option("--spark", help="Extract with Spark's workers: for large trees.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Show what an analysis says about a source tree, and keep saying it while files change.

    Files are parsed and never run. One that cannot be read is skipped with a note. Exit code 2 on
    an error.
    """
    from deltafix.analyses.job import Job  # noqa: PLC0415  quick --help
    from deltafix.analyses.registry import find_analysis  # noqa: PLC0415
    from deltafix.analyses.watch import Watcher  # noqa: PLC0415

    if name is None:
        _say_all(_listing())
        return
    analysis = find_analysis(name)
    if path is None:
        raise SourceError(f"which folder or file? deltafix analyse {name} PATH")
    tree = analysis.tree(path, exclude or ())
    extract_many = extract_with_spark if spark else extract_here
    announce_kernel(quiet=quiet)
    with Job(analysis, views=view or ()) as job:
        shown = _Shown(job, match or ())
        many = partial(extract_many, tree, analysis.extract, quiet=quiet)
        watcher = Watcher(tree, job, analysis.extract, many)
        watcher.poll()
        for skipped, reason in {**watcher.seen.skipped, **job.errors}.items():
            note(f"note: {skipped} skipped: {reason}", quiet=quiet)
        for line in shown.state(len(watcher.seen.files)) if form == "json" else shown.rows():
            _say(line)
        note(shown.closing(len(watcher.seen.files)), quiet=quiet)
        if watch:
            note(f"watching {path}, Ctrl-C ends", quiet=quiet)
            tell = shown.change_data if form == "json" else shown.change
            follow(watcher, lambda one: _say_all(tell(one)))


class _Shown:
    """What is asked for: the views of a job, and of them the rows that match."""

    def __init__(self, job: Job, matches: Sequence[str]) -> None:
        self._job = job
        self._columns = {one: job.database.schemas[one].names for one in job.views}
        self._patterns = dict(map(self._pattern, matches))

    def _pattern(self, text: str) -> tuple[str, str]:
        column, equals, pattern = text.partition("=")
        valid = sorted({name for names in self._columns.values() for name in names})
        if not equals or column not in valid:
            raise SourceError(
                f"--match {text}: write COLUMN=PATTERN with one of {', '.join(valid)}", match=text
            )
        return column, pattern

    def _kept(self, view: str, rows: Iterable[Row]) -> Iterator[Row]:
        names = self._columns[view]
        if not self._patterns.keys() <= set(names):
            return  # no column that could be like it
        places = [(names.index(name), like) for name, like in self._patterns.items()]
        for row in rows:
            if all(fnmatchcase(str(row[place]), like) for place, like in places):
                yield row

    def _all(self) -> dict[str, list[Row]]:
        return {view: list(self._kept(view, all_)) for view, all_ in self._job.answer().items()}

    def rows(self) -> Iterator[str]:
        for view, rows in self._all().items():
            yield from (f"{show_row(view, row)}." for row in rows)

    def closing(self, files: int) -> str:
        work = self._job.last_work
        sizes = ", ".join(f"{len(rows):,} {view}" for view, rows in self._all().items())
        return f"{sizes} in {files:,} files ({self._job.fact_count:,} facts, {work.seconds:.2f} s)"

    def state(self, files: int) -> Iterator[str]:
        yield _document(
            "report",
            self._job,
            columns=self._columns,
            rows=self._all(),
            files=files,
            facts=self._job.fact_count,
            unreadable=self._job.errors,
        )

    def change(self, one: RowChange) -> Iterator[str]:
        files = [*one.changed, *(f"{path} (deleted)" for path in one.deleted)]
        yield f"changed: {', '.join(files)}"
        for path, reason in one.unreadable.items():
            yield f"  {path}: not read, its old facts are kept: {reason}"
        for sign, sides in (("-", one.went), ("+", one.came)):
            for view, rows in self._sides(sides).items():
                yield from (f"  {sign} {show_row(view, row)}." for row in rows)
        work = one.work
        yield (
            f"  {work.facts_removed} facts out, {work.facts_added} in, {work.touched} touched, "
            f"{work.seconds:.3f} s (from scratch: {self._job.load_seconds or 0.0:.2f} s)"
        )

    def change_data(self, one: RowChange) -> Iterator[str]:
        data = one.as_data()
        data |= {"came": self._sides(one.came), "went": self._sides(one.went)}
        yield _document("change", self._job, **data)

    def _sides(self, rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
        return {view: list(self._kept(view, some)) for view, some in rows.items()}


def _listing() -> Iterator[str]:
    """The analyses there are; of one whose parser is missing, what to install."""
    from deltafix.analyses.registry import ANALYSES, find_analysis  # noqa: PLC0415  quick --help

    for name in ANALYSES:
        try:
            said = find_analysis(name).title
        except MissingDependencyError as error:
            said = str(error)
        yield f"{name:<12} {said}"


def _document(event: str, job: Job, **content: Any) -> str:
    data = {"version": 1, "event": event, "analysis": job.analysis.name, **content}
    return json.dumps(data, ensure_ascii=False)


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        _say(line)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
