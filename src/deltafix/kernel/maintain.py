"""One epoch as a resumable machine: strata in order, phases in the order of the strategy.

A stratum's epoch is a list of phases, hex digits of its script read from the right:

    1 GIVEN_OUT  rows no longer given, without support, become suspects
    2 DESTROY    changes below that break derivations
    3 SAVE       changes below that make derivations of heads that hold (only if suspects wait)
    4 WAVE       retract and revive
    5 GIVEN_IN   rows newly given that do not hold are queued
    6 CREATE     changes below that make derivations
    7 TAKE       the queue: a created fact becomes true, and what follows from it
    8 WIPE       forget what was derived (recomputation, changed rules)
    9 FULL       every rule from scratch over the state below
    A LOOK       what else is derived for keys whose one row fell (`best`)

Invariant: all positions live in header cells, so a run can stop at any row (`QUOTA`) and go on.
Between phases every support is exact for the state the phase leaves. `settle` ends the stratum.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.best import admit, next_open, take
from deltafix.kernel.emit import touch
from deltafix.kernel.heap import heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import run_variant
from deltafix.kernel.layout import (
    ASK,
    ASKED,
    BY_STRATUM,
    C_ABANDONED,
    C_DERIVATIONS,
    C_PROBED,
    C_STRATA,
    C_TAKEN,
    CANCEL,
    CLOCK,
    DELETES_FIRST,
    DONE,
    DRED,
    ERR_CANCEL,
    ERR_ROUNDS,
    ERROR,
    FLAGS,
    GAP,
    GIVEN,
    GO,
    HEAP,
    INSERTS_FIRST,
    LIMBO,
    MAX_ROUNDS,
    MODE_CREATE,
    MODE_DESTROY,
    MODE_QUERY,
    MODE_REST,
    MODE_SAVE,
    MOVED,
    N_RULES,
    NOW,
    OPEN,
    OUTSIDE,
    PATIENCE,
    PAUSED,
    PENDING,
    QUOTA,
    R_BEST,
    R_CHANGED,
    R_DERIVATIONS,
    R_N,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    R_WAS,
    RANK_SHIFT,
    RECOMPUTE,
    RECURSIVE,
    RELS,
    RSZ,
    RULE_COUNTS,
    S_AFTER,
    S_BEFORE,
    S_HEAD,
    S_ITEM,
    S_J0,
    S_MODE,
    S_PHASE,
    S_Q0,
    S_ROW,
    S_STRATUM,
    S_WORK,
    SCHEDULE,
    STATE_MID,
    STATE_NEW,
    STATE_OLD,
    STATE_UNION,
    STOPPED,
    STRATEGY,
    SUPPORT,
    T_BEST,
    T_CONST,
    T_FRESH,
    T_FULL,
    T_HELD,
    T_LEFT,
    T_LOWER,
    T_MODE,
    T_NCONST,
    T_NEXT,
    T_NFULL,
    T_NLOWER,
    T_NREADS,
    T_NRELS,
    T_OUTSIDE,
    T_READS,
    T_RECURSIVE,
    T_REDERIVE,
    T_RELS,
    T_ROW,
    T_THEN,
    THEN_NEXT,
    THEN_RECOUNT,
    V_BEFORE,
    V_NBEFORE,
    V_NEGATED,
    V_TRIGGER,
    WAS,
    WAVEFRONT,
    YIELD,
    J,
    Q,
)
from deltafix.kernel.memory import push
from deltafix.kernel.settle import finish_stratum
from deltafix.kernel.task import set_task
from deltafix.kernel.wave import follow, next_suspect

__all__ = ["maintain"]

RECOMPUTATION = 0x798  # WIPE, FULL, TAKE
AGAIN = 0x7A4  # WAVE, LOOK, TAKE
OUTSIDE_PHASE = -2
(GIVEN_OUT, DESTROY, SAVE, WAVE, GIVEN_IN, CREATE, TAKE, WIPE, FULL, LOOK) = range(1, 11)


@kernel("i:AL")
def _tired(A, L):
    """Whether the run must go back to its caller: quota used, budget passed, or cancelled."""
    if L[CANCEL] != 0 and L[ERROR] == 0:
        L[ERROR] = ERR_CANCEL
    if L[ERROR] != 0 or L[C_PROBED] + L[C_DERIVATIONS] > L[QUOTA]:
        return np.int64(1)
    return np.int64(0)


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
def _next_below(L, P, t, mode, added):
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
def _given_out(A, L, P, t):
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
def _given_in(A, L, P, t):
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
def _next_created(A, L, P, t):
    """Take the next created fact off the queue: it becomes true. 0: the queue is empty."""
    while L[S_HEAD] < L[Q + 1]:
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
            set_task(L, P, t, T_REDERIVE, r, row, MODE_QUERY, THEN_RECOUNT)
        else:
            take(A, L, P, t, r, row)
        return np.int64(1)
    return np.int64(0)


@kernel("v:ALPi")
def _wipe(A, L, P, t):
    """Forget every derived fact of the stratum; given ones are queued again."""
    L[HEAP + 1] = 0
    L[OPEN + 1] = 0
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        L[rb + R_DERIVATIONS] = 0
        for row in range(L[rb + R_N]):
            at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
            word = L[at >> 1]
            if word & (NOW | GIVEN | PENDING):
                touch(A, L, r, row)
                A[at + SUPPORT] = 0
                if word & NOW:
                    L[rb + R_NOW] -= 1
                L[at >> 1] &= ~(NOW | PENDING)
                if word & GIVEN:
                    _queue(A, L, r, row, 0)


@kernel("i:LPi")
def _next_full(L, P, t):
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
        rb = L[RELS] + P[P[best] + V_TRIGGER] * RSZ
        while L[S_ROW] < L[rb + R_N]:
            row = L[S_ROW]
            L[S_ROW] += 1
            if L[(L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1] & NOW:
                _set_one(L, best, row, MODE_CREATE)
                return np.int64(1)
        L[S_ROW] = 0
        L[S_ITEM] += 1
    return np.int64(0)


@kernel("i:ALPi")
def _script(A, L, P, t):
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
def _set_states(L):
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


@kernel("i:LPi")
def _hopeless(L, P, t):
    """Whether the wave has cost more than recomputing the stratum would: then give it up.

    Points-to sets over a hub: one edit's wave took 94 s where recomputation takes 2 (bench,
    points-to). A derivation found again costs about 2.5 units (galen), so an abandoned wave adds
    at most two fifths to the recomputation that follows it.
    """
    work = L[C_PROBED] + L[C_DERIVATIONS] - L[S_WORK]
    if L[STRATEGY] != WAVEFRONT or work < L[PATIENCE]:
        return np.int64(0)
    again = np.int64(0)
    for k in range(P[t + T_NRELS]):
        again += L[L[RELS] + P[P[t + T_RELS] + k] * RSZ + R_DERIVATIONS]
    return np.int64(1) if work > again else np.int64(0)


@kernel("i:ALPi")
def _next_task(A, L, P, t):
    """Find the next task of the phase at hand. 0: the phase is over."""
    phase = L[S_PHASE] % 16
    if phase == GIVEN_OUT:
        _given_out(A, L, P, t)
    elif phase == DESTROY:
        return _next_below(L, P, t, MODE_DESTROY, 0)
    elif phase == SAVE:
        if L[HEAP + 1] > 0:
            L[S_MODE] = MODE_REST
            return _next_below(L, P, t, MODE_SAVE, 1)
    elif phase == WAVE:
        # A later wave repairs what a recomputation displaced: giving it up would never end.
        if L[HEAP + 1] > 0 and L[S_PHASE] != AGAIN and _hopeless(L, P, t):
            L[C_ABANDONED] += 1
            L[S_MODE] = MODE_CREATE
            L[S_PHASE] = RECOMPUTATION * 16  # the digit of the wave itself is dropped next
            return np.int64(0)
        return next_suspect(A, L, P, t)
    elif phase == GIVEN_IN:
        _given_in(A, L, P, t)
    elif phase == CREATE:
        return _next_below(L, P, t, L[S_MODE], 1)
    elif phase == TAKE:
        if L[RECURSIVE]:
            return _next_created(A, L, P, t)
    elif phase == WIPE:
        _wipe(A, L, P, t)
    elif phase == FULL:
        return _next_full(L, P, t)
    elif phase == LOOK:
        return next_open(A, L, P, t)
    return np.int64(0)


@kernel("i:LPi")
def _is_read_changed(L, P, t):
    """Whether an outside stratum has anything to do."""
    if P[t + T_FRESH]:
        return np.int64(1)
    for k in range(P[t + T_NREADS]):
        if L[L[RELS] + P[P[t + T_READS] + k] * RSZ + R_CHANGED + 1] > 0:
            return np.int64(1)
    return np.int64(0)


@kernel("i:ALP")
def _advance(A, L, P):
    """Find the next task of the epoch: GO, or how the run ends for now."""
    while L[S_STRATUM] < P[0]:
        t = np.int64(P[P[1] + L[S_STRATUM]])
        if L[S_PHASE] == OUTSIDE_PHASE:  # Python has computed it
            L[S_PHASE] = -1
            L[S_STRATUM] += 1
            continue
        if L[S_PHASE] == -1 and P[t + T_OUTSIDE]:
            if _is_read_changed(L, P, t):
                L[C_STRATA] += 1
                L[S_PHASE] = OUTSIDE_PHASE
                return np.int64(OUTSIDE)
            L[S_STRATUM] += 1
            continue
        if L[S_PHASE] == -1:
            # Where one row per key is kept, there is one schedule besides recomputation.
            fixed = P[t + T_BEST] and L[SCHEDULE] != RECOMPUTE
            L[STRATEGY] = WAVEFRONT if fixed else L[SCHEDULE]
            L[S_PHASE] = _script(A, L, P, t)
            if L[S_PHASE] == 0:
                L[S_PHASE] = -1
                L[S_STRATUM] += 1
                continue
            L[C_STRATA] += 1
            L[RECURSIVE] = P[t + T_RECURSIVE]
            L[S_MODE] = MODE_CREATE
            L[S_Q0] = L[Q + 1]
            L[S_J0] = L[J + 1]
            L[S_HEAD] = L[Q + 1]
            L[S_WORK] = L[C_PROBED] + L[C_DERIVATIONS]
            _set_states(L)
        while L[S_PHASE] > 0:
            if L[T_THEN] != THEN_NEXT:
                follow(A, L, P, t)
                if L[T_LEFT] > 0:
                    return np.int64(GO)
                continue
            if _tired(A, L):
                return np.int64(STOPPED) if L[ERROR] != 0 else np.int64(YIELD)
            if _next_task(A, L, P, t):
                return np.int64(GO)
            # Displaced rows leave suspects behind: another wave, until there are none.
            again = P[t + T_BEST] and L[S_PHASE] == TAKE and L[HEAP + 1] > 0
            L[S_PHASE] = AGAIN if again else L[S_PHASE] // 16
            _set_states(L)
        finish_stratum(A, L, P, t)
        L[S_PHASE] = -1
        L[S_STRATUM] += 1
        if L[BY_STRATUM]:
            return np.int64(YIELD)
    return np.int64(DONE)


@kernel("i:ALP", door=True)
def maintain(A, L, P):
    """Run the epoch, or go on with it: DONE, YIELD (call again) or STOPPED (see ERROR).

    ASK: enter the value of memo ASKED for the arguments in KEY (`edit.answer`) and call again.
    OUTSIDE: compute stratum S_STRATUM (`edit.settle_rows`) and call again.

    S_STRATUM is -1 at the start (`edit` leaves it so). Cost: O(changed rows and the rows of the
    literals joined with them), times log for suspects. The one place that calls `run_variant`:
    each further one would compile the whole join again (docs/kernel.md, "Compile time").
    """
    if L[S_STRATUM] < 0:
        for c in range(C_DERIVATIONS, C_ABANDONED + 1):
            L[c] = 0
        for c in range(L[N_RULES]):
            L[L[RULE_COUNTS] + c] = 0
        L[S_STRATUM] = 0
        L[S_PHASE] = -1
        L[T_LEFT] = 0
        L[T_THEN] = THEN_NEXT
    while True:
        while L[T_LEFT] > 0:
            v = np.int64(P[L[T_NEXT]])
            L[T_NEXT] += 1
            L[T_LEFT] -= 1
            run_variant(A, L, P, v, L[T_ROW], L[T_MODE])
            if L[PAUSED]:  # the same variant again, when the caller comes back
                L[T_NEXT] -= 1
                L[T_LEFT] += 1
                return np.int64(ASK) if L[ASKED] >= 0 else np.int64(YIELD)
        outcome = _advance(A, L, P)
        if outcome != GO:
            return outcome
