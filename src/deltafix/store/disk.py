"""Every call that changes something on a local disk, one function each, and reading a file.

Invariant: no other module of states, logs and outputs writes, syncs, renames or cuts, so a test
that makes these fail one by one has tried every step of a protocol (tests/faults).
Errors are the system's own (`OSError`); who calls says what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

FSYNC = ("always", "interval", "never")
"""When an epoch's record is synced: in its commit, within a second after it, or by the system."""

Piece: TypeAlias = bytes | memoryview
"""Bytes to write, however they are held."""


def make_folder(path: Path, *, durable: bool = True) -> None:
    """Make a folder, and those above it that are not there, and wait until each has its name.

    Not `durable`: nobody waits.
    """
    if not durable:
        path.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def read(path: Path) -> bytes:
    """All of a file; a link is none."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as stream:
        return stream.read()


def write_at(fd: int, start: int, pieces: Iterable[Piece]) -> int:
    """Write pieces one after another from byte `start`; returns where they end.

    The place is given with every write, so bytes that a failed write left behind are overwritten
    and not followed.
    """
    offset = start
    for piece in pieces:
        view = memoryview(piece).cast("B")
        while len(view):
            written = os.pwrite(fd, view, offset)
            offset += written
            view = view[written:]
    return offset


def sync(fd: int) -> None:
    """Wait until the file is on the disk."""
    os.fsync(fd)


def cut(fd: int, end: int) -> None:
    """Drop everything behind byte `end`."""
    os.ftruncate(fd, end)


def create(path: Path, pieces: Iterable[Piece], *, durable: bool = True, mode: int = 0o644) -> int:
    """Write and sync a whole new file; returns its size. What fails half-way is removed.

    Not `durable`: it is not synced, so a machine without power may lose any part of it.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        size = write_at(fd, 0, pieces)
        if durable:
            sync(fd)
    except BaseException:
        os.close(fd)
        remove(path)
        raise
    os.close(fd)
    return size


def link(path: Path, name: Path) -> None:
    """Give a file that somebody has written a second name, when it is on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)
    remove(name)
    os.link(path, name)


def rename(path: Path, name: Path) -> None:
    """Give a written file its name, in one step, replacing what had it."""
    os.replace(path, name)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a file that may not be there."""
    path.unlink(missing_ok=True)
