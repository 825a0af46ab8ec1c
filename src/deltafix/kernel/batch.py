"""Heads that wait: a large evaluation counts its derivations in batches, by hash.

A head that is found has a random place in its relation's key table and rows, so on a large
relation each derivation would cost two cache misses. While a stratum creates many rows, found heads
wait in a buffer of their relation, in 256 partitions by the upper bits of their hash. When one is
full, all are counted, partition after partition: the part of the key table (whose slots grow with
the hash) and the rows that a partition meets stay in cache.
Invariant: waiting changes no support. Ranks of body rows are fixed when a head is found; whenever
the head is counted, its own rank, or the new one it gets, is compared with that. So batches begin
only where heads are gained and nothing can be lost: in phase FULL, and in TAKE as the last phase
(`maintain`). Measured: docs/kernel.md, "Counting in batches".
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.emit import gain
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import key_find, key_reserve
from deltafix.kernel.layout import (
    BATCH,
    BATCH_CELLS,
    C_DERIVATIONS,
    HASH_BITS,
    MODE_TAKE,
    N_RELS,
    R_ARITY,
    R_BATCH,
    R_BATCH_ROOM,
    R_DERIVATIONS,
    R_PK,
    R_PKCAP,
    R_ROWS,
    R_STRIDE,
    RELS,
    RSZ,
    RULE_COUNTS,
)
from deltafix.kernel.memory import block, discard

__all__ = ["count_batch", "end_batches", "wait"]

_PARTS = 256
_SHIFT = HASH_BITS - 8
_SLOT_AHEAD = 16
_ROW_AHEAD = 8


@kernel("i:Li")
def _width(L, rb):
    """Cells of an entry: its hash, its body's rank, its columns."""
    return 2 + (L[rb + R_ARITY] + 1) // 2


@kernel("v:Li")
def _open(L, rb):
    """Give a relation its buffer: a length for each partition, then the partitions."""
    entries = max(L[BATCH_CELLS] // (_PARTS * _width(L, rb)), 1)
    L[rb + R_BATCH] = block(L, (_PARTS + _PARTS * entries * _width(L, rb)) * 2) // 2
    L[rb + R_BATCH_ROOM] = entries


@kernel("v:ALi")
def _reserve(A, L, r):
    """Make the key table large enough for the new heads among those that wait.

    A partition fills its own part of the table first: without room for all of them it would be
    one long run of taken slots (a load of a million pairs took 38 s for 1). How many are new is
    told from one partition, since hashes are alike.
    """
    rb = L[RELS] + r * RSZ
    width = _width(L, rb)
    total = np.int64(0)
    sample = np.int64(0)
    for p in range(_PARTS):
        n = L[L[rb + R_BATCH] + p]
        total += n
        if n > L[L[rb + R_BATCH] + sample]:
            sample = np.int64(p)
    n = L[L[rb + R_BATCH] + sample]
    first = L[rb + R_BATCH] + _PARTS + sample * L[rb + R_BATCH_ROOM] * width
    new = np.int64(0)
    for k in range(n):
        e = first + k * width
        new += key_find(A, L, A, r, 2 * e + 4, L[e]) < 0
    key_reserve(L, r, total * new // max(n, 1))


@kernel("v:ALi")
def count_batch(A, L, r):
    """Count every head of relation `r` that waits. O(heads)."""
    rb = L[RELS] + r * RSZ
    if L[rb + R_BATCH] == 0:
        return
    _reserve(A, L, r)
    width = _width(L, rb)
    for p in range(_PARTS):
        n = L[L[rb + R_BATCH] + p]
        first = L[rb + R_BATCH] + _PARTS + p * L[rb + R_BATCH_ROOM] * width
        for k in range(n):
            e = first + k * width
            if k + _SLOT_AHEAD < n:
                h = L[e + _SLOT_AHEAD * width]
                prefetch(L, L[rb + R_PK] + ((h * L[rb + R_PKCAP]) >> HASH_BITS))
            if k + _ROW_AHEAD < n:
                h = L[e + _ROW_AHEAD * width]
                v = L[L[rb + R_PK] + ((h * L[rb + R_PKCAP]) >> HASH_BITS)]
                if v != 0:
                    row = (v & 0xFFFFFFFF) - 1
                    prefetch(L, (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1)
            gain(A, L, 2 * e + 4, L[e], L[e + 1], r, MODE_TAKE)
        L[L[rb + R_BATCH] + p] = 0


@kernel("v:ALiiiii")
def wait(A, L, r, rule, o, h, m):
    """A head at word `o` (hash `h`) waits, derived by `rule` from a body of rank `m`."""
    rb = L[RELS] + r * RSZ
    L[C_DERIVATIONS] += 1
    L[L[RULE_COUNTS] + rule] += 1
    L[rb + R_DERIVATIONS] += 1
    if L[rb + R_BATCH] == 0:
        _open(L, rb)
    p = h >> _SHIFT
    n = L[L[rb + R_BATCH] + p]
    e = L[rb + R_BATCH] + _PARTS + (p * L[rb + R_BATCH_ROOM] + n) * _width(L, rb)
    L[e] = h
    L[e + 1] = m
    for k in range(L[rb + R_ARITY]):
        A[2 * e + 4 + k] = A[o + k]
    L[L[rb + R_BATCH] + p] = n + 1
    if n + 1 == L[rb + R_BATCH_ROOM]:
        count_batch(A, L, r)


@kernel("v:L")
def end_batches(L):
    """No head waits any more; those that do are forgotten (a rollback)."""
    L[BATCH] = 0
    for r in range(L[N_RELS]):
        rb = L[RELS] + r * RSZ
        if L[rb + R_BATCH] != 0:
            words = (_PARTS + _PARTS * L[rb + R_BATCH_ROOM] * _width(L, rb)) * 2
            discard(L, L[rb + R_BATCH] * 2, words)
            L[rb + R_BATCH] = np.int64(0)
