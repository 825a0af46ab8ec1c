"""Heads that wait: a large evaluation counts its derivations in batches, by hash.

A head that is found has a random place in its relation's key table and rows, so on a large
relation each derivation would cost two cache misses. While a stratum creates many rows, found heads
wait in a buffer of their relation, about as many as it has rows, in 256 partitions by the upper
bits of their hash. When one is full, all are counted, partition after partition: the part of the
key table (whose slots grow with the hash) and the rows that a partition meets stay in cache.
Invariant: waiting changes no support. Ranks of body rows are fixed when a head is found; whenever
the head is counted, its own rank, or the new one it gets, is compared with that. So batches begin
only where heads are gained and nothing can be lost: in phase FULL, in TAKE as the last phase, and
in CREATE if only that follows and SAVE had nothing to do (`maintain`). Measured: docs/kernel.md,
"Counting in batches".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.emit import gain
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import key_find, key_reserve
from deltafix.kernel.memory import recycle, scratch

PARTS = 256
TEMPORARY = 1 << 31
"""In a slot, where a row's number would stand: plus the place of a new head in its zone's list."""
_SHIFT = at.HASH_BITS - 8
_LEAST_ROOM = 16
_SAMPLE = 512
_SLOT_AHEAD = 16
_ROW_AHEAD = 8


@kernel("i:Li")
def entry_width(L, rb):
    """Cells of an entry: its hash, its body's rank, its columns."""
    return 2 + (L[rb + at.R_ARITY] + 1) // 2


