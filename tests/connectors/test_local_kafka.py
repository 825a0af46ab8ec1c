"""Topics of a real broker, read without Spark: what only that reader can get wrong.

What both readers are to do is in `test_kafka.py`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.connectors.test_kafka import PARTITIONS, Topics
from tests.faults.killing import Killer, forking, killed
from tests.support import pipelines
from tests.support.amount import cases
from tests.targets.job import stepping
from tests.unit.pipeline.test_kafka import EDGE, OPTIONS

from deltafix.errors import BadRowError, ConfigError, OffsetError, TopicError
from deltafix.pipeline import check
from deltafix.pipeline.config import read_config
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.sources.kafka import KafkaTopic
from deltafix.store import disk

pytestmark = pytest.mark.spark  # beside the other tests of the broker

KILLS = cases(4, fuzz=60)
SOURCE = "deltafix.pipeline.sources.kafka:KafkaTopic"
CALLS = [(SOURCE, "_there"), (SOURCE, "_read"), (SOURCE, "_next")]


@pytest.fixture(autouse=True)
def _on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the package's."""
    monkeypatch.setattr("tests.support.pipelines.RUNNER", "local")


def run(folder: Path) -> None:
    """What a killed process does: the pipeline as the folder has it."""
    with Pipeline(read_config(folder / "pipeline.toml")) as pipeline:
        for epoch in pipeline.drain():
            if epoch.epoch == 3:
                pipeline.compact()


def step(killer: Killer) -> None:
    """For the process that is killed: what it asks the broker are steps too."""
    stepping(killer, CALLS)


@pytest.mark.parametrize("more", ["", 'key = "who"'], ids=["signs", "key"])
def test_oracle_after_a_kill_at_any_step_of_an_epoch(
    more, client, broker, tmp_path, monkeypatch
) -> None:
    job = Topics(tmp_path / "origin", client, broker, f"kills{len(more)}", member=more)
    job.member(9)
    job.grant(8)
    job.tell("grant", ("a", {"team": "a", "doc": 99, "sign": 1}), abort=True)
    job.member(5)
    counted = tmp_path / "counted"
    shutil.copytree(job.folder, counted)
    counter = Killer(-1, "die")
    undo = stepping(counter, CALLS)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "os", counter)
        run(counted)
    undo()
    rng = Random("kills")
    asked = [at for at, name in enumerate(counter.seen) if name.startswith("_")]
    chosen = rng.sample(asked, min(KILLS, len(asked)))
    chosen += rng.sample(range(len(counter.seen)), KILLS)
    dead = 0
    with forking("tests.connectors.test_local_kafka") as runner:
        for number, at in enumerate(chosen):
            folder = tmp_path / f"killed-{number}"
            shutil.copytree(tmp_path / "origin", folder)
            # How many looks a fetch takes is the broker's business, so a late step may not come.
            dead += killed(runner, folder, at, rng.choice(["die", "tear", "late"]))
            if number % 2:
                killed(runner, folder, rng.randrange(20), "die")
            job.folder, job.toml = folder, folder / "pipeline.toml"
            job.places = {name: folder / "out" / name for name in ("can", "stands")}
            job.run()
            assert job.run() == []
    assert dead > len(chosen) // 2


def test_a_poisoned_message_goes_to_the_quarantine_and_stops_nothing(
    client, broker, tmp_path
) -> None:
    quarantine = 'bad_rows = "quarantine"'
    job = Topics(tmp_path, client, broker, "poison", member=quarantine)
    job.toml.write_text(job.toml.read_text().replace("timeout = 10", quarantine))
    job.member(4)
    name = f"{job.name}.member"
    poisons = ["{", "[]", '{"op": "x"}', '{"op": "c", "after": {"who": "a", "team": null}}', "\0"]
    poisons += [
        "[" * 900 + "]" * 900,
        json.dumps({"op": "c", "after": {"who": "\ud800", "team": "a"}}),
    ]
    client.send(name, *((number % PARTITIONS, text) for number, text in enumerate(poisons)))
    job.member(4)
    producer = Producer({"bootstrap.servers": broker.servers})
    producer.produce(name, b"\xff\xfe{", partition=0)
    producer.flush(60)
    client.send(f"{job.name}.grant", (0, '{"team": "a", "doc": "many", "sign": 1}'), (0, None))
    job.tell("grant", ("a", {"team": "a", "doc": 1, "sign": 1}))
    job.rows["grant"] = {("a", 1)}
    job.run()
    aside = [json.loads(line) for file in (tmp_path / "state" / "quarantine").iterdir()
             for line in file.read_text().splitlines()]  # fmt: skip
    assert len(aside) == len(poisons) + 2
    assert all(one["reason"] for one in aside)


