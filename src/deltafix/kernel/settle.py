"""The end of a stratum's epoch: what holds now, and which rows later strata must hear of.

Without recursion support alone decides what holds, and decides it here; in a recursive stratum
the queue and the wave have done so. Invariant: afterwards LIMBO, MOVED and (without recursion)
PENDING are clear but for LIMBO on the rows listed as changed, which `edit` clears at the end of
the epoch; a row is listed once. Nothing here derives anything.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.bulk import fill_index
from deltafix.kernel.index import index_row
from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    GIVEN,
    IDXS,
    LIMBO,
    MOVED,
    NOW,
    PENDING,
    R_CHANGED,
    R_IDX,
    R_KEEP,
    R_NIDX,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    RECURSIVE,
    RELS,
    RSZ,
    S_J0,
    S_Q0,
    SUPPORT,
    T_NRELS,
    T_RELS,
    WAS,
    X_LATE,
    XSZ,
    J,
    Q,
)
from deltafix.kernel.memory import push

__all__ = ["finish_stratum"]


@kernel("v:ALii")
def _settle(A, L, r, row):
    """End of a stratum for one of its rows: clear LIMBO; without recursion, support decides."""
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    word = L[at >> 1] & ~(LIMBO | MOVED)
    L[at >> 1] = word
    if not L[RECURSIVE]:
        holds = (word & GIVEN) or A[at + SUPPORT] > 0
        L[at >> 1] = word & ~PENDING
        if holds and not (word & NOW):
            L[at >> 1] |= NOW
            L[rb + R_NOW] += 1
            index_row(A, L, r, row)
        elif not holds and (word & NOW):
            L[at >> 1] &= ~NOW
            L[rb + R_NOW] -= 1


@kernel("v:ALiii")
def _list_change(A, L, r, row, keep):
    """Put a row whose truth changed on its relation's list, once (LIMBO marks it)."""
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    word = L[cell]
    changed = ((word & NOW) != 0) != ((word & WAS) != 0)
    if keep and changed and not (word & LIMBO):
        L[cell] = word | LIMBO
        push(L, rb + R_CHANGED, row)


@kernel("v:ALPi")
def finish_stratum(A, L, P, t):
    """Settle the stratum's rows, fill late indexes, list the changed rows for later strata."""
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        for e in range(L[rb + R_CHANGED + 1]):
            _settle(A, L, r, L[L[rb + R_CHANGED] + e])
    for e in range(L[S_J0], L[J + 1], 3):
        value = L[L[J] + e]
        _settle(A, L, value >> 32, value & 0xFFFFFFFF)
    for e in range(L[S_Q0], L[Q + 1]):
        value = L[L[Q] + e]
        _settle(A, L, value >> 32, value & 0xFFFFFFFF)
    for k in range(P[t + T_NRELS]):
        rb = L[RELS] + P[P[t + T_RELS] + k] * RSZ
        for x in range(L[rb + R_IDX], L[rb + R_IDX] + L[rb + R_NIDX]):
            if L[L[IDXS] + x * XSZ + X_LATE]:
                fill_index(A, L, x)
    # All settled (LIMBO clear): from here on the flag marks rows that are listed.
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        edits = L[rb + R_CHANGED + 1]
        L[rb + R_CHANGED + 1] = 0
        for e in range(edits):  # the list is rebuilt in place: it never outruns its reader
            _list_change(A, L, r, L[L[rb + R_CHANGED] + e], L[rb + R_KEEP])
    for e in range(L[S_J0], L[J + 1], 3):
        value = L[L[J] + e]
        r = value >> 32
        _list_change(A, L, r, value & 0xFFFFFFFF, L[L[RELS] + r * RSZ + R_KEEP])
    for e in range(L[S_Q0], L[Q + 1]):
        value = L[L[Q] + e]
        r = value >> 32
        _list_change(A, L, r, value & 0xFFFFFFFF, L[L[RELS] + r * RSZ + R_KEEP])
