"""Views of DataFrames: batches and streams, each batch once, their deltas as DataFrames."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from tests.judges.oracle import evaluate
from tests.judges.oracle_keyed import Change, Keys, judge
from tests.support.pipelines import TEXT

import deltafix
from deltafix.errors import (
    BadRowError,
    ConfigError,
    DriftError,
    PipelineError,
    ProgramChangedError,
    StateInUseError,
    UnknownRelationError,
)
from deltafix.spark import EpochListener, maintain, register

pytestmark = pytest.mark.spark

PROGRAM = deltafix.Program.parse(TEXT)


def members(spark, *rows):
    return spark.createDataFrame(rows, "who string, team string, sign int")


def grants(spark, *rows):
    return spark.createDataFrame(rows, "team string, doc long, sign int")


def signed(frame) -> list:
    return sorted((row.sign, row.who, row.doc) for row in frame.collect())


@pytest.mark.shows("`maintain`, batches")
def test_batches_each_once_and_their_deltas_again(spark, tmp_path) -> None:
    state = tmp_path / "s"
    first = {
        "member": members(spark, ("ada", "core", 1), ("core", "all", 1)),
        "grant": grants(spark, ("all", 7, 1), ("core", 8, 1)),
    }
    with maintain(PROGRAM, first, state=state, views=["can"], batch=3) as kept:
        changed = [(1, "ada", 7), (1, "ada", 8), (1, "core", 7)]
        assert signed(kept["can"]) == changed
        kept.apply({"grant": grants(spark, ("all", 7, -1), ("all", 7, 1), ("core", 8, -1))})
        assert signed(kept["can"]) == [(-1, "ada", 8)]
        epoch = kept.maintainer.epoch
        # Seen before: what it returned then, and nothing is written.
        replayed = kept.apply(first, 3)
        assert all(one.replayed for one in replayed)
        assert signed(kept["can"]) == changed
        assert kept.maintainer.epoch == epoch
        with pytest.raises(StateInUseError):
            maintain(PROGRAM, first, state=state, views=["can"])
    with maintain(PROGRAM, first, state=state, views=["can"], batch=4) as kept:
        assert signed(kept["can"]) == [(-1, "ada", 8)]  # by its id: what is in it is not looked at
    other = {"grant": grants(spark, ("all", 9, 1))}
    with maintain(PROGRAM, other, state=state, views=["can"], query="other") as kept:
        assert signed(kept["can"]) == [(1, "ada", 9), (1, "core", 9)]


WORDS = "who string, team string, sign int, at long"


@pytest.mark.parametrize("executor", ["driver", "shards"])
def test_oracle_rows_replace_those_of_their_key(spark, tmp_path, executor) -> None:
    rng = Random(f"keys {executor}")
    given = {
        "state": tmp_path / "s", "views": ["can"], "key": {"member": "who"},
        "sequence_by": {"member": ["at"]}, "rows_per_epoch": 3, "executor": executor, "shards": 2,
    }  # fmt: skip
    teams = {"grant": grants(spark, ("core", 7, 1), ("all", 8, 1))}
    with maintain(PROGRAM, teams, **given) as kept:
        assert signed(kept["can"]) == []
    said: list[Change] = []
    view: Counter[tuple[str, int]] = Counter()
    for number in range(1, 4):
        batch = [
            (
                rng.choice("abcd"),
                rng.choice(["core", "all"]),
                rng.choice([1, 1, -1]),
                rng.randrange(9),
            )
            for _ in range(7)
        ]
        said += [Change(((sign, (who, team)),), (at,)) for who, team, sign, at in batch]
        again = batch[::-1] + batch[::2]
        frame = spark.createDataFrame(again, WORDS)
        with maintain(PROGRAM, {"member": frame}, **given) as kept:
            assert kept.maintainer.db.marks["query/default"]["batch"] == number
            rows = set(kept.maintainer.db.rows("member"))
            assert rows == judge(said, Keys((0,), 1)).rows
            for sign, who, doc in signed(kept["can"]):
                view[who, doc] += sign
            assert {row for row, sign in view.items() if sign} == set(
                kept.maintainer.db.rows("can")
            )
            assert set(view.values()) <= {0, 1}
            assert [one.replayed for one in kept.apply({"member": frame}, number)][:1] == [True]
    assert set(view.values()) == {0, 1}


def test_a_stream_of_rows_by_key(spark, tmp_path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    given = {"state": tmp_path / "s", "views": ["stands"], "trigger": {"availableNow": True},
             "key": {"member": ["who"]}, "sequence_by": {"member": "at"}}  # fmt: skip
    held = [("a", "core"), ("b", "all")]
    for number, rows in enumerate((
        [("a", "all", 1, 1), ("a", "core", 1, 3), ("b", "core", 1, 1), ("c", "all", 1, 5)],
        [("a", "all", 1, 2), ("b", "all", 1, 2), ("c", None, -1, 6), ("c", "core", 1, 4)],
    )):  # fmt: skip
        names = ("who", "team", "sign", "at")
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (landing / f"{number}.json").write_text("\n".join(lines))
        stream = spark.readStream.schema(WORDS).json(str(landing))
        with maintain(PROGRAM, {"member": stream}, **given) as kept:
            assert kept.query is not None
            kept.query.awaitTermination()
            found = sorted(kept.maintainer.db.rows("member"))
    assert found == held


def test_keys_that_cannot_be_are_refused_before_anything_is_opened(spark, tmp_path) -> None:
    frames = {"member": members(spark, ("a", "b", 1))}
    for more, said in (
        ({"key": {"member": "who"}}, "key needs sequence_by: rows of a batch come in no order"),
        ({"sequence_by": {"member": "at"}}, "sequence_by needs key"),
        (
            {"key": {"member": "nobody"}, "sequence_by": {"member": "at"}},
            "'nobody' is no column of",
        ),
        (
            {"key": {"member": "who"}, "sequence_by": {"member": "at"}, "whole": ["member"]},
            "member: key says nothing of whole tables",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            maintain(PROGRAM, frames, state=tmp_path / "s", views=["can"], **more)
    assert not (tmp_path / "s").exists()


def test_a_large_batch_is_several_epochs_and_goes_on_where_it_stopped(
    spark, tmp_path, monkeypatch
) -> None:
    rows = {"member": members(spark, *((f"u{n}", "core", 1) for n in range(25)))}
    options = {"state": tmp_path / "s", "views": ["stands"], "rows_per_epoch": 10}
    commits = []

    def commit(self, *args, **named):
        if len(commits) == 2:
            raise OSError("the process ends here")
        commits.append(1)
        return real(self, *args, **named)

    from deltafix.pipeline.maintainer import Maintainer

    real = Maintainer.commit
    with monkeypatch.context() as patch:
        patch.setattr(Maintainer, "commit", commit)
        with pytest.raises(OSError, match="ends here"):
            maintain(PROGRAM, rows, batch=0, **options)
    with maintain(PROGRAM, rows, batch=0, **options) as kept:
        assert [sum(epoch.read.values()) for epoch in kept.epochs] == [5]
        assert kept.maintainer.db.count("member") == 25
        assert kept["stands"].count() == 25  # all of its epochs, those of the first try too
        kept.apply(rows, 0)
        assert kept["stands"].count() == 25


def test_what_opening_changed_comes_with_the_next_batch(spark, tmp_path) -> None:
    options = {"state": tmp_path / "s", "views": ["can"], "on_change": "rebuild"}
    first = {"member": members(spark, ("ada", "core", 1)), "grant": grants(spark, ("core", 7, 1))}
    with maintain(PROGRAM, first, **options) as kept:
        assert signed(kept["can"]) == [(1, "ada", 7)]
    more = TEXT + "\ncan(x, 0) :- member(x, _).\n"
    with maintain(more, {"grant": grants(spark, ("core", 8, 1))}, **options) as kept:
        assert signed(kept["can"]) == [(1, "ada", 0), (1, "ada", 8)]
        assert [one.epoch for one in kept.epochs] == [kept.maintainer.epoch]
    lines = (tmp_path / "s" / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_a_checkpoint_and_a_state_that_do_not_go_together_are_refused(spark, tmp_path) -> None:
    register(spark)
    put(tmp_path / "in", 0, [{"team": "a", "doc": 1, "sign": 1}])

    def run(state: str = "s") -> list:
        stream = spark.readStream.schema("team string, doc long, sign int")
        stream = {"grant": stream.json(str(tmp_path / "in"))}
        trigger = {"availableNow": True}
        where = {"state": tmp_path / state, "checkpoint": tmp_path / "c"}
        with maintain(PROGRAM, stream, views=["grant"], trigger=trigger, **where) as kept:
            kept.query.awaitTermination(120)
            if kept.query.exception() is not None:
                raise kept.query.exception()
            return sorted(kept.maintainer.db.rows("grant"))

    assert run() == [("a", 1)]
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "c", old)
    put(tmp_path / "in", 1, [{"team": "a", "doc": 2, "sign": 1}])
    assert run() == [("a", 1), ("a", 2)]
    # Put back from a copy: its next batch has the number of one that is in, and other rows.
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(old, tmp_path / "c")
    put(tmp_path / "in", 2, [{"team": "a", "doc": 3, "sign": 1}])
    with pytest.raises(StreamingQueryException, match="its sources were elsewhere when it was"):
        run()
    with pytest.raises(
        PipelineError, match=r"its run has finished batch 0, .* this state has none"
    ):
        run("new")
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(PipelineError, match="numbered by another run"):
        run()
    assert run("new") == [("a", 1), ("a", 2), ("a", 3)]


def test_a_stream_of_a_log_that_was_made_anew_is_refused(spark, tmp_path) -> None:
    register(spark)
    log = str(tmp_path / "s" / "views" / "grant")

    def copy() -> int:
        stream = spark.readStream.format("deltafix").load(log).writeStream.format("parquet")
        stream = stream.option("checkpointLocation", str(tmp_path / "c"))
        query = stream.trigger(availableNow=True).start(str(tmp_path / "copy"))
        query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
        return spark.read.parquet(str(tmp_path / "copy")).count()

    options = {"state": tmp_path / "s", "views": ["grant"]}
    with maintain(PROGRAM, {"grant": grants(spark, ("a", 1, 1), ("a", 2, 1))}, **options):
        assert copy() == 2
    shutil.rmtree(tmp_path / "s")
    with maintain(PROGRAM, {"grant": grants(spark, ("a", 3, 1))}, **options) as kept:
        kept.apply({"grant": grants(spark, ("a", 4, 1))})
        with pytest.raises(StreamingQueryException, match="made anew or put back from an older"):
            copy()


def test_whole_tables_are_diffed_and_rows_without_a_sign_are_put_in(spark, tmp_path) -> None:
    def whole(*rows):
        return {"grant": spark.createDataFrame(rows, "team string, doc long")}

    with maintain(
        PROGRAM, whole(("a", 1), ("a", 2)), state=tmp_path / "s", views=["grant"], whole=["grant"]
    ) as kept:
        kept.apply(whole(("a", 2), ("a", 3), ("a", 3)))
        found = sorted((row.sign, row.doc) for row in kept["grant"].collect())
        assert found == [(-1, 1), (1, 3)]
        empty = spark.createDataFrame([], "team string, doc long")
        assert [epoch.out for epoch in kept.apply({"grant": empty})] == [{"grant": (0, 2)}]
        (epoch,) = kept.apply({"grant": empty})
        assert (epoch.out, kept["grant"].count()) == ({"grant": (0, 0)}, 0)


def test_what_cannot_be_is_refused_and_the_state_given_back(spark, tmp_path) -> None:
    options = {"state": tmp_path / "s", "views": ["can"]}
    with pytest.raises(UnknownRelationError, match="did you mean 'member'"):
        maintain(PROGRAM, {"membr": members(spark)}, **options)
    with pytest.raises(DriftError, match=r"lacks 'team', 'doc' and has 'x' beside what is wanted"):
        maintain(PROGRAM, {"grant": spark.createDataFrame([(1, 1)], "x int, sign int")}, **options)
    with pytest.raises(BadRowError, match="delete of a row that is not there"):
        maintain(PROGRAM, {"grant": grants(spark, ("a", 1, -1))}, **options)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(PipelineError, match="all streams of changes or all batches"):
        maintain(PROGRAM, {"grant": stream, "member": members(spark)}, **options)
    rows = {"grant": grants(spark, ("a", 1, 1), (None, 2, 1))}
    with maintain(PROGRAM, rows, bad_rows="quarantine", **options) as kept:
        assert kept.maintainer.quarantine.counts() == {"grant": 1}
        with pytest.raises(UnknownRelationError, match="did you mean 'grant'"):
            kept.apply({"grants": rows["grant"]})
        with pytest.raises(UnknownRelationError, match="did you mean 'can'"):
            kept["cans"]
    with pytest.raises(ProgramChangedError):
        maintain(TEXT + "\ncan(x, 0) :- member(x, _).", {"grant": grants(spark)}, **options)


def put(folder: Path, number: int, rows: list[dict]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.shows("`maintain`, streams; `readStream.format('deltafix')`")
def test_streams_are_one_query_whose_views_are_streams(spark, tmp_path) -> None:
    rng = Random("stream")
    held: dict[str, set] = {"member": set(), "grant": set()}
    schemas = {
        "member": "who string, team string, sign int",
        "grant": "team string, doc long, sign int",
    }
    for name in schemas:
        (tmp_path / name).mkdir()
    records: list[dict] = []
    options = {"state": tmp_path / "s", "views": ["can"], "trigger": {"availableNow": True}}
    register(spark)
    for turn in range(2):
        for number in range(2):
            for name, rows in held.items():
                a, b = rng.choice("abc"), rng.choice("abcd")
                row = (a, b) if name == "member" else (a, rng.randrange(3))
                sign = -1 if row in rows else 1
                rows ^= {row}
                names = schemas[name].replace(" string", "").replace(" long", "").split(", ")[:2]
                put(
                    tmp_path / name,
                    10 * turn + number,
                    [{**dict(zip(names, row, strict=True)), "sign": sign}],
                )
        streams = {
            name: spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(tmp_path / name))
            for name, schema in schemas.items()
        }
        # A second start goes on from Spark's checkpoint and the engine's state.
        with maintain(PROGRAM, streams, **options) as kept:
            listener = EpochListener(kept, records.append)
            spark.streams.addListener(listener)
            assert kept.query.awaitTermination(120)
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            spark.streams.removeListener(listener)
            assert kept.query.exception() is None
            wanted = evaluate(PROGRAM, {name: set(rows) for name, rows in held.items()})
            assert set(kept.maintainer.db.rows("can")) == wanted["can"]
    log = str(tmp_path / "s" / "views" / "can")
    stream = spark.readStream.format("deltafix").load(log)
    target = str(tmp_path / "copy")
    copy = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    copy.trigger(availableNow=True).start(target).awaitTermination(120)
    view: set = set()
    for row in spark.read.parquet(target).orderBy("epoch", "sign").collect():
        (view.add if row.sign > 0 else view.remove)((row.who, row.doc))
    assert view == wanted["can"]
    rows = spark.read.format("deltafix").option("view", "rows").load(log).collect()
    assert {tuple(row) for row in rows} == wanted["can"]
    told = [record for record in records if record["epochs"]]
    assert len(told) >= 2
    assert sum(record["rows"] for record in told) >= 2
    assert all({"edit", "engine", "write", "publish"} <= set(one["seconds"]) for one in told)
    assert all(one["duration_ms"]["triggerExecution"] > 0 for one in told)


def test_the_source_names_what_it_does_not_take(spark, tmp_path) -> None:
    register(spark)
    with pytest.raises(Exception, match="holds no delta log"):
        spark.read.format("deltafix").load(str(tmp_path)).collect()
