"""A lane's new rows, a block at a time: of many rows that start a rule, which find any, and where.

A row at a time meets a cache miss at each step of the search for its first literal: the row, a
slot for each literal that could come first, the slot's bucket, the bucket's first row. A block of
new rows of one relation is searched for one rule after another, a step for all its rows and
then the next, each step asking for what the next will read. What is left are items: a row, the
literal with the fewest candidates, and its slot; rows that find nothing never reach the join.

A part's blocks are spread over the round: rows lie in the order of their hashes, where they were
counted, and a rule that copies them would fill one partition of its head's batch after the other,
and stop each time (a copy of 148,000 rows: 225 ms of processor for 115,000 of them; 110 now).

Life: `next_item` makes the next item the task, and takes the lane's next rows and rules as they
come. Invariant: what an item leaves out is what `join._choose` would find again, and the work
counted is the same. That holds because nothing that is searched changes while lanes work (`lanes`);
whatever a literal would have to wait for is left to the join.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.checks import gather, starts_with
from deltafix.kernel.filters import finds_nothing
from deltafix.kernel.index import bucket_start
from deltafix.kernel.jit import kernel, prefetch

_FIRST_ROWS = 4
_FOUND = 3
"""Cells of an item: row, literal, slot + 1; then slot and hash of each literal."""


@kernel("i:i")
def _item(n):
    """First cell of item `n`."""
    return np.int64(at.BLOCK_ITEMS + n * at.BLOCK_ITEM)


@kernel("i:Lii")
def _cell(L, rb, row):
    """First cell of a row."""
    return (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1


@kernel("v:L")
def _step(L):
    """Go on to the next place of the lane's part; behind a block's, to those of its next block."""
    L[at.S_HEAD] += 1
    if (L[at.S_HEAD] - L[at.S_FIRST]) % at.BLOCK == 0:
        L[at.S_HEAD] += L[at.S_SKIP]


@kernel("i:ALPi")
def _next_rows(A, L, P, t):
    """Have the next rows of the lane's part of the queue in the block, all of one relation.

    Returns how many there are.
    """
    n = np.int64(0)
    r = np.int64(-1)
    while n < at.BLOCK and L[at.S_HEAD] < L[at.S_END]:
        value = L[L[at.Q] + L[at.S_HEAD]]
        if n > 0 and (value >> 32) != r:
            break
        r = value >> 32
        prefetch(L, _cell(L, L[at.RELS] + r * at.RSZ, value & 0xFFFFFFFF))
        L[at.BLOCK_ROWS + n] = value & 0xFFFFFFFF
        _step(L)
        n += 1
    for k in range(P[t + at.T_NRELS]):
        if P[P[t + at.T_RELS] + k] == r:
            group = np.int64(P[P[t + at.T_SAME] + k])
            L[at.BLOCK_RULE] = group + 1
            L[at.BLOCK_RULES] = P[group]
    return n


@kernel("i:LPi")
def _is_searched(L, P, node):
    """Whether all literals that could come first are looked up by indexes that are filled."""
    n = P[node + 2]
    if n == 0 or n > at.BLOCK_LITERALS:
        return np.int64(0)
    for j in range(n):
        c = np.int64(P[P[node + 3] + j])
        if P[c + at.K_METHOD] != at.BY_INDEX:
            return np.int64(0)
        if L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]:
            return np.int64(0)
    return np.int64(1)


@kernel("i:ALPi")
def _ask_slots(A, L, P, v):
    """Items for the rows of the block that rule `v` can start with, and ask for their slots."""
    rb = L[at.RELS] + P[v + at.V_TRIGGER] * at.RSZ
    node = np.int64(P[v + at.V_NODE])
    searched = _is_searched(L, P, node)
    items = np.int64(0)
    for i in range(L[at.BLOCK_SIZE]):
        row = L[at.BLOCK_ROWS + i]
        L[at.LOOK] += 1
        if finds_nothing(A, L, P, v, row):
            continue
        item = _item(items)
        L[item] = row
        L[item + 2] = 0
        items += 1
        if not searched:
            continue
        L[at.C_TRIED] += 1
        offset = _cell(L, rb, row) * 2
        if starts_with(A, L, P, v, offset, np.int64(P[node])) == 0:
            items -= 1
            continue
        L[at.C_TRIED] += P[node + 2]
        for j in range(P[node + 2]):
            c = np.int64(P[P[node + 3] + j])
            h = gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]))
            xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
            slot = L[xb + at.X_SLOTS] + 2 * ((h * L[xb + at.X_CAP]) >> at.HASH_BITS)
            prefetch(L, slot)
            L[item + _FOUND + 2 * j] = slot
            L[item + _FOUND + 2 * j + 1] = h
    if not searched:
        L[at.ITEMS] = items
        return np.int64(0)
    return items


@kernel("i:LPii")
def _choose(L, P, node, item):
    """Find the slots of an item, and the literal with the fewest rows; 0: one has none."""
    best = np.int64(-1)
    for j in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + j])
        xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
        slot = L[item + _FOUND + 2 * j]
        h = L[item + _FOUND + 2 * j + 1]
        end = L[xb + at.X_SLOTS] + 2 * L[xb + at.X_CAP]
        while L[slot] != 0 and (L[slot] >> 32) != h:
            slot += 2
            if slot == end:
                slot = L[xb + at.X_SLOTS]
        if L[slot] == 0:
            return np.int64(0)
        count = L[slot + 1] & 0xFFFFFFFF
        if best < 0 or count < best:
            best = count
            L[item + 1] = c
            L[item + 2] = slot + 1
    return np.int64(1)


@kernel("v:ALPi")
def _search(A, L, P, v):
    """Make the items of rule `v` with the block's rows. O(rows and their first literals)."""
    items = _ask_slots(A, L, P, v)
    node = np.int64(P[v + at.V_NODE])
    hits = np.int64(0)
    for i in range(items):
        item = _item(i)
        if _choose(L, P, node, item) == 0:
            continue
        kept = _item(hits)
        for k in range(_FOUND):
            L[kept + k] = L[item + k]
        hits += 1
        c = L[kept + 1]
        slot = L[kept + 2] - 1
        ref = (L[slot] & 0xFFFFFFFF) - 1
        if (L[slot + 1] >> 32) == 0:
            prefetch(L, _cell(L, L[at.RELS] + P[c + at.K_REL] * at.RSZ, ref))
        else:
            prefetch(L, bucket_start(L, ref) >> 1)
    for i in range(hits):
        item = _item(i)
        slot = L[item + 2] - 1
        if (L[slot + 1] >> 32) != 0:
            rb = L[at.RELS] + P[L[item + 1] + at.K_REL] * at.RSZ
            bucket = bucket_start(L, (L[slot] & 0xFFFFFFFF) - 1)
            for pos in range(min(L[slot + 1] & 0xFFFFFFFF, _FIRST_ROWS)):
                prefetch(L, _cell(L, rb, np.int64(A[bucket + pos])))
    if items > 0:
        L[at.ITEMS] = hits


@kernel("i:ALPi")
def next_item(A, L, P, t):
    """Make the next item of the lane's part the task: 1; or 0: the part is done."""
    while L[at.ITEM] == L[at.ITEMS]:
        L[at.ITEM] = 0
        L[at.ITEMS] = 0
        if L[at.BLOCK_RULES] == 0:
            L[at.BLOCK_SIZE] = _next_rows(A, L, P, t)
            if L[at.BLOCK_SIZE] == 0:
                L[at.BLOCK_RULES] = 0
                return np.int64(0)
            if L[at.BLOCK_RULES] == 0:
                continue
        _search(A, L, P, np.int64(P[L[at.BLOCK_RULE]]))
        L[at.BLOCK_RULE] += 1
        L[at.BLOCK_RULES] -= 1
    item = _item(L[at.ITEM])
    L[at.ITEM] += 1
    L[at.T_ROW] = L[item]
    L[at.CHOSEN] = L[item + 2]
    L[at.CHOSEN_LITERAL] = L[item + 1]
    L[at.T_NEXT] = L[at.BLOCK_RULE] - 1
    L[at.T_LEFT] = 1
    L[at.T_MODE] = at.MODE_TAKE
    L[at.LOOK] += 1
    return np.int64(1)
