"""Exact sums of floats: `sum` and `mean` of a group, whatever comes and goes.

A float is a whole number of units of 2**-1074. A group's sum is kept in limbs of 32 bits, each a
signed cell of its own that nothing is carried out of (2**31 rows fit), in a block with room for
those that its values reach. It is rounded once, when it is read. Of the group's three cells
(`fold`) the second is the pattern of the value that is shown, the third names the block in its high
half and the block's class in the low one, or is 0: all of its values are zero.

Invariant: the limbs are the exact sum of the finite values, so a value that comes and goes leaves
what was there; NaNs and infinities are counted beside them. An epoch changes a copy of the block
(`own_block`), so that a rollback has the old one.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.index import bucket_give, bucket_start, bucket_take
from deltafix.kernel.jit import kernel

_MASK = 0xFFFFFFFF
_SIGN = -(1 << 63)
_FRACTION = (1 << 52) - 1
_INFINITE = 0x7FF
_NAN = 0x7FF8000000000000
_LEAST_CLASS = 3
"""Five limbs: 160 bits, of which amounts of money take 100."""
_MORE = 4
"""Limbs below the least that a quotient is computed to: 97 bits at least."""

# --- a block's cells -----------------------------------------------------------------------------
_BASE = 0  # the number of its first limb, of 2**32 ** number units
_INFINITIES = 1  # how many +inf came, in the low half, and -inf, in the high one
_NANS = 2
_LIMBS = 3


@kernel("i:Li")
def _cells(L, name):
    """The first cell of the block that a group's third cell names."""
    return bucket_start(L, (name >> 32) - 1) >> 1


@kernel("i:ALi")
def _take(A, L, c):
    """An empty block of class `c`, by its name. Raises MemoryError."""
    ref = bucket_take(A, L, c)
    b = bucket_start(L, ref) >> 1
    for k in range(1 << c):
        L[b + k] = 0
    return ((ref + 1) << 32) | c


@kernel("v:ALi")
def forget_block(A, L, name):
    """Give back the block of this name, if it is one."""
    if name:
        bucket_give(A, L, (name >> 32) - 1, name & _MASK)


@kernel("i:ALi")
def own_block(A, L, name):
    """The name of a copy of a block, or 0 of none. Raises MemoryError."""
    if name == 0:
        return np.int64(0)
    own = _take(A, L, name & _MASK)
    source = _cells(L, name)
    target = _cells(L, own)
    for k in range(1 << (name & _MASK)):
        L[target + k] = L[source + k]
    return own


