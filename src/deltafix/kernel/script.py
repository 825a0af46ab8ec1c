"""Which phases a stratum needs in an epoch, and which states the rows below are seen in.

A script is a number whose hex digits, read from the right, are phases. Invariant: the states of
a phase are a function of the phase and the schedule; every schedule counts every derivation once.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel

RECOMPUTATION = 0x798  # WIPE, FULL, TAKE
AGAIN = 0x7A4  # WAVE, LOOK, TAKE
(GIVEN_OUT, DESTROY, SAVE, WAVE, GIVEN_IN, CREATE, TAKE, WIPE, FULL, LOOK) = range(1, 11)


@kernel("i:ALPi")
def script_of(A, L, P, t):
    """Which phases stratum `t` needs in this epoch; 0: none, it is skipped."""
    edited = np.int64(0)
    holds = np.int64(0)
    for k in range(P[t + at.T_NRELS]):
        rb = L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ
        edited += L[rb + at.R_CHANGED + 1]
        holds += L[rb + at.R_NOW] + L[rb + at.R_WAS]
    changed = np.int64(0)
    below = np.int64(0)
    seen = np.int64(-1)
    for k in range(P[t + at.T_NLOWER]):
        r = np.int64(P[P[t + at.T_LOWER] + 2 * k])
        if r != seen:
            rb = L[at.RELS] + r * at.RSZ
            changed += L[rb + at.R_CHANGED + 1]
            below += L[rb + at.R_NOW]
            seen = r
    if P[t + at.T_FRESH] == 0 and edited == 0 and changed == 0:
        return np.int64(0)
    if P[t + at.T_NLOWER] == 0 and P[t + at.T_NCONST] == 0 and not P[t + at.T_RECURSIVE]:
        return np.int64(GIVEN_OUT)  # given rows only: nothing to derive
    strategy = L[at.STRATEGY]
    if P[t + at.T_FRESH] or strategy == at.RECOMPUTE or (holds == 0 and changed * 2 > below):
        return np.int64(RECOMPUTATION)
    if strategy == at.DELETES_FIRST or strategy == at.DRED:
        return np.int64(0x765421)
    if strategy == at.INSERTS_FIRST:
        return np.int64(0x421756)
    return np.int64(0x7A654321) if P[t + at.T_BEST] else np.int64(0x7654321)


@kernel("v:L")
def set_states(L):
    """Which states the literals below see in the phase that begins."""
    phase = L[at.S_PHASE] % 16
    strategy = L[at.STRATEGY]
    before = np.int64(at.STATE_NEW)
    after = np.int64(at.STATE_NEW)
    if phase == DESTROY:
        before = np.int64(at.STATE_NEW if strategy == at.INSERTS_FIRST else at.STATE_MID)
        after = np.int64(at.STATE_UNION if strategy == at.INSERTS_FIRST else at.STATE_OLD)
    elif phase == SAVE or phase == CREATE:
        before = np.int64(at.STATE_OLD if strategy == at.INSERTS_FIRST else at.STATE_MID)
        after = np.int64(at.STATE_UNION if strategy == at.INSERTS_FIRST else at.STATE_NEW)
    elif phase == WAVE and (strategy == at.DELETES_FIRST or strategy == at.DRED):
        before = after = np.int64(at.STATE_MID)
    elif phase == TAKE and strategy == at.INSERTS_FIRST and L[at.S_PHASE] >= 16:
        before = after = np.int64(at.STATE_UNION)
    L[at.S_BEFORE] = before
    L[at.S_AFTER] = after
    L[at.S_ITEM] = 0
    L[at.S_ROW] = 0


@kernel("i:L")
def work_done(L):
    """What the run has cost so far: rows looked at, derivations, and looks that found nothing."""
    return L[at.C_PROBED] + L[at.C_DERIVATIONS] + L[at.C_TRIED]


@kernel("i:LPi")
def _derivations(L, P, t):
    """The derivations of the stratum's rows that hold."""
    found = np.int64(0)
    for k in range(P[t + at.T_NRELS]):
        found += L[L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ + at.R_DERIVATIONS]
    return found


@kernel("v:LPi")
def note_work(L, P, t):
    """Remember what evaluating the stratum from nothing has cost."""
    rb = L[at.RELS] + P[P[t + at.T_RELS]] * at.RSZ
    L[rb + at.R_WORK] = work_done(L) - L[at.S_WORK]
    L[rb + at.R_FOUND] = _derivations(L, P, t)
    L[at.S_FULL] = 0


@kernel("i:LPi")
def is_hopeless(L, P, t):
    """Whether the wave has cost more than recomputing the stratum would: then give it up.

    Points-to sets over a hub: one edit's wave took 94 s where recomputation takes 2 (bench,
    points-to). What recomputing would cost is what it did cost, by derivation: from 2.5 units of
    `work_done` (galen) to 30 (types of Python, 200 rules), so no one figure serves all. An
    abandoned wave adds at most once more what the recomputation takes.
    """
    work = work_done(L) - L[at.S_WORK]
    if L[at.STRATEGY] != at.WAVEFRONT or work < L[at.PATIENCE]:
        return np.int64(0)
    rb = L[at.RELS] + P[P[t + at.T_RELS]] * at.RSZ
    again = L[rb + at.R_WORK] / max(L[rb + at.R_FOUND], 1) * _derivations(L, P, t)
    return np.int64(1) if work > again else np.int64(0)
