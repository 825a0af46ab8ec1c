"""From which literal a rule is evaluated from scratch: the one whose rows lead to the least work.

A rule that starts from its smallest relation may look at all rows of the largest one, each where it
happens to lie; started from that, it reads them in order and drops most at once. So a few rows of
each literal are followed through the body, as far as what they are looked up by is filled.
Invariant: nothing but scratch is written, and any literal gives the same rows. Not here: the order
of the others, which each binding chooses (`join`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.checks import fits_row, gather, run_check, starts_with
from deltafix.kernel.index import bucket_start, idx_glance
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import key_find

_MANY = 4096
"""Rows from which on a wrong start costs more than trying rows does."""
_TRIED = 32
_ELSEWHERE = 3
"""What a row found by an index costs, where one read in order costs 1: cache misses."""
_CHECKS = 8
"""Tests of a row that cost as much as reading it does."""
_ENTERED = 6
"""What a row that is entered into a late index costs (lineitem's by its part: 80 ns)."""
_GONE_THROUGH = 2
"""What one costs if few rows ask for its table, which is gone through instead (`aside`)."""
_MOST = 1 << 40


@kernel("i:Lii")
def _each(L, r, of):
    """Rows of `r` for each of `of`, as where one is the key that the other refers to."""
    held = L[L[at.RELS] + of * at.RSZ + at.R_NOW]
    return max(L[L[at.RELS] + r * at.RSZ + at.R_NOW] // max(held, 1), 1)


@kernel("i:LPi")
def _is_late(L, P, c):
    """Whether literal `c` is looked up by an index that is to be filled first."""
    late = L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]
    return np.int64(P[c + at.K_METHOD] == at.BY_INDEX and late != 0)


@kernel("i:Liii")
def _late_cost(L, r, asking, each):
    """What it costs that so many rows ask relation `r`, each for so many, by a late index."""
    rows = L[L[at.RELS] + r * at.RSZ + at.R_NOW]
    found = min(asking * each, rows)
    if rows >= L[at.SCAN_FROM] and asking <= rows >> L[at.SCAN_SHARE]:
        return rows * _GONE_THROUGH + found
    return rows * _ENTERED + found * _ELSEWHERE


@kernel("i:ALPii")
def _rows_of(A, L, P, c, of):
    """How many rows literal `c` has for the variables as they are bound.

    Of an index that is late it is a guess, by the relation `of` that has bound them.
    """
    r = np.int64(P[c + at.K_REL])
    if P[c + at.K_METHOD] == at.BY_SCAN:
        return L[L[at.RELS] + r * at.RSZ + at.R_NOW]
    if _is_late(L, P, c):
        return _each(L, r, of)
    h = gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]))
    if P[c + at.K_METHOD] == at.BY_KEY:
        return np.int64(key_find(A, L, A, r, at.KEY, h) >= 0)
    slot = idx_glance(L, np.int64(P[c + at.K_INDEX]), h)
    return np.int64(0) if slot < 0 else L[slot + 1] & 0xFFFFFFFF


@kernel("i:ALPi")
def _first_row(A, L, P, c):
    """One of the rows that literal `c` has."""
    if P[c + at.K_METHOD] == at.BY_SCAN:
        return np.int64(0)
    h = gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]))
    if P[c + at.K_METHOD] == at.BY_KEY:
        return key_find(A, L, A, np.int64(P[c + at.K_REL]), at.KEY, h)
    slot = idx_glance(L, np.int64(P[c + at.K_INDEX]), h)
    row = (L[slot] & 0xFFFFFFFF) - 1
    return np.int64(A[bucket_start(L, row)]) if (L[slot + 1] >> 32) != 0 else row


@kernel("i:ALPii")
def _fits(A, L, P, c, row):
    """Whether a row of literal `c` fits, and the checks behind it hold; unknown values may."""
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    fits = fits_row(A, L, P, np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH]), offset)
    node = np.int64(P[c + at.K_CHILD])
    k = np.int64(0)
    while fits == 1 and k < P[node]:
        fits = run_check(A, L, P, np.int64(P[P[node + 1] + k]))
        k += 1
    return np.int64(fits != 0)


@kernel("i:ALPiii")
def _joined(A, L, P, node, of, starts):
    """Rows that are looked at for one binding of a complete node, joined as far as can be told.

    Of rows that a literal has the first stands for all; to find none is a look, too. Behind an
    index that is late nothing is known. Not 0 `starts`: what the late indexes on the way cost
    instead, if there are so many bindings like this one.
    """
    rows = np.int64(0)
    times = np.int64(1)
    known = np.int64(1)
    while P[node + 2] > 0 and times < _MOST:
        best = np.int64(-1)
        fewest = np.int64(0)
        for k in range(P[node + 2]):
            c = np.int64(P[P[node + 3] + k])
            count = _rows_of(A, L, P, c, of) if known else 1 + 1024 * _is_late(L, P, c)
            if best < 0 or count < fewest:
                best = c
                fewest = count
        r = np.int64(P[best + at.K_REL])
        late = _is_late(L, P, best)
        if late:
            known = np.int64(0)
            fewest = _each(L, r, of)
            if starts == 0:
                break
            rows += _late_cost(L, r, starts * times, fewest)
        elif starts == 0:
            rows += times * max(fewest, 1)
        if known and (fewest == 0 or _fits(A, L, P, best, _first_row(A, L, P, best)) == 0):
            break
        times *= fewest if known or late else 1
        of = r
        node = np.int64(P[best + at.K_CHILD])
    return rows


@kernel("i:ALPi")
def _work(A, L, P, v):
    """What evaluating variant `v` for all rows of its trigger would cost, by some of them."""
    r = np.int64(P[v + at.V_TRIGGER])
    rb = L[at.RELS] + r * at.RSZ
    node = np.int64(P[v + at.V_NODE])
    rows = L[rb + at.R_N]
    tried = np.int64(0)
    begun = np.int64(0)
    looked_at = np.int64(0)
    for k in range(_TRIED):
        offset = L[rb + at.R_ROWS] + rows * k // _TRIED * L[rb + at.R_STRIDE]
        if not L[offset >> 1] & at.NOW:
            continue
        tried += 1
        # A value that is not known yet may fit.
        if starts_with(A, L, P, v, offset, np.int64(P[node])) != 0:
            begun += 1
            looked_at += _joined(A, L, P, node, r, np.int64(0))
    starts = L[rb + at.R_NOW] * begun // max(tried, 1)
    late = np.int64(0)
    for k in range(_TRIED):
        offset = L[rb + at.R_ROWS] + rows * k // _TRIED * L[rb + at.R_STRIDE]
        if L[offset >> 1] & at.NOW and starts_with(A, L, P, v, offset, np.int64(P[node])) != 0:
            late = max(late, _joined(A, L, P, node, r, starts))
    joining = L[rb + at.R_NOW] * looked_at * _ELSEWHERE // max(tried, 1)
    return rows + rows * P[node] // _CHECKS + joining + late


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
