"""The end of an epoch: commit, rollback, and the net changes.

Invariant: after either, NOW == WAS for every row, journal and queue are empty, and rows that hold
no more are out of every index and on the free list (their columns stay readable until the next
epoch allocates, which is how a Delta reads them).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.batch import end_batches
from deltafix.kernel.fold import keep_folds, undo_folds
from deltafix.kernel.index import empty_index
from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    CANCEL,
    CLOCK,
    COLS,
    DELTA,
    EMITTED,
    EPOCH_BASE,
    EPOCHS,
    ERROR,
    HEAP,
    IDXS,
    INDEXED,
    LIMBO,
    N_RELS,
    NOW,
    OPEN,
    PAUSED,
    PENDING,
    QUOTA,
    R_ALL,
    R_ARITY,
    R_CHANGED,
    R_DERIVATIONS,
    R_IDX,
    R_NIDX,
    R_NOW,
    R_ROWS,
    R_SETTLED,
    R_STRIDE,
    R_WAS,
    RELS,
    RSZ,
    S_STRATUM,
    SLICE,
    SUPPORT,
    TALLIES,
    TOUCHED,
    WAS,
    X_LATE,
    XSZ,
    J,
    Q,
)
from deltafix.kernel.memory import push
from deltafix.kernel.settle import drop_row


@kernel("i:ALi")
def _commit_row(A, L, value):
    """Settle one touched row: NOW becomes WAS, a row that holds no more is dropped.

    Returns the change as `DELTA` has it, or -1: none.
    """
    r = value >> 32
    row = value & 0xFFFFFFFF
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    word = L[cell]
    if not (word & TOUCHED):
        return np.int64(-1)
    L[cell] = word & ~(TOUCHED | PENDING | LIMBO)
    now = (word & NOW) != 0
    was = (word & WAS) != 0
    change = np.int64((r << 33) | (row << 1) | (1 if now else 0)) if now != was else np.int64(-1)
    if now:
        if not was:
            L[cell] |= WAS
            L[rb + R_WAS] += 1
        return change
    if was:
        L[rb + R_WAS] -= 1
    drop_row(A, L, r, row)
    return change


@kernel("v:L")
def _clear(L):
    """Empty journal, queue, heap and change lists: the next epoch starts from here."""
    L[J + 1] = 0
    L[Q + 1] = 0
    L[HEAP + 1] = 0
    L[OPEN + 1] = 0
    L[TALLIES + 1] = 0
    for r in range(L[N_RELS]):
        L[L[RELS] + r * RSZ + R_CHANGED + 1] = 0
        L[L[RELS] + r * RSZ + R_SETTLED] = L[L[RELS] + r * RSZ + R_DERIVATIONS]
    L[EPOCH_BASE] = L[CLOCK]
    L[S_STRATUM] = -1
    L[PAUSED] = 0
    L[QUOTA] = L[SLICE]
    L[CANCEL] = 0


@kernel("v:AL")
def commit(A, L):
    """Make the working state the committed one; DELTA lists the net changes. O(touched)."""
    n = np.int64(0)
    for e in range(L[Q + 1]):  # changes are written over the queue, which they never outrun
        change = _commit_row(A, L, L[L[Q] + e])
        if change >= 0:
            L[L[Q] + n] = change
            n += 1
    L[Q + 1] = n
    for e in range(0, L[J + 1], 3):
        change = _commit_row(A, L, L[L[J] + e])
        if change >= 0:
            push(L, Q, change)
    for k in range(3):
        old = L[DELTA + k]
        L[DELTA + k] = L[Q + k]
        L[Q + k] = old
    keep_folds(A, L)
    _clear(L)
    L[EPOCHS] += 1


@kernel("v:AL")
def rollback(A, L):
    """Put back every journaled row and drop every created one. O(touched)."""
    for e in range(0, L[J + 1], 3):
        value = L[L[J] + e]
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        word = L[at >> 1]
        old = L[L[J] + e + 1]
        L[rb + R_NOW] += (1 if old & NOW else 0) - (1 if word & NOW else 0)
        L[at >> 1] = old | (word & INDEXED)
        A[at + SUPPORT] = L[L[J] + e + 2] & 0xFFFFFFFF
        if L[rb + R_ALL]:
            A[at + L[rb + R_ALL]] = L[L[J] + e + 2] >> 32
    for e in range(L[TALLIES + 1]):
        value = L[L[TALLIES] + e]
        rb = L[RELS] + (value >> 33) * RSZ
        at = L[rb + R_ROWS] + ((value >> 1) & 0xFFFFFFFF) * L[rb + R_STRIDE]
        A[at + L[rb + R_ALL]] += -1 if value & 1 else 1
    for e in range(L[Q + 1]):
        value = L[L[Q] + e]
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
        word = L[cell]
        if (word & TOUCHED) and not (word & WAS):
            if word & NOW:
                L[rb + R_NOW] -= 1
            L[cell] = word & ~TOUCHED
            drop_row(A, L, r, row)
    for r in range(L[N_RELS]):
        rb = L[RELS] + r * RSZ
        L[rb + R_DERIVATIONS] = L[rb + R_SETTLED]
        for x in range(L[rb + R_IDX], L[rb + R_IDX] + L[rb + R_NIDX]):
            if L[L[IDXS] + x * XSZ + X_LATE]:  # memory may have ended while it was filled
                empty_index(A, L, x)
                L[L[IDXS] + x * XSZ + X_LATE] = 0
    L[CLOCK] = L[EPOCH_BASE]
    L[DELTA + 1] = 0
    L[ERROR] = 0
    L[EMITTED] = 0
    end_batches(L)
    undo_folds(A, L)
    _clear(L)


@kernel("v:ALPi")
def copy_changes(A, L, out, width):
    """Copy the columns of the rows in DELTA to `out`, `width` codes a row."""
    for e in range(L[DELTA + 1]):
        value = L[L[DELTA] + e]
        rb = L[RELS] + (value >> 33) * RSZ
        at = L[rb + R_ROWS] + ((value >> 1) & 0xFFFFFFFF) * L[rb + R_STRIDE] + COLS
        for k in range(L[rb + R_ARITY]):
            out[e * width + k] = A[at + k]
