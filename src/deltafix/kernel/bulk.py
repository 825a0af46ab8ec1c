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
from deltafix.kernel.enter import sort_by_hash
from deltafix.kernel.index import idx_add, takes
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find, key_insert
from deltafix.kernel.memory import new_row, push, recycle, scratch
from deltafix.kernel.runs import note_created

_MASK = 0xFFFFFFFF


@kernel("v:ALPiiii")
def _mark_known(A, L, rows, r, n, cells, known):
    """Note for each row given: 0 new (as `known` is), -1 an equal one stands earlier, -2 there."""
    arity = L[L[at.RELS] + r * at.RSZ + at.R_ARITY]
    held = L[L[at.RELS] + r * at.RSZ + at.R_PKUSED] > 0
    begin = np.int64(0)
    while begin < n:
        h = L[cells + begin] >> 32
        end = begin + 1
        while end < n and (L[cells + end] >> 32) == h:
            end += 1
        for k in range(begin, end):
            i = L[cells + k] & _MASK
            if held and key_find(A, L, rows, r, i * arity, h) >= 0:
                L[known + i] = -2
            for other in range(begin, k):
                j = L[cells + other] & _MASK
                same = True
                for c in range(arity):
                    if rows[i * arity + c] != rows[j * arity + c]:
                        same = False
                        break
                if same:
                    L[known + i] = -1
                    break
        begin = end


@kernel("v:Liiii")
def _fill_keys(L, r, n, cells, known):
    """Enter the created rows into the key table, in hash order. Room was made."""
    for k in range(n):
        v = L[cells + k]
        row = L[known + (v & _MASK)]
        if row >= 0:
            key_insert(L, r, row, v >> 32)


@kernel("i:ALPiii")
def bulk_rows(A, L, rows, r, n, known):
    """Give `n` rows to relation `r`, of which few are there yet. Returns how many were created.

    Leaves in the cells at `known` what became of each row: its number if created, -1 if an equal
    one stands earlier in the batch, -2 if it was there (the caller's business). Room for keys,
    rows and lists was made. O(n).
    """
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    holds = L[rb + at.R_RULES] == 0
    cells = scratch(L, n * 6 + 512, np.int64(0)) // 2
    spare = cells + n
    created = spare + n
    for i in range(n):
        L[cells + i] = (hash_words(rows, i * arity, arity) << 32) | i
    sort_by_hash(L, cells, spare, n, created + n)
    _mark_known(A, L, rows, r, n, cells, known)
    fresh = np.int64(0)
    for i in range(n):
        if L[known + i] < 0:
            continue
        row = new_row(A, L, rows, r, i * arity)
        L[at.CLOCK] += at.GAP
        word = (L[at.CLOCK] << at.RANK_SHIFT) | at.USED | at.TOUCHED | at.GIVEN
        if holds:
            word |= at.NOW | at.INDEXED
        L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] = word
        note_created(L, (r << 32) | row, 1)
        push(L, rb + at.R_CHANGED, row)
        L[known + i] = row
        L[created + fresh] = row
        fresh += 1
    _fill_keys(L, r, n, cells, known)
    if holds:
        L[rb + at.R_NOW] += fresh
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            xb = L[at.IDXS] + x * at.XSZ
            if L[xb + at.X_LATE] == 0 and L[xb + at.X_USED] == 0:
                L[xb + at.X_LATE] = at.LATE_NOW
                L[at.TO_FILL] = 1
                continue
            for k in range(fresh):
                if takes(L, x, L[created + k]):
                    idx_add(A, L, x, L[created + k])
    recycle(L, cells * 2, n * 6 + 512)
    return fresh
