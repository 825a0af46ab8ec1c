"""Shards on a standalone cluster of a master and two workers, which lose an executor and a worker.

Sees: an epoch that ends wrong, twice, or never, when the process that holds a shard is killed in
the middle of its supersteps. The cluster is started from the pyspark package, on loopback.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from examples.cluster.standalone import cluster

pytestmark = pytest.mark.spark

LENGTH = 12
PATIENCE = 400.0  # seconds, on a loaded machine
JOB = Path(__file__).with_name("cluster_job.py")


def test_cluster_epochs_survive_a_killed_executor_and_a_killed_worker(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with cluster(tmp_path) as (master, workers, environment):
        job = subprocess.Popen(
            [sys.executable, str(JOB), master, str(state), str(LENGTH)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            wait(job, lambda: steps(state, 1) >= 4)
            killed = executor_of(workers[0])
            os.kill(killed, signal.SIGKILL)
            wait(job, lambda: (tmp_path / "go-2").exists() and steps(state, 2) >= 3)
            doomed = executor_of(workers[1])
            workers[1].kill()
            os.kill(doomed, signal.SIGKILL)
            out, errors = job.communicate(timeout=PATIENCE)
        finally:
            job.kill()
            job.wait()
    assert job.returncode == 0, errors[-4000:]
    loaded, cut = map(json.loads, out.splitlines())
    assert loaded["steps"] > 5
    assert loaded["rows"] == list(range(LENGTH + 1))
    assert loaded["changed"] == [[1, n] for n in range(LENGTH + 1)]
    assert cut["rows"] == [0, 1]
    assert cut["changed"] == [[-1, n] for n in range(2, LENGTH + 1)]
    assert len(list((tmp_path / "work-0").glob("app-*/*"))) >= 2, "the executor was replaced"


def steps(state: Path, epoch: int) -> int:
    """Supersteps of which some shard has written its file."""
    found = state.glob(f"epoch-{epoch:06}-*/step-*.dfx")
    return len({path.name.split("-")[1] for path in found})


def executor_of(worker: subprocess.Popen[bytes]) -> int:
    """The process id of a worker's executor."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        children = Path(f"/proc/{worker.pid}/task").glob("*/children")
        for pid in " ".join(path.read_text() for path in children).split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command:
                return int(pid)
        time.sleep(0.1)
    raise AssertionError("the worker has no executor")


def wait(job: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    """Wait for a moment of the job."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if job.poll() is not None:
            raise AssertionError(f"the job ended: {job.stderr and job.stderr.read()[-4000:]}")
        assert time.monotonic() < deadline, "the job is stuck"
        time.sleep(0.02)
