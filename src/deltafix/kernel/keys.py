"""The hash table of a relation's whole rows.

Open addressing; a slot is one cell `hash << 32 | row + 1`; the hash in the slot places it again
when the table grows and spares touching a row on a mismatch. Invariant: rows enter when they are
allocated and leave at commit; deletion shifts back, so no tombstones pile up.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    COLS,
    HASH_BITS,
    R_ARITY,
    R_PK,
    R_PKCAP,
    R_PKUSED,
    R_ROWS,
    R_STRIDE,
    RELS,
    RSZ,
)
from deltafix.kernel.memory import block, discard

__all__ = ["hash_words", "key_find", "key_insert", "key_remove", "key_reserve"]


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
    rb = L[RELS] + r * RSZ
    base = L[rb + R_PK]
    cap = L[rb + R_PKCAP]
    arity = L[rb + R_ARITY]
    s = (h * cap) >> HASH_BITS
    while True:
        v = L[base + s]
        if v == 0:
            return np.int64(-1)
        if (v >> 32) == h:
            row = (v & 0xFFFFFFFF) - 1
            at = L[rb + R_ROWS] + row * L[rb + R_STRIDE] + COLS
            same = True
            for k in range(arity):
                if A[at + k] != K[o + k]:
                    same = False
                    break
            if same:
                return row
        s += 1
        if s == cap:
            s = 0


@kernel("v:Lii")
def key_reserve(L, r, n):
    """Make the key table of `r` large enough for `n` more rows at a load of at most 0.8."""
    rb = L[RELS] + r * RSZ
    cap = L[rb + R_PKCAP]
    if (L[rb + R_PKUSED] + n) * 5 <= cap * 4:
        return
    base = L[rb + R_PK]
    new_cap = max(cap + cap // 2 + 16, (L[rb + R_PKUSED] + n) * 3 // 2)
    new = block(L, new_cap * 2) // 2
    # Slots lie in the order of their hashes (up to wrap-around), so both tables are walked once.
    for k in range(cap):
        v = L[base + k]
        if v != 0:
            s = ((v >> 32) * new_cap) >> HASH_BITS
            while L[new + s] != 0:
                s += 1
                if s == new_cap:
                    s = 0
            L[new + s] = v
    discard(L, base * 2, cap * 2)
    L[rb + R_PK] = new
    L[rb + R_PKCAP] = new_cap


@kernel("v:Liii")
def key_insert(L, r, row, h):
    """Enter a row that is known to be absent; room was made by `key_reserve`."""
    rb = L[RELS] + r * RSZ
    base = L[rb + R_PK]
    cap = L[rb + R_PKCAP]
    s = (h * cap) >> HASH_BITS
    while L[base + s] != 0:
        s += 1
        if s == cap:
            s = 0
    L[base + s] = (h << 32) | (row + 1)
    L[rb + R_PKUSED] += 1


@kernel("v:Liii")
def key_remove(L, r, row, h):
    """Take a row out of the key table and shift its followers back."""
    rb = L[RELS] + r * RSZ
    base = L[rb + R_PK]
    cap = L[rb + R_PKCAP]
    target = (h << 32) | (row + 1)
    hole = (h * cap) >> HASH_BITS
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
        home = ((v >> 32) * cap) >> HASH_BITS
        if (s - home) % cap >= (s - hole) % cap:
            L[base + hole] = v
            hole = s
    L[base + hole] = 0
    L[rb + R_PKUSED] -= 1
