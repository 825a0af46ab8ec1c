"""A view that goes to a topic of a real broker: every epoch once, whatever is killed when.

What a consumer of committed messages reads is asserted: the epochs in order, each message once, and
the view that they lead to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.killing import Killer, forking
from tests.support.amount import cases
from tests.targets import job as jobs
from tests.targets.job import finish, go, job_at, kill_everywhere

from deltafix.errors import SinkError
from deltafix.pipeline.targets.kafka import KafkaTarget
from deltafix.pipeline.targets.registry import make_target

pytestmark = pytest.mark.spark  # beside the other tests of the broker

KILLS = cases(3, fuzz=60)
PARTITIONS = 3
TARGET = "deltafix.pipeline.targets.kafka:KafkaTarget"
CALLS = [(TARGET, "_begin"), (TARGET, "_produce"), (TARGET, "_commit")]


def new_topic(servers: str) -> str:
    name = f"t{uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    return name


def section(servers: str, topic: str, more: str = "") -> str:
    return f'sink = "kafka"\nservers = "{servers}"\ntopic = "{topic}"\ntimeout = 60\n{more}'


def messages(servers: str, topic: str) -> list[dict[str, Any]]:
    """The committed messages of all partitions, by partition and then offset."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": uuid4().hex, "enable.partition.eof": True,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 20,
    })  # fmt: skip
    found = []
    for partition in range(PARTITIONS):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                break
            found.append(json.loads(message.value()) | {"key": json.loads(message.key())})
    consumer.close()
    return found


def changes(message: Mapping[str, Any]) -> list[tuple[int, int, int, tuple[Any, ...]]]:
    """(epoch, position, sign, row) that a message says."""
    if "sign" in message:
        row = tuple(message["row"].values())
        return [(message["epoch"], message["position"], message["sign"], row)]
    source = message["source"]
    sides = ((-1, message["before"]), (1, message["after"]))
    return [(source["epoch"], source["position"], sign, tuple(row.values()))
            for sign, row in sides if row is not None]  # fmt: skip


def told(servers: str, topic: str) -> set[tuple[Any, ...]]:
    """The view that the topic leads to: messages of a key in their order, each once."""
    found = messages(servers, topic)
    marks = [(one["epoch"], one["position"]) if "sign" in one
             else (one["source"]["epoch"], one["source"]["position"]) for one in found]  # fmt: skip
    assert len(set(marks)) == len(marks), "a message came twice"
    view: set[tuple[Any, ...]] = set()
    for message in found:  # the rows of a key are in one partition, in order
        for _, _, sign, row in changes(message):
            assert (row in view) == (sign < 0), (sign, row)
            (view.remove if sign < 0 else view.add)(row)
    return view


def step(killer: Killer) -> None:
    """For the process that is killed: the producer's calls are steps too."""
    jobs.stepping(killer, CALLS)


run = jobs.run
MODES = ["", 'envelope = "debezium"', 'envelope = "debezium"\nkey = ["who"]']


@pytest.mark.parametrize("more", MODES[:2], ids=["signed", "debezium"])
def test_agree_after_a_kill_at_any_step_of_a_topic(more, tmp_path, broker, monkeypatch) -> None:
    # A kill costs seconds, and deltas of either are the same.
    monkeypatch.setattr("tests.support.pipelines.KEEPER", "shards" if more else "driver")
    topics: dict[int, str] = {}

    def at(number: int) -> str:
        if number not in topics:
            topics[number] = new_topic(broker.servers)
        return section(broker.servers, topics[number], more)

    def check(folder: Path, number: int) -> None:
        view = finish(job_at(folder, at(number)))
        assert told(broker.servers, topics[number]) == view != set()

    counted = job_at(tmp_path / "count", at(-1))
    seen = jobs.steps_of(counted, CALLS, monkeypatch)
    view = finish(counted)
    assert told(broker.servers, topics[-1]) == view
    origin = job_at(tmp_path / "origin", at(-2)).folder
    with forking("tests.connectors.test_kafka_target") as runner:
        names = {name for _, name in CALLS}
        kill_everywhere(runner, origin, seen, names, KILLS, check=check, section=at)


@pytest.mark.parametrize("more", MODES, ids=["signed", "debezium", "key"])
def test_a_second_producer_fences_the_first_and_nothing_comes_twice(more, tmp_path, broker) -> None:
    topic = new_topic(broker.servers)
    job = job_at(tmp_path / "job", section(broker.servers, topic, more))
    go(job)
    job.say("member", ("+", ("zed", "a")), ("+", ("yan", "zed")))
    job.say("grant", ("+", ("a", 77)))
    with job.open() as pipeline:
        delivery = pipeline.maintainer.outputs.deliveries["can"]
        output = next(one for one in pipeline.config.outputs if one.relation == "can")
        other = make_target(output, delivery.log.schema, pipeline.maintainer.db.name)
        assert other is not None
        assert other.epoch() == delivery.held
        with pytest.raises(SinkError, match=r"(?i)fenced|committed, and published"):
            list(pipeline.drain())
        other.close()
    view = finish(job)
    assert ("yan", 77) in view
    assert told(broker.servers, topic) == view


@pytest.mark.parametrize("heard", ["fenced by a newer instance", ""])
def test_a_fatal_error_that_the_client_raises_as_none_of_its_own_is_told(
    heard, tmp_path, broker, monkeypatch
) -> None:
    def fails(target: KafkaTarget) -> None:
        if heard:
            target._hear(heard)
        raise SystemError("flush returned NULL without setting an exception")

    topic = new_topic(broker.servers)
    job = job_at(tmp_path / "job", section(broker.servers, topic, ""))
    with monkeypatch.context() as patch:
        patch.setattr(KafkaTarget, "_commit", fails)
        with pytest.raises(SinkError, match=heard or "returned NULL"):
            go(job)
    view = finish(job)
    assert told(broker.servers, topic) == view


def test_a_broker_that_is_not_there_is_told(tmp_path) -> None:
    job = job_at(tmp_path / "job", section("127.0.0.1:1", "t").replace("= 60", "= 2"))
    with pytest.raises(SinkError, match="topic t: "):
        go(job)
