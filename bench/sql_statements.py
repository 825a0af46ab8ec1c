"""What one statement of SQL costs, each of one row, beside SQLite.

    python -m bench.sql_statements [--rows 100000] [--statements 2000]

Four tables of so many rows: one without a key, one with, and two of which one refers to the other.
A *statement* runs in an open transaction, before COMMIT; *with COMMIT* it is a transaction of its
own. Parameters are given by `?`; *literals* stand in the text, another one each time. Figures are
processor seconds of this process: of batches of 50 the one in the middle, and the fastest. Both
engines run every statement and keep their tables in memory; the rows at the end are compared, and
exit code 1 says that some differ. Prints Markdown. Not here: what views make of an edit
(`bench.tpch`).
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import deltafix.sql
from bench.report import seconds, table

__all__ = ["main"]

TABLES = {
    "plain": "CREATE TABLE plain (a INTEGER, b INTEGER)",
    "keyed": "CREATE TABLE keyed (id INTEGER PRIMARY KEY, a INTEGER, s TEXT NOT NULL)",
    "parent": "CREATE TABLE parent (id INTEGER PRIMARY KEY, s TEXT)",
    "child": (
        "CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent (id), v INTEGER)"
    ),
}
BATCH = 50


class Kind(NamedTuple):
    """A statement: its text, and its parameters or (`{}` in the text) literals for a number."""

    name: str
    sql: str
    values: Callable[[int], tuple[Any, ...]]

    def run(self, db: Any, number: int) -> None:
        """Run it."""
        if "{}" in self.sql:
            db.execute(self.sql.format(*self.values(number)))
        else:
            db.execute(self.sql, self.values(number))


def kinds(first: int) -> list[Kind]:
    """The statements; rows are inserted from a number on, then changed, then deleted."""
    upsert = "INSERT INTO keyed VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET a = excluded.a"
    return [
        Kind("INSERT, no key", "INSERT INTO plain VALUES (?, ?)", lambda k: (k, k)),
        Kind("INSERT", "INSERT INTO keyed VALUES (?, ?, ?)", lambda k: (first + k, k, "x")),
        Kind(
            "INSERT, literals",
            "INSERT INTO keyed VALUES ({}, {}, 'x{}')",
            lambda k: (2 * first + k, k, k),
        ),
        Kind(
            "INSERT, referring", "INSERT INTO child VALUES (?, ?, ?)", lambda k: (first + k, k, k)
        ),
        Kind("upsert", upsert, lambda k: (first + k, -k, "y")),
        Kind("UPDATE", "UPDATE keyed SET a = a + 1 WHERE id = ?", lambda k: (first + k,)),
        Kind(
            "UPDATE, literals",
            "UPDATE keyed SET a = a + 1 WHERE id = {}",
            lambda k: (2 * first + k,),
        ),
        Kind(
            "UPDATE, referring", "UPDATE child SET p = ? WHERE id = ?", lambda k: (k + 1, first + k)
        ),
        Kind("DELETE", "DELETE FROM keyed WHERE id = ?", lambda k: (first + k,)),
        Kind("DELETE, referring", "DELETE FROM child WHERE id = ?", lambda k: (first + k,)),
    ]


def _filled(db: Any, rows: int) -> Any:
    for one in TABLES.values():
        db.execute(one)
    db.execute("BEGIN")
    db.executemany("INSERT INTO plain VALUES (?, ?)", ((k, k % 7) for k in range(rows)))
    db.executemany("INSERT INTO keyed VALUES (?, ?, ?)", ((k, None, "z") for k in range(rows)))
    db.executemany("INSERT INTO parent VALUES (?, ?)", ((k, "z") for k in range(rows)))
    db.executemany("INSERT INTO child VALUES (?, ?, ?)", ((k, k, 1) for k in range(rows)))
    db.execute("COMMIT")
    return db


def _batches(run: Callable[[int], None], first: int, count: int) -> list[float]:
    """Seconds for each of some statements, a batch each."""
    found = []
    for start in range(first, first + count, BATCH):
        begun = time.process_time()
        for number in range(start, start + BATCH):
            run(number)
        found.append((time.process_time() - begun) / BATCH)
    return found


def measured(db: Any, rows: int, count: int) -> list[tuple[list[float], list[float]]]:
    """For each kind what a statement takes, and what a transaction of it takes."""
    found = []
    for kind in kinds(rows):
        db.execute("BEGIN")
        run = partial(kind.run, db)
        inside = _batches(run, 0, count)
        db.execute("COMMIT")
        alone = _batches(run, count, count)
        found.append((inside, alone))
    return found


def _rows(db: Any) -> list[Any]:
    return [sorted(map(str, db.execute(f"SELECT * FROM {one}").fetchall())) for one in TABLES]


def main(arguments: list[str] | None = None) -> int:
    """Run all; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql_statements", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--statements", type=int, default=2000)
    given = parser.parse_args(arguments)
    rows = max(given.rows, 2 * given.statements)
    lite = sqlite3.connect(":memory:", isolation_level=None)
    lite.execute("PRAGMA foreign_keys = ON")
    with deltafix.sql.connect() as ours:
        figures = [measured(_filled(one, rows), rows, given.statements) for one in (ours, lite)]
        agree = _rows(ours) == _rows(lite)
    lines = []
    for kind, mine, theirs in zip(kinds(rows), *figures, strict=True):
        cells = [seconds(of(one)) for one in mine for of in (median, min)]
        lines.append([kind.name, *cells, *(seconds(median(one)) for one in theirs)])
    head = [
        "one row", "statement", "fastest", "with COMMIT", "fastest", "SQLite: statement",
        "with COMMIT",
    ]  # fmt: skip
    print(f"Tables of {rows:,} rows, {given.statements:,} statements, processor seconds.\n")
    print(table(head, lines))
    print(f"Load {os.getloadavg()[0]:.1f}.")
    if not agree:
        print("the tables differ from SQLite's", file=sys.stderr)
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
