"""Row values, ANY and ALL over every combination of a few values, as DuckDB and SQLite have them.

DuckDB is the judge of its dialect, in which NULLs inside of a row are equal, and SQLite that of
PostgreSQL's, in which they are unknown. Sees: a row that is found, or not, for a NULL, and a view
that is another one than its query.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import product
from typing import Any

import duckdb
import pytest

import deltafix.sql

TABLES = (
    "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER NOT NULL)",
    "CREATE TABLE u (x INTEGER, y INTEGER NOT NULL, z INTEGER)",
)
ROWS = [*product((None, 1, 2), (None, 1, 2), (1, 2))]
MORE = [(1, 2, 2), (None, 1, 1), (2, 2, None)]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
PAIRS = (
    *(f"(a, b) {op} (c, b)" for op in OPERATORS),
    *(f"(b, a, 1) {op} (1, c, a)" for op in OPERATORS),
    *("(a, b) IN (SELECT x, z FROM u)", "(a, b) NOT IN (SELECT x, z FROM u)"),
    "(c, b) NOT IN (SELECT y, y + 1 FROM u WHERE z > 0)",
)
QUANTIFIED = (
    *(f"a {op} {word} (SELECT x FROM u)" for op in OPERATORS for word in ("ANY", "ALL", "SOME")),
    *(f"b {op} ALL (SELECT z FROM u WHERE x = t.c)" for op in OPERATORS),
    *(f"c {op} ALL (SELECT y FROM u WHERE y > 9)" for op in OPERATORS),
    *(f"{pair} (SELECT x, z FROM u)" for pair in ("(a, b) = ANY", "(a, b) <> ALL")),
    *("(a, b) IN ((1, 2), (2, NULL))", "(a, b) NOT IN ((1, 2), (2, NULL))"),
    *("a IS DISTINCT FROM b", "b IS NOT DISTINCT FROM c", "(a, b) IS DISTINCT FROM (1, NULL)"),
)


def _rows(engine: Any, query: str) -> Counter[tuple[Any, ...]]:
    found = engine.execute(query).fetchall()
    return Counter(tuple(int(v) if isinstance(v, bool) else v for v in row) for row in found)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_oracle_rows_and_quantified_comparisons_as_other_engines_have_them(dialect: str) -> None:
    judge: Any = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
    conditions = (*PAIRS, *QUANTIFIED) if dialect == "duckdb" else PAIRS
    answers = Counter[int]()
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        for engine in (db, judge):
            for table in TABLES:
                engine.execute(table)
            engine.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        for n, condition in enumerate(conditions):
            db.execute(f"CREATE VIEW v{n} AS SELECT a, b, c FROM t WHERE {condition}")
        for edits in ((), MORE):
            if edits:
                for engine in (db, judge):
                    engine.executemany("INSERT INTO u VALUES (?, ?, ?)", edits)
            for n, condition in enumerate(conditions):
                query = f"SELECT a, b, c FROM t WHERE {condition}"
                wanted = _rows(judge, query)
                assert _rows(db, f"SELECT * FROM v{n}") == wanted, condition
                answers[wanted.total()] += 1
                for other in (
                    f"SELECT a, b, c FROM t WHERE NOT ({condition})",
                    f"SELECT a, b, c, ({condition}) AS r FROM t",
                ):
                    assert _rows(db, other) == _rows(judge, other), other
        db.engine.check_invariants()
    judge.close()
    assert len(answers) > 5


def test_equal_rows_are_joined_by_the_engine() -> None:
    with closing(deltafix.sql.connect()) as db:
        for table in TABLES:
            db.execute(table)
        for condition in ("(t.a, t.c) = (u.x, u.y)", "t.a IS NOT DISTINCT FROM u.x"):
            said = db.execute(f"EXPLAIN SELECT t.c FROM t JOIN u ON {condition}").fetchall()
            assert "@" not in str(said)  # no function is asked of each pair
            assert "a_1 = x_" in str(said)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("(a, b) = (1, 2, 3)", "a row of 2 beside a row of 3"),
        ("(a, b) = 1", "a row of values, (a, b), beside this"),
        ("(a, b) < ANY (SELECT x, y FROM u)", "a row of values before this"),
        ("(a, b) = ALL (SELECT x, y FROM u)", "a row of values before this"),
        ("(a, b) IN (SELECT x FROM u)", "a query with 1 column beside 2"),
        ("a > ALL (SELECT x, y FROM u)", "select one column"),
    ],
)
def test_rows_that_fit_nothing_are_refused(condition: str, message: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        for table in TABLES:
            db.execute(table)
        with pytest.raises(deltafix.sql.DatabaseError) as caught:
            db.execute(f"SELECT a FROM t WHERE {condition}")
        assert message in str(caught.value)
