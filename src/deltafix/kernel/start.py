"""From which literal a rule is evaluated from scratch: the one whose rows lead to the least work.

A rule that starts from its smallest relation may look at all rows of the largest one, each where it
happens to lie; started from that, it reads them in order and drops most at once. So a few rows of
each literal are tried as far as the next one. Invariant: nothing but scratch is written, and any
literal gives the same rows. Not here: the order of the others, which each binding chooses (`join`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.checks import gather, starts_with
from deltafix.kernel.index import idx_glance
from deltafix.kernel.jit import kernel

_MANY = 4096
"""Rows from which on a wrong start costs more than trying rows does."""
_TRIED = 32
_ELSEWHERE = 3
"""What a row found by an index costs, where one read in order costs 1: cache misses."""


_CHECKS = 8
"""Tests of a row that cost as much as reading it does; so does entering it into a late index."""


@kernel("i:Lii")
def _each(L, r, of):
    """Rows of `r` for each of `of`, as where one is the key that the other refers to."""
    held = L[L[at.RELS] + of * at.RSZ + at.R_NOW]
    return max(L[L[at.RELS] + r * at.RSZ + at.R_NOW] // max(held, 1), 1)


@kernel("i:ALPii")
def _reached(A, L, P, node, trigger):
    """How many rows the literal after a complete node 0 has for the variables as they are bound.

    Of an index that is late it is a guess.
    """
    best = np.int64(-1)
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        count = L[L[at.RELS] + P[c + at.K_REL] * at.RSZ + at.R_NOW]
        if P[c + at.K_METHOD] == at.BY_KEY:
            count = np.int64(1)
        elif P[c + at.K_METHOD] == at.BY_INDEX:
            x = np.int64(P[c + at.K_INDEX])
            if L[L[at.IDXS] + x * at.XSZ + at.X_LATE]:
                count = _each(L, np.int64(P[c + at.K_REL]), trigger)
            else:
                slot = idx_glance(L, x, gather(A, L, P, P[c + at.K_KEYS], P[c + at.K_NKEYS]))
                count = np.int64(0) if slot < 0 else L[slot + 1] & 0xFFFFFFFF
        if best < 0 or count < best:
            best = count
    return max(best, 0)


@kernel("i:LPii")
def _to_fill(L, P, node, trigger):
    """Rows of the late index that the literal after node 0 fills; none where one has its key."""
    least = np.int64(-1)
    rows = np.int64(0)
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        if P[c + at.K_METHOD] == at.BY_KEY:
            return np.int64(0)
        r = np.int64(P[c + at.K_REL])
        index = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
        late = P[c + at.K_METHOD] == at.BY_INDEX and L[index + at.X_LATE]
        if late and (least < 0 or _each(L, r, trigger) < least):
            least = _each(L, r, trigger)
            rows = L[L[at.RELS] + r * at.RSZ + at.R_NOW]
    return rows


@kernel("i:ALPi")
def _work(A, L, P, v):
    """What evaluating variant `v` for all rows of its trigger would cost, by some of them."""
    rb = L[at.RELS] + P[v + at.V_TRIGGER] * at.RSZ
    node = np.int64(P[v + at.V_NODE])
    rows = L[rb + at.R_N]
    tried = np.int64(0)
    reached = np.int64(0)
    for k in range(_TRIED):
        offset = L[rb + at.R_ROWS] + rows * k // _TRIED * L[rb + at.R_STRIDE]
        if not L[offset >> 1] & at.NOW:
            continue
        tried += 1
        # A value that is not known yet may fit.
        if starts_with(A, L, P, v, offset, np.int64(P[node])) != 0:
            reached += _reached(A, L, P, node, np.int64(P[v + at.V_TRIGGER]))
    filled = _to_fill(L, P, node, np.int64(P[v + at.V_TRIGGER])) if reached else np.int64(0)
    joining = L[rb + at.R_NOW] * reached * _ELSEWHERE // max(tried, 1)
    return rows + rows * P[node] // _CHECKS + joining + filled


@kernel("i:ALPi")
def choose_start(A, L, P, group):
    """The place of the variant of a group (count first) that a rule is evaluated by from scratch.

    Where the relations are small, that of the smallest.
    """
    best = np.int64(group + 1)
    fewest = np.int64(-1)
    most = np.int64(0)
    for entry in range(group + 1, group + 1 + P[group]):
        rows = L[L[at.RELS] + P[P[entry] + at.V_TRIGGER] * at.RSZ + at.R_NOW]
        most = max(most, rows)
        if fewest < 0 or rows < fewest:
            fewest = rows
            best = np.int64(entry)
    if most < _MANY or P[group] == 1 or fewest == 0:
        return best
    calls = L[at.ASKS + 1]
    least = np.int64(-1)
    for entry in range(group + 1, group + 1 + P[group]):
        work = _work(A, L, P, np.int64(P[entry]))
        if least < 0 or work < least:
            least = work
            best = np.int64(entry)
    L[at.ASKS + 1] = calls
    return best
