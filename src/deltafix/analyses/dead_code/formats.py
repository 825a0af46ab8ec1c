"""Reports for other tools: SARIF 2.1.0 for code scanning, annotations for GitHub, rows, edges.

Invariant: output is a function of the report and of where the tree lies; paths are relative to the
folder that the caller names (the repository, as a rule), with forward slashes, and escaped as the
format asks. What is inside a dead symbol is not told again: removing the outer one removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields
from typing import Any, cast

from deltafix.analyses.dead_code.findings import UNUSED_KINDS, Finding
from deltafix.analyses.dead_code.report import Report
from deltafix.analyses.formats import Table, location, place_in, sarif_log
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import BaseType

_KINDS = ("module", "class", "function", "method", "name")
_RULES = {
    **{f"dead-{kind}": f"A {kind} that nothing alive reaches" for kind in _KINDS},
    **{
        f"unused-{kind}": f"{'A' if kind == 'local' else 'An'} {kind} that nothing reads"
        for kind in UNUSED_KINDS
    },
}


def table(report: Report, limit: int | None = None) -> Table:
    """The findings, all of them or the first, as rows: what `Finding` says of each, "" for None."""
    named = {
        field.name: "number" if field.name in {"line", "column"} else "symbol"
        for field in fields(Finding)
    }
    schema = Schema.of("dead", list(named), cast("list[BaseType]", list(named.values())))
    rows = (astuple(finding) for finding in report.findings[:limit])
    return Table(schema, [tuple("" if value is None else value for value in row) for row in rows])


def graph(report: Report, links: Iterable[Row], limit: int | None = None) -> Table:
    """The symbols of the findings, all or the first, and how they hang together.

    `links` are rows of the program's `link`; those of one found symbol to another are the edges.
    """
    symbols = dict.fromkeys(finding.symbol for finding in report.findings[:limit])
    schema = Schema.of("link", ["user", "id", "how"], ["symbol"] * 3)
    rows = [(user, id_, how) for user, id_, how in links if {user, id_} <= symbols.keys()]
    return Table(schema, rows, (("user",), ("id",)), nodes=[*symbols])


def sarif(report: Report, folder: str = "") -> str:
    """The report as a SARIF 2.1.0 log of one run. `folder` leads to the tree, see the module."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    results = [_result(finding, folder) for finding in _outermost(report)]
    failures = [
        {
            "level": "warning",
            "message": {"text": f"not read: {why}"},
            "locations": [location(folder, path, 1)],
        }
        for path, why in report.unreadable.items()
    ]
    remarks = [{"level": "note", "message": {"text": text}} for text in report.remarks()]
    notifications = {
        "toolExecutionNotifications": failures,
        "toolConfigurationNotifications": remarks,
    }
    return sarif_log("deltafix dead-code", rules, results, notifications)


def _result(finding: Finding, folder: str) -> dict[str, Any]:
    rule = "-".join(finding.title.split()[:2])
    return {
        "ruleId": rule,
        "ruleIndex": [*_RULES].index(rule),
        "level": _level(finding),
        "message": {"text": _message(finding)},
        "locations": [location(folder, finding.path, finding.line, _column(finding))],
        # Like a baseline's key: it outlives a move of lines.
        "partialFingerprints": {"symbol/v1": f"{finding.path}#{finding.symbol}"},
        "rank": 100.0 if finding.confidence == "sure" else 50.0,
    }


def github(report: Report, folder: str = "") -> str:
    """The report as workflow commands, one a line, then its summary as plain text.

    What was assumed, and the notes on the whole tree, are notices without a file.
    """
    lines = [_annotation(finding, folder) for finding in _outermost(report)]
    lines += [
        _command("warning", folder, path, 1, f"not read: {why}")
        for path, why in report.unreadable.items()
    ]
    lines += [f"::notice title=Dead code::{_escaped(text)}" for text in report.remarks()]
    return "\n".join([*lines, report.text().splitlines()[-1]])


def _annotation(finding: Finding, folder: str) -> str:
    level, message, column = _level(finding), _message(finding), _column(finding)
    return _command(level, folder, finding.path, finding.line, message, column=column)


def _column(finding: Finding) -> int | None:
    """Where its name stands in the line; a module is all of its file."""
    return None if finding.kind == "module" else finding.column


def _command(
    level: str, folder: str, path: str, line: int, message: str, *, column: int | None = None
) -> str:
    kind = "notice" if level == "note" else level
    col = "" if column is None else f",col={column}"
    file = _escaped(place_in(folder, path)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} file={file},line={line}{col},title=Dead code::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _message(finding: Finding) -> str:
    return " ".join([finding.title, *(f"({doubt})" for doubt in finding.doubts())])


def _level(finding: Finding) -> str:
    return "warning" if finding.confidence == "sure" else "note"


def _outermost(report: Report) -> Iterator[Finding]:
    symbols = {finding.symbol for finding in report.dead}
    return (finding for finding in report.findings if finding.inside not in symbols)
