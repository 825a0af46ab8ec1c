"""`deltafix check`: every error and warning of a program, without running it.

A script of SQL is run in memory, without a file of rows: what a statement means rests on those
before it. What reads a table or view that could not be made is not told of.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from deltafix.cli.console import prepare_kernel
from deltafix.cli.program_options import (
    FunctorsFile,
    Include,
    Macros,
    WordSize,
    as_given,
    read_functors,
    reading,
)
from deltafix.cli.sql import Dialect
from deltafix.diagnostics import plural
from deltafix.errors import ProgramError, SqlAbortedError, SqlError
from deltafix.paths import read_text

if TYPE_CHECKING:
    from deltafix.datalog.load import Analysis
    from deltafix.datalog.preprocess import Given
    from deltafix.diagnostics import Diagnostic


def check(
    programs: Annotated[
        list[Path], typer.Argument(help="Program files (.dl, or .sql).", metavar="FILE…")
    ],
    *,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="How findings are printed.")
    ] = "text",
    functors: FunctorsFile = None,
    word_size: WordSize = None,
    include: Include = None,
    macros: Macros = None,
    dialect: Annotated[Dialect, typer.Option(help="Whose SQL it is.")] = "duckdb",
) -> None:
    """Check programs: errors and warnings with line, column, caret, and what would be valid.

    Exit code 0 if there is no error, 2 otherwise.
    """
    given = as_given(reading(word_size, include, macros))
    reports = {
        path: _of_sql(path, dialect) if path.suffix == ".sql" else _of_rules(path, functors, given)
        for path in programs
    }
    if form == "json":
        findings = [
            _finding(path, item) for path, report in reports.items() for item in report.diagnostics
        ]
        sys.stdout.write(json.dumps(findings, indent=2) + "\n")
    else:
        for path, report in reports.items():
            if report.diagnostics:
                sys.stdout.write(report.shown + "\n")
            sys.stdout.write(f"{path}: {report.summary}\n")
    if any(report.is_wrong for report in reports.values()):
        raise typer.Exit(2)


_MAKES: Final = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:MATERIALIZED\s+|TEMP(?:ORARY)?\s+)*(?:TABLE|VIEW)\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?([^\s(]+)",
    re.IGNORECASE,
)


class _Report(NamedTuple):
    """What is found in a program: as data, as text, and in a line."""

    diagnostics: Sequence[Diagnostic]
    shown: str
    summary: str
    is_wrong: bool


def _of_sql(path: Path, dialect: Dialect) -> _Report:
    import deltafix.sql as door  # noqa: PLC0415  quick --help

    text = read_text(path)
    prepare_kernel()
    errors: list[SqlError] = []
    lost: set[str] = set()

    def wrong(error: SqlError, words: str) -> None:
        unknown = re.fullmatch(r"unknown (?:table|view) '(.*)'", error.diagnostics[0].message)
        follows = isinstance(error, SqlAbortedError) or (unknown is not None and unknown[1] in lost)
        if not follows:
            errors.append(error)
        created = _MAKES.match(words)
        if created is not None:
            lost.add(created[1].strip('"`').lower())

    with door.connect(dialect=dialect) as db:
        try:
            for _ in db.run(text, (), str(path), wrong):
                pass
        except SqlError as error:  # the text cannot be read to its end
            errors.append(error)
        if errors:
            diagnostics = [diagnostic for error in errors for diagnostic in error.diagnostics]
            return _Report(
                diagnostics, "\n".join(map(str, errors)), plural(len(diagnostics), "error"), True
            )
        sizes = ((db.catalog.tables, "table"), (db.catalog.views, "view"))
        size = ", ".join(plural(len(parts), noun) for parts, noun in sizes)
    return _Report((), "", f"ok: {size}", False)


def _of_rules(path: Path, functors: Path | None, given: Given) -> _Report:
    analysis = _analyse(path, functors, given)
    return _Report(
        analysis.diagnostics, analysis.render(), _summary(analysis), bool(analysis.errors)
    )


def _analyse(path: Path, functors: Path | None, given: Given) -> Analysis:
    """What the text door says, and, of a program it lets through, what the planner says."""
    from deltafix.datalog.load import analyse, read_bytes  # noqa: PLC0415  quick --help
    from deltafix.plan.build import analysed  # noqa: PLC0415

    analysis = analyse(read_bytes(path), str(path), given)
    if analysis.errors:
        return analysis
    try:
        read_functors(analysis.program, functors)
    except ProgramError as refused:
        return replace(analysis, diagnostics=(*analysis.diagnostics, *refused.diagnostics))
    return analysed(analysis)


def _summary(analysis: Analysis) -> str:
    if analysis.errors:
        return (
            f"{plural(len(analysis.errors), 'error')}, {plural(len(analysis.warnings), 'warning')}"
        )
    from deltafix.rules.strata import strata  # noqa: PLC0415  quick --help

    program = analysis.program
    sizes = ((program.relations, "relation"), (program.rules, "rule"))
    size = ", ".join(plural(len(parts), noun) for parts, noun in sizes)
    recursive = sum(stratum.recursive for stratum in strata(program))
    size += f", {plural(recursive, 'recursive stratum', 'recursive strata')}"
    warnings = f", {plural(len(analysis.warnings), 'warning')}" if analysis.warnings else ""
    return f"ok: {size}{warnings}"


def _finding(path: Path, item: Diagnostic) -> dict[str, object]:
    span = item.span
    return {
        "path": str(path) if span is None or span.path is None else span.path,
        "line": None if span is None else span.line,
        "column": None if span is None else span.column,
        "length": None if span is None else span.end - span.start,
        "severity": item.severity,
        "code": item.code,
        "message": item.message,
        "help": item.help,
    }
