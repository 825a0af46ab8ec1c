"""A Kafka topic as its broker tells it: its partitions, and the offsets that are there.

Asked through the client that Spark's connector brings along, without a consumer group. Invariant:
nothing is read and nothing is made; a topic that is not there is not created by asking. Offsets
are those of committed transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltafix.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
