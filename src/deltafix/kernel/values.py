"""Column codes: 32 bits for every value, and arithmetic on them.

A symbol is its id. A number or unsigned below 2**30 (and down to -2**31) is its own code; any
other 64-bit pattern, and every float, is interned in the table of wide values and coded as
2**30 + its place. Equal values have equal codes, so joins never decode.

Invariant: the table of wide values only grows. Comparisons and functors follow 64-bit
wrap-around; division and modulo truncate towards zero; by zero they have no value, and the
binding does not hold. Floats are in one total order, that of their patterns as integers of sign and
magnitude: there is one zero, and one NaN, above infinity.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    ADD,
    BAND,
    BNOT,
    BOR,
    BSHL,
    BSHR,
    BSHRU,
    BXOR,
    DIV,
    EQ,
    FTOI,
    FTOU,
    GT,
    HASH_BITS,
    ITOF,
    ITOU,
    LAND,
    LE,
    LNOT,
    LOR,
    LT,
    LXOR,
    MINF,
    MOD,
    MUL,
    NE,
    NEG,
    POW,
    SUB,
    SYM,
    T_FLOAT,
    T_NUMBER,
    T_SYMBOL,
    T_UNSIGNED,
    UTOF,
    UTOI,
    WIDE,
    WIDE_CAP,
    WIDE_SLOTS,
)
from deltafix.kernel.memory import block, discard, push

WIDE_BASE = 1 << 30
NO_VALUE = -(1 << 40)  # not a code: a functor without a value (division by zero)
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
    return L[L[WIDE] + code - WIDE_BASE]


@kernel("i:i")
def _wide_hash(v):
    h = ((v & 0xFFFFFFFF) ^ 0x5BD1) * 1640531527
    h = ((h ^ (h >> 31)) & 0xFFFFFFFF) ^ ((v >> 32) & 0xFFFFFFFF)
    h = h * 1540483477
    return (h ^ (h >> 29)) & 0x7FFFFFFF


@kernel("i:Li")
def _intern(L, v):
    """Place of a 64-bit pattern in the wide table, entered if new."""
    n = L[WIDE + 1]
    cap = L[WIDE_CAP]
    if (n + 1) * 4 > cap * 3:
        new_cap = cap * 2
        new = block(L, new_cap * 2) // 2
        for k in range(n):
            s = (_wide_hash(L[L[WIDE] + k]) * new_cap) >> HASH_BITS
            while L[new + s] != 0:
                s = s + 1 if s + 1 < new_cap else 0
            L[new + s] = k + 1
        discard(L, L[WIDE_SLOTS] * 2, cap * 2)
        L[WIDE_SLOTS] = new
        L[WIDE_CAP] = new_cap
        cap = new_cap
    s = (_wide_hash(v) * cap) >> HASH_BITS
    while L[L[WIDE_SLOTS] + s] != 0:
        place = L[L[WIDE_SLOTS] + s] - 1
        if L[L[WIDE] + place] == v:
            return place
        s = s + 1 if s + 1 < cap else 0
    push(L, WIDE, v)
    L[L[WIDE_SLOTS] + s] = n + 1
    return n


@kernel("i:Lii")
def encode(L, t, v):
    """The code of a 64-bit pattern of value type `t` (not symbol)."""
    if t == T_NUMBER and -(1 << 31) <= v < WIDE_BASE:
        return np.int64(v)
    if t == T_UNSIGNED and 0 <= v < WIDE_BASE:
        return np.int64(v)
    return WIDE_BASE + _intern(L, v)


@kernel("i:ALii")
def _symbol_order(A, L, a, b):
    """-1, 0 or 1: the order of two symbols by UTF-8 bytes, which is that of code points."""
    if a == b:
        return np.int64(0)
    ea = L[L[SYM] + a]
    eb = L[L[SYM] + b]
    na = ea & 0xFFFFFF
    nb = eb & 0xFFFFFF
    oa = ea >> 24
    ob = eb >> 24
    for k in range(min(na, nb)):
        ca = (np.int64(A[oa + (k >> 2)]) >> ((k & 3) * 8)) & 255
        cb = (np.int64(A[ob + (k >> 2)]) >> ((k & 3) * 8)) & 255
        if ca != cb:
            return np.int64(-1) if ca < cb else np.int64(1)
    return np.int64(-1) if na < nb else np.int64(1)


@kernel("i:ALiiii")
def compare(A, L, t, op, a, b):
    """Whether `a op b` holds for two codes of value type `t`: 1 or 0."""
    if op == EQ:
        return np.int64(1) if a == b else np.int64(0)
    if op == NE:
        return np.int64(1) if a != b else np.int64(0)
    if t == T_SYMBOL:
        order = _symbol_order(A, L, a, b)
    else:
        u = decode(L, a)
        v = decode(L, b)
        if t == T_FLOAT:
            u ^= (u >> 63) & _MAGNITUDE
            v ^= (v >> 63) & _MAGNITUDE
        elif t == T_UNSIGNED:
            u ^= _SIGN
            v ^= _SIGN
        order = np.int64(-1) if u < v else (np.int64(1) if u > v else np.int64(0))
    if op == LT:
        return np.int64(1) if order < 0 else np.int64(0)
    if op == LE:
        return np.int64(1) if order <= 0 else np.int64(0)
    if op == GT:
        return np.int64(1) if order > 0 else np.int64(0)
    return np.int64(1) if order >= 0 else np.int64(0)


@kernel("i:iii")
def _power(t, a, b):
    """A ** b modulo 2**64; a negative exponent truncates towards zero (no value for 0)."""
    if b < 0 and t == T_NUMBER:
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
    if f == ADD:
        return np.int64(a + b)
    if f == SUB:
        return np.int64(a - b)
    if f == MUL:
        return np.int64(a * b)
    if f == NEG:
        return np.int64(-a)
    if f == BAND:
        return np.int64(a & b)
    if f == BOR:
        return np.int64(a | b)
    if f == BXOR:
        return np.int64(a ^ b)
    if f == BNOT:
        return np.int64(~a)
    if f == BSHL:
        return np.int64(a << (b & 63))
    if f == BSHR and t == T_NUMBER:
        return np.int64(a >> (b & 63))
    if f in (BSHR, BSHRU):
        n = b & 63
        return np.int64(a) if n == 0 else np.int64((a >> n) & ((1 << (64 - n)) - 1))
    if f == LAND:
        return np.int64(1) if (a != 0 and b != 0) else np.int64(0)
    if f == LOR:
        return np.int64(1) if (a != 0 or b != 0) else np.int64(0)
    if f == LXOR:
        return np.int64(1) if ((a != 0) != (b != 0)) else np.int64(0)
    if f == LNOT:
        return np.int64(1) if a == 0 else np.int64(0)
    if f == POW:
        return _power(t, a, b)
    if f == DIV or f == MOD:
        if t == T_UNSIGNED:
            return _divide_unsigned(1 if f == MOD else 0, a, b)
        if b == -1:  # the one quotient that overflows: -2**63 / -1 wraps around
            return np.int64(-a) if f == DIV else np.int64(0)
        q = np.int64(a // b)
        if q < 0 and q * b != a:
            q += 1
        return q if f == DIV else np.int64(a - q * b)
    flip = np.int64(_SIGN) if t == T_UNSIGNED else np.int64(0)
    if f == MINF:
        return np.int64(a) if (a ^ flip) <= (b ^ flip) else np.int64(b)
    return np.int64(a) if (a ^ flip) >= (b ^ flip) else np.int64(b)


@kernel("i:iii")
def _real(f, a, b):
    """A functor on float patterns; the result is a canonical pattern (no -0.0, one NaN)."""
    x = as_float(a)
    y = as_float(b)
    if f == ADD:
        z = x + y
    elif f == SUB:
        z = x - y
    elif f == MUL:
        z = x * y
    elif f == DIV:
        z = x / y
    elif f == NEG:
        z = -x
    elif f == POW:
        z = x**y
    elif f == MINF:
        z = x if x < y or y != y else y
    else:
        z = x if x > y or x != x else y
    return canonical(z)


@kernel("i:Liiii")
def call(L, t, f, a, b):
    """Apply functor `f` of argument type `t` to codes; the code of its value or NO_VALUE.

    Conversions take their argument type from `t`: ITOF and ITOU number, UTOF and UTOI unsigned,
    FTOI and FTOU float (truncating; no value outside the range).
    """
    x = decode(L, a)
    y = decode(L, b)
    if f == ITOF or f == UTOF:
        z = float(x)
        if f == UTOF and x < 0:
            z += 18446744073709551616.0
        return encode(L, T_FLOAT, canonical(z))
    if f == FTOI or f == FTOU:
        z = np.trunc(as_float(x))
        low = -9223372036854775808.0 if f == FTOI else 0.0
        if not (low <= z < low + 18446744073709551616.0):
            return NO_VALUE
        if z >= 9223372036854775808.0:
            return encode(L, T_UNSIGNED, np.int64(z - 18446744073709551616.0))
        return encode(L, T_NUMBER if f == FTOI else T_UNSIGNED, np.int64(z))
    if t == T_FLOAT:
        return encode(L, T_FLOAT, _real(f, x, y))
    if (f == DIV or f == MOD) and y == 0:
        return NO_VALUE
    if f == POW and x == 0 and y < 0 and t == T_NUMBER:
        return NO_VALUE
    result_type = t
    if f == ITOU:
        return encode(L, T_UNSIGNED, x)
    if f == UTOI:
        return encode(L, T_NUMBER, x)
    return encode(L, result_type, _integer(t, f, x, y))
