"""Mapping a function over rows in Spark, Arrow in and Arrow out.

`map_batches` is the whole of it: a table of work goes out in many small partitions, each worker
applies the function to its record batches, one table comes back. Invariant: the function is the
same object that the in-process path calls, and it sees every row exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
"""Called with (tasks done, tasks known) while a job runs."""

_TASKS_PER_CORE = 8  # small enough to level out uneven files, large enough to hide task start-up
_POLL_SECONDS = 0.2


def map_batches(
    session: SparkSession,
    table: pa.Table,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    schema: pa.Schema,
    *,
    progress: Progress | None = None,
) -> pa.Table:
    """Apply `function` to the rows of `table` on Spark's workers; rows of the result in any order.

    `function` takes and returns record batches, the latter of `schema`; it must be importable on
    the workers (or picklable by value). An error in it is raised here by Spark with the worker's
    traceback.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  pyspark is an extra

    if table.num_rows == 0:
        return schema.empty_table()

    def over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (function(batch) for batch in batches if batch.num_rows)

    context = session.sparkContext
    tasks = max(1, min(table.num_rows, context.defaultParallelism * _TASKS_PER_CORE))
    frame = session.createDataFrame(table).repartition(tasks)
    mapped = frame.mapInArrow(over, from_arrow_schema(schema))
    with _watched(context, progress):
        return mapped.toArrow().cast(schema)


@contextmanager
def _watched(context: SparkContext, progress: Progress | None) -> Iterator[None]:
    """Report finished tasks from a thread of our own while the block runs jobs."""
    if progress is None:
        yield
        return
    group = f"deltafix-{uuid4()}"
    tracker = context.statusTracker()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getJobIdsForGroup(group)
                for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
            ]
            known = [info for info in stages if info is not None]
            progress(sum(i.numCompletedTasks for i in known), sum(i.numTasks for i in known))

    context.setJobGroup(group, "deltafix")
    watcher = threading.Thread(target=watch, name=group, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
