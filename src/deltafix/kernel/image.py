"""An arena as pages of a file, and an arena mapped from them.

The arena has no pointers, so its pages mean the same wherever they lie. Most of its range was never
touched: `extents` names the pages that hold anything, and leaves out what lies behind the lengths
of tables and vectors. `lay` maps them copy-on-write at the same offsets of a fresh arena.

Invariant: what `extents` leaves out is zero, or nobody reads it. Not here: what the file is, and
whether its bytes are to be believed; the kernel follows every offset it finds without a check.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena

PAGE = mmap.PAGESIZE

Extent: TypeAlias = tuple[int, int]
"""First byte in the arena and length in bytes, both multiples of `PAGE`."""

_MAPPINGS = 4096
"""Extents at most: the system allows a process some 65,000 mappings."""

_OWN = (
    at.LIMIT, at.CANCEL, at.MAX_ROWS, at.MAX_ROUNDS, at.STRATEGY, at.QUOTA, at.SLICE, at.PATIENCE,
    at.BY_STRATUM, at.SCHEDULE, at.BATCH_FROM, at.BATCH_CELLS, at.AHEAD_FROM,
    at.PARTS_FROM, at.LANES, at.SHARE_FROM, at.LEAST_BLOCK, at.SPLIT_FROM, at.TALLY_FROM,
    at.MOST_QUEUED, at.MATCHES, at.SCAN_FROM, at.SCAN_SHARE,
)  # fmt: skip
"""Header cells that say how this process runs: they are not part of the state."""

_SPENT = (
    at.C_DERIVATIONS, at.C_PROBED, at.C_RETRACTED, at.C_REVIVED, at.C_RERANKED, at.C_CREATED,
    at.C_STRATA, at.C_TAKEN, at.C_ABANDONED, at.C_TRIED, at.DELTA + 1,
    at.N_CHANGED,
)  # fmt: skip
"""Header cells that say what the last epoch did: opening is no epoch, and does nothing."""


def extents(arena: Arena) -> list[Extent]:
    """The pages that hold the state, ascending. O(bytes taken); between epochs only."""
    pages = -(-int(arena.cells[at.BUMP]) * 4 // PAGE)
    per_page = PAGE // 8
    used = np.zeros(pages, dtype=np.bool_)
    start = 0
    for first, end in [*sorted(_unread(arena)), (pages * PAGE, pages * PAGE)]:
        stop = max(-(-first // PAGE), start)  # the page in which the gap begins is looked at
        cells = arena.cells[start * per_page : stop * per_page].reshape(-1, per_page)
        used[start:stop] = np.bitwise_or.reduce(cells, axis=1) != 0
        start = max(end // PAGE, stop)
    gap = 1
    while len(runs := _runs(used)) > _MAPPINGS:
        gap *= 2
        for (_, end), (first, _) in pairwise(runs):
            used[end:first] |= first - end < gap
    return [(first * PAGE, (end - first) * PAGE) for first, end in runs]


def lay(arena: Arena, fd: int, saved: Sequence[Extent], start: int) -> None:
    """Make a linked arena without rows what `saved` extents were, one behind another from `start`.

    `start` is a byte of the file, a multiple of `PAGE`. Raises OSError; the arena is as before.
    """
    own = arena.cells[list(_OWN)]
    before = arena.words[: int(arena.cells[at.BUMP])].copy()
    arena.clear(0, -(-len(before) * 4 // PAGE) * PAGE)  # what is linked may lie elsewhere there
    try:
        for first, size in saved:
            arena.map_file(fd, start, first, size)
            start += size
    except OSError:
        for first, size in saved:
            arena.clear(first, size)
        arena.words[: len(before)] = before
        raise
    arena.cells[list(_OWN)] = own
    arena.cells[list(_SPENT)] = 0
    rules = int(arena.cells[at.RULE_COUNTS])
    arena.cells[rules : rules + int(arena.cells[at.N_RULES])] = 0


def linked_bytes(arena: Arena) -> bytes:
    """What linking wrote into an arena that has no rows yet: the same for the same plan."""
    header = arena.cells[: at.HEADER_CELLS].copy()
    header[list(_OWN)] = 0
    return header.tobytes() + arena.words[at.FIRST_WORD : int(arena.cells[at.BUMP])].tobytes()


def _runs(used: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where runs of True begin and end."""
    edges = np.flatnonzero(np.diff(used, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _unread(arena: Arena) -> Iterator[tuple[int, int]]:
    """Byte ranges of blocks that nobody reads: scratch, and what lies behind a length."""
    cells = arena.cells
    yield at.KEY * 4, at.FIRST_WORD * 4
    vectors = [at.Q, at.WAITING, at.CREATED, at.J, at.HEAP, at.DELTA, at.OPEN, at.TALLIES]
    vectors += [at.WIDE, at.SYM]
    for relation in range(int(cells[at.N_RELS])):
        rb = int(cells[at.RELS]) + relation * at.RSZ
        first, count, stride = (int(cells[rb + f]) for f in (at.R_ROWS, at.R_N, at.R_STRIDE))
        yield (first + count * stride) * 4, (first + int(cells[rb + at.R_CAP]) * stride) * 4
        for index in range(int(cells[rb + at.R_NIDX])):
            xb = int(cells[at.IDXS]) + (int(cells[rb + at.R_IDX]) + index) * at.XSZ
            first, room = (int(cells[xb + part]) for part in (at.X_POS, at.X_POSCAP))
            yield (first + min(count, room)) * 4, (first + room) * 4
        first, count, room = (int(cells[rb + f]) for f in (at.R_PK, at.R_PKCAP, at.R_PKROOM))
        yield (first + count) * 8, (first + room) * 8
        vectors.append(rb + at.R_CHANGED)
    for vector in vectors:
        first, length, capacity = cells[vector : vector + 3].tolist()
        yield (first + length) * 8, (first + capacity) * 8
    first, top, capacity = cells[at.BUCKETS : at.BUCKETS + 3].tolist()
    yield (first + top * 4) * 4, (first + capacity * 4) * 4
