"""Key filters: which of many indexes have a key at all, told by one look for all of them.

A row that is taken up probes an index for each of its delta rules. Where many rules read a relation
most of them find nothing: of 90 that read `points` in types of Python, a row meets five. A filter
is a table of cells by the hash of one column, with a bit for each of up to `FILTER_BITS` indexes by
one column; a delta rule whose bit is not set where its row's column falls is passed over.
Invariant: the bit of every key of an index is set. Bits of keys that left, and of others that fall
into the same cell, cost a probe that finds nothing; growing leaves the former out. Which indexes
have a filter is said by linking (`engine/tables`); late ones are asked without (`fill_index`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words
from deltafix.kernel.memory import block, discard


@kernel("v:Liii")
def _set(L, fb, h, bit):
    """Set a bit for a hash in the filter with descriptor `fb`."""
    cell = L[fb + at.FILTER_CELLS] + ((h * L[fb + at.FILTER_CAP]) >> at.HASH_BITS)
    if L[cell] == 0:
        L[fb + at.FILTER_USED] += 1
    L[cell] |= bit


@kernel("v:Li")
def _set_all(L, x):
    """Set the bits of all keys of index `x`."""
    xb = L[at.IDXS] + x * at.XSZ
    fb = L[at.FILTERS] + (L[xb + at.X_FILTER] - 1) * at.FILTER_SIZE
    for s in range(L[xb + at.X_CAP]):
        slot = L[L[xb + at.X_SLOTS] + 2 * s]
        if slot != 0:
            _set(L, fb, slot >> 32, L[xb + at.X_BIT])


@kernel("v:Lii")
def _make_room(L, number, n):
    """Make half of the cells of filter `number`, counted from 1, enough for `n` more keys."""
    fb = L[at.FILTERS] + (number - 1) * at.FILTER_SIZE
    cap = L[fb + at.FILTER_CAP]
    wanted = cap
    while (L[fb + at.FILTER_USED] + n) * 2 > wanted:
        wanted *= 4
    if wanted == cap:
        return
    new = block(L, wanted * 2) // 2
    discard(L, L[fb + at.FILTER_CELLS] * 2, cap * 2)
    L[fb + at.FILTER_CELLS] = new
    L[fb + at.FILTER_CAP] = wanted
    L[fb + at.FILTER_USED] = 0
    for r in range(L[at.N_RELS]):
        rb = L[at.RELS] + r * at.RSZ
        for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
            if L[L[at.IDXS] + x * at.XSZ + at.X_FILTER] == number:
                _set_all(L, np.int64(x))


@kernel("v:Lii")
def note_key(L, xb, h):
    """A key with hash `h` is about to enter the index with descriptor `xb`. Amortised O(1)."""
    if L[xb + at.X_FILTER] != 0:
        L[at.LOOK] += 1
        _make_room(L, L[xb + at.X_FILTER], 1)
        _set(L, L[at.FILTERS] + (L[xb + at.X_FILTER] - 1) * at.FILTER_SIZE, h, L[xb + at.X_BIT])


@kernel("v:Li")
def note_keys(L, x):
    """Index `x` has been filled, or has got its filter. O(slots)."""
    xb = L[at.IDXS] + x * at.XSZ
    if L[xb + at.X_FILTER] != 0:
        L[at.LOOK] += 1
        _make_room(L, L[xb + at.X_FILTER], L[xb + at.X_USED])
        _set_all(L, x)


@kernel("i:ALPii")
def finds_nothing(A, L, P, v, row):
    """Whether variant `v` joins its trigger's row with none, since an index lacks the key.

    Whoever turns to another row counts `LOOK` up; for one row a column is looked up once.
    """
    for entry in range(P[v + at.V_NEEDED], P[v + at.V_NEEDED] + 2 * P[v + at.V_NNEEDED], 2):
        xb = L[at.IDXS] + P[entry] * at.XSZ
        if L[xb + at.X_FILTER] == 0 or L[xb + at.X_LATE]:
            continue
        column = np.int64(P[entry + 1])
        seen = at.LOOKED + 2 * column
        look = (L[at.LOOK] << 20) | L[xb + at.X_FILTER]
        if L[seen] != look:
            rb = L[at.RELS] + P[v + at.V_TRIGGER] * at.RSZ
            h = hash_words(A, L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.COLS + column, 1)
            fb = L[at.FILTERS] + (L[xb + at.X_FILTER] - 1) * at.FILTER_SIZE
            L[seen] = look
            L[seen + 1] = L[L[fb + at.FILTER_CELLS] + ((h * L[fb + at.FILTER_CAP]) >> at.HASH_BITS)]
        if (L[seen + 1] & L[xb + at.X_BIT]) == 0:
            return np.int64(1)
    return np.int64(0)
