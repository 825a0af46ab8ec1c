"""One delta rule for one row: find every binding of the rule's body that uses the row.

A variant is a rule seen from one of its literals, the trigger. Its program is a graph of nodes;
a node says which checks have become ready and which literals could come next. Which of them
does is decided here, per binding: the one with the fewest candidate rows (count, propose,
intersect). `S_BEFORE`/`S_AFTER` say which state literals of lower strata see, left and right of
the trigger, so that a derivation with several changed rows is found exactly once.

Invariant: nothing this module reads changes while it runs, apart from rows created by `emit`,
which are not visible. Heads go to the block of emitted heads; `emit.flush` decides.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.batch import wait
from deltafix.kernel.bulk import fill_index
from deltafix.kernel.checks import fits_row, gather, operand, run_check, state_holds
from deltafix.kernel.emit import flush
from deltafix.kernel.index import bucket_start, idx_find
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words, key_find
from deltafix.kernel.layout import (
    ASKED,
    BATCH,
    BEST,
    BEST_COUNT,
    BY_INDEX,
    BY_KEY,
    C_DERIVATIONS,
    C_PROBED,
    C_TRIED,
    CANCEL,
    EMIT,
    EMIT_BLOCK,
    EMIT_CELLS,
    EMITTED,
    ERR_CANCEL,
    ERROR,
    HASH_BITS,
    IDXS,
    K_CHILD,
    K_CLASS,
    K_INDEX,
    K_KEYS,
    K_MATCH,
    K_METHOD,
    K_NKEYS,
    K_NMATCH,
    K_REL,
    KEY,
    LOWER_BEFORE,
    MODE_QUERY,
    NOW,
    P_LEVEL,
    P_NODE,
    P_RANK,
    PAUSED,
    QUOTA,
    R_ARITY,
    R_N,
    R_NOW,
    R_PK,
    R_PKCAP,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
    S_AFTER,
    S_BEFORE,
    SAME_BEFORE,
    STACK,
    TRIGGER_REL,
    TRIGGER_ROW,
    V_HEAD,
    V_HEADOPS,
    V_MATCH,
    V_NMATCH,
    V_NODE,
    V_RULE,
    V_SAME,
    V_TRIGGER,
    X_LATE,
    XSZ,
)

__all__ = ["run_variant"]

_LEVEL = 8  # cells of a join level: candidate, kind, position, end, base, body rank


@kernel("i:ALPii")
def _choose(A, L, P, node, level):
    """Open join level `level` with the candidate literal that has the fewest rows.

    Returns 0 if some literal has none, so that the binding fails at once.
    """
    s = L[STACK] + level * _LEVEL
    best = np.int64(-1)
    n = P[node + 2]
    L[C_TRIED] += n
    for k in range(n):
        c = P[P[node + 3] + k]
        r = np.int64(P[c + K_REL])
        rb = L[RELS] + r * RSZ
        method = P[c + K_METHOD]
        if method == BY_KEY:
            h = gather(A, L, P, P[c + K_KEYS], P[c + K_NKEYS])
            row = key_find(A, L, A, r, KEY, h)
            if row < 0:
                return np.int64(0)
            L[s] = c
            L[s + 1] = 0
            L[s + 2] = 0
            L[s + 3] = 1
            L[s + 4] = row
            return np.int64(1)
        if method == BY_INDEX:
            h = gather(A, L, P, P[c + K_KEYS], P[c + K_NKEYS])
            x = np.int64(P[c + K_INDEX])
            if L[L[IDXS] + x * XSZ + X_LATE]:
                if L[rb + R_NOW] == 0:  # nothing has entered since it became late
                    return np.int64(0)
                fill_index(A, L, x)
            slot = idx_find(A, L, x, KEY, h)
            if slot < 0:
                return np.int64(0)
            count = L[slot + 1] & 0xFFFFFFFF
            if best < 0 or count < best:
                best = count
                ref = (L[slot] & 0xFFFFFFFF) - 1
                L[s] = c
                L[s + 1] = 0 if (L[slot + 1] >> 32) == 0 else 1
                L[s + 2] = 0
                L[s + 3] = count
                L[s + 4] = ref
        else:
            count = L[rb + R_N]
            if count == 0:
                return np.int64(0)
            if best < 0 or count < best:
                best = count
                L[s] = c
                L[s + 1] = 2
                L[s + 2] = 0
                L[s + 3] = count
                L[s + 4] = 0
    return np.int64(1)


@kernel("i:ALPiii")
def _next(A, L, P, level, m, mode):
    """Advance a join level to its next fitting row. The body rank so far, or -2 at the end."""
    s = L[STACK] + level * _LEVEL
    c = L[s]
    kind = L[s + 1]
    pos = L[s + 2]
    end = L[s + 3]
    r = np.int64(P[c + K_REL])
    rb = L[RELS] + r * RSZ
    rows = L[rb + R_ROWS]
    stride = L[rb + R_STRIDE]
    cls = P[c + K_CLASS]
    nmatch = np.int64(P[c + K_NMATCH])
    match = np.int64(P[c + K_MATCH])
    if cls == LOWER_BEFORE:
        state = L[S_BEFORE]
    elif cls >= SAME_BEFORE:
        state = np.int64(NOW)
    else:
        state = L[S_AFTER]
    bucket = bucket_start(L, L[s + 4])
    begin = pos
    while pos < end:
        if kind == 1:
            row = np.int64(A[bucket + pos])
        elif kind == 2:
            row = pos
        else:
            row = L[s + 4]
        pos += 1
        at = rows + row * stride
        word = L[at >> 1]
        if state_holds(word, state) == 0:
            continue
        rank = m
        if cls >= SAME_BEFORE:
            rank = word >> RANK_SHIFT
            if mode == MODE_QUERY and rank > L[BEST]:
                continue
            if cls == SAME_BEFORE and row == L[TRIGGER_ROW] and r == L[TRIGGER_REL]:
                continue
            rank = max(rank, m)
        if fits_row(A, L, P, match, nmatch, at):
            L[s + 2] = pos
            L[C_PROBED] += pos - begin
            return rank
    L[C_PROBED] += pos - begin
    return np.int64(-2)


@kernel("v:ALPiii")
def _emit(A, L, P, v, m, mode):
    """A binding is complete: put its head into the block, or note its rank for a query."""
    if mode == MODE_QUERY:
        if m < L[BEST]:
            L[BEST] = m
            L[BEST_COUNT] = 1
        elif m == L[BEST]:
            L[BEST_COUNT] += 1
        return
    head = np.int64(P[v + V_HEAD])
    rb = L[RELS] + head * RSZ
    arity = L[rb + R_ARITY]
    e = L[EMITTED]
    o = EMIT + e * arity
    ops = P[v + V_HEADOPS]
    for k in range(arity):
        A[o + k] = operand(A, L, P, ops + 2 * k)
    h = hash_words(A, o, arity)
    if L[BATCH]:
        wait(A, L, head, np.int64(P[v + V_RULE]), o, h, m)
        return
    # The slot is looked at when the block is full: by then its cache line has arrived.
    prefetch(L, L[rb + R_PK] + ((h * L[rb + R_PKCAP]) >> HASH_BITS))
    L[EMIT_CELLS + 2 * e] = h
    L[EMIT_CELLS + 2 * e + 1] = m
    L[EMITTED] = e + 1
    if e + 1 == EMIT_BLOCK:
        flush(A, L, head, np.int64(P[v + V_RULE]), mode)


@kernel("v:Liii")
def _pause(L, node, level, m):
    """Stop at a binding: the next `run_variant` goes on with the checks of `node`."""
    L[PAUSED] = 1
    L[P_NODE] = node
    L[P_LEVEL] = level
    L[P_RANK] = m


@kernel("v:ALPiii")
def run_variant(A, L, P, v, row, mode):
    """Evaluate variant `v` for its trigger row (ignored where the variant has none).

    Stops early when `ERROR` is set, when a functor's value must be asked for, and when the quota
    is used up (`PAUSED`: the next call goes on at that binding, with its checks once more).
    Cost: O(rows of the literals chosen); asserted through C_PROBED and C_DERIVATIONS.
    """
    m = np.int64(-1)
    L[C_TRIED] += 1
    r = np.int64(P[v + V_TRIGGER])
    L[TRIGGER_REL] = r
    L[TRIGGER_ROW] = row
    level = np.int64(-1)
    node = np.int64(P[v + V_NODE])
    if L[PAUSED]:
        L[PAUSED] = 0
        m = L[P_RANK]
        level = L[P_LEVEL]
        node = L[P_NODE]
    elif r >= 0:
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        if fits_row(A, L, P, np.int64(P[v + V_MATCH]), np.int64(P[v + V_NMATCH]), at) == 0:
            return
        if P[v + V_SAME] and mode != MODE_QUERY:
            m = L[at >> 1] >> RANK_SHIFT
    while True:
        fits = np.int64(1)
        for k in range(P[node]):
            fits = run_check(A, L, P, np.int64(P[P[node + 1] + k]))
            if fits != 1:
                break
        if fits < 0:
            _pause(L, node, level, m)
            return
        if fits:
            if P[node + 2] == 0:
                _emit(A, L, P, v, m, mode)
            elif _choose(A, L, P, node, level + 1):
                level += 1
                L[L[STACK] + level * _LEVEL + 5] = m
        while level >= 0:
            s = L[STACK] + level * _LEVEL
            m = _next(A, L, P, level, L[s + 5], mode)
            if m != -2:
                node = np.int64(P[L[s] + K_CHILD])
                break
            level -= 1
        if level < 0:
            break
        if L[CANCEL] != 0 or L[ERROR] != 0:
            if L[ERROR] == 0:
                L[ERROR] = ERR_CANCEL
            L[EMITTED] = 0
            return
        if L[C_PROBED] + L[C_DERIVATIONS] > L[QUOTA]:
            L[ASKED] = -1
            _pause(L, node, level, m)
            return
    if mode != MODE_QUERY and L[EMITTED] > 0:
        flush(A, L, np.int64(P[v + V_HEAD]), np.int64(P[v + V_RULE]), mode)
