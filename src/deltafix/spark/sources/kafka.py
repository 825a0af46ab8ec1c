"""A Kafka topic through Spark's connector: ranges of offsets, read and decoded on the executors.

The connector is no part of PySpark: name its package in `[spark]`, `jars.packages`.

The broker is asked through the client that Spark's connector brings along, without a consumer
group: nothing is made, a topic that is not there is not created by asking, and offsets are those of
committed transactions. What is asked for, and what records say, is `pipeline.sources.topic`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError, TopicError
from deltafix.facts.schema import Schema
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.sources.topic import Ranges, TopicSource, decode_records
from deltafix.spark.errors import spark_errors
from deltafix.spark.net import WIDTH, Piece
from deltafix.spark.sources.live import LiveSpark, OnSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KafkaTopic(OnSpark, TopicSource):
    """A source of a Kafka topic (`source = "kafka"`).

    Args:
        live: the session.
        given: as for `Single`.
    """

    def __init__(self, live: LiveSpark, *given: Any) -> None:
        super().__init__(*given)
        self._live = live
        values = self.values
        self._topic = Topic(
            values["servers"], values["topic"], values["timeout"], values["options"]
        )

    def _take(
        self, portion: Portion, ranges: Ranges, partitions: Sequence[str], state: State
    ) -> None:
        decode = _Records(self.schema, self.values, self._where)
        hint = "; is the connector of Spark's version, and all it needs, among Spark's jars?"
        with spark_errors(self._where, hint, input=self.name, topic=self._topic.name):
            frame = self._read(ranges)
        frames = [(frame, decode)]
        self._live.look(portion, self.schema, frames, state, self._where, partitions=partitions)

    def _there(self) -> dict[str, tuple[int, int]]:
        """The offsets that the broker has."""
        spark = self._live.session()
        named = {"input": self.name, "topic": self._topic.name}
        with spark_errors(self._where, kind=TopicError, **named):
            return self._topic.offsets(spark, self._where)

    def _identity(self) -> str:
        spark = self._live.session()
        named = {"input": self.name, "topic": self._topic.name}
        with spark_errors(self._where, kind=TopicError, **named):
            return self._topic.identity(spark)

    def _read(self, ranges: Ranges) -> DataFrame:
        """The records of these ranges, a partition of the topic in a task, in its order."""
        topic = self._topic.name
        options = {f"kafka.{name}": value for name, value in self._topic.properties().items()}
        for side, name in enumerate(("startingOffsets", "endingOffsets")):
            options[name] = json.dumps(
                {topic: {partition: ranges[partition][side] for partition in ranges}}
            )
        options["assign"] = json.dumps({topic: [int(partition) for partition in ranges]})
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
        position = partition << WIDTH
        for batch in batches:
            for name in batch.column("partition").unique().to_pylist():
                table = pa.Table.from_batches([batch.filter(pc.field("partition") == name)])
                signed, oldest = self._signed(table), pc.min(table.column("stamp")).as_py()
                position += signed.table.num_rows
                yield Piece(position - signed.table.num_rows, signed, oldest, partition=str(name))

    def _signed(self, table: pa.Table) -> Signed:
        first = table.slice(0, 1).to_pylist()[0]
        origin = f"{self.origin}, partition {first['partition']}, from offset {first['offset']} on"
        values = table.column("value").to_pylist()
        keys = table.column("key").to_pylist() if Keying.of(self.values).key else ()
        return decode_records(self.schema, values, self.values, origin, keys)


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

        Raises, beginning with `origin`, PipelineError without the connector and TopicError without
        the topic; what the JVM raises otherwise.
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
            partitions = consumer.partitionsFor(self.name)
            if not partitions:
                message = f"{origin}: there is no such topic"
                raise TopicError(message, topic=self.name)
            parts = jvm.java.util.ArrayList()
            for partition in partitions:
                parts.add(kafka.common.TopicPartition(self.name, partition.partition()))
            begin, end = consumer.beginningOffsets(parts), consumer.endOffsets(parts)
            return {
                str(partition.partition()): (begin[partition], end[partition])
                for partition in parts
            }
        finally:
            consumer.close()

    def identity(self, spark: SparkSession) -> str:
        """The topic's id, as Kafka's clients spell it. Raises what the JVM raises."""
        jvm: Any = spark._jvm
        settings = jvm.java.util.Properties()
        for name, value in self.properties().items():
            settings.put(name, value)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            topics = jvm.java.util.ArrayList()
            topics.add(self.name)
            topic_id = admin.describeTopics(topics).allTopicNames().get().get(self.name).topicId()
            return (
                "" if topic_id.equals(jvm.org.apache.kafka.common.Uuid.ZERO_UUID) else str(topic_id)
            )
        finally:
            admin.close()
