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
Between phases every support is exact for the state the phase leaves. The states in which a phase
sees the rows below are a function of the phase and the schedule; every schedule counts every
derivation once. `settle` ends the stratum.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.ahead import forget_probes, refill_queue
from deltafix.kernel.ask import begin_asking, end_asking
from deltafix.kernel.batch import count_batch, end_batches
from deltafix.kernel.best import next_open
from deltafix.kernel.filters import finds_nothing
from deltafix.kernel.fold import is_fold_touched, run_fold
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import run_variant
from deltafix.kernel.lanes import is_shared, next_in_lane, rows_left
from deltafix.kernel.phases import (
    given_in,
    given_out,
    next_below,
    next_created,
    next_full,
    next_queued,
    wipe,
)
from deltafix.kernel.settle import finish_stratum
from deltafix.kernel.wave import follow, next_suspect

RECOMPUTATION = 0x798  # WIPE, FULL, TAKE
AGAIN = 0x7A4  # WAVE, LOOK, TAKE
GAINS = 0x76  # CREATE, TAKE: nothing can be lost any more


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
        return np.int64(at.PHASE_GIVEN_OUT)  # given rows only: nothing to derive
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
    if phase == at.PHASE_DESTROY:
        before = np.int64(at.STATE_NEW if strategy == at.INSERTS_FIRST else at.STATE_MID)
        after = np.int64(at.STATE_UNION if strategy == at.INSERTS_FIRST else at.STATE_OLD)
    elif phase == at.PHASE_SAVE or phase == at.PHASE_CREATE:
        before = np.int64(at.STATE_OLD if strategy == at.INSERTS_FIRST else at.STATE_MID)
        after = np.int64(at.STATE_UNION if strategy == at.INSERTS_FIRST else at.STATE_NEW)
    elif phase == at.PHASE_WAVE and (strategy == at.DELETES_FIRST or strategy == at.DRED):
        before = after = np.int64(at.STATE_MID)
    elif phase == at.PHASE_TAKE and strategy == at.INSERTS_FIRST and L[at.S_PHASE] >= 16:
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
    derivations = np.int64(0)
    for k in range(P[t + at.T_NRELS]):
        derivations += L[L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ + at.R_DERIVATIONS]
    return derivations


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


OUTSIDE_PHASE = -2
FOLD_PHASE = -3


@kernel("i:AL")
def _tired(A, L):
    """Whether the run must go back to its caller: quota used, budget passed, or cancelled."""
    if L[at.CANCEL] != 0 and L[at.ERROR] == 0:
        L[at.ERROR] = at.ERR_CANCEL
    if L[at.ERROR] != 0 or L[at.C_PROBED] + L[at.C_DERIVATIONS] > L[at.QUOTA]:
        return np.int64(1)
    return np.int64(0)


@kernel("v:LPi")
def _batch(L, P, t):
    """From now on heads wait, if many rows are being created and nothing can be lost.

    Heads that go into folds do not; then only the rows to come are looked at early.
    """
    created = L[at.S_ROW] if L[at.PIPE] else L[at.S_QUEUED]
    if (
        L[at.BATCH] == 0
        and created >= L[at.BATCH_FROM]
        and (
            L[at.S_PHASE] == at.PHASE_TAKE
            or L[at.S_PHASE] % 16 == at.PHASE_FULL
            or (L[at.S_PHASE] == GAINS and L[at.S_MODE] == at.MODE_CREATE)
        )
        and not P[t + at.T_BEST]
    ):
        L[at.BATCH] = 1
        forget_probes(L)


@kernel("v:ALPi")
def _count_batches(A, L, P, t):
    """Count the heads that wait in the stratum's relations."""
    for k in range(P[t + at.T_NRELS]):
        count_batch(A, L, np.int64(P[P[t + at.T_RELS] + k]))


