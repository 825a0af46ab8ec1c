"""Who has a state folder: a lock of the operating system, and a file that names the owner.

In an object store there is no lock: whoever opens a state last has it, the others are `taken`.

The lock is `flock` on an open file, so it vanishes with the process, whatever ended it; the text
in the file is for people and is believed only while the lock is held. Invariant: at most one
`Lock` on a folder exists at a time, in this process and in all others on this machine.
The file stays when the lock goes: removing it would let two processes lock two files.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltafix.errors import StateInUseError


class Lock:
    """Takes the lock at `path` at once. Raises StateInUseError naming the owner, or OSError."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(fd, 4096, 0)
            os.close(fd)
            raise _in_use(path.parent, text) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self._pid = os.getpid()
        self._name(json.dumps(who()).encode())

    @property
    def is_ours(self) -> bool:
        """Whether this process took the lock; a forked child has only a copy of the handle."""
        return self._pid == os.getpid()

    def release(self) -> None:
        """Give the folder back. Idempotent; a forked child's call leaves its parent's lock."""
        if self._fd >= 0:
            if self.is_ours:
                self._name(b"")
            os.close(self._fd)
            self._fd = -1

    def _name(self, owner: bytes) -> None:
        # Not through `disk`: no state depends on these bytes.
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, owner, 0)
        except OSError:
            return  # a full disk: the lock holds, only the owner's name is missing

    def __del__(self) -> None:
        self.release()


def who() -> dict[str, Any]:
    """This process, as an owner; no two calls say the same."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "run": uuid4().hex}


def taken(folder: str, owner: Mapping[str, Any]) -> str:
    """What a writer is told that the newest opener of a state in an object store fenced off."""
    name = _named(owner) or "another process"
    return (
        f"{folder} is in use by {name}: it was opened after this database was, and the newest "
        "opener has it; nothing of this epoch is there. Close this database"
    )


def _named(owner: Any) -> str | None:
    """An owner, as a file says who it is; None if that says nobody."""
    try:
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (LookupError, TypeError):
        return None


def _in_use(folder: Path, text: bytes) -> StateInUseError:
    try:
        owner = json.loads(text)
    except ValueError:
        owner = {}
    name = _named(owner)
    if name is None:
        owner, name = {}, "a process that has not written its name"
    mine = " (this process)" if owner.get("pid") == os.getpid() else ""
    way_out = "close that database first, or use another folder"
    message = f"{folder} is in use by {name}{mine}; {way_out}"
    return StateInUseError(message, path=str(folder), owner=owner)
