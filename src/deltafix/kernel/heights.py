"""Facts met by a search, and the least heights of their proofs as derivations come in.

A node is a fact that needs a derivation, entered once; a record is a derivation. Invariant: a
height that is set belongs to a proof whose records are in `R`, and it is the least that those
give; it only falls. Which derivations there are is `kernel.cone`'s business.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import cone_layout as shape
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
