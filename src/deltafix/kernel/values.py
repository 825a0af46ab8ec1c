"""Column codes: 32 bits for every value, and arithmetic on them.

A symbol is its id. A number or unsigned below 2**30 (and down to -2**31) is its own code; any
other 64-bit pattern, and every float, is interned in the table of wide values and coded as
2**30 + its place. A record of one field has the field's code, and `nil` the greatest code, which
no value has: so many do not fit into memory. Equal values have equal codes, so joins never decode.
What a body computes on the way, and joins with nothing, is no code: the patterns themselves are
computed with (`O_RAW`), and none of them is interned.

Invariant: the table of wide values only grows, and other threads may look into it meanwhile.
Comparisons and functors follow 64-bit wrap-around; division and modulo truncate towards zero; by
zero they have no value, and the binding does not hold. Floats are in one total order, that of their
patterns as integers of sign and magnitude: there is one zero, and one NaN, above infinity.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import discard, publish, put_slot, slots_twice
from deltafix.kernel.symbols import is_like, symbol_order

WIDE_BASE = 1 << 30
NIL = (1 << 31) - 1
NO_VALUE = -(1 << 40)  # not a code: a total beyond its bound
_SIGN = -(1 << 63)
_MAGNITUDE = (1 << 63) - 1


@kernel("f:i")
def as_float(pattern):
    """The float whose 64-bit pattern this is; numpy's, which divides by zero as C does."""
    return np.int64(pattern).view(np.float64)


@kernel("i:f")
def canonical(x):
    """The pattern of a float, with one zero and one NaN."""
    if x != x:
        return np.int64(0x7FF8000000000000)
    return np.float64(x + 0.0).view(np.int64)


@kernel("i:Li")
def decode(L, code):
    """The 64-bit pattern behind a code of type number, unsigned or float."""
    if code < WIDE_BASE:
        return np.int64(code)
    return L[L[at.WIDE] + code - WIDE_BASE]


@kernel("i:i")
def _wide_hash(v):
    h = ((v & 0xFFFFFFFF) ^ 0x5BD1) * 1640531527
    h = ((h ^ (h >> 31)) & 0xFFFFFFFF) ^ ((v >> 32) & 0xFFFFFFFF)
    h = h * 1540483477
    return (h ^ (h >> 29)) & 0x7FFFFFFF


@kernel("i:Li")
def _wide_index(L, v):
    """Index of a 64-bit pattern in the wide table, or -1."""
    slots = L[at.WIDE_SLOTS] + 1
    cap = L[slots - 1]
    s = (_wide_hash(v) * cap) >> at.HASH_BITS
    while L[slots + s] != 0:
        index = L[slots + s] - 1
        if L[L[at.WIDE] + index] == v:
            return index
        s = s + 1 if s + 1 < cap else 0
    return np.int64(-1)


@kernel("i:Li")
def _intern(L, v):
    """Index of a 64-bit pattern in the wide table, entered if new."""
    index = _wide_index(L, v)
    if index >= 0:  # a lane finds what it looks for, and nothing grows there
        return index
    n = L[at.WIDE + 1]
    old = L[at.WIDE_SLOTS]
    cap = L[old]
    if (n + 1) * 4 > cap * 3:
        new = slots_twice(L, old)
        for k in range(n):
            put_slot(L, new, _wide_hash(L[L[at.WIDE] + k]), k + 1)
        L[at.WIDE_SLOTS] = new
        discard(L, old * 2, (cap + 1) * 2)
    publish(L, at.WIDE, v)
    put_slot(L, L[at.WIDE_SLOTS], _wide_hash(v), n + 1)
    return n


@kernel("i:Li")
def find_wide(L, v):
    """The code of a 64-bit pattern if it is in the wide table, or -1."""
    index = _wide_index(L, v)
    return WIDE_BASE + index if index >= 0 else np.int64(-1)


@kernel("i:Lii")
def encode(L, t, v):
    """The code of a 64-bit pattern of value type `t` (not symbol)."""
    if t == at.T_NUMBER and -(1 << 31) <= v < WIDE_BASE:
        return np.int64(v)
    if t == at.T_UNSIGNED and 0 <= v < WIDE_BASE:
        return np.int64(v)
    return WIDE_BASE + _intern(L, v)


