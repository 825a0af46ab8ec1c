"""What can be told of a binding without joining: operands, matches, comparisons, functors, absence.

Invariant: a check reads variables and tables and writes nothing but the variable it binds. Where it
must wait for a functor's value (`kernel.layout`, memo) it notes the call in ASKS and says -1; while
calls are collected (`ask`) such a binding fails, and others go on.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find
from deltafix.kernel.memory import push
from deltafix.kernel.values import (
    NIL,
    call,
    compare,
    compare_patterns,
    decode,
    encode,
    has_value,
    type_of_result,
)


@kernel("i:ALPi")
def operand(A, L, P, p):
    """The code behind an operand pair: a variable's binding or a constant."""
    if P[p] == at.O_VAR:
        return np.int64(A[L[at.VARS] + P[p + 1]])
    if P[p] == at.O_CONST:
        return np.int64(P[p + 1])
    return encode(L, np.int64(P[p] - at.O_RAW), L[(L[at.VARS] >> 1) - 1 - P[p + 1]])


@kernel("i:ALPi")
def pattern(A, L, P, p):
    """The pattern behind an operand pair of type number, unsigned or float."""
    if P[p] == at.O_VAR:
        return decode(L, np.int64(A[L[at.VARS] + P[p + 1]]))
    if P[p] == at.O_CONST:
        return decode(L, np.int64(P[p + 1]))
    return L[(L[at.VARS] >> 1) - 1 - P[p + 1]]


@kernel("i:ALPii")
def gather(A, L, P, p, n):
    """Put `n` operands into KEY; returns their hash."""
    for k in range(n):
        A[at.KEY + k] = operand(A, L, P, p + 2 * k)
    return hash_words(A, at.KEY, n)


@kernel("i:ii")
def state_holds(flags, state):
    """Whether a row with these flags is in the state."""
    if state == at.STATE_UNION:
        return np.int64(1) if flags & 3 else np.int64(0)
    return np.int64(1) if (flags & state) == state else np.int64(0)


@kernel("i:ALPi")
def _absent(A, L, P, c):
    """Check `!relation(operands)`: 1 if the tuple is absent in the state the literal sees."""
    r = np.int64(P[c + 1])
    h = gather(A, L, P, c + 4, P[c + 3])
    row = key_find(A, L, A, r, at.KEY, h)
    if row < 0:
        return np.int64(1)
    rb = L[at.RELS] + r * at.RSZ
    flags = L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1]
    state = L[at.S_BEFORE] if P[c + 2] == at.LOWER_BEFORE else L[at.S_AFTER]
    if state == at.STATE_UNION:  # the most permissive: absent before or absent now
        return np.int64(0) if (flags & 3) == 3 else np.int64(1)
    return np.int64(0) if flags & state else np.int64(1)


@kernel("i:ALPi")
def _ask(A, L, P, c):
    """Bind or test a functor that Python computes, from its memo; -1: it lacks the arguments."""
    memo = np.int64(P[c + 1])
    n = np.int64(P[c + 4])
    row = key_find(A, L, A, memo, at.KEY, gather(A, L, P, c + 5, n))
    if row < 0:
        L[at.ASKED] = memo
        push(L, at.ASKS, memo)
        for k in range(n):
            push(L, at.ASKS, np.int64(A[at.KEY + k]))
        if L[at.ASKING] and L[at.ASKS + 1] < L[at.ASK_CALLS]:
            return np.int64(0)
        return np.int64(-1)
    rb = L[at.RELS] + memo * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    if A[offset + at.SUPPORT] == 0:
        return np.int64(0)
    if P[c + 2]:
        A[L[at.VARS] + P[c + 3]] = A[offset + at.COLS + n]
        return np.int64(1)
    return np.int64(1) if A[L[at.VARS] + P[c + 3]] == A[offset + at.COLS + n] else np.int64(0)


@kernel("i:ALPii")
def _given(A, L, P, p, s):
    """Bind or test a destination, `p` says which, by the operand at `s`: 1 if it holds."""
    if P[p] == 0:
        return np.int64(1) if operand(A, L, P, p + 1) == operand(A, L, P, s) else np.int64(0)
    if P[p + 1] == at.O_VAR:
        A[L[at.VARS] + P[p + 2]] = operand(A, L, P, s)
    else:
        L[(L[at.VARS] >> 1) - 1 - P[p + 2]] = pattern(A, L, P, s)
    return np.int64(1)


