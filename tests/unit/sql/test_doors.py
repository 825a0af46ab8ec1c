"""Every type of SQL through every door, in and out: no value, NULL or digit is another one after.

Invariant: doors are judged by what they bring, not by each other: rows that came in by a door, and
what a table of Arrow, a frame or a file says of them, are the values that were given. Spark's door
has the same in `tests/spark/test_maintain_sql.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.generators.sql_values import VALUES, in_arrow, sent, told

import deltafix.sql
from deltafix.cli.main import main
from deltafix.errors import TypeMismatchError
from deltafix.facts.values import plain_text
from deltafix.pipeline.manifest import read_view
from deltafix.sql.files import take_in, write_view


def of(rows: Iterable[dict[str, Any]]) -> list[Any]:
    return [told(row["v"]) for row in sorted(rows, key=lambda row: row["id"])]


def script(kind: str) -> str:
    return (
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {kind});"
        "CREATE VIEW w AS SELECT id, v FROM t;"
        "CREATE VIEW g AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;"
    )


def made(kind: str, path: str | Path = ":memory:") -> deltafix.sql.Connection:
    db = deltafix.sql.connect(path)
    db.execute(script(kind))
    return db


def kept(db: deltafix.sql.Connection) -> list[Any]:
    rows = db.execute("SELECT id, v FROM w").fetchall()
    assert sum(n for (n,) in db.execute("SELECT n FROM g")) == len(rows)
    return [told(value) for _, value in sorted(rows, key=lambda row: row[0])]


@pytest.fixture(params=VALUES)
def kind(request: pytest.FixtureRequest, warm_kernel: None) -> str:
    return str(request.param)


def rows_of(kind: str) -> list[tuple[int, Any]]:
    return list(enumerate(VALUES[kind]))


def arrow_of(kind: str) -> pa.Table:
    with closing(made(kind)) as db:
        db.insert("t", rows_of(kind))
        return db.execute("SELECT id, v FROM t").to_arrow()


IN: dict[str, Callable[[pa.Table], Any]] = {
    "tuples": lambda table: [tuple(row.values()) for row in table.to_pylist()],
    "dicts": lambda table: table.to_pylist(),
    "Arrow": lambda table: table,
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("door", IN)
def test_a_type_comes_in_by_a_door_of_python(kind: str, door: str) -> None:
    rows, wanted = IN[door](arrow_of(kind)), list(map(told, VALUES[kind]))
    with closing(made(kind)) as db:
        db.insert("t", rows)
        assert kept(db) == wanted
        assert db.replace("t", rows) == 0
        db.execute("DELETE FROM t")
        assert db.execute("SELECT * FROM g").fetchall() == []
        for row in rows_of(kind):
            db.execute("INSERT INTO t VALUES (?, ?)", row)
        assert kept(db) == wanted
        for number, value in rows_of(kind):
            found = db.execute("SELECT id FROM t WHERE v IS NOT DISTINCT FROM ?", [value])
            assert found.fetchall() == [(number,)]


def test_a_type_goes_out_by_each_door_of_python(kind: str) -> None:
    wanted = [told(in_arrow(value)) for value in VALUES[kind]]
    with closing(made(kind)) as db:
        db.insert("t", rows_of(kind))
        for found in (db.execute("SELECT * FROM w"), db.delta("w")):
            assert of(found.to_arrow().to_pylist()) == wanted
            assert of(pa.table(found).to_pylist()) == wanted
            assert of(found.to_polars().to_dicts()) == wanted
            assert of(found.to_pandas().to_dict("records")) == wanted


def test_a_type_goes_through_files_and_a_state(kind: str, tmp_path: Path) -> None:
    table, wanted = arrow_of(kind), list(map(told, VALUES[kind]))
    pq.write_table(table, tmp_path / "t.parquet")
    write_view(table, "t", tmp_path)
    for file in ("t.parquet", "t.csv"):
        with closing(made(kind)) as db:
            take_in(db, "t", tmp_path / file)
            assert kept(db) == wanted, file
    with closing(made(kind, tmp_path / "state")) as db:
        db.insert("t", table)
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert kept(db) == wanted


INTERVALS = [
    deltafix.sql.Interval(14, -3, 4_000_001),
    deltafix.sql.Interval(0, 1, 0),
    deltafix.sql.Interval(0, 0, 86_400_000_000),
    deltafix.sql.Interval(-1, 0, -1),
    None,
]
"""Two of one length."""


def test_an_interval_comes_in_and_goes_out_by_each_door(tmp_path: Path, warm_kernel: None) -> None:
    wanted = list(map(told, INTERVALS))
    with closing(made("INTERVAL", tmp_path / "state")) as db:
        for row in enumerate(INTERVALS):
            db.execute("INSERT INTO t VALUES (?, ?)", row)
        assert kept(db) == wanted
        table = db.execute("SELECT id, v FROM t").to_arrow()
        assert table.schema.field("v").type == pa.month_day_nano_interval()
        assert db.replace("t", table) == db.replace("t", [*enumerate(INTERVALS)]) == 0
        assert db.replace("t", table.to_pylist()) == 0
        write_view(table, "t", tmp_path)
        found = db.execute("SELECT * FROM w")
        with pytest.raises(TypeMismatchError, match="months"):
            found.to_polars()
    with closing(made("INTERVAL")) as db:
        take_in(db, "t", tmp_path / "t.csv")
        assert kept(db) == wanted
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert kept(db) == wanted
        assert db.execute("SELECT COUNT(*) FROM g").fetchone() == (5,)


def test_a_duration_is_an_interval_of_days_and_microseconds(
    tmp_path: Path, warm_kernel: None
) -> None:
    given = [timedelta(days=2, microseconds=5), timedelta(days=-1, hours=3), None]
    wanted = [
        deltafix.sql.Interval(0, one.days, one.seconds * 1_000_000 + one.microseconds)
        for one in given
        if one is not None
    ]
    frame = pl.DataFrame({"id": [0, 1, 2], "v": given})
    pq.write_table(frame.to_arrow(), tmp_path / "t.parquet")
    for rows in (frame, frame.to_pandas(), [*enumerate(given)], tmp_path / "t.parquet"):
        with closing(made("INTERVAL")) as db:
            if isinstance(rows, Path):
                take_in(db, "t", rows)
            else:
                db.insert("t", rows)
            found = db.execute("SELECT id, v FROM w ORDER BY id")
            assert found.to_polars()["v"].to_list() == given
            assert pa.Table.from_pandas(found.to_pandas())["v"].to_pylist() == given
            assert [v for _, v in found.fetchall()] == [*wanted, None]
    with closing(made("INTERVAL")) as db:
        for wrong in (pa.array([5], pa.duration("ns")), ["1 day"], [3]):
            with pytest.raises(deltafix.sql.DataError, match="no INTERVAL"):
                db.insert("t", pa.table({"id": [1], "v": wrong}))


def test_an_interval_of_parquet_as_duckdb_writes_it(tmp_path: Path, warm_kernel: None) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as duck:
        duck.execute(
            f"COPY (SELECT 1 AS id, INTERVAL '14 months 3 days 1.5 seconds' AS v) TO '{path}'"
        )
    with closing(made("INTERVAL")) as db:
        take_in(db, "t", path)
        assert kept(db) == [told(deltafix.sql.Interval(14, 3, 1_500_000))]


def as_json(value: Any) -> str:
    """A value in a line of JSON: a decimal is a number, what JSON has not is text as in SQL."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(as_json, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{as_json(k)}:{as_json(v)}' for k, v in value.items())}}}"
    if isinstance(value, bytes | date | time) or value in (math.inf, -math.inf) or value != value:  # noqa: PLR0124
        return as_json(plain_text(value))
    return json.dumps(value)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_types_go_through_a_pipeline(form: str, tmp_path: Path, warm_kernel: None) -> None:
    sql, toml = [], ["[pipeline]\nprogram = 'v.sql'\nstate = 'state'\nrunner = 'local'"]
    for place, kind in enumerate(VALUES):
        sql.append(script(kind).replace(" g ", f" g{place} ").replace(" w ", f" w{place} ")
                   .replace(" t", f" t{place}").replace(f" t{place}ABLE", " TABLE"))  # fmt: skip
        toml.append(
            f"[input.t{place}]\nsource = 'files'\nmode = 'rows'\npath = 'in{place}'\n"
            f"format = '{form}'\n[output.w{place}]\npath = 'out{place}'"
        )
        folder, table = tmp_path / f"in{place}", arrow_of(kind)
        folder.mkdir()
        if form == "parquet":
            pq.write_table(table, folder / "a.parquet")
        elif form == "csv":
            write_view(table, "a", folder)
        else:
            lines = [f'{{"id":{row["id"]},"v":{as_json(row["v"])}}}' for row in table.to_pylist()]
            (folder / "a.json").write_text("\n".join(lines))
    (tmp_path / "v.sql").write_text("".join(sql))
    (tmp_path / "p.toml").write_text("\n".join(toml))
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", str(tmp_path / "p.toml"), "--quiet"])
    assert ended.value.code == 0
    for place, kind in enumerate(VALUES):
        _, rows = read_view(tmp_path / f"out{place}")
        assert of(rows.to_pylist()) == [told(sent(value)) for value in VALUES[kind]], kind
