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

from deltafix.kernel.index import bucket_start, hash_words
from deltafix.kernel.jit import kernel
from deltafix.kernel.join import _check, _choose, _gather, _match
from deltafix.kernel.layout import (
    COLS,
    GIVEN,
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
    KSZ,
    R_N,
    R_ROWS,
    R_RULES,
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
    VSZ,
)

__all__ = [
    "BY_CHAIN",
    "C_CHAIN",
    "C_LITERAL",
    "EXHAUSTED",
    "FOUND",
    "FULL",
    "HSIZE",
    "NODE",
    "N_BEST",
    "N_HEIGHT",
    "N_KEY",
    "N_SIZE",
    "RECORD",
    "R_BODY",
    "R_CLAUSE",
    "R_SLOTS",
    "TIRED",
    "UNPROVED",
    "USE",
    "WSIZE",
    "W_NODES",
    "W_RECORDS",
    "W_WORK",
    "X_SIZE",
    "begin",
    "chain_rows",
    "expand_one",
    "search",
]  # fmt: skip

# --- header of the search ---------------------------------------------------------------------
W_NODES = 0  # nodes in N
W_RECORDS = 1  # cells used in R
W_NEXT = 2  # next node to expand
W_LAYER = 3  # the layer that is being expanded
W_WORK = 4  # rows looked at and derivations found
W_MASK = 5  # flags a row must have to count as true
W_RANKED = 6  # 1: keep one derivation a fact, of least body rank below its own
W_SLACK = 7  # 1: some facts stand in the program's text, and are known once expanded
W_QUEUE = 8  # first and last node of the queue of lowered heights, each + 1
W_LAST = 9
W_NODE = 10  # the node being expanded
W_BEST = 11  # ranked: the body rank of its best derivation, and its record
W_KEPT = 12
W_FULL = 13  # 1: an array has no room left
WSIZE = 16

# --- node ---------------------------------------------------------------------------------------
N_KEY = 0  # relation << 32 | row
N_HEIGHT = 1
N_SIZE = 2  # steps of the smallest proof of that height found
N_BEST = 3  # its last derivation: a record, or -1 for a given row
N_USERS = 4  # the uses of the fact in derivations: cell of the first use, or -1
N_LAYER = 5  # derivations between the goal and the fact
N_QUEUED = 6  # 0: not queued, else the next in the queue + 2
NODE = 8
UNPROVED = 1 << 40

# --- record of a derivation -------------------------------------------------------------------
R_HEAD = 0
R_CLAUSE = 1
R_BASE = 2  # what the derivation adds to the height: 0 for a fact of the text
R_BODY = 3  # number of uses
R_SLOTS = 4  # number of variables; their codes stand behind the uses
RECORD = 5
USE = 4  # node (a given fact needs none: -1 - its key), literal, next use of the node, record

# --- programs: what variants here have beside the layout's ---------------------------------------
BY_CHAIN = 3
C_LITERAL = KSZ  # position of the candidate's literal in the body
C_CHAIN = KSZ + 1
V_CLAUSE = VSZ  # number of the clause, number of its variables, and R_BASE
V_SLOTS = VSZ + 1
V_BASE = VSZ + 2
X_SIZE = 4  # first cell of the heads, how many, first cell of the links
FOUND, EXHAUSTED, TIRED, FULL = range(4)
HSIZE = 2  # cells of H for each node that N has room for
_LEVEL = 8
_NEVER = 1 << 60


@kernel("v:ALLiii", door=True)
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


@kernel("i:Li")
def _given(L, key):
    """Whether a fact is given, as every row of a relation without rules is."""
    rb = L[RELS] + (key >> 32) * RSZ
    if L[rb + R_RULES] == 0:
        return np.int64(1)
    word = L[(L[rb + R_ROWS] + (key & 0xFFFFFFFF) * L[rb + R_STRIDE]) >> 1]
    return np.int64(1) if word & GIVEN else np.int64(0)


