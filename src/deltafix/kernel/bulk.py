"""Many rows at once: tables filled in the order of their hashes.

A table's slot grows with the hash, so rows sorted by hash fill it from front to back: no cache
line is visited twice. Rows themselves are created in the order given, so that rows that arrive
together lie together. Empty indexes are filled when all rows of the epoch are there (`TO_FILL`).
Invariant: the result is what `edit.insert_rows` row by row gives, up to the order inside tables
and buckets (tests/unit/kernel/test_tables.py).
Measured on 5M edges with two indexes: docs/kernel.md, "Loading".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.enter import RANGE, sort_ranges, spare_cells
from deltafix.kernel.index import idx_add, takes
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find, key_insert
from deltafix.kernel.memory import new_row, push, recycle, scratch
from deltafix.kernel.runs import note_created

_MASK = 0xFFFFFFFF


@kernel("i:ALPiiii")
def _skip_known(A, L, rows, r, n, cells, skipped):
    """Mark each row given that is there, or that stands earlier, by a bit. How many there are."""
    arity = L[L[at.RELS] + r * at.RSZ + at.R_ARITY]
    held = L[L[at.RELS] + r * at.RSZ + at.R_PKUSED] > 0
    count = np.int64(0)
    begin = np.int64(0)
    while begin < n:
        h = L[cells + begin] >> 32
        end = begin + 1
        while end < n and (L[cells + end] >> 32) == h:
            end += 1
        for k in range(begin, end):
            i = L[cells + k] & _MASK
            known = held and key_find(A, L, rows, r, i * arity, h) >= 0
            for other in range(begin, k):
                j = L[cells + other] & _MASK
                same = True
                for c in range(arity):
                    if rows[i * arity + c] != rows[j * arity + c]:
                        same = False
                        break
                if same:
                    known = True
                    break
            if known:
                L[skipped + (i >> 5)] |= 1 << (i & 31)
                count += 1
        begin = end
    return count


@kernel("i:Lii")
def is_skipped(L, skipped, i):
    """Whether row `i` of those given was not created."""
    return (L[skipped + (i >> 5)] >> (i & 31)) & 1


@kernel("i:ALPiii")
def bulk_rows(A, L, rows, r, n, skipped):
    """Give `n` rows to relation `r`, of which few are there yet. Returns how many were created.

    The cells at `skipped`, zeroed, one for 32 rows, get the bits of those that were not: an equal
    one stands earlier in the batch, or was there (the caller's business). Room for keys, rows and
    lists was made. O(n). Worked in is a cell a row; which row became of each is only noted where
    they do not lie one behind the other.
    """
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    holds = L[rb + at.R_RULES] == 0
    room = max(L[at.LEAST_BLOCK], 1024)  # a smaller block is not handed back
    counts = scratch(L, room, np.int64(512)) // 2
    for i in range(n):
        L[counts + (hash_words(rows, i * arity, arity) >> RANGE)] += 1
    largest = np.int64(0)
    for k in range(256):
        largest = max(largest, L[counts + k])
    words = (n + spare_cells(L, n, largest)) * 2
    cells = scratch(L, words, np.int64(0)) // 2
    total = cells
    for k in range(256):
        total, L[counts + k] = total + L[counts + k], total
    for i in range(n):
        h = hash_words(rows, i * arity, arity)
        place = counts + (h >> RANGE)
        L[L[place]] = (h << 32) | i
        L[place] += 1
    sort_ranges(L, cells, n, counts, cells + n, counts + 256)
    recycle(L, counts * 2, room)
    fresh = n - _skip_known(A, L, rows, r, n, cells, skipped)
    first = L[rb + at.R_N]
    scattered = np.int64(0)
    if fresh < n or L[rb + at.R_FREE] >= 0:
        scattered = scratch(L, n, np.int64(0))
    for i in range(n):
        if is_skipped(L, skipped, np.int64(i)):
            continue
        row = new_row(A, L, rows, r, i * arity)
        L[at.CLOCK] += at.GAP
        word = (L[at.CLOCK] << at.RANK_SHIFT) | at.USED | at.TOUCHED | at.GIVEN
        if holds:
            word |= at.NOW | at.INDEXED
        L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] = word
        note_created(L, (r << 32) | row, 1)
        push(L, rb + at.R_CHANGED, row)
        if scattered:
            A[scattered + i] = row
    for k in range(n):
        i = L[cells + k] & _MASK
        if not is_skipped(L, skipped, i):
            row = np.int64(A[scattered + i]) if scattered else first + i
            key_insert(L, r, row, L[cells + k] >> 32)
    if holds:
        L[rb + at.R_NOW] += fresh
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            xb = L[at.IDXS] + x * at.XSZ
            if L[xb + at.X_LATE] == 0 and L[xb + at.X_USED] == 0:
                L[xb + at.X_LATE] = at.LATE_NOW
                L[at.TO_FILL] = 1
                continue
            for k in range(fresh):
                row = L[L[rb + at.R_CHANGED] + L[rb + at.R_CHANGED + 1] - fresh + k]
                if takes(L, x, row):
                    idx_add(A, L, x, row)
    recycle(L, cells * 2, words)
    if scattered:
        recycle(L, scattered, n)
    return fresh
