"""The terms of a rule by column: looked at once for a block of rows, and computed in a loop.

Row by row, a rule that computes dispatches every term anew: TPC-H's query 1 has 40 of them, 5 ns
each. Here a block is 64 rows side by side (`frames`); what does not pass is no longer selected.
A row for which Python has yet to compute a value is set aside (`aside`).

Invariant: a term has for each position the value that `checks.run_check` would give, and none is
computed for a row that a check before it has dropped. Not here: where the rows of a block come
from, and how they are joined (`block_join`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.aside import VALUES, set_aside
from deltafix.kernel.checks import run_check
from deltafix.kernel.frames import CONSTANTS, SELECTED, list_cell, note_bound, vector
from deltafix.kernel.jit import kernel
from deltafix.kernel.values import (
    as_signed,
    call,
    compare,
    decode,
    encode,
    has_value,
    type_of_result,
)


@kernel("i:ALPiii")
def _restore(A, L, P, p, n, i):
    """Bind the variables among `n` operands for position `i`; 1: they were bound so before."""
    same = np.int64(1)
    for k in range(n):
        kind = P[p + 2 * k]
        variable = np.int64(P[p + 2 * k + 1])
        if kind == at.O_VAR:
            value = L[vector(L, variable) + i]
            if A[L[at.VARS] + variable] != value:
                A[L[at.VARS] + variable] = value
                same = np.int64(0)
        elif kind >= at.O_RAW:
            value = L[vector(L, variable) + i]
            cell = (L[at.VARS] >> 1) - 1 - variable
            if L[cell] != value:
                L[cell] = value
                same = np.int64(0)
    return same


@kernel("i:LPii")
def _source(L, P, p, number):
    """The first cell of the values of operand `number` of two; of a constant, the only one."""
    if P[p] != at.O_CONST:
        return vector(L, np.int64(P[p + 1]))
    cell = list_cell(L, CONSTANTS, number)
    L[cell] = P[p + 1]
    return cell


@kernel("i:Pi")
def _step(P, p):
    """From the value of one position of an operand to the next: 0 of a constant."""
    return np.int64(0) if P[p] == at.O_CONST else np.int64(1)


@kernel("i:LPiii")
def _code(L, P, p, cell, i):
    """The code of an operand whose values begin at a cell, at position `i`."""
    value = L[cell + i * _step(P, p)]
    return value if P[p] < at.O_RAW else encode(L, np.int64(P[p] - at.O_RAW), value)


@kernel("i:LPi")
def _patterns(L, P, p):
    """1: an operand's values are patterns; 0: they are codes."""
    return np.int64(1) if P[p] >= at.O_RAW else np.int64(0)


@kernel("i:Lii")
def _pattern(L, is_pattern, value):
    """The pattern behind a value of a vector."""
    return value if is_pattern else decode(L, value)


@kernel("i:ALPiiii")
def match_columns(A, L, P, p, m, words, n):
    """Bind and compare `m` columns of the rows whose first words stand in a list; rows left."""
    selected = list_cell(L, SELECTED, np.int64(0))
    for k in range(m):
        column = at.COLS + P[p + 3 * k]
        kind = P[p + 3 * k + 1]
        argument = np.int64(P[p + 3 * k + 2])
        values = vector(L, argument)
        if kind == at.M_BIND:
            for j in range(n):
                i = L[selected + j]
                L[values + i] = A[L[words + i] + column]
            note_bound(L, np.int64(at.O_VAR), argument)
            continue
        kept = np.int64(0)
        for j in range(n):
            i = L[selected + j]
            wanted = L[values + i] if kind == at.M_VAR else argument
            if A[L[words + i] + column] == wanted:
                L[selected + kept] = i
                kept += 1
        n = kept
    return n


@kernel("i:ALPii")
def _compare(A, L, P, c, n):
    """The rows of `n` of which a comparison holds."""
    selected = list_cell(L, SELECTED, np.int64(0))
    t = np.int64(P[c + 1])
    op = np.int64(P[c + 2])
    x = _source(L, P, np.int64(c + 3), np.int64(0))
    y = _source(L, P, np.int64(c + 5), np.int64(1))
    dx = _step(P, np.int64(c + 3))
    dy = _step(P, np.int64(c + 5))
    x_is = _patterns(L, P, np.int64(c + 3))
    y_is = _patterns(L, P, np.int64(c + 5))
    kept = np.int64(0)
    if t == at.T_SYMBOL or (x_is == 0 and y_is == 0 and (op == at.EQ or op == at.NE)):
        for j in range(n):
            i = L[selected + j]
            if compare(A, L, t, op, L[x + i * dx], L[y + i * dy]):
                L[selected + kept] = i
                kept += 1
        return kept
    less = op == at.LT or op == at.LE or op == at.NE
    equal = op == at.EQ or op == at.LE or op == at.GE
    greater = op == at.GT or op == at.GE or op == at.NE
    for j in range(n):
        i = L[selected + j]
        u = as_signed(t, _pattern(L, x_is, L[x + i * dx]))
        v = as_signed(t, _pattern(L, y_is, L[y + i * dy]))
        L[selected + kept] = i
        if u < v:
            kept += 1 if less else 0
        elif u == v:
            kept += 1 if equal else 0
        else:
            kept += 1 if greater else 0
    return kept


