"""The parts that shards are made of: hashing, messages, placement, files, the choice of executor.

Sees: rows that two machines would place differently, programs that are said to need no shuffle and
do, damage in a file that is read as if it were whole, an epoch half done that is taken as done.
"""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltafix
from deltafix.errors import (
    FactError,
    ProgramError,
    StateError,
    StateInUseError,
    TypeMismatchError,
    UnknownRelationError,
)
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Schema
from deltafix.spark.hashing import Key, cut, hash_rows
from deltafix.spark.shards import ShardedDatabase, resident
from deltafix.spark.shards.choose import SMALL, Sizes, choose, recomputed
from deltafix.spark.shards.core import prepare
from deltafix.spark.shards.frames import local_table
from deltafix.spark.shards.rendezvous import Rendezvous, leave_mark
from deltafix.spark.shards.schedule import Report
from deltafix.spark.shards.whole import decompose
from deltafix.spark.wire import Batch, fold, pack, route, table_schema, unpack
from deltafix.store import disk
from deltafix.store.folder import folder_at

EDGES = ".decl edge(x: number, y: number)\n"
REACH = EDGES + (
    ".decl root(x: number)\n.decl reach(x: number)\n"
    "reach(x) :- root(x).\nreach(y) :- reach(x), edge(x, y).\n"
)


def signed_rows(*rows: tuple) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.Table.from_arrays(
        [pa.array(columns[0]), pa.array(columns[1]), pa.array(columns[2], pa.int8())],
        schema=table_schema(("number", "symbol")),
    )


def test_hash_is_of_the_key_and_the_same_for_ever() -> None:
    table = signed_rows((1, "a", 1), (2, "b", 1), (1, "b", 1))
    assert hash_rows(table, [0, 1]).tolist() == [
        18039765601404877161,
        16513178226463558475,
        8195381438670377508,
    ]
    by_name = hash_rows(table, [1])
    assert by_name[1] == by_name[2] != by_name[0]
    order, parts = cut(hash_rows(table, []), 7)
    assert order is None
    assert [*parts.values()] == [slice(0, 3)]
    for shards in (1, 2, 300, 70_000):
        hashes = np.random.default_rng(shards).integers(0, 1 << 63, 1_000).astype(np.uint64)
        order, parts = cut(hashes, shards)
        rows = np.arange(1_000) if order is None else order
        for shard, where in parts.items():
            assert {(int(one) >> 32) % shards for one in hashes[rows[where]]} == {shard}
        found = [row for where in parts.values() for row in rows[where].tolist()]
        assert sorted(found) == [*range(1_000)]
    floats = pa.table({"x": pa.array([0.0, -0.0, float("nan"), -float("nan")])})
    zero, other, nan, minus = hash_rows(floats, [0]).tolist()
    assert (zero, nan) == (other, minus)


def test_route_gives_every_row_to_one_shard_or_to_all() -> None:
    rows = [(n, str(n % 5), 1) for n in range(100)]
    parts = dict(route(signed_rows(*rows), Key((0,)), 4))
    assert sorted(row for part in parts.values() for row in part["c0"].to_pylist()) == list(
        range(100)
    )
    assert max(part.num_rows for part in parts.values()) < 50
    assert {part.num_rows for _, part in route(signed_rows(*rows), Key(None), 4)} == {100}


def test_fold_nets_and_messages_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    one = signed_rows((1, "a", 1), (2, "b", -1))
    two = signed_rows((1, "a", -1), (3, "c", 1))
    net = sorted(zip(*(c.to_pylist() for c in fold([one, two]).columns), strict=True))
    assert net == [(2, "b", -1), (3, "c", 1)]
    monkeypatch.setattr("deltafix.spark.wire.ROWS", 3)
    pieces = list(pack([Batch("p", one), Batch("q", two), Batch("p", fold([one, two]))]))
    assert len(pieces) > 1
    found: dict[str, list[Any]] = {}
    for batch in (batch for data in pieces for batch in unpack(data)):
        found.setdefault(batch.name, []).extend(batch.table.to_pylist())
    assert len(found["p"]) == 4
    assert found["q"] == two.to_pylist()


