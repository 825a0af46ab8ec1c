"""`deltafix dead-code`: what no root reaches in a tree of Python files, once or on every save."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltafix.cli.console import note, prepare_kernel, progress
from deltafix.cli.output import Output, check_output, put
from deltafix.cli.source_trees import extractor, follow, require_sources
from deltafix.cli.tree_options import Also, Exclude, HowSure, Spark, Tests
from deltafix.diagnostics import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltafix.analyses.dead_code.baseline import Baseline
    from deltafix.analyses.dead_code.job import DeadCode
    from deltafix.analyses.dead_code.report import Change, Report
    from deltafix.analyses.files import Tree
    from deltafix.analyses.watch import Watcher

_FOUND = 1  # exit code: dead symbols were reported


def dead_code(
    path: Annotated[Path, typer.Argument(help="A folder or a file.", metavar="PATH")],
    *,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="What is alive: `public` (the public names of a library), `entry-points` alone "
            "(an application), or a pattern on symbol ids such as 'app.tasks:*'; without it a "
            "library is recognised. Repeatable.",
        ),
    ] = None,
    tests: Tests = True,
    pure_decorator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A decorator that registers nothing, by its full name. Repeatable."
        ),
    ] = None,
    framework: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A framework in use: click, django, flask or pytest. Repeatable."
        ),
    ] = None,
    coverage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What ran is alive: a file of `coverage json`, or .coverage."
        ),
    ] = None,
    exclude: Exclude = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running; report after every save.")
    ] = False,
    form: Annotated[
        Literal["text", "json", "csv", "parquet", "html", "dot", "mermaid", "sarif", "github"],
        typer.Option(
            "--format",
            help="How the report is printed; dot and mermaid: which of it refers to which; sarif "
            "and github: for CI.",
        ),
    ] = "text",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Show so many at most; not in json, sarif and github.", metavar="COUNT"
        ),
    ] = None,
    output: Output = None,
    spark: Spark = None,
    confidence: HowSure = "sure",
    also: Also = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Report only what this baseline file does not know."),
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all findings, and what is not read, to this file; exit with 0.",
        ),
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="Say why this symbol is alive or dead.", metavar="SYMBOL")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Find dead code in Python: symbols that no entry point, test or public name reaches.

    A symbol used only by dead code is dead too. Those are shown whose name stands nowhere else and
    that nobody outside can reach; the others that nothing reaches are counted (--confidence). Exit
    code 0 if there is none to show, 1 if dead symbols were reported, 2 on an error.
    """
    from deltafix.analyses.dead_code import DEAD_CODE  # noqa: PLC0415  quick --help
    from deltafix.analyses.dead_code.baseline import Baseline  # noqa: PLC0415
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415
    from deltafix.analyses.watch import Watcher  # noqa: PLC0415

    if watch and (why is not None or write_baseline is not None):
        raise typer.BadParameter("--watch cannot be combined with --why or --write-baseline")
    if why is not None and form != "text":
        raise typer.BadParameter(f"--why cannot be combined with --format {form}: it is text")
    if output is not None and write_baseline is not None:
        raise typer.BadParameter("--output cannot be combined with --write-baseline")
    check_output(form, output, watch=watch)
    if limit is not None and form in {"json", "sarif", "github"}:
        raise typer.BadParameter(f"--limit cannot be combined with --format {form}: it has all")
    known = Baseline.read(baseline) if baseline is not None else Baseline()
    tree = DEAD_CODE.tree(path, exclude or ())
    ran = _ran(tree, coverage, quiet=quiet)
    prepare_kernel(quiet=quiet)
    with DeadCode(
        roots=roots or (),
        tests=tests,
        pure_decorators=pure_decorator or (),
        frameworks=framework or (),
        ran=ran,
        confidence=confidence,
        also=[kind.value for kind in also or ()],
    ) as job:
        many = extractor(tree, job.analysis.extract, spark=spark, quiet=quiet)
        watcher = Watcher(tree, job, job.analysis.extract, many)
        with progress("evaluating", quiet=quiet):
            watcher.poll()
        if not watch:
            require_sources(watcher, ".py", is_source=bool(job.symbol_count or job.errors))
        for skipped, reason in watcher.seen.skipped.items():
            note(f"note: {skipped} skipped: {reason}", quiet=quiet)
        if why is not None:
            explainer = job.explainer()
            symbol = explainer.find(why)
            put(f"{explainer.explain(symbol, job.judged(symbol))}\n", output)
            return
        if write_baseline is not None:
            Baseline.of(job.answer(), job.errors).write(write_baseline)
            note(f"wrote {write_baseline}", quiet=quiet)
            return
        with progress("writing the report", quiet=quiet):
            shown = _shown(_report(watcher, job, known), form, limit, job)
        put(shown, output)
        if watch:
            note(f"watching {path}, Ctrl-C ends", quiet=quiet)
            follow(watcher, lambda change: put(_shown_change(_new(change, known), form)))
        findings = known.split(job.answer())[0]
    if findings:
        raise typer.Exit(_FOUND)


