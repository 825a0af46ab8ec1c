"""The hash table of a relation's whole rows.

Open addressing; a slot is one cell `hash << 32 | row + 1`; the hash in the slot places it again
when the table grows and spares touching a row on a mismatch. Invariant: rows enter when they are
allocated and leave at commit; deletion shifts back, so no tombstones pile up.

A large table grows where it lies, by threads stretch by stretch: `open_growth`, then `spread_part`
for all parts while `next_stretch` has one; it is no table in between.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import block, discard, generous, recycle, scratch

_MOST = 1 << 11
"""Entries that a part of a growth may hold."""
_BY_QUARTERS = 1 << 24
"""Slots from which a table grows by a quarter, not by half: 128 MiB."""
_STRETCH = 1 << 17
"""Slots left of a growth from which threads share a stretch of them."""

# --- a growth's cells ----------------------------------------------------------------------------
_REL = 0
_CAP = 1  # slots that the table will have
_FIRST = 2  # of the stretch at hand, whose slots end at _LAST
_LAST = 3
_PARTS = 4
_FULL = 5  # 1: a part would hold too many entries
_HELD = 6  # for each part, how many entries it holds, and these
_HELD_CELLS = 1 + _MOST


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


@kernel("i:Lii")
def _wanted(L, rb, n):
    """The slots of a key table with `n` more rows at a load of at most 0.8."""
    cap = L[rb + at.R_PKCAP]
    rows = L[rb + at.R_PKUSED] + n
    if rows * 5 <= cap * 4:
        return cap
    if cap < _BY_QUARTERS:
        return max(cap + cap // 2 + 16, rows * 3 // 2)
    return max(cap + cap // 4, rows * 4 // 3)


@kernel("i:Liii")
def open_growth(L, r, n, parts):
    """Begin to grow the key table of `r` where it lies, for `n` more rows. Returns the growth.

    0: it is large enough, or too small for that, or there is no room. It must have room elsewhere,
    too: that many keys have hashes close by shows when some have moved. Raises MemoryError.
    """
    rb = L[at.RELS] + r * at.RSZ
    old = L[rb + at.R_PKCAP]
    cap = _wanted(L, rb, n)
    words = (_HELD + parts * _HELD_CELLS) * 2
    room = generous(L, cap, old, np.int64(2)) * 2 + words + 32
    if cap == old or old < _MOST or cap > L[rb + at.R_PKROOM] or L[at.BUMP] + room > L[at.LIMIT]:
        return np.int64(0)
    g = scratch(L, words, np.int64(0)) // 2
    L[g + _REL] = r
    L[g + _CAP] = cap
    L[g + _FIRST] = old
    L[g + _PARTS] = parts
    L[g + _FULL] = 0
    for part in range(parts):
        L[g + _HELD + part * _HELD_CELLS] = 0
    return g


@kernel("v:Liiii")
def _spread(L, g, part, first, last):
    """Move the entries of some slots, of which `part` has charge, to their places in a growth.

    From the top down, to slots above that were emptied and are those of no other part. An entry
    that has no place among them is held; where there are too many, the others stay where they are.
    """
    rb = L[at.RELS] + L[g + _REL] * at.RSZ
    base = L[rb + at.R_PK]
    cap = L[g + _CAP]
    least = first * cap // L[rb + at.R_PKCAP]
    end = last * cap // L[rb + at.R_PKCAP]
    held = g + _HELD + part * _HELD_CELLS
    n = L[held]
    for k in range(last - 1, first - 1, -1):
        v = L[base + k]
        if v == 0:
            continue
        s = ((v >> 32) * cap) >> at.HASH_BITS
        if s >= max(least, k):
            L[base + k] = 0
            while s < end and L[base + s] != 0:
                s += 1
            if s < end:
                L[base + s] = v
                continue
        if n == _MOST:
            L[base + k] = v
            L[g + _FULL] = 1
            break
        L[base + k] = 0
        n += 1
        L[held + n] = v
    L[held] = n


@kernel("v:Lii")
def spread_part(L, g, part):
    """Move the entries of a part of the stretch at hand. A thread a part."""
    n = L[g + _LAST] - L[g + _FIRST]
    first = L[g + _FIRST]
    parts = L[g + _PARTS]
    _spread(L, g, part, first + n * part // parts, first + n * (part + 1) // parts)


@kernel("v:Liiii")
def _place_all(L, first, n, base, cap):
    """Enter what stands in `n` slots into a table of `cap`."""
    for k in range(first, first + n):
        if L[k] != 0:
            _place(L, base, cap, L[k])


@kernel("v:Liii")
def _move(L, rb, filled, cap):
    """Enter what stands in the first slots of a key table, in any order, into one of `cap`."""
    base = L[rb + at.R_PK]
    room = generous(L, cap, L[rb + at.R_PKCAP], np.int64(2))
    new = block(L, room * 2) // 2
    # Slots lie in the order of their hashes (up to wrap-around): both tables are walked once.
    _place_all(L, base, filled, new, cap)
    discard(L, base * 2, L[rb + at.R_PKROOM] * 2)
    L[rb + at.R_PK] = new
    L[rb + at.R_PKROOM] = room


@kernel("v:Li")
def _close_growth(L, g):
    """End a growth when all slots were looked at, or a part holds as many as it can."""
    rb = L[at.RELS] + L[g + _REL] * at.RSZ
    cap = L[g + _CAP]
    if L[g + _FULL]:
        _move(L, rb, cap, cap)
    for part in range(L[g + _PARTS]):
        held = g + _HELD + part * _HELD_CELLS
        _place_all(L, held + 1, L[held], L[rb + at.R_PK], cap)
    L[rb + at.R_PKCAP] = cap
    recycle(L, g * 2, (_HELD + L[g + _PARTS] * _HELD_CELLS) * 2)


@kernel("i:Li")
def next_stretch(L, g):
    """Take the next stretch of a growth: 1. 0: few slots are left, which one thread does here.

    Its slots lie below those before it, and all of their places above them, which is a third of
    what is left at least.
    """
    last = L[g + _FIRST]
    if last >= _STRETCH and L[g + _PARTS] > 1 and not L[g + _FULL]:
        cap = L[g + _CAP]
        L[g + _LAST] = last
        L[g + _FIRST] = (last * L[L[at.RELS] + L[g + _REL] * at.RSZ + at.R_PKCAP] + cap - 1) // cap
        return np.int64(1)
    if not L[g + _FULL]:
        _spread(L, g, np.int64(0), np.int64(0), last)
    _close_growth(L, g)
    return np.int64(0)


@kernel("v:Lii")
def key_reserve(L, r, n):
    """Make the key table of `r` large enough for `n` more rows.

    A large one grows where it lies, so that no page is written twice: of a load of 20 M rows,
    a third of the time went into new pages (docs/kernel.md, "Pages of a load").
    """
    rb = L[at.RELS] + r * at.RSZ
    cap = _wanted(L, rb, n)
    if cap == L[rb + at.R_PKCAP]:
        return
    g = open_growth(L, r, n, np.int64(1))
    if g:
        next_stretch(L, g)
    else:
        _move(L, rb, L[rb + at.R_PKCAP], cap)
        L[rb + at.R_PKCAP] = cap


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
