"""Retraction and revival in rank order: the wavefront.

Suspects (facts whose support fell to 0) are taken up by ascending rank. A suspect is retracted:
what it supported loses a derivation. If some derivation over facts that still hold exists, it
waits in limbo until the wave reaches that derivation's highest body rank; if the body still
stands then, it is revived with a rank just above it, so that facts further up that need it get
their support back before their own turn comes. A revived fact offers itself to those in limbo.

Invariant: behind the wave every fact that holds has a support of lower rank (contract, point 3).
Ranks may tie: a support's rank is strictly lower, so ties cost precision, never correctness.
Source: `002_…` section 3 (ordinals), Ramalingam and Reps' repair order carried to derivations.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.emit import touch
from deltafix.kernel.heap import LATE, heap_pop, heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import run_variant
from deltafix.kernel.layout import (
    BEST,
    BEST_COUNT,
    C_DERIVATIONS,
    C_PROBED,
    C_RERANKED,
    C_RETRACTED,
    C_REVIVED,
    DRED,
    ERROR,
    FLAGS,
    GIVEN,
    HEAP,
    LIMBO,
    MODE_QUERY,
    MODE_RETRACT,
    MODE_REVIVE,
    NEVER,
    NOW,
    QUOTA,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
    STRATEGY,
    SUPPORT,
    T_NRELS,
    T_REDERIVE,
    T_RELS,
    T_SAME,
    WAVEFRONT,
)

__all__ = ["run_triggers", "run_wave"]

@kernel("i:Pii")
def _list_of(P, table, rel_position):  # type: ignore[no-untyped-def]
    """Offset of the variant list (count first) of a stratum's relation."""
    return np.int64(P[table + rel_position])


@kernel("i:Pii")
def _position(P, t, r):  # type: ignore[no-untyped-def]
    """Position of relation `r` among the relations of the stratum at `t`."""
    for k in range(P[t + T_NRELS]):
        if P[P[t + T_RELS] + k] == r:
            return np.int64(k)
    return np.int64(-1)


@kernel("v:ALPiiiii")
def run_triggers(A, L, P, t, field, r, row, mode):  # type: ignore[no-untyped-def]
    """Run every variant listed for relation `r` in the stratum's table `field` on one row."""
    at = _list_of(P, np.int64(P[t + field]), _position(P, t, r))
    for k in range(P[at]):
        run_variant(A, L, P, np.int64(P[at + 1 + k]), row, mode)


@kernel("v:ALPiii")
def _query(A, L, P, t, r, row):  # type: ignore[no-untyped-def]
    """Find the derivations of a row with the lowest body rank: BEST (NEVER: none), BEST_COUNT."""
    L[BEST] = NEVER
    L[BEST_COUNT] = 0
    run_triggers(A, L, P, t, T_REDERIVE, r, row, MODE_QUERY)


@kernel("v:ALPiii")
def _retract(A, L, P, t, r, row):  # type: ignore[no-untyped-def]
    """Take a suspect down, and give it a try at its best remaining derivation."""
    touch(A, L, r, row)
    L[C_RETRACTED] += 1
    run_triggers(A, L, P, t, T_SAME, r, row, MODE_RETRACT)
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    L[cell] = (NEVER << RANK_SHIFT) | (L[cell] & FLAGS & ~NOW) | LIMBO
    L[rb + R_NOW] -= 1
    _query(A, L, P, t, r, row)
    if L[BEST] < NEVER:
        L[cell] = (L[BEST] << RANK_SHIFT) | (L[cell] & FLAGS)
        heap_push(L, L[BEST], 1, L[STRATEGY] != WAVEFRONT, (r << 32) | row)


@kernel("v:ALPiiii")
def _revive(A, L, P, t, r, row, p):  # type: ignore[no-untyped-def]
    """Try a fact in limbo at wave rank `p`: its derivation is looked up again first."""
    _query(A, L, P, t, r, row)
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    best = L[BEST]
    if best > p:
        L[at >> 1] = (best << RANK_SHIFT) | (L[at >> 1] & FLAGS)
        if best < NEVER:
            heap_push(L, best, 1, L[STRATEGY] != WAVEFRONT, (r << 32) | row)
        return
    L[C_REVIVED] += 1
    L[C_RERANKED] += 1
    L[at >> 1] = ((best + 1) << RANK_SHIFT) | (L[at >> 1] & FLAGS & ~LIMBO) | NOW
    A[at + SUPPORT] = L[BEST_COUNT]
    L[rb + R_NOW] += 1
    run_triggers(A, L, P, t, T_SAME, r, row, MODE_REVIVE)


@kernel("i:ALPi")
def run_wave(A, L, P, t):  # type: ignore[no-untyped-def]
    """Empty the heap of stratum `t`. 1 when done, 0 to be called again (quota or error)."""
    while L[HEAP + 1] > 0:
        if L[ERROR] != 0 or L[C_PROBED] + L[C_DERIVATIONS] > L[QUOTA]:
            return np.int64(0)
        key = L[L[HEAP]]
        value = L[L[HEAP] + 1]
        heap_pop(L)
        if key >= LATE:
            key -= LATE
        p = (key >> 1) - 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        word = L[at >> 1]
        if (word >> RANK_SHIFT) != p:
            continue
        if key & 1:
            if word & LIMBO:
                _revive(A, L, P, t, r, row, p)
        elif (
            word & NOW
            and not (word & GIVEN)
            and (A[at + SUPPORT] == 0 or L[STRATEGY] == DRED)
        ):
            _retract(A, L, P, t, r, row)
    return np.int64(1)
