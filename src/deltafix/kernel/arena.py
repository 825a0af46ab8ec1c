"""Reserved memory: one range of addresses, seen as int32 words and int64 cells.

The range is reserved, not allocated: a page exists once it is touched, so tables can be given
room to grow without moving and without cost. Past the first 64 MiB, large pages are asked for
(measured: docs/kernel.md, "Large pages"). Invariant: `words`, `cells` and `numbers` view the same
range for the arena's whole life; a free block holds zeros, but for the part that `FREE` says.
Unix only: it needs MAP_NORESERVE and MAP_FIXED (Linux, macOS).
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from deltafix.kernel import layout as at

Words = npt.NDArray[np.int32]
Cells = npt.NDArray[np.int64]

_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_FIXED = 0x10
_SMALL_PAGES = 64 << 20
_DEAD_BLOCKS = 512
_FREE_BLOCKS = 1024
_LEAST_BLOCK = 2048
_SLOTS = 127
_WARM = 256 << 20
"""Bytes of free blocks that a run keeps, to take them again, before their pages go back."""
_PATIENCE = 200_000
"""Rows and derivations a wave may cost before it is held against a recomputation: 20 ms."""
_BATCH_FROM = 1 << 15
"""Rows created in a stratum from which heads are counted in batches (docs/kernel.md)."""
_BATCH_CELLS = 6 << 20
"""48 MiB for the heads of a relation that wait: two million pairs."""
_SHARE_FROM = 1 << 13
"""Rows of a phase from which its lanes are called: a round costs them some 0.2 ms."""
_AHEAD_FROM = 1 << 14
"""256 kB of slots: half of a second-level cache."""
_PARTS_FROM = 1 << 17
"""Rows that are entered into an index in some 20 ms."""
_SCAN_FROM = 1 << 14
"""Rows that are entered into an index in some 2 ms."""
_SCAN_SHARE = 5
_SPLIT_FROM = 1 << 18
"""2 MB of cells to sort, twice a second-level cache."""
_TALLY_FROM = 1 << 16
"""Rows for which a table of 1 MB is worth clearing."""
_MOST_QUEUED = 1 << 22
"""32 MiB of the queue; rounds of so many rows stop no oftener than their batches are full."""
_ASK_CALLS = _ASK_AHEAD = 1 << 14
"""Some thousand calls a stop, and rows that are run twice at most for one (`ask`)."""
_FEW_WORDS = 512
_LOOKS = 1000
"""Rows that the search for one suspect's other derivations looks at, before it waits for the end of
the wave (docs/kernel.md, "The wavefront, and moving")."""


class Arena:
    """A reservation with an empty header. `reserve` is in bytes (default: 16 times the memory).

    Attributes:
        words, cells: what the kernel is given.
        numbers: the cells, for whoever reads or writes one by itself: half of numpy's time.
        few: room for what `read_changes` says of a few rows, and its numbers.
    """

    def __init__(self, reserve: int | None = None) -> None:
        self._map = _reserve(reserve or 16 * _physical_memory())
        size = len(self._map)
        self.words: Words = np.frombuffer(self._map, dtype=np.int32)
        self.cells: Cells = self.words.view(np.int64)
        self.numbers = self.cells.data
        few: Words = np.empty(_FEW_WORDS, dtype=np.int32)
        self.few = few, few.data
        self._is_mapped = False
        if hasattr(mmap, "MADV_HUGEPAGE") and size > _SMALL_PAGES:
            self._map.madvise(mmap.MADV_HUGEPAGE, _SMALL_PAGES, size - _SMALL_PAGES)
        cells = self.cells
        cells[at.BUMP] = (at.FIRST_WORD + 15) // 16 * 16
        cells[at.LIMIT] = size // 4
        cells[at.DEAD] = self.block(_DEAD_BLOCKS * 4) // 2
        cells[at.DEAD + 2] = _DEAD_BLOCKS
        cells[at.FREE] = self.block(_FREE_BLOCKS * 6) // 2
        cells[at.FREE + 2] = _FREE_BLOCKS
        self.vector(at.Q, 64)
        self.vector(at.CREATED, 64)
        self.vector(at.WAITING, 64)
        self.vector(at.J, 192)
        self.vector(at.HEAP, 64)
        self.vector(at.DELTA, 64)
        self.vector(at.OPEN, 64)
        self.vector(at.TALLIES, 64)
        self.vector(at.FOLDED, 320)
        self.vector(at.ASKS, 64)
        for cell in range(at.ASIDE, at.ASIDE_HEADS + 1, at.PILE):
            self.vector(cell, 64)
        self.vector(at.WIDE, 64)
        self.vector(at.SYM, 64)
        for table in (at.WIDE_SLOTS, at.SYM_SLOTS):
            cells[table] = self.block((_SLOTS + 1) * 2) // 2
            cells[cells[table]] = _SLOTS
        cells[at.BUCKETS] = self.block(4096)
        cells[at.BUCKET_CAP] = 1024
        cells[at.LEAST_BLOCK] = _LEAST_BLOCK
        cells[at.QUOTA] = 1 << 62
        cells[at.PATIENCE] = _PATIENCE
        cells[at.BATCH_FROM] = _BATCH_FROM
        cells[at.BATCH_CELLS] = _BATCH_CELLS
        cells[at.AHEAD_FROM] = _AHEAD_FROM
        cells[at.PARTS_FROM] = _PARTS_FROM
        cells[at.SHARE_FROM] = _SHARE_FROM
        cells[at.SPLIT_FROM] = _SPLIT_FROM
        cells[at.MOST_QUEUED] = _MOST_QUEUED
        cells[at.TALLY_FROM] = _TALLY_FROM
        cells[at.MATCHES] = at.BLOCK
        cells[at.SCAN_FROM] = _SCAN_FROM
        cells[at.SCAN_SHARE] = _SCAN_SHARE
        cells[at.LOOKS] = _LOOKS
        cells[at.ASK_CALLS] = _ASK_CALLS
        cells[at.ASK_AHEAD] = _ASK_AHEAD

    def block(self, words: int) -> int:
        """Take a block of zeroed words; returns its first word."""
        start = int(self.cells[at.BUMP])
        end = start + (words + 15) // 16 * 16
        if end > int(self.cells[at.LIMIT]):
            raise MemoryError("the arena's reservation is used up")
        self.cells[at.BUMP] = end
        return start

    def vector(self, cell: int, capacity: int) -> None:
        """Set up an empty vector of cells at header cell `cell`."""
        self.cells[cell] = self.block(capacity * 2) // 2
        self.cells[cell + 1] = 0
        self.cells[cell + 2] = capacity

    def take(self, cell: int) -> Cells:
        """The contents of the vector at header cell `cell`, as a view."""
        start = int(self.cells[cell])
        return self.cells[start : start + int(self.cells[cell + 1])]

    def release(self, *, keep: bool = False) -> None:
        """Have blocks that were handed back be taken again; nobody may read the arena meanwhile.

        Their pages go back to the system; to `keep` them, up to some, is for within a run. Free
        blocks that lie side by side become one. O(free blocks).
        """
        if not (self.numbers[at.DIRTY] or self.numbers[at.DEAD + 1]):
            return
        blocks = self._blocks(at.FREE, 3)
        blocks.extend([start, words, words] for start, words in self._blocks(at.DEAD, 2))
        self.cells[at.DEAD + 1] = self.cells[at.FREE + 1] = 0  # an interrupt may lose blocks
        keep &= 4 * sum(dirty for _, _, dirty in blocks) <= _WARM
        joined: list[list[int]] = []
        for start, words, dirty in sorted(blocks):
            if dirty and not keep:
                self._give_back(start, dirty)
            left = dirty if keep else 0
            last = joined[-1] if joined else [0, 0, 0]
            if last[0] + last[1] == start and (last[2] == last[1] or left == 0):
                last[2] += left
                last[1] += words
            elif words:
                joined.append([start, words, left])
        kept = sorted(joined, key=lambda block: -block[1])[:_FREE_BLOCKS]
        first = int(self.cells[at.FREE])
        self.cells[first : first + 3 * len(kept)] = np.array(kept, np.int64).reshape(-1)
        self.cells[at.FREE + 1] = len(kept)
        self.cells[at.DIRTY] = sum(dirty for _, _, dirty in kept)

    def _blocks(self, cell: int, size: int) -> list[list[int]]:
        """The blocks listed at header cell `cell`, of `size` cells each."""
        first, count = int(self.cells[cell]), int(self.cells[cell + 1])
        cells = self.cells[first : first + size * count]
        return cells.reshape(count, size).tolist()

    def _give_back(self, start: int, words: int) -> None:
        """Make words zero; whole pages of them go back to the system."""
        page = mmap.PAGESIZE
        first = -(-start * 4 // page) * page
        end = (start + words) * 4 // page * page
        if end <= first:
            self.words[start : start + words] = 0
            return
        if self._is_mapped:  # the pages would come back from the file, and so into the next one
            self.clear(first, end - first)
        elif hasattr(mmap, "MADV_DONTNEED") and sys.platform == "linux":
            self._map.madvise(mmap.MADV_DONTNEED, first, end - first)
        else:  # elsewhere what is given back need not be zero
            self.clear(first, end - first)
        self.words[start : first // 4] = 0
        self.words[end // 4 : start + words] = 0

    def map_file(self, fd: int, start: int, first: int, size: int) -> None:
        """Show `size` bytes of a file, from byte `start` on, at byte `first`; copied once written.

        All are multiples of the page size. The file must not shrink while the arena lives.
        Raises OSError.
        """
        self._put(fd, start, first, size, 0)
        self._is_mapped = True

    def clear(self, first: int, size: int) -> None:
        """Make `size` bytes at byte `first` zero, whatever was mapped there. Raises MemoryError."""
        try:
            self._put(-1, 0, first, size, mmap.MAP_ANONYMOUS | _NORESERVE)
        except OSError as error:
            raise MemoryError(f"pages cannot be given back: {error}") from error

    def _put(self, fd: int, start: int, first: int, size: int, flags: int) -> None:
        """Replace a part of the range, which the `mmap` module cannot do: it maps whole ranges."""
        if first < 0 or first + size > len(self._map):
            raise ValueError(f"bytes {first} to {first + size} are not in the arena")
        flags |= mmap.MAP_PRIVATE | _FIXED
        prot = mmap.PROT_READ | mmap.PROT_WRITE
        where = self.words.ctypes.data + first
        if _mmap()(where, size, prot, flags, fd, start) != where:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


def spelled_out(entries: Cells, step: int) -> Cells:
    """A list of rows in runs (`kernel.runs`) row by row, `step` from one to the next. O(rows)."""
    return next(in_parts(entries, step), entries)


def in_parts(entries: Cells, step: int, most: int | None = None) -> Iterator[Cells]:
    """The same, at most so many rows at a time. O(rows), and in memory O(entries + `most`)."""
    more = np.flatnonzero(entries < 0)
    if not len(more) and len(entries) <= (most or len(entries)):
        if len(entries):
            yield entries
        return
    counts = np.ones(len(entries), np.int64)
    counts[more - 1] -= entries[more]
    firsts, counts = np.delete(entries, more), np.delete(counts, more)
    ends = np.cumsum(counts)
    begins, total = ends - counts, int(ends[-1])
    for start in range(0, total, most or total):
        end = min(start + (most or total), total)
        some = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, end) + 1)
        inside = np.minimum(ends[some], end) - np.maximum(begins[some], start)
        yield np.repeat(firsts[some] - step * begins[some], inside) + step * np.arange(start, end)


@cache
def _mmap() -> Any:
    """The system's `mmap`, which can be told where."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
        ctypes.c_longlong,
    ]  # fmt: skip
    return call


def _physical_memory() -> int:
    """Bytes of memory in this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _reserve(size: int) -> mmap.mmap:
    """Reserve a range; halves the wish where an address-space limit refuses it.

    Before it does, ranges go whose databases nobody holds any more: on a machine of 24 GB there is
    room for 340, and what is part of a cycle is only found by looking.
    """
    size = max(size, 1 << 28) // mmap.PAGESIZE * mmap.PAGESIZE
    collected = False
    while True:
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            return mmap.mmap(-1, size, flags=flags)
        except (OSError, ValueError) as error:
            if size <= 1 << 28:
                raise MemoryError("cannot reserve 256 MiB of address space") from error
        if collected:
            size //= 2
        else:
            gc.collect()
            collected = True
