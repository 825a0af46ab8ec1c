"""What a view of each kind costs a row when it is made, and an edit after, beside DuckDB.

    python -m bench.sql_views [--rows 100000] [--kinds limit,median]

One table of so many rows, groups of ten; nothing is NULL. *View* is CREATE MATERIALIZED VIEW over
the loaded table, planned for and its rows counted, in processor seconds a row; *DuckDB* is one
evaluation of its query by one thread, *view / DuckDB* their ratio; *edit* is an UPDATE of one row
with its delta, the one in the middle of 60. Answers are compared before and after the edits, and
exit code 1 says that some differ. Prints Markdown. Not here: joins of several tables
(`bench.tpch`), the load of the table.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import os
import sys
import time
from collections import Counter
from random import Random
from statistics import median
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

import deltafix.sql
from bench.report import number, seconds, table

__all__ = ["main"]

SCHEMA = (
    "CREATE TABLE t (x BIGINT PRIMARY KEY, g BIGINT NOT NULL, s TEXT NOT NULL, v DOUBLE NOT NULL, "
    "p BIGINT NOT NULL, ts TIMESTAMP NOT NULL, d DATE NOT NULL)"
)
OVER = "OVER (PARTITION BY g ORDER BY"
KINDS = {
    "sum": "SELECT g, SUM(p) AS r, COUNT(*) AS n FROM t GROUP BY g",
    "count distinct": "SELECT g, COUNT(DISTINCT s) AS r FROM t GROUP BY g",
    "stddev": "SELECT g, ROUND(STDDEV(v), 6) AS r FROM t GROUP BY g",
    "median": "SELECT g, MEDIAN(v) AS r FROM t GROUP BY g",
    "arg_max": "SELECT g, ARG_MAX(s, v) AS r FROM t GROUP BY g",
    "string_agg": "SELECT g, STRING_AGG(s, ',' ORDER BY x) AS r FROM t GROUP BY g",
    "array_agg": "SELECT g, ARRAY_AGG(x ORDER BY x) AS r FROM t GROUP BY g",
    "limit": "SELECT x, g, s, v FROM t ORDER BY v DESC, x LIMIT 10",
    "distinct on": "SELECT DISTINCT ON (g) x, g, s, v FROM t ORDER BY g, v DESC, x",
    "row_number": f"SELECT x, ROW_NUMBER() {OVER} v DESC, x) AS r FROM t",
    "latest": f"SELECT x, g, s FROM t QUALIFY ROW_NUMBER() {OVER} v DESC, x) = 1",
    "lag": f"SELECT x, LAG(v) {OVER} x) AS r FROM t",
    "running sum": f"SELECT x, SUM(p) {OVER} x) AS r FROM t",
    "series lag": "SELECT x, LAG(v) OVER (ORDER BY x) AS r FROM t",
    "moving mean": "SELECT x, AVG(p) OVER (ORDER BY x ROWS 6 PRECEDING) AS r FROM t",
    "moving hour": "SELECT x, SUM(p) OVER (ORDER BY ts RANGE INTERVAL 1 HOUR PRECEDING) AS r "
    "FROM t",
    "carried on": "SELECT x, LAST_VALUE(NULLIF(p % 2, 0) IGNORE NULLS) OVER (ORDER BY x) AS r "
    "FROM t",
    "share": "SELECT x, v / SUM(v) OVER (PARTITION BY g) > 0.5 AS r FROM t",
    "like": "SELECT COUNT(*) AS n FROM t WHERE s LIKE '%special%requests%'",
    "upper": "SELECT UPPER(s) AS r, COUNT(*) AS n FROM t GROUP BY 1",
    "concat": "SELECT s || '-' || CAST(x AS VARCHAR) AS r FROM t",
    "quotient": "SELECT p // 100 AS r, COUNT(*) AS n, MAX(x % 7) AS m FROM t GROUP BY 1",
    "ratio": "SELECT x, v / p AS r FROM t WHERE p > 0",
    "case": "SELECT CASE WHEN p < 1000 THEN 'a' ELSE 'b' END AS r, COUNT(*) AS n FROM t GROUP BY 1",
    "hour": "SELECT DATE_TRUNC('hour', ts) AS r, COUNT(*) AS n FROM t GROUP BY 1",
    "month": "SELECT EXTRACT(YEAR FROM d) AS y, EXTRACT(MONTH FROM d) AS m, SUM(p) AS r FROM t "
    "GROUP BY 1, 2",
    "interval": "SELECT x, ts + INTERVAL 1 DAY AS r FROM t",
    "asof join": "SELECT a.x, b.x AS y FROM t AS a ASOF JOIN t AS b ON a.g = b.g AND a.ts > b.ts",
    "left join": "SELECT a.x, b.x AS y FROM t AS a LEFT JOIN t AS b ON a.x = b.p",
    "not in": "SELECT x FROM t WHERE x NOT IN (SELECT p FROM t)",
    "rollup": "SELECT g, d, SUM(p) AS r FROM t GROUP BY ROLLUP (g, d)",
}
WORDS = ["special", "packages", "requests", "deposits", "accounts", "ideas", "pinto", "beans"]
EDITS = 60


class Figures(NamedTuple):
    """What a kind took, processor seconds, and whether its rows were DuckDB's."""

    rows: int
    view: float
    duck: float
    edit: float
    agrees: bool


