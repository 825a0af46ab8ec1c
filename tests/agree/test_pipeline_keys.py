"""However keyed changes are ordered, repeated and cut, a pipeline gives what sorting them gives.

The judge (`judges/oracle_keyed.py`) keeps all that was said of a key and takes the highest. A
`KeyedSplit` writes and looks as `Split` does: files of any format, killed, copied, compacted.
Asserted besides: a key has one word, and tombstones that `late` lets go are gone.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agree.test_pipeline_splits import EXAMPLES, FORMATS, MORE, Split
from tests.faults.killing import Halted, halting
from tests.judges.oracle_keyed import Change, Keys, judge, unordered
from tests.support import pipelines
from tests.support.pipelines import open_pipeline

from deltafix.engine.database import Database
from deltafix.pipeline.manifest import read_view

NAMES = ("x", "n")
FIELDS = ("at", "seq")


def draw_keys(rng: Random) -> Keys:
    sequence = rng.randrange(3)
    late = rng.choice(["apply", "apply", "ignore", "bad"]) if sequence else "apply"
    key = rng.choice([(0,), (0,), (1,), (1, 0)])
    return Keys(key, sequence, late, rng.choice([0, 0, 3, 9]) if sequence else 0)


def draw_changes(rng: Random, form: str, keys: Keys) -> list[Change]:
    """Changes of few keys, in an order that is not that of their sequences."""
    rows = [(x, n) for x in "abc" for n in (-1, 0, 2)]  # beside what stands for nothing
    low = rng.choice([-(1 << 63), -4, 1 << 40, (1 << 63) - 41])
    at = low + 8
    changes = []
    for _ in range(rng.randrange(4, 30)):
        at = min(max(at + rng.choice([-6, -2, -1, 0, 0, 1, 1, 2, 4]), low), low + 40)
        sequence = (at, rng.choice([-1, 0, 0, 1 << 33]))
        if rng.random() < 0.08:
            junk = rng.choice(["sign", "value", "sequence" if keys.sequence else "key", "torn"])
            junk = "value" if form == "parquet" and junk == "torn" else junk
            changes.append(Change(sequence=sequence, junk=junk))
            continue
        images = [(rng.choice([1, 1, -1]), rng.choice(rows))]
        if form == "debezium" and rng.random() < 0.3:
            images = [(-1, rng.choice(rows)), (1, rng.choice(rows))]
            if keys.of(images[0][1]) == keys.of(images[1][1]):
                images = images[1:]  # the update of a row: nothing is taken from another key
        changes.append(Change(tuple(images), sequence))
    return changes


class KeyedSplit(Split):
    """As `Split`, of keyed changes."""

    def section(self) -> list[str]:
        keys = self._options
        fields = [f'"{name}"' for name in FIELDS[: keys.sequence]]
        lines = [f"key = {json.dumps([NAMES[place] for place in keys.key])}"]
        if keys.sequence == 1:
            lines.append(f"sequence_by = {fields[0]}")
        elif fields:
            lines.append(f"sequence_by = [{', '.join(fields)}]")
        if keys.sequence:
            lines += [f'late = "{keys.late}"', f"lateness = {keys.lateness}"]
        return lines

    def write(self, path: Path, messages: Sequence[Change]) -> None:
        if self._form == "debezium":
            path.write_text("".join(self._envelope(one) + "\n" for one in messages))
            return
        records = [self._record(one) for one in messages]
        names = ("op", *FIELDS[: self._options.sequence], *NAMES)
        if self._form == "parquet":
            kinds = {"at": pa.int64(), "seq": pa.int64()}
            fields = [(name, kinds.get(name, pa.string())) for name in names]
            pq.write_table(pa.Table.from_pylist(records, pa.schema(fields)), path)
        elif self._form == "json":
            path.write_text("".join(_line(one) + "\n" for one in records))
        else:
            lines = [] if self._form == "bare csv" else [",".join(names)]
            for one in records:
                texts = (
                    ["" if one[name] is None else str(one[name]) for name in names] if one else []
                )
                lines.append(",".join(texts) if one else "+,1")
            data = "".join(f"{line}\n" for line in lines).encode()
            path.write_bytes(gzip.compress(data) if self._form == "csv.gz" else data)

    def _record(self, change: Change) -> dict | None:
        """A change as columns; None for one that is torn."""
        if change.junk == "torn":
            return None
        sign, row = change.images[0] if change.images else (1, ("a", 1))
        record = {"op": "+" if sign > 0 else "-", **self._sequence(change)}
        record |= {"x": row[0], "n": str(row[1])}
        if sign < 0:
            for place, name in enumerate(NAMES):
                if place not in self._options.key:
                    record[name] = None
        wrong = {"sign": {"op": "?"}, "value": {"n": "two"}, "key": {"n": "two"},
                 "sequence": {FIELDS[0]: None}}  # fmt: skip
        return record | wrong.get(change.junk, {})

    def _sequence(self, change: Change) -> dict:
        many = self._options.sequence
        return dict(zip(FIELDS[:many], change.sequence, strict=False))

    def _envelope(self, change: Change) -> str:
        if change.junk == "torn":
            return "{oh"
        rng = self._rng
        said = self._sequence(change)
        images = dict(change.images)
        before, after = images.get(-1), images.get(1)
        op = "d" if after is None else rng.choice("ur") if before is None else "u"
        envelope: dict = {"op": op, "before": None, "after": None}
        if after is not None:
            envelope["after"] = {"x": after[0], "n": after[1], "other": 1}
        if before is not None:
            some = rng.choice([range(2), self._options.key])  # the whole row, or its key
            envelope["before"] = {NAMES[place]: before[place] for place in some}
        elif op == "u" and rng.random() < 0.5:
            envelope["before"] = {NAMES[place]: after[place] for place in self._options.key}
        if change.junk:
            envelope = {"op": "c", "after": {"x": "a", "n": 0, "other": 1}}
            envelope |= {"sign": {"op": "z"}, "sequence": {}}.get(
                change.junk, {"after": {"x": "a", "n": "two", "other": 1}}
            )
        if change.junk == "sequence":
            said[FIELDS[0]] = None
        source = {name: said.pop(name) for name in list(said) if rng.random() < 0.5}
        envelope |= {"source": source, **said}
        return json.dumps({"payload": envelope} if rng.random() < 0.5 else envelope)

    def check_state(self, db: Database, wanted: object) -> None:
        keys = self._options
        assert not db.rows("edge__both")
        said = [keys.of(row) for row in db.rows("edge__key")]
        assert len(set(said)) == len(said) == db.count("edge")
        if not keys.sequence:
            assert not db.rows("edge__gone")


def _line(record: dict | None) -> str:
    """A JSON line that leaves out what is not said."""
    if record is None:
        return "{oh"
    said = {name: value for name, value in record.items() if value is not None or name in FIELDS}
    return json.dumps(said)


def _run(folder: Path, form: str, keys: Keys, rng: Random, changes: Sequence[Change]) -> int:
    split = KeyedSplit(folder, form, keys, rng, "quarantine")
    split.run(changes)
    return split.check(judge(changes, keys))


@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("form", FORMATS)
def test_agree_any_split_and_order_of_keyed_changes_gives_one_answer(
    form, keeper, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr("tests.support.pipelines.KEEPER", keeper)
    for seed in range(EXAMPLES):
        rng = Random(f"keys {form} {seed}")
        keys = draw_keys(rng)
        changes = draw_changes(rng, form, keys)
        epochs = _run(memory / f"{seed}", form, keys, rng, changes)
        others = unordered(changes)
        if keys.sequence and keys.late == "apply":
            assert judge(others, keys).rows == judge(changes, keys).rows
        epochs += _run(memory / f"{seed} again", form, keys, rng, others)
        judged["splits of keyed pipelines"] += 2
        judged["epochs of keyed pipelines"] += epochs


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_agree_keyed_changes_on_spark_give_that_answer(
    form, spark, memory, judged, monkeypatch
) -> None:
    monkeypatch.setattr("tests.support.pipelines.RUNNER", "spark")
    for seed in range(-(-EXAMPLES // 10)):
        rng = Random(f"spark keys {form} {seed}")
        monkeypatch.setattr(
            "tests.support.pipelines.KEEPER", ("driver", "shards")[FORMATS.index(form) % 2]
        )
        keys = draw_keys(rng)
        epochs = _run(memory / str(seed), form, keys, rng, draw_changes(rng, form, keys))
        judged["epochs of keyed pipelines"] += epochs


def test_shards_that_were_read_for_another_layout_still_know_where_keys_are_judged(
    tmp_path, monkeypatch
) -> None:
    """Found above: a program that is changed, stopped before its layout stands, and changed back.

    What reads the rows of the old layout knows no seats; a worker went on with just that shard.
    """
    monkeypatch.setattr("tests.support.pipelines.KEEPER", "shards")
    keys = Keys((1,), 1, "apply", 0)
    split = KeyedSplit(tmp_path, "csv", keys, Random(0), "quarantine")
    said = [[Change(((1, (x, n)),), (at, 0)) for n in range(9)] for at, x in enumerate("abc")]
    program = tmp_path / "p.dl"
    text = program.read_text()
    for number, changes in enumerate(said):
        split.write(tmp_path / "in" / f"{number}.csv", changes)
        program.write_text(text)
        with split.open() as pipeline:
            list(pipeline.drain())
        program.write_text(text + MORE)
        with halting(0, "die") as stop, suppress(Halted):
            split.open().close()
        assert stop.seen
    program.write_text(text)
    assert split.check(judge([one for changes in said for one in changes], keys)) > 3


TYPED = {
    "n": ("INTEGER", [-1, 9, 10, 100]),
    "x": ("TEXT", ["", "10", "9", "B", "a"]),
    "f": ("DOUBLE", ["-Infinity", "9.0", "10.5", "NaN"]),
    "d": ("DATE", ["0999-01-01", "1969-12-31", "2026-01-31"]),
    "l": ("BIGINT[]", [[], [9], [10], [10, 0]]),
}
"""Columns of SQL, and values from the least on; NULL is greater than all."""


@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("nullable", [False, True])
def test_oracle_of_rows_of_one_sequence_the_greatest_counts_as_sql_compares(
    nullable, keeper, memory, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    words = ", ".join(f"{name} {kind}{'' if nullable else ' NOT NULL'}"
                      for name, (kind, _) in TYPED.items())  # fmt: skip
    for seed in range(EXAMPLES):
        rng, folder = Random(f"greatest {nullable} {seed}"), memory / str(seed)
        (folder / "in").mkdir(parents=True)
        (folder / "v.sql").write_text(
            f"CREATE TABLE t (id INTEGER PRIMARY KEY, {words}); CREATE VIEW v AS SELECT * FROM t;"
        )
        limit = rng.choice([1, 3, 1000])
        (folder / "p.toml").write_text(
            '[pipeline]\nprogram = "v.sql"\nstate = "state"\nrunner = "local"\n'
            f'rows_per_epoch = {limit}\n[input.t]\nsource = "files"\npath = "in"\n'
            'format = "json"\nkey = "id"\nsequence_by = "at"\n[output.v]\npath = "out"\n'
        )
        said: list[tuple[int, int, list[int]]] = []  # a key, a sequence, the places of values
        for number in range(3):
            for _ in range(rng.randrange(1, 6)):
                places = [rng.randrange(len(some) + nullable) for _, some in TYPED.values()]
                said.append((rng.randrange(2), rng.randrange(2), places))
            rows = [{"id": key, "at": at, "sign": 1, **_typed(places)} for key, at, places in said]
            rng.shuffle(rows)  # what was said before is said again
            text = "".join(json.dumps(one) + "\n" for one in rows)
            (folder / "in" / f"{number}.json").write_text(text)
            with open_pipeline(folder / "p.toml") as pipeline:
                list(pipeline.drain())
            best = {key: max(one[1:] for one in said if one[0] == key) for key, *_ in said}
            found = read_view(folder / "out")[1].drop(["d"]).to_pylist()
            wanted = [{"id": key, **_typed(places)} for key, (_, places) in best.items()]
            for one in wanted:
                del one["d"]
                one["f"] = None if one["f"] is None else float(one["f"])
            assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def _typed(places: Sequence[int]) -> dict[str, Any]:
    return {
        name: some[place] if place < len(some) else None
        for place, (name, (_, some)) in zip(places, TYPED.items(), strict=True)
    }
