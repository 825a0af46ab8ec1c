"""Rows in the formats of other tools, for every command that shows rows of an analysis.

    csv, parquet    one table          html     a page of tables
    markdown        a table in a comment of a code host
    dot, mermaid    a graph, of rows that are edges
    sarif           results, of rows that stand somewhere in a file

Invariant: output is a function of the tables. Names in rows are untrusted: no name ends a cell, a
label or a tag, and none is a link, a mention or an image. What a CSV cell begins with is left as it
is, so that reading gives what was written: for a spreadsheet that runs `=f()` of strangers' names,
take another format.
A table that cannot have a format is refused with those it can have. This module prints nothing and
opens no file; text and JSON are the commands' own.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from io import BytesIO, StringIO
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import quote

import pyarrow.parquet as pq

from deltafix.errors import DeltafixError
from deltafix.facts.arrow import table_from_rows
from deltafix.facts.relation_delta import html_table
from deltafix.facts.schema import Row, Schema, show_row
from deltafix.facts.values import write_value

Places: TypeAlias = Sequence[tuple[str, int]]
"""(path relative to the tree, line from 1) each."""

_Node: TypeAlias = tuple[str, ...]  # "a.b", "c" is not "a", "b.c"

_CELL = 160  # letters of a cell in Markdown

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class FormatError(DeltafixError, ValueError):
    """Rows cannot be written in this format; the message says in which they can."""

    code = "DF675"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one relation, to be written.

    Attributes:
        schema: its name and columns.
        rows: tuples as the schema has them.
        edge: if its rows are edges: the columns of where one starts, and of where it ends. What
            other columns hold is written at the edge.
        nodes: what a graph has besides the ends of edges.
        places: where each row stands, the main place first; None if rows stand nowhere.
    """

    schema: Schema
    rows: Sequence[Row]
    edge: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    places: Sequence[Places] | None = None
    nodes: Sequence[str] = ()

    def formats(self) -> list[str]:
        """The formats it can have, text and JSON among them."""
        graph = ["dot", "mermaid"] if self.edge is not None else []
        return [
            "text",
            "json",
            "csv",
            "parquet",
            "html",
            *graph,
            *(["sarif"] if self._stands else []),
        ]

    @property
    def _stands(self) -> bool:
        return self.places is not None and (not self.rows or any(self.places))

    def edges(self) -> Iterator[tuple[_Node, _Node, str]]:
        """(start, end, label) of each row of a table that has `edge`."""
        start, end = self.edge or ((), ())
        names = self.schema.names
        ends = [[names.index(column) for column in side] for side in (start, end)]
        rest = [at for at, name in enumerate(names) if name not in {*start, *end}]
        for row in self.rows:
            first, second = (tuple(write_value(row[at]) for at in side) for side in ends)
            yield first, second, ", ".join(write_value(row[at]) for at in rest)


def write_tables(
    tables: Sequence[Table], form: str, *, title: str, folder: str = ""
) -> str | bytes:
    """Tables in a format, as a file has them; parquet is bytes. O(cells).

    Args:
        tables: one, or for html any number.
        form: csv, parquet, html, dot, mermaid or sarif; all but html of exactly one table.
        title: what made them, for formats that name it.
        folder: leads from the current folder to the tree, for formats that name files.

    Raises FormatError if a table cannot have the format, or the format not so many tables.
    """
    if form == "html":
        return f"{_page(tables, title)}\n"
    if len(tables) != 1:
        names = ", ".join(table.schema.relation for table in tables)
        raise FormatError(f"{form} has one view, and these are {len(tables)}: {names}; name one")
    (table,) = tables
    if form not in table.formats():
        lacks = (
            "rows with a place in a file" if form == "sarif" else "edges from one column to another"
        )
        raise FormatError(
            f"{form} is for {lacks}, and {table.schema.show()} has none; "
            f"it can be had as {', '.join(table.formats())}",
            value=form,
            valid=table.formats(),
        )
    if form == "parquet":
        sink = BytesIO()
        pq.write_table(table_from_rows(table.schema, table.rows), sink)
        return sink.getvalue()
    text = {"csv": _csv, "dot": _dot, "mermaid": _mermaid}
    body = _results(table, title, folder) if form == "sarif" else text[form](table)
    return f"{body}\n"


def _csv(table: Table) -> str:
    text = StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(table.schema.names)
    for row in table.rows:
        cells = list(map(write_value, row))
        # Readers end a line at a bare carriage return, which the writer does not quote.
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue().removesuffix("\n")


