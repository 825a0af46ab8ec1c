"""A state as it is now, without opening it: nothing is locked, fenced off or mended.

Invariant: what is read is one committed epoch, whatever its writer is doing.
"""

from __future__ import annotations

import mmap

from deltafix.engine.state.identity import Identity
from deltafix.engine.state.log import Records, read_log
from deltafix.engine.state.objects import read_objects
from deltafix.engine.state.snapshot import Snapshot, read_snapshot
from deltafix.store.folder import Folder, LocalFolder, Where, folder_at
from deltafix.store.frame import DamagedError, check_preamble, read

__all__ = ["known_program", "read_state"]


def known_program(folder: Folder) -> Identity | None:
    """The program that a state was last used by; None if there is none, or it cannot be read.

    Of the snapshot only the head is read. States in object stores have the program they are opened
    with.
    """
    if not isinstance(folder, LocalFolder):
        return None
    path = folder.path / "snapshot"
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head = read(data, check_preamble(data, "snapshot"))
        identity = Identity.from_json(head.meta["identity"])
        return read_log(folder.path / "log").program(head.epoch) or identity
    except (OSError, DamagedError, LookupError, TypeError, ValueError):
        return None  # opening it says what is wrong


def read_state(where: Where) -> tuple[Snapshot, Records] | None:
    """The snapshot and the records after it; None if there is no state yet.

    Raises StateError for damage, as opening it would.
    """
    folder = folder_at(where)
    if not isinstance(folder, LocalFolder):
        return read_objects(folder)
    snapshot, log = folder.path / "snapshot", folder.path / "log"
    if not snapshot.is_file() or not log.is_file():
        return None
    return read_snapshot(snapshot), read_log(log)
