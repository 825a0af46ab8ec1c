"""Arrays and structs as columns of a pipeline in SQL: formats in, the log out, keys, bad rows."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pipelines import open_pipeline

from deltafix.errors import DriftError, KeyBreachError
from deltafix.pipeline.check import check
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.replay import replay
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import SMALLINT, array_type, struct_type

VIEWS = """
CREATE TABLE t (tags TEXT[] PRIMARY KEY, ns SMALLINT[], p DECIMAL(6, 2)[], b BOOLEAN[], d DATE[],
                s STRUCT(a INTEGER, b DECIMAL(4, 1)[]), x BLOB);
CREATE VIEW v AS SELECT * FROM t;
"""
TOML = """
[pipeline]
program = "views.sql"
state = "state"
runner = "local"
bad_rows = "quarantine"
[input.t]
source = "files"
path = "in"
format = "{form}"
{more}
[output.v]
path = "v"
"""
GOOD: list[dict[str, Any]] = [
    {
        "tags": ["a", "b"],
        "ns": [1, None],
        "p": [1.5, 2],
        "b": [True],
        "d": ["2026-01-31"],
        "s": {"b": [1.5, None], "a": 1},
        "x": "\\x00ff",
    },
    {"tags": [], "ns": None, "p": [], "b": [None, False], "d": None, "s": None, "x": None},
    {
        "tags": ["", 'q"\x01'],
        "ns": [],
        "p": [0.1],
        "b": None,
        "d": [],
        "s": {"a": None, "b": []},
        "x": "\\x",
    },
]
BAD: list[tuple[str, Any]] = [
    ("ns", [40000]),
    ("ns", [1.5]),
    ("ns", [True]),
    ("ns", ["x"]),
    ("ns", [[1]]),
    ("ns", {"a": 1}),
    ("ns", 1),
    ("p", [0.001]),
    ("b", [1]),
    ("d", ["2026-02-30"]),
    ("d", [5]),
    ("tags", [1]),
    ("tags", None),
    ("s", [1]),
    ("s", 1),
    ("s", {"a": "x", "b": None}),
    ("s", {"a": 1.5, "b": []}),
    ("s", {"a": 1, "b": [0.25]}),
    ("x", "ab"),
    ("x", "\\x0"),
]


def write(folder: Path, form: str, rows: list[dict[str, Any]]) -> None:
    path = folder / "in" / f"{len(list((folder / 'in').iterdir()))}.{form}"
    if form == "json":
        path.write_text("".join(json.dumps({"sign": 1, **row}) + "\n" for row in rows))
        return
    assert form == "csv"
    lines = ["sign,tags,ns,p,b,d,s,x"]
    for row in rows:
        cells = (one if isinstance(one, str | None) else json.dumps(one) for one in row.values())
        texts = ((one or "").replace('"', '""') for one in cells)
        lines.append(",".join(["1", *(f'"{one}"' if one else "" for one in texts)]))
    path.write_text("\n".join(lines) + "\n")


def start(folder: Path, form: str, more: str = "") -> Path:
    (folder / "in").mkdir()
    (folder / "views.sql").write_text(VIEWS)
    toml = folder / "pipeline.toml"
    toml.write_text(TOML.format(form=form, more=more))
    return toml


def run(toml: Path) -> None:
    with open_pipeline(toml) as pipeline:
        list(pipeline.drain())


@pytest.mark.parametrize("form", ["csv", "json"])
def test_arrays_are_read_as_json_and_what_is_no_array_is_set_aside(tmp_path, form) -> None:
    toml = start(tmp_path, form)
    wrong = [{**GOOD[0], "tags": [f"{n}"], name: value} for n, (name, value) in enumerate(BAD)]
    write(tmp_path, form, GOOD)
    write(tmp_path, form, wrong)
    for row in wrong:  # each by itself: a column of one type is read by another way
        write(tmp_path, form, [GOOD[0], row])
    run(toml)
    table = read_view(tmp_path / "v")[1]
    assert table is not None
    assert table.schema.field("p").type == pa.list_(pa.decimal128(6, 2))
    found = {repr(row) for row in zip(*(one.to_pylist() for one in table.columns), strict=True)}
    day = date(2026, 1, 31)
    one, half, tenths = Decimal("0.10"), Decimal("1.50"), Decimal("1.5")
    assert found == {
        repr(
            (
                ["a", "b"],
                [1, None],
                [half, Decimal("2.00")],
                [True],
                [day],
                {"a": 1, "b": [tenths, None]},
                b"\x00\xff",
            )
        ),
        repr(([], None, [], [None, False], None, None, None)),
        repr((["", 'q"\x01'], [], [one], None, [], {"a": None, "b": []}, b"")),
    }
    (aside,) = (tmp_path / "state" / "quarantine").iterdir()
    said = aside.read_text()
    assert len(said.splitlines()) == 2 * len(BAD)
    assert "ns = " in said
    assert "is no SMALLINT[]" in said
    assert "tags is missing" in said
    assert "is no STRUCT(a INTEGER, b DECIMAL(4, 1)[])" in said
    *shown, last = replay(read_config(toml), 2).show()
    assert last == "epoch 2: recomputed, the same"
    assert len(shown) == len(GOOD)
    assert all(line.startswith("+") and "\t" in line and "Decimal" not in line for line in shown)
    assert any('{"a": 1, "b": [' in line for line in shown)


@pytest.mark.parametrize("names", [("a",), ("a", "c"), ("a", "b", "c")])
def test_a_struct_of_other_fields_is_refused_by_name(names) -> None:
    logical = SqlLogical(struct_type((("a", SMALLINT), ("b", SMALLINT))), nullable=True)
    kinds = pa.struct([(name, pa.int64()) for name in names])
    assert not logical.takes(kinds)
    there = pa.struct([("b", pa.int64()), ("a", pa.string())])
    assert logical.takes(there)
    given = pa.array([{"b": 1, "a": "2"}, None, {"b": None, "a": "x"}, {"b": 3, "a": None}], there)
    for array in (given, given[1:]):
        found = logical.encode(array)
        assert logical.decode(found).to_pylist()[-1] == {"a": None, "b": 3}
        assert found.null_count == 1  # it is no SMALLINT


def test_an_array_that_is_a_key_is_one_when_it_is_there_twice(tmp_path) -> None:
    toml = start(tmp_path, "json")
    write(tmp_path, "json", [GOOD[0], {**GOOD[0], "ns": []}])
    with pytest.raises(KeyBreachError, match=r"\('a', 'b'\)"):
        run(toml)
    with pytest.raises(KeyBreachError, match="it would fail an epoch"):
        list(check(read_config(toml)))


def test_an_update_by_a_key_of_arrays_is_of_the_row_that_has_it(tmp_path) -> None:
    toml = start(tmp_path, "json", 'key = "tags"')
    write(tmp_path, "json", GOOD)
    run(toml)
    write(tmp_path, "json", [{**GOOD[0], "ns": [7]}, {**GOOD[2], "sign": -1}])
    run(toml)
    table = read_view(tmp_path / "v")[1]
    assert table is not None
    assert sorted(table.column("tags").to_pylist()) == [[], ["a", "b"]]
    assert [7] in table.column("ns").to_pylist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.int64()),
        pa.list_(pa.int8(), 2),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.list_view(pa.int64()),
    ],
)
def test_every_layout_of_lists_is_an_array(kind) -> None:
    values = [[1, 2], None, [3, None]]
    if pa.types.is_dictionary(kind.value_type):
        values = [["1", "2"], None, ["3", None]]
    logical = SqlLogical(array_type(SMALLINT), nullable=True)
    given = pa.array(values, kind)
    assert logical.takes(kind)
    assert logical.decode(logical.encode(given)).to_pylist() == [[1, 2], None, [3, None]]
    assert logical.decode(logical.encode(given[1:])).to_pylist() == [None, [3, None]]


@pytest.mark.parametrize("kind", [pa.int64(), pa.list_(pa.bool_()), pa.list_(pa.list_(pa.int8()))])
def test_a_column_of_another_type_is_refused_by_name(tmp_path, kind) -> None:
    toml = start(tmp_path, "parquet")
    table = pa.table({"sign": [1], "tags": [["a"]], "ns": pa.array([None], kind)})
    for name, of in (("p", pa.float64()), ("b", pa.bool_()), ("d", pa.date32())):
        table = table.append_column(name, pa.array([[]], pa.list_(of)))
    table = table.append_column("s", pa.nulls(1)).append_column("x", pa.array([b"\x00"]))
    pq.write_table(table, tmp_path / "in" / "1.parquet")
    with pytest.raises(DriftError, match=r"but 'ns' is SMALLINT\[\]"):
        run(toml)
