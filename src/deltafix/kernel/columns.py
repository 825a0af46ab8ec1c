"""Rows that a rule is evaluated from, a block at a time, and each of its terms by column.

Row by row, a rule that computes dispatches every term anew: TPC-H's query 1 has 40 of them, 5 ns
each. Here a term is looked at once for 64 rows and computed in a loop; what does not pass is no
longer selected. Where each row finds just one row in the next literal, as a foreign key does, the
block goes on with that one's columns and terms; each step asks for what the next will read. What is
left when the body is through are heads; where a literal may have several rows, or is read in order,
the rows go on as tasks of their own, from that node (`BEGUN`), with their variables put back.

Life: `evaluate_block` takes the rows of the trigger from S_ROW on; `next_passed` makes the next of
those that go on the task. Invariant: a block finds what `join.run_variant` would, row by row, and
computes no term for a row that a check before it has dropped. A value
that Python has yet to compute ends the block before anything has come of it: then its rows are
tasks (`SINGLY`), which ask for it. A lane takes the blocks of its part (`phases.next_in_part`). Not
here: literals of the rule's own stratum.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.checks import run_check
from deltafix.kernel.index import bucket_start, idx_find, idx_glance, slot_has
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words, key_find
from deltafix.kernel.values import (
    as_signed,
    call,
    compare,
    decode,
    encode,
    has_value,
    type_of_result,
)

_MISSING = -1
_SEVERAL = -2
_FIRST_ROWS = 4
_ENOUGH = 16
"""Rows by which a literal is chosen for the blocks to come."""
_SCANNED = 1 << 12
"""Rows of which a block's are taken, at most."""
# --- what lies behind the vectors of variables: lists of BLOCK cells ------------------------------
_SELECTED = 0  # positions of the rows that have passed so far
_ROWS = 1  # by position the trigger's row
_WORDS = 2  # where the row begins that the literal at hand has found
_SLOTS = 3
_HASHES = 4
_KEPT = 5  # positions, while a literal is tried
_CONSTANTS = 6  # two operands that are no vectors
_BOUND = 7  # variables that are bound, times two, 1 more if they are patterns; N_VARS cells


@kernel("i:i")
def vector_cells(variables: int) -> int:
    """Cells of the vectors of so many variables, with what lies behind them."""
    return (variables + _BOUND) * at.BLOCK + variables


@kernel("i:Lii")
def _list(L, number, position):
    """A cell of one of the lists behind the vectors."""
    return L[at.VECTORS] + (L[at.N_VARS] + number) * at.BLOCK + position


@kernel("i:Li")
def _vector(L, variable):
    """The first cell of a variable's vector."""
    return L[at.VECTORS] + variable * at.BLOCK


@kernel("v:Lii")
def _note_bound(L, kind, variable):
    """A variable has values in its vector: codes, or patterns."""
    L[_list(L, _BOUND, L[at.N_BOUND])] = 2 * variable + (1 if kind >= at.O_RAW else 0)
    L[at.N_BOUND] += 1


@kernel("v:ALi")
def _put_back(A, L, i):
    """Bind all variables as the row at position `i` has them."""
    for k in range(L[at.N_BOUND]):
        entry = L[_list(L, _BOUND, np.int64(k))]
        value = L[_vector(L, entry >> 1) + i]
        if entry & 1:
            L[(L[at.VARS] >> 1) - 1 - (entry >> 1)] = value
        else:
            A[L[at.VARS] + (entry >> 1)] = value


@kernel("i:ALPiii")
def _restore(A, L, P, p, n, i):
    """Bind the variables among `n` operands for position `i`; 1: they were bound so before."""
    same = np.int64(1)
    for k in range(n):
        kind = P[p + 2 * k]
        variable = np.int64(P[p + 2 * k + 1])
        if kind == at.O_VAR:
            value = L[_vector(L, variable) + i]
            if A[L[at.VARS] + variable] != value:
                A[L[at.VARS] + variable] = value
                same = np.int64(0)
        elif kind >= at.O_RAW:
            value = L[_vector(L, variable) + i]
            cell = (L[at.VARS] >> 1) - 1 - variable
            if L[cell] != value:
                L[cell] = value
                same = np.int64(0)
    return same


