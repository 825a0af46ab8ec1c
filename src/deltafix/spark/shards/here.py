"""A superstep in this process, one shard after another: for epochs that are not worth a Spark job.

The function that runs a shard, its files and its messages are those of `onspark`. Engines that are
not there yet are made by threads, a shard each, since the kernel lets go of the interpreter's lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from deltafix.spark.shards.resident import Spec, Task, run_step, stands, warm
from deltafix.spark.shards.rest import Alone, Done, FailedError, RestTask, run_rest
from deltafix.spark.shards.step import First
from deltafix.spark.wire import Batch

if TYPE_CHECKING:
    from deltafix.spark.shards.shard import Shard

_LOG = logging.getLogger("deltafix.spark.shards")


class Here:
    """Runs the steps of one epoch, whose first messages are given."""

    def __init__(self, spec: Spec, first: First) -> None:
        self._spec = spec
        self._parcels = [*first.here, *(parcel for make in first.makers for parcel in make())]

    def run(self, task: Task) -> list[dict[str, Any]]:
        """One superstep on every shard; the shards' reports."""
        came, self._parcels = self._came(), []
        make_engines(self._spec, task.files)
        notes = []
        for number, inbox in came.items():
            parcels, note = run_step(self._spec, task, number, inbox)
            self._parcels += parcels
            notes.append(note)
        return notes

    def rest(self, task: RestTask) -> Done:
        """The supersteps that are left of an epoch."""
        if not task.loads:
            make_engines(self._spec, task.files)
        try:
            done = run_rest(self._spec, task, self._came(), Alone())
        except FailedError as failed:
            raise failed.error from failed
        self._parcels = []
        return done

    def _came(self) -> dict[int, list[Batch]]:
        """The messages by shard."""
        came: dict[int, list[Batch]] = {n: [] for n in range(self._spec.shards)}
        for target, batch in self._parcels:
            came[target].append(batch)
        return came

    def close(self) -> None:
        """Nothing to let go of."""


class Making:
    """Threads of this process that make the engines of shards. Nothing depends on it.

    What is not made is made by who asks for it, and raises there what it raised here.
    """

    def __init__(self, spec: Spec, files: Mapping[int, Sequence[str]]) -> None:
        self._spec = spec
        self._shards: list[Shard] = []
        self._is_stopped = False
        self._waiting: SimpleQueue[tuple[int, Sequence[str]]] = SimpleQueue()
        missing = [shard for shard in files.items() if not stands(spec, *shard)]
        for shard in missing:
            self._waiting.put(shard)
        count = min(len(missing), os.cpu_count() or 1)
        self._threads = [Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Until they are made."""
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Stop it, if it runs, within a slice of the kernel's work. Idempotent."""
        self._is_stopped = True
        for thread in self._threads:
            while thread.is_alive():
                for shard in self._shards:
                    shard.db.cancel()  # again, since an epoch that begins has not heard it
                thread.join(0.02)

    def _run(self) -> None:
        try:
            while not self._is_stopped:
                number, files = self._waiting.get_nowait()
                warm(self._spec, number, files, self._shards.append)
        except Empty:
            return
        except BaseException as error:  # whatever ends a thread is met again by who needs it
            _LOG.info("an engine is made when it is asked for: %s", error)


def make_engines(spec: Spec, files: Mapping[int, Sequence[str]]) -> None:
    """Have the engines of shards that stand on files, several at once."""
    if sum(not stands(spec, *shard) for shard in files.items()) > 1:
        with closing(Making(spec, files)) as making:
            making.wait()
