"""agree_*: a text is the same value of a SQL type by each door, or is refused by all.

A CSV file and a Parquet file of `deltafix run`, a request to a live application, and a pipeline.
Sees: a door that is stricter than another, reads another value, rounds or cuts, or reads digits
that are none of ASCII. Numbers of JSON too, and keys that are there twice.
"""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltafix.sql
from deltafix.errors import DeltafixError, SourceError
from deltafix.facts.json_rows import read_json
from deltafix.facts.schema import Schema
from deltafix.pipeline.decode import json_values
from deltafix.sql.files import take_in
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import Column
from deltafix.web.json_values import read_sql, read_text

_NUMBERS = (
    *("0", "7", "-7", "+7", "007", "1_0", "１", "٣", "1.0", "1.5", "1e3", "1E3", "1.", ".5", "-0"),
    *("1.25", "1.255", "0x1F", "0b11", "1,5", "1 5", "", "9007199254740993", "inf", "-Infinity"),
    *("NaN", "nan", "1e400", "32768", "9223372036854775807", "9223372036854775808", "1" * 500),
    *("999999.99", "1000000", "1e-3", "--1", "1d", "1f", "infinity", "+inf", "1e", "e5", "−1"),
)
_DAYS = (
    *("2026-01-31", "20260101", "2026-W01-1", "2026-1-2", "2026-02-29", "0000-01-01", "9999-12-31"),
    *(
        "10000-01-01",
        "2026-001",
        "２０２６-01-01",
        "2026/01/02",
        "01.02.2026",
        "today",
        "-0001-01-01",
    ),
)
_CLOCKS = (
    *("00:00:00", "00:00", "12:30", "12", "12:30:59", "24:00:00", "12:30:60", "12:30:59.5", "1230"),
    *(
        "12:30:59.123456",
        "12:30:59.1234567",
        "12:30:59,5",
        "00:00:00.000000",
        "123059",
        "12:30:59.",
    ),
)
_ZONES = ("", "Z", "+00", "+00:00", "+0200", "-05:30", " +01", "z", " UTC", "+24:00", "+02:00:30")
_MOMENTS = (
    *(f"2026-01-31{mark}{clock}" for mark in " Tt" for clock in _CLOCKS),
    *(f"2026-01-31 12:30:59{zone}" for zone in _ZONES),
    *(f"2026-01-31{zone}" for zone in _ZONES),
    *("0001-01-01 00:00:00+01", "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59-01"),
)
_TRUTHS = ("true", "True", "TRUE", "t", "T", "false", "f", "1", "0", "yes", "no", "on", "y", "tru")
_BYTES = (r"\x00ff", r"\x00FF", r"\x0", r"\X00", "00ff", r"\x", r"\x0g", "ab")
_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
_UUIDS = (
    *(_UUID, _UUID.upper(), f"{{{_UUID}}}", _UUID.replace("-", ""), f"{_UUID}0", f"{{{_UUID}"),
    *(f"-{_UUID}", "a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11", "a-" + _UUID[1:], f"urn:uuid:{_UUID}"),
)
TEXTS = (*_NUMBERS, *_DAYS, *_MOMENTS, *_TRUTHS, *_BYTES, *_UUIDS)
KINDS = (
    *("SMALLINT", "BIGINT", "DOUBLE", "DECIMAL(8, 2)", "TEXT", "BOOLEAN", "DATE", "TIMESTAMP"),
    *("TIMESTAMPTZ", "BLOB", "UUID"),
)
_REFUSED = "refused"


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value}"


@pytest.mark.parametrize("kind", KINDS)
def test_agree_texts_are_values_of_their_type_by_every_door(kind: str, tmp_path: Path) -> None:
    taken = 0
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE TABLE t (x {kind})")
        (column,) = db.catalog.tables["t"].relation.columns

        def held(put: Any) -> str:
            try:
                put()
                return _shown(db.execute("SELECT x FROM t").fetchall()[0][0])
            except SourceError as error:
                assert "t.csv:2:" in str(error) or "t.parquet, row 1:" in str(error)
                return _REFUSED
            except DeltafixError as error:
                assert "'x'" in str(error)
                return _REFUSED
            finally:
                db.execute("DELETE FROM t")

        for text in (*TEXTS, *(f" {one} " for one in TEXTS if one)):
            if text:
                with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
                    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["x"], [text]])
                pq.write_table(pa.table({"x": [text]}), tmp_path / "t.parquet")
                found = {
                    "csv": held(lambda: take_in(db, "t", tmp_path / "t.csv")),
                    "parquet": held(lambda: take_in(db, "t", tmp_path / "t.parquet")),
                    "request": held(lambda t=text: db.insert("t", [(read_sql(t, column),)])),
                    "pipeline": _of_pipeline(column, text),
                }
                assert len(set(found.values())) == 1, (text, found)
                taken += _REFUSED not in found.values()
    assert taken > 2


def _of_pipeline(column: Column, text: str) -> str:
    logical = SqlLogical.of(column)
    (found,) = logical.decode(logical.encode(pa.array([text]))).to_pylist()
    if found is not None and column.type.name == "UUID":  # outputs have its text
        found = UUID(found)
    return _REFUSED if found is None else _shown(found)


def test_numbers_of_requests_are_not_rounded_and_keys_are_there_once() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (x DOUBLE, y BIGINT, z TEXT[])")
        x, y, z = db.catalog.tables["t"].relation.columns
        assert [read_sql(one, x) for one in (2**53, 0.1, -7)] == [2**53, 0.1, -7]
        odd = ((x, 2**53 + 1), (y, 1.0), (y, True), (y, 2**63), (z, "[]"), (z, ["a", 1]))
        for column, value in odd:
            with pytest.raises(DeltafixError, match=f"column '{column.name}'"):
                read_sql(value, column)


def test_a_key_of_json_is_there_once_by_every_door() -> None:
    twice = '{"x": 1, "x": 2}'
    _, bad = json_values([twice, f"[{twice}]"], "in")
    assert ["two values for 'x'" in one.reason for one in bad] == [True, True]
    with pytest.raises(DeltafixError, match="two values for 'x'"):
        read_json(f"[{twice}]".encode(), Schema.of("r", ["x"], ["number"]), "r.json")
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (s STRUCT(x INTEGER))")
        (column,) = db.catalog.tables["t"].relation.columns
        assert _of_pipeline(column, twice) == _REFUSED
        assert _of_pipeline(column, '{"x": 2}') != _REFUSED
        with pytest.raises(DeltafixError, match="'s'"):
            read_text(twice, column)
        assert read_text('{"x": 2}', column) == {"x": 2}
