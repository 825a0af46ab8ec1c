"""A database of the tests' own, on a socket in a folder, from the package pgserver."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Where it is. Started once; it ends with the session."""
    wheel = sys.platform == "linux" and sys.version_info < (3, 13)
    if "CI" not in os.environ or not wheel:
        pytest.importorskip("pgserver", reason="no PostgreSQL: pgserver has no wheel here")
        pytest.importorskip("psycopg", reason="no client: pip install 'deltafix[postgres]'")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs, where there is no XDG_RUNTIME_DIR
        import pgserver

        # Not below pytest's folder: as root, the server runs as a user who may not look there.
        folder = tempfile.mkdtemp(prefix="deltafix-postgres-")
        server = pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
