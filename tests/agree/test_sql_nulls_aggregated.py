"""Aggregates of columns with NULLs, over groups of hundreds of rows, against DuckDB.

The random SQL has tables of a few rows. Here a group is large enough to be looked through and to
keep next values, its best values go in runs, groups have NULLs alone now and then, and rows come by
statement and by column. Floats are infinite, NaN and -0.0 now and then, decimals at the bound of
their type. Sees: a NULL that counts, a group that is gone with its last value though it has rows, a
value of none that is not NULL, a sum that an infinity or a NaN stays in when it has gone.
"""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest
from tests.support.amount import cases

import deltafix.sql
from deltafix.kernel import layout as at

SEEDS = cases(4, per=20)

TABLE = """
CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT, d DECIMAL(12, 2), s TEXT, f DOUBLE,
                b BOOLEAN, w DATE, h DOUBLE)
"""
COLUMNS = ("v", "d", "s", "f", "b", "w", "h")
SUMS = ("SUM", "AVG")
OF = {"v": SUMS, "d": SUMS, "s": (), "f": (), "b": (), "w": (), "h": SUMS}
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 5e-324)
BOUNDS = (Decimal("9999999999.99"), Decimal("-9999999999.99"))
OTHERS = (
    "SELECT COUNT(v) AS a, SUM(v) AS b, MIN(v), MAX(s), AVG(d), COUNT(*) AS c FROM t",
    "SELECT g, SUM(v) AS total FROM t GROUP BY g HAVING MIN(v) < 0 OR COUNT(d) = 0",
    "SELECT g, MIN(v) FILTER (WHERE b), MAX(d) FILTER (WHERE s > 'b'), COUNT(v) FROM t GROUP BY g",
    "SELECT g, b, MAX(w), MIN(f), SUM(DISTINCT v) FROM t GROUP BY GROUPING SETS ((g), (g, b), ())",
    "SELECT id, (SELECT MIN(o.v) FROM t o WHERE o.g = t.g AND o.v > t.v) FROM t WHERE id % 9 = 0",
    "SELECT h, COUNT(DISTINCT f), SUM(DISTINCT h) FILTER (WHERE b), MAX(d) FROM t GROUP BY h",
    "SELECT g, SUM(DISTINCT h), AVG(h) FILTER (WHERE h < f), COUNT(DISTINCT h) FROM t GROUP BY g",
    "WITH RECURSIVE r (x, n) AS (SELECT h, 0 FROM t WHERE id % 5 = 0 UNION SELECT t.h, r.n + 1 "
    "FROM r JOIN t ON t.h <= r.x AND t.g = r.n WHERE r.n < 3) "
    "SELECT n, MIN(x), SUM(x), COUNT(DISTINCT x) FILTER (WHERE x > 0) FROM r GROUP BY n",
    "SELECT id, RANK() OVER (PARTITION BY g ORDER BY h DESC), COUNT(DISTINCT h) OVER (PARTITION "
    "BY b), SUM(h) OVER (PARTITION BY g ORDER BY f GROUPS 1 PRECEDING) FROM t WHERE id % 4 = 0",
    "SELECT g, SUM(b), SUM(DISTINCT b) FILTER (WHERE v > 0) AS a, MEDIAN(w), "
    "QUANTILE_CONT(w, 0.5), MAD(v % 1000), MAD(h) AS c, MEDIAN(DISTINCT w) AS e FROM t GROUP BY g",
    "SELECT x.g, MAX(x.v + y.v), COUNT(y.d) FROM t x JOIN t y ON x.id = y.v GROUP BY x.g",
)


def views() -> list[str]:
    """Each aggregate of each column by g, in views of some at a time, then the others."""
    by_column = {one: ("COUNT", "MIN", "MAX", *OF[one]) for one in COLUMNS}
    calls = [f"{call}({one}) AS {call}_{one}" for one in COLUMNS for call in by_column[one]]
    parts = [calls[n::5] for n in range(5)]
    by_g = [f"SELECT g, {', '.join(part)} FROM t GROUP BY g" for part in parts]
    return [*by_g, *OTHERS]


def value(rng: Random, column: str, blank: float) -> object:
    if rng.random() < blank:
        return None
    whole = rng.choice((rng.randrange(-60, 60), rng.randrange(-(1 << 45), 1 << 45)))
    return {
        "v": whole,
        "d": rng.choice((Decimal(whole % 10**9) / 100, *BOUNDS)),
        "s": "".join(rng.choice("abé") for _ in range(rng.randrange(5))),
        "f": rng.choice((whole / 8, 0.0, 1e300, *SPECIAL)),
        "b": rng.random() < 0.5,
        "w": datetime.date(2000, 1, 1) + datetime.timedelta(whole % 9999),
        "h": rng.choice((whole % 99 / 2, whole % 99 / 2, *SPECIAL))
        if whole % 5 == 0
        else whole % 9,
    }[column]


