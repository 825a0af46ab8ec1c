"""Shards on Spark's workers: the same answers, through its shuffle.

Sees: messages lost between partitions, shards that stand on the wrong step after moving between
workers, frames that differ from the rows they should hold.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest
from tests.support.jobs import Jobs, counting_jobs

import deltafix
from deltafix.errors import FunctorError, SparkJobError, StateError
from deltafix.facts.delta import Delta
from deltafix.spark.shards import ShardedDatabase, choose, database, onspark
from deltafix.store.folder import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""
CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.mark.shows("Rows in shards on the executors")
def test_spark_supersteps_equal_one_engine(spark: SparkSession, tmp_path: Path) -> None:
    one = deltafix.connect(REACH)
    changes = [
        {"root": ([(0,)], []), "edge": ([(0, 1), (1, 2), (2, 1), (2, 3)], [])},
        {"edge": ([(3, 0)], [(0, 1)])},
    ]
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="shards") as db:
        for change in changes:
            delta = Delta.of(change, one.schemas.values())
            assert db.apply(delta) == one.apply(delta)
        assert db.read("reach").collect() == one.rows("reach") == [(0,)]


TYPES = """
.decl given(n: number, u: unsigned, f: float, s: symbol)
.decl all(n: number, u: unsigned, f: float, s: symbol)
.decl none(n: number)
.decl some()
all(n, u, f, s) :- given(n, u, f, s).
none(n) :- given(n, _, _, "no such").
some() :- given(_, _, _, _).
"""


def test_spark_rows_come_in_parts_by_way_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """What a snapshot of a view is written from: the driver has a piece of a shard at a time."""
    rows = [(n, 2**64 - 1 - n, [math.nan, -0.0, 0.5][n % 3], f"{n}") for n in range(250_000)]
    one = deltafix.connect(TYPES)
    delta = Delta.of({"given": (rows, [])}, one.schemas.values())
    one.apply(delta)
    with ShardedDatabase(TYPES, spark, shards=2, state=tmp_path, executor="shards") as db:
        db.apply(delta)
        folders = set(folder_at(tmp_path).folders())
        parts = db.tables("all")
        sizes = [next(parts).num_rows, next(parts).num_rows]
        assert set(folder_at(tmp_path).folders()) > folders
        sizes += [part.num_rows for part in parts]
        assert set(folder_at(tmp_path).folders()) == folders
        assert sum(sizes) == 250_000
        assert max(sizes) <= 100_000
        for name in one.schemas:
            assert repr(db.rows(name)) == repr(one.rows(name))
            assert len({str(part.schema) for part in db.tables(name)}) == 1
            assert list(db.tables(name))


WHOLE = """
.type Pair = [a: number, b: symbol]
.functor gcd(x: number, y: number): number
.decl edge(x: number, y: number, w: number) .decl name(x: number, s: symbol)
.decl dist(x: number, d: number <min>)
.decl told(p: Pair)
dist(0, 0).
dist(y, d + w) :- dist(x, d), edge(x, y, w).
told([@gcd(d, 12), s]) :- dist(x, d), name(x, s).
"""


def test_spark_user_functors_records_and_a_stratum_in_one_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    functors = {"gcd": math.gcd}
    one = deltafix.connect(WHOLE, functors=functors)
    changes = [
        {"edge": ([(0, 1, 8), (1, 2, 1), (0, 2, 3)], []), "name": ([(1, "a"), (2, "b")], [])},
        {"edge": ([], [(0, 2, 3)])},
    ]
    with ShardedDatabase(
        WHOLE, spark, shards=3, state=tmp_path, executor="shards", functors=functors
    ) as db:
        for change in changes:
            delta = Delta.of(change, one.schemas.values())
            assert db.apply(delta) == one.apply(delta)
        assert db.rows("told") == one.rows("told") == [((3, "b"),), ((4, "a"),)]


def test_spark_frames_in_and_out_in_one_superstep(spark: SparkSession, tmp_path: Path) -> None:
    with ShardedDatabase(CLOSURE, spark, shards=4, state=tmp_path, executor="shards") as db:
        rows = [(n, n + 1, 1) for n in range(8)] + [(3, 9, 1), (3, 9, -1)]
        found = db.apply({"edge": spark.createDataFrame(rows, "x long, y long, sign int")})
        assert db.choice is not None
        assert db.choice.executor == "shards"
        assert (db.work.supersteps, db.work.messages) == (1, 0)
        assert found["path"].count() == 36
        assert {row.sign for row in found["path"].collect()} == {1}
        assert db.read("path").where("x = 0").count() == 8
        found = db.apply({"edge": spark.createDataFrame([(3, 4, -1)], "x long, y long, sign int")})
        assert found["path"].agg({"sign": "sum"}).collect()[0][0] == -20


def test_spark_frames_of_changes_have_the_columns_of_their_relations(
    spark: SparkSession, common: str
) -> None:
    text = """.decl edge(x: number, y: unsigned, name: symbol)
    .decl big(y: unsigned, name: symbol)
    .decl some()
    big(y, name) :- edge(_, y, name).
    some() :- edge(_, _, _).
    """
    with ShardedDatabase(text, spark, shards=2, state=common, executor="shards") as db:
        edges = spark.createDataFrame([(1, 2, "a", 1)], "x long, y long, name string, sign int")
        found = db.apply({"edge": edges})
        assert found["big"].dtypes == [
            ("y", "decimal(20,0)"), ("name", "string"), ("sign", "tinyint"),
        ]  # fmt: skip
        assert list(map(tuple, found["big"].collect())) == [(2, "a", 1)]
        assert list(map(tuple, found["some"].collect())) == [(1,)]


def test_spark_new_workers_map_the_engines_of_a_load_instead_of_making_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_WARMED", 0)
    rng = np.random.default_rng(3)
    edges = [*map(tuple, np.unique(rng.integers(0, 90_000, (270_000, 2)), axis=0).tolist())]
    one = deltafix.connect(REACH)
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="shards") as db:
        load = Delta.of({"root": ([(0,)], []), "edge": (edges, [])}, one.schemas.values())
        assert db.apply(load) == one.apply(load)
        assert "in a load" in str(db.choice)
        db.warm(wait=True)
        for turn in range(4):
            if turn:
                stop_workers()  # as Spark does with those that nobody asked for a minute
            change = Delta.of({"edge": ([], [edges[turn]])}, one.schemas.values())
            assert db.apply(change) == one.apply(change)
            assert db.work.loads == 0, "engines are there, or mapped"
        assert db.rows("reach") == one.rows("reach")


def test_spark_a_load_over_a_damaged_shard_says_so_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOAD", 0)
    rows = {"root": ([(0,)], []), "edge": ([(n, n + 1) for n in range(9)], [])}
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="shards") as db:
        db.apply(Delta.of(rows, db.schemas.values()))
    (damaged,) = tmp_path.glob("epoch-*/step-*-shard-1.dfx")
    damaged.write_bytes(damaged.read_bytes()[:-9])
    stop_workers()
    more = Delta.of({"edge": ([(9, 0)], [])}, db.schemas.values())
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="recompute") as db:
        with counting_jobs(spark) as done, pytest.raises(StateError, match=r"shard-1.* damaged"):
            db.apply(more)
        assert done.failed == 0, "Spark does not run a task again that will fail again"


def stop_workers() -> None:
    """Kill Spark's Python workers in this session; it starts others."""
    for daemon in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "pyspark.daemon" in daemon.cmdline():
                for worker in daemon.children():
                    worker.kill()
                    worker.wait()


