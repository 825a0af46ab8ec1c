"""A Kafka topic through Spark's connector: Debezium envelopes, or JSON objects with a sign.

Mark: `kafka/<input>` = {partition: next offset}. Each poll asks the broker which offsets there are
and reads a range of each partition, at most `limit` records in all, on the executors;
nothing is kept in a consumer group or a checkpoint of Spark's: the offsets are committed with the
rows. Invariant: a partition's records are taken in offset order, each once, and none is passed over
in silence.
The connector is no part of PySpark: name its package in `[spark]`, `jars.packages`.

The broker is asked through the client that Spark's connector brings along, without a consumer
group: nothing is made, a topic that is not there is not created by asking, and offsets are those of
committed transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit, with_deletes
from deltafix.pipeline.debezium import decode_envelopes
from deltafix.pipeline.decode import json_values, records_table
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed
from deltafix.spark.errors import spark_errors
from deltafix.spark.net import WIDTH, Piece
from deltafix.spark.sources.frames import FrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Ranges = Mapping[str, tuple[int, int]]
"""Partition to (first offset, offset behind the last)."""


class KafkaTopic(FrameSource):
    """A source of a Kafka topic (`source = "kafka"`)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        values = self.values
        self._topic = Topic(
            values["servers"], values["topic"], values["timeout"], values["options"]
        )
        self._origin = f"input {self.name}: topic {values['topic']}"
        self._where = f"{self._origin} at {values['servers']}"

    def poll(self, state: State, limit: int) -> Portion | None:
        """The records behind the offsets that are in."""
        mark = f"kafka/{self.name}"
        done: dict[str, int] = state.marks.get(mark, {})
        there = self._there()
        starts = self._starts(done, there)
        waiting = {name: there[name][1] - start for name, start in starts.items()}
        shares = share(waiting, limit)
        ranges = {name: (starts[name], starts[name] + many) for name, many in shares.items()}
        ends = {name: end for name, (_, end) in ranges.items()}
        if ends == {name: done.get(name) for name in ends}:
            return None
        # So many count towards the epoch's bound until it is known how many rows they are.
        records = sum(shares.values())
        portion = Portion(self.name, policy=self.policy, more=shares != waiting, read=records)
        portion.marks[mark] = {**done, **ends}
        some = {name: one for name, one in ranges.items() if one[0] < one[1]}
        if some:
            decode = _Records(self.schema, self.values, self._where)
            hint = "; is the connector of Spark's version, and all it needs, among Spark's jars?"
            with spark_errors(self._where, hint, input=self.name, topic=self._topic.name):
                frame = self._read(some)
            self._live.look(
                portion, self.schema, [(frame, decode)], state, self._where, partitions=list(there)
            )
        return portion

    def _starts(self, done: Mapping[str, int], there: Ranges) -> dict[str, int]:
        """Where each partition goes on. Raises PipelineError where it cannot."""
        starts = {}
        for name in there.keys() | done.keys():
            first, end = there.get(name, (0, -1))
            start = done.get(name, first)
            if start > end:
                message = (
                    f"{self._origin}, partition {name}: it ends before offset "
                    f"{start}, up to which it was read, so it was made anew; give the new topic a "
                    "pipeline with a state of its own"
                )
                raise PipelineError(message, input=self.name, partition=name)
            if start < first and self.values["lost"] == "fail":
                message = (
                    f"{self._origin}, partition {name}: offsets {start} to "
                    f"{first - 1} are gone before they were read (retention); what they said is "
                    "lost to this state. Make the state anew from a source that has all, or go "
                    'on without them with lost = "skip"'
                )
                raise PipelineError(message, input=self.name, partition=name)
            starts[name] = max(start, first)
        return starts

    def _there(self) -> dict[str, tuple[int, int]]:
        """The offsets that the broker has."""
        spark = self._live.session()
        with spark_errors(self._where, input=self.name, topic=self._topic.name):
            return self._topic.offsets(spark, self._where)

    def _read(self, ranges: Ranges) -> DataFrame:
        """The records of these ranges, a partition of the topic in a task, in its order."""
        topic = self._topic.name
        options = {f"kafka.{name}": value for name, value in self._topic.properties().items()}
        for place, name in enumerate(("startingOffsets", "endingOffsets")):
            options[name] = json.dumps({topic: {one: ranges[one][place] for one in ranges}})
        options["assign"] = json.dumps({topic: [int(one) for one in ranges]})
        reader = self._live.session().read.format("kafka").options(**options)
        return reader.load().selectExpr(
            "partition", "offset", "cast(key as string) key", "cast(value as string) value",
            "cast(timestamp as double) stamp",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Records:
    """Decodes records on executors; those of a partition follow each other."""

    schema: Schema
    values: Mapping[str, Any]
    origin: str

    def __call__(self, batches: Iterator[pa.RecordBatch], partition: int) -> Iterable[Piece]:
        place = partition << WIDTH
        for batch in batches:
            for name in batch.column("partition").unique().to_pylist():
                table = pa.Table.from_batches([batch.filter(pc.field("partition") == name)])
                signed, oldest = self._signed(table), pc.min(table.column("stamp")).as_py()
                place += signed.table.num_rows
                yield Piece(place - signed.table.num_rows, signed, oldest, partition=str(name))

    def _signed(self, table: pa.Table) -> Signed:
        first = table.slice(0, 1).to_pylist()[0]
        origin = f"{self.origin}, partition {first['partition']}, from offset {first['offset']} on"
        values = table.column("value").to_pylist()
        keys = table.column("key").to_pylist() if Keying.of(self.values).key else ()
        return decode_records(self.schema, values, self.values, origin, keys)


def decode_records(
    schema: Schema,
    values: list[str | None],
    options: Mapping[str, Any],
    origin: str,
    keys: Sequence[str | None] = (),
) -> Signed:
    """Records' values (JSON text; None for tombstones) as signed rows; `keys` are theirs."""
    exact = any(column.logical is not None for column in schema.columns)
    texts = ["null" if text is None else text for text in values]
    parsed, bad = json_values(texts, origin, exact=exact)
    keying = Keying.of(options)
    columns, merges = options["columns"], bool(options["duplicates"] or keying.key)
    if options["envelope"] == "debezium":
        known = dict(json_values([text or "" for text in keys], origin)[0]) if keying.key else {}
        signed = decode_envelopes(
            schema, parsed, origin, columns=columns, keying=keying, merges=merges,
            keys=[known.get(place) for place in range(len(keys))],
        )  # fmt: skip
    else:
        beside = [name for name in (options["sign"], *keying.sequence) if name]
        wanted = [*(columns or schema.names), *beside]
        said = [pair for pair in parsed if pair[1] is not None]
        decoded = records_table(said, origin, wanted)
        bad.extend(decoded.bad)
        table = with_deletes(schema, decoded.table, columns, options["sign"], keying)
        names = choose(schema, table.column_names, columns, beside, origin, merges=merges)
        signed = fit(schema, table, names, origin, sign=options["sign"], keying=keying)
    signed.bad.extend(bad)
    return signed


_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how to reach it.

    Attributes:
        servers: `host:port`, several with commas.
        name: the topic.
        timeout: seconds that a broker may take to answer.
        options: properties of Kafka's client.
    """

    servers: str
    name: str
    timeout: int
    options: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        """The properties of a client."""
        # The broker must answer in this time, or Kafka's client tries for minutes.
        limit = str(self.timeout * 1000)
        return {
            "bootstrap.servers": self.servers,
            "isolation.level": "read_committed",
            "default.api.timeout.ms": limit,
            "request.timeout.ms": limit,
            **self.options,
        }

    def offsets(self, spark: SparkSession, origin: str) -> dict[str, tuple[int, int]]:
        """Partition to (first offset, offset behind the last).

        Raises PipelineError, beginning with `origin`, without the connector or the topic; what the
        JVM raises otherwise.
        """
        from py4j.java_gateway import JavaClass  # noqa: PLC0415  comes with Spark

        jvm: Any = spark._jvm
        kafka = jvm.org.apache.kafka
        if not isinstance(kafka.clients.consumer.KafkaConsumer, JavaClass):
            message = (
                f"{origin}: Spark's Kafka connector is not among its jars; name its package in "
                "spark.jars.packages"
            )
            raise PipelineError(message, topic=self.name)
        settings = jvm.java.util.Properties()
        keep = {"allow.auto.create.topics": "false"}
        for name, value in {**self.properties(), **keep}.items():
            settings.put(name, value)
        settings.put("key.deserializer", _BYTES)
        settings.put("value.deserializer", _BYTES)
        consumer = kafka.clients.consumer.KafkaConsumer(settings)
        try:
            found = consumer.partitionsFor(self.name)
            if not found:
                message = f"{origin}: there is no such topic"
                raise PipelineError(message, topic=self.name)
            parts = jvm.java.util.ArrayList()
            for one in found:
                parts.add(kafka.common.TopicPartition(self.name, one.partition()))
            begin, end = consumer.beginningOffsets(parts), consumer.endOffsets(parts)
            return {str(one.partition()): (begin[one], end[one]) for one in parts}
        finally:
            consumer.close()


def share(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many records to take of each partition: in all at most `limit`, evenly. O(n log n)."""
    shares = {}
    left = limit
    for place, name in enumerate(sorted(waiting, key=lambda one: (waiting[one], int(one)))):
        shares[name] = min(waiting[name], left // (len(waiting) - place))
        left -= shares[name]
    return shares