@kernel("i:LPii")
def _source(L, P, p, number):
    """The first cell of the values of operand `number` of two; of a constant, the only one."""
    if P[p] != at.O_CONST:
        return _vector(L, np.int64(P[p + 1]))
    cell = _list(L, _CONSTANTS, number)
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
def _match(A, L, P, p, m, words, n):
    """Bind and compare `m` columns of the rows whose first words stand in a list; rows left."""
    selected = _list(L, _SELECTED, np.int64(0))
    for k in range(m):
        column = at.COLS + P[p + 3 * k]
        kind = P[p + 3 * k + 1]
        argument = np.int64(P[p + 3 * k + 2])
        vector = _vector(L, argument)
        if kind == at.M_BIND:
            for j in range(n):
                i = L[selected + j]
                L[vector + i] = A[L[words + i] + column]
            _note_bound(L, np.int64(at.O_VAR), argument)
            continue
        kept = np.int64(0)
        for j in range(n):
            i = L[selected + j]
            wanted = L[vector + i] if kind == at.M_VAR else argument
            if A[L[words + i] + column] == wanted:
                L[selected + kept] = i
                kept += 1
        n = kept
    return n


@kernel("i:ALPii")
def _compare(A, L, P, c, n):
    """The rows of `n` of which a comparison holds."""
    selected = _list(L, _SELECTED, np.int64(0))
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
    selected = _list(L, _SELECTED, np.int64(0))
    f = P[c + 2]
    x = _source(L, P, np.int64(c + 7), np.int64(0))
    y = _source(L, P, np.int64(c + 9), np.int64(1))
    dx = _step(P, np.int64(c + 7))
    dy = _step(P, np.int64(c + 9))
    x_is = _patterns(L, P, np.int64(c + 7))
    y_is = _patterns(L, P, np.int64(c + 9))
    out = _vector(L, np.int64(P[c + 5]))
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
    selected = _list(L, _SELECTED, np.int64(0))
    t = np.int64(P[c + 1])
    f = np.int64(P[c + 2])
    binds = P[c + 3]
    arity = P[c + 6]
    x = _source(L, P, np.int64(c + 7), np.int64(0))
    dx = _step(P, np.int64(c + 7))
    x_is = _patterns(L, P, np.int64(c + 7))
    if binds:
        _note_bound(L, np.int64(P[c + 4]), np.int64(P[c + 5]))
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
            L[_vector(L, target) + i] = value
        else:
            other = target if kind == at.O_CONST else L[_vector(L, target) + i]
            if _pattern(L, np.int64(kind >= at.O_RAW), other) != value:
                continue
        L[selected + kept] = i
        kept += 1
    return kept


@kernel("v:LPii")
def _move(L, P, c, n):
    """Bind a variable to an operand."""
    selected = _list(L, _SELECTED, np.int64(0))
    x = _source(L, P, np.int64(c + 3), np.int64(0))
    dx = _step(P, np.int64(c + 3))
    is_pattern = _patterns(L, P, np.int64(c + 3))
    out = _vector(L, np.int64(P[c + 2]))
    _note_bound(L, np.int64(P[c + 1]), np.int64(P[c + 2]))
    for j in range(n):
        i = L[selected + j]
        if P[c + 1] == at.O_VAR:
            L[out + i] = _code(L, P, np.int64(c + 3), x, i)
        else:
            L[out + i] = _pattern(L, is_pattern, L[x + i * dx])