def _page(tables: Sequence[Table], title: str) -> str:
    style = (
        "table{border-collapse:collapse;margin:1em}caption,th,td{text-align:left;padding:.2em .6em}"
    )
    parts = [
        html_table(
            f"{table.schema.relation}: {len(table.rows):,}",
            table.schema.names,
            (map(write_value, row) for row in table.rows),
            0,
        )
        for table in tables
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>\n{chr(10).join(parts)}\n</body></html>"
    )


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as GitHub's Markdown has it, whose cells are shown as they are: as code.

    A cell is cut where it is long, since a comment has its limit.
    """
    lines = [head, ["---"] * len(head), *([markdown_code(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_code(text: str) -> str:
    """A text as code that ends nowhere but at its end; nothing if there is none."""
    flat = " ".join(text.split())
    if not flat:
        return ""
    cell = (flat if len(flat) <= _CELL else f"{flat[: _CELL - 1]}…").replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", cell)), default=0) + 1)
    space = " " if "`" in cell else ""
    return f"{fence}{space}{cell}{space}{fence}"


# -- graphs ------------------------------------------------------------------------------------


def _graph(table: Table) -> tuple[dict[_Node, int], dict[tuple[_Node, _Node, str], None]]:
    """The nodes with a number each, and the edges, each once; in the order of the rows."""
    edges = dict.fromkeys(table.edges())
    ends = (node for start, end, _ in edges for node in (start, end))
    nodes = dict.fromkeys([*((node,) for node in table.nodes), *ends])
    return {node: number for number, node in enumerate(nodes)}, edges


def _dot(table: Table) -> str:
    nodes, edges = _graph(table)
    lines = ["digraph {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f"  n{at} [label={_dot_text('.'.join(node))}];" for node, at in nodes.items()]
    for start, end, label in edges:
        attribute = f" [label={_dot_text(label)}]" if label else ""
        lines.append(f"  n{nodes[start]} -> n{nodes[end]}{attribute};")
    return "\n".join([*lines, "}"])


def _dot_text(text: str) -> str:
    """A label; Graphviz reads entities in it, and JSON's escapes as its own."""
    return json.dumps(text.replace("&", "&amp;"), ensure_ascii=False)


_MERMAID = re.compile(
    r"[^\w ./:]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # it would be emphasis: __init__
    r"|\.(?= )"  # a numbered list
    r"|s(?=tyle)|c(?=lassDef)"  # Mermaid cuts such lines before it parses them
)
"""What is written by its number, so that a label is that text and nothing else."""


def _mermaid(table: Table) -> str:
    nodes, edges = _graph(table)
    lines = ["flowchart LR"]
    lines += [f'  n{at}["{_mermaid_text(".".join(node))}"]' for node, at in nodes.items()]
    for start, end, label in edges:
        attribute = f'|"{_mermaid_text(label)}"|' if label else ""
        lines.append(f"  n{nodes[start]} -->{attribute} n{nodes[end]}")
    return "\n".join(lines)


def _mermaid_text(text: str) -> str:
    return _MERMAID.sub(lambda match: f"#{ord(match[0])};", text) or " "


# -- SARIF -------------------------------------------------------------------------------------


def _results(table: Table, title: str, folder: str) -> str:
    name = table.schema.relation
    results = []
    for row, places in zip(table.rows, table.places or (), strict=True):
        text = show_row(name, row)
        locations = [location(folder, *place) for place in places]
        related = {"relatedLocations": locations[1:]} if locations[1:] else {}
        results.append(
            {
                "ruleId": name,
                "ruleIndex": 0,
                "level": "note",
                "message": {"text": text},
                "locations": locations[:1],
                "partialFingerprints": {"row/v1": text},
                **related,
            }
        )
    rule = {"id": name, "shortDescription": {"text": table.schema.show()}}
    return sarif_log(title, [rule], results)


def sarif_log(
    tool: str,
    rules: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    invocation: Mapping[str, Any] | None = None,
) -> str:
    """A SARIF 2.1.0 log of one run that succeeded; `invocation` says more of the run."""
    run = {
        "tool": {"driver": {"name": tool, "version": version("deltafix"), "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, **(invocation or {})}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False)


def location(folder: str, path: str, line: int, column: int | None = None) -> dict[str, Any]:
    """A SARIF location. `folder` leads to the tree, in which `path` is."""
    uri = quote(place_in(folder, path))
    region = {"startLine": line, **({} if column is None else {"startColumn": column})}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def place_in(folder: str, path: str) -> str:
    """`folder/path` with `..` taken out, for the project file above an analysed folder."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(path).parts):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
