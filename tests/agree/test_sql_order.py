"""Conditions of which a part may fail: a view, a SELECT and a HAVING have the same rows, or error.

Random conditions of tests that cannot fail and of one part that computes, over rows that it cannot
be computed of. Where there are rows and DuckDB has some too, they are the same: it asks the parts
in an order of its own. Sees: a door that asks a part of a row which another one has left out
before.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from random import Random

import duckdb
import pytest

import deltafix.sql

TESTS = (
    *("a IS NULL", "b IS NOT NULL", "a < 5", "b = 0", "a <> b", "a IN (0, 1, NULL)"),
    *("b BETWEEN 0 AND 9", "a = b", "NOT b > a"),
)
COMPUTED = (
    *("a + a > 1", "b + 2147483640 > a", "a * b = 0", "-b > a", "a - b < 0", "ABS(a) < 3"),
    *("CAST(a AS SMALLINT) > b", "CAST(CAST(b AS VARCHAR) AS SMALLINT) < 7"),
)
VALUES = (0, 1, 7, 70000, 2147483647, -2147483648, None)
DOORS = (
    ("SELECT a, b FROM t WHERE {}", ""),
    ("SELECT * FROM v", "CREATE VIEW v AS SELECT a, b FROM t WHERE {}"),
    ("SELECT a, b FROM t GROUP BY a, b HAVING {}", ""),
    ("SELECT * FROM v", "CREATE VIEW v AS SELECT a, b FROM t GROUP BY a, b HAVING {}"),
)


def condition(random: Random, depth: int) -> str:
    """Tests, and a mark where a part computes."""
    if not depth or random.random() < 0.2:
        return random.choice((*TESTS, "{}", "{}"))
    kind = random.choice(("AND", "AND", "OR", "NOT"))
    if kind == "NOT":
        return f"NOT ({condition(random, depth - 1)})"
    parts = [condition(random, depth - 1) for _ in range(random.randint(2, 3))]
    return f"({f' {kind} '.join(parts)})"


def answer(query: str, before: str, rows: list[tuple[int | None, ...]]) -> object:
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE TABLE t (a INTEGER, b INTEGER); {before}")
        try:
            db.insert("t", rows)
            return Counter(db.execute(query).fetchall())
        except deltafix.sql.DataError:
            return "error"


@pytest.mark.parametrize("group", range(3))
def test_oracle_every_door_asks_the_parts_of_a_condition_in_one_order(group: int) -> None:
    seen = Counter[str]()
    for seed in range(50):
        random = Random(f"order {group} {seed}")
        text = ""
        while text.count("{}") != 1:
            text = condition(random, 2)
        test = text.format(random.choice(COMPUTED))
        drawn = [tuple(random.choices(VALUES, k=2)) for _ in range(random.randint(1, 4))]
        rows = [*dict.fromkeys(drawn)]
        found = [answer(query.format(test), made.format(test), rows) for query, made in DOORS]
        assert all(one == found[0] for one in found), (test, rows, found)
        with duckdb.connect() as duck:
            duck.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
            duck.executemany("INSERT INTO t VALUES (?, ?)", rows)
            try:
                wanted: object = Counter(duck.execute(DOORS[0][0].format(test)).fetchall())
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                wanted = "error"
        if "error" not in (found[0], wanted):
            assert found[0] == wanted, (test, rows)
        seen["ours " + ("error" if found[0] == "error" else "rows")] += 1
        seen["theirs " + ("error" if wanted == "error" else "rows")] += 1
    assert min(seen.values()) > 4, seen
