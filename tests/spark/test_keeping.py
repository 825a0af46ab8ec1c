"""Who keeps the rows on Spark: shards whose supersteps are jobs; what `auto` makes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support import pipelines
from tests.support.jobs import Jobs, counting_jobs
from tests.support.pipelines import Job, signed

from deltafix.errors import ConfigError, StateError
from deltafix.pipeline import sink
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas, read_manifest, read_view
from deltafix.pipeline.replay import replay
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.status import status
from deltafix.spark import keeping, maintain
from deltafix.spark.shards import ShardedDatabase, balance, frames, resident
from deltafix.spark.shards import epoch as shards_epoch
from deltafix.spark.shards.past import around

QUARANTINE = 'bad_rows = "quarantine"'
PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture
def in_shards(spark, monkeypatch) -> None:
    """Pipelines run on Spark, in shards there."""
    monkeypatch.setattr(pipelines, "RUNNER", "spark")
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(pipelines, "SHARDS", 2)


@pytest.mark.spark
@pytest.mark.slow
def test_agree_a_pipeline_whose_epochs_run_on_executors(tmp_path, in_shards) -> None:
    job = Job(tmp_path, member=f'{QUARANTINE}\nduplicates = "bad"')
    job.say("member", ("+", ("ada", "core")), ("+", ("core", "all")), ("+", ("all", "core")))
    job.say("grant", ("+", ("all", 7)), ("+", ("core", 8)))
    job.run()
    path = job.write("member", [("-", ("all", "core")), ("+", ("ada", "core")), ("-", ("x", "y"))])
    job.rows["member"].remove(("all", "core"))
    assert path.exists()
    with job.open() as pipeline:
        epochs = list(pipeline.drain())
        job.check(pipeline)
        db = pipeline.maintainer.db
        assert db.choice.executor == "shards"
        assert db.work.actions == ["commit"], "judged where they are, in the epoch's only superstep"
        # What was read of them came from workers: the driver holds none of the shards.
        assert not [key for key in resident._RESIDENTS if key[0].startswith(str(tmp_path))]
        aside = pipeline.maintainer.quarantine.rows("member")
    assert [row["reason"] for row in aside] == [
        "insert of a row that is there",
        "delete of a row that is not there",
    ]
    assert [epoch.given for epoch in epochs] == [(0, 1)]
    assert "executor shards: asked for" in list(status(read_config(job.toml)))
    assert all(epoch <= 3 for _, _, epoch in signed(read_deltas(tmp_path / "out" / "can")))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("keeper", "options", "actions"),
    [
        ("driver", "", []),
        ("shards", "", ["commit"]),
        ("shards", 'duplicates = "count"', ["judge", "commit"]),
    ],
)
def test_an_epoch_of_one_change_is_a_job_to_net_it_and_one_for_its_supersteps(
    keeper, options, actions, tmp_path, *, in_shards, spark, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    job = Job(tmp_path, member=options)
    job.say("member", ("+", ("ada", "core")), ("+", ("core", "all")))
    job.say("grant", ("+", ("all", 7)))
    job.run()
    job.say("member", ("-", ("core", "all")))
    with job.open() as pipeline:
        with counting_jobs(spark) as done:
            (epoch,) = pipeline.drain()
        if actions:
            assert pipeline.maintainer.db.work.actions == actions
        job.check(pipeline)
    assert epoch.given == (0, 1)
    # One task nets; two, of a shard each, read what that has left, and take all supersteps.
    assert done == (Jobs(2, 2, 3) if actions else Jobs(1, 1, 1))


@pytest.mark.spark
@pytest.mark.slow
def test_agree_maintain_in_shards_with_the_driver(tmp_path, spark) -> None:
    views = {}
    for executor in ("driver", "shards"):
        rows = spark.createDataFrame([(1, 2), (2, 3), (3, 1)], "x long, y long")
        with maintain(
            PROGRAM, {"edge": rows}, state=tmp_path / executor, views=["path"], batch=0,
            executor=executor, shards=2,
        ) as kept:  # fmt: skip
            gone = spark.createDataFrame([(3, 1, -1)], "x long, y long, sign long")
            first = kept["path"].drop("epoch").toPandas().values.tolist()
            kept.apply({"edge": gone}, 1)
            assert [epoch.replayed for epoch in kept.apply({"edge": gone}, 1)] == [True]
            views[executor] = sorted(first), sorted(kept["path"].toPandas().values.tolist())
    assert views["driver"] == views["shards"]
    assert len(views["driver"][0]) == 9
    assert len(views["driver"][1]) == 6


def test_the_first_change_of_a_state_too_large_moves_it_and_status_says_why(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "auto")
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")))
    job.run()
    said = list(status(read_config(job.toml)))
    assert "executor driver: the state fits into its memory" in said
    monkeypatch.setattr(keeping, "room_for_state", lambda: 1_000)
    job.say("grant", ("+", ("core", 7)))
    job.run()
    said = list(status(read_config(job.toml)))
    assert any(line.startswith("executor shards: the state needs about ") for line in said), said
    assert "3 shards with about 2 given rows" in said
    assert not (tmp_path / "state" / "snapshot").exists()
    assert not (tmp_path / "state" / "log").exists()


def test_changes_of_outputs_pass_the_driver_in_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(frames, "PIECE", 3)

    def whole(side: frames.FileSide) -> None:
        raise AssertionError(f"{len(side)} rows at once")

    monkeypatch.setattr(frames.FileSide, "_whole", whole)
    job = Job(tmp_path)
    job.say("member", *(("+", ("ada", f"t{n}")) for n in range(20)))
    job.say("grant", *(("+", (f"t{n}", n)) for n in range(20)))
    job.run()
    job.say("member", *(("-", ("ada", f"t{n}")) for n in range(0, 20, 2)))
    job.run()
    path = tmp_path / "out" / "can" / "delta-000000000003.parquet"
    groups = [
        pq.ParquetFile(path).read_row_group(n) for n in range(pq.ParquetFile(path).num_row_groups)
    ]
    assert sum(group.num_rows for group in groups) == 10
    assert max(group.num_rows for group in groups) <= 3


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_an_output_that_is_new_is_written_from_parts_of_the_view(
    keeper, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    job = Job(tmp_path)
    job.say("member", *(("+", ("ada", f"t{n}")) for n in range(20)))
    job.say("grant", *(("+", (f"t{n}", n)) for n in range(20)))
    job.run()
    text = job.toml.read_text()
    job.toml.write_text(text.replace('"out/can"', '"out/new"'))
    job.places["can"] = tmp_path / "out" / "new"

    def whole(db: ShardedDatabase, relation: str) -> pa.Table:
        raise AssertionError(f"{relation} at once")

    monkeypatch.setattr(ShardedDatabase, "to_arrow", whole)
    with job.open() as pipeline:
        assert [epoch.out for epoch in pipeline.drain()] == [{"can": (20, 0)}]
        monkeypatch.undo()
        monkeypatch.setattr(pipelines, "KEEPER", keeper)
        job.check(pipeline)
    manifest = read_manifest(tmp_path / "out" / "new")
    assert manifest is not None
    assert [(one.last, one.rows) for one in manifest.deltas] == [(3, 20)]


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_an_output_of_what_inputs_bound_is_written_before_there_are_rows(
    keeper, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    (tmp_path / "p.dl").write_text(
        ".decl lim(x: number)\n.decl n(x: number)\n.input lim\n.output n\n"
        "n(0). n(x + 1) :- n(x), !lim(x), x < 5."
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrunner = "local"\n'
        '[input.lim]\nsource = "files"\npath = "in"\n[output.n]\npath = "out"\n'
    )
    with pipelines.open_pipeline(tmp_path / "p.toml") as pipeline:
        assert [epoch.out for epoch in pipeline.drain()] == [{"n": (6, 0)}]
    (tmp_path / "in" / "1.csv").write_text("x,sign\n2,1\n")
    with pipelines.open_pipeline(tmp_path / "p.toml") as pipeline:
        assert [epoch.out for epoch in pipeline.drain()] == [{"n": (0, 3)}]
        assert pipeline.maintainer.db.rows("n") == [(0,), (1,), (2,)]
    assert sorted(read_view(tmp_path / "out")[1].column("x").to_pylist()) == [0, 1, 2]


def test_many_changes_of_outputs_do_not_pass_the_driver(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(sink, "LINK", 9)
    read: list[int] = []
    real = frames.FileSide.tables

    def tables(side: frames.FileSide) -> Iterator[pa.Table]:
        for table in real(side):
            read.append(table.num_rows)
            yield table

    monkeypatch.setattr(frames.FileSide, "tables", tables)
    job = Job(tmp_path)
    job.say("member", *(("+", ("ada", f"t{n}")) for n in range(20)))
    job.say("grant", *(("+", (f"t{n}", n)) for n in range(20)))
    job.run()
    job.say("member", *(("-", ("ada", f"t{n}")) for n in range(10)))
    job.say("member", *(("+", ("bo", f"t{n}")) for n in range(10)))
    job.run()
    manifest = read_manifest(tmp_path / "out" / "can")
    assert manifest is not None
    parts = [(one.file, one.rows) for one in manifest.deltas if one.last == 3]
    assert [name for name, _ in parts][:2] == [
        "delta-000000000003.parquet", "delta-000000000003.1.parquet"
    ]  # fmt: skip
    assert sum(rows for _, rows in parts) == 20
    there = {path.stat().st_ino for path in tmp_path.glob("state/shards/epoch-*/changes/can/*")}
    assert {(tmp_path / "out" / "can" / name).stat().st_ino for name, _ in parts} <= there
    assert read == []
    job.say("member", *(("-", ("bo", f"t{n}")) for n in range(5)))
    job.run()
    assert sum(read) == 10
    with job.open() as pipeline:
        pipeline.compact()
        job.check(pipeline)


@pytest.mark.parametrize("options", ["", 'duplicates = "count"', 'key = ["who"]'])
def test_replay_recomputes_an_epoch_of_shards_from_their_files(
    options, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    job = Job(tmp_path, member=options)
    job.say("grant", ("+", ("core", 7)), ("+", ("all", 8)))
    for change in (("+", ("ada", "core")), ("+", ("core", "all")), ("-", ("ada", "core"))):
        job.say("member", change)
        with job.open() as pipeline:
            list(pipeline.drain())
            last = pipeline.maintainer.epoch
    config = read_config(job.toml)
    found = [replay(config, epoch, around=around) for epoch in range(1, last + 1)]
    assert [one.agrees for one in found] == [True] * last
    recomputed = [one.epoch for one in found if one.recomputed is not None]
    assert recomputed == [*range(1, last + 1)]
    assert found[-1].recorded["can"] == {(-1, ("ada", 7)), (-1, ("ada", 8))}
    assert replay(config, last).why.startswith("the rows are in shards; a pipeline with runner")
    path = tmp_path / "out" / "can" / f"delta-{last:012}.parquet"
    path.write_bytes((path.parent / f"delta-{last - 1:012}.parquet").read_bytes())
    assert not replay(config, last, around=around).agrees
    with job.open() as pipeline:
        pipeline.compact()
    assert replay(config, last - 1, around=around).why.startswith("the state has folded it")


def test_rows_in_shards_are_not_taken_back_and_nobody_else_begins_beside_them(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")))
    job.run()
    with pytest.raises(StateError, match="is kept in shards, and rows do not come back"):
        Pipeline(read_config(job.toml))
    with job.open(), pytest.raises(StateError, match="in use by process"):
        job.open()


def test_shards_without_their_runner_are_refused_by_name(tmp_path) -> None:
    job = Job(tmp_path)
    with pytest.raises(ConfigError, match=r'executor = "shards" needs runner = "spark"'):
        read_config(job.toml, executor="shards")
    text = job.toml.read_text().replace('runner = "local"', 'executor = "shards"')
    job.toml.write_text(text)
    with pytest.raises(ConfigError, match="pass what deltafix"):
        Pipeline(read_config(job.toml))


def test_the_command_refuses_them_too(tmp_path) -> None:
    job = Job(tmp_path)
    command = [sys.executable, "-m", "deltafix", "pipeline", "run", str(job.toml)]
    done = subprocess.run(
        [*command, "--executor", "shards"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert 'needs runner = "spark"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", ["", 'duplicates = "count"', 'key = ["who"]'])
def test_a_group_that_has_outgrown_its_shard_is_shared_between_epochs(
    options, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(balance, "_LARGE", 0)
    monkeypatch.setattr(shards_epoch, "_COMPACT", 0)
    # Whole paths are joined with whole paths, so nobody's rows can stay where they are.
    text = pipelines.TEXT.replace("stands(x, y), member(y, z)", "stands(x, y), stands(y, z)")
    job = Job(tmp_path, text=text, member=options)
    job.say("member", *(("+", (f"p{n}", "core")) for n in range(60)))
    job.say("grant", ("+", ("core", 7)))
    job.run()
    job.say("member", ("-", ("p3", "core")), ("+", ("core", "all")))
    job.say("grant", ("+", ("all", 8)), ("-", ("core", 7)))
    with job.open() as pipeline:
        list(pipeline.drain())
        job.check(pipeline)
        assert bool(pipeline.maintainer.db.layout.heavy) is ("key" not in options)
    assert ("stay in it" in caplog.text) is ("key" in options)
    job.say("member", ("-", ("core", "all")), ("+", ("p3", "core")))
    job.run()


def test_a_group_that_cannot_be_shared_now_stays_and_the_epoch_stands(
    tmp_path, monkeypatch, caplog
) -> None:
    def fails(*_: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(balance, "_LARGE", 0)
    monkeypatch.setattr(shards_epoch, "_COMPACT", 0)
    text = pipelines.TEXT.replace("stands(x, y), member(y, z)", "stands(x, y), stands(y, z)")
    job = Job(tmp_path, text=text)
    job.say("member", *(("+", (f"p{n}", "core")) for n in range(60)))
    job.say("grant", ("+", ("core", 7)))
    with monkeypatch.context() as patch:
        patch.setattr(ShardedDatabase, "_carry", fails)
        with job.open() as pipeline:
            assert [epoch.epoch for epoch in pipeline.drain()]
            job.check(pipeline)
            assert pipeline.maintainer.db.layout.heavy == ()
    assert "stay in it for now: the disk is full" in caplog.text
    job.say("member", ("-", ("p3", "core")))
    job.run()
