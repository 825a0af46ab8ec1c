"""The cone of a fact: the derivations it could rest on, searched breadth first for the smallest.

Four arrays beside the arena, all int64: `W` the search's own header, `N` facts met (a node
each), `R` derivations met (a record each), `H` a hash table from fact to node. `X` holds chains
over relations that no index of the plan serves, built when first asked for. A rule is run from
its head by the program that `provenance.program` writes, in the layout of every other variant.

Invariant: the arena's rows, tables and ranks are only read; its scratch words are used, so no
epoch may run meanwhile. A height that is set belongs to a proof that is in `R`. Nothing here is
recorded while an epoch runs, and nothing is loaded before the first question.

A node is a fact that needs a derivation, entered once; a record is a derivation; a height is the
least that the records give, and only falls.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import cone_layout as shape
from deltafix.kernel import layout as at
from deltafix.kernel.checks import fits_row, gather, run_check
from deltafix.kernel.index import bucket_start
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import _choose
from deltafix.kernel.keys import hash_words
from deltafix.kernel.layout import GIVEN, R_ROWS, R_RULES, R_STRIDE, RELS, RSZ


@kernel("i:Li")
def is_given(L, key):
    """Whether a fact is given, as every row of a relation without rules is."""
    rb = L[RELS] + (key >> 32) * RSZ
    if L[rb + R_RULES] == 0:
        return np.int64(1)
    word = L[(L[rb + R_ROWS] + (key & 0xFFFFFFFF) * L[rb + R_STRIDE]) >> 1]
    return np.int64(1) if word & GIVEN else np.int64(0)


@kernel("i:ALLLLi")
def enter(A, L, W, N, H, key):
    """The node of a fact, entered if new; a given row needs no derivation."""
    size = H.shape[0]
    s = ((((key ^ (key >> 32)) * 0x9E3779B1) & 0x7FFFFFFF) * size) >> 31
    while H[s] >= 0:
        if N[H[s] * shape.NODE + shape.N_KEY] == key:
            return H[s]
        s = s + 1 if s + 1 < size else 0
    node = W[shape.W_NODES]
    if (node + 1) * shape.NODE > N.shape[0]:
        W[shape.W_FULL] = 1
        return np.int64(-1)
    H[s] = node
    W[shape.W_NODES] = node + 1
    n = node * shape.NODE
    N[n + shape.N_KEY] = key
    N[n + shape.N_HEIGHT] = shape.UNPROVED
    N[n + shape.N_SIZE] = shape.UNPROVED
    N[n + shape.N_BEST] = -1
    N[n + shape.N_USERS] = -1
    N[n + shape.N_LAYER] = 0
    N[n + shape.N_QUEUED] = 0
    if is_given(L, key):
        N[n + shape.N_HEIGHT] = 0
        N[n + shape.N_SIZE] = 1
    return node


@kernel("v:LLLi")
def _lower(W, N, R, record):
    """Offer a derivation to its head: a smaller proof replaces the one it has, and is queued."""
    height = np.int64(0)
    size = np.int64(1)
    for b in range(R[record + shape.R_BODY]):
        n = R[record + shape.RECORD + b * shape.USE] * shape.NODE
        if n < 0:
            size += 1
            continue
        if N[n + shape.N_HEIGHT] >= shape.UNPROVED:
            return
        height = max(height, N[n + shape.N_HEIGHT])
        size = min(size + N[n + shape.N_SIZE], shape.UNPROVED - 1)
    height += R[record + shape.R_BASE]
    head = R[record + shape.R_HEAD]
    n = head * shape.NODE
    if height > N[n + shape.N_HEIGHT]:
        return
    if height == N[n + shape.N_HEIGHT] and size >= N[n + shape.N_SIZE]:
        return
    N[n + shape.N_HEIGHT] = height
    N[n + shape.N_SIZE] = size
    N[n + shape.N_BEST] = record
    if N[n + shape.N_QUEUED] == 0:
        N[n + shape.N_QUEUED] = 1
        if W[shape.W_LAST]:
            N[(W[shape.W_LAST] - 1) * shape.NODE + shape.N_QUEUED] = head + 2
        else:
            W[shape.W_QUEUE] = head + 1
        W[shape.W_LAST] = head + 1


@kernel("v:ALLLLLi")
def adopt(A, L, W, N, R, H, record):
    """Turn the facts of a complete record into nodes, then let every height it lowers spread.

    Given facts get none: they stand at height 0 wherever they are used, and are most of a cone.

    A derivation of a fact from itself is dropped: it is in no smallest proof.
    """
    head = R[record + shape.R_HEAD]
    for b in range(R[record + shape.R_BODY]):
        use = record + shape.RECORD + b * shape.USE
        if is_given(L, R[use]):
            R[use] = -1 - R[use]
            continue
        count = W[shape.W_NODES]
        node = enter(A, L, W, N, H, R[use])
        if node < 0:
            return
        if node == head:
            W[shape.W_RECORDS] = record
            return
        R[use] = node
        if node == count:  # first met here, so nearest to the goal here: nodes come in layers
            N[node * shape.NODE + shape.N_LAYER] = N[head * shape.NODE + shape.N_LAYER] + 1
    for b in range(R[record + shape.R_BODY]):
        use = record + shape.RECORD + b * shape.USE
        n = R[use] * shape.NODE
        if n < 0:
            continue
        R[use + 2] = N[n + shape.N_USERS]
        N[n + shape.N_USERS] = use
    _lower(W, N, R, record)
    while W[shape.W_QUEUE]:
        n = (W[shape.W_QUEUE] - 1) * shape.NODE
        following = N[n + shape.N_QUEUED]
        W[shape.W_QUEUE] = following - 1 if following > 1 else 0
        if W[shape.W_QUEUE] == 0:
            W[shape.W_LAST] = 0
        N[n + shape.N_QUEUED] = 0
        use = N[n + shape.N_USERS]
        while use >= 0:
            W[shape.W_WORK] += 1
            _lower(W, N, R, R[use + 3])
            use = R[use + 2]


@kernel("v:ALLiii")
def chain_rows(A, L, X, x, r, mask):
    """Fill chain `x` with the rows of `r` whose flags include `mask`. O(rows)."""
    rb = L[at.RELS] + r * at.RSZ
    heads = X[x * shape.X_SIZE]
    count = X[x * shape.X_SIZE + 1]
    links = X[x * shape.X_SIZE + 2]
    columns = X[x * shape.X_SIZE + 3]
    n = X[columns]
    for k in range(count):
        X[heads + k] = 0
    for row in range(L[rb + at.R_N]):
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if (L[offset >> 1] & mask) != mask:
            continue
        for k in range(n):
            A[at.KEY + k] = A[offset + at.COLS + X[columns + 1 + k]]
        s = (hash_words(A, at.KEY, n) * count) >> at.HASH_BITS
        X[links + row] = X[heads + s]
        X[heads + s] = row + 1


@kernel("v:ALPLLLLiii")
def _record(A, L, P, W, N, R, H, v, level, rank):
    """A binding is complete: write it down as a derivation of the node being expanded."""
    W[shape.W_WORK] += 1
    slots = np.int64(P[v + shape.V_SLOTS])
    start = W[shape.W_RECORDS]
    if W[shape.W_RANKED] and W[shape.W_KEPT] >= 0:
        if rank >= W[shape.W_BEST]:
            return
        start = W[shape.W_KEPT]
    need = shape.RECORD + (level + 1) * shape.USE + slots
    if start + need > R.shape[0]:
        W[shape.W_FULL] = 1
        return
    for b in range(level + 1):
        s = L[at.STACK] + b * at.LEVEL
        c = L[s]
        use = start + shape.RECORD + b * shape.USE
        R[use] = (np.int64(P[c + at.K_REL]) << 32) | L[s + 6]
        R[use + 1] = np.int64(P[c + shape.C_LITERAL])
        R[use + 3] = start
    R[start + shape.R_HEAD] = W[shape.W_NODE]
    R[start + shape.R_CLAUSE] = np.int64(P[v + shape.V_CLAUSE])
    R[start + shape.R_BASE] = np.int64(P[v + shape.V_BASE])
    R[start + shape.R_BODY] = level + 1
    R[start + shape.R_SLOTS] = slots
    for k in range(slots):
        R[start + shape.RECORD + (level + 1) * shape.USE + k] = np.int64(A[L[at.VARS] + k])
    W[shape.W_RECORDS] = start + need
    if W[shape.W_RANKED]:
        W[shape.W_BEST] = rank
        W[shape.W_KEPT] = start
    else:
        adopt(A, L, W, N, R, H, start)


@kernel("i:ALPLLii")
def _advance(A, L, P, X, W, level, rank):
    """Put the next fitting row of a join level into its cell 6. The body rank so far, or -2."""
    s = L[at.STACK] + level * at.LEVEL
    c = L[s]
    kind = L[s + 1]
    r = np.int64(P[c + at.K_REL])
    rb = L[at.RELS] + r * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    chained = P[c + at.K_METHOD] == shape.BY_CHAIN
    x = np.int64(P[c + shape.C_CHAIN]) * shape.X_SIZE
    if chained and kind == 2:  # the first look: find the chain, then follow its links
        h = gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]))
        L[s + 1] = 3
        L[s + 2] = X[X[x] + ((h * X[x + 1]) >> at.HASH_BITS)]
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
        W[shape.W_WORK] += 1
        offset = rows + row * stride
        word = L[offset >> 1]
        if (word & W[shape.W_MASK]) != W[shape.W_MASK]:
            continue
        if (
            fits_row(A, L, P, np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH]), offset)
            == 0
        ):
            continue
        L[s + 6] = row
        return max(rank, word >> at.RANK_SHIFT) if P[c + at.K_CLASS] >= at.SAME_BEFORE else rank


@kernel("v:ALPLLLLLii")
def _derive(A, L, P, X, W, N, R, H, v, row):
    """Record every derivation of a row by one clause (ranked: the best of them)."""
    key = N[W[shape.W_NODE] * shape.NODE + shape.N_KEY]
    rb = L[at.RELS] + (key >> 32) * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    if fits_row(A, L, P, np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH]), offset) == 0:
        return
    own = L[offset >> 1] >> at.RANK_SHIFT
    rank = np.int64(-1)
    level = np.int64(-1)
    node = np.int64(P[v + at.V_NODE])
    while True:
        fits = np.int64(1)
        for k in range(P[node]):
            if run_check(A, L, P, np.int64(P[P[node + 1] + k])) != 1:
                fits = np.int64(0)
                break
        if fits:
            if P[node + 2] == 0:
                _record(A, L, P, W, N, R, H, v, level, rank)
                if W[shape.W_FULL]:
                    return
            elif _choose(A, L, P, node, level + 1, 0):
                level += 1
                L[L[at.STACK] + level * at.LEVEL + 5] = rank
        while level >= 0:
            s = L[at.STACK] + level * at.LEVEL
            rank = _advance(A, L, P, X, W, level, L[s + 5])
            if rank != -2 and not (W[shape.W_RANKED] and rank >= own):
                node = np.int64(P[L[s] + at.K_CHILD])
                break
            if rank == -2:
                level -= 1
        if level < 0:
            return


@kernel("v:ALPLLLLLi")
def _expand(A, L, P, X, W, N, R, H, node):
    """Record the derivations of a node by every clause of its relation."""
    W[shape.W_NODE] = node
    W[shape.W_BEST] = shape.NEVER
    W[shape.W_KEPT] = -1
    key = N[node * shape.NODE + shape.N_KEY]
    clauses = np.int64(P[P[0] + (key >> 32)])
    for k in range(P[clauses]):
        _derive(A, L, P, X, W, N, R, H, np.int64(P[clauses + 1 + k]), key & 0xFFFFFFFF)
        if W[shape.W_FULL]:
            return
    if W[shape.W_KEPT] >= 0:
        adopt(A, L, W, N, R, H, W[shape.W_KEPT])


@kernel("i:ALLLLi")
def begin(A, L, W, N, H, key):
    """Empty the search and enter its goal. `W_MASK`, `W_RANKED` and `W_SLACK` are the caller's."""
    for k in range(W[shape.W_NODES]):
        # Forget by fact, not by sweeping: a question that met few facts is quick to clear.
        s = N[k * shape.NODE + shape.N_KEY]
        h = ((((s ^ (s >> 32)) * 0x9E3779B1) & 0x7FFFFFFF) * H.shape[0]) >> 31
        while H[h] != k:
            h = h + 1 if h + 1 < H.shape[0] else 0
        N[k * shape.NODE + shape.N_LAYER] = h
    for k in range(W[shape.W_NODES]):
        H[N[k * shape.NODE + shape.N_LAYER]] = -1
    W[shape.W_NODES] = 0
    W[shape.W_RECORDS] = 0
    W[shape.W_NEXT] = 0
    W[shape.W_LAYER] = 0
    W[shape.W_WORK] = 0
    W[shape.W_QUEUE] = 0
    W[shape.W_LAST] = 0
    W[shape.W_FULL] = 0
    # What a literal of a lower stratum sees: the state of the question.
    L[at.S_BEFORE] = W[shape.W_MASK]
    L[at.S_AFTER] = W[shape.W_MASK]
    return enter(A, L, W, N, H, key)


