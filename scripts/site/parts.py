"""The generated parts of pages, by name: figures of the bench, commands, error codes.

Invariant: a part is a function of the repository (bench/RESULTS.md, the command line, the error
classes); an unknown name, or a section that is gone, is an error of the build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plot import plot

from results import RESULTS, amount, section, tables

__all__ = ["PARTS"]

_VERSIONS = Path(__file__).parents[2] / "tests" / "connectors" / "versions.json"

_GROWTH = {"growth-10k": 1e4, "growth-100k": 1e5, "growth-1m": 1e6, "growth-10m": 1e7}
_LEVEL_1 = "Level 1: one edit of a reachable set"


def cost_by_graph_size() -> str:
    """Median and p99 of one edit on four sizes of one kind of graph."""
    text = RESULTS.read_text(encoding="utf-8")
    lines: dict[str, list[tuple[float, float]]] = {"p50": [], "p99": []}
    for title, edges in _GROWTH.items():
        table = tables(section(text, title))[0]
        for name, line in lines.items():
            seconds = amount(table.column(name)[0])
            if seconds is not None:
                line.append((edges, seconds))
    return plot({f"{name} of an edit": line for name, line in lines.items()}, "edges in the graph")


def cost_by_size_level_1() -> str:
    """Median of one edit by contender, against the number of pairs."""
    table = tables(section(RESULTS.read_text(encoding="utf-8"), _LEVEL_1))[0]
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = zip(
        table.column("contender"), table.column("pairs"), table.column("p50 an edit"), strict=True
    )
    for name, pairs, p50 in rows:
        seconds = amount(p50)
        if seconds is not None:
            lines.setdefault(name, []).append((float(pairs.replace(",", "")), seconds))
    return plot(lines, "pairs in the graph")


def cost_by_change_size() -> str:
    """Seconds of one epoch against the share of edges it changes."""
    table = tables(section(RESULTS.read_text(encoding="utf-8"), "batch"))[1]
    shares = [float(column.rstrip(" %")) for column in table.columns[1:]]
    lines = {}
    for name, *times in table.rows:
        points = [(share, amount(text)) for share, text in zip(shares, times, strict=True)]
        lines[name] = [(share, seconds) for share, seconds in points if seconds is not None]
    return plot(lines, "share of the edges that one epoch changes", " %")


def benchmark_tables() -> str:
    """The report itself, below the title of its page."""
    text = RESULTS.read_text(encoding="utf-8")
    return text[text.index("\n## ") :].strip()


def judged() -> str:
    """The report's section on types and calls of Python, below its title."""
    return section(RESULTS.read_text(encoding="utf-8"), "judged").strip()


def commands() -> str:
    """Every command's help, as plain text."""
    from deltafix.cli.main import application  # noqa: PLC0415

    whole = application()
    found: list[str] = []

    def write(command: Any, path: str) -> None:
        if hasattr(command, "commands"):
            for name in sorted(command.commands):
                write(command.commands[name], f"{path} {name}")
            return
        context = command.context_class(command, info_name=path)
        usage = command.get_usage(context)
        summary = (command.help or "").replace("\b\n", "").strip()
        options = [
            record
            for parameter in command.get_params(context)
            if (record := parameter.get_help_record(context)) is not None
        ]
        rows = [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in options]
        table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
        found.append(f"## `{path}`\n\n{summary}\n\n```text\n{usage}\n```\n\n{table}")

    write(whole, "deltafix")
    return "\n\n".join(found)


def error_codes() -> str:
    """Code, class and meaning of every error."""
    from deltafix import errors  # noqa: PLC0415

    classes = [getattr(errors, name) for name in errors.__all__]
    rows = [
        f"| {found.code} | `{found.__name__}` | {_cell((found.__doc__ or '').split(chr(10))[0])} |"
        for found in sorted(classes, key=lambda one: (one.code, one.__name__))
        if isinstance(found, type) and issubclass(found, errors.DeltafixError)
    ]
    return "\n".join(["| code | class | meaning |", "| --- | --- | --- |", *rows])


def _cell(text: str) -> str:
    plain = re.sub(r"\[/?(?:bold|dim|red|green|italic)[^\]]*\]", "", text)
    return re.sub(r"\s+", " ", plain).replace("|", "\\|").strip()


def spark_versions() -> str:
    """What works on which Spark, as `make versions` saw it."""
    table = json.loads(_VERSIONS.read_text(encoding="utf-8"))
    words = {"passed": "works", "skipped": "–", "failed": "**fails**"}
    what = sorted({one for found in table.values() for one in found["shown"]})
    lines = [
        ["", *table],
        ["---"] * (len(table) + 1),
        ["run on", *(one["date"] for one in table.values())],
    ]
    lines += [
        [one, *(words.get(found["shown"].get(one), "not run") for found in table.values())]
        for one in what
    ]
    lines += [
        [f"jar of {one}", *(f"`{found['jars'].get(one, '-')}`" for found in table.values())]
        for one in ("delta", "iceberg", "kafka")
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "cost-by-graph-size": cost_by_graph_size,
    "cost-by-size-level-1": cost_by_size_level_1,
    "cost-by-change-size": cost_by_change_size,
    "benchmark-tables": benchmark_tables,
    "judged": judged,
    "commands": commands,
    "error-codes": error_codes,
    "spark-versions": spark_versions,
}
"""Name of the mark -> what replaces it."""