@kernel("i:ALPii")
def _check_rows(A, L, P, c, n):
    """Run a check of another kind for one row after another; the rows of `n` that it holds of.

    Equal operands are asked about once: of two rows that both are in no doubt, say. _MISSING: a
    functor has no value yet.
    """
    selected = _list(L, _SELECTED, np.int64(0))
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
        _note_bound(L, kind, target)
    kept = np.int64(0)
    holds = np.int64(0)
    asked = L[at.ASKS + 1]
    for j in range(n):
        i = L[selected + j]
        same = _restore(A, L, P, first, count, i)
        if not binds:
            if op == at.CHECK_ASK:
                value = L[_vector(L, target) + i]
                if A[L[at.VARS] + target] != value:
                    A[L[at.VARS] + target] = value
                    same = np.int64(0)
            elif op != at.CHECK_ABSENT and _restore(A, L, P, np.int64(c + 2), 1, i) == 0:
                same = np.int64(0)
        if j == 0 or same == 0:
            holds = run_check(A, L, P, c)
        if holds < 0:
            L[at.ASKS + 1] = asked
            return np.int64(_MISSING)
        if holds == 0:
            continue
        if binds:
            if kind == at.O_VAR:
                L[_vector(L, target) + i] = A[L[at.VARS] + target]
            else:
                L[_vector(L, target) + i] = L[(L[at.VARS] >> 1) - 1 - target]
        L[selected + kept] = i
        kept += 1
    return kept


@kernel("i:ALPiiii")
def _run_checks(A, L, P, node, first, last, n):
    """Run the checks of a node from one to another; the rows of `n` that pass, or _MISSING."""
    for k in range(first, last):
        c = np.int64(P[P[node + 1] + k])
        if n <= 0:
            return n
        if P[c] == at.CHECK_COMPARE:
            n = _compare(A, L, P, c, n)
        elif P[c] == at.CHECK_CALL:
            n = _call(L, P, c, n)
        elif P[c] == at.CHECK_MOVE:
            _move(L, P, c, n)
        else:
            n = _check_rows(A, L, P, c, n)
    return n


@kernel("v:ALPiii")
def _gather(A, L, P, p, n, i):
    """Put `n` operands at position `i` into KEY."""
    for k in range(n):
        cell = _source(L, P, p + 2 * k, np.int64(0))
        A[at.KEY + k] = _code(L, P, p + 2 * k, cell, i)


@kernel("v:ALPii")
def _ask_slots(A, L, P, c, n):
    """Hash the keys that the rows look literal `c` up by, and ask for their slots."""
    selected = _list(L, _SELECTED, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
    for j in range(n):
        i = L[selected + j]
        _gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]), i)
        h = hash_words(A, at.KEY, np.int64(P[c + at.K_NKEYS]))
        L[_list(L, _HASHES, i)] = h
        if P[c + at.K_METHOD] == at.BY_KEY:
            prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
        else:
            prefetch(L, L[xb + at.X_SLOTS] + 2 * ((h * L[xb + at.X_CAP]) >> at.HASH_BITS))


@kernel("v:LPii")
def _ask_rows(L, P, c, n):
    """The slots have arrived: ask for what they name. Of an index they are noted, -1: none."""
    selected = _list(L, _SELECTED, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    for j in range(n):
        i = L[selected + j]
        h = L[_list(L, _HASHES, i)]
        if P[c + at.K_METHOD] == at.BY_KEY:
            v = L[L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS)]
            row = (v & 0xFFFFFFFF) - 1
            if v != 0:
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
            continue
        slot = idx_glance(L, np.int64(P[c + at.K_INDEX]), h)
        L[_list(L, _SLOTS, i)] = slot
        if slot >= 0:
            ref = (L[slot] & 0xFFFFFFFF) - 1
            if (L[slot + 1] >> 32) != 0:
                prefetch(L, bucket_start(L, ref) >> 1)
            else:
                prefetch(L, (L[rb + at.R_ROWS] + ref * L[rb + at.R_STRIDE]) >> 1)


