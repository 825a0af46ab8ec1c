"""A Kafka broker of one node for tests: KRaft, loopback, a port and a folder of its own.

`Broker` is the process; `Client` makes topics and records in it with Kafka's own client, in the
JVM of a Spark session that has it. Invariant: the process ends with its with-statement.
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.connectors.jars import SPARK_JARS, jars

from deltafix.spark.java import find_java

_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
auto.create.topics.enable=true
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
"""


class Broker:
    """A broker, from `with` on until its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.servers = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        settings, logging = self.folder / "server.properties", self.folder / "log4j2.properties"
        text = _SETTINGS.format(port=self.port, control=_free_port(), folder=self.folder)
        settings.write_text(text)
        logging.write_text(_LOGGING)
        path = ":".join([*map(str, jars("broker")), f"{SPARK_JARS}/*"])
        java = [str(find_java().executable), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        java += [f"-Dlog4j2.configurationFile={logging}", "-cp", path]
        form = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
        made = subprocess.run(form, capture_output=True, text=True, timeout=120, check=False)
        assert made.returncode == 0, made.stderr
        out = (self.folder / "out").open("wb")
        self._process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=out,
                                         stderr=subprocess.STDOUT)  # fmt: skip
        out.close()
        try:
            self._wait(120.0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"the broker did not start: {(self.folder / 'out').read_text()}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Client:
    """Topics and records of a broker."""

    def __init__(self, spark: Any, servers: str) -> None:
        self._jvm = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self._settings = {
            "bootstrap.servers": servers,
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            # With more, a broker that does not have a new topic yet refuses the first batch and
            # takes the second, and then the first one never: it comes out of sequence for ever.
            "max.in.flight.requests.per.connection": "1",
        }
        clients = self._jvm.org.apache.kafka.clients
        self._admin = clients.admin.AdminClient.create(self._properties())
        self._producer = clients.producer.KafkaProducer(self._properties())

    def _properties(self, **more: str) -> Any:
        found = self._jvm.java.util.Properties()
        for name, value in {**self._settings, **more}.items():
            found.put(name, value)
        return found

    def make(self, topic: str, partitions: int) -> None:
        """A topic; the broker may have made it before it answers questions about it."""
        topics = self._jvm.java.util.ArrayList()
        short = self._jvm.java.lang.Short.parseShort("1")
        topics.add(self._jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, short))
        self._admin.createTopics(topics).all().get()
        self._wait_for(topic, there=True)

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions for a topic."""
        more = self._jvm.java.util.HashMap()
        wanted = self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        more.put(topic, wanted)
        self._admin.createPartitions(more).all().get()

    def topics(self) -> set[str]:
        """Those there are."""
        return set(self._admin.listTopics().names().get())

    def remove(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        topics = self._jvm.java.util.ArrayList()
        topics.add(topic)
        self._admin.deleteTopics(topics).all().get()
        self._wait_for(topic, there=False)

    def _wait_for(self, topic: str, *, there: bool) -> None:
        end = time.monotonic() + 60
        while (topic in self.topics()) != there:
            assert time.monotonic() < end, f"{topic} {'does not come' if there else 'stays'}"
            time.sleep(0.05)

    def send(
        self, topic: str, *records: tuple[int, str | None] | tuple[int, str | None, str],
        abort: bool | None = None,
    ) -> None:  # fmt: skip
        """(partition, value[, key]) each; in a transaction where `abort` says how it ends."""
        producer = self._producer
        if abort is not None:
            settings = self._properties(**{"transactional.id": f"{topic}-{abort}"})
            producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
            producer.initTransactions()
            producer.beginTransaction()
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        sent = [producer.send(record(topic, place, key, value))
                for place, value, key in ((*one, None)[:3] for one in records)]  # fmt: skip
        producer.flush()
        for one in sent:
            one.get()  # raises if the broker did not take it
        if abort is not None:
            (producer.abortTransaction if abort else producer.commitTransaction)()
            producer.close()

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition below an offset, as retention does."""
        # py4j finds no static method beside an instance's of the same name: by reflection.
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        cutting = loader.loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        types = self._gateway.new_array(self._jvm.java.lang.Class, 1)
        types[0] = self._jvm.java.lang.Long.TYPE
        given = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        given[0] = offset
        below = cutting.getMethod("beforeOffset", types).invoke(None, given)
        chosen = self._jvm.java.util.HashMap()
        chosen.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, partition), below)
        self._admin.deleteRecords(chosen).all().get()

    def close(self) -> None:
        """Let go of it."""
        self._producer.close()
        self._admin.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
