"""Reducers over streams of signed rows: crashes, replays, bad rows, and a real query restarted."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from deltafix.errors import FactError, MissingRowError, OperatorError, StateError
from deltafix.reactive import Min, Sum, Union, product
from deltafix.spark.reduce import StreamReduce
from deltafix.store import disk


def _rows(*rows):
    names = ("key", "value", "sign")
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = (pa.string(), pa.int64(), pa.int8())
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, column, kind in zip(names, columns, kinds, strict=True)
        }
    )


def _signed(table):
    columns = [table.column(name).to_pylist() for name in ("key", "value", "sign")]
    return sorted(zip(*columns, strict=True))


def test_a_batch_gives_the_signed_changes_of_its_results(tmp_path):
    reduce = StreamReduce(Sum(), tmp_path)
    first = reduce.apply(0, _rows(("a", 3, 1), ("a", 5, 1), ("b", 7, 1)))
    assert _signed(first.delta) == [("a", 8, 1), ("b", 7, 1)]
    second = reduce.apply(1, _rows(("a", 3, -1), ("a", 4, 2), ("b", 1, 1), ("b", 1, -1)))
    assert _signed(second.delta) == [("a", 8, -1), ("a", 13, 1)]
    assert second.delta.column("epoch").to_pylist() == [1, 1]
    assert reduce.results() == {"a": 13, "b": 7}


def test_a_seen_batch_returns_what_it_changed_then_and_changes_nothing(tmp_path):
    reduce = StreamReduce(Sum(), tmp_path)
    first = reduce.apply(0, _rows(("a", 3, 1)))
    reduce.apply(1, _rows(("a", 4, 1)))
    again = StreamReduce(Sum(), tmp_path).apply(0, _rows(("a", 3, 1)))
    assert again.replayed
    assert again.delta.equals(first.delta)
    assert StreamReduce(Sum(), tmp_path).results() == {"a": 7}


@pytest.mark.parametrize("seed", range(4))
def test_oracle_crashes_anywhere_and_replays_give_the_batch_recomputation(
    tmp_path, monkeypatch, seed
):
    chance = random.Random(seed)
    monkeypatch.setattr("deltafix.spark.reduce._LOGS", 3)
    held, batches = [], []
    for _ in range(12):
        batch = []
        for _ in range(chance.randint(1, 6)):
            if held and chance.random() < 0.4:
                batch.append((*held.pop(chance.randrange(len(held))), -1))
            else:
                held.append((chance.choice("abc"), chance.randint(0, 3)))
                batch.append((*held[-1], 1))
        batches.append(_rows(*batch))
    rename, crashes = disk.rename, 0
    deltas, done = {}, 0
    reducer = product(Sum(), Min())
    while done < len(batches):
        countdown = chance.randint(1, 12)

        def fragile(source, target):
            nonlocal countdown
            countdown -= 1
            if not countdown:
                raise OSError("crash")
            rename(source, target)

        stream = StreamReduce(reducer, tmp_path)
        monkeypatch.setattr(disk, "rename", fragile)
        try:
            start = max(min(done, stream.last_batch + 1) - chance.randint(0, 2), 0)
            for number in range(start, len(batches)):
                result = stream.apply(number, batches[number])
                assert _signed(result.delta) == deltas.setdefault(number, _signed(result.delta))
                done = max(done, number + 1)
        except OSError:
            crashes += 1
        monkeypatch.setattr(disk, "rename", rename)
    wanted = {
        key: (sum(v for k, v in held if k == key), min(v for k, v in held if k == key))
        for key in {key for key, _ in held}
    }
    assert StreamReduce(reducer, tmp_path).results() == wanted
    assert crashes > 0
    assert len(list(tmp_path.glob("net-*.parquet"))) <= 4


def test_bad_rows_fail_the_batch_or_go_to_the_quarantine_with_a_reason(tmp_path):
    bad = _rows(("a", 3, 1), (None, 4, 1), ("a", None, 1), ("b", 9, -1), ("a", 8, None))
    strict = StreamReduce(Sum(), tmp_path / "strict")
    with pytest.raises(FactError, match="no key"):
        strict.apply(0, bad)
    with pytest.raises(MissingRowError, match="9 at key 'b'"):
        strict.apply(0, _rows(("a", 3, 1), ("b", 9, -1)))
    assert (strict.last_batch, strict.results()) == (-1, {})
    lenient = StreamReduce(Sum(), tmp_path / "lenient", bad_rows="quarantine")
    result = lenient.apply(0, bad)
    assert lenient.results() == {"a": 3}
    assert result.quarantine.column("reason").to_pylist() == [
        "no key",
        "no value",
        "no sign",
        "delete of an absent value",
    ]
    again = lenient.apply(0, bad)
    assert again.quarantine.equals(result.quarantine)


def test_a_key_of_a_type_that_cannot_be_one_is_a_bad_row(tmp_path):
    table = pa.table({"key": [1.5], "value": [1], "sign": [1]})
    with pytest.raises(FactError, match="a key of type double"):
        StreamReduce(Sum(), tmp_path / "strict").apply(0, table)
    lenient = StreamReduce(Sum(), tmp_path / "lenient", bad_rows="quarantine")
    assert lenient.apply(0, table).quarantine.column("reason").to_pylist() == [
        "a key of type double"
    ]


def test_a_failing_reducer_leaves_the_state_as_before(tmp_path):
    reduce = StreamReduce(Sum("amount"), tmp_path)
    with pytest.raises(OperatorError, match="amount"):
        reduce.apply(0, _rows(("a", 3, 1)))
    unprintable = StreamReduce(Union(), tmp_path / "bags")
    with pytest.raises(FactError, match="Arrow type"):
        unprintable.apply(0, _rows(("a", 3, 1)))
    assert (reduce.last_batch, unprintable.last_batch, unprintable.results()) == (-1, -1, {})


def test_state_that_is_damaged_or_of_another_reducer_is_refused(tmp_path):
    reduce = StreamReduce(Sum(), tmp_path)
    reduce.apply(0, _rows(("a", 3, 1)))
    with pytest.raises(StateError, match="Sum"):
        StreamReduce(Min(), tmp_path)
    with pytest.raises(FactError, match="types"):
        reduce.apply(1, pa.table({"key": [1], "value": [1], "sign": [1]}))
    with pytest.raises(FactError, match="no column 'sign'"):
        reduce.apply(1, _rows(("a", 3, 1)).select(["key", "value"]))
    with pytest.raises(FactError, match="bad_rows"):
        StreamReduce(Sum(), tmp_path, bad_rows="drop")
    manifest = tmp_path / "manifest.json"
    kept = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**kept, "logs": ["../../etc/passwd"]}))
    with pytest.raises(StateError, match="passwd"):
        StreamReduce(Sum(), tmp_path)
    manifest.write_text("[]")
    with pytest.raises(StateError, match="no manifest"):
        StreamReduce(Sum(), tmp_path)
    manifest.write_text("{")
    with pytest.raises(StateError, match="damaged"):
        StreamReduce(Sum(), tmp_path)


@pytest.mark.spark
def test_a_query_restarted_ten_times_equals_the_batch_recomputation(tmp_path, spark):
    chance = random.Random(3)
    source, held = tmp_path / "in", []
    source.mkdir()
    for number in range(12):
        batch = [(chance.choice("abc"), chance.randint(0, 9), 1) for _ in range(5)]
        if held:
            batch.append((*held.pop(chance.randrange(len(held))), -1))
        held += [(key, value) for key, value, sign in batch if sign > 0]
        pq.write_table(_rows(*batch), source / f"{number:03d}.parquet")
        os.utime(source / f"{number:03d}.parquet", (1_000_000 + number, 1_000_000 + number))
    output, starts, replays = {}, 0, 0
    while len(output) < 12 or starts < 10:
        starts += 1
        reduce = StreamReduce(Sum(), tmp_path / "state")
        stop_after = chance.randint(1, 2)

        def sink(result, restarts=starts < 10):
            nonlocal stop_after, replays
            replays += result.replayed
            rows = _signed(result.delta)
            assert output.setdefault(result.batch, rows) == rows
            stop_after -= 1
            if not stop_after and restarts:
                # The engine has committed, Spark has not: the batch comes again.
                raise RuntimeError("stopped here")

        query = (
            spark.readStream.schema("key string, value long, sign byte")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
            .writeStream.foreachBatch(reduce.for_each_batch(sink))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        with suppress(StreamingQueryException):
            query.awaitTermination()
    totals = {key: sum(v for k, v in held if k == key) for key in "abc"}
    assert StreamReduce(Sum(), tmp_path / "state").results() == totals
    followed = {}
    for _, rows in sorted(output.items()):
        for key, value, sign in rows:
            followed[key, value] = followed.get((key, value), 0) + sign
    assert {pair for pair, count in followed.items() if count} == set(totals.items())
    assert replays >= 5
