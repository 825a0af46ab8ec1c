"""ASOF JOIN: as DuckDB has it, where no two rows on the right are as near as each other."""

from __future__ import annotations

import pytest

import deltafix.sql
from sql_judge import changes_followed

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, k TEXT, ts TIMESTAMP, n INT)",
    "CREATE TABLE u (k TEXT, ts TIMESTAMP, p INT, m INT)",
)
EDITS = (
    "INSERT INTO t VALUES (1, 'a', '2026-01-01 10:00:00', 1), (2, 'a', '2026-01-01 11:00:00', 2), "
    "(3, 'b', '2026-01-01 10:30:00', 3), (4, NULL, '2026-01-01 10:30:00', 4), (5, 'a', NULL, 5)",
    "INSERT INTO u VALUES ('a', '2026-01-01 09:00:00', 10, 1), "
    "('a', '2026-01-01 10:30:00', 11, 3), ('b', '2026-01-01 11:00:00', 12, 2), "
    "('a', NULL, 13, NULL)",
    "INSERT INTO u VALUES ('b', '2026-01-01 08:00:00', 14, 5), ('a', '2026-01-01 11:00:00', 15, 6)",
    "UPDATE t SET ts = '2026-01-01 12:00:00' WHERE id = 3",
    "DELETE FROM u WHERE p = 15",
    "UPDATE u SET k = 'b' WHERE p = 10",
)
QUERIES = (
    "SELECT t.id, u.p FROM t ASOF JOIN u ON t.k = u.k AND t.ts >= u.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND u.ts <= t.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts > u.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts <= u.ts",
    "SELECT t.id, u.p FROM t ASOF JOIN u ON t.k = u.k AND t.ts < u.ts",
    "SELECT id, k, ts, p FROM t ASOF JOIN u USING (k, ts)",
    "SELECT k, ts, id, n, p, m FROM t ASOF LEFT JOIN u USING (k, ts)",
    "SELECT t.id, x.p FROM t ASOF JOIN u AS x ON t.n >= x.m",
    "SELECT t.id, x.p, y.id AS i FROM t ASOF JOIN u AS x ON n >= m JOIN t AS y ON y.n = x.m",
    "SELECT t.k, COUNT(*) AS n, SUM(u.p) AS s FROM t ASOF LEFT JOIN u "
    "ON t.k = u.k AND t.ts >= u.ts WHERE t.id > 1 GROUP BY t.k",
    "SELECT id, p FROM t ASOF JOIN (SELECT k AS kk, ts AS a, p FROM u WHERE p > 10) AS w "
    "ON k = kk AND ts >= a",
)


@pytest.mark.parametrize("query", QUERIES)
def test_oracle_it_is_that_of_duckdb(query: str, warm_kernel: None) -> None:
    assert changes_followed(TABLES, query, EDITS) > 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 FROM t ASOF JOIN u ON t.k = u.k", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u ON t.ts > u.ts AND t.n > u.m", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u ON ts >= u.ts", "ambiguous"),
        ("SELECT 1 FROM t ASOF RIGHT JOIN u ON t.ts >= u.ts", "ASOF RIGHT JOIN"),
        ("SELECT 1 FROM t ASOF JOIN u USING (k, q)", "unknown column 'q'"),
    ],
)
def test_what_it_has_no_meaning_for_is_an_error(query: str, said: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        with pytest.raises(deltafix.sql.DatabaseError, match=said):
            db.execute(f"CREATE VIEW v AS {query}")
