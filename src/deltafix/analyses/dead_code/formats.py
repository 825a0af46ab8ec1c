"""Reports for other tools: SARIF 2.1.0 for code scanning, annotations for GitHub's logs, CSV.

Invariant: output is a function of the report and of where the tree lies; paths are relative to the
folder that the caller names (the repository, as a rule), with forward slashes, and escaped as the
format asks. What is inside a dead symbol is not told again: removing the outer one removes it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import astuple, fields
from importlib.metadata import version
from io import StringIO
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from deltafix.analyses.dead_code.findings import Finding
from deltafix.analyses.dead_code.report import Report

__all__ = ["github", "rows", "sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_KINDS = ("module", "class", "function", "method", "name")


def rows(report: Report, limit: int | None = None) -> str:
    """The findings as CSV with a header, all of them or the first: what `Finding` says of each."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(one.name for one in fields(Finding))
    lines.writerows(astuple(finding) for finding in report.dead[:limit])
    return text.getvalue().rstrip("\n")


def sarif(report: Report, folder: str = "") -> str:
    """The report as a SARIF 2.1.0 log of one run. `folder` leads to the tree, see the module."""
    rules = [
        {
            "id": f"dead-{kind}",
            "shortDescription": {"text": f"A {kind} that nothing alive reaches"},
        }
        for kind in _KINDS
    ]
    results = [_result(finding, folder) for finding in _outermost(report)]
    failures = [
        {
            "level": "warning",
            "message": {"text": f"not read: {why}"},
            "locations": [_location(folder, path, 1)],
        }
        for path, why in report.unreadable.items()
    ]
    run = {
        "tool": {
            "driver": {
                "name": "deltafix dead-code",
                "version": version("deltafix"),
                "rules": rules,
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": failures,
                "toolConfigurationNotifications": [
                    {"level": "note", "message": {"text": text}} for text in report.remarks()
                ],
            },
        ],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False)


def _result(finding: Finding, folder: str) -> dict[str, Any]:
    return {
        "ruleId": f"dead-{finding.kind}",
        "ruleIndex": _KINDS.index(finding.kind),
        "level": _level(finding),
        "message": {"text": _message(finding)},
        "locations": [_location(folder, finding.path, finding.line)],
        # Like a baseline's key: it outlives a move of lines.
        "partialFingerprints": {"symbol/v1": f"{finding.path}#{finding.symbol}"},
        "rank": 100.0 if finding.confidence == "sure" else 50.0,
    }


def _location(folder: str, path: str, line: int) -> dict[str, Any]:
    uri = quote(_place(folder, path))
    region = {"startLine": line}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def github(report: Report, folder: str = "") -> str:
    """The report as workflow commands, one a line, then its summary as plain text.

    What was assumed, and the notes on the whole tree, are notices without a file.
    """
    lines = [
        _command(_level(finding), folder, finding.path, finding.line, _message(finding))
        for finding in _outermost(report)
    ]
    lines += [
        _command("warning", folder, path, 1, f"not read: {why}")
        for path, why in report.unreadable.items()
    ]
    lines += [f"::notice title=Dead code::{_escaped(text)}" for text in report.remarks()]
    return "\n".join([*lines, report.text().splitlines()[-1]])


def _command(level: str, folder: str, path: str, line: int, message: str) -> str:
    kind = "notice" if level == "note" else level
    place = _escaped(_place(folder, path)).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} file={place},line={line},title=Dead code::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _message(finding: Finding) -> str:
    return " ".join(
        [f"dead {finding.kind} {finding.symbol}", *(f"({one})" for one in finding.doubts())]
    )


def _level(finding: Finding) -> str:
    return "warning" if finding.confidence == "sure" else "note"


def _place(folder: str, path: str) -> str:
    """`folder/path` with `..` taken out, for the project file above an analysed folder."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(path).parts):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _outermost(report: Report) -> Iterator[Finding]:
    shown = {finding.symbol for finding in report.dead}
    return (finding for finding in report.dead if finding.inside not in shown)
