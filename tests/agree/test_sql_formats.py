"""Days and moments in random formats, as DuckDB, PostgreSQL and Spark write and read them.

Sees: another text, another moment, an error where there is a value and a value where there is an
error. A format that is refused is counted: what has only whole parts is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.judges.sql_judge import plain

import deltafix.sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS = (
    *("TIMESTAMP '2026-01-31 10:20:30.5'", "TIMESTAMP '2024-02-29 23:59:59.999999'"),
    *("TIMESTAMP '1969-07-20 00:00:00'", "DATE '2026-12-31'", "DATE '0005-03-04'"),
    *("TIMESTAMP '2026-03-01 12:00:00.000001'", "TIMESTAMP '9999-11-09 01:02:03'"),
    "CAST(NULL AS DATE)",
)
LETTERS = {
    "duckdb": [
        f"%{one}"
        for one in (*["-y", "-m", "-d", "-H", "-I", "-M", "-S", "-j"], *"YymdHIMSfgjGVuwaAbBp%UcZ")
    ],
    "postgres": [
        "YYYY",
        *["YY", "MM", "DD", "HH24", "HH12", "HH", "MI", "SS", "US", "DDD", "Q", "Mon"],
    ],
    "spark": [
        "yyyy",
        *["yy", "MM", "dd", "HH", "hh", "mm", "ss", "EEEE", "MMM", "MMMM", "a", "d", "M"],
    ],
}
BETWEEN = ("-", " ", ":", "/", ".", ", ", "T", "")
CALLS = {"duckdb": "STRFTIME", "postgres": "TO_CHAR", "spark": "DATE_FORMAT"}
TEXTS = (
    *("2026-01-31", "2026-1-5", " 2026-01-31", "2026-01-31 10:20:30", "31/01/2026", "20260131"),
    *("26-01-31", "2026-13-01", "2026-02-30", "Jan 5, 2026", "January 5, 2026", "5 jan 2026"),
    *("12:30 PM", "10:20:30.5", "10:20:30.123456", "1:2", "2026-01-31  10:20", "abc", "", "24:00"),
    *("13:30 PM", "0:30 AM", "12:00 AM", "2026-01-31 ", "2026", "69-01-01", "68-01-01", "00:60"),
)
READ = (
    *("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y", "%Y%m%d", "%y-%m-%d", "%b %d, %Y", "%B %d, %Y"),
    *("%d %b %Y", "%I:%M %p", "%H:%M %p", "%H:%M:%S.%f", "%H:%M", "%Y-%m-%d %H:%M", "%Y", "%m"),
    *("%H:%M:%S.%g", " %Y-%m-%d", "%Y-%m-%d ", "%Y %% %m", "%H:%M%p", "%Y-%d"),
)


def calls(seed: int, dialect: str, count: int) -> Iterator[str]:
    random = Random(f"formats {dialect} {seed}")
    for _ in range(count):
        parts = [random.choice(LETTERS[dialect]) for _ in range(random.randint(1, 4))]
        shown = "".join(part + random.choice(BETWEEN) for part in parts)
        yield f"{CALLS[dialect]}({random.choice(MOMENTS)}, '{shown}')"
        if dialect == "duckdb":
            tries = random.choice(("STRPTIME", "TRY_STRPTIME"))
            yield f"{tries}('{random.choice(TEXTS)}', '{random.choice(READ)}')"


def answers(dialect: str, seed: int, count: int) -> tuple[list[tuple[str, Any]], Counter[str]]:
    """What calls give, an error as itself; and how many there are of what."""
    found, seen = list[tuple[str, Any]](), Counter[str]()
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        for call in calls(seed, dialect, count):
            try:
                value = plain(db.execute(f"SELECT {call} AS x").fetchall()[0][0])
            except deltafix.sql.NotSupportedError:
                seen["refused"] += 1
                continue
            except deltafix.sql.DataError as error:
                value = error
            found.append((call, value))
            seen["error" if isinstance(value, Exception) else "value"] += 1
    return found, seen


def test_oracle_formats_are_those_of_duckdb() -> None:
    found, seen = answers("duckdb", 0, 500)
    with duckdb.connect() as duck:
        for call, value in found:
            try:
                wanted = plain(duck.execute(f"SELECT {call}").fetchall()[0][0])
            except duckdb.Error:
                assert isinstance(value, deltafix.sql.DataError), call
            else:
                assert value == wanted, call
    assert seen["value"] > 2 * seen["refused"]
    assert seen["error"] > 50


def test_oracle_formats_are_those_of_postgres(postgres: str) -> None:
    import psycopg

    found, seen = answers("postgres", 0, 400)
    with psycopg.connect(postgres, autocommit=True) as server:
        for call, value in found:
            assert value == server.execute(f"SELECT {call}").fetchall()[0][0], call
    assert seen["value"] > seen["refused"] / 2


@pytest.mark.spark
def test_oracle_formats_are_those_of_spark(spark: SparkSession) -> None:
    found, seen = answers("spark", 0, 300)
    shown = ", ".join(f"{call} AS c{place}" for place, (call, _) in enumerate(found))
    (row,) = spark.sql(f"SELECT {shown}").collect()
    for (call, value), wanted in zip(found, row, strict=True):
        assert value == wanted, call
    assert seen["value"] > seen["refused"] / 2


@pytest.mark.parametrize(
    ("dialect", "call", "why"),
    [
        ("duckdb", "STRFTIME(DATE '2026-01-01', '%c')", "the format '%c'"),
        ("duckdb", "STRFTIME(1, '%Y')", "takes a DATE"),
        ("duckdb", "STRPTIME('1', '%Y %Y')", "once"),
        ("postgres", "TO_CHAR(DATE '2026-01-01', 'FMMonth')", "the format"),
        ("postgres", "TO_CHAR(12, '999')", "takes a DATE"),
        ("postgres", "TO_DATE('2026', 'YYYY')", "CAST"),
        ("spark", "DATE_FORMAT(DATE '2026-01-01', \"yyyy 'o'\")", "the format"),
    ],
)
def test_a_format_that_is_not_the_same_everywhere_is_refused(
    dialect: str, call: str, why: str
) -> None:
    with (
        closing(deltafix.sql.connect(dialect=dialect)) as db,
        pytest.raises(deltafix.sql.DatabaseError, match=why),
    ):
        db.execute(f"SELECT {call} AS x")