def test_spark_takes_all_supersteps_of_an_epoch_in_one_job(
    spark: SparkSession, common: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = [(n, n + 1) for n in range(30)]
    one = deltafix.connect(REACH)
    with ShardedDatabase(REACH, spark, shards=4, state=common, executor="shards") as db:
        for rows in ({"root": ([(0,)], []), "edge": (chain, [])}, {"edge": ([], [(9, 10)])}):
            change = Delta.of(rows, one.schemas.values())
            with counting_jobs(spark) as done:
                assert db.apply(change) == one.apply(change)
            assert done.jobs == 1 < db.work.supersteps
        back = Delta.of({"edge": ([(9, 10)], [])}, one.schemas.values())
        # Where Spark cannot start its tasks together, each is a job.
        monkeypatch.setattr(onspark, "_slots", lambda session: 0)
        with counting_jobs(spark) as done:
            assert db.apply(back) == one.apply(back)
        assert done.jobs == db.work.supersteps > 2


@pytest.mark.parametrize("why", ["no slots", "another folder"])
def test_spark_runs_a_job_a_superstep_where_tasks_cannot_exchange_through_the_folder(
    why: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = [(n, n + 1) for n in range(30)]
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="shards") as db:
        with counting_jobs(spark) as done:
            db.apply(Delta.of({"root": ([(0,)], []), "edge": (chain, [])}))
        assert done == Jobs(1, 1, 2)
        if why == "no slots":
            monkeypatch.setattr(onspark, "_slots", lambda session: 0)
        else:
            monkeypatch.setattr(onspark, "leave_mark", lambda folder: None)
        steps = []
        for n in range(29, 21 if why == "no slots" else 27, -1):
            with counting_jobs(spark) as done:
                assert db.apply(Delta.of({"edge": ([], [(n, n + 1)])}))["reach"].removed == [
                    (n + 1,)
                ]
            ran = db.work.supersteps
            if why == "no slots":
                assert done == Jobs(ran, 2 * ran, 4 * ran)
            else:
                assert done.jobs == 2 * ran, "tasks look for the driver's mark, and find none"
            steps.append((db.work.supersteps, db.work.messages))
    # A vote is lost: in the shard that decides, or in the other, which tells it.
    assert set(steps) <= {(1, 0), (2, 1)}
    assert len(set(steps)) == 2 or why != "no slots"


def test_spark_load_by_columns_is_one_job_and_engines_go_on_from_it(
    spark: SparkSession, common: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deltafix.connect(REACH)
    rng = np.random.default_rng(5)
    edges = [tuple(row) for row in rng.integers(0, 400, (900, 2)).tolist()]
    with one.transaction() as tx:
        tx.insert("root", [(0,)])
        tx.insert("edge", edges)
    with ShardedDatabase(REACH, spark, shards=5, state=common, executor="shards") as db:
        frame = spark.createDataFrame([*edges, *edges[:9]], "x long, y long")
        found = db.apply({"edge": frame, "root": spark.range(1)})
        assert str(db.choice) == "shards: asked for; all derived anew, in a load"
        assert db.work.supersteps > 4
        assert db.work.messages > 100
        reached = found["reach"].select("x").collect()
        assert sorted(map(tuple, reached)) == one.rows("reach")
        assert found["edge"].count() == one.count("edge")
        (attempt,) = db._manifest.attempts()
        assert (folder_at(common) / attempt).folders() == ["changes"]  # no parcels any more
        cut = Delta.of({"edge": ([(7, 7)], [edges[3], edges[80]])}, one.schemas.values())
        assert db.apply(cut) == one.apply(cut)
        # Where Spark cannot start the tasks of a load together, supersteps do it.
        monkeypatch.setattr(onspark, "_slots", lambda session: 0)
        db._executor = "recompute"
        monkeypatch.setattr(database, "LOAD", 0)
        back = Delta.of({"edge": ([edges[3]], [(7, 7)])}, one.schemas.values())
        assert db.apply(back) == one.apply(back)
        assert str(db.choice) == "recompute: asked for"


def test_spark_derives_all_anew_by_columns_where_shards_would_take_longer_to_change(
    spark: SparkSession, common: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "LOAD", 50)
    monkeypatch.setattr(database, "LOAD", 50)
    one = deltafix.connect(REACH)
    rng = np.random.default_rng(6)
    edges = sorted({tuple(row) for row in rng.integers(0, 300, (1100, 2)).tolist()})
    with ShardedDatabase(REACH, spark, shards=3, state=common, executor="shards") as db:
        for rows, executor in (
            ({"root": ([(0,)], []), "edge": (edges[:1000], [])}, "shards"),
            ({"edge": ([], edges[100:130])}, "shards"),
            ({"edge": (edges[1000:], [])}, "shards"),
            ({"edge": ([], edges[200:260])}, "recompute"),
            ({"edge": ([edges[222]], [edges[0]])}, "shards"),
        ):
            change = Delta.of(rows, one.schemas.values())
            assert db.apply(change) == one.apply(change)
            assert db.choice is not None
            assert db.choice.executor == executor, rows
        assert db.rows("reach") == one.rows("reach")


def test_spark_frames_whose_state_fits_are_read_by_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "edge.parquet")
    spark.createDataFrame(
        [(0, 1, 1), (1, 2, 1), (5, 6, 1)], "x long, y long, sign int"
    ).write.parquet(path)
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path / "state") as db:
        found = db.apply({"edge": spark.read.parquet(path), "root": spark.range(1)})
        assert str(db.choice).startswith("driver: a first load of 4 rows")
        assert sorted(map(tuple, found["reach"].collect())) == [(0, 1), (1, 1), (2, 1)]
        assert db._manifest.given == 4
        unknown = spark.createDataFrame(
            spark.sparkContext.parallelize([(1, 2, -1)]), "x long, y long, sign int"
        )
        found = db.apply({"edge": unknown})
        assert str(db.choice).startswith("shards: the changes are in frames")
        assert list(map(tuple, found["reach"].collect())) == [(2, -1)]
        assert db._manifest.given == 3


