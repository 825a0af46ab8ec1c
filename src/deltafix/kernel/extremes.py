"""`min` and `max`: the best value of each group, how many rows have it, and the next ones.

Values are compared as keys (`order_key`): the least is the best. A group's three cells (`fold`) are
how many rows it has, the key of the best value, and how many rows have that, in the low half; the
high half names a block of the next keys, or is 0. When the last row with the best value goes, the
next key takes its place; where there is none, the group is looked through when its value is asked
for (`find_best`). That keeps the next keys of a group of more than `_FEW` rows, so that as many of
the best values may go before it is looked through again: O(rows / keys kept) a row, amortised.

Invariant: all rows of the group whose keys come before the bound, or are it, are counted: those of
the best key and of the block. The bound is the block's, which may have none: then all rows are
counted. Without a block it is the best key, which no row may have meanwhile. A rollback forgets the
blocks of the groups that it puts back.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.enter import fill_part
from deltafix.kernel.index import bucket_give, bucket_start, bucket_take, idx_find
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words
from deltafix.kernel.memory import block, recycle
from deltafix.kernel.symbols import symbol_order
from deltafix.kernel.values import NIL, as_signed, decode, encode

_FEW = 64
_MANY = 1 << 14
"""Rows of a group from which the larger block pays."""
_SMALL = 7
_LARGE = 11
"""Classes of buckets: 62 and 1,022 keys."""
_TIES = (1 << 31) - 1
_IS_LARGE = 1 << 31
_MASK = 0xFFFFFFFF
_SCRATCH = at.EMIT_WORDS // 2
"""Keys that fit where heads are gathered, which a fold has none of."""

# --- a block's cells -----------------------------------------------------------------------------
_KEYS = 0  # how many there are, and how many there is room for
_ROOM = 1
_BOUNDED = 2  # 1: rows behind the bound are not counted
_BOUND = 3
_FIRST = 4  # keys and how many rows have each, the worst first


@kernel("i:Liii")
def order_key(L, t, op, code):
    """The key of a value of type `t` by its code: what is better is less. Of a text, its code."""
    if t == at.T_SYMBOL:
        return np.int64(code)
    key = as_signed(t, decode(L, code))
    return ~key if op == at.FOLD_MAX else key


@kernel("i:Liii")
def code_of(L, t, op, key):
    """The code of the value with a key."""
    if t == at.T_SYMBOL:
        return np.int64(key)
    return encode(L, t, as_signed(t, ~key if op == at.FOLD_MAX else key))


@kernel("i:ALPiii")
def _before(A, L, P, f, key, other):
    """Whether a key is better than another one."""
    if P[f + at.F_VALUE_TYPE] != at.T_SYMBOL:
        return np.int64(key < other)
    order = symbol_order(A, L, key, other)
    return np.int64(order < 0 if P[f + at.F_OP] == at.FOLD_MIN else order > 0)


@kernel("i:Li")
def _block(L, cell):
    """The first cell of a group's block, or -1."""
    ref = (L[cell + 2] >> 32) - 1
    return bucket_start(L, ref) >> 1 if ref >= 0 else np.int64(-1)


@kernel("v:ALi")
def forget_next(A, L, cell):
    """Give the block of a group back: what it bounds is no more known."""
    ref = (L[cell + 2] >> 32) - 1
    if ref >= 0:
        bucket_give(A, L, ref, np.int64(_LARGE if L[cell + 2] & _IS_LARGE else _SMALL))
    L[cell + 2] &= _TIES


@kernel("i:Li")
def is_open(L, cell):
    """Whether no row of a group has its best key: it is to be looked through, if it has rows."""
    return np.int64((L[cell + 2] & _TIES) == 0)


@kernel("v:Li")
def without_next(L, cell):
    """A group's cells are as they were noted; the block has changed since, and was given back."""
    L[cell + 2] &= _TIES


@kernel("i:ALPiii")
def _position(A, L, P, f, b, key):
    """The first position in a block whose key is not worse."""
    low = np.int64(0)
    high = L[b + _KEYS]
    while low < high:
        middle = (low + high) >> 1
        if _before(A, L, P, f, key, L[b + _FIRST + 2 * middle]):
            low = middle + 1
        else:
            high = middle
    return low


