"""A state as it is now, without opening it: nothing is locked, fenced off or mended.

Invariant: what is read is one committed epoch, whatever its writer is doing.
"""

from __future__ import annotations

from deltafix.engine.state.log import Records, read_log
from deltafix.engine.state.objects import read_objects
from deltafix.engine.state.snapshot import Snapshot, read_snapshot
from deltafix.store.folder import LocalFolder, Where, folder_at


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
