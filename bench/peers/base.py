"""The protocol of a peer, and small helpers adapters share."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from bench.outcome import Outcome
from bench.workload import Workload, cache_folder

__all__ = ["Peer", "build_folder", "call", "installed", "write_facts"]


class Peer(ABC):
    """A system that can answer workloads."""

    mode: str = "incremental"
    """`incremental`: every epoch is maintained; `recompute`: some epochs, from scratch each."""

    @abstractmethod
    def missing(self) -> str | None:
        """Why the tool cannot run here, or None."""

    @abstractmethod
    def version(self) -> str:
        """The tool's version, as it says itself. Called only if not missing."""

    @abstractmethod
    def cannot(self, workload: Workload) -> str | None:
        """Why this workload is not for this peer, or None."""

    @abstractmethod
    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        """Run the workload whose files lie in `folder`, filling `outcome`."""


def installed(package: str) -> str | None:
    """Version of an installed Python distribution, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def build_folder(name: str) -> Path:
    """A folder of the cache for a peer's own build or scratch files."""
    folder = cache_folder() / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def call(command: list[str], cwd: Path, deadline: float) -> str:
    """Run a program to its end and give its standard output.

    Raises:
        RuntimeError: it failed (the message ends with its last words).
        TimeoutError: `deadline` (monotonic) passed; the program was stopped.
    """
    left = max(1.0, deadline - time.monotonic())
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=left, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} went over the time limit") from error
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no message")[-300:]
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {words}")
    return done.stdout


def write_facts(workload: Workload, folder: Path) -> None:
    """Write every input relation as tab-separated `<relation>.facts`."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in workload.inputs.items():
        np.savetxt(folder / f"{name}.facts", rows, fmt="%d", delimiter="\t")
