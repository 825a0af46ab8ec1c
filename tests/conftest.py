"""What every test gets: Hypothesis profiles, fast tests first, plain terminal output."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.s3 import Server

# CI must not fail by chance on code it did not see change: it runs the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests after fast ones and Spark tests last; `make fuzz` raises example counts.

    Of Spark tests, those of connectors first: their session has jars of its own.
    """
    items.sort(
        key=lambda item: (
            item.get_closest_marker("spark") is not None,
            "connectors" not in item.path.parts,
            item.get_closest_marker("slow") is not None,
        )
    )
    examples = os.environ.get("DELTAFIX_EXAMPLES")
    if examples is None:
        return
    for item in items:
        test = getattr(item, "function", None)
        # An explicit @settings beats a profile, so the count is raised on the test itself.
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            raised = settings(chosen, max_examples=int(examples), derandomize=False)
            test._hypothesis_internal_use_settings = raised


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def warm_kernel() -> None:
    """Compile the kernel before commands run, so that none of them says that it does."""
    import_module("deltafix.engine.database")


@pytest.fixture
def memory(tmp_path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves does not wait for the disk."""
    shared = Path("/dev/shm")  # noqa: S108
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def _s3() -> Iterator[Server]:
    if "CI" not in os.environ:
        pytest.importorskip("moto", reason="no S3 server: see the test group")
        pytest.importorskip("obstore", reason="no client of S3: pip install 'deltafix[s3]'")
    from tests.s3 import Server

    with Server() as server:
        yield server


@pytest.fixture
def store(_s3: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An S3 server on loopback, which the environment names."""
    for name, value in _s3.settings.items():
        monkeypatch.setenv(name, value)
    yield _s3
    _s3.fault = lambda method, path: ""
    _s3.settle()
