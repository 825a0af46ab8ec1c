"""Blocks, vectors, tables of slots and row records inside the arena.

A block is a run of words, from the top of the reservation or where another block was; it never
moves, but a structure that outgrows its block copies itself into a larger one and hands the old
back (`DEAD`). Readers in other threads may still look at that, so it is taken again (`FREE`) only
after Python has waited for them (`arena.Arena.release`). Reserving costs nothing (pages appear when
touched), so blocks grow generously. Invariant: room is made before anything is changed, so a
MemoryError leaves a state that the journal can roll back. Nothing here knows what the words mean.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel

_LARGE = 1 << 16
"""Cells of a vector that an epoch of few changes never needs."""
_FIRST_CELLS = 64


@kernel("i:Lii")
def scratch(L, words, zeroed):
    """Take words (rounded up to a cache line), of which so many in front are zero.

    Returns the first. From the smallest free block that has room, whose pages are there already:
    new ones are most of what a load's memory costs. Raises MemoryError.
    """
    words = (words + 15) // 16 * 16
    best = np.int64(-1)
    for k in range(L[at.FREE + 1]):
        e = L[at.FREE] + 3 * k
        if L[e + 1] >= words and (best < 0 or L[e + 1] < L[best + 1]):
            best = e
    start = L[at.BUMP]
    if best < 0:
        if start + words > L[at.LIMIT]:
            raise MemoryError("the arena's reservation is used up")
        L[at.BUMP] = start + words
        return start
    start = L[best]
    dirty = min(words, L[best + 2])
    for k in range(start // 2, (start + min(dirty, zeroed) + 1) // 2):
        L[k] = 0
    L[at.DIRTY] -= dirty
    L[best] += words
    L[best + 1] -= words
    L[best + 2] -= dirty
    return start


@kernel("i:Li")
def block(L, words):
    """Take `words` zeroed words (rounded up to a cache line). Returns the first.

    Raises MemoryError.
    """
    return scratch(L, words, (words + 15) // 16 * 16)


@kernel("v:Lii")
def discard(L, start, words):
    """Hand a block back (large ones only)."""
    n = L[at.DEAD + 1]
    if words >= L[at.LEAST_BLOCK] and n < L[at.DEAD + 2]:
        L[L[at.DEAD] + 2 * n] = start
        L[L[at.DEAD] + 2 * n + 1] = words
        L[at.DEAD + 1] = n + 1


@kernel("v:Liii")
def _free(L, start, words, dirty):
    """Let a block, of which so many words in front may not be zero, be taken again at once."""
    n = L[at.FREE + 1]
    if words >= L[at.LEAST_BLOCK] and n < L[at.FREE + 2]:
        e = L[at.FREE] + 3 * n
        L[e] = start
        L[e + 1] = (words + 15) // 16 * 16
        L[e + 2] = min((dirty + 15) // 16 * 16, L[e + 1])
        L[at.FREE + 1] = n + 1
        L[at.DIRTY] += L[e + 2]


@kernel("v:Lii")
def recycle(L, start, words):
    """Hand back a block that no other thread ever looks at: the next may have it at once."""
    _free(L, start, words, words)


@kernel("i:Liii")
def generous(L, wanted, cap, words):
    """A new capacity in entries of so many words; address space is free.

    Twice as much; past 64k entries eight times, and at least a 1024th of what is not taken yet: so
    a load moves no large table, nor does an edit right after it (it once copied 140 MB: bench,
    reach-edit). One that has outgrown that gets a 64th, a quarter of the machine's memory: eight
    times as much was too little for 100 M pairs, of which 98 M were copied at the peak of the load.
    """
    if wanted < 65536:
        return max(wanted * 2, cap, 64)
    left = (L[at.LIMIT] - L[at.BUMP]) // words
    return max(wanted * 8, cap, left // (1024 if wanted * 1024 < left else 64))


@kernel("i:Lii")
def _moved(L, v, n):
    """Make room for `n` more cells in the vector described at cell `v`: where it was, or -1."""
    length = L[v + 1]
    if length + n <= L[v + 2]:
        return np.int64(-1)
    old = L[v]
    new_cap = generous(L, length + n, L[v + 2], np.int64(2))
    new = block(L, new_cap * 2) // 2
    for k in range(length):
        L[new + k] = L[old + k]
    L[v] = new
    L[v + 2] = new_cap
    return old


@kernel("v:Lii")
def room(L, v, n):
    """Make room for `n` more cells in the vector described at cell `v`."""
    cap = L[v + 2]
    old = _moved(L, v, n)
    if old >= 0 and cap > 0:
        discard(L, old * 2, cap * 2)


@kernel("v:Li")
def empty(L, v):
    """Empty the vector described at cell `v`; of a large one the first cells alone stay its own."""
    L[v + 1] = 0
    if L[v + 2] > _LARGE:
        discard(L, (L[v] + _FIRST_CELLS) * 2, (L[v + 2] - _FIRST_CELLS) * 2)
        L[v + 2] = _FIRST_CELLS


@kernel("v:L")
def empty_queue(L):
    """Empty the queue in the midst of an epoch, and hand back what it touched of a large block.

    With all of its addresses free blocks would be too many to be kept (`Arena.release`).
    """
    if L[at.Q + 2] > _LARGE:
        words = (L[at.Q + 2] - _FIRST_CELLS) * 2
        dirty = max(L[at.Q_MOST] - _FIRST_CELLS, 0) * 2
        _free(L, (L[at.Q] + _FIRST_CELLS) * 2, words, dirty)
        L[at.Q + 2] = _FIRST_CELLS
    L[at.Q + 1] = 0
    L[at.Q_MOST] = 0


@kernel("v:Lii")
def push(L, v, value):
    """Append one cell to the vector described at cell `v`."""
    room(L, v, 1)
    L[L[v] + L[v + 1]] = value
    L[v + 1] += 1


@kernel("v:Lii")
def publish(L, v, value):
    """As `push`, for vectors that other threads read without being waited for.

    What is outgrown stays as it is: an eighth of the vector, or half of a short one.
    """
    _moved(L, v, 1)
    L[L[v] + L[v + 1]] = value
    L[v + 1] += 1


@kernel("v:Liii")
def put_slot(L, slots, h, content):
    """Enter a content with hash `h` into a table of slots: a cell with their number, then they.

    There is room, and it is not there.
    """
    cap = L[slots]
    s = (h * cap) >> at.HASH_BITS
    while L[slots + 1 + s] != 0:
        s = s + 1 if s + 1 < cap else 0
    L[slots + 1 + s] = content


@kernel("i:Li")
def slots_twice(L, slots):
    """An empty table of twice as many slots."""
    cap = L[slots] * 2
    new = block(L, (cap + 1) * 2) // 2
    L[new] = cap
    return new


@kernel("v:ALii")
def row_room(A, L, r, n):
    """Make room for `n` more rows of relation `r` behind its high-water mark."""
    rb = L[at.RELS] + r * at.RSZ
    if L[rb + at.R_N] + n > L[rb + at.R_CAP]:
        cap = L[rb + at.R_CAP]
        stride = L[rb + at.R_STRIDE]
        new_cap = generous(L, L[rb + at.R_N] + n, cap, stride)
        new = block(L, new_cap * stride)
        old = L[rb + at.R_ROWS]
        for k in range(L[rb + at.R_N] * stride // 2):
            L[new // 2 + k] = L[old // 2 + k]
        discard(L, old, cap * stride)
        L[rb + at.R_ROWS] = new
        L[rb + at.R_CAP] = new_cap


@kernel("i:ALPii")
def new_row(A, L, K, r, o):
    """Allocate a row of `r` with the columns at word `o` of `K`; flags USED alone, support 0."""
    rb = L[at.RELS] + r * at.RSZ
    row = L[rb + at.R_FREE]
    if row >= 0:
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        L[rb + at.R_FREE] = np.int64(A[offset + at.SUPPORT]) - 1
    else:
        row_room(A, L, r, 1)
        row = L[rb + at.R_N]
        L[rb + at.R_N] = row + 1
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    L[offset >> 1] = at.USED
    A[offset + at.SUPPORT] = 0
    if L[rb + at.R_ALL]:
        A[offset + L[rb + at.R_ALL]] = 0
    for k in range(L[rb + at.R_ARITY]):
        A[offset + 3 + k] = K[o + k]
    return row


@kernel("v:ALii")
def free_row(A, L, r, row):
    """Put a row on the free list. Its columns stay readable until it is allocated again."""
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    L[offset >> 1] = 0
    A[offset + at.SUPPORT] = L[rb + at.R_FREE] + 1
    L[rb + at.R_FREE] = row
