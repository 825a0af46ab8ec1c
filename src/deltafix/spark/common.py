"""The folder of a state in shards, which driver and workers see at one path or URL.

Invariant: what a worker says that it wrote is looked for here before anything stands on it, so
workers without the common folder are found out before a commit.
"""

from __future__ import annotations

from deltafix.errors import StateError
from deltafix.store.folder import Folder


def require_here(folder: Folder, name: str, size: int | None, who: str) -> None:
    """Raise StateError if what somebody wrote, of that size if it is known, is not there here.

    As where an object store cannot say.
    """
    try:
        if size in (None, folder.size(name)):
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        message = f"{folder}/{name}: it cannot be looked for: {error}"
        raise StateError(message, path=f"{folder}/{name}") from error
    message = (
        f"{folder}/{name} was written where {who} ran, and is not there here: the folder of the "
        "state must be one folder, at the same path on the driver and on every worker, or one "
        "object store or HDFS, which all of them reach"
    )
    raise StateError(message, path=f"{folder}/{name}")
