"""The end of an epoch: commit, rollback, and the net changes.

Invariant: after either, NOW == WAS for every row, journal and queue are empty, and rows that hold
no more are out of every index and on the free list (their columns stay readable until the next
epoch allocates, which is how a Delta reads them).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.aside import forget_aside
from deltafix.kernel.batch import end_batches
from deltafix.kernel.enter import close_jobs
from deltafix.kernel.fold import keep_folds, undo_folds
from deltafix.kernel.index import empty_index
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import empty, empty_queue, room
from deltafix.kernel.runs import push_run, run_length
from deltafix.kernel.settle import drop_row

_MANY = 12
"""Rows from which a relation is emptied as a whole."""


@kernel("v:ALi")
def _commit_row(A, L, value):
    """Settle one touched row: NOW becomes WAS, a row that holds no more is dropped."""
    r = value >> 32
    row = value & 0xFFFFFFFF
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    word = L[cell]
    if not (word & at.TOUCHED):
        return
    L[cell] = word & ~(at.TOUCHED | at.PENDING | at.LIMBO)
    now = (word & at.NOW) != 0
    was = (word & at.WAS) != 0
    if now != was:
        push_run(L, np.int64(at.DELTA), (r << 33) | (row << 1) | (1 if now else 0), np.int64(2))
        L[at.N_CHANGED] += 1
    if now:
        if not was:
            L[cell] |= at.WAS
            L[rb + at.R_WAS] += 1
        return
    if was:
        L[rb + at.R_WAS] -= 1
    drop_row(A, L, r, row)


@kernel("v:L")
def _clear(L):
    """Empty journal, queue, heap and change lists: the next epoch starts from here."""
    empty_queue(L)
    forget_aside(L)
    for v in (at.J, at.WAITING, at.CREATED, at.HEAP, at.OPEN, at.TALLIES):
        empty(L, np.int64(v))
    L[at.S_CREATED] = 0
    for r in range(L[at.N_RELS]):
        empty(L, L[at.RELS] + r * at.RSZ + at.R_CHANGED)
        L[L[at.RELS] + r * at.RSZ + at.R_SETTLED] = L[L[at.RELS] + r * at.RSZ + at.R_DERIVATIONS]
    L[at.EPOCH_BASE] = L[at.CLOCK]
    L[at.SCANS] = 0
    L[at.S_STRATUM] = -1
    L[at.PAUSED] = 0
    L[at.QUOTA] = L[at.SLICE]
    L[at.CANCEL] = 0


@kernel("v:AL")
def commit(A, L):
    """Make the working state the committed one; DELTA lists the net changes. O(touched).

    A MemoryError leaves everything as it is.
    """
    n = L[at.J + 1] // 3
    e = np.int64(0)
    while e < L[at.CREATED + 1]:
        rows = run_length(L, np.int64(at.CREATED), e)
        n += rows
        e += 1 + (rows > 1)
    L[at.DELTA + 1] = 0
    L[at.N_CHANGED] = 0
    room(L, at.DELTA, n)  # of addresses: what rows side by side need no cells for has no pages
    e = np.int64(0)
    while e < L[at.CREATED + 1]:
        value = L[L[at.CREATED] + e]
        rows = run_length(L, np.int64(at.CREATED), e)
        for k in range(rows):
            _commit_row(A, L, value + k)
        e += 1 + (rows > 1)
    for e in range(0, L[at.J + 1], 3):
        _commit_row(A, L, L[L[at.J] + e])
    keep_folds(A, L)
    _clear(L)
    L[at.EPOCHS] += 1


@kernel("v:ALi")
def _empty(A, L, r):
    """Take all rows out of a relation that had none when the epoch began. O(slots of its tables).

    Row by row, undoing an interrupted load of 20 M rows took 3.7 s. Takes no memory, of which there
    may be none left.
    """
    rb = L[at.RELS] + r * at.RSZ
    L[rb + at.R_N] = 0
    L[rb + at.R_NOW] = 0
    L[rb + at.R_FREE] = -1
    for s in range(L[rb + at.R_PKCAP]):
        L[L[rb + at.R_PK] + s] = 0
    L[rb + at.R_PKUSED] = 0
    for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
        empty_index(A, L, x)


@kernel("v:AL")
def rollback(A, L):
    """Put back every journaled row and drop every created one. O(touched)."""
    for r in range(L[at.N_RELS]):
        rb = L[at.RELS] + r * at.RSZ
        own = L[rb + at.R_NOW] > 0 or L[rb + at.R_RULES] != 0  # neither a memo nor groups
        if L[rb + at.R_N] >= _MANY and L[rb + at.R_WAS] == 0 and own:
            _empty(A, L, r)
    for e in range(0, L[at.J + 1], 3):
        value = L[L[at.J] + e]
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        if row >= L[rb + at.R_N]:
            continue
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        word = L[offset >> 1]
        old = L[L[at.J] + e + 1]
        L[rb + at.R_NOW] += (1 if old & at.NOW else 0) - (1 if word & at.NOW else 0)
        L[offset >> 1] = old | (word & at.INDEXED)
        A[offset + at.SUPPORT] = L[L[at.J] + e + 2] & 0xFFFFFFFF
        if L[rb + at.R_ALL]:
            A[offset + L[rb + at.R_ALL]] = L[L[at.J] + e + 2] >> 32
    for e in range(L[at.TALLIES + 1]):
        value = L[L[at.TALLIES] + e]
        rb = L[at.RELS] + (value >> 33) * at.RSZ
        if ((value >> 1) & 0xFFFFFFFF) < L[rb + at.R_N]:
            offset = L[rb + at.R_ROWS] + ((value >> 1) & 0xFFFFFFFF) * L[rb + at.R_STRIDE]
            A[offset + L[rb + at.R_ALL]] += -1 if value & 1 else 1
    e = np.int64(0)
    while e < L[at.CREATED + 1]:
        value = L[L[at.CREATED] + e]
        n = run_length(L, np.int64(at.CREATED), e)
        r = value >> 32
        first = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        for row in range(first, min(first + n, L[rb + at.R_N])):
            cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
            if L[cell] & at.NOW:
                L[rb + at.R_NOW] -= 1
            L[cell] &= ~at.TOUCHED
            drop_row(A, L, r, np.int64(row))
        e += 1 + (n > 1)
    for r in range(L[at.N_RELS]):
        rb = L[at.RELS] + r * at.RSZ
        L[rb + at.R_DERIVATIONS] = L[rb + at.R_SETTLED]
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            xb = L[at.IDXS] + x * at.XSZ
            if 0 < L[xb + at.X_LATE] < at.PART:  # memory may have ended while it was filled
                empty_index(A, L, x)
                L[xb + at.X_LATE] = L[rb + at.R_NOW] > 0
    L[at.CLOCK] = L[at.EPOCH_BASE]
    L[at.DELTA + 1] = 0
    L[at.N_CHANGED] = 0
    L[at.ERROR] = 0
    L[at.EMITTED] = 0
    end_batches(L)
    close_jobs(A, L)
    undo_folds(A, L)
    _clear(L)


@kernel("i:ALP")
def read_changes(A, L, out):
    """The rows of `DELTA`, as they fit into `out`: relation, 1 if it came, arity, columns of each.

    Returns the words that this takes: no more than `out` has, or some rows are missing.
    """
    used = np.int64(0)
    e = np.int64(0)
    while e < L[at.DELTA + 1]:
        entry = L[L[at.DELTA] + e]
        n = run_length(L, np.int64(at.DELTA), e)
        rb = L[at.RELS] + (entry >> 33) * at.RSZ
        arity = L[rb + at.R_ARITY]
        for k in range(n if used + n * (3 + arity) <= len(out) else 0):
            row = ((entry >> 1) & 0xFFFFFFFF) + k
            columns = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.COLS
            o = used + k * (3 + arity)
            out[o] = entry >> 33
            out[o + 1] = entry & 1
            out[o + 2] = arity
            for c in range(arity):
                out[o + 3 + c] = A[columns + c]
        used += n * (3 + arity)
        e += 1 + (n > 1)
    return used
