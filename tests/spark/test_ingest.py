"""Functions over rows in Spark, and the dead-code job through it. One session for all."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.facts import FRAGMENT_SCHEMA, from_arrow
from deltafix.analyses.reading import extract_batch, paths_table, read_fragments
from deltafix.cli import main as command_line
from deltafix.cli import source_trees
from deltafix.spark.ingest import map_batches
from deltafix.spark.session import spark_session

pytestmark = pytest.mark.spark

SOURCES = {
    "main.py": 'import shop.cart as c\nif __name__ == "__main__": c.total()\n',
    "shop/__init__.py": "from .cart import total\n",
    "shop/cart.py": "def total(): return _sum()\ndef _sum(): ...\ndef unused(): return _old()\n"
    "def _old(): ...\n",
    "shop/broken.py": "def broken(:\n",
    "shop/empty.py": "",
    "shop/binary.py": "\x00",
    "pyproject.toml": '[project.scripts]\nshop = "shop.cart:total"\n',
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_every_row_is_mapped_once_and_progress_ends_with_all_tasks(spark: SparkSession) -> None:
    schema = pa.schema([("y", pa.int64())])
    steps: list[tuple[int, int]] = []
    table = pa.table({"x": list(range(1000))})

    # Defined here so that it goes to the workers by value: they cannot import a test module.
    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [2 * value for value in batch.column("x").to_pylist()]
        return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], ["y"])

    found = map_batches(spark, table, double, schema, progress=lambda *step: steps.append(step))
    assert sorted(found.column("y").to_pylist()) == [2 * x for x in range(1000)]
    assert found.schema == schema
    assert all(0 <= done <= known for done, known in steps)
    empty = map_batches(spark, table.slice(0, 0), double, schema)
    assert (empty.num_rows, empty.schema) == (0, schema)


def test_agree_spark_and_this_process_extract_the_same_fragments(
    spark: SparkSession, tree: Path
) -> None:
    at = DEAD_CODE.tree(tree)
    paths = list(at.scan().files)
    table = map_batches(
        spark, paths_table(paths), partial(extract_batch, at, DEAD_CODE.extract), FRAGMENT_SCHEMA
    )
    fragments = from_arrow(table)
    assert fragments == list(read_fragments(at, paths, DEAD_CODE.extract))
    assert [one.path for one in fragments if one.error] == ["shop/binary.py", "shop/broken.py"]


def test_agree_the_command_reports_the_same_with_and_without_spark(
    spark: SparkSession,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports, said = [], []
    for way in (["--no-spark"], ["--spark"], []):
        # Without either the size decides; this tree is called large.
        monkeypatch.setattr(source_trees, "_LARGE", 1)
        monkeypatch.setattr(source_trees, "cpu_count", lambda: 4)
        with pytest.raises(SystemExit) as ended:
            command_line.main(
                ["dead-code", str(tree), "--confidence", "likely", "--format", "json", *way]
            )
        assert ended.value.code == 1
        out, err = capsys.readouterr()
        said.append("read with Spark" in err)
        report = json.loads(out)
        report["work"].pop("seconds")
        reports.append(report)
    assert reports[0] == reports[1] == reports[2]
    assert said == [False, False, True]
    assert [one["symbol"] for one in reports[0]["dead"]] == [
        "shop.cart:unused",
        "shop.cart:_old",
        "shop.empty",
    ]
    assert not spark.sparkContext._jsc.sc().isStopped()  # a session that was there is left alone


def test_a_session_leaves_the_environment_as_it_was_and_is_shared(spark: SparkSession) -> None:
    assert "deltafix-java-" not in os.environ.get("JAVA_HOME", "")
    with spark_session() as session:
        assert session is spark
    assert spark.range(3).count() == 3
