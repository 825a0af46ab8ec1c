"""The task at hand: which variants run next, on which row, and what follows them."""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    BEST,
    BEST_COUNT,
    C_PROBED,
    LOOKS,
    LOOKS_END,
    MODE_QUERY,
    NEVER,
    R_ALL,
    R_ROWS,
    R_STRIDE,
    RELS,
    RSZ,
    S_VAIN,
    T_LEFT,
    T_MODE,
    T_NEXT,
    T_NRELS,
    T_REL,
    T_RELS,
    T_ROW,
    T_THEN,
    UNFOUND,
)


@kernel("v:ALPiiiiii")
def set_task(A, L, P, t, field, r, row, mode, then):
    """Make the variants listed for relation `r` in the stratum's table `field` the next task."""
    place = np.int64(0)
    for k in range(P[t + T_NRELS]):
        if P[P[t + T_RELS] + k] == r:
            place = np.int64(k)
    at = np.int64(P[P[t + field] + place])
    L[T_NEXT] = at + 1
    L[T_LEFT] = P[at]
    L[T_REL] = r
    L[T_ROW] = row
    L[T_MODE] = mode
    L[T_THEN] = then
    if mode == MODE_QUERY:
        L[BEST] = NEVER
        L[BEST_COUNT] = 0
        rb = L[RELS] + r * RSZ
        L[UNFOUND] = -1
        L[LOOKS_END] = 0
        if L[rb + R_ALL]:
            if L[LOOKS]:
                L[LOOKS_END] = L[C_PROBED] + (L[LOOKS] >> L[S_VAIN])
            L[UNFOUND] = A[L[rb + R_ROWS] + row * L[rb + R_STRIDE] + L[rb + R_ALL]]
