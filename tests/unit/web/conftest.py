"""The browser of the tests of the page ends with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.browser import end_browser


@pytest.fixture(scope="session", autouse=True)
def _browser() -> Iterator[None]:
    yield
    end_browser()