@kernel("i:ii")
def as_signed(t, pattern):
    """A pattern as a signed integer that is ordered as the values of its type; its own inverse."""
    if t == at.T_FLOAT:
        return pattern ^ ((pattern >> 63) & _MAGNITUDE)
    return pattern ^ _SIGN if t == at.T_UNSIGNED else pattern


@kernel("i:iii")
def _pattern_order(t, u, v):
    """-1, 0 or 1: the order of two patterns of a type."""
    u = as_signed(t, u)
    v = as_signed(t, v)
    return np.int64(-1) if u < v else (np.int64(1) if u > v else np.int64(0))


@kernel("i:ii")
def _ordered(op, order):
    """Whether `op` holds of two values in this order: 1 or 0."""
    if op == at.EQ:
        return np.int64(1) if order == 0 else np.int64(0)
    if op == at.NE:
        return np.int64(1) if order != 0 else np.int64(0)
    if op == at.LT:
        return np.int64(1) if order < 0 else np.int64(0)
    if op == at.LE:
        return np.int64(1) if order <= 0 else np.int64(0)
    if op == at.GT:
        return np.int64(1) if order > 0 else np.int64(0)
    return np.int64(1) if order >= 0 else np.int64(0)


@kernel("i:iiii")
def compare_patterns(t, op, u, v):
    """Whether `u op v` holds for two patterns of value type `t` (not symbol): 1 or 0."""
    return _ordered(op, _pattern_order(t, u, v))


@kernel("i:ALiiii")
def compare(A, L, t, op, a, b):
    """Whether `a op b` holds for two codes of value type `t`: 1 or 0."""
    if op == at.EQ or op == at.NE:
        return np.int64(1) if (a == b) == (op == at.EQ) else np.int64(0)
    if op == at.LIKE:
        return is_like(A, L, a, b)
    if t == at.T_SYMBOL:
        return _ordered(op, symbol_order(A, L, a, b))
    return compare_patterns(t, op, decode(L, a), decode(L, b))


@kernel("i:iii")
def _power(t, a, b):
    """A ** b modulo 2**64; a negative exponent truncates towards zero (no value for 0)."""
    if b < 0 and t == at.T_NUMBER:
        if a == 1:
            return np.int64(1)
        if a == -1:
            return np.int64(1) if b % 2 == 0 else np.int64(-1)
        return np.int64(0)
    result = np.int64(1)
    base = np.int64(a)
    e = np.int64(b)
    while e != 0:
        if e & 1:
            result = result * base
        base = base * base
        e = (e >> 1) & 0x7FFFFFFFFFFFFFFF
    return result


