"""Finding the tasks of a phase: which variant runs next, on which row.

A phase (see `maintain`) is a search for tasks: changes below, rows given or no longer given,
created facts, rules from scratch. Invariant: where a search stands is in header cells (S_ITEM,
S_ROW, S_HEAD), so it goes on after any pause. Nothing here runs a variant but for blocks of rows.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.ahead import look_ahead, look_ahead_below, refill_queue, see_what_to_ask
from deltafix.kernel.aside import begin_aside, is_aside, must_ask
from deltafix.kernel.best import admit, take
from deltafix.kernel.block_join import evaluate_block, next_passed
from deltafix.kernel.columns import bind_head, put_heads
from deltafix.kernel.emit import touch
from deltafix.kernel.fold import empty_piped
from deltafix.kernel.heap import heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import emit, flush_heads
from deltafix.kernel.runs import push_run
from deltafix.kernel.start import choose_start
from deltafix.kernel.task import set_task


@kernel("i:LPi")
def _idle_variant(L, P, v):
    """Whether a literal before the trigger has no row in MID, so that nothing can be found."""
    if L[at.S_BEFORE] != at.STATE_MID:
        return np.int64(0)
    for k in range(P[v + at.V_NBEFORE]):
        if L[L[at.RELS] + P[P[v + at.V_BEFORE] + k] * at.RSZ + at.R_WAS] == 0:
            return np.int64(1)
    return np.int64(0)


@kernel("v:Liii")
def _set_variant(L, entry, row, mode):
    """Make one variant, whose offset stands at `entry` of the program, the next task."""
    L[at.LOOK] += 1
    L[at.T_NEXT] = entry
    L[at.T_LEFT] = 1
    L[at.T_ROW] = row
    L[at.T_MODE] = mode


@kernel("i:ALPiii")
def next_below(A, L, P, t, mode, added):
    """Take the next change below as a task; `added` 1: one that makes derivations. 0: none."""
    n = np.int64(P[t + at.T_NLOWER])
    while L[at.S_ITEM] < n:
        item = P[t + at.T_LOWER] + 2 * L[at.S_ITEM]
        r = np.int64(P[item])
        v = np.int64(P[item + 1])
        rb = L[at.RELS] + r * at.RSZ
        want = (1 - added) if P[v + at.V_NEGATED] else added
        if L[rb + at.R_CHANGED + 1] > 0 and _idle_variant(L, P, v) == 0:
            if L[at.S_ROW] == 0:
                see_what_to_ask(L, P, item + 1)
            while L[at.S_ROW] < L[rb + at.R_CHANGED + 1]:
                if L[at.BATCH]:
                    look_ahead_below(A, L, P, item + 1, r)
                row = L[L[rb + at.R_CHANGED] + L[at.S_ROW]]
                L[at.S_ROW] += 1
                flags = L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1]
                if (flags & (at.NOW | at.WAS)) == (at.NOW if want else at.WAS):
                    _set_variant(L, item + 1, row, mode)
                    return np.int64(1)
        L[at.S_ROW] = 0
        L[at.S_ITEM] += 1
    return np.int64(0)


@kernel("v:ALPi")
def given_out(A, L, P, t):
    """Rows no longer given and without support become suspects (recursive strata)."""
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        for e in range(L[rb + at.R_CHANGED + 1]):
            row = L[L[rb + at.R_CHANGED] + e]
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            word = L[offset >> 1]
            if (
                (word & at.NOW)
                and not (word & at.GIVEN)
                and A[offset + at.SUPPORT] == 0
                and L[at.RECURSIVE]
            ):
                heap_push(L, word >> at.RANK_SHIFT, 0, False, (r << 32) | row)


@kernel("v:ALiii")
def _queue(A, L, r, row, support):
    """Queue an allocated row that does not hold yet, with the next rank."""
    touch(A, L, r, row)
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    L[at.CLOCK] += at.GAP
    L[offset >> 1] = (
        (L[at.CLOCK] << at.RANK_SHIFT) | (L[offset >> 1] & at.FLAGS & ~at.LIMBO) | at.PENDING
    )
    A[offset + at.SUPPORT] = support
    L[at.S_QUEUED] += 1
    if L[at.RECURSIVE]:
        push_run(L, np.int64(at.WAITING), (r << 32) | row, np.int64(1))


@kernel("v:ALPi")
def given_in(A, L, P, t):
    """Rows newly given that do not hold are queued."""
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        for e in range(L[rb + at.R_CHANGED + 1]):
            row = L[L[rb + at.R_CHANGED] + e]
            word = L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1]
            if (word & at.GIVEN) and not (word & (at.NOW | at.PENDING)):
                _queue(A, L, r, row, 0)


@kernel("i:ALPi")
def next_created(A, L, P, t):
    """Take the next created fact off the queue: it becomes true. 0: the queue is empty."""
    while L[at.S_HEAD] < L[at.Q + 1] or refill_queue(L):
        if L[at.BATCH]:
            look_ahead(A, L, P, t)
        value = L[L[at.Q] + L[at.S_HEAD]]
        L[at.S_HEAD] += 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if not (L[offset >> 1] & at.PENDING):
            continue
        L[at.C_TAKEN] += 1
        if 0 < L[at.MAX_ROUNDS] < L[at.C_TAKEN]:
            L[at.ERROR] = at.ERR_ROUNDS
        L[at.T_HELD] = -1
        if L[rb + at.R_BEST] and admit(A, L, r, row) == 0:
            continue
        if P[t + at.T_BEST] and (L[offset >> 1] & at.MOVED or A[offset + at.SUPPORT] == 0):
            set_task(A, L, P, t, at.T_REDERIVE, r, row, at.MODE_QUERY, at.THEN_RECOUNT)
        else:
            take(A, L, P, t, r, row)
        return np.int64(1)
    return np.int64(0)


@kernel("i:ALPi")
def next_queued(A, L, P, t):
    """Look at the next created fact as `next_created` does, but leave it in the queue."""
    while L[at.S_HEAD] < L[at.Q + 1]:
        value = L[L[at.Q] + L[at.S_HEAD]]
        L[at.S_HEAD] += 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        if L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.PENDING:
            set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_TAKE, at.THEN_NEXT)
            return np.int64(1)
    return np.int64(0)


@kernel("v:ALPi")
def wipe(A, L, P, t):
    """Forget every derived fact of the stratum; given ones are queued again.

    Its empty indexes are late from here on: most are read by later edits only, and are filled in
    one go. (Where one row per key is kept, rows are also looked up outside joins.)
    """
    L[at.HEAP + 1] = 0
    L[at.OPEN + 1] = 0
    if L[at.PIPE]:
        empty_piped(A, L, P)
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        L[rb + at.R_DERIVATIONS] = 0
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            xb = L[at.IDXS] + x * at.XSZ
            if L[xb + at.X_USED] == 0:
                L[xb + at.X_LATE] = 0 if P[t + at.T_BEST] else at.LATE_NOW
        for row in range(L[rb + at.R_N]):
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            word = L[offset >> 1]
            if word & (at.NOW | at.GIVEN | at.PENDING | at.LIMBO):
                touch(A, L, r, row)
                if L[rb + at.R_ALL]:
                    A[offset + L[rb + at.R_ALL]] = 0
                A[offset + at.SUPPORT] = 0
                if word & at.NOW:
                    L[rb + at.R_NOW] -= 1
                L[offset >> 1] &= ~(at.NOW | at.PENDING)
                if word & at.GIVEN:
                    _queue(A, L, r, row, 0)


@kernel("v:ALPii")
def _evaluate(A, L, P, v, r):
    """Evaluate variant `v` for a block of rows of `r`, and have the heads counted."""
    first = L[at.S_ROW]
    heads = evaluate_block(A, L, P, v, r)
    L[at.QUOTA] -= max(L[at.S_ROW] - first, at.BLOCK)
    if L[at.PIPE]:
        arity = L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]
        most = min(at.EMIT_BLOCK, (at.EMIT_WORDS >> 1) // arity)
        for done in range(0, heads, most):
            put_heads(L, P, v, np.int64(done), min(heads - done, most))
            flush_heads(A, L, P, v, np.int64(at.MODE_CREATE))
        return
    for j in range(heads):
        bind_head(A, L, P, v, np.int64(j))
        emit(A, L, P, v, np.int64(-1), np.int64(at.MODE_CREATE))
    flush_heads(A, L, P, v, np.int64(at.MODE_CREATE))


@kernel("i:ALP")
def next_in_part(A, L, P):
    """Evaluate the rule at hand for a lane's next rows, or go on with them. 0: its part is done.

    1 with a task, or without: a partition of its batches may be full, and then heads are left that
    come first the next time.
    """
    if L[at.PASSED] > L[at.PASSED_NEXT]:
        _set_variant(L, L[at.S_START], next_passed(A, L), at.MODE_CREATE)
        return np.int64(1)
    v = np.int64(P[L[at.S_START]])
    if L[at.ITEM] == L[at.ITEMS]:
        if L[at.S_ROW] >= L[at.S_END] and L[at.FRAME] == L[at.VECTORS]:
            return np.int64(0)
        L[at.ITEMS] = evaluate_block(A, L, P, v, np.int64(P[v + at.V_TRIGGER]))
        L[at.ITEM] = 0
    while L[at.ITEM] < L[at.ITEMS] and L[at.QUOTA] >= 0:
        bind_head(A, L, P, v, L[at.ITEM])
        L[at.ITEM] += 1
        emit(A, L, P, v, np.int64(-1), np.int64(at.MODE_CREATE))
    return np.int64(1)


@kernel("i:ALPi")
def next_full(A, L, P, t):
    """Take the next row of a rule evaluated from scratch as a task. 0: all rules are done.

    1 without a task: a block of rows was evaluated, and the run is to look whether it must stop.
    3: Python is to be asked for values that rows wait for.
    """
    first = np.int64(P[t + at.T_NCONST])
    if L[at.S_ITEM] < first:
        _set_variant(L, P[t + at.T_CONST] + L[at.S_ITEM], -1, at.MODE_CREATE)
        L[at.S_ITEM] += 1
        return np.int64(1)
    while L[at.S_ITEM] - first < P[t + at.T_NFULL]:
        if L[at.S_ROW] == 0:
            L[at.S_START] = choose_start(
                A, L, P, np.int64(P[P[t + at.T_FULL] + L[at.S_ITEM] - first])
            )
            begin_aside(L)
            for k in range(at.MOST_LITERALS):
                L[at.LITERALS + k] = 0
        if L[at.PASSED] > L[at.PASSED_NEXT]:
            _set_variant(L, L[at.S_START], next_passed(A, L), at.MODE_CREATE)
            return np.int64(1)
        v = np.int64(P[L[at.S_START]])
        r = np.int64(P[v + at.V_TRIGGER])
        rb = L[at.RELS] + r * at.RSZ
        more = L[at.S_ROW] < L[rb + at.R_N] or L[at.FRAME] > L[at.VECTORS]
        if not L[at.ASKING]:
            if must_ask(L, np.int64(more)):
                return np.int64(3)
            if more or is_aside(L):
                _evaluate(A, L, P, v, r)
                return np.int64(1)
        while L[at.ASKING] and L[at.S_ROW] < L[rb + at.R_N]:
            row = L[at.S_ROW]
            L[at.S_ROW] += 1
            L[at.QUOTA] -= 1
            if L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.NOW:
                _set_variant(L, L[at.S_START], row, at.MODE_CREATE)
                return np.int64(1)
        L[at.S_ROW] = 0
        L[at.S_ITEM] += 1
    return np.int64(0)
