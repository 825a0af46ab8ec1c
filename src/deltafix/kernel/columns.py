"""Sets and indexes of rows of 64-bit numbers, in no arena: what a load by columns stands on.

Rows come as words, `width` int32 a row (a number is two), one row after another; cells are int64.
Invariant: rows are told apart by all their words, whatever their hashes are; nothing here makes
room, the caller does. Not here: columns, and which of them are keys (`spark/shards/columns`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words
from deltafix.kernel.layout import HASH_BITS

_LOW = 0xFFFFFFFF
_AHEAD = 12
"""Rows between asking for a slot and reading it."""


@kernel("b:AiPii")
def _is_equal(A, a, P, p, width):
    """Whether two rows have the same words."""
    for k in range(width):
        if A[a + k] != P[p + k]:
            return False
    return True


@kernel("v:PLii")
def hash_rows(P, out, n, width):
    """The hashes of `n` rows, which the others here are given: each is asked for several times."""
    for i in range(n):
        out[i] = hash_words(P, i * width, width)


@kernel("i:ALPLLiii")
def add_rows(A, L, P, hashes, out, n, width, used):
    """Add `n` rows of `P` to a set of `used` rows in `A`; how many are new.

    The numbers of those in `P` go to `out`, the rows to `A`. `L` has the slots, `hash << 32 | row +
    1`, at least a quarter of them free at the end.
    """
    slots = len(L)
    new = np.int64(0)
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(L, (hashes[i + _AHEAD] * slots) >> HASH_BITS)
        h = hashes[i]
        s = (h * slots) >> HASH_BITS
        while True:
            v = L[s]
            if v == 0:
                row = used + new
                L[s] = (h << 32) | (row + 1)
                for k in range(width):
                    A[row * width + k] = P[i * width + k]
                out[new] = i
                new += 1
                break
            row = (v & _LOW) - 1
            if (v >> 32) == h and _is_equal(A, row * width, P, i * width, width):
                break
            s += 1
            if s == slots:
                s = 0
    return new


@kernel("v:LLi")
def place_rows(L, hashes, used):
    """Enter `used` rows, all different, in empty slots: those of a set that grows."""
    slots = len(L)
    for row in range(used):
        s = (hashes[row] * slots) >> HASH_BITS
        while L[s] != 0:
            s += 1
            if s == slots:
                s = 0
        L[s] = (hashes[row] << 32) | (row + 1)


@kernel("v:LLLi")
def group_rows(hashes, starts, order, n):
    """Put the numbers of `n` keys into `order`, bucket after bucket; bucket b from `starts[b]` on.

    `starts` has one zero more than there are buckets. A key's bucket grows with its hash.
    """
    buckets = len(starts) - 1
    for i in range(n):
        starts[(hashes[i] * buckets) >> HASH_BITS] += 1
    total = np.int64(0)
    for b in range(buckets):
        total += starts[b]
        starts[b] = total
    starts[buckets] = total
    for back in range(n):
        i = n - 1 - back
        b = (hashes[i] * buckets) >> HASH_BITS
        starts[b] -= 1
        order[starts[b]] = i


@kernel("i:ALPLLLLiii")
def meet_rows(A, starts, P, hashes, which, place, told, begin, n, width):
    """Join probes from `begin` on with the keys of an index; the first probe that is left.

    `A` has the keys in the order of the buckets. Each match goes to `which` (the probe) and `place`
    (the key), and `told[0]` says how many there are; a probe whose bucket may not fit is left.
    """
    buckets = len(starts) - 1
    room = len(which)
    count = np.int64(0)
    for i in range(begin, n):
        if i + _AHEAD < n:
            prefetch(starts, (hashes[i + _AHEAD] * buckets) >> HASH_BITS)
        if i + _AHEAD // 2 < n:
            prefetch(A, starts[(hashes[i + _AHEAD // 2] * buckets) >> HASH_BITS] * width)
        b = (hashes[i] * buckets) >> HASH_BITS
        if count + starts[b + 1] - starts[b] > room:
            told[0] = count
            return np.int64(i)
        for k in range(starts[b], starts[b + 1]):
            if _is_equal(A, k * width, P, i * width, width):
                which[count] = i
                place[count] = k
                count += 1
    told[0] = count
    return np.int64(n)
