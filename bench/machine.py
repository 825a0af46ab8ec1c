"""What a run was measured on: processor, cores, memory, Python, versions of what matters."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

from bench.peers.base import installed

__all__ = ["describe", "when"]


def _proc(path: str, key: str) -> str:
    try:
        for line in Path(path).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return "unknown"


def when() -> str:
    """The day, and the commit that is measured, with a + if the package differs from it."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "src")
    return f"{day} {commit}{'+' if changed else ''}".strip()


def _git(*arguments: str) -> str:
    """What git says of this repository; nothing where there is none."""
    home = Path(__file__).parents[1]
    command = ["git", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=home, check=False)
    return ran.stdout.strip()


def describe() -> dict[str, str]:
    """Name to value, in the order of the report."""
    memory = _proc("/proc/meminfo", "MemTotal").split()
    size = f"{int(memory[0]) / 2**20:.1f} GiB" if memory[0].isdigit() else "unknown"
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    packages = ("deltafix", "numba", "llvmlite", "numpy", "pyarrow")
    return {
        "processor": _proc("/proc/cpuinfo", "model name"),
        "cores": str(affinity),
        "cache": _proc("/proc/cpuinfo", "cache size"),
        "memory": size,
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{name: installed(name) or "not installed" for name in packages},
        "load average at the start": f"{load:.1f}",
    }
