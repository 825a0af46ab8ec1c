"""A superstep in this process, one shard after another: for epochs that are not worth a Spark job.

The function that runs a shard, its files and its messages are those of `onspark`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltafix.spark.shards.load import Alone, FailedError, Loaded, run_load
from deltafix.spark.shards.resident import Place, Spec, Task, run_step
from deltafix.spark.shards.rest import RestTask, run_rest
from deltafix.spark.shards.step import First
from deltafix.spark.wire import Batch

__all__ = ["Here"]


class Here:
    """Runs the steps of one epoch, whose first messages are given."""

    remote = False

    def __init__(self, spec: Spec, first: First) -> None:
        self._spec = spec
        self._parcels = [*first.here, *(parcel for make in first.made for parcel in make())]

    def run(self, task: Task) -> list[dict[str, Any]]:
        """One superstep on every shard; the shards' reports."""
        came, self._parcels = self._came(), []
        notes = []
        for number, inbox in came.items():
            parcels, note = run_step(self._spec, task, number, inbox)
            self._parcels += parcels
            notes.append(note)
        return notes

    def load(self, task: Place) -> Loaded:
        """A whole epoch by columns."""
        return self._alone(run_load, task)

    def rest(self, task: RestTask) -> Loaded:
        """The supersteps that are left of an epoch."""
        done = self._alone(run_rest, task)
        self._parcels = []
        return done

    def _alone(self, run: Callable[..., Loaded], task: Place) -> Loaded:
        try:
            return run(self._spec, task, self._came(), Alone())
        except FailedError as failed:
            raise failed.error from failed

    def _came(self) -> dict[int, list[Batch]]:
        """The messages by shard."""
        came: dict[int, list[Batch]] = {n: [] for n in range(self._spec.shards)}
        for target, batch in self._parcels:
            came[target].append(batch)
        return came

    def close(self) -> None:
        """Nothing to let go of."""
