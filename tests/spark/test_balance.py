"""Keys that have outgrown a shard: counted, shared by all shards, and nothing else is different.

Sees: keys that are not found, rows that are lost or doubled when they are laid out anew, a state
that does not know after a restart which keys are shared, a failure that leaves half of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.agree.test_shards import REACH, agree, random_edits

import deltafix
from deltafix.errors import StateError
from deltafix.facts.delta import Delta
from deltafix.spark.hashing import Heavy, Key, hash_rows
from deltafix.spark.shards import ShardedDatabase, balance, database, resident
from deltafix.spark.shards import epoch as shards_epoch
from deltafix.spark.wire import route
from deltafix.store.folder import LocalFolder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOPS = """
.decl edge(x: number, y: number)
.decl two(x: number, z: number)
.decl reach(x: number)
.decl ends(z: number, n: number)
two(x, z) :- edge(x, y), edge(y, z), x != z, y != 7.
reach(y) :- edge(100000, y).
reach(y) :- reach(x), edge(x, y).
reach(x) :- reach(y), edge(x, y).
ends(z, n) :- reach(z), n = count : { two(_, z) }.
"""
HUB = 7


def star(arms: int) -> list[tuple[int, int]]:
    """A hub between so many arms on both sides, and paths beside it."""
    around = [row for n in range(arms) for row in ((100 + n, HUB), (HUB, 100_000 + n))]
    return [*around, *((n, n + 1) for n in range(200_000, 200_000 + arms))]


def hash_of(value: int) -> int:
    """The hash of a key of one column."""
    return int(hash_rows(pa.table({"key": [value]}), [0])[0])


def rows_by_shard(db: ShardedDatabase) -> list[int]:
    """Local rows of every shard."""
    shards = [
        resident._stand_on(db._spec, number, db._manifest.files[number])[0].shard.db
        for number in range(db.shards)
    ]
    return [sum(one.count(name) for name in db.layout.types) for one in shards]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch writes its shards whole, and a shard of any size is worth a look."""
    monkeypatch.setattr(balance, "_LARGE", 0)
    monkeypatch.setattr(shards_epoch, "_COMPACT", 0)