@kernel("i:ALiii")
def _reach(A, L, cell, first, last):
    """The first cell of a group's block, which has these limbs. Raises MemoryError."""
    name = L[cell + 2]
    low = first
    high = last
    if name:
        b = _cells(L, name)
        room = (1 << (name & _MASK)) - _LIMBS
        if L[b + _BASE] <= first and last < L[b + _BASE] + room:
            return b
        for k in range(room):
            if L[b + _LIMBS + k] != 0:
                low = min(low, L[b + _BASE] + k)
                high = max(high, L[b + _BASE] + k)
    c = np.int64(_LEAST_CLASS)
    while (1 << c) - _LIMBS < high - low + 1:
        c += 1
    own = _take(A, L, c)
    b = _cells(L, own)
    # What is left of the room is shared: the next values are smaller or larger.
    L[b + _BASE] = max(low - ((1 << c) - _LIMBS - (high - low + 1)) // 2, 0)
    if name:
        old = _cells(L, name)
        L[b + _INFINITIES] = L[old + _INFINITIES]
        L[b + _NANS] = L[old + _NANS]
        for k in range((1 << (name & _MASK)) - _LIMBS):
            if L[old + _LIMBS + k] != 0:
                L[b + _LIMBS + L[old + _BASE] + k - L[b + _BASE]] = L[old + _LIMBS + k]
    forget_block(A, L, name)
    L[cell + 2] = own
    return b


@kernel("v:ALiii")
def add_real(A, L, cell, pattern, sign):
    """A value comes into the group with these cells (`sign` 1) or goes (-1)."""
    exponent = (pattern >> 52) & _INFINITE
    mantissa = pattern & _FRACTION
    if exponent == _INFINITE:
        b = _reach(A, L, cell, np.int64(32), np.int64(32))
        if mantissa:
            L[b + _NANS] += sign
        else:
            L[b + _INFINITIES] += sign << 32 if pattern < 0 else sign
        return
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    if mantissa == 0:
        return
    if pattern < 0:
        sign = -sign
    shift = exponent & 31
    first = exponent >> 5
    low = (mantissa & _MASK) << shift
    high = ((mantissa >> 32) << shift) + (low >> 32)
    low &= _MASK
    last = first
    if high:
        last += 2 if high >> 32 else 1
    b = _reach(A, L, cell, first, last)
    limb = b + _LIMBS + first - L[b + _BASE]
    L[limb] += sign * low
    if high:
        L[limb + 1] += sign * (high & _MASK)
        if high >> 32:
            L[limb + 2] += sign * (high >> 32)


@kernel("i:Liiii")
def _carried(L, b, limbs, sign, digits):
    """The limbs times `sign` as digits of 32 bits from cell `digits` on; what is carried out."""
    carry = np.int64(0)
    for k in range(limbs):
        value = sign * L[b + _LIMBS + k] + carry
        L[digits + k] = value & _MASK
        carry = value >> 32
    return carry


@kernel("i:Lii")
def _length(L, digits, n):
    """How many bits the number with `n` digits has."""
    top = L[digits + n - 1]
    length = np.int64((n - 1) * 32)
    while top:
        top >>= 1
        length += 1
    return length


@kernel("i:Liii")
def _rounded(L, digits, drop, rest):
    """A number without its last `drop` bits, of which 53 are left at most, rounded half to even.

    `rest` is what follows the digits: 0 nothing, 1 less than a half, 2 a half, 3 more.
    """
    mantissa = np.int64(0)
    for k in range(53):
        bit = drop + 52 - k
        mantissa = mantissa * 2 + ((L[digits + (bit >> 5)] >> (bit & 31)) & 1)
    if drop > 0:
        last = digits + ((drop - 1) >> 5)
        half = (L[last] >> ((drop - 1) & 31)) & 1
        below = L[last] & ((1 << ((drop - 1) & 31)) - 1)
        for k in range(digits, last):
            below |= L[k]
        rest = 2 * half + np.int64(below != 0 or rest != 0)
    if rest == 3 or (rest == 2 and mantissa & 1):
        mantissa += 1
    return mantissa


@kernel("i:Li")
def _special(L, b):
    """The pattern of a sum with NaNs or infinities; 0: it has none."""
    rises = L[b + _INFINITIES] & _MASK
    falls = L[b + _INFINITIES] >> 32
    if L[b + _NANS] or (rises and falls):
        return np.int64(_NAN)
    if rises:
        return np.int64(_INFINITE << 52)
    return np.int64((_INFINITE << 52) | _SIGN) if falls else np.int64(0)


@kernel("i:Lii")
def real_value(L, cell, count):
    """The pattern of a group's sum by `count` (1: the sum), correctly rounded; one zero."""
    name = L[cell + 2]
    if name == 0:
        return np.int64(0)
    b = _cells(L, name)
    if L[b + _NANS] or L[b + _INFINITIES]:
        return _special(L, b)
    limbs = np.int64((1 << (name & _MASK)) - _LIMBS)
    base = L[b + _BASE]
    more = min(base, _MORE) if count > 1 else np.int64(0)
    digits = np.int64(at.EMIT >> 1)
    for k in range(more):
        L[digits + k] = 0
    negative = np.int64(0)
    carry = _carried(L, b, limbs, np.int64(1), digits + more)
    if carry < 0:
        negative = np.int64(1)
        carry = _carried(L, b, limbs, np.int64(-1), digits + more)
    n = more + limbs
    if carry:
        L[digits + n] = carry
        n += 1
    rest = np.int64(0)
    if count > 1:
        for k in range(n):
            limb = digits + n - 1 - k
            value = (rest << 32) | L[limb]
            L[limb] = value // count
            rest = value % count
        twice = 2 * rest
        rest = np.int64(0 if rest == 0 else 1 if twice < count else 2 if twice == count else 3)
    while n > 1 and L[digits + n - 1] == 0:
        n -= 1
    L[digits + n] = 0  # 53 bits may be more than there are
    drop = max(_length(L, digits, n) - 53, 0)
    bits = _rounded(L, digits, drop, rest)
    last = 32 * (base - more) + drop
    while bits and bits <= _FRACTION and last > 0:
        bits <<= 1
        last -= 1
    if bits >> 53:
        bits >>= 1
        last += 1
    pattern = bits
    if bits > _FRACTION:
        pattern = (bits & _FRACTION) | (min(last + 1, np.int64(_INFINITE)) << 52)
        if last + 1 >= _INFINITE:
            pattern = np.int64(_INFINITE << 52)
    return pattern | _SIGN if negative and pattern else pattern
