"""The folder of a state in shards, which driver and workers see at one path.

Invariant: what a worker says that it wrote is looked for here before anything stands on it, so
workers without the common folder are found out before a commit.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from deltafix.errors import StateError

__all__ = ["ONE_FOLDER", "require_here"]

ONE_FOLDER = (
    "the folder of the state must be one folder, at the same path on the driver and on every worker"
)


def require_here(path: Path, size: int | None, who: str) -> None:
    """Raise StateError if what somebody wrote, of that size if it is known, is not there here."""
    with suppress(OSError):
        if size in (None, path.stat().st_size):
            return
    message = f"{path} was written where {who} ran, and is not there here: {ONE_FOLDER}"
    raise StateError(message, path=str(path))