@kernel("i:Li")
def batch_room(L, rb):
    """Entries of a partition that suit the relation: about as many in all as it has rows.

    With more, pages are cleared for nothing: 48 MiB for each of 70 relations were four fifths of a
    load of 0.4 M rows (types of Python).
    """
    most = L[at.BATCH_CELLS] // (PARTS * entry_width(L, rb))
    return max(min(most, max(L[rb + at.R_N] // PARTS, _LEAST_ROOM)), 1)


@kernel("v:Li")
def open_batch(L, rb):
    """Give a relation its buffer, if it has none: a length for each partition, then these."""
    if L[rb + at.R_BATCH] != 0:
        return
    entries = batch_room(L, rb)
    words = (PARTS + PARTS * entries * entry_width(L, rb)) * 2
    L[rb + at.R_BATCH] = scratch(L, words, np.int64(PARTS * 2)) // 2
    L[rb + at.R_BATCH_ROOM] = entries


@kernel("v:Li")
def _close_batch(L, rb):
    """Take a relation's buffer away, with what waits in it."""
    if L[rb + at.R_BATCH] != 0:
        words = (PARTS + PARTS * L[rb + at.R_BATCH_ROOM] * entry_width(L, rb)) * 2
        recycle(L, L[rb + at.R_BATCH] * 2, words)
        L[rb + at.R_BATCH] = np.int64(0)


@kernel("v:ALi")
def _reserve(A, L, r):
    """Make the key table large enough for the new heads among those that wait.

    A partition fills its own part of the table first: without room for all of them it would be
    one long run of taken slots (a load of a million pairs took 38 s for 1). How many are new is
    told from the first partitions, since hashes are alike.
    """
    rb = L[at.RELS] + r * at.RSZ
    width = entry_width(L, rb)
    total = np.int64(0)
    asked = np.int64(0)
    new = np.int64(0)
    for p in range(PARTS):
        n = L[L[rb + at.R_BATCH] + p]
        total += n
        if asked < _SAMPLE:
            first = L[rb + at.R_BATCH] + PARTS + p * L[rb + at.R_BATCH_ROOM] * width
            for k in range(n):
                e = first + k * width
                new += key_find(A, L, A, r, 2 * e + 4, L[e]) < 0
            asked += n
    key_reserve(L, r, total * new // max(asked, 1))


@kernel("i:ALiii")
def count_known(A, L, r, row, m):
    """Count a derivation of a row, of body rank `m`, if the row holds, or waits to.

    0: it does not, or its row was not touched in this epoch yet: `gain` knows what to do.
    """
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    word = L[offset >> 1]
    if not (word & at.TOUCHED) or not (word & (at.NOW | at.PENDING)):
        return np.int64(0)
    if (not L[at.RECURSIVE]) or m < (word >> at.RANK_SHIFT):
        if A[offset + at.SUPPORT] == 0x7FFFFFFF:
            L[at.ERROR] = at.ERR_SUPPORT
        else:
            A[offset + at.SUPPORT] += 1
    every = offset + L[rb + at.R_ALL]
    if every > offset:  # as `tally` does for a row that was touched
        if A[every] == 0x7FFFFFFF:
            L[at.ERROR] = at.ERR_SUPPORT
        else:
            A[every] += 1
    return np.int64(1)


@kernel("i:Liii")
def ask_row(L, rb, h, end):
    """Ask for the row that a head with hash `h` probably is. Returns the slot that named it.

    That is the first with this hash, or a free one, or `end`: no slot before it has the head. (What
    the home slot names is often another row.)
    """
    base = L[rb + at.R_PK]
    s = (h * L[rb + at.R_PKCAP]) >> at.HASH_BITS
    while s < end:
        v = L[base + s]
        if v == 0:
            break
        if (v >> 32) == h:
            row = (v & 0xFFFFFFFF) - 1
            if row < TEMPORARY - 1:
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
            break
        s += 1
    return s


@kernel("i:ALiiii")
def _count_known(A, L, r, o, h, m):
    """The same of the head at word `o` (hash `h`); 0: `gain` knows what to do.

    Most heads of a large evaluation are there already (closure of 18,500 edges: 45 of 54 million).
    """
    rb = L[at.RELS] + r * at.RSZ
    base = L[rb + at.R_PK]
    cap = L[rb + at.R_PKCAP]
    arity = L[rb + at.R_ARITY]
    s = (h * cap) >> at.HASH_BITS
    while True:
        v = L[base + s]
        if v == 0:
            return np.int64(0)
        if (v >> 32) == h:
            offset = L[rb + at.R_ROWS] + ((v & 0xFFFFFFFF) - 1) * L[rb + at.R_STRIDE]
            same = True
            for k in range(arity):
                if A[offset + at.COLS + k] != A[o + k]:
                    same = False
                    break
            if same:
                return count_known(A, L, r, (v & 0xFFFFFFFF) - 1, m)
        s += 1
        if s == cap:
            s = 0


@kernel("v:ALi")
def count_batch(A, L, r):
    """Count every head of relation `r` that waits. O(heads)."""
    rb = L[at.RELS] + r * at.RSZ
    if L[rb + at.R_BATCH] == 0:
        return
    _reserve(A, L, r)
    width = entry_width(L, rb)
    for p in range(PARTS):
        n = L[L[rb + at.R_BATCH] + p]
        first = L[rb + at.R_BATCH] + PARTS + p * L[rb + at.R_BATCH_ROOM] * width
        for k in range(n):
            e = first + k * width
            if k + _SLOT_AHEAD < n:
                h = L[e + _SLOT_AHEAD * width]
                prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
            if k + _ROW_AHEAD < n:
                ask_row(L, rb, L[e + _ROW_AHEAD * width], L[rb + at.R_PKCAP])
            if _count_known(A, L, r, 2 * e + 4, L[e], L[e + 1]) == 0:
                gain(A, L, 2 * e + 4, L[e], L[e + 1], r, at.MODE_TAKE)
        L[L[rb + at.R_BATCH] + p] = 0
    if batch_room(L, rb) >= 2 * L[rb + at.R_BATCH_ROOM]:
        _close_batch(L, rb)
        open_batch(L, rb)


@kernel("v:Liii")
def note_derivations(L, rb, rule, n):
    """`rule` has derived `n` heads of the relation with descriptor `rb`, or lost them (below 0)."""
    L[at.C_DERIVATIONS] += abs(n)
    L[L[at.RULE_COUNTS] + rule] += abs(n)
    L[rb + at.R_DERIVATIONS] += n


@kernel("i:ALiiiiii")
def wait(A, L, lengths, room, arity, o, h, m):
    """A head at word `o` (hash `h`), derived from a body of rank `m`, waits.

    That is in an open buffer (`R_BATCH`, `R_BATCH_ROOM`) of heads of so many columns. 1: a
    partition is full, and `count_batch` must be called before the next head.
    """
    p = h >> _SHIFT
    n = L[lengths + p]
    e = lengths + PARTS + (p * room + n) * (2 + (arity + 1) // 2)
    prefetch(L, e + 8)  # the line that comes next in this partition: 16 % of the join waited for it
    L[e] = h
    L[e + 1] = m
    for k in range(arity):
        A[2 * e + 4 + k] = A[o + k]
    L[lengths + p] = n + 1
    return np.int64(n + 1 == room)


@kernel("v:L")
def end_batches(L):
    """No head waits any more; those that do are forgotten (a rollback)."""
    L[at.BATCH] = 0
    if L[at.SHARED] != 0:
        recycle(L, L[at.SHARED] * 2, L[at.SHARED_WORDS])
        L[at.SHARED] = 0
    for r in range(L[at.N_RELS]):
        _close_batch(L, L[at.RELS] + r * at.RSZ)
