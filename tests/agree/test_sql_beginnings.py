"""agree_*: what a text begins with, asked by SUBSTRING or LEFT, is what DuckDB says.

Such a comparison is the kernel's LIKE. Sees: a character of the constant that LIKE takes for
another, one that is asked for too many or too few characters, bytes counted for characters, a NULL
that is not unknown; and terms of conditions that are computed though nothing reads them.
"""

from __future__ import annotations

from contextlib import closing
from itertools import product

import duckdb
import pytest

import deltafix.sql

LETTERS = ("a", "%", "_", "\\", "é", "\U0001f600")
TEXTS = ["".join(letters) for size in range(4) for letters in product(LETTERS, repeat=size)]


def conditions() -> list[str]:
    """Each way to ask, for constants of one to three characters."""
    asked = []
    for text in ("a", "%", "_", "é", "\\", "a%", "_\\", "\U0001f600é", "aé%"):
        asked += [
            f"SUBSTRING({{}}, 1, {len(text)}) = '{text}'",
            f"'{text}' <> SUBSTRING({{}} FROM 1 FOR {len(text)})",
            f"LEFT({{}}, {len(text)}) = '{text}'",
        ]
    return [*asked, "SUBSTRING({}, 1, 1) IN ('a', 'é', '_')", "LEFT({}, 2) NOT IN ('a%', '__')"]


def test_agree_beginnings_of_texts_need_no_python() -> None:
    with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)")
        shown = [condition.format(column) for condition in conditions() for column in "ab"]
        values = ", ".join(f"{condition} AS x{n}" for n, condition in enumerate(shown))
        tests = [condition for condition in shown if "IN" in condition]
        queries = [f"SELECT k, {values} FROM t"]
        for number, test in enumerate([*tests, *(f"NOT ({test})" for test in tests)]):
            queries.append(f"SELECT k FROM t WHERE {test} OR k = {number}")
        for number, query in enumerate(queries):
            db.execute(f"CREATE VIEW v{number} AS {query}")
        named = {one.name for one in db.catalog.program().functors}
        assert all(name.startswith("~") for name in named), "Python is asked"
        rows = [(n, text, None if n % 7 == 0 else text) for n, text in enumerate(TEXTS)]
        for one in (db, duck):
            one.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        for edit in ("DELETE FROM t WHERE k % 5 = 0", "UPDATE t SET a = '%a', b = a WHERE k < 40"):
            for one in (db, duck):
                one.execute(edit)
            for number, query in enumerate(queries):
                wanted = duck.execute(f"{query} ORDER BY k").fetchall()
                assert db.execute(f"SELECT * FROM v{number} ORDER BY k").fetchall() == wanted, query


@pytest.mark.parametrize(
    "condition",
    [
        "SUBSTRING(a, 1, 1) = 'ab'", "SUBSTRING(a, 1, 2) = 'a'", "SUBSTRING(a, 2, 1) = 'a'",
        "SUBSTRING(a, 1) = 'a'", "LEFT(a, 1) = ''", "LEFT(a, -1) = 'a'", "LEFT(a, 0) = ''",
        "SUBSTRING(a, 1, 0) = ''", "SUBSTRING(a, 0, 1) = 'a'", "LEFT(a, 1) < 'b'",
    ],
)  # fmt: skip
def test_agree_other_parts_of_texts(condition: str) -> None:
    with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (a TEXT NOT NULL)")
            one.execute("INSERT INTO t VALUES (''), ('a'), ('ab'), ('ba'), ('aba')")
            one.execute(f"CREATE VIEW v AS SELECT a FROM t WHERE {condition}")
        query = "SELECT * FROM v ORDER BY a"
        assert db.execute(query).fetchall() == duck.execute(query).fetchall()


def test_flags_that_nothing_reads_are_not_computed() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (a INTEGER NOT NULL, b TEXT NOT NULL)")
        for condition in ("a IN (1, 2, 3)", "a = 1 OR b LIKE 'x%'", "a = 1 OR LEFT(b, 1) = 'x'"):
            rule = str(db.execute(f"EXPLAIN SELECT a FROM t WHERE {condition}").fetchall())
            assert "lor" in rule
            assert "lnot" not in rule
            assert "land" not in rule
        counted = "SELECT SUM(CASE WHEN a IN (1, 2) THEN a + 1 ELSE 0 END) AS n FROM t"
        rule = str(db.execute(f"EXPLAIN {counted}").fetchall())
        assert "same" in rule
        assert "lnot" not in rule