@kernel("i:ALLLLi")
def _node(A, L, W, N, H, key):
    """The node of a fact, entered if new; a given row needs no derivation."""
    size = H.shape[0]
    s = ((((key ^ (key >> 32)) * 0x9E3779B1) & 0x7FFFFFFF) * size) >> 31
    while H[s] >= 0:
        if N[H[s] * NODE + N_KEY] == key:
            return H[s]
        s = s + 1 if s + 1 < size else 0
    node = W[W_NODES]
    if (node + 1) * NODE > N.shape[0]:
        W[W_FULL] = 1
        return np.int64(-1)
    H[s] = node
    W[W_NODES] = node + 1
    n = node * NODE
    N[n + N_KEY] = key
    N[n + N_HEIGHT] = UNPROVED
    N[n + N_SIZE] = UNPROVED
    N[n + N_BEST] = -1
    N[n + N_USERS] = -1
    N[n + N_LAYER] = 0
    N[n + N_QUEUED] = 0
    if _given(L, key):
        N[n + N_HEIGHT] = 0
        N[n + N_SIZE] = 1
    return node


@kernel("v:LLLi")
def _lower(W, N, R, record):
    """Offer a derivation to its head: a smaller proof replaces the one it has, and is queued."""
    height = np.int64(0)
    size = np.int64(1)
    for b in range(R[record + R_BODY]):
        n = R[record + RECORD + b * USE] * NODE
        if n < 0:
            size += 1
            continue
        if N[n + N_HEIGHT] >= UNPROVED:
            return
        height = max(height, N[n + N_HEIGHT])
        size = min(size + N[n + N_SIZE], UNPROVED - 1)
    height += R[record + R_BASE]
    head = R[record + R_HEAD]
    n = head * NODE
    if height > N[n + N_HEIGHT]:
        return
    if height == N[n + N_HEIGHT] and size >= N[n + N_SIZE]:
        return
    N[n + N_HEIGHT] = height
    N[n + N_SIZE] = size
    N[n + N_BEST] = record
    if N[n + N_QUEUED] == 0:
        N[n + N_QUEUED] = 1
        if W[W_LAST]:
            N[(W[W_LAST] - 1) * NODE + N_QUEUED] = head + 2
        else:
            W[W_QUEUE] = head + 1
        W[W_LAST] = head + 1


@kernel("v:ALLLLLi")
def _adopt(A, L, W, N, R, H, record):
    """Turn the facts of a complete record into nodes, then let every height it lowers spread.

    Given facts get none: they stand at height 0 wherever they are used, and are most of a cone.

    A derivation of a fact from itself is dropped: it is in no smallest proof.
    """
    head = R[record + R_HEAD]
    for b in range(R[record + R_BODY]):
        use = record + RECORD + b * USE
        if _given(L, R[use]):
            R[use] = -1 - R[use]
            continue
        count = W[W_NODES]
        node = _node(A, L, W, N, H, R[use])
        if node < 0:
            return
        if node == head:
            W[W_RECORDS] = record
            return
        R[use] = node
        if node == count:  # first met here, so nearest to the goal here: nodes come in layers
            N[node * NODE + N_LAYER] = N[head * NODE + N_LAYER] + 1
    for b in range(R[record + R_BODY]):
        use = record + RECORD + b * USE
        n = R[use] * NODE
        if n < 0:
            continue
        R[use + 2] = N[n + N_USERS]
        N[n + N_USERS] = use
    _lower(W, N, R, record)
    while W[W_QUEUE]:
        n = (W[W_QUEUE] - 1) * NODE
        following = N[n + N_QUEUED]
        W[W_QUEUE] = following - 1 if following > 1 else 0
        if W[W_QUEUE] == 0:
            W[W_LAST] = 0
        N[n + N_QUEUED] = 0
        use = N[n + N_USERS]
        while use >= 0:
            W[W_WORK] += 1
            _lower(W, N, R, R[use + 3])
            use = R[use + 2]


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
        s = L[STACK] + b * _LEVEL
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
        _adopt(A, L, W, N, R, H, start)


@kernel("i:ALPLLii")
def _advance(A, L, P, X, W, level, rank):
    """Put the next fitting row of a join level into its cell 6. The body rank so far, or -2."""
    s = L[STACK] + level * _LEVEL
    c = L[s]
    kind = L[s + 1]
    r = np.int64(P[c + K_REL])
    rb = L[RELS] + r * RSZ
    rows = L[rb + R_ROWS]
    stride = L[rb + R_STRIDE]
    chained = P[c + K_METHOD] == BY_CHAIN
    x = np.int64(P[c + C_CHAIN]) * X_SIZE
    if chained and kind == 2:  # the first look: find the chain, then follow its links
        h = _gather(A, L, P, np.int64(P[c + K_KEYS]), np.int64(P[c + K_NKEYS]))
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
        if _match(A, L, P, np.int64(P[c + K_MATCH]), np.int64(P[c + K_NMATCH]), at) == 0:
            continue
        L[s + 6] = row
        return max(rank, word >> RANK_SHIFT) if P[c + K_CLASS] >= SAME_BEFORE else rank


