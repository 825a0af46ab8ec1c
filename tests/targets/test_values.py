"""Random views of awkward values, epoch by epoch, through each kind of table: always the same rows.

Targets alone, without a pipeline: what an epoch adds was not there, what it removes was, as `Delta`
promises. A table that is the view has the view's rows; signed rows add up to it.
"""

from __future__ import annotations

import json
import math
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.support.amount import cases

from deltafix.errors import SinkError
from deltafix.facts.arrow import arrow_schema, table_from_rows
from deltafix.facts.schema import Row, Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.targets.iceberg import FEW
from deltafix.pipeline.targets.kafka import KafkaTarget
from deltafix.pipeline.targets.registry import make_target
from deltafix.pipeline.targets.target import EpochRows

SCHEMA = Schema.of(
    "view", ["order", "Big", "x y", "text"], ["number", "unsigned", "float", "symbol"]
)
NUMBERS = [0, 1, -1, 2**31, -(2**63), 2**63 - 1]
BIG = [0, 1, 2**32, 2**64 - 1]
FLOATS = [0.0, 0.1, -1e308, 5e-324, math.inf, -math.inf, math.nan]
TEXTS = [
    "",
    " ",
    "a",
    "A",
    "\\N",
    "a\tb",
    "a\nb",
    "q\"'`",
    "NULL",
    "é\u0301",
    "漢字",
    "\U0001f600",
    "x" * 3000,
]
EPOCHS = cases(10, fuzz=60)


def random_row(rng: Random) -> Row:
    return (rng.choice(NUMBERS), rng.choice(BIG), rng.choice(FLOATS), rng.choice(TEXTS))


def same(row: Any) -> tuple[Any, ...]:
    """A row as a key of sets: NaN is equal to itself."""
    number, big, real, text = row
    return (int(number), int(big), "nan" if math.isnan(real) else float(real), text)


@pytest.fixture(params=["delta", "iceberg", "postgres", "sql"])
def kind(request) -> str:
    return request.param


def output(kind: str, mode: str, tmp_path, request) -> tuple[OutputConfig, Any]:
    """An output, and what reads its rows."""
    name = f"t{uuid4().hex[:8]}"
    values: dict[str, Any] = {"mode": mode, "key": None, "table": "", "options": {}}
    if kind == "delta":
        from deltalake import DeltaTable

        values["path"] = str(tmp_path / name)

        def read() -> list[dict[str, Any]]:
            return DeltaTable(values["path"]).to_pyarrow_table().to_pylist()

    elif kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        where = {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"file://{tmp_path}",
        }
        values |= {"catalog": "c", "table": f"db.{name}"}
        values["options"] = where

        def read() -> list[dict[str, Any]]:
            table = load_catalog("c", **where).load_table(f"db.{name}")
            return table.scan().to_arrow().to_pylist()

    else:
        import psycopg

        values |= {"dsn": request.getfixturevalue("postgres"), "table": name}
        values["url"] = "postgresql+psycopg" + values["dsn"].removeprefix("postgresql")

        def read() -> list[dict[str, Any]]:
            with psycopg.connect(values["dsn"]) as db:
                found = db.execute(f'SELECT * FROM "{name}"')
                names = [one.name for one in found.description]
                return [dict(zip(names, row, strict=True)) for row in found]

    return OutputConfig("view", tmp_path / "log", sink=kind, values=values), read


@pytest.mark.parametrize("mode", ["merge", "append"])
def test_agree_with_the_view_after_every_epoch(kind, mode, tmp_path, request) -> None:
    rng = Random(f"{kind} {mode}")
    config, read = output(kind, mode, tmp_path, request)
    target = make_target(config, SCHEMA, uuid4().hex)
    assert target is not None
    assert target.epoch() is None
    view: dict[tuple[Any, ...], Row] = {}
    for epoch in range(1, EPOCHS + 1):
        few = rng.random() < 0.7
        gone = rng.sample(
            sorted(view, key=str), rng.randrange(min(len(view), 6) + 1) if few else len(view)
        )
        removed = [view.pop(key) for key in gone]
        come = {same(row): row for row in (random_row(rng) for _ in range(rng.randrange(40)))}
        added = {key: row for key, row in come.items() if key not in view and key not in gone}
        view |= added
        rows = EpochRows(
            SCHEMA, epoch,
            table_from_rows(SCHEMA, list(added.values())), table_from_rows(SCHEMA, removed),
        )  # fmt: skip
        target.apply(rows)
        target.apply(rows)
        assert target.epoch() == epoch
        found = [(row["order"], row["Big"], row["x y"], row["text"]) for row in read()]
        if mode == "merge":
            assert sorted(map(str, map(same, found))) == sorted(map(str, view))
            continue
        sums: dict[tuple[Any, ...], int] = {}
        for row, whole in zip(found, read(), strict=True):
            sums[same(row)] = sums.get(same(row), 0) + int(whole["sign"])
        assert {key for key, sign in sums.items() if sign} == set(view)
        assert set(sums.values()) <= {0, 1}
    target.close()