@kernel("i:ALPii")
def _find_rows(A, L, P, c, n):
    """The rows of `n` that find one row in literal `c`, which is noted; _SEVERAL: some find more.

    Those that find none are no longer selected; what was, _SEVERAL leaves undone.
    """
    _ask_slots(A, L, P, c, n)
    _ask_rows(L, P, c, n)
    selected = _list(L, _SELECTED, np.int64(0))
    r = np.int64(P[c + at.K_REL])
    rb = L[at.RELS] + r * at.RSZ
    x = np.int64(P[c + at.K_INDEX])
    state = L[at.S_BEFORE] if P[c + at.K_CLASS] == at.LOWER_BEFORE else L[at.S_AFTER]
    by_key = P[c + at.K_METHOD] == at.BY_KEY
    kept = np.int64(0)
    probed = np.int64(0)
    for j in range(n):
        i = L[selected + j]
        _gather(A, L, P, np.int64(P[c + at.K_KEYS]), np.int64(P[c + at.K_NKEYS]), i)
        row = np.int64(-1)
        if by_key:
            row = key_find(A, L, A, r, at.KEY, L[_list(L, _HASHES, i)])
        else:
            slot = L[_list(L, _SLOTS, i)]
            if slot >= 0 and slot_has(A, L, x, slot, at.KEY) == 0:  # two keys of one hash
                slot = idx_find(A, L, x, at.KEY, L[_list(L, _HASHES, i)])
            if slot >= 0:
                if (L[slot + 1] & 0xFFFFFFFF) != 1:
                    return np.int64(_SEVERAL)
                row = (L[slot] & 0xFFFFFFFF) - 1
                if (L[slot + 1] >> 32) != 0:
                    row = np.int64(A[bucket_start(L, row)])
        if row < 0:
            continue
        probed += 1
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if (L[offset >> 1] & state) == state:
            L[_list(L, _WORDS, i)] = offset
            L[selected + kept] = i
            kept += 1
    L[at.C_PROBED] += probed
    return kept


@kernel("i:ALPii")
def _join(A, L, P, c, n):
    """Join the rows of `n` with literal `c`, and run what checks follow: how many pass, or less.

    _SEVERAL: they cannot be joined side by side; _MISSING.
    """
    n = _find_rows(A, L, P, c, n)
    if n > 0:
        match, m = np.int64(P[c + at.K_MATCH]), np.int64(P[c + at.K_NMATCH])
        n = _match(A, L, P, match, m, _list(L, _WORDS, np.int64(0)), n)
    child = np.int64(P[c + at.K_CHILD])
    return _run_checks(A, L, P, child, np.int64(0), np.int64(P[child]), n) if n > 0 else n


@kernel("i:LPi")
def _is_looked_up(L, P, c):
    """Whether a literal is looked up by what is filled."""
    if P[c + at.K_METHOD] == at.BY_SCAN or P[c + at.K_CLASS] >= at.SAME_BEFORE:
        return np.int64(0)
    late = L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]
    return np.int64(P[c + at.K_METHOD] == at.BY_KEY or late == 0)


@kernel("i:ALPii")
def _choose(A, L, P, node, n):
    """The literal that a block is joined with next: that which the fewest of `n` rows pass.

    -1: there is none that each row finds one row in. Each that is looked up by what is filled is
    tried, with the checks behind it.
    """
    selected = _list(L, _SELECTED, np.int64(0))
    kept = _list(L, _KEPT, np.int64(0))
    probed = L[at.C_PROBED]
    bound = L[at.N_BOUND]
    for j in range(n):
        L[kept + j] = L[selected + j]
    best = np.int64(-1)
    fewest = np.int64(0)
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        if _is_looked_up(L, P, c) == 0:
            continue
        passed = _join(A, L, P, c, n)
        for j in range(n):
            L[selected + j] = L[kept + j]
        L[at.C_PROBED] = probed
        L[at.N_BOUND] = bound
        if passed >= 0 and (best < 0 or passed < fewest):
            best = np.int64(k)
            fewest = passed
    return best


@kernel("i:ALPiii")
def _next_literal(A, L, P, node, n, joined):
    """Which literal the rows of `n` are joined with next, when they have `joined` so many; -1."""
    if joined == at.MOST_LITERALS:
        return np.int64(-1)
    if L[at.LITERALS + joined]:
        return L[at.LITERALS + joined] - 2
    last = np.int64(-1)
    ready = np.int64(0)
    for k in range(P[node + 2]):
        if _is_looked_up(L, P, np.int64(P[P[node + 3] + k])):
            last = np.int64(k)
            ready += 1
    if ready <= 1:
        return last
    choice = _choose(A, L, P, node, n)
    if n >= _ENOUGH:
        L[at.LITERALS + joined] = choice + 2
    return choice


