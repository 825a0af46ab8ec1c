"""A Kafka topic, read in this process by the package `confluent-kafka`.

    ask     the offsets of committed transactions, of all partitions
    assign  the partitions of an epoch at its offsets: no group is joined, nothing is committed to
            the broker, so no rebalance can take a partition away or give one twice
    read    each up to the offset behind its last; a partition's records are decoded together

Invariant: a range of offsets gives the same records however often it is asked for (those of
aborted transactions never), so an epoch that was not committed is read again as it was. Where the
broker has let go of a record meanwhile, that is an error and never a jump to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from deltafix.errors import ConfigError, MissingDependencyError, TopicError
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.policy import high_mark, late_rows
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.topic import Ranges, TopicSource, decode_records

try:
    from confluent_kafka import (
        OFFSET_BEGINNING,
        OFFSET_END,
        Consumer,
        KafkaError,
        KafkaException,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient
except ImportError as _error:
    raise MissingDependencyError(
        "topics need the package confluent-kafka: `pip install 'deltafix[kafka]'`"
    ) from _error

_BATCH: Final = 10_000
"""Records that are taken from the client at a time."""

_SLICE: Final = 0.5
"""Seconds after which a wait looks up, so that Ctrl-C is heard."""

_DEFAULTS: Final = {
    "group.id": "deltafix",  # the client wants one; it is never joined
    "isolation.level": "read_committed",
    "log_level": "0",
    "queued.max.messages.kbytes": "16384",  # what is fetched ahead of an epoch is fetched again
}
"""Settings that `options` may change."""

_KEPT: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
"""Settings on which it depends that records are read once, and nothing is made."""


class KafkaTopic(TopicSource):
    """A source of a Kafka topic (`source = "kafka"`).

    Args:
        given: as for `Single`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        values = self.values
        self._topic: str = values["topic"]
        self._timeout: int = values["timeout"]
        self._heard = ""
        self._settings = {
            "bootstrap.servers": values["servers"],
            **_DEFAULTS,
            **values["options"],
            **_KEPT,
            "error_cb": self._hear,
        }
        self._open: Any = None
        self._admin: Any = None

    def close(self) -> None:
        """Let go of the connection."""
        client, self._open, self._admin = self._open, None, None
        if client is not None:
            client.close()

    # --- inside --------------------------------------------------------------------------------

    def _there(self) -> dict[str, tuple[int, int]]:
        with self._asking() as client:
            topic = client.list_topics(self._topic, self._timeout).topics[self._topic]
            if topic.error is not None:
                if topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise KafkaException(topic.error)
                raise TopicError(f"{self._where}: there is no such topic", topic=self._topic)
            sides = [self._offsets(client, list(topic.partitions), side)
                     for side in (OFFSET_BEGINNING, OFFSET_END)]  # fmt: skip
        return {str(number): (sides[0][number], sides[1][number]) for number in sides[0]}

    def _identity(self) -> str:
        with self._asking():
            if self._admin is None:
                names = _KEPT.keys() | {"group.id", "queued.max.messages.kbytes", "isolation.level"}
                settings = {
                    name: text for name, text in self._settings.items() if name not in names
                }
                self._admin = AdminClient(settings)
            descriptions = self._admin.describe_topics(
                TopicCollection([self._topic]), request_timeout=self._timeout
            )
            topic_id = str(descriptions[self._topic].result(self._timeout).topic_id)
        # In base64 as Java's client spells it, which reads the same marks; zeros are no id.
        return (
            topic_id.rstrip("=").replace("+", "-").replace("/", "_") if topic_id.strip("A=") else ""
        )

    def _offsets(self, client: Any, partitions: Sequence[int], side: int) -> dict[int, int]:
        """The first offset of each partition, or that behind its last."""
        requests = [TopicPartition(self._topic, number, side) for number in partitions]
        offsets = {}
        for partition in client.offsets_for_times(requests, self._timeout):
            if partition.error is not None:
                raise KafkaException(partition.error)
            offsets[partition.partition] = partition.offset
        return offsets

    def _take(
        self, portion: Portion, ranges: Ranges, partitions: Sequence[str], state: State
    ) -> None:
        before: Mapping[str, int | None] = state.marks.get(high_mark(self.schema.relation), {})
        highs = {name: before.get(name) for name in partitions}
        keyed = bool(Keying.of(self.values).key)
        portion.read = 0
        with self._asking() as client:
            records = self._read(client, ranges)
        stamps = []
        for name, some in records.items():
            if not some:
                continue
            origin = f"{self._where}, partition {name}, from offset {some[0].offset()} on"
            keys = [record.key() for record in some] if keyed else ()
            values = [record.value() for record in some]
            signed = decode_records(self.schema, values, self.values, origin, keys)
            portion.read += signed.rows
            stamps += [at for kind, at in (record.timestamp() for record in some) if kind]
            highs[name] = late_rows(portion.policy, signed, highs[name])
            portion.signed.append(signed)
        if any(high is not None for high in highs.values()):
            portion.marks[high_mark(self.schema.relation)] = highs
        portion.stamp = min(stamps) / 1000 if stamps else None

    def _read(self, client: Any, ranges: Ranges) -> dict[str, list[Any]]:
        """The records of these ranges, by partition in their order."""
        records: dict[str, list[Any]] = {name: [] for name in ranges}
        client.assign(
            [TopicPartition(self._topic, int(name), start) for name, (start, _) in ranges.items()]
        )
        waiting = set(ranges)
        try:
            while waiting:
                for record in self._next(client):
                    name = str(record.partition())
                    if name not in waiting:
                        continue
                    is_behind = self._is_behind(record, ranges[name])
                    if not is_behind:
                        records[name].append(record)
                    if is_behind or record.offset() + 1 == ranges[name][1]:
                        waiting.discard(name)
                        client.incremental_unassign([TopicPartition(self._topic, int(name))])
        finally:
            client.unassign()
        return records

    def _next(self, client: Any) -> list[Any]:
        """The next messages and events of the client; at least one."""
        end = monotonic() + self._timeout
        while monotonic() < end:
            event = client.poll(min(_SLICE, self._timeout))
            if event is not None:
                return [event, *client.consume(_BATCH, 0)]
        raise TopicError(
            f"{self._where}: the broker did not answer within {self._timeout} s{self._said()}",
            topic=self._topic,
        )

    def _is_behind(self, message: Any, offsets: tuple[int, int]) -> bool:
        """Whether there is nothing more of a range. Raises KafkaException, OffsetError."""
        error = message.error()
        if error is None:
            return bool(message.offset() >= offsets[1])
        if error.code() == KafkaError._PARTITION_EOF:
            return True  # what is left of the range are ends of transactions, and what they undid
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            # Retention took it between the question and the reading.
            number = message.partition()
            first = self._offsets(self._open, [number], OFFSET_BEGINNING)[number]
            raise self._gone(str(number), offsets[0], max(first, offsets[0] + 1))
        raise KafkaException(error)

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """The client; what it raises as a TopicError, after which there is a new one."""
        self._heard = ""
        try:
            if self._open is None:
                self._open = self._client()
            yield self._open
        except KafkaException as error:
            self.close()
            cause = error.args[0]
            text = cause.str() if isinstance(cause, KafkaError) else str(cause)
            message = f"{self._where}: {text}{self._said()}"
            raise TopicError(message, topic=self._topic) from error
        except BaseException:
            self.close()
            raise

    def _hear(self, error: Any) -> None:
        self._heard = error.str()

    def _said(self) -> str:
        return f" ({self._heard})" if self._heard else ""

    def _client(self) -> Any:
        """A new client. Raises ConfigError for a setting that it does not take."""
        try:
            return Consumer(dict(self._settings))
        except KafkaException as error:
            message = (
                f"{self._where}: options: {error.args[0].str()}; without Spark they are "
                "properties of librdkafka"
            )
            raise ConfigError(message, key="options") from None