def test_many_removed_rows_write_an_iceberg_table_anew(tmp_path, request) -> None:
    config, read = output("iceberg", "merge", tmp_path, request)
    target = make_target(config, SCHEMA, uuid4().hex)
    assert target is not None
    rows = [(number, 2**64 - 1, math.nan if number % 2 else 0.5, "t") for number in range(3 * FEW)]
    empty = arrow_schema(SCHEMA).empty_table()
    target.apply(EpochRows(SCHEMA, 1, table_from_rows(SCHEMA, rows), empty))
    gone, come = rows[: 2 * FEW], [(-1, 0, math.nan, "new")]
    target.apply(EpochRows(SCHEMA, 2, table_from_rows(SCHEMA, come), table_from_rows(SCHEMA, gone)))
    found = {same(row.values()) for row in read()}
    assert found == {same(row) for row in [*rows[2 * FEW :], *come]}
    assert target.epoch() == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [("a\0b", "NUL"), ("".join(Random("long").choices("abcdefgh123", k=20000)), "index row")],
    ids=["nul", "long"],
)
def test_a_text_that_postgres_cannot_hold_is_told_and_nothing_of_the_epoch_is_there(
    text, why, tmp_path, request
) -> None:
    config, read = output("postgres", "merge", tmp_path, request)
    target = make_target(config, SCHEMA, uuid4().hex)
    assert target is not None
    empty = arrow_schema(SCHEMA).empty_table()
    target.apply(EpochRows(SCHEMA, 1, table_from_rows(SCHEMA, [(1, 1, 1.0, "a")]), empty))
    bad = table_from_rows(SCHEMA, [(2, 1, 1.0, "b"), (2, 1, 1.0, text)])
    with pytest.raises(SinkError, match=why):
        target.apply(EpochRows(SCHEMA, 2, bad, empty))
    assert [row["order"] for row in read()] == [1]
    assert target.epoch() == 1
    target.close()


def test_messages_are_json_whatever_their_values() -> None:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    rows = [
        (n, b, x, "t\0\u2028") for n, b, x in zip(NUMBERS, [2**64 - 1] * 6, FLOATS[1:], strict=True)
    ]
    table = table_from_rows(SCHEMA, rows)
    for envelope in ("signed", "debezium"):
        target = KafkaTarget(
            SCHEMA, "a:1", "t", "n", envelope=envelope, key=(), timeout=1, options={}
        )
        epoch = EpochRows(SCHEMA, 1, table.slice(0, 3), table.slice(3))
        for key, value in target._messages(epoch):
            json.loads(key, parse_constant=refuse)
            json.loads(value, parse_constant=refuse)


def test_a_log_holds_such_values_too(tmp_path) -> None:
    rng = Random("log")
    log = ParquetSink(SCHEMA, tmp_path / "log", "s", keeps_snapshot=True)
    view: dict[tuple[Any, ...], Row] = {}
    for epoch in range(1, 30):
        gone = rng.sample(sorted(view, key=str), rng.randrange(min(len(view), 6) + 1))
        removed = [view.pop(key) for key in gone]
        come = {same(row): row for row in (random_row(rng) for _ in range(9))}
        added = {key: row for key, row in come.items() if key not in view and key not in gone}
        view |= added
        sides = [table_from_rows(SCHEMA, side) for side in ([*added.values()], removed)]
        log.publish(epoch, log.prepare(epoch, *([side] for side in sides)))
        if epoch == 1:  # the log has the view's rows itself

            def asked() -> list[pa.Table]:
                raise AssertionError("the view is not asked for its rows")

            log.fold(asked, force=True)
            assert log.manifest.snapshot is not None
            assert log.manifest.snapshot.rows == len(view)
        if epoch % 7 == 0:
            whole = table_from_rows(SCHEMA, list(view.values()))
            parts = [whole.slice(0, 0), whole.slice(0, 3), whole.slice(3)]
            log.fold(partial(iter, parts), force=True)
        at, table = read_view(tmp_path / "log")
        assert (at, {same(row) for row in zip(*table.to_pydict().values(), strict=True)}) == (
            epoch, set(view)
        )  # fmt: skip
    assert isinstance(read_deltas(tmp_path / "log"), pa.Table)