@kernel("i:ALPii")
def _note_slots(A, L, P, c, n):
    """Note the slots of literal `c` for the rows of `n`: how many find one. Ask for its rows."""
    _ask_slots(A, L, P, c, n)
    _ask_rows(L, P, c, n)
    L[at.C_TRIED] += n
    selected = _list(L, _SELECTED, np.int64(0))
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    kept = np.int64(0)
    for j in range(n):
        i = L[selected + j]
        slot = L[_list(L, _SLOTS, i)]
        if slot < 0:
            continue
        L[selected + kept] = i
        kept += 1
        if (L[slot + 1] >> 32) != 0:
            bucket = bucket_start(L, (L[slot] & 0xFFFFFFFF) - 1)
            for pos in range(min(L[slot + 1] & 0xFFFFFFFF, _FIRST_ROWS)):
                row = np.int64(A[bucket + pos])
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
    return kept


@kernel("v:ALPii")
def _pass_on(A, L, P, node, n):
    """The rows of `n` go on as tasks from a node; what they will look up is asked for.

    Of one literal alone their slots are noted, and those that find none go no further.
    """
    L[at.PASSED] = n
    L[at.PASSED_NEXT] = 0
    L[at.PASSED_NODE] = node
    L[at.PASSED_LITERAL] = 0
    only = np.int64(P[P[node + 3]])
    if P[node + 2] == 1 and P[only + at.K_METHOD] == at.BY_INDEX and _is_looked_up(L, P, only):
        L[at.PASSED_LITERAL] = only
        L[at.PASSED] = _note_slots(A, L, P, only, n)
        return
    for k in range(P[node + 2]):
        c = np.int64(P[P[node + 3] + k])
        late = L[L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ + at.X_LATE]
        if P[c + at.K_METHOD] == at.BY_KEY or (P[c + at.K_METHOD] == at.BY_INDEX and not late):
            _ask_slots(A, L, P, c, n)
            _ask_rows(L, P, c, n)


@kernel("i:ALPiii")
def _first_rows(A, L, P, v, r, tests):
    """Select rows that hold and pass the first `tests` checks, from S_ROW on, until there are many.

    Of a table of which few rows pass a block has one at a time otherwise. A lane passes over what
    lies between two blocks of its part.
    """
    rb = L[at.RELS] + r * at.RSZ
    end = L[at.S_END] if L[at.LANE] else L[rb + at.R_N]
    scanned = np.int64(0)
    match, m = np.int64(P[v + at.V_MATCH]), np.int64(P[v + at.V_NMATCH])
    selected = _list(L, _SELECTED, np.int64(0))
    rows = _list(L, _ROWS, np.int64(0))
    words = _list(L, _WORDS, np.int64(0))
    passed = np.int64(0)
    while passed < at.BLOCK - _ENOUGH and L[at.S_ROW] < end and scanned < _SCANNED:
        n = np.int64(0)
        first = L[at.S_ROW]
        last = min(first + at.BLOCK - passed, end)
        if L[at.LANE]:
            last = min(last, first + at.BLOCK - (first - L[at.S_FIRST]) % at.BLOCK)
            next_block = (at.BLOCK + L[at.S_SKIP]) * L[rb + at.R_STRIDE]
            for row in range(first, last):
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + next_block) >> 1)
        for row in range(first, last):
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            if L[offset >> 1] & at.NOW:
                L[rows + passed + n] = row
                L[words + passed + n] = offset
                L[selected + n] = passed + n
                n += 1
        scanned += last - first
        L[at.S_ROW] = last
        if L[at.LANE] and (last - L[at.S_FIRST]) % at.BLOCK == 0:
            L[at.S_ROW] += L[at.S_SKIP]
        L[at.C_TRIED] += n
        L[at.N_BOUND] = 0
        n = _match(A, L, P, match, m, words, n)
        n = _run_checks(A, L, P, np.int64(P[v + at.V_NODE]), np.int64(0), tests, n)
        for j in range(n):
            i = L[selected + j]
            if i != passed + j:
                L[rows + passed + j] = L[rows + i]
                for k in range(L[at.N_BOUND]):
                    vector = _vector(L, L[_list(L, _BOUND, np.int64(k))] >> 1)
                    L[vector + passed + j] = L[vector + i]
        passed += n
    for j in range(passed):
        L[selected + j] = j
    return passed


