"""Conditions of which a part may fail: a view, a SELECT and a HAVING have the same rows, or error.

Random conditions of tests that cannot fail and of one part that computes, over rows that it cannot
be computed of. Where there are rows and DuckDB has some too, they are the same: it asks the parts
in an order of its own. Over joins rows come and go one by one, and a view refuses one where the
SELECT of all rows has an error. Sees: a door that asks a part of a row which another one has left
out before, or of one that has no other row to be joined with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import Random

import duckdb
import pytest
from tests.support.amount import some

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
JOINED = (
    *("a IS NULL", "c IS NOT NULL", "a < 5", "b = 0", "a <> c", "c IN (0, 1, NULL)", "a = d"),
    *("NOT d > a", "c = 0", "CAST(d AS VARCHAR) LIKE '%7%'"),
)
FAILING = (
    *("a + a > 1", "d + 2147483640 > a", "a * c = 0", "-b > a", "a - d < 0", "ABS(c) < 3"),
    *("a + 1 = c", "c + c = b", "CAST(c AS SMALLINT) > b", "LENGTH(CAST(b + 1 AS VARCHAR)) < 4"),
    *("CAST(CAST(b AS VARCHAR) AS SMALLINT) < 7", "CAST(b AS SMALLINT) = b"),
)
FROM = ("t JOIN u ON b = d", "t JOIN u ON a = c", "t, u", "t JOIN u ON b = c AND a < 9")
OUTER = ("t LEFT JOIN u ON b = d", "t LEFT JOIN u ON TRUE", "t FULL JOIN u ON a = c")
ROWS = (*VALUES, 70000, 2147483647, 2147483647, 2147483640)
MADE = "CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (c INTEGER, d INTEGER)"


def condition(random: Random, depth: int, tests: tuple[str, ...] = TESTS) -> str:
    """Tests, and a mark where a part computes."""
    if not depth or random.random() < 0.2:
        return random.choice((*tests, "{}", "{}"))
    kind = random.choice(("AND", "AND", "OR", "NOT"))
    if kind == "NOT":
        return f"NOT ({condition(random, depth - 1, tests)})"
    parts = [condition(random, depth - 1, tests) for _ in range(random.randint(2, 3))]
    return f"({f' {kind} '.join(parts)})"


def answer(query: str, before: str, rows: list[tuple[int | None, ...]]) -> object:
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE TABLE t (a INTEGER, b INTEGER); {before}")
        try:
            db.insert("t", rows)
            return Counter(db.execute(query).fetchall())
        except deltafix.sql.DataError:
            return "error"


@pytest.mark.parametrize("group", range(some(3)))
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


def told(run: Callable[[], object]) -> object:
    """What it gives, or what its error says."""
    try:
        return run()
    except deltafix.sql.DataError as error:
        return str(error).partition("]: ")[2].partition("\n")[0].partition(";")[0]


@pytest.mark.parametrize("group", range(some(4)))
def test_oracle_a_view_refuses_a_row_where_the_query_of_all_rows_has_an_error(group: int) -> None:
    seen = Counter[str]()
    for seed in range(60):
        random = Random(f"joined {group} {seed}")
        test = ""
        while not 1 <= test.count("{}") <= 3:
            test = condition(random, random.choice((1, 2)), JOINED)
        while "{}" in test:
            test = test.replace("{}", random.choice(FAILING), 1)
        shown = random.choice(("a, c", "a, c", "b + 1 AS n, d", "COUNT(*) AS n"))
        query = f"SELECT {shown} FROM {random.choice((*FROM, *FROM, *OUTER))} WHERE {test}"
        held = Counter[tuple[str, tuple[int | None, ...]]]()
        with closing(deltafix.sql.connect()) as maintained, closing(deltafix.sql.connect()) as db:
            maintained.execute(f"{MADE}; CREATE VIEW v AS {query}")
            db.execute(MADE)
            for step in range(8):
                table, row = random.choice("tu"), tuple(random.choices(ROWS, k=2))
                goes = random.choice(sorted(held, key=repr)) if held and step % 4 == 3 else None
                if goes is not None:
                    table, row = goes
                columns = "ab" if table == "t" else "cd"
                which = " AND ".join(f"{one} IS NOT DISTINCT FROM ?" for one in columns)
                edit = f"INSERT INTO {table} VALUES (?, ?)"
                if goes is not None:
                    edit = f"DELETE FROM {table} WHERE {which}"
                found = told(lambda: maintained.execute(edit, row))  # noqa: B023  called at once
                db.execute("BEGIN")
                db.execute(edit, row)
                wanted = told(lambda: Counter(db.execute(query).fetchall()))  # noqa: B023
                alone = len(held) <= 1
                where = (query, edit, row, held, found, wanted)
                assert isinstance(found, str) == isinstance(wanted, str), where
                if isinstance(wanted, str):
                    assert found == f"{wanted}, in view 'v'" or not alone, where
                    db.execute("ROLLBACK")
                    seen["error"] += 1
                    continue
                db.execute("COMMIT")
                held[table, row] += 1
                if goes is not None:
                    del held[goes]
                assert Counter(maintained.execute("SELECT * FROM v").fetchall()) == wanted, where
                seen["rows" if wanted else "none"] += 1
            maintained.engine.check_invariants()
    assert min(seen[one] for one in ("error", "rows", "none")) > 9, seen
