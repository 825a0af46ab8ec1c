"""Places for states that are to be harmed: one in memory, one that is small."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory(tmp_path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves does not wait for the disk."""
    shared = Path("/dev/shm")  # noqa: S108
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mountable = shutil.which("mount") is not None
    if not mountable or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
