"""Which row holds for a key, and whether a value beats another: see `kernel.best`."""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.index import bucket_start, idx_find, idx_key
from deltafix.kernel.jit import kernel
from deltafix.kernel.values import compare


@kernel("i:ALii")
def held_row(A, L, r, o):
    """The row of `r` that holds for the key of the columns at word `o`, or -1."""
    rb = L[at.RELS] + r * at.RSZ
    x = L[rb + at.R_BEST_INDEX]
    slot = idx_find(A, L, x, at.KEY2, idx_key(A, L, x, o - at.COLS))
    if slot < 0:
        return np.int64(-1)
    ref = (L[slot] & 0xFFFFFFFF) - 1
    inline = (L[slot + 1] >> 32) == 0
    start = bucket_start(L, ref)
    for k in range(L[slot + 1] & 0xFFFFFFFF):
        row = ref if inline else np.int64(A[start + k])
        if L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.NOW:
            return row
    return np.int64(-1)


@kernel("i:ALiii")
def beats(A, L, r, value, other):
    """Whether a code of the kept column is strictly better than another."""
    rb = L[at.RELS] + r * at.RSZ
    op = np.int64(at.LT) if L[rb + at.R_BEST] == 1 else np.int64(at.GT)
    return compare(A, L, L[rb + at.R_BEST_TYPE], op, value, other)


@kernel("i:ALii")
def outranked(A, L, r, o):
    """Whether the columns at word `o` do not beat the row that holds for their key."""
    held = held_row(A, L, r, o)
    if held < 0:
        return np.int64(0)
    rb = L[at.RELS] + r * at.RSZ
    column = L[rb + at.R_BEST_COL]
    other = np.int64(A[L[rb + at.R_ROWS] + held * L[rb + at.R_STRIDE] + at.COLS + column])
    return np.int64(1) - beats(A, L, r, np.int64(A[o + column]), other)
