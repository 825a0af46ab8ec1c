"""Facts met by a search, and the least heights of their proofs as derivations come in.

A node is a fact that needs a derivation, entered once; a record is a derivation. Invariant: a
height that is set belongs to a proof whose records are in `R`, and it is the least that those
give; it only falls. Which derivations there are is `kernel.cone`'s business.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.cone_layout import (
    N_BEST,
    N_HEIGHT,
    N_KEY,
    N_LAYER,
    N_QUEUED,
    N_SIZE,
    N_USERS,
    NODE,
    R_BASE,
    R_BODY,
    R_HEAD,
    RECORD,
    UNPROVED,
    USE,
    W_FULL,
    W_LAST,
    W_NODES,
    W_QUEUE,
    W_RECORDS,
    W_WORK,
)
from deltafix.kernel.jit import kernel
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
    if is_given(L, key):
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
def adopt(A, L, W, N, R, H, record):
    """Turn the facts of a complete record into nodes, then let every height it lowers spread.

    Given facts get none: they stand at height 0 wherever they are used, and are most of a cone.

    A derivation of a fact from itself is dropped: it is in no smallest proof.
    """
    head = R[record + R_HEAD]
    for b in range(R[record + R_BODY]):
        use = record + RECORD + b * USE
        if is_given(L, R[use]):
            R[use] = -1 - R[use]
            continue
        count = W[W_NODES]
        node = enter(A, L, W, N, H, R[use])
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
