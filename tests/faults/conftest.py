"""A place for states that are to be harmed: a disk that is small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.killing import small_disk_at


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with small_disk_at(tmp_path / "small", "1m") as folder:
        if folder is None:
            pytest.skip("this process may not mount a tmpfs")
        yield folder
