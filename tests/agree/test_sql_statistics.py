"""Aggregates of two columns and of the shape of one, after random edits, as DuckDB has them.

Sees: another value, beyond what DuckDB's rounding does to it; NULL for NaN, or the other way round;
a value that goes and leaves something behind. PostgreSQL is asked where it differs from DuckDB.
"""

from __future__ import annotations

import math
from contextlib import closing
from random import Random

import duckdb
import pytest

import deltafix.sql

NAMES = (
    *("CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_COUNT", "REGR_R2"),
    *("REGR_AVGX", "REGR_AVGY", "REGR_SXX", "REGR_SYY", "REGR_SXY"),
)
PAIRS = [f"{name}(y, x)" for name in NAMES]
CALLS = (
    *PAIRS, "SKEWNESS(y)", "KURTOSIS(y)", "KURTOSIS_POP(y)", "SKEWNESS(n)", "COVAR_POP(p, n)",
    "CORR(y, x) FILTER (WHERE x > 1)", "ARG_MAX(id, y * 100 + id)", "MIN_BY(n, y * 100 + id)",
)  # fmt: skip
TABLE = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, y {0}, x {0}, p DECIMAL(6, 2), n INTEGER)"
)


def grouped(calls: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(f"{call} AS c{place}" for place, call in enumerate(calls))
    return f"SELECT g, {shown} FROM t GROUP BY g"


def edits(random: Random, count: int) -> list[str]:
    found, n = [], 0
    for _ in range(count):
        y, x, p = (random.choice(("NULL", "1", "2", "2.5", "-1.5", "4", "0.25")) for _ in "yxp")
        form = random.randrange(4)
        if form == 0:
            found.append(f"DELETE FROM t WHERE id % 7 = {random.randint(0, 6)}")
        elif form == 1:
            found.append(f"UPDATE t SET y = {y} WHERE id % 5 = {random.randint(0, 4)}")
        else:
            cells = f"{random.randint(0, 4)}, {y}, {x}, {p}, {random.randint(-3, 5)}"
            found.append(f"INSERT INTO t VALUES ({n}, {cells}), ({n + 1}, 1, {x}, {y}, 1, 2)")
            n += 2
    return found


def same(one: object, two: object) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        both = math.isnan(one) and math.isnan(two)
        return both or math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)
    return one == two


@pytest.mark.parametrize("seed", range(3))
def test_oracle_statistics_are_those_of_duckdb_after_every_edit(seed: int) -> None:
    queries = {
        "v": grouped(CALLS),
        "w": "SELECT id, CORR(y, x) OVER (ORDER BY id rows 3 preceding) AS c, COVAR_SAMP(y, x) "
        "OVER (PARTITION BY g) AS d FROM t",
    }
    compared = 0
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        for one in (db, duck):
            one.execute(TABLE.format("DOUBLE"))
        for name, query in queries.items():
            db.execute(f"CREATE VIEW {name} AS {query}")
        for edit in edits(Random(f"statistics {seed}"), 40):
            db.execute(edit)
            duck.execute(edit)
            for name, query in queries.items():
                found = {row[0]: row for row in db.execute(f"SELECT * FROM {name}").fetchall()}
                wanted = {row[0]: row for row in duck.execute(query).fetchall()}
                assert found.keys() == wanted.keys()
                for key, row in wanted.items():
                    pairs = list(zip(found[key], row, strict=True))
                    assert all(same(*pair) for pair in pairs), (edit, pairs)
                    compared += sum(isinstance(one, float) for one in row)
        db.engine.check_invariants()
    assert compared > 300


def test_oracle_statistics_of_postgres_have_no_nan(postgres: str) -> None:
    import psycopg

    with (
        closing(deltafix.sql.connect(dialect="postgres")) as db,
        psycopg.connect(postgres, autocommit=True) as server,
    ):
        server.execute(TABLE.format("DOUBLE PRECISION").replace("TABLE", "TEMP TABLE"))
        db.execute(TABLE.format("DOUBLE PRECISION"))
        db.execute(f"CREATE VIEW v AS {grouped(PAIRS)}")
        nulls = 0
        for edit in edits(Random("statistics of postgres"), 30):
            db.execute(edit)
            server.execute(edit)
            found = {row[0]: row for row in db.execute("SELECT * FROM v").fetchall()}
            wanted = {row[0]: row for row in server.execute(grouped(PAIRS)).fetchall()}
            assert found.keys() == wanted.keys()
            for key, row in wanted.items():
                pairs = list(zip(found[key], row, strict=True))
                assert all(same(*pair) for pair in pairs), (edit, pairs)
                nulls += row.count(None)
        assert nulls > 10


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("spark", "SELECT CORR(a, b) AS x FROM t"),
        ("postgres", "SELECT SKEWNESS(a) AS x FROM t"),
        ("duckdb", "SELECT REGR_R2(a, b) OVER (ORDER BY a) AS x FROM t"),
        ("duckdb", "SELECT ARG_MAX(a, b, 2) AS x FROM t"),
    ],
)
def test_what_means_another_thing_elsewhere_is_refused(dialect: str, query: str) -> None:
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        with pytest.raises(deltafix.sql.NotSupportedError):
            db.execute(f"CREATE VIEW v AS {query}")
