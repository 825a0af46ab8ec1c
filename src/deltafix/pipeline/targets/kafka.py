"""A topic of Kafka: the messages of an epoch in one transaction of the producer.

Every message carries the epoch and its position in it, so the topic itself says how far it has
come: the last message that this output committed in any partition. A producer is named after its
output, so a new one fences off the old one and ends what that left open before it looks. Consumers
that read committed messages (`isolation.level=read_committed`) see every epoch once and wholly,
those of a key in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltafix.errors import MissingDependencyError, SinkError
from deltafix.facts.schema import Schema
from deltafix.pipeline.targets.target import EpochRows, failing, json_text

try:
    from confluent_kafka import (
        Consumer,
        KafkaError,
        KafkaException,
        Producer,
        TopicPartition,
    )  # fmt: skip
except ImportError as _error:
    raise MissingDependencyError(
        "topics need the package confluent-kafka: `pip install 'deltafix[kafka]'`"
    ) from _error

_BACK = 64
"""Offsets to look back for the last message at first; then four times as far, and so on."""


class KafkaTarget:
    """A topic that gets the signed rows of a view.

    Args:
        schema: the view.
        servers: brokers, as `host:port,host:port`.
        topic: made by the broker with the first message, if the broker makes topics.
        name: this output: the producer's transactional id.
        envelope: `signed` or `debezium`.
        key: the columns of a message's key; all unless given.
        timeout: seconds that a broker may take to answer.
        options: further settings of the client.
    """

    def __init__(
        self, schema: Schema, servers: str, topic: str, name: str, *, envelope: str,
        key: Sequence[str], timeout: int, options: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._schema = schema
        self._topic = topic
        self._name = name
        self._key = list(key) or list(schema.names)
        self._keyed = bool(key)
        self._debezium = envelope == "debezium"
        self._timeout = timeout
        self._settings = {"bootstrap.servers": servers, "log_level": 0, **options}
        self._producer: Any = None
        self._heard: list[str] = []
        self._failed: list[Any] = []

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing():
            self._begin()
            return self._last()

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        with self._failing():
            if self._producer is None:
                self._begin()
                last = self._last()
                if last is not None and last >= rows.epoch:
                    return
            try:
                self._send(rows)
            except SystemError as error:
                # The client raises its fatal errors through the callback it was in, or not at all:
                # then it is known from what it has logged (seen where a newer producer fences it).
                self.close()
                if isinstance(error.__cause__, KafkaException):
                    raise error.__cause__ from None
                reason = self._heard[-1] if self._heard else str(error)
                raise KafkaException(KafkaError(KafkaError._FATAL, reason)) from None
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """As `Target.close`; the next producer's first call ends a transaction that is open."""
        self._producer = None

    # --- inside --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A producer; whoever had this name before can write no more."""
        settings = {**self._settings, "transactional.id": self._name, "error_cb": self._hear}
        settings["transaction.timeout.ms"] = max(60_000, self._timeout * 1000)
        producer = Producer(settings)
        producer.init_transactions(self._timeout)
        self._producer = producer

    def _send(self, rows: EpochRows) -> None:
        self._failed.clear()
        self._producer.begin_transaction()
        headers = {"deltafix": self._name, "epoch": str(rows.epoch)}
        for position, (key, value) in enumerate(self._messages(rows)):
            self._produce(key, value, headers)
            if not position % 1000:
                self._producer.poll(0)
        self._commit()

    def _produce(self, key: str, value: str, headers: Mapping[str, str]) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, headers=dict(headers), on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _commit(self) -> None:
        """Wait for the messages, then commit; that fails if one of them has."""
        self._producer.flush(self._timeout)
        if self._failed:
            raise KafkaException(self._failed[0])
        self._producer.commit_transaction(self._timeout)

    def _delivered(self, error: Any, message: Any) -> None:
        del message
        if error is not None:
            self._failed.append(error)

    def _messages(self, rows: EpochRows) -> Iterator[tuple[str, str]]:
        if not self._debezium:
            for position, row in enumerate(rows.signed.to_pylist()):
                *values, sign, epoch = row.values()
                named = dict(zip(self._schema.names, values, strict=True))
                message = {"row": named, "sign": sign, "epoch": epoch, "position": position}
                yield self._key_of(named), json_text(message)
            return
        gone: dict[str, dict[str, Any]] = {}
        removed = rows.removed.to_pylist()
        changes: list[tuple[str, Any, Any]] = []
        if self._keyed:
            gone = {self._key_of(row): row for row in removed}
        else:
            changes += [("d", row, None) for row in removed]
        for row in rows.added.to_pylist():
            before = gone.pop(self._key_of(row), None)
            changes.append(("c" if before is None else "u", before, row))
        changes = [("d", row, None) for row in gone.values()] + changes
        for position, (op, before, after) in enumerate(changes):
            source = {"name": self._name, "epoch": rows.epoch, "position": position}
            message = {"before": before, "after": after, "op": op, "source": source}
            yield self._key_of(after or before), json_text(message)

    def _key_of(self, row: Mapping[str, Any]) -> str:
        return json_text({name: row[name] for name in self._key})

    def _last(self) -> int | None:
        """The epoch of the last message of this output, in any partition."""
        settings = {
            **self._settings, "group.id": self._name, "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "error_cb": self._hear,
        }  # fmt: skip
        consumer = Consumer(settings)
        try:
            topics = consumer.list_topics(timeout=self._timeout).topics
            if self._topic not in topics:
                return None
            epochs = [self._last_of(consumer, number) for number in topics[self._topic].partitions]
            return max((epoch for epoch in epochs if epoch is not None), default=None)
        finally:
            consumer.close()

    def _last_of(self, consumer: Any, partition: int) -> int | None:
        topic_partition = TopicPartition(self._topic, partition)
        low, high = consumer.get_watermark_offsets(topic_partition, timeout=self._timeout)
        end, back = high, _BACK
        while end > low:
            start = max(low, end - back)
            consumer.assign([TopicPartition(self._topic, partition, start)])
            epoch = self._highest(consumer, end)
            if epoch is not None:
                return epoch
            end, back = start, back * 4
        return None

    def _highest(self, consumer: Any, end: int) -> int | None:
        """The last epoch among what is read up to an offset."""
        epoch = None
        while True:
            message = consumer.poll(self._timeout)
            if message is None:
                raise SinkError(
                    f"topic {self._topic}: the broker did not answer within {self._timeout} s"
                    + "".join(f"; {text}" for text in self._heard[-1:]),
                    topic=self._topic,
                )
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return epoch
                raise KafkaException(error)
            if message.offset() >= end:
                return epoch
            headers = dict(message.headers() or ())
            if headers.get("deltafix") == self._name.encode():
                epoch = int(headers["epoch"])

    def _hear(self, error: Any) -> None:
        self._heard.append(str(error))

    def _failing(self) -> Any:
        return failing(f"topic {self._topic}", KafkaException, BufferError)
