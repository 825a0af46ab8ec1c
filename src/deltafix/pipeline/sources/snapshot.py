"""Snapshots: each file holds all rows of the relation; it is diffed with what is given now.

Files of a folder are taken in name order, each once; of a single file, whenever it changes.
Mark: `snapshot/<input>` = [file, time, size]. Invariant: the difference is taken with the rows
that are in, not with the last file, so a snapshot that was taken in part goes on where it was.
"""

from __future__ import annotations

from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State, difference_with
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.sources.folder import Folder
from deltafix.pipeline.sources.reading import FileReader

__all__ = ["Snapshots"]


class Snapshots:
    """A source of snapshots (`source = "snapshot"`)."""

    def __init__(self, name: str, folder: Folder, reader: FileReader, *, quarantine: bool) -> None:
        self.name = name
        self.relations = (reader.schema.relation,)
        self._folder = folder
        self._reader = reader
        self._policy = Policy(missing="ignore", quarantine=quarantine)

    def poll(self, state: State, limit: int) -> Portion | None:
        """The next snapshot's difference, or a part of it."""
        mark = f"snapshot/{self.name}"
        done = state.marks.get(mark)
        single = self._folder.path.is_file()
        waiting = [
            (file, stamp)
            for file, stamp in self._folder.files().items()
            if done is None or (done != [file, *stamp] if single else file > done[0])
        ]
        if not waiting:
            return None
        file, stamp = waiting[0]
        signed = self._reader.read(self._folder.at(file))
        changes = difference_with(state, signed, self._policy)
        whole = changes.num_rows <= limit
        portion = Portion(self.name, policy=self._policy, stamp=stamp[0] / 1e9)
        bad = signed.bad if whole else []
        portion.signed.append(Signed(signed.schema, changes.slice(0, limit), bad))
        portion.more = not whole or len(waiting) > 1
        # The snapshot is done when all of its difference is in.
        if whole:
            portion.marks[mark] = [file, *stamp]
        return portion

    def close(self) -> None:
        """Nothing is held."""