@kernel("i:LPiii")
def _add_up(L, P, c, n, power):
    """Compute a functor that whole numbers always have a value of; `power`: it divides by 2**that.

    1: done; 0: it is another one.
    """
    selected = list_cell(L, SELECTED, np.int64(0))
    f = P[c + 2]
    x = _source(L, P, np.int64(c + 7), np.int64(0))
    y = _source(L, P, np.int64(c + 9), np.int64(1))
    dx = _step(P, np.int64(c + 7))
    dy = _step(P, np.int64(c + 9))
    x_is = _patterns(L, P, np.int64(c + 7))
    y_is = _patterns(L, P, np.int64(c + 9))
    out = vector(L, np.int64(P[c + 5]))
    if power >= 0:
        rest = (np.int64(1) << power) - 1
        for j in range(n):
            i = L[selected + j]
            u = _pattern(L, x_is, L[x + i * dx])
            L[out + i] = (u + ((u >> 63) & rest)) >> power
    elif f == at.ADD:
        for j in range(n):
            i = L[selected + j]
            L[out + i] = _pattern(L, x_is, L[x + i * dx]) + _pattern(L, y_is, L[y + i * dy])
    elif f == at.SUB:
        for j in range(n):
            i = L[selected + j]
            L[out + i] = _pattern(L, x_is, L[x + i * dx]) - _pattern(L, y_is, L[y + i * dy])
    elif f == at.MUL:
        for j in range(n):
            i = L[selected + j]
            L[out + i] = _pattern(L, x_is, L[x + i * dx]) * _pattern(L, y_is, L[y + i * dy])
    elif f == at.LOR:
        for j in range(n):
            i = L[selected + j]
            u = _pattern(L, x_is, L[x + i * dx]) | _pattern(L, y_is, L[y + i * dy])
            L[out + i] = np.int64(1) if u != 0 else np.int64(0)
    else:
        return np.int64(0)
    return np.int64(1)


@kernel("i:LPi")
def _power(L, P, c):
    """Of which power of two a call is the quotient of a number; -1: of none."""
    if P[c + 1] == at.T_NUMBER and P[c + 2] == at.DIV and P[c + 9] == at.O_CONST:
        by = decode(L, np.int64(P[c + 10]))
        if by > 0 and by & (by - 1) == 0:
            power = np.int64(0)
            while by >> power != 1:
                power += 1
            return power
    return np.int64(-1)


@kernel("i:LPii")
def _call(L, P, c, n):
    """Bind or test a functor of the kernel; the rows of `n` that it has a value for, and fits."""
    selected = list_cell(L, SELECTED, np.int64(0))
    t = np.int64(P[c + 1])
    f = np.int64(P[c + 2])
    binds = P[c + 3]
    arity = P[c + 6]
    x = _source(L, P, np.int64(c + 7), np.int64(0))
    dx = _step(P, np.int64(c + 7))
    x_is = _patterns(L, P, np.int64(c + 7))
    if binds:
        note_bound(L, np.int64(P[c + 4]), np.int64(P[c + 5]))
        if t != at.T_FLOAT and arity == 2 and P[c + 4] >= at.O_RAW:
            if _add_up(L, P, c, n, _power(L, P, c)):
                return n
    y = x
    dy = dx
    y_is = x_is
    if arity > 1:
        y = _source(L, P, np.int64(c + 9), np.int64(1))
        dy = _step(P, np.int64(c + 9))
        y_is = _patterns(L, P, np.int64(c + 9))
    result = type_of_result(t, f)
    target = np.int64(P[c + 5])
    kind = P[c + 4]
    kept = np.int64(0)
    for j in range(n):
        i = L[selected + j]
        u = _pattern(L, x_is, L[x + i * dx])
        v = _pattern(L, y_is, L[y + i * dy])
        if has_value(t, f, u, v) == 0:
            continue
        value = call(t, f, u, v)
        if binds:
            if kind == at.O_VAR:
                value = encode(L, result, value)
            L[vector(L, target) + i] = value
        else:
            other = target if kind == at.O_CONST else L[vector(L, target) + i]
            if _pattern(L, np.int64(kind >= at.O_RAW), other) != value:
                continue
        L[selected + kept] = i
        kept += 1
    return kept


