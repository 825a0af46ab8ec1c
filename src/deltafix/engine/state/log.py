"""The log: one frame per committed epoch after the snapshot, in order.

Life of a record: appended (written, and synced as the policy says) after the kernel has found
that the epoch stands, before anyone sees it; or undone, and then cut off. Invariant: between
epochs the file ends behind the record of the last committed epoch. What could not be cut off is
cut before the next record; a log that could not be synced after its epochs were acknowledged is
`broken`: it takes no more until it is opened again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltafix.engine.state.identity import Identity
from deltafix.engine.state.marks import Marks
from deltafix.errors import StateError
from deltafix.store import disk
from deltafix.store.disk import Piece
from deltafix.store.frame import (
    DamagedError,
    Frame,
    check_preamble,
    find_intact,
    pack,
    preamble,
    read,
)

INTERVAL = 1.0
"""Seconds for which `fsync="interval"` lets records wait."""


@dataclass(frozen=True, slots=True)
class Records:
    """A log as read.

    Attributes:
        state: the name of the state it belongs to.
        base: the epoch of the snapshot that it was begun after.
        frames: the intact records, of consecutive epochs.
        end: the byte behind the last intact record.
        torn: what lies behind that byte, in words; empty if nothing.
    """

    state: str
    base: int
    frames: Sequence[Frame]
    end: int
    torn: str

    @property
    def epoch(self) -> int:
        """The last epoch of the log, or its base."""
        return self.frames[-1].epoch if self.frames else self.base

    def after(self, epoch: int) -> Iterator[Frame]:
        """The records of later epochs, in order."""
        return (frame for frame in self.frames if frame.epoch > epoch)

    def program(self, after: int, known: Identity) -> Identity:
        """The program as epochs after `after` left it, when it was the `known` one there.

        Raises LookupError, TypeError or ValueError for what is not readable.
        """
        programs = [frame.meta["program"] for frame in self.after(after) if "program" in frame.meta]
        return Identity.from_json(programs[-1]) if programs else known

    def marks(self, after: int) -> Iterator[Marks]:
        """The marks that the epochs after `after` set, in order."""
        for frame in self.after(after):
            yield dict(frame.meta.get("marks", {}))


def write_log(path: Path, state: str, base: int) -> None:
    """Put an empty log in place of the one there, in one step. Raises OSError."""
    beside = path.with_suffix(".new")
    disk.create(beside, [preamble("log"), *pack(base, {"state": state})])
    disk.rename(beside, path)
    disk.sync_folder(path.parent)


def read_log(path: Path) -> Records:
    """Read and check a whole log. O(bytes).

    Damage with an intact record behind it is no torn write: it is refused, since cutting there
    would drop epochs that were acknowledged. Raises StateError naming the last good epoch.
    """
    data = path.read_bytes()
    head = log_header(data, str(path))
    frames, end, torn = read_records(data, head.end, head.epoch, str(path))
    return Records(str(head.meta["state"]), head.epoch, frames, end, torn)


def log_header(data: bytes, path: str) -> Frame:
    """The first frame of a log: its epoch is the base, its meta data names the state."""
    try:
        head = read(data, check_preamble(data, "log", path))
        str(head.meta["state"])
    except (DamagedError, LookupError) as damage:
        message = (
            f"{path}: the log's header is damaged: {damage}. The last good epoch is the snapshot's"
        )
        raise StateError(message, path=path) from None
    return head


def read_records(data: bytes, offset: int, last: int, path: str) -> tuple[list[Frame], int, str]:
    """The records from a byte on, after epoch `last`; where they end, and what is torn there."""
    frames: list[Frame] = []
    torn = ""
    while offset < len(data):
        try:
            frame = read(data, offset)
        except DamagedError as damage:
            later = find_intact(data, offset)
            if later is not None:
                raise _corrupt(path, offset, last, f"{damage}", later.epoch) from None
            torn = f"{len(data) - offset} bytes after epoch {last} ({damage})"
            break
        if frame.epoch != last + 1:
            reason = f"a record of epoch {frame.epoch} follows epoch {last}"
            raise _corrupt(path, offset, last, reason, frame.epoch)
        frames.append(frame)
        offset, last = frame.end, frame.epoch
    return frames, offset, torn


def _corrupt(path: str, offset: int, last: int, reason: str, later: int) -> StateError:
    message = (
        f"{path}: the log is damaged at byte {offset}: {reason}, and an intact record of epoch "
        f"{later} lies behind. The last good epoch is {last}: restore the folder from a copy of "
        f"it, or give up what came later by cutting the file to {offset} bytes"
    )
    return StateError(message, path=path, byte=offset, epoch=last)


class Log:
    """The open log of a folder, for one writer. `epoch` and `end` are those of its last record."""

    def __init__(self, path: Path, records: Records, fsync: str) -> None:
        self.path = path
        self.epoch = records.epoch
        self.end = records.end
        self.broken = ""
        self._fsync = fsync
        self._before = (self.epoch, self.end)
        self._uncut = bool(records.torn)
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if self._uncut:
            self._cut()

    def append(self, epoch: int, meta: dict[str, Any], body: Sequence[Piece]) -> None:
        """Write the record of an epoch, and sync it if the policy is `always`.

        Raises StateError if it cannot be written; the caller then calls `undo`.
        """
        if self.broken or self._fd < 0:
            raise StateError(self.broken or f"{self.path}: the state is closed")
        if self._uncut:
            self._cut()
        self._before = (self.epoch, self.end)
        try:
            end = disk.write_at(self._fd, self.end, pack(epoch, meta, body))
            if self._fsync == "always":
                disk.sync(self._fd)
        except OSError as error:
            message = f"{self.path}: epoch {epoch} could not be written: {error}; rolled back"
            raise StateError(message, path=str(self.path), epoch=epoch) from error
        self.epoch, self.end = epoch, end
        if self._fsync == "interval":
            self._sync_later()

    def undo(self, epoch: int) -> None:
        """Cut off what was written, wholly or in part, for an epoch after `epoch`.

        Raises StateError if that fails too; it is tried again before the next record. If the
        process ends before that, a record that was written wholly is there when it is opened.
        """
        if self.epoch > epoch:
            self.epoch, self.end = self._before
        if self._fd >= 0 and os.fstat(self._fd).st_size > self.end:
            self._uncut = True
            self._cut()

    @property
    def is_in_place(self) -> bool:
        """Whether the file still has its name: a new log may have taken it."""
        here, there = os.fstat(self._fd), os.stat(self.path)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def discard(self) -> None:
        """Close without a sync: another log has taken the place. Idempotent."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        with self._guard:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def close(self) -> None:
        """Sync what waits (policy `interval`) and close. Idempotent."""
        try:
            if self._fd >= 0 and self._fsync == "interval":
                disk.sync(self._fd)
        finally:
            self.discard()

    def _cut(self) -> None:
        try:
            disk.cut(self._fd, self.end)
            disk.sync(self._fd)
        except OSError as error:
            message = (
                f"{self.path}: what follows byte {self.end} (epoch {self.epoch}) could not be cut "
                f"off: {error}; it is tried again before the next epoch is written"
            )
            raise StateError(message, path=str(self.path)) from error
        self._uncut = False

    def _sync_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(INTERVAL, self.sync_now)
            self._timer.daemon = True
            self._timer.start()

    def sync_now(self) -> None:
        """Sync what waits. A failure breaks the log: epochs already acknowledged may be lost."""
        self._timer = None
        with self._guard:
            if self._fd < 0:
                return
            try:
                disk.sync(self._fd)
            except OSError as error:
                self.broken = (
                    f"{self.path}: the log could not be synced: {error}; epochs of the last "
                    f"{INTERVAL} s may not be on the disk; no more epochs are taken until the "
                    "state is opened again"
                )

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)
            self._fd = -1
