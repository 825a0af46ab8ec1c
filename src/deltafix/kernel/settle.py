"""The end of a stratum's epoch: what holds now, and which rows later strata must hear of.

Without recursion support alone decides what holds, and decides it here; in a recursive stratum
the queue and the wave have done so. Invariant: afterwards LIMBO, MOVED and (without recursion)
PENDING are clear but for LIMBO on the rows listed as changed, which `edit` clears at the end of
the epoch; a row is listed once. Rows of strata that are no rules' are settled one by one
(`settle_row`). Nothing here derives anything.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.emit import touch
from deltafix.kernel.index import index_row, unindex_row
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find, key_insert, key_remove, key_reserve
from deltafix.kernel.memory import empty_queue, free_row, new_row, push, room, row_room
from deltafix.kernel.runs import note_created, run_length


@kernel("v:ALii")
def _settle(A, L, r, row):
    """End of a stratum for one of its rows: clear LIMBO; without recursion, support decides."""
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    word = L[offset >> 1]
    if word & (at.LIMBO | at.MOVED):
        word &= ~(at.LIMBO | at.MOVED)
        L[offset >> 1] = word
    if not L[at.RECURSIVE]:
        holds = (word & at.GIVEN) or A[offset + at.SUPPORT] > 0
        L[offset >> 1] = word & ~at.PENDING
        if holds and not (word & at.NOW):
            L[offset >> 1] |= at.NOW
            L[rb + at.R_NOW] += 1
            index_row(A, L, r, row)
        elif not holds and (word & at.NOW):
            L[offset >> 1] &= ~at.NOW
            L[rb + at.R_NOW] -= 1


@kernel("v:ALiii")
def _list_change(A, L, r, row, keep):
    """Put a row whose truth changed on its relation's list, once (LIMBO marks it)."""
    if not keep:
        return
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    word = L[cell]
    changed = ((word & at.NOW) != 0) != ((word & at.WAS) != 0)
    if changed and not (word & at.LIMBO):
        L[cell] = word | at.LIMBO
        push(L, rb + at.R_CHANGED, row)


@kernel("v:ALPi")
def finish_stratum(A, L, P, t):
    """Settle the stratum's rows, and list the changed rows for later strata.

    After an evaluation from nothing its late indexes are to be filled: edits do not wait for that.
    Those of an input that are late since rules came are filled when one asks (`engine.tables`).
    """
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        for e in range(L[rb + at.R_CHANGED + 1]):
            _settle(A, L, r, L[L[rb + at.R_CHANGED] + e])
    for e in range(L[at.S_J0], L[at.J + 1], 3):
        value = L[L[at.J] + e]
        _settle(A, L, value >> 32, value & 0xFFFFFFFF)
    e = L[at.S_CREATED]
    while e < L[at.CREATED + 1]:
        value = L[L[at.CREATED] + e]
        n = run_length(L, np.int64(at.CREATED), e)
        for k in range(n):
            _settle(A, L, value >> 32, (value & 0xFFFFFFFF) + k)
        e += 1 + (n > 1)
    empty_queue(L)
    for k in range(P[t + at.T_NRELS]):
        rb = L[at.RELS] + P[P[t + at.T_RELS] + k] * at.RSZ
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            if L[L[at.IDXS] + x * at.XSZ + at.X_LATE] == at.LATE_NOW:
                L[at.TO_FILL] = 1
    # All settled (LIMBO clear): from here on the flag marks rows that are listed.
    for k in range(P[t + at.T_NRELS]):
        r = np.int64(P[P[t + at.T_RELS] + k])
        rb = L[at.RELS] + r * at.RSZ
        edits = L[rb + at.R_CHANGED + 1]
        L[rb + at.R_CHANGED + 1] = 0
        for e in range(edits):  # the list is rebuilt in place: it never outruns its reader
            _list_change(A, L, r, L[L[rb + at.R_CHANGED] + e], L[rb + at.R_KEEP])
    for e in range(L[at.S_J0], L[at.J + 1], 3):
        value = L[L[at.J] + e]
        r = value >> 32
        _list_change(A, L, r, value & 0xFFFFFFFF, L[L[at.RELS] + r * at.RSZ + at.R_KEEP])
    e = L[at.S_CREATED]
    while e < L[at.CREATED + 1]:
        value = L[L[at.CREATED] + e]
        n = run_length(L, np.int64(at.CREATED), e)
        r = value >> 32
        keep = L[L[at.RELS] + r * at.RSZ + at.R_KEEP]
        for k in range(n if keep else 0):
            _list_change(A, L, r, (value & 0xFFFFFFFF) + k, keep)
        e += 1 + (n > 1)


@kernel("v:ALPiii")
def settle_row(A, L, rows, o, r, holds):
    """Make the row of `r` with the columns at word `o` of `rows` hold, or hold no more.

    It is one of an outside stratum. A row that holds must not hold yet, and the other way round.
    Later strata see it as changed.
    """
    rb = L[at.RELS] + r * at.RSZ
    h = hash_words(rows, o, L[rb + at.R_ARITY])
    row = key_find(A, L, rows, r, o, h)
    if row < 0:
        key_reserve(L, r, 1)
        row_room(A, L, r, 1)
        room(L, at.CREATED, 1)
        row = new_row(A, L, rows, r, o)
        key_insert(L, r, row, h)
        L[at.CLOCK] += at.GAP
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        L[offset >> 1] = (L[at.CLOCK] << at.RANK_SHIFT) | at.USED | at.TOUCHED
        note_created(L, (r << 32) | row, 1)
    else:
        touch(A, L, r, row)
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    A[offset + at.SUPPORT] = holds
    if holds:
        L[offset >> 1] |= at.NOW
        L[rb + at.R_NOW] += 1
        index_row(A, L, r, row)
    else:
        L[offset >> 1] &= ~at.NOW
        L[rb + at.R_NOW] -= 1
    if L[rb + at.R_KEEP]:
        push(L, rb + at.R_CHANGED, row)


@kernel("v:ALii")
def drop_row(A, L, r, row):
    """Take a row out of every table and free it: its columns stay until it is allocated again."""
    rb = L[at.RELS] + r * at.RSZ
    unindex_row(A, L, r, row)
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.COLS
    key_remove(L, r, row, hash_words(A, offset, L[rb + at.R_ARITY]))
    free_row(A, L, r, row)
