"""Topics of a real broker into a pipeline, by either runner: exact in all that happens.

Spark reads them through its connector, `local` by `confluent-kafka`; both are to say the same.
Whoever writes follows Kafka's rule: records on one row go to one partition. `Job.check` asserts
that the state is recomputation and the outputs, applied in order, are the views.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.connectors.jars import jars
from tests.judges.oracle_inputs import Message, Options, judge
from tests.support import pipelines
from tests.support.pipelines import Job

from deltafix.errors import OffsetError, TopicError

pytestmark = pytest.mark.spark

RUNNERS = ("spark", "local")


@pytest.fixture(params=RUNNERS, autouse=True)
def _on_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of the package's: each test on each runner."""
    monkeypatch.setattr("tests.support.pipelines.RUNNER", request.param)


PARTITIONS = 3
TEXT = """
[pipeline]
program = "access.dl"
state = "state"
runner = "{runner}"
rows_per_epoch = {limit}
{more}
[input.member]
source = "kafka"
servers = "{servers}"
topic = "{name}.member"
envelope = "debezium"
{member}
[input.grant]
source = "kafka"
servers = "{servers}"
topic = "{name}.grant"
timeout = 10
[output.can]
path = "out/can"
[output.stands]
path = "out/stands"
mode = "delta"
"""


class Topics(Job):
    """A job that is told its changes by two topics: envelopes, and rows with signs."""

    def __init__(self, folder: Path, client, broker, name: str, **options: object) -> None:
        super().__init__(folder)
        self.client = client
        self.rng = Random(name)
        self.name = name = f"{name}.{pipelines.RUNNER}"  # the broker is one for all tests
        values = {"limit": 7, "more": "", "member": "", "runner": pipelines.RUNNER, **options}
        self.toml.write_text(TEXT.format(servers=broker.servers, name=name, **values))
        for relation in ("member", "grant"):
            client.make(f"{name}.{relation}", PARTITIONS)

    def tell(self, relation: str, *records: tuple[str, object], **options: bool) -> None:
        """Records, each in the partition of its key."""
        pairs = [
            (sum(map(ord, key)) % PARTITIONS, None if value is None else json.dumps(value))
            for key, value in records
        ]
        self.client.send(f"{self.name}.{relation}", *pairs, **options)

    def member(self, many: int) -> None:
        """Envelopes: reads, creates, updates, deletes with their tombstones, messages."""
        held = self.rows["member"]
        records: list[tuple[str, object]] = []
        for _ in range(many):
            who, team = self.rng.choice("abcdef"), self.rng.choice("abcdef")
            before = next((row for row in sorted(held) if row[0] == who), None)
            after = (who, team)
            if before is None:
                op, old = self.rng.choice("cr"), None
            else:
                op = self.rng.choice("ud")
                old = dict(zip(("who", "team"), before, strict=True))
                held.discard(before)
            new = None if op == "d" else {"who": who, "team": team}
            if new is not None:
                held.add(after)
            envelope = {"op": op, "before": old, "after": new, "source": {"lsn": len(records)}}
            records.append((who, {"payload": envelope} if self.rng.random() < 0.5 else envelope))
            if op == "d":
                records.append((who, None))
        self.tell("member", *records, ("a", {"op": "m"}))

    def grant(self, many: int) -> None:
        """Rows with a sign."""
        held = self.rows["grant"]
        records = []
        for _ in range(many):
            row = (self.rng.choice("abcdef"), self.rng.randrange(4))
            sign = -1 if row in held else 1
            (held.discard if sign < 0 else held.add)(row)
            records.append((row[0], {"team": row[0], "doc": row[1], "sign": sign}))
        self.tell("grant", *records)


