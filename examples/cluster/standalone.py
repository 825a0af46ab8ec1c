"""A standalone cluster of Spark on loopback, started from the pyspark package.

Invariant: its processes end with the with-statement.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from deltafix.spark.java import find_java, wrap_java

__all__ = ["Cluster", "cluster"]


class Cluster:
    """A master and two workers of one core.

    Attributes:
        address: the master's.
        environment: that of the processes, and of drivers.
        workers: the workers' processes, by number.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(wrap_java(find_java(), folder / "java")),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            # They live for seconds: compiling their code well takes longer than it saves.
            "JDK_JAVA_OPTIONS": os.environ.get(
                "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            ),
            # An application whose executors are killed again and again is not given up.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"spark://127.0.0.1:{port}"
        self._start("master", "master.Master", "--port", str(port))
        self.workers = [self.start_worker(number) for number in range(2)]

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        """A worker's process; it ends with the cluster."""
        place = str(self._folder / f"work-{number}")
        options = ["--cores", "1", "--memory", "1g", "--work-dir", place, self.address]
        return self._start(f"worker-{number}", "worker.Worker", *options)

    def _start(self, name: str, kind: str, *more: str) -> subprocess.Popen[bytes]:
        program = Path(pyspark.__file__).with_name("bin") / "spark-class"
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        common = ["--host", "127.0.0.1", "--webui-port", "0"]
        process = subprocess.Popen(  # noqa: S603  Spark's own
            [str(program), f"org.apache.spark.deploy.{kind}", *common, *more],
            env=self.environment, stdout=log, stderr=log,
        )  # fmt: skip
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster for the length of a block; logs and what workers keep are in the folder."""
    with ExitStack() as stack:
        yield Cluster(folder, stack)
