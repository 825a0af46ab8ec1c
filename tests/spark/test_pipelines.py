"""`deltafix.spark.pipeline`: a pipeline file said in Python; views and epochs as DataFrames."""

from __future__ import annotations

import pytest
from tests.support.pipelines import TEXT, Job

import deltafix
from deltafix.errors import ConfigError, PipelineError, SourceError, UnknownRelationError
from deltafix.spark import SparkPipeline, pipeline

pytestmark = pytest.mark.spark


def rows(frame) -> set:
    return {tuple(row) for row in frame.collect()}


def made(job: Job, **settings: object) -> SparkPipeline:
    """The pipeline of `tests.support.pipelines`, in Python."""
    here = job.folder
    return pipeline(
        settings.pop("program", here / "access.dl"),
        state=here / "state",
        inputs={name: {"source": "files", "path": here / "in" / name} for name in job.rows},
        outputs={"can": {"path": here / "out" / "can"},
                 "stands": {"path": here / "out" / "stands", "mode": "delta"}},
        **settings,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["spark", "local"])
def test_a_pipeline_in_python_is_that_of_a_file(spark, tmp_path, kind) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", ("ann", "dev")), ("+", ("dev", "all")))
    told: list[str] = []
    with made(job, runner=kind, rows_per_epoch=2) as access:
        with pytest.raises(SourceError, match="holds no delta log"):
            access["can"]
        # The first epoch notes the rules.
        assert [epoch.read for epoch in access.run(progress=told.append)] == [{}, {"member": 2}]
        assert [line.split(":")[0] for line in told] == ["epoch 1", "epoch 2"]
        job.say("grant", ("+", ("all", 7)))
        (third,) = access.run(progress=told.append)
        assert rows(access["can"]) == {("ann", 7), ("dev", 7)}
        assert rows(access.changes("stands", 1, 2)) == {
            ("ann", "dev", 1, 2), ("dev", "all", 1, 2), ("ann", "all", 1, 2),
        }  # fmt: skip
        assert rows(access.changes("stands", 3)) == set()
        with pytest.raises(UnknownRelationError, match="did you mean 'stands'"):
            access["stand"]
        found = access.epochs(1).collect()
        assert [row.epoch for row in found] == [third.epoch]
        assert found[0].out["can"].added == 2
        assert access.run(progress=told.append) == []
        job.check(access.opened)
        assert set(access) == {"can", "stands"}
        assert access.status()[0].startswith(f"{tmp_path}/state: epoch 3")
        assert "input member: 1 file read" in access._repr_html_()
    job.say("member", ("-", ("dev", "all")))
    job.run()  # the file goes on with the same state
    with made(job) as access:
        assert access.run() == []
        assert rows(access["can"]) == set()


def test_words_are_checked_as_those_of_a_file(spark, tmp_path) -> None:
    job = Job(tmp_path)
    with pytest.raises(ConfigError, match=r"^pipeline: \[pipeline\] unknown key 'rows_per_epock'"):
        made(job, rows_per_epock=2)
    with pytest.raises(ConfigError, match=r"^pipeline: \[input.member\] there is no source"):
        pipeline(deltafix.Program.parse(TEXT), state="s", inputs={"member": {}}, outputs={})
    with pytest.raises(SourceError, match=r"nothing.dl"):
        made(job, program=tmp_path / "nothing.dl")


def test_an_error_leaves_the_pipeline_as_it_was(spark, tmp_path) -> None:
    known = spark.createDataFrame([("a", "x"), ("b", "y")], "who string, team string")
    known.createOrReplaceTempView("members")
    words = {"source": "spark", "mode": "snapshot", "table": "members"}
    with pipeline(
        deltafix.Program.parse(TEXT), state=tmp_path / "state",
        inputs={"member": words}, outputs={"stands": {"path": tmp_path / "out"}},
    ) as access:  # fmt: skip
        assert len(access.run(progress=[].append)) == 2
        spark.catalog.dropTempView("members")
        with pytest.raises(PipelineError, match="input member: table members: "):
            access.run()
        assert rows(access["stands"]) == {("a", "x"), ("b", "y")}
        spark.createDataFrame([("a", "x")], "who string, team string").createOrReplaceTempView(
            "members"
        )
        (epoch,) = access.run(progress=[].append)
        assert (epoch.out["stands"], rows(access["stands"])) == ((0, 1), {("a", "x")})
