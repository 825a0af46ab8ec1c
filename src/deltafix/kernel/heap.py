"""The wave's priority queue: a binary heap of (key, value) cells in one vector.

A key is `late << 61 | rank + 1 << 1 | kind`: at equal rank suspects (kind 0) come before revivals
(kind 1); a late entry comes after all others. Body rank -1 (nothing of the stratum) is a rank.
It does not know what the values are.
"""

from __future__ import annotations

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import HEAP
from deltafix.kernel.memory import room

LATE = 1 << 61


@kernel("v:Liibi")
def heap_push(L, rank, kind, late, value):
    """Enter a value. O(log n)."""
    key = (rank + 1) * 2 + kind
    if late:
        key += LATE
    room(L, HEAP, 2)
    base = L[HEAP]
    k = L[HEAP + 1] // 2
    L[HEAP + 1] += 2
    while k > 0:
        parent = (k - 1) // 2
        if L[base + 2 * parent] <= key:
            break
        L[base + 2 * k] = L[base + 2 * parent]
        L[base + 2 * k + 1] = L[base + 2 * parent + 1]
        k = parent
    L[base + 2 * k] = key
    L[base + 2 * k + 1] = value


@kernel("v:L")
def heap_pop(L):
    """Drop the entry with the lowest key, which lies in the first two cells. O(log n)."""
    base = L[HEAP]
    L[HEAP + 1] -= 2
    n = L[HEAP + 1] // 2
    if n == 0:
        return
    key = L[base + 2 * n]
    value = L[base + 2 * n + 1]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and L[base + 2 * child + 2] < L[base + 2 * child]:
            child += 1
        if key <= L[base + 2 * child]:
            break
        L[base + 2 * k] = L[base + 2 * child]
        L[base + 2 * k + 1] = L[base + 2 * child + 1]
        k = child
    L[base + 2 * k] = key
    L[base + 2 * k + 1] = value
