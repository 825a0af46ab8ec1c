"""The cone of a fact: the derivations it could rest on, searched breadth first for the smallest.

Four arrays beside the arena, all int64: `W` the search's own header, `N` facts met (a node
each), `R` derivations met (a record each), `H` a hash table from fact to node. `X` holds chains
over relations that no index of the plan serves, built when first asked for. A rule is run from
its head by the program that `provenance.program` writes, in the layout of every other variant.

Invariant: the arena's rows, tables and ranks are only read; its scratch words are used, so no
epoch may run meanwhile. A height that is set belongs to a proof that is in `R`. Nothing here is
recorded while an epoch runs, and nothing is loaded before the first question.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.checks import fits_row, gather, run_check
from deltafix.kernel.cone_layout import (
    BY_CHAIN,
    C_CHAIN,
    C_LITERAL,
    EXHAUSTED,
    FOUND,
    FULL,
    LEVEL,
    N_HEIGHT,
    N_KEY,
    N_LAYER,
    NEVER,
    NODE,
    R_BASE,
    R_BODY,
    R_CLAUSE,
    R_HEAD,
    R_SLOTS,
    RECORD,
    TIRED,
    USE,
    V_BASE,
    V_CLAUSE,
    V_SLOTS,
    W_BEST,
    W_FULL,
    W_KEPT,
    W_LAST,
    W_LAYER,
    W_MASK,
    W_NEXT,
    W_NODE,
    W_NODES,
    W_QUEUE,
    W_RANKED,
    W_RECORDS,
    W_SLACK,
    W_WORK,
    X_SIZE,
)
from deltafix.kernel.heights import adopt, enter
from deltafix.kernel.index import bucket_start
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import _choose
from deltafix.kernel.keys import hash_words
from deltafix.kernel.layout import (
    COLS,
    HASH_BITS,
    K_CHILD,
    K_CLASS,
    K_KEYS,
    K_MATCH,
    K_METHOD,
    K_NKEYS,
    K_NMATCH,
    K_REL,
    KEY,
    R_N,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
    S_AFTER,
    S_BEFORE,
    SAME_BEFORE,
    STACK,
    V_MATCH,
    V_NMATCH,
    V_NODE,
    VARS,
)


@kernel("v:ALLiii")
def chain_rows(A, L, X, x, r, mask):
    """Fill chain `x` with the rows of `r` whose flags include `mask`. O(rows)."""
    rb = L[RELS] + r * RSZ
    heads = X[x * X_SIZE]
    count = X[x * X_SIZE + 1]
    links = X[x * X_SIZE + 2]
    columns = X[x * X_SIZE + 3]
    n = X[columns]
    for k in range(count):
        X[heads + k] = 0
    for row in range(L[rb + R_N]):
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        if (L[at >> 1] & mask) != mask:
            continue
        for k in range(n):
            A[KEY + k] = A[at + COLS + X[columns + 1 + k]]
        s = (hash_words(A, KEY, n) * count) >> HASH_BITS
        X[links + row] = X[heads + s]
        X[heads + s] = row + 1


@kernel("v:ALPLLLLiii")
def _record(A, L, P, W, N, R, H, v, level, rank):
    """A binding is complete: write it down as a derivation of the node being expanded."""
    W[W_WORK] += 1
    slots = np.int64(P[v + V_SLOTS])
    start = W[W_RECORDS]
    if W[W_RANKED] and W[W_KEPT] >= 0:
        if rank >= W[W_BEST]:
            return
        start = W[W_KEPT]
    need = RECORD + (level + 1) * USE + slots
    if start + need > R.shape[0]:
        W[W_FULL] = 1
        return
    for b in range(level + 1):
        s = L[STACK] + b * LEVEL
        c = L[s]
        use = start + RECORD + b * USE
        R[use] = (np.int64(P[c + K_REL]) << 32) | L[s + 6]
        R[use + 1] = np.int64(P[c + C_LITERAL])
        R[use + 3] = start
    R[start + R_HEAD] = W[W_NODE]
    R[start + R_CLAUSE] = np.int64(P[v + V_CLAUSE])
    R[start + R_BASE] = np.int64(P[v + V_BASE])
    R[start + R_BODY] = level + 1
    R[start + R_SLOTS] = slots
    for k in range(slots):
        R[start + RECORD + (level + 1) * USE + k] = np.int64(A[L[VARS] + k])
    W[W_RECORDS] = start + need
    if W[W_RANKED]:
        W[W_BEST] = rank
        W[W_KEPT] = start
    else:
        adopt(A, L, W, N, R, H, start)


@kernel("i:ALPLLii")
def _advance(A, L, P, X, W, level, rank):
    """Put the next fitting row of a join level into its cell 6. The body rank so far, or -2."""
    s = L[STACK] + level * LEVEL
    c = L[s]
    kind = L[s + 1]
    r = np.int64(P[c + K_REL])
    rb = L[RELS] + r * RSZ
    rows = L[rb + R_ROWS]
    stride = L[rb + R_STRIDE]
    chained = P[c + K_METHOD] == BY_CHAIN
    x = np.int64(P[c + C_CHAIN]) * X_SIZE
    if chained and kind == 2:  # the first look: find the chain, then follow its links
        h = gather(A, L, P, np.int64(P[c + K_KEYS]), np.int64(P[c + K_NKEYS]))
        L[s + 1] = 3
        L[s + 2] = X[X[x] + ((h * X[x + 1]) >> HASH_BITS)]
    bucket = bucket_start(L, L[s + 4])
    while True:
        pos = L[s + 2]
        if chained:
            if pos == 0:
                return np.int64(-2)
            row = pos - 1
            L[s + 2] = X[X[x + 2] + row]
        else:
            if pos == L[s + 3]:
                return np.int64(-2)
            L[s + 2] = pos + 1
            if kind == 1:
                row = np.int64(A[bucket + pos])
            elif kind == 2:
                row = pos
            else:
                row = L[s + 4]
        W[W_WORK] += 1
        at = rows + row * stride
        word = L[at >> 1]
        if (word & W[W_MASK]) != W[W_MASK]:
            continue
        if fits_row(A, L, P, np.int64(P[c + K_MATCH]), np.int64(P[c + K_NMATCH]), at) == 0:
            continue
        L[s + 6] = row
        return max(rank, word >> RANK_SHIFT) if P[c + K_CLASS] >= SAME_BEFORE else rank


@kernel("v:ALPLLLLLii")
def _derive(A, L, P, X, W, N, R, H, v, row):
    """Record every derivation of a row by one clause (ranked: the best of them)."""
    key = N[W[W_NODE] * NODE + N_KEY]
    rb = L[RELS] + (key >> 32) * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    if fits_row(A, L, P, np.int64(P[v + V_MATCH]), np.int64(P[v + V_NMATCH]), at) == 0:
        return
    own = L[at >> 1] >> RANK_SHIFT
    rank = np.int64(-1)
    level = np.int64(-1)
    node = np.int64(P[v + V_NODE])
    while True:
        fits = np.int64(1)
        for k in range(P[node]):
            if run_check(A, L, P, np.int64(P[P[node + 1] + k])) != 1:
                fits = np.int64(0)
                break
        if fits:
            if P[node + 2] == 0:
                _record(A, L, P, W, N, R, H, v, level, rank)
                if W[W_FULL]:
                    return
            elif _choose(A, L, P, node, level + 1):
                level += 1
                L[L[STACK] + level * LEVEL + 5] = rank
        while level >= 0:
            s = L[STACK] + level * LEVEL
            rank = _advance(A, L, P, X, W, level, L[s + 5])
            if rank != -2 and not (W[W_RANKED] and rank >= own):
                node = np.int64(P[L[s] + K_CHILD])
                break
            if rank == -2:
                level -= 1
        if level < 0:
            return


@kernel("v:ALPLLLLLi")
def _expand(A, L, P, X, W, N, R, H, node):
    """Record the derivations of a node by every clause of its relation."""
    W[W_NODE] = node
    W[W_BEST] = NEVER
    W[W_KEPT] = -1
    key = N[node * NODE + N_KEY]
    clauses = np.int64(P[P[0] + (key >> 32)])
    for k in range(P[clauses]):
        _derive(A, L, P, X, W, N, R, H, np.int64(P[clauses + 1 + k]), key & 0xFFFFFFFF)
        if W[W_FULL]:
            return
    if W[W_KEPT] >= 0:
        adopt(A, L, W, N, R, H, W[W_KEPT])


@kernel("i:ALLLLi")
def begin(A, L, W, N, H, key):
    """Empty the search and enter its goal. `W_MASK`, `W_RANKED` and `W_SLACK` are the caller's."""
    for k in range(W[W_NODES]):
        # Forget by fact, not by sweeping: a question that met few facts is quick to clear.
        s = N[k * NODE + N_KEY]
        h = ((((s ^ (s >> 32)) * 0x9E3779B1) & 0x7FFFFFFF) * H.shape[0]) >> 31
        while H[h] != k:
            h = h + 1 if h + 1 < H.shape[0] else 0
        N[k * NODE + N_LAYER] = h
    for k in range(W[W_NODES]):
        H[N[k * NODE + N_LAYER]] = -1
    W[W_NODES] = 0
    W[W_RECORDS] = 0
    W[W_NEXT] = 0
    W[W_LAYER] = 0
    W[W_WORK] = 0
    W[W_QUEUE] = 0
    W[W_LAST] = 0
    W[W_FULL] = 0
    # What a literal of a lower stratum sees: the state of the question.
    L[S_BEFORE] = W[W_MASK]
    L[S_AFTER] = W[W_MASK]
    return enter(A, L, W, N, H, key)


