"""Texts as days and moments, of most ways they are written, as DuckDB reads them.

Sees: a text that is NULL by TRY_CAST, or an error by CAST, though DuckDB reads it, and one that is
read as another day or moment. What is named on the page of SQL is left out: other zones than UTC in
a DATE or TIMESTAMP, names of zones, (BC), infinity, and blanks that DuckDB stumbles over.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from contextlib import closing
from random import Random

import duckdb
import pyarrow as pa
import pytest
from tests.support.amount import cases

import deltafix.sql

TEXTS = 40 * cases(30)
KINDS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
YEARS = ("2026", "1969", "0001", "9999", "2024", "26", "7", "02026", "10000", "0000", "20260")
NUMBERS = ("1", "01", "2", "02", "12", "10", "29", "30", "31", "13", "0", "00", "001", "")
CLOCKS = (
    "10:00", "1:02", "10:00:00", "1:2:3", "23:59:59", "24:00", "24:00:00", "24:00:01", "25:00",
    "10:60", "10:00:60", "10:00:00.5", "10:00:00.123456", "10:00:00.1234567", "10:00:00.9999999",
    "10:00:00.", "24:00:00.0", "10", "100:00", "10-00", "10:00:00,5", "23:59:59.999999999",
)  # fmt: skip
ZONES = ("", "", "", "Z", " UTC", " utc", "+00", "-00:00", "z", "+5", "x")
FAR = ("+05", "-05:30", "+0530", "+05:30:15", "-12", "+14:00")


def _text(random: Random, kind: str) -> str:
    sign = random.choice(("-", "-", "-", "-", "/", "\\", " ", ".", ""))
    other = sign if random.random() < 0.95 else "/"
    day = sign.join((random.choice(YEARS), random.choice(NUMBERS)))
    day = random.choice(("", "", " ", "\t")) + day + other + random.choice(NUMBERS)
    if random.random() < 0.3:
        return day
    between = random.choice((" ", " ", "T", "T", "  ", "t", "", "_"))
    zones = (*ZONES, *FAR) if kind == "TIMESTAMPTZ" else ZONES
    return day + between + random.choice(CLOCKS) + random.choice(zones)


PARTS = ("YEAR", "QUARTER", "MONTH", "DAY")
UNITS = (*PARTS, "HOUR", "MINUTE", "SECOND", "MILLISECOND")
EDGES = (
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
)


def test_oracle_parts_of_days_and_moments_need_no_python() -> None:
    """Every first and last day of a month in 800 years, and moments around their midnights."""
    random = Random(5)
    months = [dt.datetime(year, month, 1) for year in range(1600, 2401) for month in range(1, 13)]
    near = [dt.timedelta(days=-1), dt.timedelta(0), dt.timedelta(microseconds=-1)]
    moments = [*EDGES, *(one + random.choice(near) for one in months)]
    moments += [random.choice(months) + dt.timedelta(seconds=random.random() * 1e8) for _ in months]
    table = pa.table(
        {
            "k": range(len(moments)),
            "a": pa.array(moments, pa.timestamp("us")),
            "b": pa.array([one.date() for one in moments], pa.date32()),
            "c": pa.array([one if n % 3 else None for n, one in enumerate(moments)]),
        }
    )
    shown = [f"EXTRACT({part} FROM {of})" for part in PARTS for of in "abc"]
    shown += [f"CAST(DATE_TRUNC('{unit}', {of}) AS TIMESTAMP)" for unit in UNITS for of in "abc"]
    shown += ["CAST(a AS DATE)", "CAST(c AS DATE)", "YEAR(a)", "QUARTER(b)", "MONTH(c)", "DAY(a)"]
    columns = "k BIGINT PRIMARY KEY, a TIMESTAMP NOT NULL, b DATE NOT NULL, c TIMESTAMP"
    with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
        for one in (db, duck):
            one.execute(f"CREATE TABLE t ({columns})")
        for part in shown:
            db.execute(f"CREATE VIEW v{shown.index(part)} AS SELECT k, {part} AS x FROM t")
        asked = {one.name for one in db.catalog.program().functors}
        assert all(name.startswith("~") for name in asked), "Python is asked"
        db.insert("t", table)
        duck.register("given", table)
        duck.execute("INSERT INTO t SELECT * FROM given")
        for number, part in enumerate(shown):
            wanted = duck.execute(f"SELECT k, {part} AS x FROM t ORDER BY k").fetchall()
            assert db.execute(f"SELECT * FROM v{number} ORDER BY k").fetchall() == wanted, part


def test_date_trunc_in_a_zone_is_refused() -> None:
    with closing(deltafix.sql.connect(dialect="postgres")) as db:
        db.execute("CREATE TABLE t (a TIMESTAMPTZ)")
        with pytest.raises(deltafix.sql.NotSupportedError, match="DATE_TRUNC with a zone"):
            db.execute("SELECT DATE_TRUNC('day', a, 'America/New_York') FROM t")


def _has_year(text: str) -> bool:
    """Whether its year is one that Python has, as it is written."""
    found = re.match(r"\s*(\d+)", text)
    return found is not None and 1 <= int(found[1]) <= 9999


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_texts_of_days_and_moments_are_those_of_duckdb(kind: str) -> None:
    random, seen = Random(f"texts of {kind}"), Counter[bool]()
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)")
        texts = [_text(random, kind) for _ in range(TEXTS)]
        db.insert("t", list(enumerate(texts)))
        shown = f"SELECT id, CAST(TRY_CAST(s AS {kind}) AS TEXT) AS x FROM t"
        found = dict(db.execute(shown).fetchall())
        for number, text in enumerate(texts):
            asked = f"SELECT CAST(TRY_CAST(? AS {kind}) AS TEXT)"
            (wanted,) = duck.execute(asked, [text]).fetchall()[0]
            if wanted is not None and ("(BC)" in wanted or wanted[4] != "-" or not _has_year(text)):
                wanted = None
            assert found[number] == wanted, text
            seen[wanted is None] += 1
            if wanted is None:
                with pytest.raises(deltafix.sql.DataError):
                    db.execute(f"SELECT CAST(? AS {kind}) AS x", [text])
    assert min(seen.values()) > TEXTS / 20


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_a_zone_that_would_be_passed_over_is_an_error(kind: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        for zone in FAR:
            with pytest.raises(deltafix.sql.DataError, match="cast it to TIMESTAMPTZ"):
                db.execute(f"SELECT CAST('2026-01-05 10:00:00{zone}' AS {kind}) AS x")
