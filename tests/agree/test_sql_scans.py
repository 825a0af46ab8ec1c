"""SELECTs of one table, asked once, beside DuckDB: whole passes over it, and queries over copies.

Sees: a condition that is asked of another value than a row has, an order that is another one by
column, a LIMIT that leaves other rows, a value that does not come over into the database in which
a query with groups is evaluated.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

import deltafix.sql

KEYED = "k BIGINT PRIMARY KEY, "
COLUMNS = (
    "a INTEGER, b BIGINT NOT NULL, f DOUBLE, s VARCHAR, d DATE, t TIMESTAMP, m DECIMAL(9, 2),"
    " y BOOLEAN, u INTEGER UNIQUE, v INTEGER, w INTEGER, UNIQUE (v, w)"
)
NAMES = ("a", "b", "f", "s", "d", "t", "m", "y", "u", "v", "w")
VALUES: dict[str, tuple[Any, ...]] = {
    "a": (None, 0, 1, -7, 2**31 - 1),
    "b": (0, 3, -(2**40), 2**40, 2**62),
    "f": (None, 0.0, -1.5, float("nan"), float("inf"), 1e300),
    "s": (None, "", "a", "B", "é", "a\tb"),
    "d": (None, date(1969, 12, 31), date(2026, 2, 28)),
    "t": (None, datetime(1900, 1, 1), datetime(2026, 1, 1, 12, 30, 0, 5)),
    "m": (None, Decimal("0.00"), Decimal("-12.34"), Decimal("9999999.99")),
    "y": (None, True, False),
    "u": (None, *range(40)),
    "v": (None, 1, 2, 3),
    "w": (None, *range(8)),
}
CONDITIONS = (
    "a > 0", "a IS NULL", "a IS NOT NULL", "a <> 1", "b >= 3", "b % 2 = 1", "f > 0", "f IS NULL",
    "s < 'b'", "s LIKE '%a%'", "s IN ('a', 'B')", "s NOT IN ('a', '')", "d > DATE '2000-01-01'",
    "t IS NOT NULL", "m < 0", "m + a > 1", "y", "NOT y", "a = b", "a < b OR y", "b <> 0",
    "u IS NULL", "u = 7", "u = 7 AND b <> 3", "v IS NULL AND w IS NULL", "v = 1 AND w IS NULL",
    "v = 1 AND w = 2", "u IS NOT NULL AND a = 1",
    "10 / b > 1", "COALESCE(a, 5) = 5", "CASE WHEN y THEN a ELSE b END > 0", "1 = 1", "s = 'a'",
)  # fmt: skip


def _cell(value: Any) -> Any:
    return "nan" if isinstance(value, float) and value != value else value  # noqa: PLR0124


def _rows(engine: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(map(_cell, row)) for row in engine.execute(query).fetchall()]


def _query(random: Random) -> tuple[str, bool]:
    """A SELECT, and whether it says the order of all that it shows."""
    where = " AND ".join(random.sample(CONDITIONS, random.choice((0, 1, 1, 2, 3))))
    where = f" WHERE {where}" if where else ""
    shown = random.sample(NAMES, random.randint(1, 4))
    kind = random.random()
    if kind < 0.2:
        name = random.choice(("a", "b", "m"))
        folds = f"COUNT(*), COUNT(s), MIN({name}), MAX({name}), COUNT(DISTINCT {name})"
        return f"SELECT {shown[0]}, {folds} FROM t{where} GROUP BY {shown[0]}", False
    if kind < 0.3:
        return f"SELECT DISTINCT {', '.join(shown)} FROM t{where}", False
    if kind < 0.4:
        return f"SELECT b % 7 AS n, {', '.join(shown)} FROM t{where}", False
    if kind < 0.55:
        return f"SELECT {', '.join(shown)} FROM t{where}", False
    keys = ", ".join(
        f"{name} {random.choice(('ASC', 'DESC'))} NULLS {random.choice(('FIRST', 'LAST'))}"
        for name in random.sample(shown, len(shown))
    )
    limit = random.choice(("", " LIMIT 7", " LIMIT 3 OFFSET 5", " LIMIT 0", " OFFSET 1000"))
    return f"SELECT {', '.join(shown)} FROM t{where} ORDER BY {keys}{limit}", True


@pytest.mark.parametrize("seed", range(4))
def test_oracle_passes_over_a_table_are_those_of_duckdb(seed: int) -> None:
    random, shown = Random(f"scans {seed}"), Counter[str]()
    keyed = seed % 2 == 0
    with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as judge:
        for engine in (db, judge):
            engine.execute(f"CREATE TABLE t ({KEYED if keyed else ''}{COLUMNS})")
        for size in (0, 5, 60, 60):
            for _ in range(size):
                row = tuple(random.choice(VALUES[name]) for name in NAMES)
                if keyed:
                    row = (shown["rows"], *row)
                shown["rows"] += 1
                insert = f"INSERT INTO t VALUES ({', '.join('?' * len(row))})"
                try:
                    judge.execute(insert, row)
                except duckdb.ConstraintException:
                    with pytest.raises(deltafix.sql.IntegrityError, match="UNIQUE"):
                        db.execute(insert, row)
                else:
                    db.execute(insert, row)
            for _ in range(60):
                query, is_ordered = _query(random)
                found, expected = _rows(db, query), _rows(judge, query)
                shown["ordered" if is_ordered else "bag"] += bool(expected)
                if is_ordered:
                    assert found == expected, query
                else:
                    assert Counter(found) == Counter(expected), query
    assert shown["ordered"] > 20
    assert shown["bag"] > 40