def generated(count: int) -> pa.Table:
    """The table's rows."""
    random = Random(1)
    begin = dt.datetime(2020, 1, 1)
    moments = [begin + dt.timedelta(seconds=random.randrange(10**8)) for _ in range(count)]
    return pa.table(
        {
            "x": range(count),
            "g": [random.randrange(max(count // 10, 1)) for _ in range(count)],
            "s": [f"{' '.join(random.choices(WORDS, k=5))} {n % 1000}" for n in range(count)],
            "v": [random.random() for _ in range(count)],
            "p": [random.randrange(10**6) for _ in range(count)],
            "ts": pa.array(moments, pa.timestamp("us")),
            "d": pa.array([one.date() for one in moments], pa.date32()),
        }
    )


def measured(query: str, rows: pa.Table) -> Figures:
    """Make the view, edit and compare."""
    clock, random = time.process_time, Random(2)
    with deltafix.sql.connect() as db, duckdb.connect(config={"threads": 1}) as duck:
        for engine in (db, duck):
            engine.execute(SCHEMA)
        db.insert("t", rows)
        duck.register("given", rows)
        duck.execute("INSERT INTO t SELECT * FROM given")
        start = clock()
        db.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
        ((found,),) = db.execute("SELECT COUNT(*) FROM answer").fetchall()
        made = clock()
        gc.collect()  # what a view leaves behind is no time of DuckDB's
        asked = clock()
        wanted = duck.execute(query).fetchall()
        evaluated = clock()
        agrees = _bag(db.execute("SELECT * FROM answer").fetchall()) == _bag(wanted)
        told, edits = db.subscribe("answer"), []
        for _ in range(EDITS):
            given = [random.random(), random.randrange(10**6), random.randrange(rows.num_rows)]
            begun = clock()
            db.execute("UPDATE t SET v = ?, p = ? WHERE x = ?", given)
            list(told)
            edits.append(clock() - begun)
            duck.execute("UPDATE t SET v = ?, p = ? WHERE x = ?", given)
        last = db.execute("SELECT * FROM answer").fetchall()
        agrees = agrees and _bag(last) == _bag(duck.execute(query).fetchall())
    return Figures(int(str(found)), made - start, evaluated - asked, median(edits), agrees)


def _bag(rows: list[Any]) -> Counter[Any]:
    shown = (
        tuple(f"{one:.9g}" if isinstance(one, float) else str(one) for one in row) for row in rows
    )
    return Counter(shown)


def main() -> int:
    """Measure, print, and say by the exit code whether every view was right."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql_views", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    rows = generated(given.rows)
    measured(KINDS["sum"], rows.slice(0, 100))
    lines, wrong = [], []
    for name in given.kinds.split(","):
        measured(KINDS[name], rows.slice(0, 100))  # its modules, and DuckDB's, are loaded
        one = measured(KINDS[name], rows)
        each = [one.view / given.rows, one.duck / given.rows]
        cells = [*map(seconds, each), number(one.view / one.duck, "x"), seconds(one.edit)]
        lines.append([name, number(one.rows), *cells])
        wrong += [] if one.agrees else [name]
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    print(f"{given.rows:,} rows, processor seconds a row; load {os.getloadavg()[0]:.1f}.\n")
    print(table(["kind", "rows", "view", "DuckDB", "view / DuckDB", "edit"], lines))
    if wrong:
        print(f"views that differ from DuckDB's: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
