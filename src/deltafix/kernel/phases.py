"""Finding the tasks of a phase: which variant runs next, on which row.

A phase (see `maintain`) is a search for tasks: changes below, rows given or no longer given,
created facts, rules from scratch. Invariant: where a search stands is in header cells (S_ITEM,
S_ROW, S_HEAD), so it goes on after any pause. Nothing here runs a variant.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.ahead import look_ahead, look_ahead_in
from deltafix.kernel.best import admit, take
from deltafix.kernel.emit import touch
from deltafix.kernel.heap import heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    BATCH,
    C_TAKEN,
    CLOCK,
    ERR_ROUNDS,
    ERROR,
    FLAGS,
    GAP,
    GIVEN,
    HEAP,
    IDXS,
    LIMBO,
    MAX_ROUNDS,
    MODE_CREATE,
    MODE_QUERY,
    MOVED,
    NOW,
    OPEN,
    PENDING,
    R_ALL,
    R_BEST,
    R_CHANGED,
    R_DERIVATIONS,
    R_IDX,
    R_N,
    R_NIDX,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    R_WAS,
    RANK_SHIFT,
    RECURSIVE,
    RELS,
    RSZ,
    S_BEFORE,
    S_HEAD,
    S_ITEM,
    S_ROW,
    STATE_MID,
    SUPPORT,
    T_BEST,
    T_CONST,
    T_FULL,
    T_HELD,
    T_LEFT,
    T_LOWER,
    T_MODE,
    T_NCONST,
    T_NEXT,
    T_NFULL,
    T_NLOWER,
    T_NRELS,
    T_REDERIVE,
    T_RELS,
    T_ROW,
    THEN_RECOUNT,
    V_BEFORE,
    V_NBEFORE,
    V_NEGATED,
    V_TRIGGER,
    WAS,
    X_LATE,
    X_USED,
    XSZ,
    Q,
)
from deltafix.kernel.memory import push
from deltafix.kernel.task import set_task


@kernel("i:LPi")
def _idle_variant(L, P, v):
    """Whether a literal before the trigger has no row in MID, so that nothing can be found."""
    if L[S_BEFORE] != STATE_MID:
        return np.int64(0)
    for k in range(P[v + V_NBEFORE]):
        if L[L[RELS] + P[P[v + V_BEFORE] + k] * RSZ + R_WAS] == 0:
            return np.int64(1)
    return np.int64(0)


@kernel("v:Liii")
def _set_one(L, place, row, mode):
    """Make one variant, whose offset stands at `place` of the program, the next task."""
    L[T_NEXT] = place
    L[T_LEFT] = 1
    L[T_ROW] = row
    L[T_MODE] = mode


@kernel("i:LPiii")
def next_below(L, P, t, mode, added):
    """Take the next change below as a task; `added` 1: one that makes derivations. 0: none."""
    n = np.int64(P[t + T_NLOWER])
    while L[S_ITEM] < n:
        item = P[t + T_LOWER] + 2 * L[S_ITEM]
        r = np.int64(P[item])
        v = np.int64(P[item + 1])
        rb = L[RELS] + r * RSZ
        want = (1 - added) if P[v + V_NEGATED] else added
        if L[rb + R_CHANGED + 1] > 0 and _idle_variant(L, P, v) == 0:
            while L[S_ROW] < L[rb + R_CHANGED + 1]:
                row = L[L[rb + R_CHANGED] + L[S_ROW]]
                L[S_ROW] += 1
                flags = L[(L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1]
                if (flags & (NOW | WAS)) == (NOW if want else WAS):
                    _set_one(L, item + 1, row, mode)
                    return np.int64(1)
        L[S_ROW] = 0
        L[S_ITEM] += 1
    return np.int64(0)


@kernel("v:ALPi")
def given_out(A, L, P, t):
    """Rows no longer given and without support become suspects (recursive strata)."""
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        for e in range(L[rb + R_CHANGED + 1]):
            row = L[L[rb + R_CHANGED] + e]
            at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
            word = L[at >> 1]
            if (word & NOW) and not (word & GIVEN) and A[at + SUPPORT] == 0 and L[RECURSIVE]:
                heap_push(L, word >> RANK_SHIFT, 0, False, (r << 32) | row)


@kernel("v:ALiii")
def _queue(A, L, r, row, support):
    """Queue an allocated row that does not hold yet, with the next rank."""
    touch(A, L, r, row)
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    L[CLOCK] += GAP
    L[at >> 1] = (L[CLOCK] << RANK_SHIFT) | (L[at >> 1] & FLAGS & ~LIMBO) | PENDING
    A[at + SUPPORT] = support
    push(L, Q, (r << 32) | row)


@kernel("v:ALPi")
def given_in(A, L, P, t):
    """Rows newly given that do not hold are queued."""
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        for e in range(L[rb + R_CHANGED + 1]):
            row = L[L[rb + R_CHANGED] + e]
            word = L[(L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1]
            if (word & GIVEN) and not (word & (NOW | PENDING)):
                _queue(A, L, r, row, 0)


@kernel("i:ALPi")
def next_created(A, L, P, t):
    """Take the next created fact off the queue: it becomes true. 0: the queue is empty."""
    while L[S_HEAD] < L[Q + 1]:
        if L[BATCH]:
            look_ahead(A, L, P, t)
        value = L[L[Q] + L[S_HEAD]]
        L[S_HEAD] += 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        if not (L[at >> 1] & PENDING):
            continue
        L[C_TAKEN] += 1
        if 0 < L[MAX_ROUNDS] < L[C_TAKEN]:
            L[ERROR] = ERR_ROUNDS
        L[T_HELD] = -1
        if L[rb + R_BEST] and admit(A, L, r, row) == 0:
            continue
        if P[t + T_BEST] and (L[at >> 1] & MOVED or A[at + SUPPORT] == 0):
            set_task(A, L, P, t, T_REDERIVE, r, row, MODE_QUERY, THEN_RECOUNT)
        else:
            take(A, L, P, t, r, row)
        return np.int64(1)
    return np.int64(0)


@kernel("v:ALPi")
def wipe(A, L, P, t):
    """Forget every derived fact of the stratum; given ones are queued again.

    Its empty indexes are late from here on: most are read by later edits only, and are filled in
    one go. (Where one row per key is kept, rows are also looked up outside joins.)
    """
    L[HEAP + 1] = 0
    L[OPEN + 1] = 0
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        L[rb + R_DERIVATIONS] = 0
        for x in range(L[rb + R_IDX], L[rb + R_IDX] + L[rb + R_NIDX]):
            xb = L[IDXS] + x * XSZ
            L[xb + X_LATE] = L[xb + X_USED] == 0 and not P[t + T_BEST]
        for row in range(L[rb + R_N]):
            at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
            word = L[at >> 1]
            if word & (NOW | GIVEN | PENDING | LIMBO):
                touch(A, L, r, row)
                if L[rb + R_ALL]:
                    A[at + L[rb + R_ALL]] = 0
                A[at + SUPPORT] = 0
                if word & NOW:
                    L[rb + R_NOW] -= 1
                L[at >> 1] &= ~(NOW | PENDING)
                if word & GIVEN:
                    _queue(A, L, r, row, 0)


@kernel("i:ALPi")
def next_full(A, L, P, t):
    """Take the next row of a rule evaluated from scratch as a task. 0: all rules are done.

    A rule starts from the literal with the fewest rows.
    """
    first = np.int64(P[t + T_NCONST])
    if L[S_ITEM] < first:
        _set_one(L, P[t + T_CONST] + L[S_ITEM], -1, MODE_CREATE)
        L[S_ITEM] += 1
        return np.int64(1)
    while L[S_ITEM] - first < P[t + T_NFULL]:
        group = np.int64(P[P[t + T_FULL] + L[S_ITEM] - first])
        best = group + 1
        for place in range(group + 2, group + 1 + P[group]):
            a = L[L[RELS] + P[P[place] + V_TRIGGER] * RSZ + R_NOW]
            if a < L[L[RELS] + P[P[best] + V_TRIGGER] * RSZ + R_NOW]:
                best = np.int64(place)
        r = np.int64(P[P[best] + V_TRIGGER])
        rb = L[RELS] + r * RSZ
        while L[S_ROW] < L[rb + R_N]:
            row = L[S_ROW]
            if L[BATCH]:
                look_ahead_in(A, L, P, best, r)
            L[S_ROW] += 1
            if L[(L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1] & NOW:
                _set_one(L, best, row, MODE_CREATE)
                return np.int64(1)
        L[S_ROW] = 0
        L[S_ITEM] += 1
    return np.int64(0)