@kernel("i:ALPii")
def _told(A, L, P, p, truth):
    """Bind or test a destination, `p` says which, by a number that is 0 or 1: 1 if it holds."""
    if P[p] == 0:
        return np.int64(1) if pattern(A, L, P, p + 1) == truth else np.int64(0)
    if P[p + 1] == at.O_VAR:
        A[L[at.VARS] + P[p + 2]] = truth
    else:
        L[(L[at.VARS] >> 1) - 1 - P[p + 2]] = truth
    return np.int64(1)


@kernel("i:ALPi")
def _chosen(A, L, P, c):
    """Run a check about a record of one field, or about what is true: 1 if it holds."""
    op = P[c]
    if op == at.CHECK_PICK:
        where = 6 if pattern(A, L, P, c + 4) != 0 else 8
        return _given(A, L, P, c + 1, c + where)
    if op == at.CHECK_TEST:
        t = np.int64(P[c + 4])
        if P[c + 6] < at.O_RAW and P[c + 8] < at.O_RAW:
            a = operand(A, L, P, c + 6)
            b = operand(A, L, P, c + 8)
            return _told(A, L, P, c + 1, compare(A, L, t, np.int64(P[c + 5]), a, b))
        u = pattern(A, L, P, c + 6)
        v = pattern(A, L, P, c + 8)
        return _told(A, L, P, c + 1, compare_patterns(t, np.int64(P[c + 5]), u, v))
    is_nil = operand(A, L, P, c + 4) == NIL
    if op == at.CHECK_THERE:
        return _told(A, L, P, c + 1, np.int64(0) if is_nil else np.int64(1))
    if not is_nil:
        return _given(A, L, P, c + 1, c + 4)
    return np.int64(0) if op == at.CHECK_OPEN else _given(A, L, P, c + 1, c + 6)


@kernel("i:ALPi")
def run_check(A, L, P, c):
    """Run one check: 1 if it holds, -1 if it must wait. All but two may bind a variable."""
    op = P[c]
    if op == at.CHECK_CALL:
        t = np.int64(P[c + 1])
        f = np.int64(P[c + 2])
        x = pattern(A, L, P, c + 7)
        y = x if P[c + 6] < 2 else pattern(A, L, P, c + 9)
        if has_value(t, f, x, y) == 0:
            return np.int64(0)
        value = call(t, f, x, y)
        if P[c + 3] == 0:
            return np.int64(1) if pattern(A, L, P, c + 4) == value else np.int64(0)
        if P[c + 4] == at.O_VAR:
            A[L[at.VARS] + P[c + 5]] = encode(L, type_of_result(t, f), value)
        else:
            L[(L[at.VARS] >> 1) - 1 - P[c + 5]] = value
        return np.int64(1)
    if op == at.CHECK_COMPARE:
        if P[c + 3] < at.O_RAW and P[c + 5] < at.O_RAW:
            a = operand(A, L, P, c + 3)
            b = operand(A, L, P, c + 5)
            return compare(A, L, np.int64(P[c + 1]), np.int64(P[c + 2]), a, b)
        u = pattern(A, L, P, c + 3)
        v = pattern(A, L, P, c + 5)
        return compare_patterns(np.int64(P[c + 1]), np.int64(P[c + 2]), u, v)
    if op == at.CHECK_ABSENT:
        return _absent(A, L, P, c)
    if op == at.CHECK_ASK:
        return _ask(A, L, P, c)
    if op >= at.CHECK_OPEN:
        return _chosen(A, L, P, c)
    if P[c + 1] == at.O_VAR:
        A[L[at.VARS] + P[c + 2]] = operand(A, L, P, c + 3)
    else:
        L[(L[at.VARS] >> 1) - 1 - P[c + 2]] = pattern(A, L, P, c + 3)
    return np.int64(1)


@kernel("i:ALPiii")
def fits_row(A, L, P, p, n, offset):
    """Match columns of the row at word `at`: bind variables, compare the rest. 1 if it fits."""
    for k in range(n):
        value = A[offset + at.COLS + P[p + 3 * k]]
        kind = P[p + 3 * k + 1]
        argument = P[p + 3 * k + 2]
        if kind == at.M_BIND:
            A[L[at.VARS] + argument] = value
        elif kind == at.M_VAR:
            if A[L[at.VARS] + argument] != value:
                return np.int64(0)
        elif value != argument:
            return np.int64(0)
    return np.int64(1)


@kernel("i:ALPiii")
def starts_with(A, L, P, v, offset, n):
    """Whether variant `v` goes on from the row at word `offset`: it fits, and `n` checks hold.

    Those of its first node. -1: one must wait.
    """
    fits = fits_row(A, L, P, np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH]), offset)
    checks = np.int64(P[P[v + at.V_NODE] + 1])
    k = np.int64(0)
    while fits == 1 and k < n:
        fits = run_check(A, L, P, np.int64(P[checks + k]))
        k += 1
    return fits
