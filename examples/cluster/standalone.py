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

__all__ = ["cluster"]


@contextmanager
def cluster(
    folder: Path,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], dict[str, str]]]:
    """A master and two workers of one core; their address, the workers, their environment."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(wrap_java(find_java(), folder / "java")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, kind: str, *more: str) -> subprocess.Popen[bytes]:
            program = Path(pyspark.__file__).with_name("bin") / "spark-class"
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            common = ["--host", "127.0.0.1", "--webui-port", "0"]
            process = subprocess.Popen(  # noqa: S603  Spark's own
                [str(program), f"org.apache.spark.deploy.{kind}", *common, *more],
                env=environment, stdout=log, stderr=log,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start("master", "master.Master", "--port", str(port))
        workers = []
        for number in range(2):
            place = str(folder / f"work-{number}")
            options = ["--cores", "1", "--memory", "1g", "--work-dir", place, address]
            workers.append(start(f"worker-{number}", "worker.Worker", *options))
        yield address, workers, environment
