"""Aggregates, windows and queries as PostgreSQL and Spark have them, over the same random tables.

`test_sql_dialects.py` asks for functions of one row; here each form is a query over many, with
NULLs, duplicates, NaN and infinity, and the server's answer is the judge. A value is compared by
what it is, not by its type: means and quotients of decimals are a DOUBLE here.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import closing
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.amount import cases

import deltafix.sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

TABLES = cases(1, per=8)

AGGREGATES = (
    "COUNT(*)", "COUNT(p)", "COUNT(DISTINCT p)", "SUM(p)", "SUM(DISTINCT p)", "SUM(n)", "AVG(p)",
    "MIN(s)", "MAX(s)", "MIN(f)", "MAX(f)", "BOOL_AND(b)", "BOOL_OR(b)", "EVERY(b)", "STDDEV(p)",
    "STDDEV_POP(p)", "VAR_POP(p)", "VARIANCE(p)", "BIT_AND(p)", "BIT_OR(p)", "BIT_XOR(p)",
    "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY p)", "COUNT(*) FILTER (WHERE p > 1)",
    "PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY p DESC)", "SUM(p) FILTER (WHERE b)",
    "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY p)",
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY p DESC)",
)  # fmt: skip
OF_POSTGRES = ("STRING_AGG(s, ',' ORDER BY id)", "ARRAY_AGG(p ORDER BY id)", "REGR_COUNT(p, id)")
OF_SPARK = (
    "MEDIAN(p)", "PERCENTILE(p, 0.5)", "PERCENTILE(n, 0.25)", "PERCENTILE(DISTINCT p, 0.4)",
    "PERCENTILE(p, 0.7) FILTER (WHERE id > 2)", "PERCENTILE_APPROX(p, 0.5)", "COUNT_IF(p > 1)",
    "APPROX_PERCENTILE(p, 0.3, 10000)", "MAX_BY(id, p * 100 + id)", "MEAN(p)", "STD(p)",
    "SORT_ARRAY(COLLECT_LIST(p))", "APPROX_COUNT_DISTINCT(p)",
)  # fmt: skip
WINDOWS = (
    "ROW_NUMBER() OVER (PARTITION BY s ORDER BY id)", "RANK() OVER (ORDER BY p)",
    "RANK() OVER (ORDER BY p DESC)", "DENSE_RANK() OVER (ORDER BY s)", "RANK() OVER (ORDER BY f)",
    "DENSE_RANK() OVER (ORDER BY f DESC)", "PERCENT_RANK() OVER (ORDER BY p)",
    "CUME_DIST() OVER (ORDER BY p)", "NTILE(3) OVER (ORDER BY id)", "LAG(p) OVER (ORDER BY id)",
    "LEAD(s, 2, 'x') OVER (ORDER BY id)", "FIRST_VALUE(p) OVER (ORDER BY p, id)",
    "LAST_VALUE(p) OVER (ORDER BY p, id)", "NTH_VALUE(p, 2) OVER (ORDER BY id)",
    "SUM(p) OVER (ORDER BY p)", "AVG(p) OVER (ORDER BY id ROWS 1 PRECEDING)",
    "COUNT(p) OVER (ORDER BY p RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "MAX(s) OVER (PARTITION BY b)", "RANK() OVER (ORDER BY b, s)",
)  # fmt: skip
QUERIES = (
    "SELECT f, COUNT(*) FROM t GROUP BY f", "SELECT DISTINCT f, b FROM t",
    "SELECT s, b, COUNT(*), GROUPING(s) FROM t GROUP BY ROLLUP (s, b)",
    "SELECT s, b, SUM(p) FROM t GROUP BY GROUPING SETS ((s), (b), ())",
    "SELECT a.id, b.id AS j FROM t a LEFT JOIN t b ON a.f = b.f AND a.id < b.id",
    "SELECT a.id, b.id AS j FROM t a FULL JOIN t b ON a.p = b.id AND b.s <> ''",
    "SELECT s FROM t EXCEPT ALL SELECT s FROM t WHERE id > 4",
    "SELECT p FROM t INTERSECT ALL SELECT id FROM t", "SELECT n FROM t UNION SELECT p FROM t",
    "SELECT id FROM t ORDER BY p, id LIMIT 3", "SELECT id FROM t ORDER BY s DESC, id LIMIT 3",
    "SELECT id FROM t ORDER BY f DESC, id LIMIT 3", "SELECT id FROM t WHERE f > 1",
    "SELECT id FROM t WHERE p NOT IN (SELECT p FROM t WHERE id > 5)",
    "SELECT id, p / 2, p % 2, -p % 3, n * n, n + p FROM t", "SELECT id, s || p FROM t",
    "SELECT id, CASE WHEN p > 1 THEN n ELSE p END FROM t", "SELECT id, LEAST(p, id, NULL) FROM t",
    "SELECT s AS k, SUM(p) FROM t GROUP BY s HAVING SUM(p) > 2",
    "SELECT id, (SELECT MAX(u.id) FROM t u WHERE u.s = t.s) FROM t",
    "SELECT COUNT(*), SUM(p) FROM t WHERE FALSE", "SELECT id FROM t WHERE n IN (2, 1.25)",
    "SELECT id, b AND p > 1, b OR p > 1, s > 'a' FROM t",
)  # fmt: skip
NAMED = "id INT PRIMARY KEY, p INT, s {text}, f DOUBLE PRECISION, n DECIMAL(8, 2), b BOOLEAN"


def drawn(seed: int) -> list[tuple[Any, ...]]:
    rng = Random(f"dialects {seed}")
    pools: tuple[Sequence[Any], ...] = (
        (None, 0, 1, 2, 2, 4, 7), (None, "", "B", "abc", "abc"),
        (None, math.nan, math.inf, -1.5, 0.25, 0.25), (None, "1.25", "-0.05", "2.00"),
        (None, True, False),
    )  # fmt: skip
    rows = [(number, *map(rng.choice, pools)) for number in range(1, rng.randrange(8, 14))]
    return [(*row[:4], row[4] and Decimal(row[4]), row[5]) for row in rows]


def plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float | Decimal):
        return "nan" if value != value else float(f"{value:.9g}")  # noqa: PLR0124
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def bag(rows: Any) -> Counter[Any]:
    return Counter(tuple(map(plain, row)) for row in rows)


def differing(
    dialect: str, own: Sequence[str], rows: list[Any], judge: Callable[[str], Any]
) -> list[Any]:
    """The queries of a dialect whose answers are others than the judge's."""
    calls = (*AGGREGATES, *own)
    asked = [f"SELECT s, {call} AS x FROM t GROUP BY s" for call in calls]
    asked += [f"SELECT {call} AS x FROM t" for call in calls]
    asked += [f"SELECT id, {call} AS x FROM t" for call in WINDOWS]
    found = []
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute(f"CREATE TABLE t ({NAMED.format(text='TEXT')})")
        db.insert("t", rows)
        for query in (*asked, *QUERIES):
            ours, wanted = bag(db.execute(query).fetchall()), bag(judge(query))
            if ours != wanted:
                found.append((query, ours - wanted, wanted - ours))
    return found


@pytest.mark.parametrize("seed", range(TABLES))
def test_oracle_queries_are_those_of_postgres(postgres: str, seed: int) -> None:
    import psycopg

    with psycopg.connect(postgres) as server:  # rolled back
        columns = NAMED.format(text='TEXT COLLATE "C"')
        server.execute(f"CREATE TEMP TABLE t ({columns})")
        for row in drawn(seed):
            server.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s)", row)
        found = differing(
            "postgres", OF_POSTGRES, drawn(seed), lambda query: server.execute(query).fetchall()
        )
    assert not found


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(TABLES))
def test_oracle_queries_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    kinds = "id INT, p INT, s STRING, f DOUBLE, n DECIMAL(8, 2), b BOOLEAN"
    spark.createDataFrame(drawn(seed), kinds).coalesce(1).createOrReplaceTempView("t")
    try:
        found = differing("spark", OF_SPARK, drawn(seed), lambda query: spark.sql(query).collect())
    finally:
        spark.catalog.dropTempView("t")
    assert not found