@pytest.mark.parametrize(
    ("rules", "column"),
    [
        ("r(x, y) :- edge(x, y). r(x, z) :- r(x, y), edge(y, z).", 0),
        ("r(x, y) :- edge(x, y). r(x, z) :- edge(x, y), r(y, z).", 1),
        ("r(x, y) :- edge(x, y), !edge(y, x). r(x, z) :- r(x, y), r(x, z).", 0),
        ("r(x, y) :- edge(x, y). r(x, z) :- r(x, y), r(y, z).", None),
        ("r(x, y) :- edge(x, y). r(y, x) :- r(x, y).", None),
        ("r(x, y) :- edge(x, _), edge(_, y).", 0),
        ("r(x, n) :- edge(x, _), n = count : { edge(x, _) }.", 0),
        ("r(1, y) :- edge(1, y).", 1),
        ("r(x, n) :- edge(x, _), n = count : { edge(_, _) }.", None),
    ],
)
def test_decompose_finds_the_column_that_every_derivation_keeps(
    rules: str, column: int | None
) -> None:
    program = deltafix.Program.parse(f"{EDGES}.decl r(x: number, y: number)\n{rules}")
    found = decompose(prepare(program))
    assert (found and found["r"]) == column


def test_choice_names_its_reason() -> None:
    small = Sizes(given=1_000_000, changed=10, state_bytes=1 << 20)
    gib = 1 << 30
    assert choose(small, spark=True, memory=8 * gib).executor == "driver"
    assert choose(small._replace(state_bytes=gib), spark=True, memory=8 * gib).executor == "shards"
    many = Sizes(given=100 * SMALL, changed=SMALL + 1, state_bytes=1 << 20)
    assert choose(many, spark=True, memory=gib).executor == "shards"
    assert choose(small._replace(changed=None), spark=True).executor == "shards"
    frames = small._replace(given=0, changed=None, frames=40 << 20)
    assert choose(frames, spark=True, memory=8 * gib).executor == "driver"
    assert choose(frames, spark=True, memory=4 * gib).executor == "shards"
    assert choose(frames._replace(given=5), spark=True, memory=8 * gib).executor == "shards"
    load = small._replace(given=0, changed=2 * SMALL)
    assert choose(load, spark=True, memory=8 * gib).why.startswith("a first load of 2,000,000")
    assert choose(load, spark=True, memory=gib).executor == "shards"
    huge = choose(small._replace(changed=500_000), spark=True)
    assert str(huge) == "recompute: 500,000 changes are 50% of the given rows"
    assert choose(small._replace(changed=500_000), spark=False).executor == "driver"
    some = small._replace(changed=60_000)
    assert recomputed(some) is None
    anew = recomputed(some._replace(removed=50_000))
    assert str(anew) == "recompute: 50,000 rows taken away are 5% of the given rows"
    assert recomputed(some._replace(given=100_000)).why.startswith("60,000 changes are 60%")
    assert recomputed(Sizes(given=10, changed=9, state_bytes=0)) is None, "too few for columns"


