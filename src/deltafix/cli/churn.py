"""`deltafix churn`: replay a repository's history through a view, a commit an epoch."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deltafix.cli.console import announce_kernel, note
from deltafix.cli.tree_options import Exclude, Profile, Roots, Tests

if TYPE_CHECKING:
    from deltafix.analyses.dead_code.churn import CommitReport, Replay, Summary
    from deltafix.analyses.job import Work

__all__ = ["churn"]

_HEAD = (
    f"{'commit':<10} {'files':>5} {'died':>5} {'rose':>5} {'facts':>7} {'touched':>8} "
    f"{'of full':>8} {'seconds':>8} {'scratch':>8}  subject"
)
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
        Literal["dead-code"], typer.Option(help="The view that goes through the commits.")
    ] = "dead-code",
    roots: Roots = None,
    tests: Tests = True,
    profile: Profile = None,
    exclude: Exclude = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Evaluate from scratch at every N-th commit; 0: never.")
    ] = 10,
    names: Annotated[
        bool, typer.Option("--names", help="Also list what became dead or alive.")
    ] = False,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How the report is printed.")
    ] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes.")] = False,
) -> None:
    """Say per commit what became dead or alive, and what finding out took.

    Each commit is one transaction of the maintained view; every N-th state is also evaluated from
    scratch, for comparison. The working tree is not looked at. Exit code 2 on an error.
    """
    from deltafix.analyses.dead_code import DEAD_CODE  # noqa: PLC0415  quick --help
    from deltafix.analyses.dead_code.churn import Replay, Summary  # noqa: PLC0415
    from deltafix.analyses.dead_code.job import DeadCode  # noqa: PLC0415
    from deltafix.analyses.history import Repository  # noqa: PLC0415

    found = Repository.at(repository)
    first, commits = found.commits(revisions)
    tree = DEAD_CODE.tree(repository, exclude or ())
    make = partial(DeadCode, roots=roots or (), tests=tests, profiles=profile or ())
    announce_kernel(quiet=quiet)
    with Replay(found, tree, make, first, sample=sample) as replay:
        start = replay.first
        _tell_skipped(start, quiet=quiet)
        if form == "text":
            _say(
                f"{start.commit.short}: {start.files:,} files, {start.held:,} facts, "
                f"{len(replay.job.dead()):,} dead symbols, {start.work.seconds:.2f} s"
            )
            _say(_HEAD)
        scratch = start.work
        reports: list[CommitReport] = []
        for report in replay.follow(commits):
            reports.append(report)
            scratch = report.scratch or scratch
            _tell_skipped(report, quiet=quiet)
            if form == "text":
                _say(_row(report, scratch))
                if names:
                    _list(report)
        summary = Summary.of(reports, start.work)
        _say(_closing(summary) if form == "text" else _document(analysis, replay, reports, summary))


def _row(one: CommitReport, scratch: Work) -> str:
    share = one.work.touched / max(scratch.touched, 1)
    sampled = f"{one.scratch.seconds:8.3f}" if one.scratch is not None else f"{'':8}"
    subject = one.commit.subject
    short = subject if len(subject) <= _WIDTH else subject[: _WIDTH - 1] + "…"
    return (
        f"{one.commit.short:<10} {one.files:>5} {len(one.became_dead):>5} "
        f"{len(one.became_alive):>5} {one.facts_changed:>7} {one.work.touched:>8} "
        f"{share:>8.1%} {one.work.seconds:>8.3f} {sampled}  {short}"
    )


def _list(one: CommitReport) -> None:
    for finding in one.became_dead:
        _say(f"  dead   {finding.path}:{finding.line}: {finding.kind} {finding.symbol}")
    for finding in one.became_alive:
        _say(f"  alive  {finding.path}:{finding.line}: {finding.kind} {finding.symbol}")


def _closing(summary: Summary) -> str:
    text = f"{summary.commits} commits, {summary.changing} of them changed a fact"
    if summary.touched is None or summary.faster is None:
        return text
    return (
        f"{text}; medians of those: {summary.touched:.1%} of a full run touched, "
        f"{summary.faster:.0f} times faster than one"
    )


def _document(analysis: str, replay: Replay, reports: list[CommitReport], summary: Summary) -> str:
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


def _tell_skipped(one: CommitReport, *, quiet: bool) -> None:
    for path, reason in sorted(one.skipped.items()):
        note(f"note: {one.commit.short}: {path} skipped: {reason}", quiet=quiet)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
