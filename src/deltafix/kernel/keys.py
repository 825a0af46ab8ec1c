"""The hash table of a relation's whole rows.

Open addressing; a slot is one cell `hash << 32 | row + 1`; the hash in the slot places it again
when the table grows and spares touching a row on a mismatch. Invariant: rows enter when they are
allocated and leave at commit; deletion shifts back, so no tombstones pile up.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import block, discard, generous, recycle, scratch

_LOW = 1 << 10
_HELD = 1 << 11


@kernel("i:Aiii")
def hash_more(A, o, n, h):
    """Take `n` more words, at `o`, into a hash. Products stay below 2**63: plain Python agrees."""
    for k in range(n):
        h = (h ^ (np.int64(A[o + k]) & 0xFFFFFFFF)) * 1640531527
        h = (h ^ (h >> 31)) & 0xFFFFFFFF
    return h


@kernel("i:i")
def hash_end(h):
    """The hash, in 31 bits, when all words are taken in."""
    h = (h ^ (h >> 15)) * 1540483477
    return (h ^ (h >> 29)) & 0x7FFFFFFF


@kernel("i:Aii")
def hash_words(A, o, n):
    """31-bit hash of `n` words at `o`."""
    return hash_end(hash_more(A, o, n, np.int64(n) + 1))


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


@kernel("i:Liii")
def _spread(L, rb, cap, held):
    """Move the entries of a key table to their places among `cap` slots that begin where it does.

    From the top down, so what lies above an entry has moved, and it moves if its new place is
    there. What lies below `_LOW`, or has none there, or would wrap around, waits in the `_HELD`
    cells at `held`. Returns 0 where those are too few: no entry is lost, nor where it belongs.
    """
    base = L[rb + at.R_PK]
    n = np.int64(0)
    for k in range(L[rb + at.R_PKCAP] - 1, -1, -1):
        v = L[base + k]
        if v == 0:
            continue
        s = ((v >> 32) * cap) >> at.HASH_BITS
        if s >= k >= _LOW:
            L[base + k] = 0
            while s < cap and L[base + s] != 0:
                s += 1
            if s < cap:
                L[base + s] = v
                continue
        if n == _HELD:
            L[base + k] = v
            return np.int64(0)
        L[base + k] = 0
        L[held + n] = v
        n += 1
    for k in range(n):
        _place(L, base, cap, L[held + k])
    return np.int64(1)


@kernel("v:Liiii")
def _place_all(L, first, n, base, cap):
    """Enter what stands in `n` slots into a table of `cap`."""
    for k in range(first, first + n):
        if L[k] != 0:
            _place(L, base, cap, L[k])


@kernel("v:Lii")
def key_reserve(L, r, n):
    """Make the key table of `r` large enough for `n` more rows at a load of at most 0.8.

    A large one grows where it lies, so that no page is written twice: of a load of 20 M rows,
    a third of the time went into new pages (docs/kernel.md, "Pages of a load"). It can where it
    could move as well: many keys with hashes close by are known for what they are too late.
    """
    rb = L[at.RELS] + r * at.RSZ
    cap = L[rb + at.R_PKCAP]
    if (L[rb + at.R_PKUSED] + n) * 5 <= cap * 4:
        return
    new_cap = max(cap + cap // 2 + 16, (L[rb + at.R_PKUSED] + n) * 3 // 2)
    room = generous(L, new_cap, cap, np.int64(2))
    base = L[rb + at.R_PK]
    held = np.int64(0)
    filled = cap
    free = L[at.LIMIT] - L[at.BUMP]
    if _HELD < cap and new_cap <= L[rb + at.R_PKROOM] and (room + _HELD) * 2 + 32 <= free:
        held = scratch(L, np.int64(_HELD * 2), np.int64(0)) // 2
        filled = new_cap
    if held == 0 or _spread(L, rb, new_cap, held) == 0:
        new = block(L, room * 2) // 2
        # Slots lie in the order of their hashes (up to wrap-around): both tables are walked once.
        _place_all(L, base, filled, new, new_cap)
        if held:
            _place_all(L, held, _HELD, new, new_cap)
        discard(L, base * 2, L[rb + at.R_PKROOM] * 2)
        L[rb + at.R_PK] = new
        L[rb + at.R_PKROOM] = room
    if held:
        recycle(L, held * 2, _HELD * 2)
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
