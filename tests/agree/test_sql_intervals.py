"""Intervals as people write them, as DuckDB, PostgreSQL and Spark read them.

Sees: a text of which a part is lost (a time behind the days, AGO), and a value where there is an
error. What is refused is counted: of what the engine takes, not too much is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.judges.sql_judge import plain

import deltafix.sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = ("1", "2", "-3", "0", "1.5", "-0.5", "2.25", "0.1", "+1", ".5", "- 1", "10", "1.")
WORDS = {
    "year month week day hour minute second quarter millisecond microsecond": 6,
    "years months weeks days hours minutes seconds milliseconds Days MONTHS": 6,
    "mon mons yr yrs y w d h hr hrs m min mins s sec secs ms msec us usec": 2,
    "fortnight decade xday": 1,
}
CLOCKS = (
    "03:00:00",
    "-03:00:00",
    "1:2:3.5",
    "3:05",
    "25:00:00",
    "00:61:00",
    "1:2:60",
    "03:00:00.123456",
)
UNITS = ("DAY", "MONTH", "HOUR", "YEAR")
STARTS = ("2024-01-31 12:00:00", "2023-12-01 00:00:00.5", "2024-02-29 23:59:59")


def written(random: Random) -> str:
    """An INTERVAL: of one number and a word outside, of parts, of a clock, or of all these."""
    groups = random.choices([*WORDS], [*WORDS.values()], k=3)
    words = [random.choice(group.split()) for group in groups]
    if random.random() < 0.15:
        return f"INTERVAL '{random.choice(COUNTS)}' {random.choice(UNITS)}"
    count = random.choice((1, 1, 1, 2, 2, 3))
    parts = [f"{random.choice(COUNTS)}{random.choice((' ', ''))}{word}" for word in words[:count]]
    if random.random() < 0.4:
        parts = [*parts[: random.randint(0, count)], random.choice(CLOCKS)]
    if random.random() < 0.1:
        parts.append(random.choice(("ago", "2", "AGO", ",")))
    if random.random() < 0.05:
        random.shuffle(parts)
    return f"INTERVAL '{' '.join(parts)}'"


def agrees(dialect: str, count: int, wanted_of: Callable[[str], Any]) -> Counter[str]:
    """What becomes of random intervals; `wanted_of` raises where the engine takes none."""
    random, seen = Random(f"intervals {dialect}"), Counter[str]()
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        for _ in range(count):
            zone = "TIMESTAMP_NTZ" if dialect == "spark" else "TIMESTAMP"
            start = f"CAST('{random.choice(STARTS)}' AS {zone})"
            asked = f"SELECT {start} {random.choice('+-')} {written(random)} AS x"
            try:
                found = plain(db.execute(asked).fetchall()[0][0])
            except deltafix.sql.DatabaseError:
                found = None
            try:
                wanted = plain(wanted_of(asked))
            except Exception as error:
                assert type(error).__module__.split(".")[0] != "builtins", asked
                assert found is None, asked
                seen["error"] += 1
            else:
                assert found in (None, wanted), asked
                seen["refused" if found is None else "same"] += 1
    return seen


def test_oracle_intervals_are_those_of_duckdb() -> None:
    with duckdb.connect() as duck:
        seen = agrees("duckdb", 1500, lambda sql: duck.execute(sql).fetchall()[0][0])
    assert seen["same"] > 1.5 * seen["refused"]
    assert seen["error"] > 100


def test_oracle_intervals_are_those_of_postgres(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as server:
        seen = agrees("postgres", 1500, lambda sql: server.execute(sql).fetchall()[0][0])
    assert seen["same"] > 1.5 * seen["refused"]
    assert seen["error"] > 100


@pytest.mark.spark
def test_oracle_intervals_are_those_of_spark(spark: SparkSession) -> None:
    seen = agrees("spark", 100, lambda sql: spark.sql(sql).collect()[0][0])
    assert seen["same"] > seen["refused"]
