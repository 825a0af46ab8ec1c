"""Snapshots: all rows of a relation at a time, diffed with what is given now.

A snapshot is a file of the folder, or a folder in it as Spark writes them: part files, and
`_SUCCESS` when they are whole. The input's own folder may be one, and so may one file; they are
read again whenever they change. Marks: `snapshot/<input>` = [the last one taken, digest of its
files' times and sizes]; `snapshot/<input>/<name>` = 1 for each that was taken and is still there;
`part/<input>` = [name, changes to come] while one is taken in part. Invariant: snapshots are taken
in name order, each wholly, or refused by name: one whose files are not all there, one of no bytes,
one that comes before another that was taken. The difference is taken with the rows that are in, not
with the last file, so one that was taken in part goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from deltafix.errors import PipelineError
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State, difference_with
from deltafix.pipeline.signed import join
from deltafix.pipeline.sources.folder import NO_BYTES, Folder, Stamp
from deltafix.pipeline.sources.reading import FileReader

_DONE, _BUSY, _PART = "_SUCCESS", "_temporary", "part-"
"""As Spark's writers name them: all is written; a job is writing; the files of a job."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: its name, its files, and whether a job said that it is whole."""

    name: str
    files: Mapping[str, Stamp]
    by_job: bool

    @property
    def digest(self) -> str:
        """What changes when a file does."""
        text = json.dumps(sorted(self.files.items())).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()


class Snapshots:
    """A source of snapshots (`source = "snapshot"`)."""

    def __init__(self, name: str, folder: Folder, reader: FileReader, *, quarantine: bool) -> None:
        self.name = name
        self.relations = (reader.schema.relation,)
        self._folder = folder
        self._reader = reader
        self._policy = Policy(missing="ignore", quarantine=quarantine)
        self._mark = f"snapshot/{name}"
        self._part = f"part/{name}"

    def poll(self, state: State, limit: int) -> Portion | None:
        """The next snapshot's difference, or a part of it."""
        done = state.marks.get(self._mark)
        waiting, names = [], []
        for snapshot in self._there():
            names.append(snapshot.name)
            if done is None or snapshot.name > done[0]:
                waiting.append(snapshot)
            elif snapshot.name == done[0]:
                waiting += [snapshot] if snapshot.digest != done[1] else []
            elif f"{self._mark}/{snapshot.name}" not in state.marks:
                raise self._refused(
                    snapshot,
                    f"it comes before {done[0]!r}, which was taken: what it says would be older; "
                    "give it a name behind that one",
                )
        if not waiting:
            return None
        first = waiting[0]
        self._require_bytes(first)
        written = min(stamp[0] for stamp in first.files.values()) / 1e9
        portion = Portion(self.name, policy=self._policy, stamp=written)

        def compared() -> None:
            if first not in self._there():  # its files changed meanwhile
                portion.signed.clear()
                return
            (signed,) = portion.signed
            portion.more = portion.cut(limit)
            if portion.more:
                portion.marks[self._part] = [first.name, signed.good - limit]
                return
            if self._part in state.marks:
                portion.marks[self._part] = None
            # The snapshot is done when all of its difference is in.
            portion.more = len(waiting) > 1
            prefix = f"{self._mark}/"
            known = [mark for mark in state.marks if mark.startswith(prefix)]
            gone = {mark for mark in known if mark.removeprefix(prefix) not in names}
            portion.marks |= dict.fromkeys(gone, None)
            portion.marks |= {f"{prefix}{first.name}": 1, self._mark: [first.name, first.digest]}

        self._compare(portion, first, state, compared)
        return portion if portion or portion.settle else None

    def close(self) -> None:
        """Nothing is held."""

    def _there(self) -> list[Snapshot]:
        """Those of the folder, in order, up to one that a job is writing."""
        if self._folder.is_file:
            files = self._folder.files()
            return [Snapshot(name, {name: stamp}, False) for name, stamp in files.items()]
        markers = self._folder.markers((_DONE, _BUSY))
        groups: dict[str, dict[str, Stamp]] = {}
        for file, stamp in self._folder.files().items():
            groups.setdefault(str(PurePosixPath(file).parent), {})[file] = stamp
        busy = {here for here, name in markers if name == _BUSY}
        done = {here for here, name in markers if name == _DONE}
        snapshots = []
        for here in {*groups, *busy, *done}:
            files = groups.get(here, {})
            if here in busy | done or any(_is_part(file) for file in files):
                snapshots.append(Snapshot(here, files, True))
            else:
                snapshots += [Snapshot(file, {file: stamp}, False) for file, stamp in files.items()]
        snapshots.sort(key=lambda snapshot: snapshot.name)
        for index, snapshot in enumerate(snapshots):
            if snapshot.by_job and snapshot.name in busy:
                return snapshots[:index]
            if snapshot.by_job and snapshot.name not in done:
                raise self._refused(
                    snapshot,
                    f"it holds part files and no {_DONE}: either not all are there, or their "
                    f"writer makes none; put a file {_DONE} beside them when they are whole",
                )
            if not snapshot.files:
                raise self._refused(snapshot, f"it holds {_DONE} and no file to read")
        return snapshots

    def _require_bytes(self, snapshot: Snapshot) -> None:
        """Raise PipelineError for a file that holds nothing at all."""
        for file, stamp in snapshot.files.items():
            if not snapshot.by_job and not stamp[1]:
                raise self._refused(snapshot, f"{self._folder.at(file)} {NO_BYTES}")

    def _compare(
        self, portion: Portion, snapshot: Snapshot, state: State, then: Callable[[], None]
    ) -> None:
        """Add what differs between a snapshot and the rows that are given; then call `then`."""
        try:
            signed = join([self._reader.read(self._folder.at(file)) for file in snapshot.files])
        except PipelineError:
            if snapshot in self._there():
                raise
            return
        signed.table = difference_with(state, signed, self._policy)
        portion.signed.append(signed)
        then()

    def _refused(self, snapshot: Snapshot, reason: str) -> PipelineError:
        path = self._folder.path if snapshot.name in (".", self._folder.last) else snapshot.name
        message = f"input {self.name}: snapshot {path}: {reason}"
        return PipelineError(message, input=self.name, path=snapshot.name)


def _is_part(file: str) -> bool:
    return PurePosixPath(file).name.startswith(_PART)