@kernel("v:LPii")
def _move(L, P, c, n):
    """Bind a variable to an operand."""
    selected = list_cell(L, SELECTED, np.int64(0))
    x = _source(L, P, np.int64(c + 3), np.int64(0))
    dx = _step(P, np.int64(c + 3))
    is_pattern = _patterns(L, P, np.int64(c + 3))
    out = vector(L, np.int64(P[c + 2]))
    note_bound(L, np.int64(P[c + 1]), np.int64(P[c + 2]))
    for j in range(n):
        i = L[selected + j]
        if P[c + 1] == at.O_VAR:
            L[out + i] = _code(L, P, np.int64(c + 3), x, i)
        else:
            L[out + i] = _pattern(L, is_pattern, L[x + i * dx])


@kernel("i:ALPiiii")
def _check_rows(A, L, P, c, n, node, bound):
    """Run a check of another kind for one row after another; the rows of `n` that it holds of.

    Equal operands are asked about once: of two rows that both are in no doubt, say. A row for which
    a functor has no value yet is set aside, as it came to the node, with `bound` variables.
    """
    selected = list_cell(L, SELECTED, np.int64(0))
    op = P[c]
    binds = np.int64(0)
    first = np.int64(c + 4)
    count = np.int64(1)
    kind = np.int64(at.O_VAR)
    target = np.int64(0)
    if op == at.CHECK_ABSENT:
        count = np.int64(P[c + 3])
    elif op == at.CHECK_ASK:
        first = np.int64(c + 5)
        count = np.int64(P[c + 4])
        binds = np.int64(P[c + 2])
        target = np.int64(P[c + 3])
    else:
        binds = np.int64(P[c + 1])
        kind = np.int64(P[c + 2])
        target = np.int64(P[c + 3])
        if op == at.CHECK_OR:
            count = np.int64(2)
        elif op == at.CHECK_PICK:
            count = np.int64(3)
        elif op == at.CHECK_TEST:
            first = np.int64(c + 6)
            count = np.int64(2)
    if binds:
        note_bound(L, kind, target)
    kept = np.int64(0)
    holds = np.int64(0)
    asked = L[at.ASKS + 1]
    for j in range(n):
        i = L[selected + j]
        same = _restore(A, L, P, first, count, i)
        if not binds:
            if op == at.CHECK_ASK:
                value = L[vector(L, target) + i]
                if A[L[at.VARS] + target] != value:
                    A[L[at.VARS] + target] = value
                    same = np.int64(0)
            elif op != at.CHECK_ABSENT and _restore(A, L, P, np.int64(c + 2), 1, i) == 0:
                same = np.int64(0)
        if j == 0 or same == 0:
            holds = run_check(A, L, P, c)
        if holds < 0:
            if L[at.TRYING]:
                L[at.ASKS + 1] = asked
            else:
                set_aside(A, L, np.int64(VALUES), node, i, bound, np.int64(0), np.int64(0))
            continue
        if holds == 0:
            continue
        if binds:
            if kind == at.O_VAR:
                L[vector(L, target) + i] = A[L[at.VARS] + target]
            else:
                L[vector(L, target) + i] = L[(L[at.VARS] >> 1) - 1 - target]
        L[selected + kept] = i
        kept += 1
    return kept


@kernel("i:ALPiiii")
def run_checks(A, L, P, node, first, last, n):
    """Run the checks of a node from one to another; the rows of `n` that pass."""
    bound = L[at.N_BOUND]
    for k in range(first, last):
        c = np.int64(P[P[node + 1] + k])
        if n == 0:
            return n
        if P[c] == at.CHECK_COMPARE:
            n = _compare(A, L, P, c, n)
        elif P[c] == at.CHECK_CALL:
            n = _call(L, P, c, n)
        elif P[c] == at.CHECK_MOVE:
            _move(L, P, c, n)
        else:
            n = _check_rows(A, L, P, c, n, node, bound)
    return n


@kernel("v:ALPiii")
def gather_at(A, L, P, p, n, i):
    """Put `n` operands at position `i` into KEY."""
    for k in range(n):
        cell = _source(L, P, p + 2 * k, np.int64(0))
        A[at.KEY + k] = _code(L, P, p + 2 * k, cell, i)


@kernel("v:ALPii")
def bind_head(A, L, P, v, j):
    """Bind the variables that the head of variant `v` has of one of the rows that have a head."""
    arity = L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]
    _restore(A, L, P, np.int64(P[v + at.V_HEADOPS]), arity, L[list_cell(L, SELECTED, j)])


@kernel("v:LPiii")
def put_heads(L, P, v, first, count):
    """Put the heads of `count` rows that have one, from the `first` on, where folds take them from.

    Of each column the pattern of what is computed with, else the code.
    """
    ops = np.int64(P[v + at.V_HEADOPS])
    arity = L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]
    selected = list_cell(L, SELECTED, first)
    for k in range(arity):
        cell = _source(L, P, ops + 2 * k, np.int64(0))
        step = _step(P, ops + 2 * k)
        for j in range(count):
            L[(at.EMIT >> 1) + j * arity + k] = L[cell + L[selected + j] * step]
    L[at.EMITTED] = count
