"""Views that join by an expression: an edit of either side looks rows up, and rows are DuckDB's.

Rows of the side that computes were looked at one by one for an edit of the other.
"""

from __future__ import annotations

import duckdb
import pytest

import deltafix.sql

TABLES = (
    "CREATE TABLE t (k BIGINT PRIMARY KEY, a BIGINT, s VARCHAR)",
    "CREATE TABLE u (k BIGINT PRIMARY KEY, b BIGINT, s VARCHAR)",
)
VIEWS = {
    "inner": "SELECT t.k, u.k AS j FROM t JOIN u ON t.a + 1 = u.b",
    "text": "SELECT t.k, u.k AS j FROM t JOIN u ON LOWER(t.s) = u.s",
    "both sides": "SELECT t.k, u.k AS j FROM t JOIN u ON t.a * 2 = u.b // 3 + 2",
    "of a key": "SELECT t.k, u.k AS j FROM t JOIN u ON t.k = u.b // 10 AND u.b > 30",
    "types": "SELECT t.k, u.k AS j FROM t JOIN u ON t.a = CAST(u.b AS DOUBLE) / 2",
    "left": "SELECT t.k, u.k AS j FROM t LEFT JOIN u ON t.a = u.b // 10",
    "left of this side": "SELECT t.k, u.k AS j FROM t LEFT JOIN u ON t.a // 10 = u.b",
    "full": "SELECT t.k, u.k AS j FROM t FULL JOIN u ON t.a = u.b // 10",
    "semi": "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b // 10 = t.a)",
    "anti": "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b = t.a // 10)",
    "in": "SELECT k FROM t WHERE a // 10 IN (SELECT b FROM u WHERE b IS NOT NULL)",
    "all": "SELECT k FROM t WHERE a >= ALL (SELECT b FROM u WHERE u.b // 10 = t.k)",
    "three": "SELECT t.k, v.k AS j FROM t JOIN u ON t.a + 1 = u.b JOIN t AS v ON u.k = v.a // 7",
    "two": "SELECT t.k, u.k AS j FROM t JOIN u ON t.a % 50 = u.b AND LOWER(t.s) = UPPER(u.s)",
    "recursive": "WITH RECURSIVE r (x) AS (SELECT a FROM t WHERE k < 40 UNION "
    "SELECT u.k FROM r JOIN u ON u.b = r.x // 2) SELECT x FROM r",
    "paths": "WITH RECURSIVE r (x, y, d) AS (SELECT a, a, 0 FROM t WHERE k < 40 UNION ALL "
    "SELECT r.x, u.k, r.d + 1 FROM r JOIN u ON u.b = r.y // 2 WHERE r.d < 2) SELECT x, y, d FROM r",
}
EDITS = (
    "UPDATE u SET b = 31 WHERE k = 30",
    "UPDATE u SET b = NULL WHERE k = 35",
    "UPDATE u SET b = 36, s = 'm' WHERE k = 35",
    "DELETE FROM u WHERE k = 33",
    "UPDATE t SET a = 30, s = 'ZZ' WHERE k = 31",
    "UPDATE t SET a = NULL WHERE k = 36",
    "INSERT INTO u VALUES (-1, 57, 'zz')",
    "INSERT INTO t VALUES (-1, 28, NULL)",
    "DELETE FROM t WHERE k = 34",
)


def _filled(count: int) -> list[str]:
    rows = [
        f"({n}, {'NULL' if n % 11 == 5 else n}, {'NULL' if n % 13 == 7 else repr(f'{n:x}')})"
        for n in range(count)
    ]
    return [*TABLES, *(f"INSERT INTO {table} VALUES {', '.join(rows)}" for table in "tu")]


@pytest.mark.parametrize("kind", VIEWS)
def test_agree_an_edit_of_either_side_looks_rows_up(kind: str, warm_kernel: None) -> None:
    query = VIEWS[kind]
    probed = []
    for count in (600, 2_400):
        with deltafix.sql.connect() as db, duckdb.connect() as duck:
            for statement in _filled(count):
                db.execute(statement)
                duck.execute(statement)
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
            looked = []
            for edit in EDITS:
                db.execute(edit)
                duck.execute(edit)
                found = sorted(db.execute("SELECT * FROM v").fetchall(), key=repr)
                looked.append(db.engine.last_epoch.probed)
                assert found == sorted(duck.execute(query).fetchall(), key=repr), edit
            probed.append(looked)
    assert probed[0] == probed[1]
    assert 0 < max(probed[0]) < 60


def test_a_computed_value_that_is_compared_with_itself_is_not_given_by_that() -> None:
    """`f = f` was taken for what gives `f` a value, apart from the call that does."""
    query = "SELECT t.k, x FROM t, UNNEST(l) AS i (x) WHERE x = x AND k > 0"
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for engine in (db, duck):
            engine.execute("CREATE TABLE t (k INTEGER, l INTEGER[])")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for edit in (
            "INSERT INTO t VALUES (1, [1, NULL, 2, 1]), (2, NULL), (3, []), (0, [5])",
            "UPDATE t SET l = [NULL, 4] WHERE k <> 1",
            "DELETE FROM t WHERE k = 1",
        ):
            for engine in (db, duck):
                engine.execute(edit)
            wanted = sorted(duck.execute(query).fetchall())
            assert sorted(db.execute("SELECT * FROM v").fetchall()) == wanted
        assert wanted
