"""What goes in and out beside the rules: given rows, outside strata, functor values, lookups.

Invariant: an edit changes only flags of rows and the journal; nothing derived moves before
`maintain`. `end` closes the epoch.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.bulk import bulk_rows, is_skipped
from deltafix.kernel.emit import touch
from deltafix.kernel.enter import fill_index
from deltafix.kernel.index import idx_find, index_row
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words, key_find, key_insert, key_reserve
from deltafix.kernel.memory import block, new_row, push, recycle, room, row_room
from deltafix.kernel.runs import note_created
from deltafix.kernel.settle import settle_row

_BULK = 4096
"""Rows from which `bulk` pays (docs/kernel.md, "Loading")."""


@kernel("i:ALPiii")
def _give(A, L, rows, r, i, h):
    """Give row `i` of a flat table (hash `h`). 1 if it was not given before. Room was made."""
    rb = L[at.RELS] + r * at.RSZ
    o = i * L[rb + at.R_ARITY]
    row = key_find(A, L, rows, r, o, h)
    if row < 0:
        row = new_row(A, L, rows, r, o)
        key_insert(L, r, row, h)
        L[at.CLOCK] += at.GAP
        cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
        L[cell] = (L[at.CLOCK] << at.RANK_SHIFT) | at.USED | at.TOUCHED | at.GIVEN
        note_created(L, (r << 32) | row, 1)
    else:
        cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
        if L[cell] & at.GIVEN:
            return np.int64(0)
        touch(A, L, r, row)
        L[cell] |= at.GIVEN
    if not L[rb + at.R_RULES] and not (L[cell] & at.NOW):
        L[cell] |= at.NOW
        L[rb + at.R_NOW] += 1
        index_row(A, L, r, row)
    push(L, rb + at.R_CHANGED, row)
    return np.int64(1)


@kernel("i:ALPii")
def insert_rows(A, L, rows, r, n):
    """Give `n` rows (flat codes) to relation `r`. Returns how many were not given before.

    A batch that at least doubles the relation goes through `bulk`.
    """
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    key_reserve(L, r, n)
    row_room(A, L, r, n)
    room(L, at.CREATED, n)
    room(L, rb + at.R_CHANGED, n)
    if n >= _BULK and n >= L[rb + at.R_PKUSED]:
        words = max((n + 31) // 32 * 2, L[at.LEAST_BLOCK])  # a smaller one is not handed back
        skipped = block(L, words) // 2
        fresh = bulk_rows(A, L, rows, r, n, skipped)
        for i in range(n if fresh < n else 0):
            if is_skipped(L, skipped, i):
                fresh += _give(A, L, rows, r, i, hash_words(rows, i * arity, arity))
        recycle(L, skipped * 2, words)
        return fresh
    fresh = np.int64(0)
    for i in range(n):
        if i + 16 < n:  # by then the slot's cache line has arrived
            h = hash_words(rows, (i + 16) * arity, arity)
            prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
        fresh += _give(A, L, rows, r, i, hash_words(rows, i * arity, arity))
    return fresh


@kernel("i:ALPii")
def delete_rows(A, L, rows, r, n):
    """Take `n` given rows from relation `r`: how many were given; see `missing_row` first."""
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    gone = np.int64(0)
    for i in range(n):
        h = hash_words(rows, i * arity, arity)
        row = key_find(A, L, rows, r, i * arity, h)
        if row < 0:
            continue
        cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
        if not (L[cell] & at.GIVEN):
            continue
        touch(A, L, r, row)
        L[cell] &= ~at.GIVEN
        gone += 1
        if not L[rb + at.R_RULES]:
            L[cell] &= ~at.NOW
            L[rb + at.R_NOW] -= 1
        push(L, rb + at.R_CHANGED, row)
    return gone


@kernel("v:ALPiii")
def settle_rows(A, L, rows, r, n, holds):
    """Make `n` rows (flat codes, distinct) of an outside stratum hold, or hold no more."""
    arity = L[L[at.RELS] + r * at.RSZ + at.R_ARITY]
    key_reserve(L, r, n)
    row_room(A, L, r, n)
    room(L, at.CREATED, n)
    for i in range(n):
        settle_row(A, L, rows, i * arity, r, holds)


@kernel("v:ALPPiii")
def answer(A, L, rows, values, known, r, n):
    """Enter `n` values of memo `r`'s functor, but for arguments whose value is there.

    `rows` are the arguments' codes, row after row; where `known` is 0, it has no value there.
    """
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    key_reserve(L, r, n)
    row_room(A, L, r, n)
    for i in range(n):
        h = hash_words(rows, i * arity, arity)
        if key_find(A, L, rows, r, i * arity, h) >= 0:
            continue
        row = new_row(A, L, rows, r, i * arity)
        key_insert(L, r, row, h)
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        A[offset + at.SUPPORT] = known
        A[offset + at.COLS + arity] = values[i]


@kernel("i:ALii")
def find_slot(A, L, x, n):
    """Cell of the slot of index `x` whose key is the `n` words at KEY2, or -1. For the writer.

    A late index is filled first: O(rows), once.
    """
    if L[L[at.IDXS] + x * at.XSZ + at.X_LATE]:
        for k in range(n):
            A[at.KEY + k] = A[at.KEY2 + k]
        fill_index(A, L, x)
        for k in range(n):
            A[at.KEY2 + k] = A[at.KEY + k]
    return idx_find(A, L, x, at.KEY2, hash_words(A, at.KEY2, n))


@kernel("i:ALPiii")
def lookup(A, L, rows, r, i, mask):
    """Row number of row `i` of a flat table if its flags include `mask`, else -1."""
    rb = L[at.RELS] + r * at.RSZ
    arity = L[rb + at.R_ARITY]
    h = hash_words(rows, i * arity, arity)
    row = key_find(A, L, rows, r, i * arity, h)
    if row >= 0 and (L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & mask) == mask:
        return row
    return np.int64(-1)
