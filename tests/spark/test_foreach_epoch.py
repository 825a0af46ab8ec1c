"""An output whose function writes each epoch with Spark: a folder an epoch, so again is once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.targets.job import finish, go, job_at, replayed

from deltafix.errors import SinkError

if TYPE_CHECKING:
    from deltafix.pipeline.targets.target import EpochRows

pytestmark = pytest.mark.spark
FAILED: list[int] = []


def write(rows: EpochRows) -> None:
    """What a user's function does; the first time it fails behind its write."""
    from pyspark.sql import SparkSession

    place = f"{os.environ['DELTAFIX_TOLD']}/epoch={rows.epoch}"
    SparkSession.active().createDataFrame(rows.signed).write.mode("overwrite").parquet(place)
    if not FAILED:
        FAILED.append(rows.epoch)
        raise RuntimeError("it was written, but nobody was told")


def test_epochs_written_by_spark_lead_to_the_view(spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DELTAFIX_TOLD", str(tmp_path / "told"))
    FAILED.clear()
    job = job_at(
        tmp_path / "job",
        'sink = "foreach_epoch"\nfunction = "tests.spark.test_foreach_epoch:write"',
    )
    with pytest.raises(SinkError, match="nobody was told"):
        go(job)
    view = finish(job)
    frame = spark.read.parquet(str(tmp_path / "told")).select("sign", "who", "doc", "epoch")
    rows = [(sign, (who, doc), epoch) for sign, who, doc, epoch in map(tuple, frame.collect())]
    assert replayed(rows) == view
    assert len({epoch for *_, epoch in rows}) > 1
