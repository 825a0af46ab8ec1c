"""`deltafix churn`: replay a repository's history through a view, a commit an epoch."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltafix.cli.completion import analyses
from deltafix.cli.console import note, prepare_kernel
from deltafix.cli.tree_options import Also, Exclude, HowSure, Profile, Roots, Tests, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deltafix.analyses.analysis import Analysis
    from deltafix.analyses.dead_code.findings import Confidence
    from deltafix.analyses.job import Work
    from deltafix.analyses.replay import CommitReport, Replay, Replayed, Summary

_DEAD_CODE = "dead-code"
_WIDTH = 48  # of a subject


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
            help="The analysis that goes through the commits; see `analyse`.",
            autocompletion=analyses,
        ),
    ] = _DEAD_CODE,
    roots: Roots = None,
    tests: Tests = True,
    profile: Profile = None,
    exclude: Exclude = None,
    confidence: HowSure = "sure",
    also: Also = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Evaluate from scratch at every N-th commit; 0: never.")
    ] = 10,
    names: Annotated[
        bool, typer.Option("--names", help="Also list what became dead or alive, or the rows.")
    ] = False,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How the report is printed.")
    ] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Say per commit what became dead or alive, or which rows came and went, and what it took.

    Each commit is one transaction of the maintained views; every N-th state is also evaluated from
    scratch, for comparison. The working tree is not looked at. Exit code 2 on an error.
    """
    from deltafix.analyses.dead_code import UNUSED  # noqa: PLC0415  quick --help
    from deltafix.analyses.history import Repository  # noqa: PLC0415
    from deltafix.analyses.registry import find_analysis  # noqa: PLC0415
    from deltafix.analyses.replay import Replay, Summary  # noqa: PLC0415

    chosen = find_analysis(analysis)
    if analysis == _DEAD_CODE:
        make, came, went = _dead_code(roots, tests, profile, confidence, also), "died", "rose"
        if also:
            chosen, came, went = UNUSED, "found", "mended"
    elif roots or profile or also or not tests:
        raise typer.BadParameter(
            "--roots, --profile, --no-tests and --also are for dead-code alone"
        )
    else:
        make, came, went = _job(chosen), "came", "went"
    found = Repository.at(repository)
    first, commits = found.commits(revisions)
    tree = chosen.tree(repository, exclude or ())
    prepare_kernel(quiet=quiet)
    with Replay(found, tree, chosen.extract, make, first, sample=sample) as replay:
        start = replay.first
        _tell_skipped(start, quiet=quiet)
        if form == "text":
            _say(
                f"{start.commit.short}: {start.files:,} files, {start.held:,} facts, "
                f"{start.change.sizes()[0]:,} {came}, {start.work.seconds:.2f} s"
            )
            _say(_head(came, went))
        scratch = start.work
        reports: list[CommitReport[Any]] = []
        for report in replay.follow(commits):
            reports.append(report)
            scratch = report.scratch or scratch
            _tell_skipped(report, quiet=quiet)
            if form == "text":
                _say(_row(report, scratch))
                for line in _lines(report) if names else ():
                    _say(line)
        summary = Summary.of(reports, start.work)
        _say(_closing(summary) if form == "text" else _document(analysis, replay, reports, summary))


def _dead_code(
    roots: list[str] | None,
    tests: bool,
    profile: list[str] | None,
    confidence: Confidence,
    also: list[Unread] | None,
) -> Callable[[], Replayed[Any]]:
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415  quick --help

    return partial(
        DeadCode,
        roots=roots or (),
        tests=tests,
        profiles=profile or (),
        confidence=confidence,
        also=[one.value for one in also or ()],
    )


def _job(analysis: Analysis) -> Callable[[], Replayed[Any]]:
    from deltafix.analyses.job import Job  # noqa: PLC0415  quick --help

    return partial(Job, analysis)


def _head(came: str, went: str) -> str:
    return (
        f"{'commit':<10} {'files':>5} {came:>5} {went:>5} {'facts':>7} {'touched':>8} "
        f"{'of full':>8} {'seconds':>8} {'scratch':>8}  subject"
    )


def _row(one: CommitReport[Any], scratch: Work) -> str:
    share = one.work.touched / max(scratch.touched, 1)
    sampled = f"{one.scratch.seconds:8.3f}" if one.scratch is not None else f"{'':8}"
    subject = one.commit.subject
    short = subject if len(subject) <= _WIDTH else subject[: _WIDTH - 1] + "…"
    came, went = one.change.sizes()
    return (
        f"{one.commit.short:<10} {one.files:>5} {came:>5} "
        f"{went:>5} {one.facts_changed:>7} {one.work.touched:>8} "
        f"{share:>8.1%} {one.work.seconds:>8.3f} {sampled}  {short}"
    )


def _lines(one: CommitReport[Any]) -> Iterator[str]:
    for sign, side in zip("+-", one.change.sides(), strict=True):
        yield from (f"  {sign} {line}" for line in side)


def _closing(summary: Summary) -> str:
    text = f"{summary.commits} commits, {summary.changing} of them changed a fact"
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
            "commits": [one.as_data() for one in reports],
            "summary": asdict(summary),
        },
        ensure_ascii=False,
    )


def _tell_skipped(one: CommitReport[Any], *, quiet: bool) -> None:
    for path, reason in sorted(one.skipped.items()):
        note(f"note: {one.commit.short}: {path} skipped: {reason}", quiet=quiet)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
