"""agree_*: days and moments of every Arrow type in columns of every SQL type, by each door.

A Parquet file of `deltafix run`, `Connection.insert` of the same table, and DuckDB's cast in UTC.
Sees: a value that one door takes and another refuses, a time or a zone that is lost in silence, an
error that is none of ours, or names no row and value.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
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
    pa.time32("s"): [0, 3600],
    pa.time64("us"): [0, 1],
    pa.duration("us"): [0, 1],
}
KINDS = (
    *("DATE", "TIMESTAMP", "TIMESTAMPTZ", "SMALLINT", "BIGINT", "DOUBLE", "DECIMAL(18, 0)"),
    *("TEXT", "BOOLEAN", "BLOB", "DATE[]", "TIMESTAMP[]", "STRUCT(a DATE)"),
)


def _takers(given: pa.DataType) -> set[str]:
    """The types of SQL that take some values of a type; those without a zone have none to lose."""
    if pa.types.is_date(given):
        return {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATE[]", "TIMESTAMP[]", "STRUCT(a DATE)"}
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
