"""Topics without a broker, and a session without Spark: what `KafkaTopic` reads, kept in memory.

`MemoryTopic` has records by partition; `MemorySpark` runs the tasks of an epoch's job in this
process, by the functions that Spark's executors call. Invariant: a partition's records come in
their order, and partitions come in any order, in tasks of their own or together.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from deltafix.spark.net import _Joined, _Task, _Wire
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
            wire = _Wire.of([one.look])
            ((tables, decode),) = one.frames
            order = self._rng.sample(tables, len(tables))
            tasks = [order] if self._rng.random() < 0.5 else [[table] for table in order]
            found = []
            for some in tasks:
                table = pa.concat_tables(some).combine_chunks()
                size = self._rng.choice([1, 2, 5, 1000])
                found += _Task(wire, decode, 0, 0)(iter(table.to_batches(max_chunksize=size)))
            joined = list(_Joined(wire)(iter(found)))
            (one.net,) = wire.read(pa.Table.from_batches(joined, wire.schema))
