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

SMALL = 1_000_000
"""Changed rows up to which the driver takes an epoch: 8 s at 8 us a row, as ten supersteps cost."""

LOAD = 20_000
"""Changed rows from which an epoch that derives everything is a load (`load`)."""

MEMORY_SHARE = 0.25
"""Share of the driver's memory that a state may take there."""

RECOMPUTE_SHARE = 0.3
"""Share of the given rows from which on a change is recomputed (as the engine's `auto` does)."""

REMOVED_SHARE = 0.04
"""The same for rows taken away where shards send each other messages: each has others judged again.

Reach, 2 M edges in 4 shards, seconds: a load 2.1 to 2.6, and as much again beside all else for the
engines; 2, 5, 10 and 20 % taken away 2.4, 7.5, 9.4 and 7.0; as many added 0.6, 0.9, 1.5 and 1.6.
"""

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
    bytes, if it has one. `removed`: how many of those that change are taken away.
    """

    given: int
    changed: int | None
    state_bytes: int
    frames: int | None = None
    removed: int = 0


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
        return _anew(sizes.changed, "changes", sizes)
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


def recomputed(sizes: Sizes) -> Choice | None:
    """The choice to derive all anew in the shards, if a change in them costs more."""
    if not sizes.given or sizes.changed is None or sizes.changed < LOAD:
        return None
    if sizes.changed >= sizes.given * RECOMPUTE_SHARE:
        return _anew(sizes.changed, "changes", sizes)
    if sizes.removed >= sizes.given * REMOVED_SHARE:
        return _anew(sizes.removed, "rows taken away", sizes)
    return None


def _anew(rows: int, what: str, sizes: Sizes) -> Choice:
    share = rows / sizes.given
    return Choice("recompute", f"{rows:,} {what} are {share:.0%} of the given rows")


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
