"""What of a standalone cluster is killed, and the driver of a pipeline on it, which may be too.

A worker is started again, as whoever runs a cluster does; Spark replaces what else is killed. Not
here: what must hold.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from types import MappingProxyType
from typing import Any

from examples.cluster.standalone import Cluster

import deltafix

OPTIONS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # What was on a killed executor is asked for three times in 15 s before it is made again.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
}
"""Settings of a session on it."""
NO_MORE: Mapping[str, str] = MappingProxyType({})

PATIENCE = 400.0
"""Seconds that anything may take, on a loaded machine."""


def kill_executor(cluster: Cluster, number: int) -> None:
    """Kill the executor of a worker; the worker starts another."""
    os.kill(_executor(cluster, number), signal.SIGKILL)


def kill_python(cluster: Cluster, number: int) -> None:
    """Kill the Python processes of an executor, with the shards that they hold."""
    for pid in _below(_executor(cluster, number)):
        if b"pyspark" in _command(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def kill_worker(cluster: Cluster, number: int) -> None:
    """Kill a worker and its executor, and start another worker."""
    doomed = _executor(cluster, number)
    cluster.workers[number].kill()
    cluster.workers[number].wait(PATIENCE)
    os.kill(doomed, signal.SIGKILL)
    cluster.workers[number] = cluster.start_worker(number)


class Driver:
    """A process that runs `tests.faults.cluster_job` on a cluster; `go` and `answer` take turns."""

    def __init__(
        self, cluster: Cluster, folder: Path, log: Path, options: Mapping[str, str] = NO_MORE
    ) -> None:
        root = Path(__file__).resolve().parents[2]
        places = map(str, [Path(deltafix.__file__).parents[1], root])
        environment = {
            **cluster.environment, "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(places),
        }  # fmt: skip
        self._log = log.open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.faults.cluster_job", cluster.address, str(folder),
                json.dumps(OPTIONS | options),
            ],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True,
        )  # fmt: skip
        self._said: Queue[dict[str, Any]] = Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"ended": True})

    def go(self) -> None:
        """Have it take what there is."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def answer(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """What became of it. Raises queue.Empty."""
        return self._said.get(timeout=seconds)

    def is_silent(self) -> bool:
        """Whether it has nothing to say yet."""
        try:
            said = self._said.get(timeout=0.003)
        except Empty:
            return True
        self._said.put(said)
        return False

    def kill(self) -> None:
        """End it; Spark's part of it ends with it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()
        self._log.close()


def _executor(cluster: Cluster, number: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for pid in _below(cluster.workers[number].pid):
            if b"CoarseGrainedExecutorBackend" in _command(pid):
                return pid
        time.sleep(0.05)
    raise AssertionError("the worker has no executor")


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found += [child, *_below(child)]
    return found


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
