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

from deltafix.kernel.ahead import forget_probes
from deltafix.kernel.batch import count_batch, end_batches
from deltafix.kernel.best import next_open
from deltafix.kernel.fold import run_fold
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import run_variant
from deltafix.kernel.layout import (
    ASK,
    ASKED,
    BATCH,
    BATCH_FROM,
    BY_STRATUM,
    C_ABANDONED,
    C_DERIVATIONS,
    C_PROBED,
    C_STRATA,
    CANCEL,
    DONE,
    ERR_CANCEL,
    ERROR,
    GO,
    HEAP,
    MODE_CREATE,
    MODE_DESTROY,
    MODE_QUERY,
    MODE_REST,
    MODE_SAVE,
    N_RULES,
    OUTSIDE,
    PAUSED,
    QUOTA,
    R_CHANGED,
    RECOMPUTE,
    RECURSIVE,
    RELS,
    RSZ,
    RULE_COUNTS,
    S_FULL,
    S_HEAD,
    S_ITEM,
    S_J0,
    S_MODE,
    S_PHASE,
    S_Q0,
    S_REST,
    S_STRATUM,
    S_VAIN,
    S_WORK,
    SCHEDULE,
    STOPPED,
    STRATEGY,
    T_BEST,
    T_FOLD,
    T_FRESH,
    T_LEFT,
    T_MODE,
    T_NEXT,
    T_NREADS,
    T_NRELS,
    T_OUTSIDE,
    T_READS,
    T_RECURSIVE,
    T_RELS,
    T_ROW,
    T_THEN,
    THEN_NEXT,
    UNFOUND,
    WAVEFRONT,
    YIELD,
    J,
    Q,
)
from deltafix.kernel.phases import given_in, given_out, next_below, next_created, next_full, wipe
from deltafix.kernel.script import (
    AGAIN,
    CREATE,
    DESTROY,
    FULL,
    GIVEN_IN,
    GIVEN_OUT,
    LOOK,
    RECOMPUTATION,
    SAVE,
    TAKE,
    WAVE,
    WIPE,
    is_hopeless,
    note_work,
    script_of,
    set_states,
    work_done,
)
from deltafix.kernel.settle import finish_stratum
from deltafix.kernel.wave import follow, next_suspect

OUTSIDE_PHASE = -2
FOLD_PHASE = -3


@kernel("i:AL")
def _tired(A, L):
    """Whether the run must go back to its caller: quota used, budget passed, or cancelled."""
    if L[CANCEL] != 0 and L[ERROR] == 0:
        L[ERROR] = ERR_CANCEL
    if L[ERROR] != 0 or L[C_PROBED] + L[C_DERIVATIONS] > L[QUOTA]:
        return np.int64(1)
    return np.int64(0)


@kernel("v:LPi")
def _batch(L, P, t):
    """From now on heads wait, if many rows are being created and nothing can be lost."""
    if (
        L[BATCH] == 0
        and L[Q + 1] - L[S_Q0] >= L[BATCH_FROM]
        and (L[S_PHASE] == TAKE or L[S_PHASE] % 16 == FULL)
        and not P[t + T_BEST]
    ):
        L[BATCH] = 1
        forget_probes(L)


@kernel("v:ALPi")
def _count_batches(A, L, P, t):
    """Count the heads that wait in the stratum's relations."""
    for k in range(P[t + T_NRELS]):
        count_batch(A, L, np.int64(P[P[t + T_RELS] + k]))