def _ran(tree: Tree, data: Path | None, *, quiet: bool) -> frozenset[str]:
    """The symbols that ran, by the coverage data, if there is any."""
    from deltafix.analyses.dead_code.coverage import symbols_that_ran  # noqa: PLC0415  as above

    if data is None:
        return frozenset()
    ran = symbols_that_ran(tree, data)
    for path, reason in ran.skipped.items():
        note(f"note: coverage of {path} not used: {reason}", quiet=quiet)
    return ran.symbols


def _report(watcher: Watcher[Change], job: DeadCode, known: Baseline) -> Report:
    """The state of the tree, less what the baseline knows."""
    from deltafix.analyses.dead_code.report import Report  # noqa: PLC0415  quick --help

    dead, unused = job.dead(), job.unused()
    new, accepted = known.split(dead)
    new_unused, accepted_too = known.split(unused or ())
    return Report(
        root=str(watcher.tree.root),
        files=len(watcher.seen.files),
        facts=job.fact_count,
        symbols=job.symbol_count,
        dead=tuple(new),
        likely=job.left_out,
        work=job.last_work,
        known=len(accepted) + len(accepted_too),
        stale=tuple(known.stale([*dead, *(unused or ())])),
        unreadable=known.new_unread(job.errors),
        notes=(*job.notes(), *_notes_on_unread(job, known)),
        assumed=job.assumption(),
        unused=None if unused is None else tuple(new_unused),
    )


def _notes_on_unread(job: DeadCode, known: Baseline) -> Iterator[str]:
    """How many files the baseline knows to be unread, and how many of its are not any more."""
    still = known.unread & job.errors.keys()
    if still:
        yield f"not read, as the baseline has it: {plural(len(still), 'file')}"
    if still != known.unread:
        others = plural(len(known.unread - still), "file")
        yield f"not read by the baseline, and now read or gone: {others}; write the baseline anew"


def _new(change: Change, known: Baseline) -> Change:
    """The change without what the baseline knows."""
    return replace(
        change,
        became_dead=tuple(known.split(change.became_dead)[0]),
        became_unused=tuple(known.split(change.became_unused)[0]),
    )


def _shown(report: Report, form: str, limit: int | None, job: DeadCode) -> str | bytes:
    if form == "text":
        return f"{report.text(limit)}\n"
    if form == "json":
        return f"{report.json()}\n"
    from deltafix.analyses.dead_code import formats  # noqa: PLC0415  as above
    from deltafix.analyses.formats import write_tables  # noqa: PLC0415

    if form in {"sarif", "github"}:
        folder = os.path.relpath(report.root).replace(os.sep, "/")
        return f"{(formats.sarif if form == 'sarif' else formats.github)(report, folder)}\n"
    if form in {"dot", "mermaid"}:
        table = formats.graph(report, job.rows("link"), limit)
    else:
        table = formats.table(report, limit)
    return write_tables([table], form, title="deltafix dead-code")


def _shown_change(change: Change, form: str) -> str:
    return f"{change.json() if form == 'json' else change.text()}\n"
