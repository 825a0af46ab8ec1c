"""An output whose function writes each epoch with Spark: a folder an epoch, so again is once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines
from tests.targets.job import finish, go, job_at, replayed

from deltafix.errors import SinkError

if TYPE_CHECKING:
    from deltafix.pipeline.targets.target import EpochRows

pytestmark = pytest.mark.spark
FAILED: list[int] = []
READ: list[bool] = []
"""Whether the rows of an epoch came to the driver."""


def write(rows: EpochRows) -> None:
    """What a user's function does; the first time it fails behind its write."""
    from pyspark.sql import SparkSession

    place = f"{os.environ['DELTAFIX_TOLD']}/epoch={rows.epoch}"
    rows.frame(SparkSession.active()).write.mode("overwrite").parquet(place)
    READ.append("signed" in vars(rows))
    if not FAILED:
        FAILED.append(rows.epoch)
        raise RuntimeError("it was written, but nobody was told")


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_epochs_written_by_spark_lead_to_the_view(keeper, spark, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DELTAFIX_TOLD", str(tmp_path / "told"))
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    FAILED.clear()
    READ.clear()
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
    assert all(READ) == (keeper == "driver")  # the view is empty at first