def test_bad_input_is_refused_by_name_and_changes_nothing(tmp_path: Path) -> None:
    with ShardedDatabase(REACH, shards=2, state=tmp_path) as db:
        with pytest.raises(UnknownRelationError, match="did you mean 'edge'"):
            db.apply(Delta.of({"edg": ([(1, 2)], [])}))
        with pytest.raises(TypeMismatchError, match="does not fit number"):
            db.apply(Delta.of({"edge": ([("a", "b")], [])}))
        with pytest.raises(FactError, match="must hold 1 and -1 only"):
            schema = Schema.of("p", ["x"], ["number"])
            local_table(schema, pa.table({"x": [1], "sign": [0]}))
        with pytest.raises(StateInUseError):
            ShardedDatabase(REACH, shards=2, state=tmp_path)
        assert (db.epoch, db.rows("edge")) == (0, [])
    with pytest.raises(StateError, match="has 2 shards, not 3"):
        ShardedDatabase(REACH, shards=3, state=tmp_path)
    with pytest.raises(StateError, match="another program"):
        ShardedDatabase(EDGES, shards=2, state=tmp_path)


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        (".decl s(x: symbol)\n.decl r(n: number)\nr(ord(x)) :- s(x).", "ord"),
        (
            ".decl r(x: number, y: number) choice-domain y\n"
            "r(0, 0). r(x, y) :- r(_, x), edge(x, y).",
            "choice-domain of `r`, which is recursive",
        ),
    ],
)
def test_programs_that_one_engine_alone_can_run_are_refused(
    rules: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(ProgramError, match=what):
        ShardedDatabase(EDGES + rules, state=tmp_path)


def test_files_damage_is_named_and_an_attempt_without_manifest_does_not_count(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    with ShardedDatabase(REACH, shards=2, state=state) as db:
        db.apply(Delta.of({"root": ([(0,)], []), "edge": ([(0, 1), (1, 2)], [])}))
    before = tmp_path / "before"
    shutil.copytree(state, before)
    with ShardedDatabase(REACH, shards=2, state=state) as db:
        db.apply(Delta.of({"edge": ([], [(0, 1)])}))
    # The process died before the rename: the epoch's files are there, the manifest is not.
    shutil.copy(before / "manifest.json", state / "manifest.json")
    with ShardedDatabase(REACH, shards=2, state=state) as db:
        assert (db.epoch, db.rows("reach")) == (1, [(0,), (1,), (2,)])
        assert db.apply(Delta.of({"edge": ([], [(1, 2)])}))["reach"].removed == [(2,)]
    manifest = json.loads((state / "manifest.json").read_text())
    assert {path.parent.name for path in state.glob("epoch-*/*.dfx")} == {
        name.split("/")[0] for names in manifest["files"].values() for name in names
    }
    victim = state / manifest["files"]["1"][0]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with (
        ShardedDatabase(REACH, shards=2, state=state) as db,
        pytest.raises(StateError, match=f"{victim.name}.* damaged"),
    ):
        db.rows("reach")
    resident.forget(str(state))
    (state / "manifest.json").write_text('{"format": 1}')
    with pytest.raises(StateError, match="not a manifest"):
        ShardedDatabase(REACH, shards=2, state=state)


def test_files_a_write_that_fails_leaves_the_epoch_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = disk.create
    countdown = [0]

    def failing(path: Path, pieces: Iterable[disk.Piece], *, durable: bool = True) -> int:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise OSError(errno.ENOSPC, "no space left")
        return create(path, pieces, durable=durable)

    monkeypatch.setattr(disk, "create", failing)
    cut = Delta.of({"edge": ([], [(1, 2)])})
    back = Delta.of({"edge": ([(1, 2)], [])})
    with ShardedDatabase(REACH, shards=2, state=tmp_path) as db:
        db.apply(Delta.of({"root": ([(0,)], []), "edge": ([(0, 1), (1, 2), (2, 3)], [])}))
        failures = 0
        for number in range(1, 100):
            epoch = db.epoch
            countdown[0] = number
            try:
                found = db.apply(cut)
            except StateError:
                failures += 1
                countdown[0] = 0
                assert (db.epoch, db.rows("reach")) == (epoch, [(0,), (1,), (2,), (3,)])
                found = db.apply(cut)
            assert found["reach"].removed == [(2,), (3,)]
            if countdown[0] > 0:
                break
            assert db.apply(back)["reach"].added == [(2,), (3,)]
        assert failures >= 4


def test_compaction_keeps_the_rows_and_one_file_a_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltafix.spark.shards.epoch._COMPACT", 2000)
    one = deltafix.connect(REACH)
    with ShardedDatabase(REACH, shards=2, state=tmp_path) as db:
        for n in range(6):
            delta = Delta.of({"root": ([(n,)], []), "edge": ([(n, n + 10)], [])})
            assert db.apply(delta) == one.apply(delta)
            resident.forget(str(tmp_path))
        files = json.loads((tmp_path / "manifest.json").read_text())["files"]
        assert max(map(len, files.values())) < 12
        assert db.rows("reach") == one.rows("reach")


def test_tasks_of_a_load_exchange_by_two_files_each_a_step(tmp_path: Path) -> None:
    tasks, shards, steps = 40, 80, 3
    heard: dict[tuple[int, int], tuple[list[int], list[tuple[int, int]]]] = {}

    def row(value: int) -> Batch:
        signs = pa.array([1], pa.int8())
        return Batch("r", pa.Table.from_arrays([[value], signs], schema=table_schema(("number",))))

    def run(me: int) -> None:
        link = Rendezvous(folder_at(tmp_path), me, tasks)
        for step in range(steps):
            away = [(shard, row(me * 1000 + shard)) for shard in range(shards)]
            reports, parcels = link.exchange(Report(pending={me: step}), away)
            senders = sorted(sender for report in reports for sender in report.pending)
            rows = sorted((shard, batch.table[0][0].as_py()) for shard, batch in parcels)
            heard[me, step] = senders, rows

    with pytest.raises(RuntimeError, match="is another one where this task runs"):
        Rendezvous(folder_at(tmp_path), 0, tasks)
    leave_mark(folder_at(tmp_path))
    threads = [threading.Thread(target=run, args=(me,)) for me in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == tasks * steps
    for (me, _), (senders, rows) in heard.items():
        assert senders == list(range(tasks))
        mine = range(me, shards, tasks)
        assert rows == [(s, 1000 * sender + s) for s in mine for sender in range(tasks)]
    assert len(list(tmp_path.iterdir())) == 1 + 2 * tasks * steps
