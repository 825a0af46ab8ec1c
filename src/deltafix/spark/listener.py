"""Metrics of streaming queries: Spark's own progress beside what the engine did for the batch.

    listener = EpochListener(kept, print)
    spark.streams.addListener(listener)

Invariant: a record is made for every batch that Spark reports of the query, in its order; nothing
is measured twice: rows and durations are Spark's, epochs, touched facts and stages deltafix's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltafix.errors import SparkMissingError
from deltafix.pipeline.epoch import Epoch
from deltafix.spark.views import Maintained

try:
    from pyspark.sql.streaming import StreamingQueryListener
except ImportError as _error:
    raise SparkMissingError from _error


class EpochListener(StreamingQueryListener):  # type: ignore[misc]  # pyspark is not typed for mypy
    """Hands a record per batch to `tell`.

    A record has `batch`, `rows` (as observed in the query), `input_rows_per_second`,
    `duration_ms` (Spark's, by stage), `epochs` (numbers), `out` (rows added and removed by view),
    `touched`, `seconds` (deltafix's, by stage).
    """

    def __init__(self, kept: Maintained, tell: Callable[[dict[str, Any]], None]) -> None:
        self._kept = kept
        self._tell = tell
        self._epochs: dict[int, list[Epoch]] = {}
        kept.hear(self._note)

    def _note(self, epoch: Epoch) -> None:
        if epoch.batch is not None:
            self._epochs.setdefault(epoch.batch[1], []).append(epoch)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Nothing is measured yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Tell of one batch."""
        progress = event.progress
        query = self._kept.query
        if query is None or str(progress.id) != str(query.id):
            return
        epochs = self._epochs.pop(progress.batchId, [])
        observed = progress.observedMetrics.get("deltafix")
        stages: dict[str, float] = {}
        out: dict[str, list[int]] = {}
        for epoch in epochs:
            for stage, seconds in epoch.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
            for view, (new, old) in epoch.out.items():
                total = out.setdefault(view, [0, 0])
                total[0] += new
                total[1] += old
        self._tell(
            {
                "batch": progress.batchId,
                "rows": None if observed is None else observed["rows"],
                "input_rows_per_second": progress.inputRowsPerSecond,
                "duration_ms": dict(progress.durationMs),
                "epochs": [epoch.epoch for epoch in epochs],
                "out": out,
                "touched": sum(epoch.touched for epoch in epochs),
                "seconds": stages,
            }
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Nothing to tell."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name
        """Nothing to tell."""
