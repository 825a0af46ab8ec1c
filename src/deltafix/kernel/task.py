"""The task at hand: which variants run next, on which row, and what follows them."""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel


@kernel("v:ALPiiiiii")
def set_task(A, L, P, t, field, r, row, mode, then):
    """Make the variants listed for relation `r` in the stratum's table `field` the next task."""
    position = np.int64(0)
    for k in range(P[t + at.T_NRELS]):
        if P[P[t + at.T_RELS] + k] == r:
            position = np.int64(k)
    offset = np.int64(P[P[t + field] + position])
    L[at.LOOK] += 1
    L[at.T_NEXT] = offset + 1
    L[at.T_LEFT] = P[offset]
    L[at.T_REL] = r
    L[at.T_ROW] = row
    L[at.T_MODE] = mode
    L[at.T_THEN] = then
    if mode == at.MODE_QUERY:
        L[at.BEST] = at.NEVER
        L[at.BEST_COUNT] = 0
        rb = L[at.RELS] + r * at.RSZ
        L[at.UNFOUND] = -1
        L[at.LOOKS_END] = 0
        if L[rb + at.R_ALL]:
            if L[at.LOOKS]:
                L[at.LOOKS_END] = L[at.C_PROBED] + (L[at.LOOKS] >> L[at.S_VAIN])
            L[at.UNFOUND] = A[L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + L[rb + at.R_ALL]]
