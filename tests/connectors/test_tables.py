"""Views that go to tables of Delta and Iceberg by Spark: every epoch once, whatever stops it when.

Targets are stopped at the steps of an epoch and made anew, as a driver that died is; the table's
rows are asserted against a model after each. Pipelines are killed in
`tests/faults/test_shards_cluster.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyspark.sql.conf import RuntimeConfig
from tests.connectors.jars import needs
from tests.support.amount import FUZZED, cases
from tests.targets.job import apply_at_once

from deltafix.errors import ConfigError, SinkError
from deltafix.facts.arrow import table_from_rows
from deltafix.facts.schema import Row, Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.targets import registry
from deltafix.pipeline.targets.target import EpochRows, Target
from deltafix.spark import tables
from deltafix.spark.sources.live import LiveSpark

pytestmark = [pytest.mark.spark, needs("delta")]

SCHEMA = Schema.of("view", ["order", "Big", "x", "text"], ["number", "unsigned", "float", "symbol"])
VALUES = (
    [0, -(2**63), 2**63 - 1], [0, 2**64 - 1], [0.0, 0.1, float("inf"), float("nan")],
    ["", "\\N", "a\nb", "q\"'`", "é\u0301", "\U0001f600"],
)  # fmt: skip
EPOCHS = max(3, cases(4, fuzz=30))  # the third is lost
STEPS = ("_make", "_held", "_insert", "_change")
PLACES = ["delta by path", "delta by name", "iceberg"]
CASES = [(place, mode) for mode in ("merge", "append") for place in PLACES]
if not FUZZED:  # a commit of Spark's costs a second
    CASES = [CASES[at] for at in (0, 2, 4, 5)]
SHOWN = {
    "delta by path": "Delta tables by path, out: `MERGE`",
    "delta by name": "Delta tables by name, out",
    "iceberg": "Iceberg tables, out: `MERGE`, rollback noticed",
    "iceberg by both": "Iceberg tables, out: by Spark and pyiceberg by turns",
}
BY_TURNS = ("delta by path", "iceberg by both")
WHEREVER = [*CASES, ("iceberg by both", "merge"), ("iceberg by both", "append")]


class Stopped(BaseException):
    """What stands for the end of a process."""


def output(place: str, mode: str, folder: Path) -> OutputConfig:
    """An output at a new place."""
    name = f"t{uuid4().hex[:8]}"
    values: dict[str, Any] = {"mode": mode, "options": {}, "path": "", "table": ""}
    if place.startswith("iceberg"):
        values |= {"catalog": place.rpartition(" by ")[2].replace("iceberg", "ice")}
        values |= {"table": f"db.{name}"}
    elif place == "delta by name":
        values["table"] = f"default.{name}"
    else:
        values["path"] = str(folder / name)
    return OutputConfig("view", folder / "log", sink=place.partition(" ")[0], values=values)


def on_spark(one: OutputConfig, state: str) -> tables._Table:
    found = tables.on_tables(LiveSpark())(one, SCHEMA, state)
    assert isinstance(found, tables._Table)
    return found


def same(row: Any) -> tuple[Any, ...]:
    """A row as a key of sets: NaN is equal to itself."""
    number, big, real, text = row
    return (int(number), int(big), str(real), text)


def epochs(rng: Random, view: dict[tuple[Any, ...], Row]) -> Any:
    """Random epochs of a view, which is kept beside."""
    for number in range(1, EPOCHS + 1):
        gone = rng.sample(sorted(view, key=str), rng.randrange(min(len(view), 6) + 1))
        removed = [view.pop(key) for key in gone]
        come = {same(row): row for row in (tuple(map(rng.choice, VALUES)) for _ in range(9))}
        added = {key: row for key, row in come.items() if key not in view and key not in gone}
        view |= added
        sides = (table_from_rows(SCHEMA, list(side)) for side in (added.values(), removed))
        yield EpochRows(SCHEMA, 3 * number, *sides)


def logged(rows: EpochRows, folder: Path) -> EpochRows:
    """The same rows as files of a log that executors see."""
    files = []
    for start in (0, 7):
        path = folder / f"{rows.epoch}-{start}.parquet"
        pq.write_table(rows.signed.slice(start, 7 if not start else None), path)
        files.append(path.as_uri())
    return EpochRows.logged(SCHEMA, rows.epoch, lambda: rows.signed, files)


def check(spark: Any, place: str, mode: str, view: dict[tuple[Any, ...], Row]) -> None:
    if "delta.`" not in place:  # Spark 4.0 cannot refresh a path
        spark.catalog.refreshTable(place)  # the session may have it in a cache
    rows = spark.read.table(place).toArrow().to_pylist()
    found = [(row["sign"] if mode == "append" else 1, same([*row.values()][:4])) for row in rows]
    sums: dict[tuple[Any, ...], int] = {}
    for sign, row in found:
        sums[row] = sums.get(row, 0) + sign
    assert set(sums.values()) <= {0, 1}
    assert {row for row, sign in sums.items() if sign} == set(view)


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        pytest.param(place, mode, marks=[needs(place.split()[0]), pytest.mark.shows(SHOWN[place])])
        for place, mode in WHEREVER
    ],
)
def test_agree_with_the_view_wherever_an_epoch_stops(
    spark, request, place, mode, tmp_path, *, monkeypatch
) -> None:
    rng, state = Random(f"{place} {mode}"), uuid4().hex
    one = output(place, mode, tmp_path)
    view: dict[tuple[Any, ...], Row] = {}
    held, stops, moves = None, 0, 0
    for made in epochs(rng, view):
        target: Target = on_spark(one, state)
        in_files = rng.random() < 0.5
        rows = logged(made, tmp_path) if in_files else made
        step, late = rng.choice(STEPS), rng.random() < 0.7
        if held is None:  # the first rows are there, and nothing behind their commit was done
            step, late = ("_change" if one.sink == "iceberg" else "_insert"), True
        real = getattr(target, step)

        def stop(*args: Any, real: Callable[..., Any] = real, late: bool = late) -> Any:
            if late:
                real(*args)
            raise Stopped

        with monkeypatch.context() as patch:
            patch.setattr(target, step, stop)
            try:
                target.apply(rows)
            except Stopped:
                stops += 1
        if place in BY_TURNS and (held is None or rng.random() < 0.5):  # the package takes over
            options = request.getfixturevalue("both") if one.sink == "iceberg" else {}
            other = replace(one, values={**one.values, "options": options})
            found = registry.make_target(other, SCHEMA, state)
            assert found is not None
            target = found
            in_files = False
            moves += 1
        else:
            target = on_spark(one, state)
        assert target.epoch() in (held, rows.epoch)
        target.apply(rows)
        target.apply(rows)
        held = target.epoch()
        assert held == rows.epoch
        target.close()
        assert not in_files or "signed" not in vars(rows), "executors read them, not the driver"
        check(spark, on_spark(one, state)._table, mode, view)
    assert stops
    assert moves or place not in BY_TURNS


@pytest.mark.parametrize(
    ("place", "mode"), [pytest.param(*one, marks=needs(one[0].split()[0])) for one in CASES[1:]]
)
def test_of_two_writers_that_meet_in_one_epoch_one_applies_it(
    spark, place, mode, tmp_path, *, monkeypatch
) -> None:
    state, one = uuid4().hex, output(place, mode, tmp_path)
    first, second = (list(epochs(Random("meet"), {}))[at] for at in (0, 1))
    writers = [on_spark(one, state) for _ in range(2)]
    writers[0].apply(first)
    before = spark.read.table(writers[0]._table).count()
    met = threading.Barrier(2)

    def meet(real: Callable[..., Any]) -> Callable[..., Any]:
        met_once: list[int] = []

        def held(*args: Any) -> Any:
            found = real(*args)
            if not met_once:
                met_once.append(met.wait(60))  # both have seen the epoch before
            return found

        return held

    for target in writers:
        monkeypatch.setattr(target, "_held", meet(target._held))
    refused = apply_at_once(writers, second)
    assert len(refused) <= 1, refused
    came, went = second.added.num_rows, second.removed.num_rows
    wanted = before + (came - went if mode == "merge" else came + went)
    monkeypatch.undo()
    for target in writers:
        target.apply(second)  # the one that was refused finds the epoch there
        assert target.epoch() == second.epoch
    spark.catalog.refreshTable(writers[0]._table)
    assert spark.read.table(writers[0]._table).count() == wanted


@needs("iceberg")
@pytest.mark.shows("Iceberg tables, out: `MERGE`, rollback noticed")
def test_an_iceberg_table_that_went_back_or_lost_its_snapshots(spark, tmp_path) -> None:
    state, one = uuid4().hex, output("iceberg", "merge", tmp_path)
    target, view = on_spark(one, state), {}
    told = list(epochs(Random("back"), view))
    for rows in told:
        target.apply(rows)
    place = target._table
    name = f"{one.values['catalog']}.{one.values['table']}"
    history = spark.sql(f"SELECT snapshot_id FROM {name}.history ORDER BY made_current_at")
    *_, second, _, _ = [row[0] for row in history.collect()]
    spark.sql(f"CALL ice.system.rollback_to_snapshot('{one.values['table']}', {second})")
    assert target.epoch() == told[-3].epoch  # not what its property says
    for rows in told[-2:]:
        target.apply(rows)
    check(spark, place, "merge", view)
    spark.sql(f"DELETE FROM {name} WHERE false")
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE false")
    spark.sql(
        f"CALL ice.system.expire_snapshots(table => '{one.values['table']}', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01')"
    )
    assert on_spark(one, state).epoch() == told[-1].epoch


@needs("iceberg")
def test_tables_that_are_not_the_outputs(spark, tmp_path) -> None:
    for place in PLACES[1:]:
        one = output(place, "merge", tmp_path)
        on_spark(one, "a").apply(next(epochs(Random("other"), {})))
        with pytest.raises(SinkError, match=r"table .* holds 9 rows that this output did not put"):
            on_spark(one, "b").epoch()
    one.values["catalog"] = "nowhere"  # type: ignore[index]
    with pytest.raises(SinkError, match="Spark has no catalog of that name; say its options here"):
        on_spark(one, "a").epoch()
    for wrong in ("a b", "", "a..b", "a`b", "t VALUES (1)"):
        one.values["table"] = wrong  # type: ignore[index]
        with pytest.raises(ConfigError, match="is no name of a table"):
            on_spark(one, "a")


def test_a_target_asks_once_for_the_settings_of_a_session(spark, tmp_path, monkeypatch) -> None:
    real, asked = RuntimeConfig.getAll.fget, []

    def counted(conf: RuntimeConfig) -> dict[str, str]:
        asked.append(conf)
        return real(conf)

    monkeypatch.setattr(RuntimeConfig, "getAll", property(counted))
    target = on_spark(output("delta by path", "merge", tmp_path), "state")
    assert target.epoch() is None
    assert len(asked) == 2  # the pipeline's, and its own
    target.close()