@kernel("i:ALPLLLLL")
def expand_one(A, L, P, X, W, N, R, H):
    """Record every derivation of the goal, given or not: FOUND, or FULL."""
    _expand(A, L, P, X, W, N, R, H, np.int64(0))
    return np.int64(shape.FULL) if W[shape.W_FULL] else np.int64(shape.FOUND)


@kernel("i:ALPLLLLLi")
def search(A, L, P, X, W, N, R, H, work):
    """Expand facts nearest to the goal first until its proof of least height is known.

    A proof of height h holds no fact more than h derivations from the goal, and given facts are
    known when they are met: once the layers below h are expanded, all lower proofs are known, and
    the rest of the layer could only tell of proofs as high. TIRED: more than `work` rows and
    derivations were looked at; the goal's height may be set by then. EXHAUSTED: there is nothing
    left to expand.
    """
    while W[shape.W_NEXT] < W[shape.W_NODES]:
        n = W[shape.W_NEXT] * shape.NODE
        W[shape.W_LAYER] = N[n + shape.N_LAYER]
        if N[shape.N_HEIGHT] + W[shape.W_SLACK] <= W[shape.W_LAYER] + 1:
            return np.int64(shape.FOUND)
        W[shape.W_NEXT] += 1
        if N[n + shape.N_HEIGHT] == 0:
            continue
        _expand(A, L, P, X, W, N, R, H, W[shape.W_NEXT] - 1)
        if W[shape.W_FULL]:
            return np.int64(shape.FULL)
        if W[shape.W_WORK] > work:
            return np.int64(shape.TIRED)
    return np.int64(shape.EXHAUSTED)