@kernel("i:iii")
def _divide_unsigned(want_rest, a, b):
    """Quotient or rest of two unsigned 64-bit patterns, b not 0 (schoolbook on halves)."""
    if b < 0:  # b >= 2**63: the quotient is 0 or 1
        bigger = (a ^ _SIGN) >= (b ^ _SIGN)
        q = np.int64(1) if bigger else np.int64(0)
    elif a >= 0:
        q = np.int64(a // b)
    else:
        q = (((a >> 1) & 0x7FFFFFFFFFFFFFFF) // b) << 1
        rest = a - q * b
        if rest < 0 or rest >= b:
            q += 1
    return a - q * b if want_rest else q


@kernel("i:iiii")
def _integer(t, f, a, b):
    """A functor on 64-bit patterns of type number or unsigned; _NONE where it has no value."""
    if f == at.ADD:
        return np.int64(a + b)
    if f == at.SUB:
        return np.int64(a - b)
    if f == at.MUL:
        return np.int64(a * b)
    if f == at.NEG:
        return np.int64(-a)
    if f == at.BAND:
        return np.int64(a & b)
    if f == at.BOR:
        return np.int64(a | b)
    if f == at.BXOR:
        return np.int64(a ^ b)
    if f == at.BNOT:
        return np.int64(~a)
    if f == at.BSHL:
        return np.int64(a << (b & 63))
    if f == at.BSHR and t == at.T_NUMBER:
        return np.int64(a >> (b & 63))
    if f in (at.BSHR, at.BSHRU):
        n = b & 63
        return np.int64(a) if n == 0 else np.int64((a >> n) & ((1 << (64 - n)) - 1))
    if f == at.LAND:
        return np.int64(1) if (a != 0 and b != 0) else np.int64(0)
    if f == at.LOR:
        return np.int64(1) if (a != 0 or b != 0) else np.int64(0)
    if f == at.LXOR:
        return np.int64(1) if ((a != 0) != (b != 0)) else np.int64(0)
    if f == at.LNOT:
        return np.int64(1) if a == 0 else np.int64(0)
    if f == at.POW:
        return _power(t, a, b)
    if f == at.DIV or f == at.MOD:
        if t == at.T_UNSIGNED:
            return _divide_unsigned(1 if f == at.MOD else 0, a, b)
        if b == -1:  # the one quotient that overflows: -2**63 / -1 wraps around
            return np.int64(-a) if f == at.DIV else np.int64(0)
        q = np.int64(a // b)
        if q < 0 and q * b != a:
            q += 1
        return q if f == at.DIV else np.int64(a - q * b)
    flip = np.int64(_SIGN) if t == at.T_UNSIGNED else np.int64(0)
    if f == at.MINF:
        return np.int64(a) if (a ^ flip) <= (b ^ flip) else np.int64(b)
    return np.int64(a) if (a ^ flip) >= (b ^ flip) else np.int64(b)


@kernel("i:iii")
def _real(f, a, b):
    """A functor on float patterns; the result is a canonical pattern (no -0.0, one NaN)."""
    x = as_float(a)
    y = as_float(b)
    if f == at.ADD:
        z = x + y
    elif f == at.SUB:
        z = x - y
    elif f == at.MUL:
        z = x * y
    elif f == at.DIV:
        z = x / y
    elif f == at.NEG:
        z = -x
    elif f == at.POW:
        z = x**y
    elif f == at.MINF:
        z = x if x < y or y != y else y
    else:
        z = x if x > y or x != x else y
    return canonical(z)


@kernel("i:ii")
def type_of_result(t, f):
    """The type of what functor `f` gives for arguments of type `t`."""
    if f == at.ITOF or f == at.UTOF:
        return np.int64(at.T_FLOAT)
    if f == at.FTOI or f == at.UTOI:
        return np.int64(at.T_NUMBER)
    if f == at.FTOU or f == at.ITOU:
        return np.int64(at.T_UNSIGNED)
    return t


@kernel("i:iiii")
def has_value(t, f, x, y):
    """Whether functor `f` has a value for patterns of type `t`: 1 or 0."""
    if f == at.FTOI or f == at.FTOU:
        z = np.trunc(as_float(x))
        low = -9223372036854775808.0 if f == at.FTOI else 0.0
        return np.int64(1) if low <= z < low + 18446744073709551616.0 else np.int64(0)
    if t == at.T_FLOAT:
        return np.int64(1)
    if (f == at.DIV or f == at.MOD) and y == 0:
        return np.int64(0)
    nothing = f == at.POW and x == 0 and y < 0 and t == at.T_NUMBER
    return np.int64(0) if nothing else np.int64(1)


@kernel("i:iiii")
def call(t, f, x, y):
    """The pattern of functor `f` applied to patterns of type `t`, where it has one.

    Conversions take their argument type from `t`: ITOF and ITOU number, UTOF and UTOI unsigned,
    FTOI and FTOU float (truncating; no value outside the range).
    """
    if f == at.ITOF or f == at.UTOF:
        z = float(x)
        if f == at.UTOF and x < 0:
            z += 18446744073709551616.0
        return canonical(z)
    if f == at.FTOI or f == at.FTOU:
        z = np.trunc(as_float(x))
        return np.int64(z - 18446744073709551616.0) if z >= 9223372036854775808.0 else np.int64(z)
    if f == at.ITOU or f == at.UTOI:
        return x
    if t == at.T_FLOAT:
        return _real(f, x, y)
    return _integer(t, f, x, y)
