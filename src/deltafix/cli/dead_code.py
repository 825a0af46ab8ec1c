"""`deltafix dead-code`: what no root reaches in a tree of Python files, once or on every save."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltafix.cli.console import announce_kernel, bar, note, progress

if TYPE_CHECKING:
    from deltafix.analyses.dead_code.baseline import Baseline
    from deltafix.analyses.dead_code.facts import Fragment
    from deltafix.analyses.dead_code.files import Tree
    from deltafix.analyses.dead_code.job import DeadCode
    from deltafix.analyses.dead_code.report import Change
    from deltafix.analyses.dead_code.watch import Watcher

__all__ = ["dead_code", "extract_with_spark"]

_FOUND = 1  # exit code: dead symbols were reported
_LOOK_SECONDS = 0.5


def dead_code(
    path: Annotated[Path, typer.Argument(help="A folder or a file.", metavar="PATH")],
    *,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            help="What else is alive: `public` (the public names of a library), or a pattern on "
            "symbol ids such as 'app.tasks:*'. May be repeated."
        ),
    ] = None,
    tests: Annotated[
        bool, typer.Option("--tests/--no-tests", help="Whether tests keep code alive.")
    ] = True,
    pure_decorator: Annotated[
        list[str] | None,
        typer.Option(help="A decorator that registers nothing, by its full name. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out files matching this pattern. Repeatable.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running; report after every save.")
    ] = False,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How the report is printed.")
    ] = "text",
    local: Annotated[
        bool, typer.Option("--local", help="Without Spark: for small trees and editor hooks.")
    ] = False,
    minimum: Annotated[
        int, typer.Option("--min-confidence", min=0, max=100, help="Leave out less sure findings.")
    ] = 0,
    baseline: Annotated[
        Path | None, typer.Option(help="Report only what this baseline file does not know.")
    ] = None,
    write_baseline: Annotated[
        Path | None, typer.Option(help="Write all findings to this file and exit with 0.")
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="Say why this symbol is alive or dead.", metavar="SYMBOL")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Find dead code in Python: symbols that no entry point, test or public name reaches.

    A symbol used only by dead code is dead too. Exit code 0 if there is none, 1 if dead symbols
    were reported, 2 on an error.
    """
    from deltafix.analyses.dead_code.baseline import Baseline  # noqa: PLC0415  quick --help
    from deltafix.analyses.dead_code.files import Tree  # noqa: PLC0415
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415
    from deltafix.analyses.dead_code.watch import Watcher  # noqa: PLC0415

    known = Baseline.read(baseline) if baseline is not None else Baseline()
    tree = Tree.at(path, exclude or ())
    announce_kernel(quiet=quiet)
    with DeadCode(
        roots=roots or (), tests=tests, pure_decorators=pure_decorator or ()
    ) as job:
        extract = partial(_extract, tree, local=local, quiet=quiet)
        watcher = Watcher(tree, job, extract)
        watcher.poll()
        for skipped, reason in watcher.seen.skipped.items():
            note(f"note: {skipped} skipped: {reason}", quiet=quiet)
        if why is not None:
            explainer = job.explainer()
            _say(explainer.explain(explainer.find(why)))
            return
        if write_baseline is not None:
            Baseline.of(job.dead(minimum)).write(write_baseline)
            note(f"wrote {write_baseline}", quiet=quiet)
            return
        found = _report(watcher, known, minimum, form)
        if watch:
            _watch(watcher, known, minimum, form, quiet)
            found = bool(known.split(job.dead(minimum))[0])
    if found:
        raise typer.Exit(_FOUND)