@kernel("i:ALPii")
def evaluate_block(A, L, P, v, r):
    """Evaluate variant `v` for the next rows of relation `r`, its trigger: how many have a head.

    `bind_head` binds the variables of each. Those in PASSED are to go on as tasks, and where SINGLY
    says so the rows themselves are.
    """
    tried, probed = L[at.C_TRIED], L[at.C_PROBED]
    first = L[at.S_ROW]
    node = np.int64(P[v + at.V_NODE])
    tests = np.int64(0)
    while tests < P[node] and P[P[P[node + 1] + tests]] == at.CHECK_COMPARE:
        tests += 1
    n = _first_rows(A, L, P, v, r, tests)
    n = _run_checks(A, L, P, node, tests, np.int64(P[node]), n)
    joined = np.int64(0)
    while n > 0 and P[node + 2] > 0:
        choice = _next_literal(A, L, P, node, n, joined)
        if choice < 0:
            _pass_on(A, L, P, node, n)
            return np.int64(0)
        for j in range(n):
            L[_list(L, _KEPT, np.int64(j))] = L[_list(L, _SELECTED, np.int64(j))]
        c = np.int64(P[P[node + 3] + choice])
        bound = L[at.N_BOUND]
        passed = _join(A, L, P, c, n)
        if passed == _SEVERAL:
            for j in range(n):
                L[_list(L, _SELECTED, np.int64(j))] = L[_list(L, _KEPT, np.int64(j))]
            L[at.N_BOUND] = bound
            L[at.LITERALS + joined] = 1  # nor will those of the next block
            _pass_on(A, L, P, node, n)
            return np.int64(0)
        L[at.C_TRIED] += n * P[node + 2]
        n = passed
        node = np.int64(P[c + at.K_CHILD])
        joined += 1
    if n == _MISSING:
        L[at.SINGLY] = L[at.S_ROW]
        L[at.S_ROW] = first
        L[at.C_TRIED] = tried
        L[at.C_PROBED] = probed
        return np.int64(0)
    return n


@kernel("v:ALPii")
def bind_head(A, L, P, v, j):
    """Bind the variables that the head of variant `v` has of one of the rows that have a head."""
    arity = L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]
    _restore(A, L, P, np.int64(P[v + at.V_HEADOPS]), arity, L[_list(L, _SELECTED, j)])


@kernel("v:LPiii")
def put_heads(L, P, v, first, count):
    """Put the heads of `count` rows that have one, from the `first` on, where folds take them from.

    Of each column the pattern of what is computed with, else the code.
    """
    ops = np.int64(P[v + at.V_HEADOPS])
    arity = L[L[at.RELS] + P[v + at.V_HEAD] * at.RSZ + at.R_ARITY]
    selected = _list(L, _SELECTED, first)
    for k in range(arity):
        cell = _source(L, P, ops + 2 * k, np.int64(0))
        step = _step(P, ops + 2 * k)
        for j in range(count):
            L[(at.EMIT >> 1) + j * arity + k] = L[cell + L[selected + j] * step]
    L[at.EMITTED] = count


@kernel("i:AL")
def next_passed(A, L):
    """Make the next of the rows that go on the task at hand: the trigger's row."""
    i = L[_list(L, _SELECTED, L[at.PASSED_NEXT])]
    L[at.PASSED_NEXT] += 1
    _put_back(A, L, i)
    L[at.BEGUN] = L[at.PASSED_NODE] + 1
    if L[at.PASSED_LITERAL]:
        L[at.CHOSEN_LITERAL] = L[at.PASSED_LITERAL]
        L[at.CHOSEN] = L[_list(L, _SLOTS, i)] + 1
    return L[_list(L, _ROWS, i)]
