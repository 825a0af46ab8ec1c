"""The protocol of a state folder: opening, one epoch, compaction.

    lock       who has it
    snapshot   all given rows at epoch S
    log        what the epochs after S changed; it may still hold epochs up to S
    image      all memory at some epoch, so that opening need not derive it; not needed (`image`)

Compaction writes the snapshot of the current epoch, then an empty log; both appear under their
names in one step. Invariant: whenever the process or the machine stops, snapshot and log
together give the last acknowledged epoch, or, for the epoch at work, the one before or after it:
a new snapshot beside an old log is fine, since epochs that the snapshot has are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from deltafix.engine.state.edits import Edit
from deltafix.engine.state.log import Log, read_log, write_log
from deltafix.engine.state.snapshot import read_snapshot, snapshot_pieces, write_snapshot
from deltafix.engine.state.state import State
from deltafix.errors import StateError
from deltafix.store import disk
from deltafix.store.lock import Lock

_FILES = {"lock", "log", "log.new", "snapshot", "snapshot.new", "image", "image.new"}


class StateFolder(State):
    """A state folder, opened and locked by this process.

    Args:
        path: the folder; made if it is not there.
        fsync: `always`, `interval` or `never`.

    Raises:
        StateInUseError: another database has it.
        StateError: damaged, of another format, or not a state folder.
    """

    _log: Log

    def __init__(self, path: Path, fsync: str) -> None:
        super().__init__(str(path))
        self._folder = path
        self.image = path / "image"
        self._fsync = fsync
        self._lock: Lock = _take(path)
        try:
            with self._usable():
                self._look()
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        log = self._folder / "log"
        with self._usable():
            if self._read is None:
                self._begin()
                self._read = read_snapshot(self._folder / "snapshot"), read_log(log)
            snapshot, records = self._read
            self._fit(snapshot, records)
            if records.base < snapshot.epoch and records.epoch <= snapshot.epoch:
                # A compaction stopped between its two files: this is its second half.
                write_log(log, self._state, snapshot.epoch)
                records = read_log(log)
            self._log = Log(log, records, self._fsync)

    def _compact(self, edits: Sequence[Edit]) -> None:
        epoch = self.epoch
        try:
            size = write_snapshot(self._folder / "snapshot", self._pieces(epoch, edits))
        except OSError as error:
            message = f"{self.path}: the snapshot of epoch {epoch} could not be written: {error}"
            raise StateError(message, path=self.path, epoch=epoch) from error
        self._snapshot_size = size
        try:
            write_log(self._folder / "log", self._state, epoch)
            fresh = Log(self._folder / "log", read_log(self._folder / "log"), self._fsync)
        except BaseException as error:
            message = f"{self.path}: a new log could not be begun after epoch {epoch}: {error}"
            if not self._log.is_in_place:
                # What is appended to a file without a name is lost.
                message += "; no more epochs are taken until the state is opened again"
                self._log.broken = message
            if not isinstance(error, OSError):
                raise
            raise StateError(message, path=self.path, epoch=epoch) from error
        self._log.discard()
        self._log = fresh

    # --- opening -------------------------------------------------------------------------------

    def _look(self) -> None:
        snapshot_path, log_path = self._folder / "snapshot", self._folder / "log"
        for beside in (snapshot_path, log_path, self._folder / "image"):
            disk.remove(beside.with_suffix(".new"))
        if not snapshot_path.exists():
            if log_path.exists():
                records = read_log(log_path)
                if records.base or records.frames or records.torn:
                    message = (
                        f"{self.path}: the log of epochs {records.base + 1} to {records.epoch} is "
                        "there, but the snapshot it rests on is gone; the last good epoch is "
                        f"{records.base}: restore the folder from a copy of it"
                    )
                    raise StateError(message, path=self.path, epoch=records.base)
            return
        snapshot = read_snapshot(snapshot_path)
        if not log_path.exists():
            message = (
                f"{self.path}: the snapshot of epoch {snapshot.epoch} is there, but the log is "
                f"gone; the last good epoch is {snapshot.epoch}: restore the folder from a copy"
            )
            raise StateError(message, path=self.path, epoch=snapshot.epoch)
        self._believe(snapshot, read_log(log_path))

    def _begin(self) -> None:
        # The log first: a snapshot without a log always means that one was lost.
        state = uuid4().hex
        try:
            write_log(self._folder / "log", state, 0)
            pieces = snapshot_pieces(state, 0, self._identity, edits=[], marks={}, codes=self.codes)
            write_snapshot(self._folder / "snapshot", pieces)
        except OSError as error:
            message = f"{self.path}: the state could not be begun: {error}"
            raise StateError(message, path=self.path) from error


def _take(path: Path) -> Lock:
    try:
        disk.make_folder(path)
        names = set(os.listdir(path))
        if names and not names & _FILES:
            message = f"{path} holds other files and no state; name a new folder"
            raise StateError(message, path=str(path))
        return Lock(path / "lock")
    except OSError as error:
        if isinstance(error, StateError):
            raise
        file = next((part for part in (path, *path.parents) if part.is_file()), None)
        reason = error if file is None else f"{file} is a file; name a folder"
        message = f"{path} cannot be used as a state folder: {reason}"
        raise StateError(message, path=str(path)) from error
