"""`deltafix analyse`: the views of any analysis over a source tree, once or on every save."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from deltafix.cli.completion import analyses, views
from deltafix.cli.console import note, prepare_kernel
from deltafix.cli.output import Limit, Output, check_output, put
from deltafix.cli.source_trees import follow, watched
from deltafix.cli.tree_options import Exclude, Spark
from deltafix.errors import MissingDependencyError, SourceError


def analyse(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Which analysis; without a name, which there are.",
            autocompletion=analyses,
        ),
    ] = None,
    path: Annotated[Path | None, typer.Argument(help="A folder or a file.", metavar="PATH")] = None,
    *,
    view: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A relation to show; the analysis's views by default. Repeatable.",
            autocompletion=views,
        ),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=PATTERN",
            help="COLUMN=PATTERN: only rows with such a column, like it as in fnmatch. Repeatable.",
        ),
    ] = None,
    exclude: Exclude = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running; show the rows that come and go.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Say beside each row where its symbols stand.")
    ] = False,
    form: Annotated[
        Literal["text", "json", "csv", "parquet", "html", "dot", "mermaid", "sarif", "openlineage"],
        typer.Option(
            "--format",
            help="How rows are written. All but text, json and html have one view: the analysis's "
            "first if none is named. openlineage: run events of `lineage`, one a line.",
        ),
    ] = "text",
    limit: Limit = None,
    output: Output = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Of the jobs and tables, with --format openlineage.")
    ] = "default",
    spark: Spark = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Show what an analysis says about a source tree, and keep saying it while files change.

    Files are parsed and never run. One that cannot be read is skipped with a note. Exit code 2 on
    an error.
    """
    from deltafix.analyses.formats import FormatError, write_tables  # noqa: PLC0415  quick --help
    from deltafix.analyses.job import Job  # noqa: PLC0415
    from deltafix.analyses.registry import find_analysis  # noqa: PLC0415
    from deltafix.analyses.shown import Shown  # noqa: PLC0415

    if name is None:
        _say_all(_listing())
        return
    analysis = find_analysis(name)
    if path is None:
        raise SourceError(f"which folder or file? deltafix analyse {name} PATH")
    check_output(form, output, watch=watch)
    if form == "openlineage" and (view or match or lines or limit):
        raise typer.BadParameter(
            "openlineage has the whole lineage, without --view, --match, --lines and --limit"
        )
    if form == "openlineage" and name != "lineage":
        raise FormatError(f"openlineage is for lineage, and {name} has no tables", value=form)
    wanted = view or analysis.views
    if view is None and form not in {"text", "json", "html", "openlineage"} and len(wanted) > 1:
        note(f"{form} has one view: {wanted[0]}; --view names another", quiet=quiet)
        wanted = wanted[:1]
    tree = analysis.tree(path, exclude or ())
    if path.is_dir() and tree.only is not None:
        note(f"note: {path} is read as {tree.root / tree.only} says, not its files", quiet=quiet)
    prepare_kernel(quiet=quiet)
    with Job(analysis, views=wanted) as job:
        located = lines or form == "sarif"
        shown = Shown(job, match or (), lines=located, together=not (view or lines), limit=limit)
        watcher = watched(tree, job, analysis, spark=spark, quiet=quiet, may_be_empty=watch)
        files = len(watcher.seen.files)
        answer = shown.answer()
        if form in {"text", "json"}:
            report = [shown.json(answer, files)] if form == "json" else shown.text(answer)
            put("".join(f"{line}\n" for line in report), output)
        elif form == "openlineage":
            from deltafix.analyses.lineage.openlineage import events  # noqa: PLC0415  an extra

            report = map(json.dumps, events(job, namespace, datetime.now(UTC)))
            put("".join(f"{line}\n" for line in report), output)
        else:
            folder = os.path.relpath(tree.root).replace(os.sep, "/")
            title = f"deltafix analyse {name}"
            put(write_tables(shown.tables(answer), form, title=title, folder=folder), output)
        note(shown.closing(answer, files), quiet=quiet)
        if watch:
            note(f"watching {path}, Ctrl-C ends", quiet=quiet)
            if form == "json":
                follow(watcher, lambda change: put(f"{shown.change_json(change)}\n"))
            else:
                follow(watcher, lambda change: _say_all(shown.change(change)))


def _listing() -> Iterator[str]:
    """The analyses there are; of one whose parser is missing, what to install."""
    from deltafix.analyses.registry import ANALYSES, find_analysis  # noqa: PLC0415  quick --help

    for name in ANALYSES:
        try:
            title = find_analysis(name).title
        except MissingDependencyError as error:
            title = str(error)
        yield f"{name:<12} {title}"


def _say_all(lines: Iterable[str]) -> None:
    put("".join(f"{line}\n" for line in lines))
