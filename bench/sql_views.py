"""What a view of each kind costs a row when it is made, and an edit after, beside DuckDB.

    python -m bench.sql_views [--rows 200000] [--groups 200] [--kinds limit,median]
    python -m bench.sql_views --scaling [--rows 200000]

One table of so many rows, groups of ten, or so many groups; nothing is NULL. *View* is CREATE
MATERIALIZED VIEW over the loaded table, planned for and its rows counted, in processor seconds a
row; *DuckDB* is one evaluation of its query by one thread, *view / DuckDB* their ratio; *edit* is
an UPDATE of one row with its delta, the one in the middle of 200, and *worst* the longest, in which
Python's collector may have run. Below it is what a statement takes that changes a quarter of the
rows, with and without a view. Answers are compared before and after the edits, and exit code 1 says
that some differ. Prints Markdown. Not here: joins of several tables (`bench.tpch`), the load of the
table.

With `--scaling` it tells how an edit grows: views of more kinds over a tenth of the rows and over
all, both in four groups, so that what costs a group is ten times as much; the edit in the middle of
30 at each size, the rows of its delta, and a mark where it grows to more than 3 times, in brackets
where the rows of its delta do so, too. Answers are compared at the smaller size. What grows is in
docs/limits.md.
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
    "rank": f"SELECT x, RANK() {OVER} p) AS r FROM t",
    "ntile": f"SELECT x, NTILE(4) {OVER} p, x) AS r FROM t",
    "first_value": f"SELECT x, FIRST_VALUE(p) {OVER} v) AS r FROM t",
    "top three": f"SELECT x, g, v FROM t QUALIFY ROW_NUMBER() {OVER} v DESC, x) <= 3",
    "running sum": f"SELECT x, SUM(p) {OVER} x) AS r FROM t",
    "running mean": f"SELECT x, ROUND(AVG(v) {OVER} x), 6) AS r FROM t",
    "running max": f"SELECT x, MAX(p) {OVER} x) AS r FROM t",
    "series lag": "SELECT x, LAG(v) OVER (ORDER BY x) AS r FROM t",
    "moving mean": "SELECT x, AVG(p) OVER (ORDER BY x ROWS 6 PRECEDING) AS r FROM t",
    "moving hour": "SELECT x, SUM(p) OVER (ORDER BY ts RANGE INTERVAL 1 HOUR PRECEDING) AS r "
    "FROM t",
    "carried on": "SELECT x, LAST_VALUE(NULLIF(p % 2, 0) IGNORE NULLS) OVER (ORDER BY x) AS r "
    "FROM t",
    "share": "SELECT x, v / SUM(v) OVER (PARTITION BY g) > 0.5 AS r FROM t",
    "like": "SELECT COUNT(*) AS n FROM t WHERE s LIKE '%special%requests%'",
    "regexp": "SELECT COUNT(*) AS n FROM t WHERE REGEXP_MATCHES(s, '^(pinto|beans) .*9$')",
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
    "full join": "SELECT a.x, b.x AS y FROM t AS a FULL JOIN t AS b ON a.x = b.p",
    "exists": "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.p = t.x)",
    "not in": "SELECT x FROM t WHERE x NOT IN (SELECT p FROM t)",
    "union all": "SELECT x, p FROM t UNION ALL SELECT p, x FROM t",
    "except all": "SELECT p // 10 AS r FROM t EXCEPT ALL SELECT x FROM t",
    "intersect all": "SELECT p // 10 AS r FROM t INTERSECT ALL SELECT x FROM t",
    "unnest": "SELECT x, UNNEST(STRING_SPLIT(s, ' ')) AS w FROM t",
    "rollup": "SELECT g, d, SUM(p) AS r FROM t GROUP BY ROLLUP (g, d)",
}
_SCALARS = (
    "like", "regexp", "upper", "concat", "quotient", "ratio", "case", "hour", "month", "interval",
)  # fmt: skip
_TOP = "(PARTITION BY g ORDER BY v DESC, x)"
SCALED = {
    **{name: query for name, query in KINDS.items() if name not in _SCALARS},
    "projection": "SELECT x, p * 2 AS r FROM t",
    "filter": "SELECT x, v FROM t WHERE p < 500000",
    "distinct": "SELECT DISTINCT p // 1000 AS r FROM t",
    "union": "SELECT p // 10 AS r FROM t UNION SELECT x FROM t",
    "inner join": "SELECT a.x, b.v FROM t AS a JOIN t AS b ON b.x = a.p // 10",
    "all": "SELECT x FROM t WHERE v >= ALL (SELECT v FROM t AS u WHERE u.p // 10 = t.x)",
    "scalar subquery": "SELECT x, (SELECT SUM(u.v) FROM t AS u WHERE u.p // 10 = t.x) AS r FROM t",
    "of the whole": "SELECT x FROM t WHERE v > (SELECT MAX(v) FROM t) - 0.001",
    "lateral": "SELECT t.x, l.v FROM t, LATERAL (SELECT u.v FROM t AS u WHERE u.p // 10 = t.x "
    "ORDER BY u.v, u.x LIMIT 1) AS l",
    "count": "SELECT COUNT(*) AS n FROM t WHERE p > 100",
    "avg": "SELECT g, AVG(v) AS r FROM t GROUP BY g",
    "min, max": "SELECT g, MIN(v) AS a, MAX(p) AS b FROM t GROUP BY g",
    "mode": "SELECT g, MODE(p // 100000) AS r, COUNT(*) AS n FROM t GROUP BY g",
    "quantile": "SELECT g, QUANTILE_DISC(p, 0.9) AS r FROM t GROUP BY g",
    "having": "SELECT g, SUM(p) AS r FROM t GROUP BY g HAVING COUNT(*) > 10",
    "pivot": "SELECT * FROM (SELECT g, p % 3 AS k, p FROM t) AS q "
    "PIVOT (SUM(p) FOR k IN (0, 1, 2))",
    "dense_rank": f"SELECT x, DENSE_RANK() {OVER} p // 10000) AS r FROM t",
    "percent_rank": f"SELECT x, PERCENT_RANK() {OVER} p) AS r FROM t",
    "cume_dist": f"SELECT x, CUME_DIST() {OVER} p) AS r FROM t",
    "of both sides": f"SELECT x, SUM(p) {OVER} x ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING "
    "EXCLUDE CURRENT ROW) AS r FROM t",
    "distinct window": f"SELECT x, COUNT(DISTINCT p % 7) {OVER} x ROWS 9 PRECEDING) AS r FROM t",
    "joined texts": f"SELECT x, STRING_AGG(s, ',') {OVER} x ROWS 2 PRECEDING) AS r FROM t",
    "numbered": f"SELECT x, n FROM (SELECT x, RANK() OVER {_TOP} AS n FROM t) AS q WHERE n < 4",
    "recursion": "WITH RECURSIVE r (x) AS (SELECT x FROM t WHERE p < 5000 UNION SELECT t.x FROM r "
    "JOIN t ON t.x = r.x // 2 WHERE t.p > 50000) SELECT x FROM r",
    "paths": "WITH RECURSIVE r (x, y, d) AS (SELECT x, x, 0 FROM t WHERE p < 5000 UNION ALL SELECT "
    "r.x, t.x, r.d + 1 FROM r JOIN t ON t.x = r.y // 2 WHERE r.d < 3) SELECT x, y, d FROM r",
    "using key": "WITH RECURSIVE r (x, d) USING KEY (x, MIN(d)) AS (SELECT x, p FROM t WHERE "
    "p < 5000 UNION SELECT t.x, r.d + t.p FROM r JOIN t ON t.x = r.x // 2) SELECT x, d FROM r",
}
UPSERTS = {
    "ON CONFLICT": "INSERT INTO t SELECT * FROM n ON CONFLICT (x) DO UPDATE SET g = excluded.g, "
    "s = excluded.s, v = excluded.v, p = excluded.p",
    "MERGE": "MERGE INTO t USING n ON t.x = n.x WHEN MATCHED THEN UPDATE SET v = n.v, p = n.p "
    "WHEN NOT MATCHED THEN INSERT VALUES (n.x, n.g, n.s, n.v, n.p, n.ts, n.d)",
    "UPDATE FROM": "UPDATE t SET v = n.v, p = n.p FROM n WHERE t.x = n.x",
    "DELETE USING": "DELETE FROM t USING n WHERE t.x = n.x",
}
WORDS = ["special", "packages", "requests", "deposits", "accounts", "ideas", "pinto", "beans"]
EDITS, FEWER = 200, 30
GROUPS = 4
GROWS = 3
"""How many times as much an edit may cost where there are ten times the rows."""


class Figures(NamedTuple):
    """What a kind took, processor seconds, and whether its rows were DuckDB's.

    `changed` are the rows of the delta of the edit in the middle.
    """

    rows: int
    view: float
    duck: float
    edit: float
    worst: float
    changed: float
    agrees: bool


def generated(count: int, groups: int | None = None) -> pa.Table:
    """The table's rows, in groups of ten or in so many."""
    random = Random(1)
    begin = dt.datetime(2020, 1, 1)
    moments = [begin + dt.timedelta(seconds=random.randrange(10**8)) for _ in range(count)]
    return pa.table(
        {
            "x": range(count),
            "g": [random.randrange(groups or max(count // 10, 1)) for _ in range(count)],
            "s": [f"{' '.join(random.choices(WORDS, k=5))} {n % 1000}" for n in range(count)],
            "v": [random.random() for _ in range(count)],
            "p": [random.randrange(10**6) for _ in range(count)],
            "ts": pa.array(moments, pa.timestamp("us")),
            "d": pa.array([one.date() for one in moments], pa.date32()),
        }
    )


def measured(query: str, rows: pa.Table, count: int = EDITS, *, judged: bool = True) -> Figures:
    """Make the view, edit and compare, if it is to be `judged`."""
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
        wanted = duck.execute(query).fetchall() if judged else []
        evaluated = clock()
        agrees = not judged or _bag(db.execute(_ANSWER).fetchall()) == _bag(wanted)
        told, edits, sizes = db.subscribe("answer"), [], []
        for _ in range(count):
            given = [random.random(), random.randrange(10**6), random.randrange(rows.num_rows)]
            begun = clock()
            db.execute("UPDATE t SET v = ?, p = ? WHERE x = ?", given)
            deltas = list(told)
            edits.append(clock() - begun)
            sizes.append(sum(len(one.added) + len(one.removed) for one in deltas))
            duck.execute("UPDATE t SET v = ?, p = ? WHERE x = ?", given)
        if judged:
            last = db.execute(_ANSWER).fetchall()
            agrees = agrees and _bag(last) == _bag(duck.execute(query).fetchall())
    took = made - start, evaluated - asked, median(edits), max(edits), median(sizes)
    return Figures(int(str(found)), *took, agrees)


_ANSWER = "SELECT * FROM answer"


def _bag(rows: list[Any]) -> Counter[Any]:
    shown = (
        tuple(f"{one:.9g}" if isinstance(one, float) else str(one) for one in row) for row in rows
    )
    return Counter(shown)


def upserted(statement: str, view: str | None, rows: pa.Table) -> tuple[float, float, bool]:
    """A statement that changes a quarter of the rows, a fifth of these new: ours, DuckDB's."""
    random, many = Random(3), rows.num_rows
    keys = pa.array(random.sample(range(many + many // 16), many // 4))
    change = generated(many // 4, many // 10).set_column(0, "x", keys)
    with deltafix.sql.connect() as db, duckdb.connect(config={"threads": 1}) as duck:
        for engine in (db, duck):
            engine.execute(SCHEMA)
            engine.execute(SCHEMA.replace("TABLE t", "TABLE n"))
        for name, table_of in (("t", rows), ("n", change)):
            db.insert(name, table_of)
            duck.register("given", table_of)
            duck.execute(f"INSERT INTO {name} SELECT * FROM given")
        if view is not None:
            db.execute(f"CREATE MATERIALIZED VIEW answer AS {view}")
        gc.collect()
        took = []
        for engine in (db, duck):
            start = time.process_time()
            engine.execute(statement)
            took.append(time.process_time() - start)
        asked = ("SELECT * FROM t", "SELECT * FROM t") if view is None else (_ANSWER, view)
        found, wanted = (
            _bag(engine.execute(one).fetchall())
            for engine, one in zip((db, duck), asked, strict=True)
        )
    return took[0], took[1], found == wanted


def scaling(count: int, kinds: list[str]) -> tuple[str, list[str]]:
    """How edits grow from a tenth of the rows to all, as a table; the kinds that were wrong."""
    small, large = (generated(one, GROUPS) for one in (count // 10, count))
    measured(KINDS["sum"], small.slice(0, 100))
    lines, wrong = [], []
    for name in kinds:
        measured(SCALED[name], small.slice(0, 100))
        one = measured(SCALED[name], small, FEWER)
        other = measured(SCALED[name], large, FEWER, judged=False)
        grows = other.edit / one.edit
        with_delta = other.changed > GROWS * max(one.changed, 1)
        mark = "" if grows <= GROWS else "(grows)" if with_delta else "grows"
        changed = [number(one.changed), number(other.changed)]
        times = [seconds(one.edit), seconds(other.edit), number(grows, "x")]
        lines.append([name, *times, *changed, mark])
        wrong += [] if one.agrees else [name]
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    head = [
        "kind",
        f"{count // 10:,} rows",
        f"{count:,} rows",
        "ratio",
        "delta",
        "delta of all",
        "",
    ]
    return table(head, lines), wrong


def _upserts(rows: pa.Table) -> tuple[str, list[str]]:
    """What statements take that change a quarter of the rows; those with wrong answers."""
    views = {"": None, "sum": KINDS["sum"], "row_number": KINDS["row_number"]}
    lines, wrong = [], []
    for name, statement in UPSERTS.items():
        cells = [name]
        for of, view in views.items():
            ours, theirs, agrees = upserted(statement, view, rows)
            cells += [seconds(theirs)] * (not of) + [seconds(ours)]
            wrong += [] if agrees else [f"{name} {of}"]
        lines.append(cells)
        print(" | ".join(cells), file=sys.stderr, flush=True)
    return table(["statement", "DuckDB", "no view", "with sum", "with row_number"], lines), wrong


def main() -> int:
    """Measure, print, and say by the exit code whether every view was right."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql_views", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--groups", type=int, help="how many; else they are of ten rows")
    parser.add_argument("--kinds")
    parser.add_argument("--scaling", action="store_true", help="how edits grow with the rows")
    given = parser.parse_args()
    kinds = given.kinds.split(",") if given.kinds else [*(SCALED if given.scaling else KINDS)]
    if given.scaling:
        found, wrong = scaling(given.rows, kinds)
        print(f"Edits, processor seconds, {GROUPS} groups; load {os.getloadavg()[0]:.1f}.\n")
        print(found)
        return _said(wrong)
    rows = generated(given.rows, given.groups)
    measured(KINDS["sum"], rows.slice(0, 100))
    lines, wrong = [], []
    for name in kinds:
        measured(KINDS[name], rows.slice(0, 100))  # its modules, and DuckDB's, are loaded
        one = measured(KINDS[name], rows)
        each = [one.view / given.rows, one.duck / given.rows]
        cells = [*map(seconds, each), number(one.view / one.duck, "x")]
        lines.append([name, number(one.rows), *cells, seconds(one.edit), seconds(one.worst)])
        wrong += [] if one.agrees else [name]
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    print(f"{given.rows:,} rows, processor seconds a row; load {os.getloadavg()[0]:.1f}.\n")
    print(table(["kind", "rows", "view", "DuckDB", "view / DuckDB", "edit", "worst"], lines))
    if not given.kinds:
        text, differ = _upserts(rows)
        print(f"{given.rows // 4:,} rows changed by one statement, processor seconds.\n\n{text}")
        wrong += differ
    return _said(wrong)


def _said(wrong: list[str]) -> int:
    """The exit code, for the kinds whose answers were wrong."""
    if wrong:
        print(f"views that differ from DuckDB's: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