def test_a_poisoned_message_fails_the_epoch_unless_rows_may_be_set_aside(
    client, broker, tmp_path
) -> None:
    job = Topics(tmp_path, client, broker, "poisoned")
    client.send(f"{job.name}.grant", (1, '{"team": "a", "doc": 1, "sign": 1}'), (1, "{"))
    with job.open() as pipeline:
        said = rf"topic {job.name}.grant at {broker.servers}, partition 1, from offset 0 on, line 2"
        with pytest.raises(BadRowError, match=said):
            pipeline.step()
        assert pipeline.maintainer.db.marks.get("kafka/grant") is None
        job.check(pipeline)


def test_nothing_is_left_at_the_broker(client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "traceless")
    job.member(3)
    with job.open() as pipeline:
        list(pipeline.drain())
        groups = AdminClient({"bootstrap.servers": broker.servers}).list_consumer_groups()
        assert groups.result(60).valid == []
        job.check(pipeline)


def test_records_that_go_between_the_question_and_the_reading_are_an_error(
    client, broker, tmp_path, monkeypatch
) -> None:
    job = Topics(tmp_path, client, broker, "race")
    place = sum(map(ord, "c")) % PARTITIONS
    job.tell("grant", *(("c", {"team": "c", "doc": doc, "sign": 1}) for doc in range(4)))
    reading = KafkaTopic._read

    def cut_first(topic, consumer, ranges):
        client.cut(f"{job.name}.grant", place, 3)
        return reading(topic, consumer, ranges)

    with job.open() as pipeline:
        with monkeypatch.context() as patch:
            patch.setattr(KafkaTopic, "_read", cut_first)
            with pytest.raises(OffsetError, match=f"partition {place}: offsets 0 to 2 are gone"):
                pipeline.step()
        job.check(pipeline)
    job.rows["grant"] = {("c", 3)}
    job.run()  # nothing of it was in, so the topic begins where it begins


def test_a_partition_that_does_not_answer_is_told_and_read_when_it_does(
    client, broker, tmp_path, monkeypatch
) -> None:
    job = Topics(tmp_path, client, broker, "silent")
    job.toml.write_text(job.toml.read_text().replace("timeout = 10", "timeout = 1"))
    job.grant(3)
    reading = KafkaTopic._read

    def read_elsewhere(topic, consumer, ranges):
        return reading(topic, _Elsewhere(consumer), ranges)

    with job.open() as pipeline:
        with monkeypatch.context() as patch:
            patch.setattr(KafkaTopic, "_read", read_elsewhere)
            with pytest.raises(TopicError, match=r"did not answer within 1 s|Unknown partition"):
                pipeline.step()
        list(pipeline.drain())
        job.check(pipeline)


class _Elsewhere:
    """A client whose partitions are those that no broker has."""

    def __init__(self, client) -> None:
        self._client = client

    def assign(self, asked) -> None:
        self._client.assign(
            [TopicPartition(one.topic, one.partition + 1000, one.offset) for one in asked]
        )

    def __getattr__(self, name: str):
        return getattr(self._client, name)


def test_a_topics_id_is_spelled_alike_by_both_readers(spark, client, broker, tmp_path) -> None:
    from deltafix.spark.sources.kafka import Topic

    seen = set()
    for number in range(12):  # of 22 characters of base64 each, some differ by the client
        name = f"spelled{number}"
        client.make(name, 1)
        values = {**OPTIONS, "servers": broker.servers, "topic": name, "timeout": 30}
        topic = KafkaTopic("edge", EDGE, values, Policy())
        found = topic._identity()
        topic.close()
        assert found == Topic(broker.servers, name, 30).identity(spark)
        seen.add(found)
    assert len(seen) == 12
    assert any({*"-_"} & {*one} for one in seen)


def test_a_state_goes_from_one_runner_to_the_other(client, broker, tmp_path, monkeypatch) -> None:
    job = Topics(tmp_path, client, broker, "over")
    for runner in ("local", "spark", "local"):
        monkeypatch.setattr(pipelines, "RUNNER", runner)
        job.member(6)
        job.grant(5)
        assert job.run()


def test_check_looks_at_a_topic_and_options_are_the_clients(client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "looked")
    job.grant(2)
    lines = list(check.check(read_config(job.toml)))
    assert (
        f"input member: kafka {job.name}.member to member(who: symbol, team: symbol) "
        in "".join(lines)
    )
    assert any("grant" in line and "looked at" in line for line in lines)
    job.run()
    text = job.toml.read_text()
    job.toml.write_text(text.replace("timeout = 10", 'options = { "no.such" = 1 }'))
    with job.open() as pipeline:
        with pytest.raises(ConfigError, match=r'grant.*options: .*"no.such".*librdkafka'):
            pipeline.step()
        job.check(pipeline)
