"""Topics without a broker, and a session without Spark: what `KafkaTopic` reads, kept in memory.

`MemoryTopic` has records by partition; `MemorySpark` runs the tasks of an epoch's job in this
process, by the functions that Spark's executors call. Invariant: a partition's records come in
their order, and partitions come in any order, in tasks of their own or together.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from deltafix.spark.net import _Joined, _Routing, _Task, read_nets
from deltafix.spark.sent import Ended, send
from deltafix.spark.sources.kafka import KafkaTopic
from deltafix.spark.sources.live import LiveSpark

Records = tuple[int, list[str | None]]
"""The offset of the first record that is there, and the values of all from there on."""

KINDS = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.string()),
     ("value", pa.string()), ("stamp", pa.float64())]
)  # fmt: skip


class MemoryTopic(KafkaTopic):
    """A topic whose broker and records are in memory: `there` by partition."""

    there: dict[str, Records]

    def _there(self) -> dict[str, tuple[int, int]]:
        return {name: (first, first + len(told)) for name, (first, told) in self.there.items()}

    def _read(self, ranges: Any) -> Any:
        """A table of each partition."""
        tables = []
        for name, (start, end) in ranges.items():
            first, told = self.there[name]
            rows = [
                {"partition": int(name), "offset": at, "value": value, "stamp": float(at)}
                for at, value in enumerate(told[start - first : end - first], start)
            ]
            tables.append(pa.Table.from_pylist(rows, KINDS))
        return tables


class MemorySpark(LiveSpark):
    """A session whose executors are this process; `rng` says how tasks and batches are cut."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng

    def _run(self, waiting: Any) -> None:
        for one in waiting:
            looks = (one.look,)
            ((tables, decode),) = one.frames
            order = self._rng.sample(tables, len(tables))
            tasks = [order] if self._rng.random() < 0.5 else [[table] for table in order]
            sent = []
            task = Ended(_Task(looks, decode, 0, 0), _Routing(looks, 4))
            for some in tasks:
                table = pa.concat_tables(some).combine_chunks()
                size = self._rng.choice([1, 2, 5, 1000])
                sent += task(iter(table.to_batches(max_chunksize=size)))
            # Equal rows come to one task, which has those of any number of parts.
            parts = self._rng.choice([1, 2, 4])
            whole = pa.Table.from_batches(sent)
            joined = []
            for part in range(parts):
                mine = pa.array([target % parts == part for target in whole["target"].to_pylist()])
                there = whole.filter(mine).to_batches()
                joined += Ended(_Joined(looks), send)(iter(there))
            (one.net,) = read_nets(pa.Table.from_batches(joined), looks)