def test_oracle_two_topics_over_epochs_and_restarts(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "oracle")
    for turn in ((9, 3), (4,)):
        with job.open() as pipeline:  # the second turn is after a restart
            for many in turn:
                job.member(many)
                job.grant(many)
                done = list(pipeline.drain())
                assert len(done) >= many // 7 + 1
                assert (
                    max(sum(epoch.read.values()) for epoch in done) <= 2 * 7
                )  # an update is two rows
                assert all(epoch.lag is None or epoch.lag < 600 for epoch in done)
                job.check(pipeline)
            assert list(pipeline.drain()) == []
    with job.open() as pipeline:
        marks = pipeline.maintainer.db.marks
    total = {name: sum(marks[f"kafka/{name}"].values()) for name in job.rows}
    assert total["grant"] == 16
    assert total["member"] >= 16 + 3


def test_oracle_envelopes_without_images_of_before_in_any_order(
    spark, client, broker, tmp_path
) -> None:
    keyed = 'key = "who"\nsequence_by = ["ts_ms", "lsn"]'
    job = Topics(tmp_path, client, broker, "keyed", member=keyed)
    rng = Random(7)
    words: dict[str, list] = {}
    for turn in range(3):
        records = []
        for number in rng.sample(range(20), 20):
            who, team = rng.choice("abcd"), rng.choice("abcdef")
            at = 20 * turn + number - rng.choice([0, 15])  # some are older than those of before
            gone = rng.random() < 0.3
            said = {"op": "d", "before": None, "after": None}
            if not gone:
                said = {"op": rng.choice("cu"), "before": None, "after": {"who": who, "team": team}}
            said |= {"ts_ms": at // 4, "source": {"lsn": at}}
            words.setdefault(who, []).append((at, not gone, (who, team)))
            key = json.dumps({"payload": {"who": who}})
            partition = rng.randrange(PARTITIONS)  # not by key
            records.append((partition, json.dumps({"payload": said}), key))
            if gone:
                records.append((partition, None, key))
        client.send(f"{job.name}.member", *records)
        last = [max(some) for some in words.values()]
        job.rows["member"] = {row for _, live, row in last if live}
        job.run()


def test_oracle_late_records_of_partitions_that_are_apart(spark, client, broker, tmp_path) -> None:
    late = 'version = "lsn"\nlate = "ignore"\nlateness = 2'
    job = Topics(tmp_path, client, broker, "late", member=late, limit=4)
    messages = []
    for number in range(18):
        partition = number % PARTITIONS
        at = 100 * partition + number - job.rng.randrange(9)
        row = ("abc"[partition], f"t{number}")
        messages.append(Message(((1, row),), at, partition=str(partition)))
    for some in (messages[:7], messages[7:]):
        records = []
        for one in some:
            after = dict(zip(("who", "team"), one.images[0][1], strict=True))
            said = {"op": "c", "after": after, "source": {"lsn": one.version}}
            records.append((int(one.partition), json.dumps(said)))
        client.send(f"{job.name}.member", *records)
        wanted = judge(messages[: messages.index(some[-1]) + 1], Options(late="ignore", lateness=2))
        job.rows["member"] = wanted.rows
        job.run()
    assert wanted.high.keys() == {"0", "1", "2"}
    assert 0 < len(wanted.rows) < len(messages)


@pytest.mark.shows("Kafka, in")
def test_what_a_transaction_took_back_is_not_read(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "transactions")
    row = {"team": "a", "doc": 1, "sign": 1}
    job.tell("grant", ("a", row), abort=False)
    job.tell("grant", ("a", {**row, "doc": 2}), ("b", {**row, "doc": 3}), abort=True)
    job.tell("grant", ("a", {**row, "doc": 4}))
    job.rows["grant"] = {("a", 1), ("a", 4)}
    job.run()
    assert job.run() == []


CHILD = """
import os, signal, sys
from deltafix.store import disk
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline

class Killer:
    def __getattr__(self, name):
        if name == "pwrite":
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(os, name)

config, options = read_config(sys.argv[1]), {}
if config.values["runner"] == "spark":
    from deltafix.spark.sources import on_spark
    options = {"make_source": on_spark()}
with Pipeline(config, **options) as pipeline:
    pipeline.step()
    disk.os = Killer()
    pipeline.step()
"""


def test_a_kill_before_the_commit_is_a_replay(spark, client, broker, tmp_path) -> None:
    # The child starts a session of its own, with the jars that its file names.
    paths = ",".join(map(str, jars("kafka")))
    more = f'[spark]\nmaster = "local[1]"\njars = "{paths}"\n'
    job = Topics(tmp_path, client, broker, "killed", more=more)
    job.grant(12)
    path = ":".join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, job.toml], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()[-2000:]
    with job.open() as pipeline:
        assert sum(pipeline.maintainer.db.marks["kafka/grant"].values()) == 7
        assert [epoch.read for epoch in pipeline.drain()] == [{"grant": 5}]
        job.check(pipeline)


