"""TPC-H's 22 queries as maintained views, each alone, against DuckDB's recomputation.

    python -m bench.tpch [--scale 0.01] [--transactions 200] [--queries q01,q18]

A query's tables are loaded from Arrow and its view is made; then transactions of `bench.tpch.data`
follow (refreshes of one order, edits of single rows), and its delta is read after each. *Tables* is
the load of the tables that the query reads, without views; *view* what the view costs then, its
rules planned and linked for it included; *first* is DuckDB's first evaluation of the same query by
one thread, *again* its evaluation after the edits; an *edit* is a transaction from COMMIT to its
delta, its *statements* are parsed and looked up before. DuckDB makes the same edits after all of
ours: between two of them its scans would take the caches away. All figures are processor seconds of
this process. After the last transaction the view is held against DuckDB; exit code 1 says that some
differ. Prints Markdown. Not here: transactions that take half a table away (the test has them).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyarrow import compute

import deltafix.sql
from bench.report import number, seconds, table
from bench.tpch.data import QUERIES, TABLES, Edit, Script, decided, generated, schema

__all__ = ["main"]

HEAD = [
    "query", "rows", "tables", "view", "DuckDB: first", "again", "view / first", "statements",
    "edit: median", "99 %", "again / median",
]  # fmt: skip
LATEST = 100_000
"""Orders from which the edits are chosen, the last of the table; their script keeps their rows."""


class Figures(NamedTuple):
    """What a query took, and whether its view is DuckDB's."""

    rows: int
    tables: float
    view: float
    first: float
    again: float
    statements: float
    edits: list[float]
    agrees: bool


def _stream(tables: dict[str, pa.Table], count: int) -> list[list[Edit]]:
    """Transactions of few rows: refreshes of one order, and edits of single rows between them."""
    latest = dict(tables)
    orders = latest["orders"] = tables["orders"].slice(max(0, tables["orders"].num_rows - LATEST))
    oldest = compute.min(orders.column("o_orderkey"))
    lines = tables["lineitem"]
    latest["lineitem"] = lines.filter(compute.greater_equal(lines.column("l_orderkey"), oldest))
    script = Script(latest, seed=1)
    ways = cycle((script.refreshed_in, script.single, script.refreshed_out, script.single))
    return [[script.done(edit) for edit in way(1)] for way in islice(ways, count)]


def measured(
    query: str, tables: dict[str, pa.Table], stream: list[list[Edit]], most: int
) -> Figures:
    """Load, make the view, edit and compare."""
    names = [name for name in TABLES if re.search(rf"\b{name}\b", query)]
    columns = {name: tables[name].column_names for name in names}
    clock = time.process_time
    with deltafix.sql.connect() as db, duckdb.connect(config={"threads": 1}) as duck:
        for engine in (db, duck):
            engine.execute(schema())
        start = clock()
        db.execute("BEGIN")
        for name in names:
            db.insert(name, tables[name])
        db.execute("COMMIT")
        loaded = clock()
        db.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
        shown = db.execute("SELECT * FROM answer")
        made = clock()
        for name in names:
            duck.register("frame", tables[name])
            duck.execute(f"INSERT INTO {name} SELECT * FROM frame")
        asked = decided(query, [one[0] for one in shown.description or ()])
        evaluations = [_evaluated(duck, asked)[0]]
        deltas = db.subscribe("answer")
        edit_seconds: list[float] = []
        statement_seconds: list[float] = []
        of_these = ([edit for edit in edits if edit.table in names] for edits in stream)
        transactions = [
            [statement for edit in edits for statement in edit.statements(columns[edit.table])]
            for edits in islice(filter(None, of_these), most)
        ]
        for statements in transactions:
            begun = clock()
            db.execute("BEGIN")
            for statement, values in statements:
                db.execute(statement, values)
            ready = clock()
            db.execute("COMMIT")
            list(deltas)
            statement_seconds.append(ready - begun)
            edit_seconds.append(clock() - ready)
        for statement, values in chain.from_iterable(transactions):
            duck.execute(statement, values)
        for _ in range(5):
            took, wanted = _evaluated(duck, asked)
            evaluations.append(took)
        found = db.execute("SELECT * FROM answer").fetchall()
    return Figures(
        len(found),
        loaded - start,
        made - loaded,
        evaluations[0],
        median(evaluations[1:]),
        median(statement_seconds),
        sorted(edit_seconds),
        _bag(found) == _bag(wanted),
    )


def _evaluated(duck: Any, query: str) -> tuple[float, list[Any]]:
    """How long DuckDB takes, and its rows."""
    begun = time.process_time()
    found = duck.execute(query).fetchall()
    return time.process_time() - begun, found


def _bag(rows: list[Any]) -> Counter[Any]:
    return Counter(
        tuple(f"{one:.9g}" if isinstance(one, float) else one for one in row) for row in rows
    )


def main() -> int:
    """Measure, print, and say by the exit code whether every view was right."""
    parser = argparse.ArgumentParser(prog="python -m bench.tpch", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--transactions", type=int, default=200)
    parser.add_argument("--queries", default=",".join(QUERIES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = generated(given.scale, Path(folder))
    stream = _stream(tables, 4 * given.transactions)
    lines, wrong, shares = [], [], []
    measured(QUERIES["q06"], {name: one.slice(0, 100) for name, one in tables.items()}, stream, 4)
    for name in given.queries.split(","):
        one = measured(QUERIES[name], tables, stream, given.transactions)
        middle, late = median(one.edits), one.edits[int(len(one.edits) * 0.99)]
        shares.append(one.again / middle)
        cells = [*map(seconds, (one.tables, one.view, one.first, one.again))]
        cells += [number(one.view / one.first, "x"), *map(seconds, (one.statements, middle, late))]
        lines.append([name, number(one.rows), *cells, number(shares[-1], "x")])
        wrong += [] if one.agrees else [name]
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    lines_of = tables["lineitem"].num_rows
    print(f"Scale factor {given.scale:g} ({lines_of:,} lineitems), processor seconds.\n")
    print(table(HEAD, lines))
    print(f"again / median: {number(median(shares), 'x')} in the middle.", end=" ")
    print(f"Load {os.getloadavg()[0]:.1f}.")
    if wrong:
        print(f"views that differ from DuckDB's: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
