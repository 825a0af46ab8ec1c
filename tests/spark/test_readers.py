"""`source = "spark"`: whatever Spark reads, as snapshots or as streams, each batch in one epoch."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from random import Random

import pytest
from tests.agree.test_pipeline_keys import draw_changes
from tests.faults.killing import Halted, halting
from tests.judges.oracle_keyed import Keys, judge

from deltafix.errors import BadRowError, DriftError, PipelineError
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.status import status
from deltafix.spark.sources import on_spark

pytestmark = pytest.mark.spark


EDGE = ".decl edge(x: symbol, n: number)\n.input edge\n"


def open_on(folder: Path, section: str, program: str = EDGE) -> Pipeline:
    (folder / "p.dl").write_text(program)
    file = folder / "p.toml"
    file.write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "state"\n[input.edge]\nsource = "spark"\n'
        f"{section}\n"
    )
    return Pipeline(read_config(file), make_source=on_spark())


def read(pipeline: Pipeline) -> list[int]:
    """Run; rows read by epoch, but for the one that opening made."""
    return [epoch.read["edge"] for epoch in pipeline.drain() if epoch.read]


def take(folder: Path, section: str) -> tuple[list[int], set]:
    """Run; rows read by epoch, and the rows that hold."""
    with open_on(folder, section) as pipeline:
        return read(pipeline), set(pipeline.maintainer.db.rows("edge"))


@pytest.mark.shows("Files with partition columns, in")
@pytest.mark.parametrize(
    ("form", "write"),
    [
        ("orc", lambda frame, path: frame.write.orc(path)),
        ("parquet", lambda frame, path: frame.write.partitionBy("x").parquet(path)),
        ("json", lambda frame, path: frame.write.partitionBy("n").json(path)),
    ],
)
def test_files_with_partition_columns_are_diffed_at_each_look(spark, tmp_path, form, write) -> None:
    section = f'mode = "snapshot"\nformat = "{form}"\npath = "in"\ncolumns = ["x", "n"]'
    path = str(tmp_path / "in")
    for rows in ([("a", 1), ("b", 2)], [("b", 2), ("c", 3), ("c", 4)], []):
        shutil.rmtree(path, ignore_errors=True)
        frame = spark.createDataFrame(rows, "x string, n long")
        write(frame, path)
        # Where there are no rows, files do not tell a schema.
        schema = '\nschema = "x string, n long"' if not rows else ""
        assert take(tmp_path, section + schema)[1] == set(rows)
    assert take(tmp_path, section + schema)[0] == []


@pytest.mark.shows("Tables behind JDBC and queries, in")
def test_a_table_behind_jdbc_and_a_query(spark, tmp_path) -> None:
    url = f"jdbc:derby:{tmp_path}/derby"
    # Else Derby writes its log into the folder that the tests run in.
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", f"{tmp_path}/derby.log")
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "x string, n long")
    frame.write.format("jdbc").options(url=f"{url};create=true", dbtable="edges").save()
    section = (
        f'mode = "snapshot"\nformat = "jdbc"\noptions = {{ url = "{url}", dbtable = "edges" }}'
    )
    assert take(tmp_path, f'{section}\ncolumns = ["x", "n"]')[1] == {("a", 1), ("b", 2)}
    with pytest.raises(PipelineError, match=r"(?i)input edge: jdbc: .*nothing"):
        take(tmp_path, section.replace('"edges"', '"nothing"'))
    frame.createOrReplaceTempView("known")
    query = 'mode = "snapshot"\nquery = "SELECT x, n * 2 AS n FROM known WHERE n > 1"'
    assert take(tmp_path, query)[1] == {("b", 4)}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ('mode = "snapshot"\nformat = "nonesuch"', "input edge: nonesuch: .*nonesuch"),
        ('mode = "stream"\nformat = "nonesuch"', "input edge: nonesuch: .*nonesuch"),
        ('mode = "snapshot"\ntable = "none.such"', "input edge: table none.such: .*TABLE_OR_VIEW"),
        ('mode = "snapshot"\nquery = "SELEC 1"', "input edge: query: .*PARSE_SYNTAX_ERROR"),
        ('mode = "snapshot"\nformat = "parquet"\npath = "no"', "input edge: parquet .*no: .*PATH"),
        ('mode = "stream"\nformat = "json"\npath = "in"', "input edge: json .*in: .*[Ss]chema"),
        (
            'mode = "stream"\nformat = "rate"\noptions = { rowsPerSecond = "many" }',
            "input edge: rate: .*many",
        ),
        ('mode = "stream"\nformat = "socket"', "input edge: socket: .*host"),
    ],
)
def test_what_spark_cannot_read_is_its_message_and_the_input_s_name(
    spark, tmp_path, section, said
) -> None:
    (tmp_path / "in").mkdir()
    with open_on(tmp_path, section) as pipeline:
        before = pipeline.maintainer.epoch
        with pytest.raises(PipelineError, match=said) as error:
            list(pipeline.drain())
        assert "\n" not in str(error.value)
        assert pipeline.maintainer.epoch == before


FILES = (
    'mode = "stream"\nformat = "json"\npath = "in"\nsign = "op"\ncolumns = ["x", "n"]\n'
    'schema = "op string, at long, seq long, x string, n string"\nbad_rows = "quarantine"\n'
)


def put(folder: Path, number: float, *rows: dict) -> None:
    """A file of a stream, of an age that tells its place."""
    (folder / "in").mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1e9 + number, 1e9 + number))
    path.rename(folder / "in" / path.name)


def test_a_stream_of_files_is_taken_batch_by_batch(spark, tmp_path) -> None:
    section = FILES + 'duplicates = "ignore"\noptions = { maxFilesPerTrigger = 1 }'
    put(tmp_path, 1, {"op": "+", "x": "a", "n": "1"}, {"op": "+", "x": "b", "n": "2"})
    put(tmp_path, 2, {"op": "-", "x": "a", "n": "1"}, {"op": "+", "x": "c", "n": "three"})
    assert take(tmp_path, section) == ([2, 2], {("b", 2)})
    assert take(tmp_path, section) == ([], {("b", 2)})
    put(tmp_path, 3, {"op": "+", "x": "d", "n": "4"})
    assert take(tmp_path, section) == ([1], {("b", 2), ("d", 4)})
    (line,) = [one for one in status(read_config(tmp_path / "p.toml")) if "input edge" in one]
    assert line == "input edge: stream 2"


def test_a_checkpoint_that_does_not_go_with_the_state_is_refused(spark, tmp_path) -> None:
    section = FILES + 'duplicates = "ignore"\noptions = { maxFilesPerTrigger = 1 }'
    state, there = tmp_path / "state", tmp_path / "state" / "streams"
    for number in (1, 2):
        put(tmp_path, number, {"op": "+", "x": "a", "n": str(number)})
        assert take(tmp_path, section)[0] == [1]
        shutil.copytree(state, tmp_path / f"old{number}")
    shutil.rmtree(there)
    with pytest.raises(PipelineError, match="counted by another checkpoint"):
        take(tmp_path, section)
    shutil.copytree(tmp_path / "old1" / "streams", there)
    put(tmp_path, 1.5, {"op": "+", "x": "b", "n": "3"})  # is now what comes after the first
    with pytest.raises(PipelineError, match="put back from another time"):
        take(tmp_path, section)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "old1", state)
    shutil.rmtree(there)
    shutil.copytree(tmp_path / "old2" / "streams", there)
    with pytest.raises(PipelineError, match="has finished batch 1, but the state has those up to"):
        take(tmp_path, section)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "old2", state)
    assert take(tmp_path, section) == ([1], {("a", 1), ("a", 2), ("b", 3)})


def test_what_is_wrong_with_a_stream_s_rows_or_columns_is_said_as_of_any_input(
    spark, tmp_path, capfd
) -> None:
    put(tmp_path, 1, {"op": "+", "x": "a", "n": "one"})
    section = FILES.replace('bad_rows = "quarantine"', 'duplicates = "ignore"')
    with open_on(tmp_path, section) as pipeline:
        before = pipeline.maintainer.epoch
        with pytest.raises(BadRowError, match="n = 'one' is no number"):
            list(pipeline.drain())
        assert pipeline.maintainer.epoch == before
    assert "Traceback" not in capfd.readouterr().err  # the error has said it
    with pytest.raises(DriftError, match=r"input edge: json .* lacks 'y'"):
        take(tmp_path, section.replace('["x", "n"]', '["y", "n"]'))


def test_oracle_a_keyed_stream_through_kills(spark, tmp_path, memory) -> None:
    for seed in range(2):
        rng = Random(f"keyed stream {seed}")
        keys = Keys(rng.choice([(0,), (1,)]), 2)
        changes = [one for one in draw_changes(rng, "json", keys) if not one.junk]
        folder = memory / str(seed)
        folder.mkdir()
        names = json.dumps(["xn"[place] for place in keys.key])
        section = FILES + f'key = {names}\nsequence_by = ["at", "seq"]\n'
        section += f"options = {{ maxFilesPerTrigger = {rng.choice([1, 3])} }}"
        rest, number = list(changes), 0
        while rest:
            for _ in range(rng.randrange(1, 4)):
                some = rest[: rng.randrange(1, 6)]
                del rest[: len(some)]
                if some:
                    put(folder, number, *(record(one, keys) for one in some))
                    number += 1
            how = rng.choice(["die", "tear", "late"])
            with halting(rng.randrange(30), how), contextlib.suppress(Halted):
                take(folder, section)
        assert take(folder, section)[1] == judge(changes, keys).rows
        assert take(folder, section)[0] == []


def record(change, keys: Keys) -> dict:
    ((sign, row),) = change.images
    at, seq = change.sequence
    said = {"op": "+" if sign > 0 else "-", "at": at, "seq": seq, "x": row[0], "n": str(row[1])}
    for place, name in enumerate("xn"):
        if sign < 0 and place not in keys.key:
            del said[name]
    return said


def test_a_source_that_only_streams(spark, tmp_path) -> None:
    section = (
        'mode = "stream"\nformat = "rate-micro-batch"\ncolumns = ["value"]\nduplicates = "bad"\n'
        "options = { rowsPerBatch = 5, startTimestamp = 0, advanceMillisPerBatch = 1000 }"
    )
    with open_on(tmp_path, section, ".decl edge(v: number)\n.input edge\n") as pipeline:
        for looks in (1, 2):
            assert pipeline.sources[0].poll(pipeline.maintainer.db, 1) is not None
            assert read(pipeline) == [5]
            assert pipeline.maintainer.db.rows("edge") == [(n,) for n in range(5 * looks)]