@pytest.mark.parametrize("load", [0, 1 << 40])
@pytest.mark.parametrize("text", [HOPS, REACH])
def test_a_hub_is_shared_and_every_epoch_after_is_as_before(
    text: str, load: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOAD", load)
    program = deltafix.Program.parse(text)
    one = deltafix.connect(program)
    delta = Delta.of({"edge": (star(300), [])}, one.schemas.values())
    with ShardedDatabase(program, shards=4, state=tmp_path) as db:
        assert db.apply(delta) == one.apply(delta)
        before, rows = rows_by_shard(db), {name: db.rows(name) for name in one.schemas}
        assert db.balance() >= 1
        assert hash_of(HUB) in db.layout.heavy
        assert db.epoch == one.epoch
        assert {name: db.rows(name) for name in one.schemas} == rows
        after = rows_by_shard(db)
        assert 4 * max(before) / sum(before) > 1.3
        assert 4 * max(after) / sum(after) < 1.15
        assert db.balance() == 0, "nothing is uneven any more, or nothing can be done about it"
        relations = {"edge": 2} | ({"root": 1} if text == REACH else {})
        script = random_edits(Random(text), relations, 9, 3)
        agree(program, script[:2], db, one)
        shared = db.layout.heavy
    with ShardedDatabase(program, shards=4, state=tmp_path) as db:
        assert db.layout.heavy == shared
        agree(program, script[2:], db, one)
        gone = Delta.of({"edge": ([], [(100 + n, HUB) for n in range(0, 300, 2)])})
        assert db.apply(gone) == one.apply(gone)


def test_other_shards_and_other_rules_take_over_shared_keys(tmp_path: Path) -> None:
    with ShardedDatabase(HOPS, shards=4, state=tmp_path / "s") as db:
        db.apply(Delta.of({"edge": (star(300), [])}))
        assert db.balance()
        two, shared = db.rows("two"), db.layout.heavy
    with ShardedDatabase(HOPS, shards=3, state=tmp_path / "s", around=folder_at(tmp_path)) as db:
        assert db.layout.heavy == shared
        assert db.rows("two") == two
    with pytest.raises(StateError, match="has 3 shards, not 5"):
        ShardedDatabase(HOPS, shards=5, state=tmp_path / "s")


def test_even_shards_and_one_group_that_must_stay_together_are_left_alone(tmp_path: Path) -> None:
    pairs = [(n, n + 1) for n in range(0, 400, 2)]
    with ShardedDatabase(HOPS, shards=2, state=tmp_path / "even") as db:
        db.apply(Delta.of({"edge": (pairs, [])}))
        assert db.balance() == 0
        assert db.layout.heavy == ()
    total = """
    .decl part(x: number, n: number) .decl total(n: number) .decl big(x: number)
    total(n) :- n = sum a : { part(_, a) }.
    big(x) :- part(x, n), total(n).
    """
    with ShardedDatabase(total, shards=3, state=tmp_path / "one") as db:
        db.apply(Delta.of({"part": ([(n, n) for n in range(60)], [])}))
        assert db.balance() == 0


def test_a_failure_while_rows_are_laid_out_anew_leaves_them_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Iterator[object]:
        raise OSError(28, "No space left on device")

    one = deltafix.connect(HOPS)
    delta = Delta.of({"edge": (star(300), [])}, one.schemas.values())
    with ShardedDatabase(HOPS, shards=4, state=tmp_path) as db:
        assert db.apply(delta) == one.apply(delta)
        with monkeypatch.context() as patch:
            patch.setattr(LocalFolder, "write", fails)
            with pytest.raises(StateError, match="No space left"):
                db.balance()
        assert db.layout.heavy == ()
        back = Delta.of({"edge": ([], [(100, HUB)])}, one.schemas.values())
        assert db.apply(back) == one.apply(back)
        assert db.balance() >= 1
        assert db.rows("two") == one.rows("two")
    with ShardedDatabase(HOPS, shards=4, state=tmp_path) as db:
        assert db.rows("ends") == one.rows("ends")


def test_rows_of_a_heavy_key_go_by_its_columns_or_to_all() -> None:
    table = pa.table({"c0": [1, 1, 1, 2, 2], "c1": range(5), "sign": pa.array([1] * 5, pa.int8())})
    hashes = (hash_of(1),)
    for columns, copies in (((0, 1), 1), (None, 4)):
        parts: dict[int, list[tuple[int, int]]] = {}
        for shard, part in route(table, Key((0,), Heavy(hashes, columns)), 4):
            rows = zip(part["c0"].to_pylist(), part["c1"].to_pylist(), strict=True)
            parts.setdefault(shard, []).extend(rows)
        found = [row for rows in parts.values() for row in rows]
        assert sorted(set(found)) == [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)]
        assert [found.count((1, n)) for n in range(3)] == [copies] * 3
        assert [found.count((2, n)) for n in (3, 4)] == [1, 1]
        assert sum((2, 3) in rows and (2, 4) in rows for rows in parts.values()) == 1


@pytest.mark.spark
def test_spark_workers_count_keys_and_lay_them_out_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = deltafix.connect(REACH)
    edges = [(0, n) for n in range(1, 300)] + [(n, 300 + n) for n in range(1, 100)]
    with ShardedDatabase(REACH, spark, shards=3, state=tmp_path, executor="shards") as db:
        for change in (
            {"edge": (edges, [])},
            {"root": ([(0,)], [])},
            {"edge": ([(399, 0)], [(0, 9), (0, 4)])},
            {"root": ([], [(0,)])},
        ):
            delta = Delta.of(change, one.schemas.values())
            assert db.apply(delta) == one.apply(delta)
            db.balance()
        assert db.layout.heavy == (hash_of(0),)
        assert db.rows("dead") == one.rows("dead")
