"""Blocks, vectors and row records inside the arena.

A block is a run of words taken from the top of the reservation; it never moves, but a structure
that outgrows its block copies itself into a larger one and leaves the old to `DEAD`, whose pages
Python gives back after the call. Reserving costs nothing (pages appear when touched), so blocks
grow generously. Invariant: room is made before anything is changed, so a MemoryError leaves a
state that the journal can roll back. Nothing here knows what the words mean.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    BUMP,
    DEAD,
    LIMIT,
    R_ALL,
    R_ARITY,
    R_CAP,
    R_FREE,
    R_N,
    R_ROWS,
    R_STRIDE,
    RELS,
    RSZ,
    SUPPORT,
    USED,
)


@kernel("i:Li")
def block(L, words):
    """Take `words` zeroed words (rounded up to a cache line). Returns the first.

    Blocks are never handed out twice, so they are zero because the system's pages are.
    Raises MemoryError.
    """
    start = L[BUMP]
    end = start + ((words + 15) // 16) * 16
    if end > L[LIMIT]:
        raise MemoryError("the arena's reservation is used up")
    L[BUMP] = end
    return start


@kernel("v:Lii")
def discard(L, start, words):
    """Hand a block back: Python releases its pages after the run (large ones only)."""
    n = L[DEAD + 1]
    if words >= 2048 and n < L[DEAD + 2]:
        L[L[DEAD] + 2 * n] = start
        L[L[DEAD] + 2 * n + 1] = words
        L[DEAD + 1] = n + 1


@kernel("i:ii")
def generous(wanted, cap):
    """A new capacity: twice as much, and past 64k entries eight times, since address space is free.

    What is moved then is an eighth of what follows; an edit right after a load moves nothing
    (it once copied 140 MB: bench, reach-edit).
    """
    return max(wanted * 2 if wanted < 65536 else wanted * 8, cap, 64)


@kernel("v:Lii")
def room(L, v, n):
    """Make room for `n` more cells in the vector described at cell `v`."""
    length = L[v + 1]
    if length + n > L[v + 2]:
        old = L[v]
        cap = L[v + 2]
        new_cap = generous(length + n, cap)
        new = block(L, new_cap * 2) // 2
        for k in range(length):
            L[new + k] = L[old + k]
        if cap > 0:
            discard(L, old * 2, cap * 2)
        L[v] = new
        L[v + 2] = new_cap


@kernel("v:Lii")
def push(L, v, value):
    """Append one cell to the vector described at cell `v`."""
    room(L, v, 1)
    L[L[v] + L[v + 1]] = value
    L[v + 1] += 1


@kernel("v:ALii")
def row_room(A, L, r, n):
    """Make room for `n` more rows of relation `r` behind its high-water mark."""
    rb = L[RELS] + r * RSZ
    if L[rb + R_N] + n > L[rb + R_CAP]:
        cap = L[rb + R_CAP]
        stride = L[rb + R_STRIDE]
        new_cap = generous(L[rb + R_N] + n, cap)
        new = block(L, new_cap * stride)
        old = L[rb + R_ROWS]
        for k in range(L[rb + R_N] * stride // 2):
            L[new // 2 + k] = L[old // 2 + k]
        discard(L, old, cap * stride)
        L[rb + R_ROWS] = new
        L[rb + R_CAP] = new_cap


@kernel("i:ALPii")
def new_row(A, L, K, r, o):
    """Allocate a row of `r` with the columns at word `o` of `K`; flags USED alone, support 0."""
    rb = L[RELS] + r * RSZ
    row = L[rb + R_FREE]
    if row >= 0:
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        L[rb + R_FREE] = np.int64(A[at + SUPPORT]) - 1
    else:
        row_room(A, L, r, 1)
        row = L[rb + R_N]
        L[rb + R_N] = row + 1
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    L[at >> 1] = USED
    A[at + SUPPORT] = 0
    if L[rb + R_ALL]:
        A[at + L[rb + R_ALL]] = 0
    for k in range(L[rb + R_ARITY]):
        A[at + 3 + k] = K[o + k]
    return row


@kernel("v:ALii")
def free_row(A, L, r, row):
    """Put a row on the free list. Its columns stay readable until it is allocated again."""
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    L[at >> 1] = 0
    A[at + SUPPORT] = L[rb + R_FREE] + 1
    L[rb + R_FREE] = row
