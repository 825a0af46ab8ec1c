"""TIME, and AT TIME ZONE, as DuckDB and PostgreSQL have them, written, computed and kept in views.

Sees: a part of a text that is lost, a time that does not go round the clock, an hour that clocks of
a zone show twice or never. What is refused though they take it is listed: 24:00, which Python has
not, and a zone behind a time, which DuckDB passes over.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pytest
from tests.judges.sql_judge import plain, views_followed

import deltafix.sql

TEXTS = (
    *("10:20", "10:20:30", "10:20:30.5", "1:2:3", "1:2", "10:20:60", "10:20:30+00", "10:20:30Z"),
    *("2026-01-31 10:20:30", "2026-01-31T1:2:3", " 10:20:30 ", "10", "102030", "10:20:30.", "10:2"),
    *("10:20 PM", "T10:20:30", "010:20:30", "25:00:00", "10-20-30", "10:20.5", "", "infinity"),
    *("23:59:59.9999999", "10:20:30.123456789", "10:20:30 UTC", "2026-01-31", "2026-02-30 10:00"),
)
OTHERWISE = ("24:00:00", "2026-01-31 24:00", "10:20:30+02")
"""What DuckDB reads, and is an error here."""
COMPUTED = (
    "CAST(a AS TEXT)", "a + i", "i + a", "a - i", "d + a", "a + d", "EXTRACT(HOUR FROM a)",
    "MINUTE(a)", "EXTRACT(EPOCH FROM a)", "a < b", "a = b", "a IS DISTINCT FROM b",
    "a BETWEEN TIME '01:00' AND b", "a IN ('10:20:30.5', b)", "GREATEST(a, b)", "COALESCE(a, b)",
    "NULLIF(a, b)", "CAST(m AS TIME)", "a > '12:00'", "CASE WHEN a < b THEN a ELSE b END",
    "a || '!'", "CONCAT(a, '-', b)", "DATE_PART('hour', b)", "MAKE_TIME(h, 5, 30.25)",
)  # fmt: skip
OF_DUCKDB = (
    "SECOND(a)", "EPOCH_MS(a)", "EPOCH_US(a)", "EXTRACT(MILLISECOND FROM a)",
    "EXTRACT(MICROSECOND FROM b)", "DATE_ADD(a, i)", "[a, b]", "LIST_SORT([a, b, a])",
    "{'x': a}.x", "TRY_CAST(h || CAST(a AS TEXT) AS TIME)",
)  # fmt: skip
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe")


def asked(run: Any, sql: str) -> Any:
    """The values of a query; None where it is an error."""
    try:
        return [*map(plain, run(sql).fetchall()[0])]
    except (duckdb.Error, deltafix.sql.DatabaseError):
        return None


def clock(random: Random) -> str:
    hour, minute, second = (
        random.choice((0, 10, 23)),
        random.choice((0, 20, 59)),
        random.choice((0, 30)),
    )
    return f"{hour:02}:{minute:02}:{second:02}{random.choice(('', '.5', '.000001', '.999999'))}"


def values(random: Random) -> str:
    """A row of `m TIMESTAMP, d DATE, a TIME, b TIME, i INTERVAL, h INTEGER`."""
    day = f"2026-0{random.randint(1, 9)}-1{random.randint(0, 9)}"
    drawn = (
        f"'{day} {clock(random)}'",
        f"'{day}'",
        f"'{clock(random)}'",
        f"'{clock(random)}'",
        f"'{random.choice(('-1 month 25:00:00', '3 days', '00:00:00.5', '-10:20:30'))}'",
        str(random.randint(0, 23)),
    )
    return ", ".join(one if random.random() < 0.9 else "NULL" for one in drawn)


COLUMNS = "m TIMESTAMP, d DATE, a TIME, b TIME, i INTERVAL, h INTEGER"


def test_oracle_times_of_texts_are_those_of_duckdb() -> None:
    with duckdb.connect() as duck, closing(deltafix.sql.connect()) as db:
        found = {one: asked(db.execute, f"SELECT CAST('{one}' AS TIME)") for one in TEXTS}
        assert found == {one: asked(duck.execute, f"SELECT CAST('{one}' AS TIME)") for one in TEXTS}
        assert sum(one is None for one in found.values()) > 8
        for one in OTHERWISE:
            assert asked(duck.execute, f"SELECT CAST('{one}' AS TIME)") is not None
            with pytest.raises(deltafix.sql.DataError, match="is no TIME; write 23:59:59"):
                db.execute(f"SELECT CAST('{one}' AS TIME)")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_oracle_what_is_computed_of_times(dialect: str, request: pytest.FixtureRequest) -> None:
    import psycopg

    random, computed = Random(dialect), [*COMPUTED, *(OF_DUCKDB if dialect == "duckdb" else ())]
    computed += ["a - b"] if dialect == "postgres" else []
    other: Any = duckdb.connect()
    if dialect == "postgres":
        other = psycopg.connect(request.getfixturevalue("postgres"), autocommit=True)
        computed = [one for one in computed if not one.startswith(("MINUTE", "EPOCH"))]
    with closing(other), closing(deltafix.sql.connect(dialect=dialect)) as db:
        for engine in (db, other):
            engine.execute(f"CREATE {'TEMPORARY ' * (engine is other)}TABLE t ({COLUMNS})")
        for _ in range(40):
            row = f"INSERT INTO t VALUES ({values(random)})"
            for engine in (db, other):
                engine.execute("DELETE FROM t")
                engine.execute(row)
            for one in computed:
                (found,) = db.execute(f"SELECT {one} FROM t").fetchall()[0]
                (wanted,) = other.execute(f"SELECT {one} FROM t").fetchall()[0]
                assert plain(found) == plain(wanted), (row, one)


def test_agree_views_of_times_follow_their_rows() -> None:
    queries = [
        *(f"SELECT {one} AS x, COUNT(*) AS n FROM t GROUP BY ALL" for one in COMPUTED),
        "SELECT d, MIN(a) AS x, MAX(b) AS y, COUNT(DISTINCT a) AS z FROM t GROUP BY d",
        "SELECT t.a, u.b FROM t JOIN t AS u ON t.a = u.b AND t.b < u.a",
        "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a, d, m, i, h) AS n FROM t",
        "SELECT a, b, h FROM t ORDER BY b DESC NULLS LAST, a, h LIMIT 3",
        "SELECT LIST(a ORDER BY a) AS x, MODE(h) AS y FROM t WHERE a > TIME '10:00'",
    ]
    random = Random("views of times")
    edits = [f"INSERT INTO t VALUES ({values(random)})" for _ in range(14)]
    for _ in range(6):
        edits.insert(
            random.randrange(4, len(edits)),
            random.choice(
                (
                    "DELETE FROM t WHERE a < b",
                    "UPDATE t SET a = b + i WHERE h < 12",
                    f"UPDATE t SET b = '{clock(random)}' WHERE a IS NULL OR h > 15",
                )
            ),
        )
    views_followed(f"CREATE TABLE t ({COLUMNS})", queries, edits)


def test_oracle_clocks_of_zones_are_those_of_duckdb() -> None:
    """Around the changes of summer, and any day from 1950 on."""
    random, seen = Random("zones"), 0
    turns = [
        datetime(2026, 3, 29, 2), datetime(2026, 10, 25, 2), datetime(2026, 3, 8, 2),
        datetime(2026, 11, 1, 1), datetime(2011, 12, 30), datetime(2026, 4, 5, 1, 45),
        datetime(2026, 10, 4, 2),
    ]  # fmt: skip
    with duckdb.connect() as duck, closing(deltafix.sql.connect()) as db:
        duck.execute("SET TimeZone = 'UTC'")
        for _ in range(400):
            at = random.choice(
                (*turns, datetime(1950, 1, 1) + timedelta(hours=random.randrange(900_000)))
            )
            at += timedelta(minutes=random.choice((-61, -30, 0, 15, 30, 59, 60, 90)))
            zone = random.choice(ZONES)
            query = f"""SELECT CAST(TIMESTAMP '{at}' AT TIME ZONE '{zone}' AS TEXT),
                TIMESTAMPTZ '{at}+00' AT TIME ZONE '{zone}',
                timezone(UPPER('{zone}'), TIMESTAMP '{at}') AT TIME ZONE 'UTC'"""
            found = asked(db.execute, query)
            assert found == asked(duck.execute, query), query
            seen += found[1] != at
        assert seen > 300


def test_zones_are_told_where_they_are_none() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (m TIMESTAMPTZ, z TEXT)")
        db.execute("CREATE VIEW v AS SELECT z, m AT TIME ZONE z AS here FROM t")
        db.execute("INSERT INTO t VALUES ('2026-07-01 12:00+00', 'Asia/Tokyo')")
        assert db.execute("SELECT * FROM v").fetchall() == [
            ("Asia/Tokyo", datetime(2026, 7, 1, 21))
        ]
        with pytest.raises(deltafix.sql.DataError, match=r"'Mars' is no time zone.*Europe/Berlin"):
            db.execute("INSERT INTO t VALUES ('2026-07-01 12:00+00', 'Mars')")
        with pytest.raises(deltafix.sql.ProgrammingError, match="'Mars' is no time zone"):
            db.execute("SELECT m AT TIME ZONE 'Mars' FROM t")
        with pytest.raises(deltafix.sql.ProgrammingError, match="DATE AT TIME ZONE of TEXT"):
            db.execute("SELECT DATE '2026-07-01' AT TIME ZONE 'UTC'")
        with pytest.raises(deltafix.sql.DataError, match="a year that is not between 1 and 9999"):
            db.execute("SELECT TIMESTAMP '9999-12-31 23:00' AT TIME ZONE 'America/New_York'")
    with (
        closing(deltafix.sql.connect(dialect="postgres")) as db,  # its CET knows no summer
        pytest.raises(deltafix.sql.ProgrammingError, match="'CET' is no time zone"),
    ):
        db.execute("SELECT TIMESTAMP '2026-07-01' AT TIME ZONE 'CET'")


def test_what_a_time_is_not_for() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (a TIME PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES ('10:20')")
        with pytest.raises(deltafix.sql.IntegrityError):
            db.execute("INSERT INTO t VALUES ('10:20:00')")
        for query, said in (
            ("SELECT a - a FROM t", "TIME and TIME"),
            ("SELECT a * 2 FROM t", "TIME and INTEGER"),
            ("SELECT CAST(a AS TIMESTAMP) FROM t", "no cast from TIME to TIMESTAMP"),
            ("SELECT CAST(TIMESTAMPTZ '2026-01-01 10:00+02' AS TIME)", "no cast"),
            (
                "SELECT COUNT(*) OVER (ORDER BY a RANGE 1 PRECEDING) FROM t",
                "RANGE with an offset measures by one column",
            ),
            ("SELECT EXTRACT(YEAR FROM a) FROM t", "EXTRACT of YEAR of TIME"),
            ("SELECT CAST('1:00' AS TIMETZ)", "type TIMETZ"),
        ):
            with pytest.raises(
                (deltafix.sql.ProgrammingError, deltafix.sql.NotSupportedError), match=said
            ):
                db.execute(query)
    with (
        closing(deltafix.sql.connect(dialect="spark")) as db,
        pytest.raises(deltafix.sql.NotSupportedError, match="type TIME"),
    ):
        db.execute("CREATE TABLE t (a TIME)")