@kernel("i:ALPi")
def _next_task(A, L, P, t):
    """Find the next task of the phase at hand. 0: the phase is over."""
    phase = L[S_PHASE] % 16
    if phase == GIVEN_OUT:
        given_out(A, L, P, t)
    elif phase == DESTROY:
        return next_below(L, P, t, MODE_DESTROY, 0)
    elif phase == SAVE:
        if L[HEAP + 1] > 0:
            L[S_MODE] = MODE_REST
            return next_below(L, P, t, MODE_SAVE, 1)
    elif phase == WAVE:
        # A later wave repairs what a recomputation displaced: giving it up would never end.
        if L[HEAP + 1] > 0 and L[S_PHASE] != AGAIN and is_hopeless(L, P, t):
            L[C_ABANDONED] += 1
            L[S_MODE] = MODE_CREATE
            L[S_PHASE] = RECOMPUTATION * 16  # the digit of the wave itself is dropped next
            return np.int64(0)
        return next_suspect(A, L, P, t)
    elif phase == GIVEN_IN:
        given_in(A, L, P, t)
    elif phase == CREATE:
        return next_below(L, P, t, L[S_MODE], 1)
    elif phase == TAKE:
        _batch(L, P, t)
        if L[RECURSIVE] and next_created(A, L, P, t):
            return np.int64(1)
        if L[BATCH]:
            _count_batches(A, L, P, t)
            return next_created(A, L, P, t) if L[RECURSIVE] else np.int64(0)
    elif phase == WIPE:
        L[S_FULL] = 1
        L[S_WORK] = work_done(L)
        wipe(A, L, P, t)
    elif phase == FULL:
        _batch(L, P, t)
        return next_full(A, L, P, t)
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
            if _is_read_changed(L, P, t) == 0:
                L[S_STRATUM] += 1
                continue
            L[C_STRATA] += 1
            if P[t + T_FOLD] == 0:
                L[S_PHASE] = OUTSIDE_PHASE
                return np.int64(OUTSIDE)
            L[S_PHASE] = FOLD_PHASE
            L[S_ITEM] = 0
        if L[S_PHASE] == FOLD_PHASE:
            if _tired(A, L):
                return np.int64(STOPPED) if L[ERROR] != 0 else np.int64(YIELD)
            folded = run_fold(A, L, P, t)
            if folded < 0:
                return np.int64(OUTSIDE)
            if folded:
                L[S_PHASE] = -1
                L[S_STRATUM] += 1
                if L[BY_STRATUM]:
                    return np.int64(YIELD)
            continue
        if L[S_PHASE] == -1:
            # Where one row per key is kept, there is one schedule besides recomputation.
            fixed = P[t + T_BEST] and L[SCHEDULE] != RECOMPUTE
            L[STRATEGY] = WAVEFRONT if fixed else L[SCHEDULE]
            L[S_PHASE] = script_of(A, L, P, t)
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
            L[S_FULL] = 0
            L[S_REST] = 0
            L[S_VAIN] = 0
            L[S_WORK] = work_done(L)
            set_states(L)
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
            set_states(L)
        if L[BATCH]:
            end_batches(L)
        if L[S_FULL]:
            note_work(L, P, t)
        finish_stratum(A, L, P, t)
        L[S_PHASE] = -1
        L[S_STRATUM] += 1
        if L[BY_STRATUM]:
            return np.int64(YIELD)
    return np.int64(DONE)


@kernel("i:ALP")
def maintain(A, L, P):
    """Run the epoch, or go on with it: DONE, YIELD (call again) or STOPPED (see ERROR).

    ASK: enter the value of memo ASKED for the arguments in KEY (`edit.answer`) and call again.
    OUTSIDE: compute stratum S_STRATUM (`edit.settle_rows`) and call again; one that the kernel
    folds has a total beyond its bound.

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
            if L[T_MODE] == MODE_QUERY and L[UNFOUND] == 0:
                continue  # all derivations are found, or it has given up
            run_variant(A, L, P, v, L[T_ROW], L[T_MODE])
            if L[PAUSED]:  # the same variant again, when the caller comes back
                L[T_NEXT] -= 1
                L[T_LEFT] += 1
                return np.int64(ASK) if L[ASKED] >= 0 else np.int64(YIELD)
        outcome = _advance(A, L, P)
        if outcome != GO:
            return outcome
