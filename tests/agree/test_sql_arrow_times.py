"""agree_*: days and moments of every Arrow type in columns of every SQL type, by each door.

A Parquet file of `deltafix run`, `Connection.insert` of the same table, and DuckDB's cast in UTC.
Sees: a value that one door takes and another refuses, a time or a zone that is lost in silence, an
error that is none of ours, or names no row and value.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltafix.sql
from deltafix.errors import SourceError
from deltafix.sql.files import take_in

_DAY = 86_400
_MOST = 2**63 - 1
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _pool(unit: int) -> list[int]:
    """Moments in so many parts of a second: at midnight and not, before 1970, of odd years."""
    moments = [0, 20_455 * _DAY, -3 * _DAY, 20_455 * _DAY + 4 * 3600, -1]
    parts = [one * unit for one in moments] + [1767225600 * unit + unit // 3, 253402300800 * unit]
    most = _MOST // max(1000 // unit, 1)  # Parquet has no whole seconds
    return [*(one for one in parts if abs(one) <= most), most, -most]


_DAYS = [0, 20_455, -3, -719_162, -719_163, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]
TYPES: dict[pa.DataType, list[int]] = {
    pa.date32(): _DAYS,
    pa.date64(): [day * _DAY * 1000 for day in _DAYS],
    **{
        pa.timestamp(unit, zone): _pool(parts)
        for unit, parts in _UNITS.items()
        for zone in (None, "UTC", "America/New_York")
    },
    pa.time32("s"): [0, 3600, 86_399],
    pa.time64("us"): [0, 1, 86_399_999_999, 86_400_000_000],
    pa.time64("ns"): [0, 1_000, 1_001],
    pa.duration("us"): [0, 1],
}
KINDS = (
    *("DATE", "TIMESTAMP", "TIMESTAMPTZ", "SMALLINT", "BIGINT", "DOUBLE", "DECIMAL(18, 0)"),
    *("TEXT", "BOOLEAN", "BLOB", "DATE[]", "TIMESTAMP[]", "STRUCT(a DATE)", "TIME", "TIME[]"),
)


def _takers(given: pa.DataType) -> set[str]:
    """The types of SQL that take some values of a type; those without a zone have none to lose."""
    if pa.types.is_date(given):
        return {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATE[]", "TIMESTAMP[]", "STRUCT(a DATE)"}
    if pa.types.is_time(given):
        return {"TIME", "TIME[]"}
    if not pa.types.is_timestamp(given):
        return set()
    plain = {"DATE", "TIMESTAMP", "DATE[]", "TIMESTAMP[]", "STRUCT(a DATE)"}
    return plain if given.tz is None else {"TIMESTAMPTZ"}


def _column(given: pa.DataType, value: int, kind: str) -> pa.Array:
    """A value and NULL, as a column for one of a type of SQL."""
    number = pa.int64() if given.bit_width == 64 else pa.int32()
    array = pa.array([value, None], number).cast(given)
    if kind.endswith("[]"):
        return pa.ListArray.from_arrays([0, 1, 2], array)
    return pa.StructArray.from_arrays([array], ["a"]) if kind.startswith("STRUCT") else array


def _bag(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(str(value) for (value,) in rows)


@pytest.mark.parametrize("given", TYPES, ids=str)
def test_agree_days_and_moments_of_arrow_by_every_door(given: pa.DataType, tmp_path: Path) -> None:
    path, taken = tmp_path / "t.parquet", set[str]()
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for kind in KINDS:
            db.execute(f"CREATE TABLE t (x {kind})")
            for value in TYPES[given]:
                table = pa.table({"x": _column(given, value, kind)})
                pq.write_table(table, path)
                found: list[Any] = []
                doors: tuple[Callable[[], object], ...] = (
                    lambda: take_in(db, "t", path),
                    lambda table=table: db.insert("t", table),
                )
                for door in doors:
                    try:
                        door()
                        found.append(_bag(db.execute("SELECT x FROM t").fetchall()))
                    except SourceError as error:
                        said = str(error)
                        assert "'x'" in said
                        assert "row 1:" in said or f"and no {kind}" in said
                        found.append("refused")
                    except deltafix.sql.DataError as error:
                        assert "'x'" in str(error)
                        found.append("refused")
                    db.execute("DELETE FROM t")
                assert found[0] == found[1], (value, kind, found)
                if found[0] != "refused":
                    wanted = duck.execute(f"SELECT x::{kind} FROM '{path}'").fetchall()
                    assert found[0] == _bag(wanted), (value, kind)
                    taken.add(kind)
            db.execute("DROP TABLE t")
    assert taken == _takers(given)


def test_agree_nanoseconds_of_pandas_are_lost_by_no_door() -> None:
    day = pd.Timestamp("2026-01-01")
    whole, more = (day + pd.Timedelta(one, "ns") for one in (1000, 1001))
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (d DATE, m TIMESTAMP)")
        for row in ((day + pd.Timedelta(1, "ns"), None), (None, more)):
            with pytest.raises(deltafix.sql.DataError, match=r"is no (DATE|TIMESTAMP)"):
                db.insert("t", [row])
        db.insert("t", [(day, whole)])
        assert db.execute("SELECT * FROM t").fetchall() == [(day.date(), whole.to_pydatetime())]


_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_ZONES = [timezone(timedelta(minutes=minutes)) for minutes in (-720, -300, 0, 1, 330, 840)]
_WALLS = [
    *(datetime.min + timedelta(hours=hours) for hours in (0, 1, 13)),
    *(datetime.max - timedelta(hours=hours) for hours in (0, 1, 13)),
    datetime(1, 1, 1, 5, 30), datetime(2026, 1, 1, 2), datetime(2024, 3, 1, 0, 30),
]  # fmt: skip


def _in_zone(wall: datetime, zone: timezone) -> datetime | None:
    """The moment in UTC, if Python has it."""
    try:
        return wall.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        return None


def test_agree_moments_of_python_with_a_zone_by_every_door() -> None:
    """What no year of UTC has is refused where it comes in: it could not be read any more."""
    many = [(n, datetime(2026, 1, 1, tzinfo=UTC)) for n in range(1000, 1300)]
    refused = taken = 0
    with closing(deltafix.sql.connect()) as db:
        db.execute(
            "CREATE TABLE t (id INTEGER, z TIMESTAMPTZ, l TIMESTAMPTZ[], s STRUCT(a TIMESTAMPTZ))"
        )
        db.execute("CREATE VIEW v AS SELECT z FROM t WHERE id = 1")
        told = db.subscribe("v")
        for wall in _WALLS:
            for zone in _ZONES:
                given = wall.replace(tzinfo=zone)
                doors: tuple[Callable[[], object], ...] = (
                    lambda given=given: db.execute("INSERT INTO t (id, z) VALUES (1, ?)", [given]),
                    lambda given=given: db.insert("t", [(1, given)], ["id", "z"]),
                    lambda given=given: db.insert("t", [{"id": 1, "z": given}]),
                    lambda given=given: db.insert("t", [(1, given), *many], ["id", "z"]),
                    lambda given=given: db.insert("t", [(1, None, [given], None)]),
                    lambda given=given: db.insert("t", [(1, None, None, {"a": given})]),
                    lambda given=given: db.replace("t", [(1, given, None, None)]),
                    lambda given=given: db.execute("UPDATE t SET z = ? WHERE id = 0", [given]),
                )
                wanted = _in_zone(wall, zone)
                for door in doors:
                    db.execute("DELETE FROM t; INSERT INTO t (id) VALUES (0)")
                    list(told)
                    try:
                        door()
                    except deltafix.sql.DataError as error:
                        assert wanted is None, given
                        assert "between 1 and 9999" in str(error)
                        refused += 1
                        assert db.execute("SELECT id, z FROM t").fetchall() == [(0, None)]
                        assert [*told] == []
                        continue
                    assert wanted is not None, given
                    taken += 1
                    shown = "SELECT COALESCE(z, l[1], s.a) AS m FROM t WHERE id < 2"
                    assert (wanted,) in db.execute(shown).fetchall()
                    list(told)
    assert refused > 80
    assert taken > 100


def test_agree_a_parameter_with_a_zone_is_one_moment_everywhere() -> None:
    """Where it stands as it is, and where it becomes a literal: months are those of UTC."""
    texts = (
        "CAST({} AS TEXT)", "CAST(CAST({} AS DATE) AS TEXT)", "CAST(CAST({} AS TIMESTAMP) AS TEXT)",
        "CAST({} + INTERVAL '1' MONTH AS TEXT)", "CAST({} - INTERVAL '36' HOUR AS TEXT)",
    )  # fmt: skip
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (z TIMESTAMPTZ, s TEXT)")
        for wall in _WALLS[7:]:
            for zone in _ZONES:
                given = wall.replace(tzinfo=zone)
                for text in texts:
                    db.execute("DELETE FROM t; INSERT INTO t VALUES (NULL, NULL)")
                    db.execute("UPDATE t SET z = ?", [given])
                    (wanted,) = db.execute(f"SELECT {text.format('z')} AS x FROM t").fetchall()
                    (asked,) = db.execute(f"SELECT {text.format('?')} AS x", [given]).fetchall()
                    db.execute(f"UPDATE t SET s = {text.format('?')}", [given])
                    (found,) = db.execute("SELECT s FROM t").fetchall()
                    assert wanted == asked == found, (given, text)