@kernel("v:Lii")
def _cut(L, b, position):
    """Take the key at a position out of a block."""
    L[b + _KEYS] -= 1
    for k in range(b + _FIRST + 2 * position, b + _FIRST + 2 * L[b + _KEYS]):
        L[k] = L[k + 2]


@kernel("v:ALPiiii")
def _count(A, L, P, f, b, key, rows):
    """Rows more with a key that is worse than the best: into the block, or behind its bound."""
    if L[b + _BOUNDED] and _before(A, L, P, f, L[b + _BOUND], key):
        return
    position = _position(A, L, P, f, b, key)
    if position < L[b + _KEYS] and L[b + _FIRST + 2 * position] == key:
        L[b + _FIRST + 2 * position + 1] += rows
        return
    if L[b + _KEYS] == L[b + _ROOM]:
        L[b + _BOUNDED] = 1
        if position == 0:
            L[b + _BOUND] = L[b + _FIRST]
            return
        _cut(L, b, np.int64(0))
        position -= 1
        L[b + _BOUND] = L[b + _FIRST] if position > 0 else key
    last = b + _FIRST + 2 * L[b + _KEYS]
    for k in range(last - b - _FIRST - 2 * position):
        L[last + 1 - k] = L[last - 1 - k]
    L[b + _FIRST + 2 * position] = key
    L[b + _FIRST + 2 * position + 1] = rows
    L[b + _KEYS] += 1


@kernel("v:ALPiii")
def _come(A, L, P, f, cell, key):
    """A row with a key comes into a group that has others."""
    ties = L[cell + 2] & _TIES
    b = _block(L, cell)
    if key == L[cell + 1]:
        L[cell + 2] += 1
    elif _before(A, L, P, f, key, L[cell + 1]):
        if ties > 0 and b >= 0:
            _count(A, L, P, f, b, L[cell + 1], ties)
        L[cell + 1] = key
        L[cell + 2] += 1 - ties
    elif ties > 0 and b >= 0:
        _count(A, L, P, f, b, key, np.int64(1))


@kernel("v:ALPiii")
def _go(A, L, P, f, cell, key):
    """A row with a key goes."""
    b = _block(L, cell)
    if key == L[cell + 1]:
        L[cell + 2] -= 1
        if L[cell + 2] & _TIES or b < 0:
            return
        if L[b + _KEYS] > 0:
            L[b + _KEYS] -= 1
            L[cell + 1] = L[b + _FIRST + 2 * L[b + _KEYS]]
            L[cell + 2] += L[b + _FIRST + 2 * L[b + _KEYS] + 1]
            return
        forget_next(A, L, cell)
    elif b >= 0 and not (L[b + _BOUNDED] and _before(A, L, P, f, L[b + _BOUND], key)):
        position = _position(A, L, P, f, b, key)
        L[b + _FIRST + 2 * position + 1] -= 1
        if L[b + _FIRST + 2 * position + 1] == 0:
            _cut(L, b, position)


@kernel("v:ALPiiiii")
def add_extreme(A, L, P, f, cell, key, sign, values):
    """A row with a key has come into the group with these cells (`sign` 1) or gone (-1).

    `values` are those that there are now.
    """
    if sign < 0:
        if L[cell + 2] & _TIES:  # else it is behind the bound
            _go(A, L, P, f, cell, key)
    elif values == 1:
        forget_next(A, L, cell)
        L[cell + 1] = key
        L[cell + 2] = 1
    else:
        _come(A, L, P, f, cell, key)


@kernel("v:ALPiiii")
def _sift(A, L, P, f, heap, n, position):
    """A key of a heap of `n` sinks below `position`, where none comes before the one above it."""
    key = L[heap + position]
    while 2 * position + 1 < n:
        child = 2 * position + 1
        if child + 1 < n and _before(A, L, P, f, L[heap + child + 1], L[heap + child]):
            child += 1
        if not _before(A, L, P, f, L[heap + child], key):
            break
        L[heap + position] = L[heap + child]
        position = child
    L[heap + position] = key