def test_records_that_retention_took_are_missed_loudly(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "cut")
    rows = [("c", {"team": "c", "doc": doc, "sign": 1}) for doc in range(6)]
    job.tell("grant", *rows[:2])
    job.rows["grant"] = {("c", 0), ("c", 1)}
    job.run()
    job.tell("grant", *rows[2:])
    place = sum(map(ord, "c")) % PARTITIONS
    client.cut(f"{job.name}.grant", place, 4)
    with job.open() as pipeline:
        where = rf"input grant: topic {job.name}.grant, partition {place}"
        said = rf"{where}: offsets 2 to 3 are gone before"
        with pytest.raises(OffsetError, match=said):
            pipeline.step()
        job.check(pipeline)  # as before
    job.toml.write_text(job.toml.read_text().replace("timeout = 10", 'lost = "skip"'))
    job.rows["grant"] |= {("c", 4), ("c", 5)}
    job.run()


def test_a_topic_that_was_made_anew_is_refused(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "anew")
    job.tell("grant", ("a", {"team": "a", "doc": 1, "sign": 1}))
    job.rows["grant"] = {("a", 1)}
    job.run()
    client.remove(f"{job.name}.grant")
    client.make(f"{job.name}.grant", PARTITIONS)
    for many in (0, 5):  # it is shorter than what was read, and longer
        job.tell("grant", *(("a", {"team": "a", "doc": doc, "sign": 1}) for doc in range(many)))
        with job.open() as pipeline:
            with pytest.raises(OffsetError, match="it was made anew since it was read"):
                pipeline.step()
            job.check(pipeline)


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark, client, broker, tmp_path
) -> None:
    job = Topics(tmp_path, client, broker, "more")
    job.run()
    client.grow(f"{job.name}.grant", PARTITIONS + 1)
    client.send(f"{job.name}.grant", (PARTITIONS, '{"team": "a", "doc": 1, "sign": "+"}'))
    job.rows["grant"] = {("a", 1)}
    job.run()


def test_an_unknown_topic_is_refused_and_not_made(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "known")
    job.toml.write_text(job.toml.read_text().replace(f"{job.name}.grant", f"un{job.name}.grant"))
    with job.open() as pipeline:
        before = pipeline.maintainer.epoch
        said = f"topic un{job.name}.grant at {broker.servers}: there is no such topic"
        with pytest.raises(TopicError, match=said):
            pipeline.step()
        assert pipeline.maintainer.epoch == before
    assert f"un{job.name}.grant" not in client.topics()


def test_an_unreachable_broker_is_one_message(spark, client, broker, tmp_path) -> None:
    job = Topics(tmp_path, client, broker, "far")
    text = job.toml.read_text().replace(broker.servers, "127.0.0.1:1")
    job.toml.write_text(text.replace('"debezium"', '"debezium"\ntimeout = 2'))
    with job.open() as pipeline:
        before = pipeline.maintainer.epoch
        said = rf"topic {job.name}.member at 127.0.0.1:1: .*(Timeout|refused)"
        with pytest.raises(TopicError, match=said):
            pipeline.step()
        assert pipeline.maintainer.epoch == before
