"""Topics without a broker, and a session without Spark: what `KafkaTopic`s read, kept in memory.

`MemoryTopic` has records by partition; `MemorySpark` runs the tasks of an epoch's job in this
process, by the functions that Spark's executors call. `LocalMemoryTopic` is read through the calls
of Kafka's client, which `MemoryClient` answers. Invariant: a partition's records come in their
order, and partitions come in any order, in tasks of their own or together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from deltafix.pipeline.sources import kafka as local
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
    identity = ""

    def _identity(self) -> str:
        return self.identity

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


class LocalMemoryTopic(local.KafkaTopic):
    """A topic of this process's whose broker is in memory: `there` by partition."""

    there: dict[str, Records]
    rng: Random
    identity = ""

    def _identity(self) -> str:
        return self.identity

    def _client(self) -> Any:
        return MemoryClient(self.there, self.rng)


@dataclass
class Told:
    """A message, or the event that a partition has no more."""

    at: int
    where: str
    text: str | None
    ended: bool = False

    def error(self) -> Any:
        return KafkaError(KafkaError._PARTITION_EOF) if self.ended else None

    def partition(self) -> int:
        return int(self.where)

    def offset(self) -> int:
        return self.at

    def key(self) -> None:
        return None

    def value(self) -> bytes | None:
        return None if self.text is None else self.text.encode()

    def timestamp(self) -> tuple[int, int]:
        return (1, self.at * 1000)


class MemoryClient:
    """The calls of `confluent_kafka.Consumer`; `rng` says in which order partitions answer.

    It ends a partition by its event, or not before a record that nobody asked for has come.
    """

    def __init__(self, there: Mapping[str, Records], rng: Random) -> None:
        self._there = there
        self._rng = rng
        self._waiting: dict[str, list[Told]] = {}

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = dict.fromkeys(int(name) for name in self._there)
        found = type("Topic", (), {"error": None, "partitions": partitions})
        return type("Cluster", (), {"topics": {topic: found}})

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        found = []
        for one in asked:
            first, told = self._there[str(one.partition)]
            at = first if one.offset == OFFSET_BEGINNING else first + len(told)
            found.append(TopicPartition(one.topic, one.partition, at))
        return found

    def assign(self, asked: list[TopicPartition]) -> None:
        for one in asked:
            name = str(one.partition)
            first, told = self._there[name]
            rest = enumerate(told[one.offset - first :], one.offset)
            self._waiting[name] = [Told(at, name, text) for at, text in rest]
            self._waiting[name].append(Told(first + len(told), name, None, ended=True))

    def incremental_unassign(self, gone: list[TopicPartition]) -> None:
        for one in gone:
            del self._waiting[str(one.partition)]

    def unassign(self) -> None:
        self._waiting.clear()

    def poll(self, timeout: float) -> Told | None:
        some = [name for name, told in self._waiting.items() if told]
        return self._waiting[self._rng.choice(some)].pop(0) if some else None

    def consume(self, many: int, timeout: float) -> list[Told]:
        taken = (self.poll(0) for _ in range(self._rng.choice([0, 1, 3])))
        return [one for one in taken if one is not None]

    def close(self) -> None:
        self._waiting.clear()