def bag(rows: list[tuple]) -> Counter:
    return Counter(
        tuple(f"{one + 0.0:.9g}" if isinstance(one, float) else one for one in row) for row in rows
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_oracle_aggregates_pass_over_nulls_as_duckdb_does(seed: int) -> None:
    rng = Random(f"nulls {seed}")
    asked = views()
    rows: dict[int, tuple] = {}
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        db.execute(TABLE)
        duck.execute(TABLE)
        db.engine.instance.arena.cells[at.PARTS_FROM] = rng.choice((0, 1 << 17))
        if seed % 2:  # views before or behind the first rows
            _edit(rng, (db, duck), rows, [], [_row(rng, n) for n in range(400)])
        for number, query in enumerate(asked):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        held = [bag(db.execute(f"SELECT * FROM v{n}").fetchall()) for n in range(len(asked))]
        for epoch in range(10):
            came = [_row(rng, 1000 * (epoch + 1) + n) for n in range(rng.choice((1, 2, 5, 150)))]
            went = [*_run(rng, rows), *_run(rng, rows)]
            _edit(rng, (db, duck), rows, went, came)
            for number, query in enumerate(asked):
                wanted = bag(duck.execute(query).fetchall())
                delta = db.delta(f"v{number}")
                moved = bag(delta.added)
                moved.subtract(bag(delta.removed))
                held[number].update(moved)
                assert +held[number] == wanted, query
                assert bag(db.execute(f"SELECT * FROM v{number}").fetchall()) == wanted, query
            db.engine.check_invariants()


def _row(rng: Random, number: int) -> tuple:
    g = rng.choice((None, 0, 0, 0, 0, 1, 2, 3, rng.randrange(30)))
    blank = 1.0 if g == 3 and rng.random() < 0.8 else rng.choice((0.0, 0.2, 0.9))
    return (number, g, *(value(rng, column, blank) for column in COLUMNS))


def _run(rng: Random, rows: dict[int, tuple]) -> list[int]:
    """Rows with the least or greatest values of a column in a group, or any."""
    place = rng.randrange(2, 2 + len(COLUMNS))
    g = rng.choice((0, 0, 1, 3))
    own = [row for row in rows.values() if row[1] == g and row[place] is not None]
    own.sort(key=lambda row: row[place], reverse=rng.random() < 0.5)
    found = [row[0] for row in own[: rng.choice((0, 1, 3, 40, len(own)))]]
    return found if rng.random() < 0.8 else rng.sample(sorted(rows), len(rows) // 10)


def _edit(rng, engines, rows, went: list[int], came: list[tuple]) -> None:
    """One transaction: deletes, inserts by statement or by column, and an update to NULL."""
    gone = sorted(set(went) & rows.keys())
    for key in gone:
        del rows[key]
    rows.update((row[0], row) for row in came)
    blanked = rng.choice([None, *sorted(rows)[:1]])
    column = rng.choice(COLUMNS)
    db, _ = engines
    db.execute("BEGIN")
    for one in engines:
        for key in gone:
            one.execute("DELETE FROM t WHERE id = ?", [key])
        if came and one is db and rng.random() < 0.5:
            names = [name for name, _ in _types()]
            columns = zip(_types(), zip(*came, strict=True), strict=True)
            arrays = [pa.array(values, kind) for (_, kind), values in columns]
            db.insert("t", pa.table(arrays, names=names))
        else:
            for row in came:
                one.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", list(row))
        if blanked is not None:
            one.execute(f"UPDATE t SET {column} = NULL WHERE id = ?", [blanked])
    db.execute("COMMIT")
    if blanked is not None:
        place = ("id", "g", *COLUMNS).index(column)
        row = rows[blanked]
        rows[blanked] = (*row[:place], None, *row[place + 1 :])


def _types() -> list[tuple[str, pa.DataType]]:
    kinds = (pa.int64(), pa.int64(), pa.int64(), pa.decimal128(12, 2), pa.string())
    kinds += (pa.float64(), pa.bool_(), pa.date32(), pa.float64())
    return list(zip(("id", "g", *COLUMNS), kinds, strict=True))