@kernel("i:ALPi")
def _next_task(A, L, P, t):
    """Find the next task of the phase at hand. 0: the phase is over.

    2: lanes go on with it. 3: Python is to be asked.
    """
    phase = L[at.S_PHASE] % 16
    if phase == at.PHASE_GIVEN_OUT:
        given_out(A, L, P, t)
    elif phase == at.PHASE_DESTROY:
        return next_below(A, L, P, t, at.MODE_DESTROY, 0)
    elif phase == at.PHASE_SAVE:
        if L[at.HEAP + 1] > 0:
            L[at.S_MODE] = at.MODE_REST
            return next_below(A, L, P, t, at.MODE_SAVE, 1)
    elif phase == at.PHASE_WAVE:
        # A later wave repairs what a recomputation displaced: giving it up would never end.
        if L[at.HEAP + 1] > 0 and L[at.S_PHASE] != AGAIN and is_hopeless(L, P, t):
            L[at.C_ABANDONED] += 1
            L[at.S_MODE] = at.MODE_CREATE
            # the digit of the wave itself is dropped next
            L[at.S_PHASE] = RECOMPUTATION * 16
            return np.int64(0)
        return next_suspect(A, L, P, t)
    elif phase == at.PHASE_GIVEN_IN:
        given_in(A, L, P, t)
    elif phase == at.PHASE_CREATE:
        _batch(L, P, t)
        return next_below(A, L, P, t, L[at.S_MODE], 1)
    elif phase == at.PHASE_TAKE:
        _batch(L, P, t)
        if L[at.RECURSIVE]:
            if L[at.S_HEAD] == L[at.Q + 1]:
                refill_queue(L)
            if is_shared(L, P, t, L[at.Q + 1] - L[at.S_HEAD]):
                return np.int64(2)
        if L[at.RECURSIVE] and next_created(A, L, P, t):
            return np.int64(1)
        if L[at.BATCH]:
            _count_batches(A, L, P, t)
            return next_created(A, L, P, t) if L[at.RECURSIVE] else np.int64(0)
    elif phase == at.PHASE_WIPE:
        L[at.S_FULL] = 1
        L[at.S_WORK] = work_done(L)
        wipe(A, L, P, t)
    elif phase == at.PHASE_FULL:
        _batch(L, P, t)
        through = L[at.PASSED_NEXT] == L[at.PASSED] and L[at.FRAME] == L[at.VECTORS]
        if L[at.S_ROW] > 0 and through and is_shared(L, P, t, rows_left(L, P, t)):
            return np.int64(2)
        return next_full(A, L, P, t)
    elif phase == at.PHASE_LOOK:
        return next_open(A, L, P, t)
    return np.int64(0)


@kernel("i:ALPi")
def _next_asking(A, L, P, t):
    """Find the next row of the phase, whose calls of functors are collected. 0: it is enough.

    Of a table of which few rows pass, rows that are dropped count as looked at, too.
    """
    if L[at.ERROR] != 0 or L[at.C_PROBED] + L[at.C_DERIVATIONS] > L[at.QUOTA]:
        return np.int64(0)
    phase = L[at.S_PHASE] % 16
    if (
        phase == at.PHASE_FULL
    ):  # the next rule may be evaluated from elsewhere when its turn has come
        item = L[at.S_ITEM]
        return np.int64(next_full(A, L, P, t) != 0 and L[at.S_ITEM] == item)
    if phase == at.PHASE_TAKE:
        return next_queued(A, L, P, t)
    return next_below(A, L, P, t, L[at.T_MODE], np.int64(phase != at.PHASE_DESTROY))


@kernel("i:LPi")
def _is_read_changed(L, P, t):
    """Whether an outside stratum has anything to do."""
    if P[t + at.T_FRESH]:
        return np.int64(1)
    if P[t + at.T_FOLD]:
        return is_fold_touched(L, P, t)
    for k in range(P[t + at.T_NREADS]):
        if L[L[at.RELS] + P[P[t + at.T_READS] + k] * at.RSZ + at.R_CHANGED + 1] > 0:
            return np.int64(1)
    return np.int64(0)


@kernel("i:ALP")
def _advance(A, L, P):
    """Find the next task of the epoch: GO, or how the run ends for now."""
    if L[at.LANE]:
        return next_in_lane(A, L, P, np.int64(P[P[1] + L[at.S_STRATUM]]))
    while L[at.S_STRATUM] < P[0]:
        t = np.int64(P[P[1] + L[at.S_STRATUM]])
        if L[at.S_PHASE] == OUTSIDE_PHASE:  # Python has computed it
            L[at.S_PHASE] = -1
            L[at.S_STRATUM] += 1
            continue
        if L[at.S_PHASE] == -1 and P[t + at.T_OUTSIDE]:
            if _is_read_changed(L, P, t) == 0:
                L[at.S_STRATUM] += 1
                continue
            L[at.C_STRATA] += 1
            if P[t + at.T_FOLD] == 0:
                L[at.S_PHASE] = OUTSIDE_PHASE
                return np.int64(at.OUTSIDE)
            L[at.S_PHASE] = FOLD_PHASE
            L[at.S_ITEM] = 0
        if L[at.S_PHASE] == FOLD_PHASE:
            if _tired(A, L):
                return np.int64(at.STOPPED) if L[at.ERROR] != 0 else np.int64(at.YIELD)
            folded = run_fold(A, L, P, t)
            if folded < 0:
                return np.int64(at.OUTSIDE)
            if folded:
                L[at.S_PHASE] = -1
                L[at.S_STRATUM] += 1
                if L[at.BY_STRATUM]:
                    return np.int64(at.YIELD)
            continue
        if L[at.S_PHASE] == -1:
            # Where one row per key is kept, there is one schedule besides recomputation.
            fixed = P[t + at.T_BEST] and L[at.SCHEDULE] != at.RECOMPUTE
            L[at.STRATEGY] = at.WAVEFRONT if fixed else L[at.SCHEDULE]
            L[at.S_PHASE] = script_of(A, L, P, t)
            if L[at.S_PHASE] == 0:
                L[at.S_PHASE] = -1
                L[at.S_STRATUM] += 1
                continue
            L[at.C_STRATA] += 1
            L[at.RECURSIVE] = P[t + at.T_RECURSIVE]
            L[at.PIPE] = P[t + at.T_PIPE]
            L[at.S_MODE] = at.MODE_CREATE
            L[at.S_CREATED] = L[at.CREATED + 1]
            L[at.S_J0] = L[at.J + 1]
            L[at.S_HEAD] = 0
            L[at.S_QUEUED] = 0
            L[at.S_FULL] = 0
            L[at.S_REST] = 0
            L[at.S_VAIN] = 0
            L[at.S_WORK] = work_done(L)
            set_states(L)
        while L[at.S_PHASE] > 0:
            if L[at.T_THEN] != at.THEN_NEXT:
                follow(A, L, P, t)
                if L[at.T_LEFT] > 0:
                    return np.int64(at.GO)
                continue
            if _tired(A, L):
                return np.int64(at.STOPPED) if L[at.ERROR] != 0 else np.int64(at.YIELD)
            status = _next_task(A, L, P, t)
            if status == 2:
                return np.int64(at.SHARE)
            if status == 3:
                return np.int64(at.ASK)
            if status:
                return np.int64(at.GO)
            # Displaced rows leave suspects behind: another wave, until there are none.
            again = P[t + at.T_BEST] and L[at.S_PHASE] == at.PHASE_TAKE and L[at.HEAP + 1] > 0
            L[at.S_PHASE] = AGAIN if again else L[at.S_PHASE] // 16
            set_states(L)
        if L[at.ERROR] != 0:  # a batch may pass a bound when it is counted, and nothing follows
            return np.int64(at.STOPPED)
        if L[at.BATCH]:
            end_batches(L)
        finish_stratum(A, L, P, t)
        if L[at.S_FULL]:
            note_work(L, P, t)
        L[at.S_PHASE] = -1
        L[at.S_STRATUM] += 1
        if L[at.BY_STRATUM]:
            return np.int64(at.YIELD)
    return np.int64(at.DONE)


