"""What Spark was asked to do in a block: jobs, stages that ran, tasks of those."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Jobs", "counting_jobs"]


@dataclass
class Jobs:
    """Counts, once the block is over. A stage whose shuffle files are there does not run."""

    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    failed: int = 0
    """Tasks that failed; Spark runs such a one again."""


@contextmanager
def counting_jobs(spark: SparkSession) -> Iterator[Jobs]:
    """Count the jobs that this thread starts in the block."""
    context = spark.sparkContext
    found, group = Jobs(), f"counted {uuid4()}"
    context.setJobGroup(group, group)
    try:
        yield found
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    stages = set()
    for job in tracker.getJobIdsForGroup(group):
        found.jobs += 1
        stages |= set(tracker.getJobInfo(job).stageIds)
    for stage in map(tracker.getStageInfo, stages):
        found.failed += 0 if stage is None else stage.numFailedTasks
        if stage is not None and stage.numCompletedTasks:
            found.stages += 1
            found.tasks += stage.numCompletedTasks
