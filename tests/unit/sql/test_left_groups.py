"""GROUP BY over a LEFT JOIN whose right side is in aggregates alone: DuckDB's rows, and the work.

A row without a match then says only that its group is there, and none is made.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.judges.sql_judge import changes_followed

import deltafix.sql

TABLES = (
    "CREATE TABLE c (id INTEGER PRIMARY KEY, g TEXT, a INTEGER)",
    "CREATE TABLE o (id INTEGER, c INTEGER, x INTEGER, y INTEGER NOT NULL, s TEXT)",
    "CREATE TABLE p (k INTEGER, o INTEGER)",
)
EDITS = (
    "INSERT INTO c VALUES (1, 'a', 1), (2, 'a', NULL), (3, 'b', 2), (4, NULL, 3), (5, 'c', 1)",
    "INSERT INTO o VALUES (1, 1, 5, 1, 'x'), (2, 1, NULL, 2, NULL), (3, 3, 7, 3, 'y')",
    "INSERT INTO o VALUES (3, 3, 7, 3, 'y'), (4, NULL, 1, 1, 'x'), (5, 4, NULL, 2, 'x')",
    "INSERT INTO p VALUES (1, 1), (2, 1), (3, 9), (4, 1), (4, 2)",
    "DELETE FROM o WHERE c = 1",
    "INSERT INTO o VALUES (6, 1, 2, 2, 'z'), (7, 2, 3, -2, NULL)",
    "UPDATE c SET g = 'b' WHERE id = 2",
    "DELETE FROM c WHERE g = 'b'",
    "UPDATE o SET x = 4 WHERE x IS NULL",
    "DELETE FROM o",
)
AGGREGATES = (
    "COUNT(o.id)", "COUNT(o.x)", "COUNT(DISTINCT o.x)", "SUM(o.x)", "SUM(o.x + 2 * o.y)",
    "AVG(o.y)", "MIN(o.s)", "MAX(o.x)", "SUM(o.y * c.a)", "BOOL_OR(o.x > 2)", "MEDIAN(o.y)",
    "STDDEV(o.x)",
)  # fmt: skip
OTHERS = (
    "COUNT(*)", "COUNT(c.a)", "SUM(COALESCE(o.x, 1))", "COUNT(o.x) FILTER (o.y > 1)",
    "SUM(CASE WHEN o.x IS NULL THEN 1 ELSE 2 END)", "SUM(c.a)", "LIST(o.x ORDER BY o.x, o.id)",
    "ARG_MAX(o.id, o.y)",
)  # fmt: skip
KEYS = ("c.id", "c.g", "c.a", "c.g, c.a", "c.a % 2")


def views(seed: int, *aggregates: str) -> str:
    """A random query of such aggregates."""
    rng = Random(seed)
    key = rng.choice(KEYS)
    on = "o.c = c.id" + rng.choice(["", " AND o.x > 2", " AND o.y <> c.a", " AND o.s LIKE '%x%'"])
    before = rng.choice(["", "", " JOIN p ON p.k = c.id", " LEFT JOIN p ON p.k = c.a"])
    where = rng.choice(["", "", " WHERE c.id > 1", " WHERE c.a IS NOT NULL", " WHERE o.y > 1"])
    having = rng.choice(["", "", f" HAVING {aggregates[0]} IS NOT NULL", " HAVING COUNT(o.y) < 2"])
    shown = ", ".join(f"{one} AS n{n}" for n, one in enumerate(aggregates))
    group = rng.choice([f" GROUP BY {key}", f" GROUP BY {key}", ""])
    keys = f"{key}, " if group else ""
    return f"SELECT {keys}{shown} FROM c{before} LEFT JOIN o ON {on}{where}{group}{having}"


@pytest.mark.parametrize("seed", range(24))
def test_oracle_groups_of_a_left_join_are_those_of_duckdb(seed: int, warm_kernel: None) -> None:
    rng = Random(seed)
    some = rng.sample([*AGGREGATES, *OTHERS] if seed % 4 == 0 else AGGREGATES, 1 + seed % 3)
    assert changes_followed(TABLES, views(seed, *some), EDITS) >= 1


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT c.id, COUNT(o.id) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id", False),
        ("SELECT c.g, SUM(o.x + 1) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.g", False),
        ("SELECT c.g, COUNT(o.x) AS n, SUM(o.y) AS m, COUNT(o.s) AS k FROM c LEFT JOIN o "
         "ON o.c = c.id GROUP BY c.g", False),
        ("SELECT c.id, COUNT(*) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id", True),
        ("SELECT c.id, SUM(COALESCE(o.x, 0)) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id",
         True),
        ("SELECT c.id, COUNT(o.id) AS n FROM c LEFT JOIN o ON o.c = c.id WHERE o.x IS NULL "
         "GROUP BY c.id", True),
        ("SELECT o.s, COUNT(o.id) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY o.s", True),
    ],
)  # fmt: skip
def test_rows_without_a_match_are_made_only_where_they_count(
    query: str, kept: bool, warm_kernel: None
) -> None:
    with deltafix.sql.connect() as db:
        for table in TABLES:
            db.execute(table)
        db.execute(f"CREATE VIEW v AS {query}")
        db.insert("c", [(n, f"g{n % 10}", n) for n in range(1000)])
        db.insert("o", [(n, n % 400, n, n, "s") for n in range(4000)])
        found = db.execute("SELECT * FROM v").fetchall()
        assert found
        piped = any(stage.is_pipelined for stage in db.engine.plan.stages)
        assert piped is not kept
