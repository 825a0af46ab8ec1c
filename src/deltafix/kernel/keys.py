"""The hash table of a relation's whole rows.

Open addressing; a slot is one cell `hash << 32 | row + 1`; the hash in the slot places it again
when the table grows and spares touching a row on a mismatch. Invariant: rows enter when they are
allocated and leave at commit; deletion shifts back, so no tombstones pile up.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import block, discard, generous, recycle

_LOW = 1 << 10
_RUN = 1 << 9


@kernel("i:Aii")
def hash_words(A, o, n):
    """31-bit hash of `n` words at `o`. Products stay below 2**63: plain Python agrees."""
    h = np.int64(n) + 1
    for k in range(n):
        h = (h ^ (np.int64(A[o + k]) & 0xFFFFFFFF)) * 1640531527
        h = (h ^ (h >> 31)) & 0xFFFFFFFF
    h = (h ^ (h >> 15)) * 1540483477
    h = (h ^ (h >> 29)) & 0x7FFFFFFF
    return h


@kernel("i:ALPiii")
def key_find(A, L, K, r, o, h):
    """The row of `r` whose columns equal the words of `K` at `o` (hash `h`), or -1."""
    rb = L[at.RELS] + r * at.RSZ
    base = L[rb + at.R_PK]
    cap = L[rb + at.R_PKCAP]
    arity = L[rb + at.R_ARITY]
    s = (h * cap) >> at.HASH_BITS
    while True:
        v = L[base + s]
        if v == 0:
            return np.int64(-1)
        if (v >> 32) == h:
            row = (v & 0xFFFFFFFF) - 1
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.COLS
            same = True
            for k in range(arity):
                if A[offset + k] != K[o + k]:
                    same = False
                    break
            if same:
                return row
        s += 1
        if s == cap:
            s = 0


@kernel("v:Liii")
def _place(L, base, cap, v):
    """Enter a slot's cell into the first free slot from its hash's place on."""
    s = ((v >> 32) * cap) >> at.HASH_BITS
    while L[base + s] != 0:
        s += 1
        if s == cap:
            s = 0
    L[base + s] = v


@kernel("i:Li")
def _first_gap(L, rb):
    """A free slot, `_LOW` or later, above which a table can grow where it lies; -1: none.

    It can where no run of taken slots is long.
    """
    base = L[rb + at.R_PK]
    gap = np.int64(-1)
    run = np.int64(0)
    for k in range(L[rb + at.R_PKCAP]):
        if L[base + k] == 0:
            run = np.int64(0)
            if gap < 0 and k >= _LOW:
                gap = np.int64(k)
        else:
            run += 1
            if run == _RUN:
                return np.int64(-1)
    return gap


@kernel("v:Liii")
def _spread(L, rb, gap, cap):
    """Move the entries of a key table to their places among `cap` slots that begin where it does.

    `cap` is at least 1.5 times as many as there are.
    From the top down: a run of taken slots that begins at `a` has entries whose new places begin
    at 1.5 * a, which is behind the run where it is shorter than a / 2; so nothing that waits is
    met. What lies below `gap`, or would wrap around at the end, waits elsewhere: the latter are
    no more than were so before, less than `_RUN`.
    """
    base = L[rb + at.R_PK]
    held = block(L, (gap + 2 * _RUN) * 2) // 2
    n = np.int64(0)
    for k in range(gap):
        if L[base + k] != 0:
            L[held + n] = L[base + k]
            L[base + k] = 0
            n += 1
    for k in range(L[rb + at.R_PKCAP] - 1, gap, -1):
        v = L[base + k]
        if v == 0:
            continue
        L[base + k] = 0
        s = ((v >> 32) * cap) >> at.HASH_BITS
        while s < cap and L[base + s] != 0:
            s += 1
        if s == cap:
            L[held + n] = v
            n += 1
        else:
            L[base + s] = v
    for k in range(n):
        _place(L, base, cap, L[held + k])
    recycle(L, held * 2, (gap + 2 * _RUN) * 2)


@kernel("v:Lii")
def key_reserve(L, r, n):
    """Make the key table of `r` large enough for `n` more rows at a load of at most 0.8.

    A large one grows where it lies, so that no page is written twice: of a load of 20 M rows,
    a third of the time went into new pages (docs/kernel.md, "Memory").
    """
    rb = L[at.RELS] + r * at.RSZ
    cap = L[rb + at.R_PKCAP]
    if (L[rb + at.R_PKUSED] + n) * 5 <= cap * 4:
        return
    new_cap = max(cap + cap // 2 + 16, (L[rb + at.R_PKUSED] + n) * 3 // 2)
    gap = _first_gap(L, rb) if new_cap <= L[rb + at.R_PKROOM] else np.int64(-1)
    if gap >= 0:
        _spread(L, rb, gap, new_cap)
    else:
        room = generous(new_cap, cap)
        base = L[rb + at.R_PK]
        new = block(L, room * 2) // 2
        # Slots lie in the order of their hashes (up to wrap-around): both tables are walked once.
        for k in range(cap):
            if L[base + k] != 0:
                _place(L, new, new_cap, L[base + k])
        discard(L, base * 2, L[rb + at.R_PKROOM] * 2)
        L[rb + at.R_PK] = new
        L[rb + at.R_PKROOM] = room
    L[rb + at.R_PKCAP] = new_cap


@kernel("v:Liii")
def key_insert(L, r, row, h):
    """Enter a row that is known to be absent; room was made by `key_reserve`."""
    rb = L[at.RELS] + r * at.RSZ
    _place(L, L[rb + at.R_PK], L[rb + at.R_PKCAP], (h << 32) | (row + 1))
    L[rb + at.R_PKUSED] += 1


@kernel("v:Liii")
def key_remove(L, r, row, h):
    """Take a row out of the key table and shift its followers back."""
    rb = L[at.RELS] + r * at.RSZ
    base = L[rb + at.R_PK]
    cap = L[rb + at.R_PKCAP]
    target = (h << 32) | (row + 1)
    hole = (h * cap) >> at.HASH_BITS
    while L[base + hole] != target:
        hole += 1
        if hole == cap:
            hole = 0
    s = hole
    while True:
        s += 1
        if s == cap:
            s = 0
        v = L[base + s]
        if v == 0:
            break
        home = ((v >> 32) * cap) >> at.HASH_BITS
        if (s - home) % cap >= (s - hole) % cap:
            L[base + hole] = v
            hole = s
    L[base + hole] = 0
    L[rb + at.R_PKUSED] -= 1
