"""`deltafix churn`: replay a repository's history through a view, a commit an epoch."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltafix.cli.completion import analyses
from deltafix.cli.console import note, prepare_kernel, printing, progress
from deltafix.cli.tree_options import Also, Exclude, Framework, HowSure, Roots, Tests, Unread
from deltafix.diagnostics import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deltafix.analyses.analysis import Analysis
    from deltafix.analyses.dead_code.findings import Confidence
    from deltafix.analyses.job import Work
    from deltafix.analyses.replay import CommitReport, Replay, Replayed, Summary
    from deltafix.analyses.standing import Standing

_DEAD_CODE = "dead-code"
_WIDTH = 48  # of a subject
_MOST, _COMMITS = 60, 40  # rows of a comment, whose limit is 65,536 letters


def churn(
    repository: Annotated[
        Path, typer.Argument(help="A folder of a git repository.", metavar="REPO")
    ],
    revisions: Annotated[
        str, typer.Argument(help="REV..REV: the commits after the first.", metavar="REV..HEAD")
    ],
    *,
    analysis: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The analysis that goes through the commits; see `analyse`.",
            autocompletion=analyses,
        ),
    ] = _DEAD_CODE,
    roots: Roots = None,
    tests: Tests = True,
    framework: Framework = None,
    exclude: Exclude = None,
    confidence: HowSure = "sure",
    also: Also = None,
    sample: Annotated[
        int,
        typer.Option(
            min=0, metavar="COUNT", help="Evaluate from scratch at every N-th commit; 0: never."
        ),
    ] = 10,
    names: Annotated[
        bool, typer.Option("--names", help="Also list what became dead or alive, or the rows.")
    ] = False,
    form: Annotated[
        Literal["text", "json", "markdown"],
        typer.Option("--format", help="How it is printed; markdown: what is left, for a comment."),
    ] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes, no progress.")] = False,
) -> None:
    """Say per commit what became dead or alive, or which rows came and went, and what it took.

    Each commit is one transaction of the maintained views; every N-th state is also evaluated from
    scratch, for comparison. The working tree is not looked at. Exit code 2 on an error.
    """
    from deltafix.analyses.dead_code import UNUSED  # noqa: PLC0415  quick --help
    from deltafix.analyses.history import Repository  # noqa: PLC0415
    from deltafix.analyses.registry import find_analysis  # noqa: PLC0415
    from deltafix.analyses.replay import Replay, Summary  # noqa: PLC0415
    from deltafix.analyses.standing import between  # noqa: PLC0415

    chosen = find_analysis(analysis)
    if analysis == _DEAD_CODE:
        make, came, went = _dead_code(roots, tests, framework, confidence, also), "died", "rose"
        noun = "dead symbol"
        if also:
            chosen, came, went, noun = UNUSED, "found", "mended", "finding"
    elif roots or framework or also or not tests:
        raise typer.BadParameter(
            "--roots, --framework, --no-tests and --also are for dead-code alone"
        )
    else:
        make, came, went, noun = _job(chosen), "came", "went", "row"
    history = Repository.at(repository)
    first, commits = history.commits(revisions)
    tree = chosen.tree(repository, exclude or ())
    prepare_kernel(quiet=quiet)
    with ExitStack() as stack:
        with progress("reading the first commit", quiet=quiet):
            opened = Replay(history, tree, chosen.extract, make, first, sample=sample)
            replay = stack.enter_context(opened)
        start = replay.first
        before = replay.job.standing() if form == "markdown" else {}
        _tell_skipped(start, quiet=quiet)
        if form == "text":
            held = f"{plural(start.files, 'file')}, {plural(start.held, 'fact')}"
            rows = plural(start.change.sizes()[0], noun)
            _say(f"{start.commit.short}: {held}, {rows}, {start.work.seconds:.2f} s")
            _say(_head(came, went))
        scratch = start.work
        reports: list[CommitReport[Any]] = []
        with progress("going through commits", quiet=quiet):
            for report in replay.follow(commits):
                reports.append(report)
                scratch = report.scratch or scratch
                _tell_skipped(report, quiet=quiet)
                if form == "text":
                    _say(_row(report, scratch))
                    for line in _lines(report) if names else ():
                        _say(line)
        summary = Summary.of(reports, start.work)
        if form == "text":
            _say(_closing(summary))
        elif form == "json":
            _say(_document(analysis, replay, reports, summary))
        else:
            sides = between(before, replay.job.standing())
            _say(_comment(analysis, revisions, sides, _commits(reports, start.work, came, went)))


def _dead_code(
    roots: list[str] | None,
    tests: bool,
    framework: list[str] | None,
    confidence: Confidence,
    also: list[Unread] | None,
) -> Callable[[], Replayed[Any]]:
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415  quick --help

    return partial(
        DeadCode,
        roots=roots or (),
        tests=tests,
        frameworks=framework or (),
        confidence=confidence,
        also=[kind.value for kind in also or ()],
    )


def _job(analysis: Analysis) -> Callable[[], Replayed[Any]]:
    from deltafix.analyses.job import Job  # noqa: PLC0415  quick --help

    return partial(Job, analysis)


def _head(came: str, went: str) -> str:
    return (
        f"{'commit':<10} {'files':>5} {came:>5} {went:>5} {'facts':>7} {'touched':>8} "
        f"{'of full':>8} {'seconds':>8} {'scratch':>8}  subject"
    )


def _row(report: CommitReport[Any], scratch: Work) -> str:
    share = report.work.touched / max(scratch.touched, 1)
    sampled = f"{report.scratch.seconds:8.3f}" if report.scratch is not None else f"{'':8}"
    subject = report.commit.subject
    short = subject if len(subject) <= _WIDTH else subject[: _WIDTH - 1] + "…"
    came, went = report.change.sizes()
    return (
        f"{report.commit.short:<10} {report.files:>5} {came:>5} "
        f"{went:>5} {report.facts_changed:>7} {report.work.touched:>8} "
        f"{share:>8.1%} {report.work.seconds:>8.3f} {sampled}  {short}"
    )


def _lines(report: CommitReport[Any]) -> Iterator[str]:
    for sign, side in zip("+-", report.change.sides(), strict=True):
        yield from (f"  {sign} {line}" for line in side)


def _closing(summary: Summary) -> str:
    text = f"{plural(summary.commits, 'commit')}, {summary.changing} of them changed a fact"
    if summary.touched is None or summary.faster is None:
        return text
    return (
        f"{text}; medians of those: {summary.touched:.1%} of a full run touched, "
        f"{summary.faster:.0f} times faster than one"
    )


def _document(
    analysis: str, replay: Replay[Any], reports: list[CommitReport[Any]], summary: Summary
) -> str:
    return json.dumps(
        {
            "version": 1,
            "event": "churn",
            "analysis": analysis,
            "start": replay.first.as_data(),
            "commits": [report.as_data() for report in reports],
            "summary": asdict(summary),
        },
        ensure_ascii=False,
    )


def _comment(
    analysis: str, revisions: str, sides: tuple[list[Standing], list[Standing]], commits: str
) -> str:
    """What is left of all commits together, as a comment that whoever posts it finds again."""
    from deltafix.analyses.formats import markdown_code, markdown_table  # noqa: PLC0415  as above

    came, went = sides
    what = "dead code" if analysis == _DEAD_CODE else f"rows of {analysis}"
    lines = [f"<!-- deltafix churn {analysis} -->", f"### deltafix: {what}"]
    lines.append(f"{len(came)} more, {len(went)} less" if came or went else "Nothing came or went.")
    for sign, title, side in (("+", "new", came), ("-", "no longer", went)):
        if not side:
            continue
        rows = [(sign, standing.where, standing.what) for standing in side[:_MOST]]
        lines += ["", markdown_table(("", "where", title), rows)]
        if len(side) > _MOST:
            lines += ["", f"and {len(side) - _MOST:,} more"]
    lines += ["", "<details><summary>Commit by commit</summary>", "", commits, "", "</details>", ""]
    return "\n".join([*lines, f"<sub>deltafix churn {markdown_code(revisions)}</sub>"])


def _commits(reports: list[CommitReport[Any]], first: Work, came: str, went: str) -> str:
    from deltafix.analyses.formats import markdown_table  # noqa: PLC0415  as above

    rows = []
    scratch = first
    for report in reports:
        scratch = report.scratch or scratch
        share = report.work.touched / max(scratch.touched, 1)
        counts = (report.files, *report.change.sizes(), report.facts_changed)
        rows.append((report.commit.short, *map(str, counts), f"{share:.1%}", report.commit.subject))
    head = ("commit", "files", came, went, "facts", "touched of a full run", "subject")
    more = [] if len(rows) <= _COMMITS else ["", f"the last {_COMMITS} of {len(rows):,}"]
    return "\n".join([markdown_table(head, rows[-_COMMITS:]), *more])


def _tell_skipped(report: CommitReport[Any], *, quiet: bool) -> None:
    for path, reason in sorted(report.skipped.items()):
        note(f"note: {report.commit.short}: {path} skipped: {reason}", quiet=quiet)


def _say(text: str) -> None:
    with printing():
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
