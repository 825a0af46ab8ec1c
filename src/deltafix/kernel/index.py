"""Hash tables over rows by some of their columns, any number a relation.

A slot names the bucket of a key, `hash << 32 | ref + 1` and `class << 32 | count`; class 0 holds
its one row inline, class c a run of 2 << c rows in the bucket heap. A bucket is contiguous, so a
scan of it has independent loads (a linked chain does not: docs/kernel.md, "Buckets").

Invariant: rows enter when they first become true and leave at commit, never in between; which
state they belong to is in their flags. Deletion shifts back, so no tombstones pile up.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.filters import note_key
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words
from deltafix.kernel.memory import block, discard, generous, recycle, scratch


@kernel("i:Li")
def bucket_start(L, ref):
    """First word of a bucket, from its reference (units of four words)."""
    return L[at.BUCKETS] + ref * 4


@kernel("v:Li")
def grow_buckets(L, units):
    """Have so many units behind the buckets there are. Raises MemoryError."""
    if L[at.BUCKET_TOP] + units > L[at.BUCKET_CAP]:
        old = L[at.BUCKETS]
        cap = L[at.BUCKET_CAP]
        new_cap = generous(L, L[at.BUCKET_TOP] + units, cap, np.int64(4))
        new = block(L, new_cap * 4)
        for k in range(L[at.BUCKET_TOP] * 2):
            L[new // 2 + k] = L[old // 2 + k]
        discard(L, old, cap * 4)
        L[at.BUCKETS] = new
        L[at.BUCKET_CAP] = new_cap


@kernel("i:ALi")
def bucket_take(A, L, c):
    """A free bucket of class `c` (2 << c rows), as a reference."""
    ref = L[at.BUCKET_FREE + c] - 1
    if ref >= 0:
        L[at.BUCKET_FREE + c] = np.int64(A[bucket_start(L, ref)])
        return ref
    units = (2 << c) // 4
    grow_buckets(L, units)
    ref = L[at.BUCKET_TOP]
    L[at.BUCKET_TOP] = ref + units
    return ref


@kernel("v:ALii")
def bucket_give(A, L, ref, c):
    """Put a bucket back on the free list of its class."""
    A[bucket_start(L, ref)] = L[at.BUCKET_FREE + c]
    L[at.BUCKET_FREE + c] = ref + 1


@kernel("i:ALiii")
def slot_has(A, L, x, slot, o):
    """Whether the key of a slot of index `x` equals the words at `o`: its first row says."""
    xb = L[at.IDXS] + x * at.XSZ
    first = (L[slot] & 0xFFFFFFFF) - 1
    if (L[slot + 1] >> 32) != 0:
        first = np.int64(A[bucket_start(L, first)])
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + first * L[rb + at.R_STRIDE] + at.COLS
    cols = L[xb + at.X_COLS]
    for k in range(L[xb + at.X_NKEY]):
        if A[offset + L[cols + k]] != A[o + k]:
            return np.int64(0)
    return np.int64(1)


@kernel("i:ALiii")
def idx_find(A, L, x, o, h):
    """Cell of the slot of index `x` whose key equals the words at `o` (hash `h`), or -1."""
    xb = L[at.IDXS] + x * at.XSZ
    base = L[xb + at.X_SLOTS]
    cap = L[xb + at.X_CAP]
    s = (h * cap) >> at.HASH_BITS
    while True:
        v = L[base + 2 * s]
        if v == 0:
            return np.int64(-1)
        if (v >> 32) == h and slot_has(A, L, x, base + 2 * s, o):
            return base + 2 * s
        s += 1
        if s == cap:
            s = 0


@kernel("i:Lii")
def idx_glance(L, x, h):
    """Cell of the first slot of index `x` with the hash `h`, or -1: there is no such key.

    Mostly, but not surely, it is that of the key. Touches the slot alone: no bucket, no row.
    """
    xb = L[at.IDXS] + x * at.XSZ
    base = L[xb + at.X_SLOTS]
    cap = L[xb + at.X_CAP]
    s = (h * cap) >> at.HASH_BITS
    while L[base + 2 * s] != 0:
        if (L[base + 2 * s] >> 32) == h:
            return base + 2 * s
        s += 1
        if s == cap:
            s = 0
    return np.int64(-1)


@kernel("v:Li")
def idx_reserve(L, x):
    """Make room for one more key in index `x` at a load of at most 0.75."""
    xb = L[at.IDXS] + x * at.XSZ
    cap = L[xb + at.X_CAP]
    if (L[xb + at.X_USED] + 1) * 4 <= cap * 3:
        return
    base = L[xb + at.X_SLOTS]
    new_cap = cap * 2
    new = block(L, new_cap * 4) // 2
    for k in range(cap):
        v = L[base + 2 * k]
        if v != 0:
            s = ((v >> 32) * new_cap) >> at.HASH_BITS
            while L[new + 2 * s] != 0:
                s += 1
                if s == new_cap:
                    s = 0
            L[new + 2 * s] = v
            L[new + 2 * s + 1] = L[base + 2 * k + 1]
    discard(L, base * 2, cap * 4)
    L[xb + at.X_SLOTS] = new
    L[xb + at.X_CAP] = new_cap


@kernel("i:ALii")
def idx_key(A, L, x, offset):
    """Gather the key columns of the row at word `at` into KEY2; returns their hash."""
    xb = L[at.IDXS] + x * at.XSZ
    n = L[xb + at.X_NKEY]
    cols = L[xb + at.X_COLS]
    for k in range(n):
        A[at.KEY2 + k] = A[offset + at.COLS + L[cols + k]]
    return hash_words(A, at.KEY2, n)


@kernel("v:ALi")
def make_positions(A, L, x):
    """Have a position in index `x` for each row that its relation has room for.

    They are the index's own: a table gets indexes without being copied, and what fills one writes
    its positions and reads rows. Raises MemoryError.
    """
    xb = L[at.IDXS] + x * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    cap = L[rb + at.R_CAP]
    if cap <= L[xb + at.X_POSCAP]:
        return
    old = L[xb + at.X_POS]
    new = scratch(L, cap, np.int64(0))
    for row in range(min(L[xb + at.X_POSCAP], L[rb + at.R_N])):
        A[new + row] = A[old + row]
    recycle(L, old, L[xb + at.X_POSCAP])
    L[xb + at.X_POS] = new
    L[xb + at.X_POSCAP] = cap


@kernel("v:ALii")
def idx_add(A, L, x, row):
    """Enter a row into index `x`. Amortised O(1)."""
    xb = L[at.IDXS] + x * at.XSZ
    if row >= L[xb + at.X_POSCAP]:
        make_positions(A, L, x)
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    h = idx_key(A, L, x, offset)
    idx_reserve(L, x)
    slot = idx_find(A, L, x, at.KEY2, h)
    pos = np.int64(0)
    if slot < 0:
        note_key(L, xb, h)
        base = L[xb + at.X_SLOTS]
        cap = L[xb + at.X_CAP]
        s = (h * cap) >> at.HASH_BITS
        while L[base + 2 * s] != 0:
            s += 1
            if s == cap:
                s = 0
        L[base + 2 * s] = (h << 32) | (row + 1)
        L[base + 2 * s + 1] = 1
        L[xb + at.X_USED] += 1
    else:
        ref = (L[slot] & 0xFFFFFFFF) - 1
        c = L[slot + 1] >> 32
        count = L[slot + 1] & 0xFFFFFFFF
        pos = count
        if c == 0:
            new = bucket_take(A, L, 1)
            A[bucket_start(L, new)] = ref
            ref = new
            c = np.int64(1)
        elif count == (2 << c):
            new = bucket_take(A, L, c + 1)
            source = bucket_start(L, ref)
            target = bucket_start(L, new)
            for k in range(count):
                A[target + k] = A[source + k]
            bucket_give(A, L, ref, c)
            ref = new
            c += 1
        A[bucket_start(L, ref) + pos] = row
        L[slot] = (h << 32) | (ref + 1)
        L[slot + 1] = (c << 32) | (count + 1)
    A[L[xb + at.X_POS] + row] = pos


@kernel("v:ALii")
def idx_remove(A, L, x, row):
    """Take a row out of index `x`: the last row of its bucket moves into its place. O(1)."""
    xb = L[at.IDXS] + x * at.XSZ
    rb = L[at.RELS] + L[xb + at.X_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    positions = L[xb + at.X_POS]
    prefetch(L, (positions + row) >> 1)
    h = idx_key(A, L, x, offset)
    slot = idx_find(A, L, x, at.KEY2, h)
    ref = (L[slot] & 0xFFFFFFFF) - 1
    c = L[slot + 1] >> 32
    count = (L[slot + 1] & 0xFFFFFFFF) - 1
    if count > 0:
        start = bucket_start(L, ref)
        pos = np.int64(A[positions + row])
        last = np.int64(A[start + count])
        A[start + pos] = last
        A[positions + last] = pos
        if c > 1 and count * 8 <= (2 << c):
            # Shrink at an eighth, so that growing and shrinking cannot alternate.
            new = bucket_take(A, L, c - 1)
            start = bucket_start(L, ref)
            target = bucket_start(L, new)
            for k in range(count):
                A[target + k] = A[start + k]
            bucket_give(A, L, ref, c)
            ref = new
            c -= 1
            L[slot] = (h << 32) | (ref + 1)
        L[slot + 1] = (c << 32) | count
        return
    if c > 0:
        bucket_give(A, L, ref, c)
    base = L[xb + at.X_SLOTS]
    cap = L[xb + at.X_CAP]
    hole = (slot - base) // 2
    s = hole
    while True:
        s += 1
        if s == cap:
            s = 0
        v = L[base + 2 * s]
        if v == 0:
            break
        home = ((v >> 32) * cap) >> at.HASH_BITS
        if (s - home) % cap >= (s - hole) % cap:
            L[base + 2 * hole] = v
            L[base + 2 * hole + 1] = L[base + 2 * s + 1]
            hole = s
    L[base + 2 * hole] = 0
    L[base + 2 * hole + 1] = 0
    L[xb + at.X_USED] -= 1


@kernel("i:Lii")
def takes(L, x, row):
    """Whether index `x` has, or is to have at once, a row: it is whole, or filled that far."""
    late = L[L[at.IDXS] + x * at.XSZ + at.X_LATE]
    return np.int64(late == 0 or row < late - at.PART)


@kernel("v:ALii")
def index_row(A, L, r, row):
    """Enter a row into every secondary index of its relation, once; late ones take it later."""
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    if L[cell] & at.INDEXED:
        return
    for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
        if takes(L, x, row):
            idx_add(A, L, x, row)
    L[cell] |= at.INDEXED


@kernel("v:ALii")
def unindex_row(A, L, r, row):
    """Take a row out of every secondary index of its relation, if it is in them."""
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    if not (L[cell] & at.INDEXED):
        return
    for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
        if takes(L, x, row):
            idx_remove(A, L, x, row)
    L[cell] &= ~at.INDEXED


@kernel("v:ALi")
def empty_index(A, L, x):
    """Give back the buckets of index `x` and forget its keys. O(capacity)."""
    xb = L[at.IDXS] + x * at.XSZ
    base = L[xb + at.X_SLOTS]
    for s in range(L[xb + at.X_CAP]):
        c = L[base + 2 * s + 1] >> 32
        if c > 0:
            bucket_give(A, L, (L[base + 2 * s] & 0xFFFFFFFF) - 1, c)
        L[base + 2 * s] = 0
        L[base + 2 * s + 1] = 0
    L[xb + at.X_USED] = 0


@kernel("v:ALi")
def drop_index(A, L, x):
    """Give back what index `x` has, which nobody asks any more. O(capacity)."""
    empty_index(A, L, x)
    xb = L[at.IDXS] + x * at.XSZ
    discard(L, L[xb + at.X_SLOTS] * 2, L[xb + at.X_CAP] * 4)
    recycle(L, L[xb + at.X_POS], L[xb + at.X_POSCAP])