MADE = """
.decl given(x: number)
.decl pair(x: number, y: number)
.decl near(y: number)
.decl far(z: number)
.decl made(x: number)
.functor make(x: number): number
near(y) :- given(x), pair(x, y).
far(z) :- near(y), pair(y, z).
made(@make(z)) :- far(z), near(_).
"""


def test_a_task_that_is_lost_among_those_that_run_together_has_all_of_them_run_again(
    spark: SparkSession, common: str, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"

    def make(number: int) -> int:
        if number == 5 and not ended.exists():
            ended.touch()
            os._exit(1)
        return math.factorial(number)

    one = deltafix.connect(MADE, functors={"make": math.factorial})
    with ShardedDatabase(
        MADE, spark, shards=2, state=common, executor="shards", functors={"make": make}
    ) as db:
        for rows, jobs in (
            ({"given": ([(1,)], []), "pair": ([(1, 2), (2, 4)], [])}, 1),
            ({"pair": ([(2, 5)], [])}, 2),
        ):
            change = Delta.of(rows, one.schemas.values())
            with counting_jobs(spark) as done:
                assert db.apply(change) == one.apply(change)
            assert done.jobs == jobs < db.work.supersteps
        assert ended.exists(), "and all of it was run again"
        assert db.rows("made") == one.rows("made")


def test_what_fails_in_a_task_is_an_error_of_ours_and_the_state_as_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    def of(db: ShardedDatabase, row: int) -> Delta:
        rows = {"given": ([(1,)], []), "pair": ([(1, 2), (2, row)], [])}
        return Delta.of(rows, db.schemas.values())

    for make, kind, text in (
        (math.factorial, FunctorError, "not defined for negative values"),
        (os._exit, SparkJobError, r"a job of shards failed: .*Python worker exited unexpectedly"),
    ):
        state, functors = tmp_path / kind.__name__, {"make": make}
        with ShardedDatabase(
            MADE, spark, shards=2, state=state, executor="shards", functors=functors
        ) as db:
            with pytest.raises(kind, match=text) as raised:
                db.apply(of(db, -1))
            assert "\n" not in str(raised.value)
            assert "Traceback" not in str(raised.value)
            assert (db.epoch, db.rows("given")) == (0, [])
            if make is math.factorial:
                assert db.apply(of(db, 4))["made"].added == [(24,)]
                assert db.work.supersteps > 3, "it fails in a later one than the first"
