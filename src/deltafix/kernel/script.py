"""Which phases a stratum needs in an epoch, and which states the rows below are seen in.

A script is a number whose hex digits, read from the right, are phases. Invariant: the states of
a phase are a function of the phase and the schedule; every schedule counts every derivation once.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    C_DERIVATIONS,
    C_PROBED,
    C_TRIED,
    DELETES_FIRST,
    DRED,
    INSERTS_FIRST,
    PATIENCE,
    R_CHANGED,
    R_DERIVATIONS,
    R_FOUND,
    R_NOW,
    R_WAS,
    R_WORK,
    RECOMPUTE,
    RELS,
    RSZ,
    S_AFTER,
    S_BEFORE,
    S_FULL,
    S_ITEM,
    S_PHASE,
    S_ROW,
    S_WORK,
    STATE_MID,
    STATE_NEW,
    STATE_OLD,
    STATE_UNION,
    STRATEGY,
    T_BEST,
    T_FRESH,
    T_LOWER,
    T_NCONST,
    T_NLOWER,
    T_NRELS,
    T_RECURSIVE,
    T_RELS,
    WAVEFRONT,
)

RECOMPUTATION = 0x798  # WIPE, FULL, TAKE
AGAIN = 0x7A4  # WAVE, LOOK, TAKE
(GIVEN_OUT, DESTROY, SAVE, WAVE, GIVEN_IN, CREATE, TAKE, WIPE, FULL, LOOK) = range(1, 11)


@kernel("i:ALPi")
def script_of(A, L, P, t):
    """Which phases stratum `t` needs in this epoch; 0: none, it is skipped."""
    edited = np.int64(0)
    holds = np.int64(0)
    for k in range(P[t + T_NRELS]):
        rb = L[RELS] + P[P[t + T_RELS] + k] * RSZ
        edited += L[rb + R_CHANGED + 1]
        holds += L[rb + R_NOW] + L[rb + R_WAS]
    changed = np.int64(0)
    below = np.int64(0)
    seen = np.int64(-1)
    for k in range(P[t + T_NLOWER]):
        r = np.int64(P[P[t + T_LOWER] + 2 * k])
        if r != seen:
            rb = L[RELS] + r * RSZ
            changed += L[rb + R_CHANGED + 1]
            below += L[rb + R_NOW]
            seen = r
    if P[t + T_FRESH] == 0 and edited == 0 and changed == 0:
        return np.int64(0)
    if P[t + T_NLOWER] == 0 and P[t + T_NCONST] == 0 and not P[t + T_RECURSIVE]:
        return np.int64(GIVEN_OUT)  # given rows only: nothing to derive
    strategy = L[STRATEGY]
    if P[t + T_FRESH] or strategy == RECOMPUTE or (holds == 0 and changed * 2 > below):
        return np.int64(RECOMPUTATION)
    if strategy == DELETES_FIRST or strategy == DRED:
        return np.int64(0x765421)
    if strategy == INSERTS_FIRST:
        return np.int64(0x421756)
    return np.int64(0x7A654321) if P[t + T_BEST] else np.int64(0x7654321)


@kernel("v:L")
def set_states(L):
    """Which states the literals below see in the phase that begins."""
    phase = L[S_PHASE] % 16
    strategy = L[STRATEGY]
    before = np.int64(STATE_NEW)
    after = np.int64(STATE_NEW)
    if phase == DESTROY:
        before = np.int64(STATE_NEW if strategy == INSERTS_FIRST else STATE_MID)
        after = np.int64(STATE_UNION if strategy == INSERTS_FIRST else STATE_OLD)
    elif phase == SAVE or phase == CREATE:
        before = np.int64(STATE_OLD if strategy == INSERTS_FIRST else STATE_MID)
        after = np.int64(STATE_UNION if strategy == INSERTS_FIRST else STATE_NEW)
    elif phase == WAVE and (strategy == DELETES_FIRST or strategy == DRED):
        before = after = np.int64(STATE_MID)
    elif phase == TAKE and strategy == INSERTS_FIRST and L[S_PHASE] >= 16:
        before = after = np.int64(STATE_UNION)
    L[S_BEFORE] = before
    L[S_AFTER] = after
    L[S_ITEM] = 0
    L[S_ROW] = 0


@kernel("i:L")
def work_done(L):
    """What the run has cost so far: rows looked at, derivations, and looks that found nothing."""
    return L[C_PROBED] + L[C_DERIVATIONS] + L[C_TRIED]


@kernel("i:LPi")
def _derivations(L, P, t):
    """The derivations of the stratum's rows that hold."""
    found = np.int64(0)
    for k in range(P[t + T_NRELS]):
        found += L[L[RELS] + P[P[t + T_RELS] + k] * RSZ + R_DERIVATIONS]
    return found


@kernel("v:LPi")
def note_work(L, P, t):
    """Remember what evaluating the stratum from nothing has cost."""
    rb = L[RELS] + P[P[t + T_RELS]] * RSZ
    L[rb + R_WORK] = work_done(L) - L[S_WORK]
    L[rb + R_FOUND] = _derivations(L, P, t)
    L[S_FULL] = 0


@kernel("i:LPi")
def is_hopeless(L, P, t):
    """Whether the wave has cost more than recomputing the stratum would: then give it up.

    Points-to sets over a hub: one edit's wave took 94 s where recomputation takes 2 (bench,
    points-to). What recomputing would cost is what it did cost, by derivation: from 2.5 units of
    `work_done` (galen) to 30 (types of Python, 200 rules), so no one figure serves all. An
    abandoned wave adds at most once more what the recomputation takes.
    """
    work = work_done(L) - L[S_WORK]
    if L[STRATEGY] != WAVEFRONT or work < L[PATIENCE]:
        return np.int64(0)
    rb = L[RELS] + P[P[t + T_RELS]] * RSZ
    again = L[rb + R_WORK] / max(L[rb + R_FOUND], 1) * _derivations(L, P, t)
    return np.int64(1) if work > again else np.int64(0)