@kernel("i:ALP")
def maintain(A, L, P):
    """Run the epoch, or go on with it: DONE, YIELD (call again) or STOPPED (see ERROR).

    ASK: enter the values of the calls in ASKS (`edit.answer`) and call again.
    OUTSIDE: compute stratum S_STRATUM (`edit.settle_rows`) and call again; one that the kernel
    folds has a total beyond its bound. SHARE: have lanes do a round (`lanes`), and call again.

    S_STRATUM is -1 at the start (`edit` leaves it so). Cost: O(changed rows and the rows of the
    literals joined with them), times log for suspects. The one place that calls `run_variant`:
    each further one would compile the whole join again (docs/kernel.md, "Compile time").
    """
    if L[at.S_STRATUM] < 0:
        for c in range(at.C_DERIVATIONS, at.C_ABANDONED + 1):
            L[c] = 0
        for c in range(L[at.N_RULES]):
            L[L[at.RULE_COUNTS] + c] = 0
        L[at.S_STRATUM] = 0
        L[at.S_PHASE] = -1
        L[at.T_LEFT] = 0
        L[at.T_THEN] = at.THEN_NEXT
        L[at.ASKS + 1] = 0
        L[at.PASSED] = 0
        L[at.PASSED_NEXT] = 0
        L[at.BEGUN] = 0
        L[at.FRAME] = L[at.VECTORS]
    while True:
        while L[at.T_LEFT] > 0:
            if L[at.LANE] and L[at.QUOTA] < 0:  # a partition is full: not a head more
                return np.int64(at.YIELD)
            v = np.int64(P[L[at.T_NEXT]])
            L[at.T_NEXT] += 1
            L[at.T_LEFT] -= 1
            if L[at.T_MODE] == at.MODE_QUERY and L[at.UNFOUND] == 0:
                continue  # all derivations are found, or it has given up
            if not L[at.LANE] and finds_nothing(A, L, P, v, L[at.T_ROW]):
                L[at.BEGUN] = 0
                L[at.CHOSEN] = 0
                continue
            run_variant(A, L, P, v, L[at.T_ROW], L[at.T_MODE])
            if L[at.PAUSED]:  # the same variant again, when the caller comes back
                L[at.T_NEXT] -= 1
                L[at.T_LEFT] += 1
                if L[at.ASKING]:
                    end_asking(L)
                    return np.int64(at.ASK)
                if L[at.ASKED] < 0:
                    return np.int64(at.YIELD)
                phase = L[at.S_PHASE] % 16
                if (
                    phase != at.PHASE_DESTROY
                    and phase != at.PHASE_SAVE
                    and phase != at.PHASE_CREATE
                    and phase != at.PHASE_FULL
                    and (phase != at.PHASE_TAKE or P[P[P[1] + L[at.S_STRATUM]] + at.T_BEST])
                ):
                    return np.int64(at.ASK)
                begin_asking(A, L)
        if L[at.ASKING]:
            if _next_asking(A, L, P, np.int64(P[P[1] + L[at.S_STRATUM]])) == 0:
                end_asking(L)
                return np.int64(at.ASK)
            continue
        outcome = _advance(A, L, P)
        if outcome != at.GO:
            return outcome
