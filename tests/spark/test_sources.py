"""Inputs that Spark reads: tables of its catalog, and what it says where a connector is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltafix.errors import PipelineError
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.sources import on_spark

pytestmark = pytest.mark.spark


def write(folder: Path, section: str) -> Path:
    (folder / "p.dl").write_text(".decl edge(x: symbol, n: number)\n.input edge\n")
    file = folder / "p.toml"
    file.write_text(f'[pipeline]\nprogram = "p.dl"\nstate = "state"\n[input.edge]\n{section}\n')
    return file


def test_a_table_without_a_change_feed_is_diffed_at_each_look(spark, tmp_path) -> None:
    file = write(tmp_path, 'source = "spark"\ntable = "edges"\nmode = "snapshot"')

    def take(*rows) -> tuple[int, set]:
        spark.createDataFrame(rows, "x string, n long").createOrReplaceTempView("edges")
        with Pipeline(read_config(file), make_source=on_spark()) as pipeline:
            moved = sum(sum(epoch.given) for epoch in pipeline.drain())
            return moved, set(pipeline.maintainer.db.rows("edge"))

    assert take(("a", 1), ("b", 2)) == (2, {("a", 1), ("b", 2)})
    assert take(("b", 2), ("c", 3), ("c", 3)) == (2, {("b", 2), ("c", 3)})
    assert take(("c", 3), ("b", 2)) == (0, {("b", 2), ("c", 3)})
    file.write_text(file.read_text().replace("snapshot", "changes"))
    with Pipeline(read_config(file), make_source=on_spark()) as pipeline:
        with pytest.raises(
            PipelineError, match=r'table edges: .*mode = "snapshot" diffs the whole'
        ):
            list(pipeline.drain())
        assert pipeline.maintainer.db.count("edge") == 2


def test_kafka_without_its_connector_is_one_clear_message(spark, tmp_path) -> None:
    section = 'source = "kafka"\nservers = "127.0.0.1:1"\ntopic = "edges"'
    try:
        spark._jvm.java.lang.Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider")
    except Exception as missing:
        assert "ClassNotFoundException" in str(missing)
    else:
        pytest.skip("Spark's Kafka connector is among its jars")
    with Pipeline(read_config(write(tmp_path, section)), make_source=on_spark()) as pipeline:
        with pytest.raises(
            PipelineError, match=r"topic edges at 127.0.0.1:1: .*spark.jars.packages"
        ):
            pipeline.step()
        assert pipeline.maintainer.db.count("edge") == 0