@kernel("i:ALPiii")
def _gather(A, L, P, f, offset, keys):
    """Put the keys of the rows of a group (its columns at word `offset`) at cells. How many."""
    r = np.int64(P[f + at.F_SOURCE])
    rb = L[at.RELS] + r * at.RSZ
    rows = L[rb + at.R_ROWS]
    stride = L[rb + at.R_STRIDE]
    width = np.int64(P[f + at.F_NGROUP])
    x = np.int64(P[f + at.F_INDEX])
    is_found = np.int64(0)
    bucket = np.int64(-1)
    count = L[rb + at.R_N]
    if width > 0 and (L[L[at.IDXS] + x * at.XSZ + at.X_LATE] == 0 or fill_part(A, L, x)):
        slot = idx_find(A, L, x, offset, hash_words(A, offset, width))
        is_found = np.int64(2 if L[slot + 1] >> 32 else 1)
        count = L[slot + 1] & _MASK
        bucket = (L[slot] & _MASK) - 1
        if is_found == 2:
            bucket = bucket_start(L, bucket)
    L[at.C_PROBED] += count
    n = np.int64(0)
    for k in range(count):
        row = np.int64(k)
        if is_found == 1:
            row = bucket
        elif is_found == 2:
            row = np.int64(A[bucket + k])
        own = rows + row * stride
        if not L[own >> 1] & at.NOW:
            continue
        same = True
        for c in range(0 if is_found else width):
            if A[own + at.COLS + P[f + at.F_GROUP + c]] != A[offset + c]:
                same = False
                break
        code = np.int64(A[own + at.COLS + P[f + at.F_VALUE]])
        if same and not (P[f + at.F_OPTIONAL] and code == NIL):
            t = np.int64(P[f + at.F_VALUE_TYPE])
            L[keys + n] = order_key(L, t, np.int64(P[f + at.F_OP]), code)
            n += 1
    return n


@kernel("v:ALPiii")
def find_best(A, L, P, f, offset, cell):
    """Look a group through (columns at word `offset`, cells from `cell`) whose best value is gone.

    O(its rows); without an index by group, or while that is late, of the source.
    """
    rows = L[cell] & _MASK
    scratch = np.int64(0)
    heap = np.int64(at.EMIT >> 1)
    if rows > _SCRATCH:
        scratch = block(L, rows * 2)
        heap = scratch >> 1
    n = _gather(A, L, P, f, offset, heap)
    for k in range(n >> 1):
        _sift(A, L, P, f, heap, n, (n >> 1) - 1 - k)
    L[cell + 1] = L[heap]
    L[cell + 2] = 0
    b = np.int64(-1)
    if n > _FEW:
        c = np.int64(_LARGE if n >= _MANY else _SMALL)
        ref = bucket_take(A, L, c)
        L[cell + 2] = (ref + 1) << 32 | (_IS_LARGE if n >= _MANY else 0)
        b = bucket_start(L, ref) >> 1
        L[b + _KEYS] = 0
        L[b + _ROOM] = ((1 << c) - _FIRST) >> 1
    last = b + _FIRST - 2
    while n > 0:
        key = L[heap]
        if key == L[cell + 1]:
            L[cell + 2] += 1
        elif b < 0:
            break
        elif L[b + _KEYS] > 0 and key == L[last]:
            L[last + 1] += 1
        elif L[b + _KEYS] == L[b + _ROOM]:
            break
        else:
            last += 2
            L[last] = key
            L[last + 1] = 1
            L[b + _KEYS] += 1
        n -= 1
        L[heap] = L[heap + n]
        _sift(A, L, P, f, heap, n, np.int64(0))
    if b >= 0:
        L[b + _BOUNDED] = np.int64(n > 0)
        L[b + _BOUND] = L[last] if L[b + _KEYS] > 0 else L[cell + 1]
        for k in range(L[b + _KEYS] >> 1):  # the worst first
            for half in range(2):
                left = b + _FIRST + 2 * k + half
                right = last - 2 * k + half
                L[left], L[right] = L[right], L[left]
    if scratch:
        recycle(L, scratch, rows * 2)
