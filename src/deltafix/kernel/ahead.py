"""What the next rows of a large evaluation will look up, asked for before it is needed.

A row that is taken up probes an index for each of its delta rules: a slot, the bucket that it
names, the bucket's first rows, each in a cache line of its own whose address stands in the one
before. Rows to come are known, so their probes are made early, a line further with every row that
is taken up: `_ROW` rows ahead the row is asked for, `_SLOT` ahead the slots of its literals,
`_BUCKET` ahead the bucket of each rule's shortest literal, `_FIRST` ahead that bucket's first rows.
Of a literal's rows in the middle of a join the next slots are asked for together (`ask_children`).
Invariant: nothing here changes what an evaluation does; it writes the ring of probes, keys, and
variables that are not bound yet. Measured: docs/kernel.md, "Looking ahead".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.checks import fits_row, gather
from deltafix.kernel.filters import finds_nothing
from deltafix.kernel.index import bucket_start, idx_key
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.memory import room
from deltafix.kernel.runs import run_length

_ROW = 24
_SLOT = 16
_BUCKET = 9
_FIRST = 4
_CHILDREN = 16


@kernel("i:i")
def _ring(number):
    """First cell of the probes of the row with this number among those to come.

    [0] the number, [1] how many probes, then for each: rule, index, slot, hash.
    """
    return np.int64(at.RINGS + (number % at.RING_ROWS) * at.PROBE_CELLS)


@kernel("i:Lii")
def _address(L, r, row):
    """Cell of a row."""
    return (
        L[L[at.RELS] + r * at.RSZ + at.R_ROWS] + row * L[L[at.RELS] + r * at.RSZ + at.R_STRIDE]
    ) >> 1


@kernel("v:Liiiii")
def _probe(L, ring, n, rule, x, h):
    """Ask for the slot of a hash in index `x`, for a rule (or what else wants it), and note it."""
    slot = L[L[at.IDXS] + x * at.XSZ + at.X_SLOTS] + 2 * (
        (h * L[L[at.IDXS] + x * at.XSZ + at.X_CAP]) >> at.HASH_BITS
    )
    prefetch(L, slot)
    probe = ring + 2 + n * 4
    L[probe] = rule
    L[probe + 1] = x
    L[probe + 2] = slot
    L[probe + 3] = h


@kernel("v:ALPiiiii")
def _ask_slots(A, L, P, number, entry, n, r, row):
    """Make the first probes of a row: of `n` delta rules, listed at `entry`, and of its indexes.

    It is about to enter these, which looks for other rows of its keys.
    """
    L[at.LOOK] += 1
    ring = _ring(number)
    probes = np.int64(0)
    offset = _address(L, r, row) * 2
    rb = L[at.RELS] + r * at.RSZ
    for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
        xb = L[at.IDXS] + x * at.XSZ
        if L[xb + at.X_CAP] >= L[at.AHEAD_FROM] and not L[xb + at.X_LATE] and probes < at.PROBES:
            _probe(L, ring, probes, -1 - x, x, idx_key(A, L, x, offset))
            probes += 1
    for k in range(n):
        v = np.int64(P[entry + k])
        node = np.int64(P[v + at.V_NODE])
        count = P[node + 2]
        if count == 0 or probes + count > at.PROBES or finds_nothing(A, L, P, v, row):
            continue
        match, m = np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH])
        if fits_row(A, L, P, match, m, offset) == 0:
            continue
        for j in range(count):
            c = np.int64(P[P[node + 3] + j])
            if P[c + at.K_METHOD] != at.BY_INDEX:
                continue
            xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
            if L[xb + at.X_CAP] < L[at.AHEAD_FROM] or L[xb + at.X_LATE]:
                continue
            h = gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]))
            _probe(L, ring, probes, k, np.int64(P[c + at.K_INDEX]), h)
            probes += 1
    L[ring] = number
    L[ring + 1] = probes


@kernel("v:ALi")
def _ask_buckets(A, L, number):
    """The slots have arrived: ask for the bucket of each rule's shortest literal."""
    ring = _ring(number)
    if L[ring] != number:
        return
    n = L[ring + 1]
    kept = np.int64(0)
    k = np.int64(0)
    while k < n:
        rule = L[ring + 2 + k * 4]
        best = np.int64(-1)
        fails = np.int64(0)
        index = np.int64(0)
        while k < n and L[ring + 2 + k * 4] == rule:
            probe = ring + 2 + k * 4
            slot = L[probe + 2]
            h = L[probe + 3]
            xb = L[at.IDXS] + L[probe + 1] * at.XSZ
            end = L[xb + at.X_SLOTS] + 2 * L[xb + at.X_CAP]
            while slot < end and L[slot] != 0 and (L[slot] >> 32) != h:
                slot += 2
            if slot >= end or L[slot] == 0:
                fails = np.int64(1)
            elif best < 0 or (L[slot + 1] & 0xFFFFFFFF) < (L[best + 1] & 0xFFFFFFFF):
                best = slot
                index = L[probe + 1]
            k += 1
        if best < 0 or fails:
            continue
        ref = (L[best] & 0xFFFFFFFF) - 1
        if (L[best + 1] >> 32) == 0:
            prefetch(L, _address(L, L[L[at.IDXS] + index * at.XSZ + at.X_REL], ref))
        else:
            prefetch(L, bucket_start(L, ref) >> 1)
            probe = ring + 2 + kept * 4
            L[probe + 1] = index
            L[probe + 2] = ref
            L[probe + 3] = L[best + 1] & 0xFFFFFFFF
            kept += 1
    L[ring + 1] = kept