@kernel("i:ALPLLLLL")
def expand_one(A, L, P, X, W, N, R, H):
    """Record every derivation of the goal, given or not: FOUND, or FULL."""
    _expand(A, L, P, X, W, N, R, H, np.int64(0))
    return np.int64(FULL) if W[W_FULL] else np.int64(FOUND)


@kernel("i:ALPLLLLLi")
def search(A, L, P, X, W, N, R, H, work):
    """Expand facts nearest to the goal first until its proof of least height is known.

    A proof of height h holds no fact more than h derivations from the goal, and given facts are
    known when they are met: once the layers below h are expanded, all lower proofs are known, and
    the rest of the layer could only tell of proofs as high. TIRED: more than `work` rows and
    derivations were looked at; the goal's height may be set by then. EXHAUSTED: there is nothing
    left to expand.
    """
    while W[W_NEXT] < W[W_NODES]:
        n = W[W_NEXT] * NODE
        W[W_LAYER] = N[n + N_LAYER]
        if N[N_HEIGHT] + W[W_SLACK] <= W[W_LAYER] + 1:
            return np.int64(FOUND)
        W[W_NEXT] += 1
        if N[n + N_HEIGHT] == 0:
            continue
        _expand(A, L, P, X, W, N, R, H, W[W_NEXT] - 1)
        if W[W_FULL]:
            return np.int64(FULL)
        if W[W_WORK] > work:
            return np.int64(TIRED)
    return np.int64(EXHAUSTED)