@kernel("v:ALPLLLLLii")
def _derive(A, L, P, X, W, N, R, H, v, row):
    """Record every derivation of a row by one clause (ranked: the best of them)."""
    key = N[W[W_NODE] * NODE + N_KEY]
    rb = L[RELS] + (key >> 32) * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    if _match(A, L, P, np.int64(P[v + V_MATCH]), np.int64(P[v + V_NMATCH]), at) == 0:
        return
    own = L[at >> 1] >> RANK_SHIFT
    rank = np.int64(-1)
    level = np.int64(-1)
    node = np.int64(P[v + V_NODE])
    while True:
        fits = np.int64(1)
        for k in range(P[node]):
            if _check(A, L, P, np.int64(P[P[node + 1] + k])) != 1:
                fits = np.int64(0)
                break
        if fits:
            if P[node + 2] == 0:
                _record(A, L, P, W, N, R, H, v, level, rank)
                if W[W_FULL]:
                    return
            elif _choose(A, L, P, node, level + 1):
                level += 1
                L[L[STACK] + level * _LEVEL + 5] = rank
        while level >= 0:
            s = L[STACK] + level * _LEVEL
            rank = _advance(A, L, P, X, W, level, L[s + 5])
            if rank != -2 and not (W[W_RANKED] and rank >= own):
                node = np.int64(P[L[s] + K_CHILD])
                break
            if rank == -2:
                level -= 1
        if level < 0:
            return


@kernel("v:ALLLLL")
def _take_as_it_is(A, L, W, N, R, H):
    """Record a row that no clause derives, such as an aggregate's: a leaf, by clause -1."""
    start = W[W_RECORDS]
    if start + RECORD > R.shape[0]:
        W[W_FULL] = 1
        return
    for k in range(RECORD):
        R[start + k] = 0
    R[start + R_HEAD] = W[W_NODE]
    R[start + R_CLAUSE] = -1
    W[W_RECORDS] = start + RECORD
    _adopt(A, L, W, N, R, H, start)


@kernel("v:ALPLLLLLi")
def _expand(A, L, P, X, W, N, R, H, node):
    """Record the derivations of a node by every clause of its relation."""
    W[W_NODE] = node
    W[W_BEST] = _NEVER
    W[W_KEPT] = -1
    key = N[node * NODE + N_KEY]
    clauses = np.int64(P[P[0] + (key >> 32)])
    if P[clauses] < 0:
        _take_as_it_is(A, L, W, N, R, H)
        return
    for k in range(P[clauses]):
        _derive(A, L, P, X, W, N, R, H, np.int64(P[clauses + 1 + k]), key & 0xFFFFFFFF)
        if W[W_FULL]:
            return
    if W[W_KEPT] >= 0:
        _adopt(A, L, W, N, R, H, W[W_KEPT])


@kernel("i:ALLLLi", door=True)
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
    return _node(A, L, W, N, H, key)


@kernel("i:ALPLLLLL", door=True)
def expand_one(A, L, P, X, W, N, R, H):
    """Record every derivation of the goal, given or not: FOUND, or FULL."""
    _expand(A, L, P, X, W, N, R, H, np.int64(0))
    return np.int64(FULL) if W[W_FULL] else np.int64(FOUND)


@kernel("i:ALPLLLLLi", door=True)
def search(A, L, P, X, W, N, R, H, work):
    """Expand facts nearest to the goal first until its proof of least height is known.

    A proof of height h holds no fact more than h derivations from the goal, and given facts are
    known when they are met: once the layers below h are expanded, all lower proofs are known, and
    the rest of the layer could only tell of proofs as high. TIRED: more than `work` rows and derivations were looked
    at; the goal's height may be set by then. EXHAUSTED: there is nothing left to expand.
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