@kernel("v:ALi")
def _ask_rows(A, L, number):
    """The buckets have arrived: ask for their first rows."""
    ring = _ring(number)
    if L[ring] != number:
        return
    for k in range(L[ring + 1]):
        probe = ring + 2 + k * 4
        r = L[L[at.IDXS] + L[probe + 1] * at.XSZ + at.X_REL]
        bucket = bucket_start(L, L[probe + 2])
        for pos in range(min(L[probe + 3], 4)):
            prefetch(L, _address(L, r, np.int64(A[bucket + pos])))


@kernel("v:ALPi")
def ask_children(A, L, P, s):
    """Ask for the slots that the rows of a join level just opened (cells at `s`) will probe next.

    What the next literal's key takes from its own checks is not known yet: those ask in vain.
    """
    c = L[s]
    node = np.int64(P[c + at.K_CHILD])
    count = P[node + 2]
    rows = min(L[s + 3], _CHILDREN)
    if count == 0 or rows < 2 or L[s + 1] == 2:
        return
    bucket = bucket_start(L, L[s + 4])
    for pos in range(rows):
        offset = _address(L, np.int64(P[c + at.K_REL]), np.int64(A[bucket + pos])) * 2
        if (
            fits_row(A, L, P, np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH]), offset)
            == 0
        ):
            continue
        for j in range(count):
            d = np.int64(P[P[node + 3] + j])
            if P[d + at.K_METHOD] == at.BY_KEY:
                rb = L[at.RELS] + P[d + at.K_REL] * at.RSZ
                if L[rb + at.R_PKCAP] >= L[at.AHEAD_FROM]:
                    h = gather(A, L, P, np.int64(P[d + at.K_KEYS]), np.int64(P[d + at.K_NKEYS]))
                    prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
            elif P[d + at.K_METHOD] == at.BY_INDEX:
                xb = L[at.IDXS] + P[d + at.K_INDEX] * at.XSZ
                if L[xb + at.X_CAP] >= L[at.AHEAD_FROM]:
                    h = gather(A, L, P, np.int64(P[d + at.K_KEYS]), np.int64(P[d + at.K_NKEYS]))
                    prefetch(L, L[xb + at.X_SLOTS] + 2 * ((h * L[xb + at.X_CAP]) >> at.HASH_BITS))


@kernel("v:L")
def forget_probes(L):
    """Nothing has been asked for."""
    for k in range(at.RING_ROWS):
        L[at.RINGS + k * at.PROBE_CELLS] = -1


