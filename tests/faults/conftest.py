"""A place for states that are to be harmed: a disk that is small."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


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
