"""A superstep in this process, one shard after another: for epochs that are not worth a Spark job.

The function that runs a shard, its files and its messages are those of `onspark`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from deltafix.spark.shards.load import Alone, Loaded, LoadTask, run_load
from deltafix.spark.shards.resident import CONTROL, Message, Spec, Task, run_step

__all__ = ["Here"]


class Here:
    """Runs the steps of one epoch, whose first messages are given."""

    def __init__(self, spec: Spec, first: Iterable[Message]) -> None:
        self._spec = spec
        self._messages = list(first)

    def run(self, task: Task) -> list[dict[str, Any]]:
        """One superstep on every shard; the shards' reports."""
        came: dict[int, list[bytes]] = {n: [] for n in range(self._spec.shards)}
        for target, data in self._messages:
            if data:
                came[target].append(data)
        self._messages = []
        reports = []
        for number, inbox in came.items():
            for target, payload in run_step(self._spec, task, number, inbox):
                if target == CONTROL:
                    reports.append(json.loads(payload))
                else:
                    self._messages.append((target, payload))
        return reports

    def load(self, task: LoadTask) -> Loaded:
        """A whole epoch by columns. Raises RefusedError; the messages are there as before."""
        first: dict[int, list[bytes]] = {n: [] for n in range(self._spec.shards)}
        for target, data in self._messages:
            first[target].append(data)
        return run_load(self._spec, task, first, Alone())

    def close(self) -> None:
        """Nothing to let go of."""