@kernel("i:L")
def refill_queue(L):
    """Have rows that wait in the queue, whose rows were all taken up. Returns how many, 0: none.

    Some at a time: written out, all rows of a large evaluation's round were a sixth of its memory.
    """
    if L[at.WAITING + 1] == 0:
        return np.int64(0)
    L[at.Q + 1] = 0
    L[at.S_HEAD] = 0
    if L[at.BATCH]:
        forget_probes(L)
    e = np.int64(0)
    while e < L[at.WAITING + 1] and L[at.Q + 1] < L[at.MOST_QUEUED]:
        cell = L[at.WAITING] + e
        n = run_length(L, np.int64(at.WAITING), e)
        taken = min(n, L[at.MOST_QUEUED] - L[at.Q + 1])
        room(L, np.int64(at.Q), taken)
        end = L[at.Q] + L[at.Q + 1]
        for k in range(taken):
            L[end + k] = L[cell] + k
        L[at.Q + 1] += taken
        if taken < n - 1:
            L[cell] += taken
            L[cell + 1] += taken
        elif taken < n:
            L[cell + 1] = L[cell] + taken
            e += 1
        else:
            e += 1 + (n > 1)
    L[at.Q_MOST] = max(L[at.Q_MOST], L[at.Q + 1])
    for k in range(L[at.WAITING + 1] - e):
        L[L[at.WAITING] + k] = L[L[at.WAITING] + e + k]
    L[at.WAITING + 1] -= e
    return L[at.Q + 1]


@kernel("v:ALPi")
def look_ahead(A, L, P, t):
    """Go on with the probes of rows to come in the queue of created rows, one of which is due."""
    queue = L[at.Q] + L[at.S_HEAD]
    left = L[at.Q + 1] - L[at.S_HEAD]
    if _ROW < left:
        prefetch(L, _address(L, L[queue + _ROW] >> 32, L[queue + _ROW] & 0xFFFFFFFF))
    if _SLOT < left:
        r = L[queue + _SLOT] >> 32
        group = np.int64(0)
        for k in range(P[t + at.T_NRELS]):
            if P[P[t + at.T_RELS] + k] == r:
                group = np.int64(P[P[t + at.T_SAME] + k])
        row = L[queue + _SLOT] & 0xFFFFFFFF
        n = np.int64(P[group])
        _ask_slots(A, L, P, L[at.S_HEAD] + _SLOT, group + 1, n, r, row)
    if _BUCKET < left:
        _ask_buckets(A, L, L[at.S_HEAD] + _BUCKET)
    if _FIRST < left:
        _ask_rows(A, L, L[at.S_HEAD] + _FIRST)


@kernel("v:LPi")
def see_what_to_ask(L, P, entry):
    """Note whether the rule at `entry` begins with a lookup that is worth asking early.

    A late index is empty until the first lookup, and then it may be.
    """
    L[at.S_ASKS] = 0
    node = np.int64(P[P[entry] + at.V_NODE])
    for j in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + j])
        if P[c + at.K_METHOD] == at.BY_INDEX:
            xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
            if L[xb + at.X_CAP] >= L[at.AHEAD_FROM] or L[xb + at.X_LATE]:
                L[at.S_ASKS] = 1


@kernel("v:ALPii")
def look_ahead_below(A, L, P, entry, r):
    """The same for the changed rows of relation `r`, of which S_ROW is due, and the rule there."""
    if L[at.S_ROW] == 0:
        forget_probes(L)
    rb = L[at.RELS] + r * at.RSZ
    changed = L[rb + at.R_CHANGED] + L[at.S_ROW]
    left = L[rb + at.R_CHANGED + 1] - L[at.S_ROW]
    if _ROW < left:
        prefetch(L, _address(L, r, L[changed + _ROW]))
    if L[at.S_ASKS] == 0:
        return
    if _SLOT < left:
        n = L[at.S_ROW] + _SLOT
        _ask_slots(A, L, P, n, entry, 1, r, L[changed + _SLOT])
    if _BUCKET < left:
        _ask_buckets(A, L, L[at.S_ROW] + _BUCKET)
    if _FIRST < left:
        _ask_rows(A, L, L[at.S_ROW] + _FIRST)
