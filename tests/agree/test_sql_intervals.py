"""Intervals as people write them, as DuckDB, PostgreSQL and Spark read them, and as columns.

Sees: a text of which a part is lost (a time behind the days, AGO), and a value where there is an
error; what of columns of them is not equal that is of one length, or keeps other parts. What is
refused is counted: of what the engine takes, not too much is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.judges.sql_judge import changes_followed, plain

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


PARTS = (
    *("0 days", "1 month", "30 days", "720:00:00", "31 days", "29 days 24:00:00", "-1 month"),
    *("-30 days", "1 day", "24:00:00", "1 year 2 months -3 days 00:00:07.5", "-05:06:07"),
)
"""Many are of one length: months of 30 days, and days of 24 hours."""
COMPARED = (
    *(f"SELECT x.id, y.id AS o FROM t x JOIN t y ON x.d {op} y.e" for op in ("=", "<", ">=", "<>")),
    "SELECT id FROM t WHERE d = INTERVAL '30 days' OR e IN ('1 day', INTERVAL '0 days')",
    "SELECT id FROM t WHERE d BETWEEN '29 days' AND '1 month' AND e IS DISTINCT FROM d",
    "SELECT id, d < e AS a, NULLIF(d, e) IS NULL AS b, CASE d WHEN e THEN 1 END AS c FROM t",
    "SELECT id FROM t WHERE d IN (SELECT e FROM t) AND NOT d > ALL (SELECT e FROM t)",
    "SELECT id FROM t WHERE d NOT IN (SELECT e FROM t WHERE id < 5)",
    "SELECT x.id, y.id AS o FROM t x FULL JOIN t y ON x.d = y.e AND x.id < y.id",
    "SELECT COUNT(*) AS n FROM t WHERE m - k > INTERVAL '30 days' OR m - k = d",
)
COMPUTED = tuple(
    f"SELECT id, {', '.join(f'{one} AS c{n}' for n, one in enumerate(some))} FROM t"
    for some in (
        ("CAST(d + e AS TEXT)", "CAST(d - e AS TEXT)", "CAST(-d AS TEXT)", "d || ''"),
        ("CAST(d * id AS TEXT)", "CAST(d * 1.5 AS TEXT)", "CAST(d / 7 AS TEXT)", "m + d", "k - e"),
        ("CAST(m - k AS TEXT)", "CAST(AGE(m, k) AS TEXT)", "CAST(CAST(m AS DATE) - k AS TEXT)"),
        *(
            (f"EXTRACT({part} FROM d)", f"EXTRACT({part} FROM e)")
            for part in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "EPOCH")
        ),
        ("EPOCH_MS(d)", "EPOCH_US(e)", "CAST(TO_DAYS(id) + TO_SECONDS(0.5) AS TEXT)"),
        ("CAST(INTERVAL (id) HOUR AS TEXT)", "m + INTERVAL (id) MONTH", "DATE_ADD(k, d)"),
        ("CAST([d, e][1] AS TEXT)", "CAST({'a': d}.a AS TEXT)", "LIST_CONTAINS([e], d)"),
    )
)


def edits_of(random: Random, wide: bool) -> list[str]:
    """Rows with intervals, some of which go and come as others."""

    def interval() -> str:
        if random.random() < 0.15:
            return "NULL"
        if not wide:
            return f"'{random.choice(PARTS)}'"
        counts = [random.choice((0, 1, -1, random.randint(-90, 90))) for _ in range(3)]
        micros = random.randint(0, 999_999)
        return f"'{counts[0]} months {counts[1]} days {counts[2]} hours {micros} microseconds'"

    def moment() -> str:
        day = f"20{random.randint(20, 24)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        return random.choice(("NULL", f"'{day}'", f"'{day} 1{random.randint(0, 9)}:20:30.25'"))

    edits = []
    for number in range(24):
        row = f"{number}, {interval()}, {interval()}, {moment()}, {moment()}"
        edits.append(f"INSERT INTO t VALUES ({row})")
        if number % 3 == 2:
            edits.append(f"UPDATE t SET d = {interval()} WHERE id = {random.randint(0, number)}")
            edits.append(f"DELETE FROM t WHERE d = {interval()}")
    return edits


TABLE = "CREATE TABLE t (id INTEGER, d INTERVAL, e INTERVAL, m TIMESTAMP, k TIMESTAMP)"


@pytest.mark.parametrize("query", [*COMPARED, *COMPUTED])
def test_oracle_views_of_intervals_follow_what_duckdb_finds(query: str, warm_kernel: None) -> None:
    random = Random(query)
    changed = changes_followed([TABLE], query, edits_of(random, wide=query in COMPUTED))
    assert changed > 2


def test_oracle_intervals_are_written_and_subtracted_as_by_postgres(
    postgres: str, warm_kernel: None
) -> None:
    import psycopg

    random, count = Random("written"), 0
    with (
        psycopg.connect(postgres, autocommit=True) as server,
        closing(deltafix.sql.connect(dialect="postgres")) as db,
    ):
        for edit in edits_of(random, wide=True):
            row = edit.partition("VALUES ")[2]
            asked = (
                "SELECT CAST(d AS TEXT) AS a, CAST(d + e AS TEXT) AS b, CAST(d * 1.5 AS TEXT) "
                "AS c, CAST(m - k AS TEXT) AS f, CAST(AGE(m, k) AS TEXT) AS g, d < e AS h, "
                "CAST(EXTRACT(EPOCH FROM d) AS DOUBLE PRECISION) AS i FROM (SELECT "
                "CAST(w AS INTERVAL) AS d, CAST(x AS INTERVAL) AS e, CAST(y AS TIMESTAMP) AS m, "
                f"CAST(z AS TIMESTAMP) AS k FROM (VALUES {row}) AS v (n, w, x, y, z)) AS u"
            )
            if row:
                count += 1
                wanted = server.execute(asked).fetchall()
                assert db.execute(asked).fetchall() == wanted, row
    assert count > 10


def test_oracle_sums_and_means_of_intervals_are_those_of_their_parts(warm_kernel: None) -> None:
    random, kept = Random("sums"), dict[int, tuple[int, int, int]]()
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, d INTERVAL)")
        db.execute("CREATE VIEW v AS SELECT g, SUM(d) AS s, AVG(d) AS a FROM t GROUP BY g")
        db.execute(
            "CREATE VIEW w AS SELECT id, SUM(d) OVER (PARTITION BY g ORDER BY id) AS s FROM t"
        )
        for number in range(60):
            if number % 4 == 3:
                gone = random.choice([*kept])
                del kept[gone]
                db.execute("DELETE FROM t WHERE id = ?", [gone])
                continue
            parts = tuple(random.randint(-50, 50) for _ in range(3))
            kept[number] = parts
            db.execute(
                "INSERT INTO t VALUES (?, ?, ?)",
                [number, number % 2, deltafix.sql.Interval(*parts)],
            )
            found = {g: (s, a) for g, s, a in db.execute("SELECT * FROM v")}
            for group in {one % 2 for one in kept}:
                mine = [parts for one, parts in kept.items() if one % 2 == group]
                total = deltafix.sql.Interval(*map(sum, zip(*mine, strict=True)))
                assert found[group][0] == total
                length = (total.months * 30 + total.days) * 86_400_000_000 + total.microseconds
                mean = found[group][1]
                micros = (mean.months * 30 + mean.days) * 86_400_000_000 + mean.microseconds
                assert abs(micros - length / len(mine)) < 1
            (last,) = db.execute("SELECT s FROM w ORDER BY id DESC LIMIT 1").fetchone() or (None,)
            assert last == found[max(kept) % 2][0]
        db.engine.check_invariants()
