"""agree_*: what USING and NATURAL show of two columns with other types, beside DuckDB.

Sees: a column that has the type, and so the values, of the wrong side.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

import duckdb
import pytest
from tests.judges.sql_judge import bag

from deltafix import sql

VALUES = {
    "INTEGER": ("0", "1", "2", "-3"),
    "BIGINT": ("0", "1", "2", "90071992547"),
    "DECIMAL(6, 2)": ("0.00", "0.25", "1.00", "1.50"),
    "DECIMAL(12, 4)": ("0.0000", "0.2501", "1.0000", "2.0000"),
    "DOUBLE": ("0", "0.25", "1", "1e10"),
    "DATE": ("DATE '2024-01-01'", "DATE '2024-02-29'"),
    "TIMESTAMP": ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 12:00:00'"),
}
TIMES = ("DATE", "TIMESTAMP")
PAIRS = [
    (left, right) for left, right in permutations(VALUES, 2) if (left in TIMES) == (right in TIMES)
]
QUERIES = (
    "SELECT k, x, y FROM l {side} JOIN r USING (k)",
    "SELECT * FROM l NATURAL {side} JOIN r",
    "SELECT k, COUNT(*) FROM l {side} JOIN r USING (k) GROUP BY k",
    "SELECT l.k AS a, r.k AS b, k FROM l {side} JOIN r USING (k) WHERE k IS NOT NULL",
    "SELECT k, x, y, z FROM l {side} JOIN r USING (k)"
    " {side} JOIN (SELECT k, y AS z FROM r) AS s USING (k)",
)


@pytest.mark.parametrize("side", ["", "LEFT", "RIGHT", "FULL"])
def test_agree_merged_columns_have_the_values_of_the_side_that_is_there(side: str) -> None:
    rng, compared = Random(side), 0
    for left, right in PAIRS:
        ours, other = sql.connect(), duckdb.connect()

        def both(text: str, ours: sql.Connection = ours, other: object = other) -> None:
            ours.execute(text)
            other.execute(text)  # type: ignore[attr-defined]

        both(f"CREATE TABLE l (k {left}, x INTEGER)")
        both(f"CREATE TABLE r (k {right}, y INTEGER)")
        for number, query in enumerate(QUERIES):
            both(f"CREATE VIEW v{number} AS {query.format(side=side)}")
        for step in range(6):
            table, kind = rng.choice((("l", left), ("r", right)))
            rows = ", ".join(
                f"({rng.choice((*VALUES[kind], 'NULL'))}, {rng.randrange(3)})" for _ in range(3)
            )
            both(f"INSERT INTO {table} VALUES {rows}")
            if step == 4:
                both(f"DELETE FROM {table} WHERE k = {VALUES[kind][1]}")
            for number, query in enumerate(QUERIES):
                wanted = bag(other.execute(f"SELECT * FROM v{number}").fetchall())
                for text in (f"SELECT * FROM v{number}", query.format(side=side)):
                    found = bag(ours.execute(text).fetchall())
                    assert found == wanted, (left, right, text)
                    compared += 1
    assert compared == 60 * len(PAIRS)
