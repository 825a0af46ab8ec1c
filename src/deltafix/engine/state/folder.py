"""The protocol of a state folder: opening, one epoch, compaction.

    lock       who has it
    snapshot   all given rows at epoch S
    log        what the epochs after S changed; it may still hold epochs up to S

Compaction writes the snapshot of the current epoch, then an empty log; both appear under their
names in one step. Invariant: whenever the process or the machine stops, snapshot and log
together give the last acknowledged epoch, or, for the epoch at work, the one before or after it:
a new snapshot beside an old log is fine, since epochs that the snapshot has are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from deltafix.engine.codes import Codes
from deltafix.engine.state import disk
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.lock import Lock
from deltafix.engine.state.log import Log, Records, read_log, write_log
from deltafix.engine.state.marks import Marks, set_marks
from deltafix.engine.state.rows import Edit, GivenRows
from deltafix.engine.state.snapshot import Snapshot, read_snapshot, write_snapshot
from deltafix.errors import StateError
from deltafix.facts.schema import Schema

__all__ = ["COMPACT_FACTOR", "COMPACT_LEAST", "StateFolder"]

COMPACT_FACTOR = 2
"""The log is folded into a new snapshot when it is this many times as large as the snapshot."""

COMPACT_LEAST = 4 << 20
"""Bytes below which a log is left alone, however small the snapshot is."""

_FILES = {"lock", "log", "log.new", "snapshot", "snapshot.new"}


class StateFolder:
    """A state folder, opened and locked by this process.

    Args:
        path: the folder; made if it is not there.
        identity: the program that opens it.
        schemas: the program's relations.
        fsync: `always`, `interval` or `never`.
        codes: the symbol table of the database.

    Attributes:
        recovered: what was mended or noticed, in words.
        marks: what was noted beside the rows, as of the last epoch.
        same_program: whether the state was last used by the very same program.

    Raises:
        StateInUseError: another database has it.
        StateError: damaged, of another program, of another format, or not a state folder.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        schemas: Mapping[str, Schema],
        fsync: str,
        codes: Codes,
    ) -> None:
        self.path = path
        self.recovered: list[str] = []
        self._identity = identity
        self._schemas = schemas
        self._fsync = fsync
        self._codes = codes
        self._lock = _take(path)
        try:
            snapshot, records = self._read()
            self._check(snapshot, records)
            self._snapshot: Snapshot | None = snapshot
            self._records: Records | None = records
            self._state = snapshot.state
            self.marks = snapshot.marks
            for changed in records.marks(snapshot.epoch):
                set_marks(self.marks, changed)
            self._snapshot_size = snapshot.size
            self._tried = 0
            self.same_program = snapshot.identity == identity
            if records.base < snapshot.epoch and records.epoch <= snapshot.epoch:
                # A compaction stopped between its two files: this is its second half.
                write_log(path / "log", self._state, snapshot.epoch)
                records = read_log(path / "log")
            self._log = Log(path / "log", records, fsync)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError) and not isinstance(error, StateError):
                message = f"{path} cannot be used as a state folder: {error}"
                raise StateError(message, path=str(path)) from error
            raise

    @property
    def epoch(self) -> int:
        """The last epoch that the files hold."""
        return self._log.epoch

    @property
    def is_full(self) -> bool:
        """Whether the log has outgrown the snapshot (`COMPACT_FACTOR`, `COMPACT_LEAST`)."""
        limit = max(COMPACT_LEAST, COMPACT_FACTOR * self._snapshot_size, 2 * self._tried)
        return self._log.end > limit and not self._log.broken

    def given(self) -> Iterator[GivenRows]:
        """What the files held when they were opened: rows and then edits, in order. Once."""
        snapshot, records = self._snapshot, self._records
        self._snapshot = self._records = None
        if snapshot is None or records is None:
            return
        try:
            yield from snapshot.given(self._schemas)
            yield from records.given(snapshot.epoch, self._schemas)
        except (LookupError, TypeError, ValueError) as error:
            message = f"{self.path}: given rows cannot be read: {error}"
            raise StateError(message, path=str(self.path)) from error

    @property
    def name(self) -> str:
        """What tells this state from all others, from its beginning on."""
        return self._state

    def append(self, epoch: int, edits: Sequence[Edit], marks: Marks) -> None:
        """Write the record of an epoch that is about to be committed. Raises StateError."""
        self._require_ours()
        self._log.append(epoch, edits, marks, self._codes)

    def undo(self, epoch: int) -> None:
        """Forget what was written for an epoch after `epoch`. Raises StateError."""
        if self._lock.is_ours:
            self._log.undo(epoch)

    def compact(self, edits: Sequence[Edit]) -> None:
        """Make the given rows of the current epoch the snapshot, and begin a new log.

        Raises StateError if it cannot be written; the state is as before, unless the message
        says that no more epochs are taken.
        """
        self._require_ours()
        if self._log.broken:
            raise StateError(self._log.broken, path=str(self.path))
        self._tried = self._log.end
        epoch = self.epoch
        try:
            size = write_snapshot(
                self.path / "snapshot",
                self._state,
                epoch,
                self._identity,
                edits=edits,
                marks=self.marks,
                codes=self._codes,
            )
        except OSError as error:
            message = f"{self.path}: the snapshot of epoch {epoch} could not be written: {error}"
            raise StateError(message, path=str(self.path), epoch=epoch) from error
        self._snapshot_size = size
        try:
            write_log(self.path / "log", self._state, epoch)
            fresh = Log(self.path / "log", read_log(self.path / "log"), self._fsync)
        except BaseException as error:
            message = f"{self.path}: a new log could not be begun after epoch {epoch}: {error}"
            if not self._log.is_in_place:
                # What is appended to a file without a name is lost.
                message += "; no more epochs are taken until the state is opened again"
                self._log.broken = message
            if not isinstance(error, OSError):
                raise
            raise StateError(message, path=str(self.path), epoch=epoch) from error
        self._log.discard()
        self._log = fresh
        self._tried = 0

    def close(self) -> None:
        """Sync as the policy says and give the folder back. Idempotent."""
        try:
            self._log.close()
        finally:
            self._lock.release()

    def _require_ours(self) -> None:
        if not self._lock.is_ours:
            message = (
                f"{self.path}: this process was forked from the one that opened the state and "
                "cannot write to it; connect to another folder"
            )
            raise StateError(message, path=str(self.path))

    # --- opening -------------------------------------------------------------------------------

    def _read(self) -> tuple[Snapshot, Records]:
        snapshot_path, log_path = self.path / "snapshot", self.path / "log"
        for beside in (snapshot_path, log_path):
            disk.remove(beside.with_suffix(".new"))
        if not snapshot_path.exists():
            if log_path.exists():
                found = read_log(log_path)
                if found.base or found.frames or found.torn:
                    message = (
                        f"{self.path}: the log of epochs {found.base + 1} to {found.epoch} is "
                        "there, but the snapshot it rests on is gone; the last good epoch is "
                        f"{found.base}: restore the folder from a copy of it"
                    )
                    raise StateError(message, path=str(self.path), epoch=found.base)
            self._begin()
        snapshot = read_snapshot(snapshot_path)
        if not log_path.exists():
            message = (
                f"{self.path}: the snapshot of epoch {snapshot.epoch} is there, but the log is "
                f"gone; the last good epoch is {snapshot.epoch}: restore the folder from a copy"
            )
            raise StateError(message, path=str(self.path), epoch=snapshot.epoch)
        return snapshot, read_log(log_path)

    def _begin(self) -> None:
        # The log first: a snapshot without a log always means that one was lost.
        state = uuid4().hex
        try:
            write_log(self.path / "log", state, 0)
            path = self.path / "snapshot"
            write_snapshot(path, state, 0, self._identity, edits=[], marks={}, codes=self._codes)
        except OSError as error:
            message = f"{self.path}: the state could not be begun: {error}"
            raise StateError(message, path=str(self.path)) from error

    def _check(self, snapshot: Snapshot, records: Records) -> None:
        if snapshot.state != records.state:
            message = f"{self.path}: snapshot and log are of two different states"
            raise StateError(message, path=str(self.path))
        if records.base > snapshot.epoch:
            message = (
                f"{self.path}: the log begins after epoch {records.base}, but the snapshot is of "
                f"epoch {snapshot.epoch}, which is the last good epoch"
            )
            raise StateError(message, path=str(self.path), epoch=snapshot.epoch)
        differences = snapshot.identity.differences(self._schemas)
        if differences:
            message = f"{self.path} is the state of another program: {'; '.join(differences)}"
            raise StateError(message, path=str(self.path), differences=differences)
        if records.torn:
            self.recovered.append(
                f"a torn tail of the log was cut off: {records.torn}; the state is epoch "
                f"{max(records.epoch, snapshot.epoch)}"
            )
        if snapshot.identity != self._identity:
            self.recovered.append("the program has changed: derived relations follow the new rules")


def _take(path: Path) -> Lock:
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = set(os.listdir(path))
        if found and not found & _FILES:
            message = f"{path} holds other files and no state; name a new folder"
            raise StateError(message, path=str(path))
        return Lock(path / "lock")
    except OSError as error:
        if isinstance(error, StateError):
            raise
        message = f"{path} cannot be used as a state folder: {error}"
        raise StateError(message, path=str(path)) from error
