"""Where an epoch runs: in the driver, on Spark's workers, or as a recomputation there.

A superstep costs Spark 0.3 to 1 s whatever it does, the driver a few milliseconds. So small
changes of a state that fits run in the driver, over the same files, and so do first loads that
fit: they take about as long there, and the small changes that follow will run there too.
Invariant: the choice changes where the work is done and never the answer; it is logged with its
reason.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = [
    "LOAD", "MEMORY_SHARE", "RECOMPUTE_SHARE", "SMALL", "Choice", "Sizes", "choose",
    "memory_needed", "room_for_state",
]  # fmt: skip

SMALL = 1_000_000
"""Changed rows up to which the driver takes an epoch: 8 s at 8 us a row, as ten supersteps cost."""

LOAD = 20_000
"""Changed rows from which an epoch that derives everything works on columns (`load`)."""

MEMORY_SHARE = 0.25
"""Share of the driver's memory that a state may take there."""

RECOMPUTE_SHARE = 0.3
"""Share of the given rows from which on a change is recomputed (as the engine's `auto` does)."""

_IN_MEMORY = 4
"""Bytes in an engine's memory per byte of its compacted file: tables, indexes, derived rows."""


_ROW = 256
"""Bytes in an engine's memory per row of a first load: the row, its votes and what holds."""

_FRAME = 32
"""The same per byte of a frame, as Spark estimates it: a row of a compressed file is 8 at least."""


_LIMIT = Path("/sys/fs/cgroup/memory.max")


class Sizes(NamedTuple):
    """What is known before an epoch: given rows, rows that change, bytes of the state's files.

    `changed` is None for frames nobody has counted; then `frames` is Spark's estimate of their
    bytes, if it has one.
    """

    given: int
    changed: int | None
    state_bytes: int
    frames: int | None = None


class Choice(NamedTuple):
    """An executor and why. `recompute` is done by the shards."""

    executor: Literal["driver", "shards", "recompute"]
    why: str

    def __str__(self) -> str:
        return f"{self.executor}: {self.why}"


def choose(sizes: Sizes, *, spark: bool, memory: int | None = None) -> Choice:
    """The executor of an epoch.

    Args:
        sizes: what is known; frames that are to run in the driver are read by it.
        spark: whether there is a session at all.
        memory: bytes of the driver's machine; asked of the system when None.
    """
    room = room_for_state(memory)
    needs = memory_needed(sizes.state_bytes, 0)
    if not spark:
        return Choice("driver", "there is no Spark session")
    if sizes.changed is None:
        return _choose_for_frames(sizes, needs, room)
    if sizes.given and sizes.changed >= sizes.given * RECOMPUTE_SHARE:
        share = sizes.changed / sizes.given
        return Choice("recompute", f"{sizes.changed:,} changes are {share:.0%} of the given rows")
    if not sizes.given:
        needs += sizes.changed * _ROW
    if needs > room:
        return Choice("shards", f"the state needs about {needs:,} bytes, the driver has {room:,}")
    if not sizes.given:
        why = f"a first load of {sizes.changed:,} rows needs about {needs:,} bytes and no job here"
        return Choice("driver", why)
    if sizes.changed > SMALL:
        return Choice("shards", f"{sizes.changed:,} changes are more than {SMALL:,}")
    return Choice("driver", f"{sizes.changed:,} changes, and a state of about {needs:,} bytes fits")


def _choose_for_frames(sizes: Sizes, needs: int, room: int) -> Choice:
    if sizes.frames is None:
        return Choice("shards", "the changes are in frames and were not counted")
    if sizes.given and sizes.frames > SMALL:
        return Choice("shards", f"the changes are in frames of about {sizes.frames:,} bytes")
    needs += sizes.frames * _FRAME
    if needs > room:
        return Choice("shards", f"the state needs about {needs:,} bytes, the driver has {room:,}")
    return Choice("driver", f"frames of about {sizes.frames:,} bytes and their state fit")


def memory_needed(state: int, rows: int) -> int:
    """Bytes that an engine takes for a state of so many bytes on disk, and so many more rows."""
    return state * _IN_MEMORY + rows * _ROW


def room_for_state(memory: int | None = None) -> int:
    """Bytes of the driver's machine, or container, that a state may take there."""
    return int((_memory() if memory is None else memory) * MEMORY_SHARE)


def _memory() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(_LIMIT.read_text()))
    except (OSError, ValueError):  # no such limit: there is no file, or it says "max"
        return machine
