"""The end of a stratum's epoch: what holds now, and which rows later strata must hear of.

Without recursion support alone decides what holds, and decides it here; in a recursive stratum
the queue and the wave have done so. Invariant: afterwards LIMBO, MOVED and (without recursion)
PENDING are clear but for LIMBO on the rows listed as changed, which `edit` clears at the end of
the epoch; a row is listed once. Rows of strata that are no rules' are settled one by one
(`settle_row`). Nothing here derives anything.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.bulk import fill_index
from deltafix.kernel.emit import touch
from deltafix.kernel.index import index_row, unindex_row
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find, key_insert, key_remove, key_reserve
from deltafix.kernel.layout import (
    CLOCK,
    COLS,
    GAP,
    GIVEN,
    IDXS,
    LIMBO,
    MOVED,
    NOW,
    PENDING,
    R_ARITY,
    R_CHANGED,
    R_IDX,
    R_KEEP,
    R_NIDX,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RECURSIVE,
    RELS,
    RSZ,
    S_J0,
    S_Q0,
    SUPPORT,
    T_NRELS,
    T_RELS,
    TOUCHED,
    USED,
    WAS,
    X_LATE,
    XSZ,
    J,
    Q,
)
from deltafix.kernel.memory import free_row, new_row, push, room, row_room


@kernel("v:ALii")
def _settle(A, L, r, row):
    """End of a stratum for one of its rows: clear LIMBO; without recursion, support decides."""
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    word = L[at >> 1] & ~(LIMBO | MOVED)
    L[at >> 1] = word
    if not L[RECURSIVE]:
        holds = (word & GIVEN) or A[at + SUPPORT] > 0
        L[at >> 1] = word & ~PENDING
        if holds and not (word & NOW):
            L[at >> 1] |= NOW
            L[rb + R_NOW] += 1
            index_row(A, L, r, row)
        elif not holds and (word & NOW):
            L[at >> 1] &= ~NOW
            L[rb + R_NOW] -= 1


@kernel("v:ALiii")
def _list_change(A, L, r, row, keep):
    """Put a row whose truth changed on its relation's list, once (LIMBO marks it)."""
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    word = L[cell]
    changed = ((word & NOW) != 0) != ((word & WAS) != 0)
    if keep and changed and not (word & LIMBO):
        L[cell] = word | LIMBO
        push(L, rb + R_CHANGED, row)


@kernel("v:ALPi")
def finish_stratum(A, L, P, t):
    """Settle the stratum's rows, fill late indexes, list the changed rows for later strata."""
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        for e in range(L[rb + R_CHANGED + 1]):
            _settle(A, L, r, L[L[rb + R_CHANGED] + e])
    for e in range(L[S_J0], L[J + 1], 3):
        value = L[L[J] + e]
        _settle(A, L, value >> 32, value & 0xFFFFFFFF)
    for e in range(L[S_Q0], L[Q + 1]):
        value = L[L[Q] + e]
        _settle(A, L, value >> 32, value & 0xFFFFFFFF)
    for k in range(P[t + T_NRELS]):
        rb = L[RELS] + P[P[t + T_RELS] + k] * RSZ
        for x in range(L[rb + R_IDX], L[rb + R_IDX] + L[rb + R_NIDX]):
            if L[L[IDXS] + x * XSZ + X_LATE]:
                fill_index(A, L, x)
    # All settled (LIMBO clear): from here on the flag marks rows that are listed.
    for k in range(P[t + T_NRELS]):
        r = np.int64(P[P[t + T_RELS] + k])
        rb = L[RELS] + r * RSZ
        edits = L[rb + R_CHANGED + 1]
        L[rb + R_CHANGED + 1] = 0
        for e in range(edits):  # the list is rebuilt in place: it never outruns its reader
            _list_change(A, L, r, L[L[rb + R_CHANGED] + e], L[rb + R_KEEP])
    for e in range(L[S_J0], L[J + 1], 3):
        value = L[L[J] + e]
        r = value >> 32
        _list_change(A, L, r, value & 0xFFFFFFFF, L[L[RELS] + r * RSZ + R_KEEP])
    for e in range(L[S_Q0], L[Q + 1]):
        value = L[L[Q] + e]
        r = value >> 32
        _list_change(A, L, r, value & 0xFFFFFFFF, L[L[RELS] + r * RSZ + R_KEEP])


@kernel("v:ALPiii")
def settle_row(A, L, rows, o, r, holds):
    """Make the row of `r` with the columns at word `o` of `rows` hold, or hold no more.

    It is one of an outside stratum. A row that holds must not hold yet, and the other way round.
    Later strata see it as changed.
    """
    rb = L[RELS] + r * RSZ
    h = hash_words(rows, o, L[rb + R_ARITY])
    row = key_find(A, L, rows, r, o, h)
    if row < 0:
        key_reserve(L, r, 1)
        row_room(A, L, r, 1)
        room(L, Q, 1)
        row = new_row(A, L, rows, r, o)
        key_insert(L, r, row, h)
        L[CLOCK] += GAP
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        L[at >> 1] = (L[CLOCK] << RANK_SHIFT) | USED | TOUCHED
        push(L, Q, (r << 32) | row)
    else:
        touch(A, L, r, row)
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    A[at + SUPPORT] = holds
    if holds:
        L[at >> 1] |= NOW
        L[rb + R_NOW] += 1
        index_row(A, L, r, row)
    else:
        L[at >> 1] &= ~NOW
        L[rb + R_NOW] -= 1
    if L[rb + R_KEEP]:
        push(L, rb + R_CHANGED, row)


@kernel("v:ALii")
def drop_row(A, L, r, row):
    """Take a row out of every table and free it: its columns stay until it is allocated again."""
    rb = L[RELS] + r * RSZ
    unindex_row(A, L, r, row)
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE] + COLS
    key_remove(L, r, row, hash_words(A, at, L[rb + R_ARITY]))
    free_row(A, L, r, row)
