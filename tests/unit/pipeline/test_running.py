"""A pipeline as a story: change files in, epochs out, and what a restart does."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pipelines import Job, signed

from deltafix.errors import BadRowError, DriftError, PipelineError, SourceError, StateInUseError
from deltafix.pipeline import manifest
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.quarantine import BAD_ROWS

pytestmark = pytest.mark.usefixtures("runner")

local = pytest.mark.parametrize("runner", ["local"], indirect=True)


def lines_of(folder: Path) -> list[dict]:
    text = (folder / "state" / "epochs.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_revocation_shows_up_in_the_next_epoch(tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")), ("+", ("core", "all")))
    job.say("grant", ("+", ("all", 7)))
    first = job.run()
    job.say("grant", ("-", ("all", 7)))
    second = job.run()
    assert sorted(signed(read_deltas(tmp_path / "out" / "can", second[-1]))) == [
        (-1, ("ada", 7), second[-1]),
        (-1, ("core", 7), second[-1]),
    ]
    assert second[0] == first[-1] + 1
    assert job.run() == []


def test_agree_random_changes_with_recomputation_however_epochs_are_split(tmp_path) -> None:
    rng = Random("pipeline")
    jobs = [
        Job(tmp_path / "whole"),
        Job(tmp_path / "split", pipeline="rows_per_epoch = 3"),
    ]
    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            name = rng.choice(["member", "grant"])
            row = (rng.choice("abcde"), rng.choice("abcde"))
            if name == "grant":
                row = (row[0], rng.randrange(4))
            sign = "-" if row in jobs[0].rows[name] else "+"
            extra = [("+", (rng.choice("xyz"), "a"))] if name == "member" else []
            for job in jobs:
                job.say(name, (sign, row), *extra)
        epochs = [len(job.run()) for job in jobs]
        assert epochs[1] >= epochs[0]
    views = [read_deltas(job.folder / "out" / "can") for job in jobs]
    assert views[0] is not None
    assert views[1] is not None


@local
def test_an_epoch_over_its_bound_is_split_and_nothing_is_lost(tmp_path) -> None:
    job = Job(tmp_path, pipeline="rows_per_epoch = 10")
    job.say("member", *(("+", (f"u{n}", "core")) for n in range(95)))
    with job.open() as pipeline:
        epochs = list(pipeline.drain())
        job.check(pipeline)
    assert [sum(epoch.read.values()) for epoch in epochs] == [0, *[10] * 9, 5]
    assert [epoch.more for epoch in epochs[1:]] == [*[True] * 9, False]


@local
def test_a_stop_between_two_parts_of_a_file_goes_on_with_the_rest(tmp_path) -> None:
    job = Job(tmp_path, pipeline="rows_per_epoch = 4")
    job.say("member", *(("+", (f"u{n}", "core")) for n in range(10)))
    with job.open() as pipeline:
        pipeline.step()
    with job.open() as pipeline:
        assert pipeline.maintainer.db.count("member") == 4
        assert [sum(epoch.read.values()) for epoch in pipeline.drain()] == [4, 2]
        job.check(pipeline)


@pytest.mark.spark
@pytest.mark.parametrize("runner", ["spark"], indirect=True)
def test_on_spark_an_epoch_is_of_whole_files_up_to_its_bytes(tmp_path) -> None:
    job = Job(tmp_path, pipeline="rows_per_epoch = 2")  # 128 bytes
    for n in range(5):
        job.say("member", *(("+", (f"user {n}-{one}", "core")) for one in range(4)))
    with job.open() as pipeline:
        epochs = list(pipeline.drain())
        job.check(pipeline)
    assert [sum(epoch.read.values()) for epoch in epochs] == [0, 8, 8, 4]
    assert [epoch.more for epoch in epochs[1:]] == [True, True, False]


@pytest.mark.spark
@local
def test_a_state_goes_to_spark_and_back_even_within_a_file(spark, monkeypatch, tmp_path) -> None:
    job = Job(tmp_path, pipeline="rows_per_epoch = 4")
    job.say("member", *(("+", (f"u{n}", "core")) for n in range(10)))
    with job.open() as pipeline:
        pipeline.step()
        assert pipeline.maintainer.db.count("member") == 4
    monkeypatch.setattr("tests.support.pipelines.RUNNER", "spark")
    with job.open() as pipeline:
        assert [sum(epoch.read.values()) for epoch in pipeline.drain()] == [6]
        job.check(pipeline)
    job.say("member", ("-", ("u1", "core")))
    monkeypatch.setattr("tests.support.pipelines.RUNNER", "local")
    job.run()


def test_every_epoch_has_a_line_of_json_and_a_line_for_people(runner, tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", ("+", ("ada", "core")))
    with job.open() as pipeline:
        epochs = list(pipeline.drain())
    lines = lines_of(tmp_path)
    assert [line["epoch"] for line in lines] == [epoch.epoch for epoch in epochs]
    last = lines[-1]
    assert (last["read"], last["given"]) == ({"member": 1}, [1, 0])
    assert last["out"] == {"can": [0, 0], "stands": [1, 0]}
    stages = {"read", "edit", "engine", "write", "publish"}
    assert set(last["seconds"]) == stages | ({"net"} if runner == "spark" else set())
    assert last["lag"] >= 0
    # Shards count the rows that went between them; this one is judged and taken where it lies.
    assert last["touched"] == 0 if runner == "local shards" else last["touched"] >= 1
    assert (
        epochs[-1].show().startswith(f"epoch {last['epoch']}: in 1 | out can +0 -0, stands +1 -0")
    )


def test_a_clock_that_goes_backwards_changes_nothing(tmp_path, monkeypatch) -> None:
    now = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr("deltafix.pipeline.maintainer.time", lambda: float(next(now)))
    job = Job(tmp_path)
    for turn in range(4):
        job.say("member", ("+", (f"u{turn}", "core")))
        assert len(job.run()) == (2 if turn == 0 else 1)
    lines = lines_of(tmp_path)
    assert [line["lag"] for line in lines[1:]] == [0.0] * 4
    assert lines[0]["time"] > lines[-1]["time"]


@local
def test_two_writers_cannot_have_one_state(tmp_path) -> None:
    job = Job(tmp_path)
    with job.open(), pytest.raises(StateInUseError, match="is in use by process"):
        job.open()
    job.run()


def test_a_change_file_that_changes_after_it_was_read_is_refused(tmp_path) -> None:
    job = Job(tmp_path)
    path = job.write("member", [("+", ("ada", "core"))])
    job.rows["member"].add(("ada", "core"))
    job.run()
    path.write_text(path.read_text() + "+,bo,core\n")
    with pytest.raises(PipelineError, match="changed after it was read"):
        job.run()
    path.unlink()
    job.run()


def test_a_change_file_of_no_bytes_is_read_when_it_is_filled(tmp_path) -> None:
    """A writer that makes it and fills it later; others behind it do not wait for it."""
    job = Job(tmp_path)
    path = job.write("member", [("+", ("ada", "core"))])
    text = path.read_text()
    path.write_text("")
    behind = job.write("member", [("+", ("bo", "core"))])
    assert path.name < behind.name
    job.rows["member"].add(("bo", "core"))
    for _ in range(2):
        job.run()
    path.write_text(text)
    job.rows["member"].add(("ada", "core"))
    for _ in range(2):
        job.run()
    path.write_text("")  # what it said is in
    with pytest.raises(PipelineError, match=f"{path.name} changed after it was read"):
        job.run()


@local
def test_many_epochs_leave_few_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("deltafix.pipeline.sink.MERGE", 5)
    job = Job(tmp_path)
    with job.open() as pipeline:
        for turn in range(17):
            job.say("member", ("+", (f"u{turn}", "core")))
            list(pipeline.drain())
        job.check(pipeline)
    assert len(list((tmp_path / "out" / "stands").iterdir())) <= 1 + 17 // 5 + 5
    with job.open() as pipeline:
        pipeline.compact()
        job.check(pipeline)
        names = sorted(path.name for path in (tmp_path / "out" / "can").iterdir())
    assert [name.split("-")[0] for name in names] == ["manifest.json", "snapshot"]


def test_what_cannot_be_read_stops_its_input_and_no_other(tmp_path) -> None:
    job = Job(tmp_path, member='bad_rows = "quarantine"')
    job.say("member", ("+", ("ada", "core")))
    bad = job.write("member", [])
    bad.write_text("sign,who\n+,x\n")
    job.write("member", [("+", ("bo", "core"))])
    job.say("grant", ("+", ("core", 7)))
    with job.open() as pipeline:
        with pytest.raises(DriftError, match=r"00002.csv lacks 'team'"):
            for epoch in pipeline.drain():
                assert set(epoch.read) <= {"member", "grant"}
        assert list(pipeline.stopped) == ["member"]
        job.check(pipeline)  # what is before it is in, and all of the other input
        looks = []

        def wait(_: float) -> None:
            looks.append(len(looks))
            if len(looks) == 3:
                bad.write_text("sign,who,team\n")
                job.rows["member"].add(("bo", "core"))
            if len(looks) == 5:
                raise KeyboardInterrupt

        said: list = []
        with pytest.raises(KeyboardInterrupt):
            list(pipeline.follow(1.0, wait, said.append))
        assert [type(one) for one in said] == [DriftError]  # once, not at each look
        job.check(pipeline)
        assert pipeline.stopped == {}


def test_where_rows_are_not_set_aside_nothing_of_the_epoch_is_taken(tmp_path) -> None:
    job = Job(tmp_path)
    job.write("member", []).write_text("sign,who\n+,x\n")
    job.write("grant", [("+", ("core", 7))])
    with job.open() as pipeline:
        with pytest.raises(DriftError, match="lacks 'team'"):
            list(pipeline.drain())
        assert pipeline.maintainer.db.count("grant") == 0


@local
def test_a_file_that_was_begun_and_is_gone_is_missed(tmp_path) -> None:
    job = Job(tmp_path, pipeline="rows_per_epoch = 2")
    path = job.write("member", [("+", (f"u{n}", "core")) for n in range(5)])
    with job.open() as pipeline:
        pipeline.step()
    content = path.read_text()
    path.unlink()
    with pytest.raises(PipelineError, match="is gone, of which 2 rows are in and the rest is not"):
        job.run()
    path.write_text(content)
    job.rows["member"] = {(f"u{n}", "core") for n in range(5)}
    job.run()


def test_of_many_files_that_are_gone_only_a_name_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("deltafix.pipeline.sources.changes.REMEMBERED", 5)
    job = Job(tmp_path)
    paths = []
    for number in range(20):
        job.say("member", ("+", (f"u{number}", "core")))
        paths.append(sorted((tmp_path / "in" / "member").iterdir())[-1])
        job.run()
        if number % 3 == 2:
            paths[-1].unlink()
    kept = sum(path.exists() for path in paths)
    with job.open() as pipeline:
        marks = [one for one in pipeline.maintainer.db.marks if one.startswith("files/member/")]
        assert len(marks) == kept + 5
        assert pipeline.maintainer.db.marks["files/member"] == "00003.csv"
    for name, known in (("00003.csv", False), ("00006.csv", True)):
        path = tmp_path / "in" / "member" / name
        path.write_text("sign,who,team\n+,again,core\n")
        said = "changed after it was read" if known else "may have been read before: files up to"
        with pytest.raises(PipelineError, match=said):
            job.run()
        path.unlink()
    job.say("member", ("+", ("new", "core")))
    job.run()


def test_a_reader_begins_again_when_the_log_is_replaced_under_it(tmp_path, monkeypatch) -> None:
    job = Job(tmp_path)
    folder = tmp_path / "out" / "can"
    with pytest.raises(SourceError, match=r"holds no delta log: no manifest\.json"):
        read_deltas(folder)
    job.say("member", ("+", ("ada", "core")))
    for number in range(3):
        job.say("grant", ("+", ("core", number)))
        job.run()
    real = manifest.read_table
    looks = []

    def slow(where, name):
        looks.append(name)
        if len(looks) == 1:  # the files go while they are read
            with job.open() as pipeline:
                pipeline.compact()
        return real(where, name)

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "read_table", slow)
        rows = [row for _, row, _ in signed(read_deltas(folder))]
    assert rows == [("ada", number) for number in range(3)]
    assert len(looks) == 2
    assert looks[0] != looks[1]
    (folder / looks[1]).unlink()
    with pytest.raises(SourceError, match="is gone, but the manifest names it"):
        read_deltas(folder)


def test_a_column_of_another_type_is_drift(tmp_path) -> None:
    job = Job(tmp_path, member='format = "parquet"')
    for values, said in (
        ([[1]], r"column 'team' is of type list<.*>, but 'team' is a symbol"),
        ([7], "column 'team' is of type int64, but 'team' is a symbol"),
    ):
        table = pa.table({"sign": ["+"], "who": ["ada"], "team": values})
        pq.write_table(table, tmp_path / "in" / "member" / "1.parquet")
        with pytest.raises(DriftError, match=said):
            job.run()


@local
def test_an_input_of_more_bad_rows_than_may_be_is_refused_whole(tmp_path) -> None:
    job = Job(tmp_path, member='bad_rows = "quarantine"')
    job.say("grant", ("+", ("core", 7)))
    file = job.write("member", [("+", ("ada", "core")), *[("?", ("x", "y"))] * (BAD_ROWS + 1)])
    with job.open() as pipeline:
        with pytest.raises(BadRowError, match="with more than 100,000 in an epoch"):
            list(pipeline.drain())
        assert pipeline.maintainer.db.count("member") == 0
        assert pipeline.maintainer.quarantine.counts() == {}
        lines = file.read_text().splitlines()
        file.write_text("\n".join(lines[:-1]) + "\n")
        job.rows["member"].add(("ada", "core"))
        list(pipeline.drain())
        job.check(pipeline)
        assert pipeline.maintainer.quarantine.counts() == {"member": BAD_ROWS}
