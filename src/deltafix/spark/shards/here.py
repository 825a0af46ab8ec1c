"""A superstep in this process, one shard after another: for epochs that are not worth a Spark job.

The function that runs a shard, its files and its messages are those of `onspark`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from deltafix.spark.shards.load import Alone, FailedError, Loaded, run_load
from deltafix.spark.shards.resident import CONTROL, Message, Place, Spec, Task, run_step
from deltafix.spark.shards.rest import RestTask, run_rest

__all__ = ["Here"]


class Here:
    """Runs the steps of one epoch, whose first messages are given."""

    remote = False

    def __init__(self, spec: Spec, first: Iterable[Message]) -> None:
        self._spec = spec
        self._messages = list(first)

    def run(self, task: Task) -> list[dict[str, Any]]:
        """One superstep on every shard; the shards' reports."""
        came, self._messages = self._came(), []
        reports = []
        for number, inbox in came.items():
            for target, payload in run_step(self._spec, task, number, filter(None, inbox)):
                if target == CONTROL:
                    reports.append(json.loads(payload))
                else:
                    self._messages.append((target, payload))
        return reports

    def load(self, task: Place) -> Loaded:
        """A whole epoch by columns. Raises RefusedError; the messages are there as before."""
        return self._alone(run_load, task)

    def rest(self, task: RestTask) -> Loaded:
        """The supersteps that are left of an epoch."""
        done = self._alone(run_rest, task)
        self._messages = []
        return done

    def _alone(self, run: Callable[..., Loaded], task: Place) -> Loaded:
        try:
            return run(self._spec, task, self._came(), Alone())
        except FailedError as failed:
            raise failed.error from failed

    def _came(self) -> dict[int, list[bytes]]:
        """The messages by shard."""
        came: dict[int, list[bytes]] = {n: [] for n in range(self._spec.shards)}
        for target, data in self._messages:
            came[target].append(data)
        return came

    def close(self) -> None:
        """Nothing to let go of."""
