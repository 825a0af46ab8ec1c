"""Many rows at once: tables filled in the order of their hashes.

A table's slot grows with the hash, so rows sorted by hash fill it from front to back: no cache
line is visited twice. Rows themselves are created in the order given, so that rows that arrive
together lie together. Invariant: the result is what `edit.insert_rows` row by row gives, up to
the order inside tables and buckets (tests/unit/kernel/test_tables.py).
Measured on 5M edges with two indexes: docs/kernel.md, "Loading".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.filters import note_keys
from deltafix.kernel.index import bucket_start, bucket_take, idx_add, idx_key
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words, key_find, key_insert
from deltafix.kernel.memory import block, discard, new_row, push

_MASK = 0xFFFFFFFF
_AHEAD = 24
"""Rows between asking for a row and reading it; from 12 to 48 makes no difference."""


@kernel("v:Liii")
def _sort_by_hash(L, cells, spare, n):
    """Sort `n` cells `hash << 32 | number` by their upper half: four passes of 8 bits.

    256 targets stay in the first-level cache; 2,048 (three passes of 11 bits) did not.
    """
    counts = block(L, 512) // 2
    source = cells
    target = spare
    for p in range(4):
        shift = 32 + p * 8
        for k in range(256):
            L[counts + k] = 0
        for k in range(n):
            L[counts + ((L[source + k] >> shift) & 255)] += 1
        total = np.int64(0)
        for k in range(256):
            c = L[counts + k]
            L[counts + k] = total
            total += c
        for k in range(n):
            v = L[source + k]
            d = counts + ((v >> shift) & 255)
            L[target + L[d]] = v
            L[d] += 1
        source, target = target, source


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


@kernel("v:ALiiiii")
def _fill_index(A, L, x, n, fresh, cells, spare):
    """Enter the rows whose numbers stand at `fresh` into an empty index.

    They are read in the order in which they lie; by hash they are visited out of order, so
    each is asked for `_AHEAD` rows before it is needed.
    """
    xb = L[at.IDXS] + x * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    cols = L[xb + at.X_COLS]
    for k in range(n):
        row = L[fresh + k]
        L[cells + k] = (idx_key(A, L, x, rows + row * stride) << 32) | row
    _sort_by_hash(L, cells, spare, n)
    keys = np.int64(1)
    for k in range(1, n):
        if (L[cells + k] >> 32) != (L[cells + k - 1] >> 32):
            keys += 1
    cap = max(keys * 3 // 2, 32)
    discard(L, L[xb + at.X_SLOTS] * 2, L[xb + at.X_CAP] * 4)
    base = block(L, cap * 4) // 2
    L[xb + at.X_SLOTS] = base
    L[xb + at.X_CAP] = cap
    begin = np.int64(0)
    while begin < n:
        h = L[cells + begin] >> 32
        first = rows + (L[cells + begin] & _MASK) * stride + at.COLS
        end = begin + 1
        while end < n and (L[cells + end] >> 32) == h:
            if end + _AHEAD < n:
                prefetch(L, (rows + (L[cells + end + _AHEAD] & _MASK) * stride) >> 1)
            offset = rows + (L[cells + end] & _MASK) * stride + at.COLS
            same = True
            for c in range(L[xb + at.X_NKEY]):
                if A[offset + L[cols + c]] != A[first + L[cols + c]]:
                    same = False
                    break
            if not same:  # two keys with one hash: the rest of the run goes in row by row
                break
            end += 1
        count = end - begin
        c = np.int64(0)
        ref = L[cells + begin] & _MASK
        if count > 1:
            c = np.int64(1)
            while (2 << c) < count:
                c += 1
            ref = bucket_take(A, L, c)
            start = bucket_start(L, ref)
            for k in range(count):
                row = L[cells + begin + k] & _MASK
                A[start + k] = row
                A[rows + row * stride + L[xb + at.X_POS]] = k
        else:  # an index that a refused edit of rules took back may have stood in this word
            A[rows + ref * stride + L[xb + at.X_POS]] = 0
        s = (h * cap) >> at.HASH_BITS
        while L[base + 2 * s] != 0:
            s += 1
            if s == cap:
                s = 0
        L[base + 2 * s] = (h << 32) | (ref + 1)
        L[base + 2 * s + 1] = (c << 32) | count
        L[xb + at.X_USED] += 1
        begin = end
        while begin < n and (L[cells + begin] >> 32) == h:
            idx_add(A, L, x, L[cells + begin] & _MASK)
            base = L[xb + at.X_SLOTS]
            cap = L[xb + at.X_CAP]
            begin += 1
    note_keys(L, x)


@kernel("v:ALi")
def fill_index(A, L, x):
    """Enter the rows of its relation that are in the other indexes into index `x`, an empty one.

    O(rows allocated). It is late no more; a MemoryError leaves it late, and a rollback empties it.
    """
    xb = L[at.IDXS] + x * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    L[xb + at.X_LATE] = 1
    n = np.int64(0)
    for row in range(L[rb + at.R_N]):
        n += (L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.INDEXED) != 0
    if n > 0:
        cells = block(L, n * 4) // 2
        fresh = cells + n  # is read before anything is sorted into its place
        n = np.int64(0)
        for row in range(L[rb + at.R_N]):
            if L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.INDEXED:
                L[fresh + n] = row
                n += 1
        _fill_index(A, L, x, n, fresh, cells, fresh)
        discard(L, cells * 2, n * 4)
    L[xb + at.X_LATE] = 0


@kernel("i:ALPiii")
def bulk_rows(A, L, rows, r, n, known):
    """Give `n` rows to relation `r`, of which few are there yet. Returns how many were created.

    Leaves in the cells at `known` what became of each row: its number if created, -1 if an equal
    one stands earlier in the batch, -2 if it was there (the caller's business). Room for keys,
    rows, queue and changes was made. O(n).
    """
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    holds = L[rb + at.R_RULES] == 0
    cells = block(L, n * 6) // 2
    spare = cells + n
    made = spare + n
    for i in range(n):
        L[cells + i] = (hash_words(rows, i * arity, arity) << 32) | i
    _sort_by_hash(L, cells, spare, n)
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
        push(L, at.Q, (r << 32) | row)
        push(L, rb + at.R_CHANGED, row)
        L[known + i] = row
        L[made + fresh] = row
        fresh += 1
    _fill_keys(L, r, n, cells, known)
    if holds:
        L[rb + at.R_NOW] += fresh
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            if L[L[at.IDXS] + x * at.XSZ + at.X_LATE]:
                continue
            if L[L[at.IDXS] + x * at.XSZ + at.X_USED] == 0:
                _fill_index(A, L, x, fresh, made, cells, spare)
            else:
                for k in range(fresh):
                    idx_add(A, L, x, L[made + k])
    discard(L, cells * 2, n * 6)
    return fresh
