"""Aggregates: `count`, `sum` and `mean`, `min` and `max`.

A fold has a table of its own, which no rule names, with a row for each group: the group's columns,
SUPPORT 1 while rules see a value of it, and three cells behind the columns: how many rows it has
(of optional values in the low half, and how many values are there in the high one), and the sums of
the low and the high 32 bits of their values (2**31 rows fit, so nothing wraps around before it is
read), or what `extremes` keeps of the best. Its stratum takes the changed rows of the source, each
O(1), then shows the groups that they touched: the row of the old value holds no more, that of the
new one does. Optional values that are not there (NIL) do not count; of none, all but a count is
NIL.
A source that nothing reads but counts and sums is not kept (`plan.pipelined`): `pipe` takes each of
its rows as its stratum derives it or loses its derivation, and the fold's stratum only shows.

Invariant: a group's row is noted in `FOLDED` before its first change in an epoch, and listed as
changed, so the epoch can be undone; between epochs a group is there if it has rows (or is always
shown), and what is shown is its value. Where a run stands is in S_ITEM and S_ROW. Not here: sums of
floats, and what Python folds (`engine.folds`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.extremes import (
    add_extreme,
    code_of,
    find_best,
    forget_next,
    is_open,
    order_key,
    without_next,
)
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import hash_words, key_find, key_insert, key_reserve
from deltafix.kernel.memory import new_row, push, room, row_room
from deltafix.kernel.reals import add_real, forget_block, own_block, real_value
from deltafix.kernel.settle import drop_row, settle_row
from deltafix.kernel.values import NIL, NO_VALUE, canonical, decode, encode

_LOW = 0xFFFFFFFF
_SIGN = 1 << 31
_MOST = (1 << 63) - 1
_EXACT = 1 << 53
_ONE_MORE = 1 << 32
"""A value that is there, in the first cell of a group of optional ones."""
_NOTED = 5  # cells of an entry of FOLDED: the row, what it showed, its three cells
(_BEGIN, _ROWS, _SHOW) = range(3)
_MANY = 4096
"""Groups from which the empty indexes of what a fold shows are filled when all are there."""
_FIRST = at.LAST >> 1
"""Scratch, which only heads that are kept have: by a group's row the first head of a block."""


@kernel("i:Lii")
def _totals(L, g, row):
    """The first of the three cells of a group's row."""
    rb = L[at.RELS] + g * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    return (offset + (at.COLS + L[rb + at.R_ARITY] + 1) // 2 * 2) >> 1


@kernel("v:Li")
def _note_room(L, g):
    """Make room for one more note of a group."""
    room(L, at.FOLDED, _NOTED)
    room(L, L[at.RELS] + g * at.RSZ + at.R_CHANGED, 1)


@kernel("v:ALii")
def _note(A, L, g, row):
    """Note what a group's row holds before its first change in the epoch. Room was made."""
    rb = L[at.RELS] + g * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    if L[offset >> 1] & at.TOUCHED:
        return
    L[offset >> 1] |= at.TOUCHED
    cell = _totals(L, g, row)
    own = L[cell + 2]
    if L[rb + at.R_BEST] == at.KEEPS_REAL:
        own = own_block(A, L, own)
    entry = L[at.FOLDED] + L[at.FOLDED + 1]
    L[entry] = (g << 32) | row
    L[entry + 1] = np.int64(A[offset + at.SUPPORT])
    for k in range(3):
        L[entry + 2 + k] = L[cell + k]
    L[cell + 2] = own
    push(L, rb + at.R_CHANGED, L[at.FOLDED + 1])
    L[at.FOLDED + 1] += _NOTED


@kernel("i:ALiii")
def _group(A, L, g, o, h):
    """The row of the group with columns at word `o` (hash `h`), made if need be, and noted."""
    row = key_find(A, L, A, g, o, h)
    rb = L[at.RELS] + g * at.RSZ
    if row >= 0 and L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.TOUCHED:
        return row
    _note_room(L, g)
    if row < 0:
        key_reserve(L, g, 1)
        row_room(A, L, g, 1)
        row = new_row(A, L, A, g, o)
        key_insert(L, g, row, h)
        cell = _totals(L, g, row)
        for k in range(3):
            L[cell + k] = 0
    _note(A, L, g, row)
    return row


@kernel("i:Pii")
def _values(P, f, rows):
    """How many values a group has, by the first of its cells."""
    return rows >> 32 if P[f + at.F_OPTIONAL] else rows


@kernel("v:ALPiiiii")
def _add(A, L, P, f, cell, code, value, sign):
    """A row of the source comes into the group with these cells (`sign` 1), or goes (-1).

    Its value has this code, and counts as this pattern, or key.
    """
    L[cell] += sign
    if P[f + at.F_OPTIONAL]:
        if code == NIL:
            return
        L[cell] += sign * _ONE_MORE
    if P[f + at.F_OP] >= at.FOLD_MIN:
        add_extreme(A, L, P, f, cell, value, sign, _values(P, f, L[cell]))
    elif P[f + at.F_OP] < 0:
        add_real(A, L, cell, value, sign)
    elif P[f + at.F_OP] != at.FOLD_COUNT:
        high = value >> 32
        if P[f + at.F_VALUE_TYPE] == at.T_UNSIGNED:
            high &= _LOW
        L[cell + 1] += sign * (value & _LOW)
        L[cell + 2] += sign * high


@kernel("v:ALPiii")
def _ask_group(A, L, P, f, e, offset):
    """Entry `e` of a block: the group of the row at word `offset`. Ask for its slot."""
    rb = L[at.RELS] + P[f + at.F_GROUPS] * at.RSZ
    n = np.int64(P[f + at.F_NGROUP])
    o = at.EMIT + e * n
    for k in range(n):
        A[o + k] = A[offset + at.COLS + P[f + at.F_GROUP + k]]
    h = hash_words(A, o, n)
    prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
    L[at.EMIT_CELLS + 2 * e] = h


@kernel("i:LPii")
def _counted(L, P, f, code):
    """What a value counts as: its pattern, or key; of one that does not, anything."""
    op = np.int64(P[f + at.F_OP])
    if op == at.FOLD_COUNT or (P[f + at.F_OPTIONAL] and code == NIL):
        return np.int64(0)
    if op >= at.FOLD_MIN:
        return order_key(L, np.int64(P[f + at.F_VALUE_TYPE]), op, code)
    return decode(L, code)


@kernel("v:Lii")
def _ask_totals(L, g, n):
    """The slots of `n` entries have arrived: ask for the rows that they name."""
    rb = L[at.RELS] + g * at.RSZ
    for e in range(n):
        h = L[at.EMIT_CELLS + 2 * e]
        v = L[L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS)]
        if v != 0:
            row = (v & 0xFFFFFFFF) - 1
            prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
            prefetch(L, _totals(L, g, row))


@kernel("v:ALPii")
def _add_rows(A, L, P, f, n):
    """The rows of `n` entries come or go: at what word each lies, below 0 if it goes.

    Each step of the way to a group's totals is asked for before it is needed: of 200,000 groups a
    row took 200 ns, nearly all of it waiting, and takes 60 (docs/kernel.md, "Counts and sums").
    """
    g = np.int64(P[f + at.F_GROUPS])
    if n > 2:
        _ask_totals(L, g, n)
    width = np.int64(P[f + at.F_NGROUP])
    for e in range(n):
        sign = np.int64(1)
        offset = L[at.EMIT_CELLS + 2 * e + 1]
        if offset < 0:
            sign = np.int64(-1)
            offset = -offset
        code = np.int64(A[offset + at.COLS + P[f + at.F_VALUE]])
        value = _counted(L, P, f, code)
        row = _group(A, L, g, at.EMIT + e * width, L[at.EMIT_CELLS + 2 * e])
        _add(A, L, P, f, _totals(L, g, row), code, value, sign)


@kernel("i:Pii")
def _groups_alike(P, fold, other):
    """Whether two folds of a source have the same groups."""
    n = P[fold + at.F_NGROUP]
    if P[other + at.F_NGROUP] != n:
        return np.int64(0)
    for c in range(n):
        if P[fold + at.F_GROUP + c] != P[other + at.F_GROUP + c]:
            return np.int64(0)
    return np.int64(1)


@kernel("i:LPiii")
def _code(L, P, ops, column, o):
    """The code in a column of the head at cell `o`, whose operands these are."""
    kind = P[ops + 2 * column]
    value = L[o + column]
    return value if kind < at.O_RAW else encode(L, np.int64(kind - at.O_RAW), value)


@kernel("v:ALPiii")
def _gather_group(A, L, P, f, ops, o):
    """Put the group of the head at cell `o` into KEY."""
    for c in range(P[f + at.F_NGROUP]):
        A[at.KEY + c] = _code(L, P, ops, np.int64(P[f + at.F_GROUP + c]), o)


@kernel("i:ALiii")
def _group_by(A, L, g, h, guess):
    """The row of the group at KEY (hash `h`), as `_group`, which may be the one that is guessed."""
    rb = L[at.RELS] + g * at.RSZ
    if 0 <= guess < L[rb + at.R_N]:
        offset = L[rb + at.R_ROWS] + guess * L[rb + at.R_STRIDE]
        same = L[offset >> 1] & at.TOUCHED != 0
        for c in range(L[rb + at.R_ARITY]):
            same = same and A[offset + at.COLS + c] == A[at.KEY + c]
        if same:
            return guess
    return _group(A, L, g, np.int64(at.KEY), h)


@kernel("v:ALPiiii")
def _find_groups(A, L, P, f, ops, arity, n):
    """Find the groups of `n` heads in a fold's table; with the hash of each the first head of it.

    Of two groups whose rows meet in FIRST each head may be a first one, which costs a lookup.
    """
    g = np.int64(P[f + at.F_GROUPS])
    rb = L[at.RELS] + g * at.RSZ
    for k in range(at.EMIT_BLOCK):
        L[_FIRST + k] = 0
    for e in range(n):
        _gather_group(A, L, P, f, ops, (at.EMIT >> 1) + e * arity)
        h = hash_words(A, at.KEY, np.int64(P[f + at.F_NGROUP]))
        prefetch(L, L[rb + at.R_PK] + ((h * L[rb + at.R_PKCAP]) >> at.HASH_BITS))
        L[at.EMIT_CELLS + 2 * e] = h
    if n > 2:
        _ask_totals(L, g, n)
    row = np.int64(-1)
    for e in range(n):
        _gather_group(A, L, P, f, ops, (at.EMIT >> 1) + e * arity)
        row = _group_by(A, L, g, L[at.EMIT_CELLS + 2 * e], row)
        L[at.EMIT_CELLS + 2 * e + 1] = row
        cell = _FIRST + row % at.EMIT_BLOCK
        if L[cell] >> 32 != row + 1:
            L[cell] = (row + 1) << 32 | e
        L[at.EMIT_CELLS + 2 * e] |= (L[cell] & _LOW) << 32


@kernel("v:ALPiiii")
def _find_again(A, L, P, f, ops, arity, n):
    """The same in the table of another fold with these groups, which made its rows in one order."""
    g = np.int64(P[f + at.F_GROUPS])
    if n > 2:
        for e in range(n):
            row = min(L[at.EMIT_CELLS + 2 * e + 1], L[L[at.RELS] + g * at.RSZ + at.R_CAP] - 1)
            prefetch(L, _totals(L, g, row))
    for e in range(n):
        first = L[at.EMIT_CELLS + 2 * e] >> 32
        if first == e:
            _gather_group(A, L, P, f, ops, (at.EMIT >> 1) + e * arity)
            guess = L[at.EMIT_CELLS + 2 * e + 1]
            row = _group_by(A, L, g, L[at.EMIT_CELLS + 2 * e] & _LOW, guess)
            L[at.EMIT_CELLS + 2 * e + 1] = row
        else:
            L[at.EMIT_CELLS + 2 * e + 1] = L[at.EMIT_CELLS + 2 * first + 1]


@kernel("v:LPiiii")
def _add_sums(L, P, f, ops, arity, sign):
    """The emitted heads, whose groups are found, come into a sum or a mean of whole numbers.

    What `_add` does for one, in a loop: of TPC-H's query 1, with eight folds, a quarter.
    """
    rb = L[at.RELS] + P[f + at.F_GROUPS] * at.RSZ
    rows = _totals(L, np.int64(P[f + at.F_GROUPS]), np.int64(0))
    half = L[rb + at.R_STRIDE] >> 1
    column = np.int64(P[f + at.F_VALUE])
    is_pattern = P[ops + 2 * column] >= at.O_RAW
    mask = _LOW if P[f + at.F_VALUE_TYPE] == at.T_UNSIGNED else -1
    for e in range(L[at.EMITTED]):
        cell = rows + L[at.EMIT_CELLS + 2 * e + 1] * half
        value = L[(at.EMIT >> 1) + e * arity + column]
        if not is_pattern:
            value = decode(L, value)
        L[cell] += sign
        L[cell + 1] += sign * (value & _LOW)
        L[cell + 2] += sign * ((value >> 32) & mask)


@kernel("v:ALPiii")
def pipe(A, L, P, ops, arity, sign):
    """The emitted heads of these operands, of the stratum at hand, go into the folds of `PIPE`.

    Of each column a head has a cell, with its pattern if it is computed with, else its code. Folds
    of the same groups look them up once: the second finds most where the first has them.
    """
    n = L[at.EMITTED]
    before = np.int64(-1)
    for k in range(P[L[at.PIPE]]):
        f = np.int64(P[L[at.PIPE] + 1 + k])
        g = np.int64(P[f + at.F_GROUPS])
        if before >= 0 and _groups_alike(P, before, f):
            _find_again(A, L, P, f, ops, arity, n)
        else:
            _find_groups(A, L, P, f, ops, arity, n)
        before = f
        if at.FOLD_COUNT < P[f + at.F_OP] < at.FOLD_MIN and not P[f + at.F_OPTIONAL]:
            _add_sums(L, P, f, ops, arity, sign)
            continue
        column = np.int64(P[f + at.F_VALUE])
        optional = P[f + at.F_OPTIONAL]
        counts = P[f + at.F_OP] == at.FOLD_COUNT
        for e in range(n):
            o = (at.EMIT >> 1) + e * arity
            code = np.int64(0)
            value = np.int64(0)
            if optional:
                code = _code(L, P, ops, column, o)
                value = _counted(L, P, f, code)
            elif not counts:
                value = L[o + column]
                if P[ops + 2 * column] < at.O_RAW:
                    value = decode(L, value)
            _add(A, L, P, f, _totals(L, g, L[at.EMIT_CELLS + 2 * e + 1]), code, value, sign)
    L[at.EMITTED] = 0


@kernel("v:ALii")
def _forget(A, L, rb, cell):
    """Give back the block that a group's cells name."""
    if L[rb + at.R_BEST] == at.KEEPS_BEST:
        forget_next(A, L, cell)
    elif L[rb + at.R_BEST] == at.KEEPS_REAL:
        forget_block(A, L, L[cell + 2])
        L[cell + 2] = 0


@kernel("v:ALi")
def _empty(A, L, g):
    """No group of a fold has a row; what is shown of them is as before. O(groups)."""
    rb = L[at.RELS] + g * at.RSZ
    for row in range(L[rb + at.R_N]):
        if L[(L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1] & at.USED:
            _note_room(L, g)
            _note(A, L, g, np.int64(row))
            cell = _totals(L, g, np.int64(row))
            _forget(A, L, rb, cell)
            for k in range(3):
                L[cell + k] = 0


@kernel("v:ALP")
def empty_piped(A, L, P):
    """Forget the rows that have come into the folds of `PIPE`."""
    for k in range(P[L[at.PIPE]]):
        _empty(A, L, np.int64(P[P[L[at.PIPE] + 1 + k] + at.F_GROUPS]))


@kernel("f:iii")
def _quotient(high, low, count):
    """`high` * 2**32 + `low` (of 32 bits) by `count` (below 2**62), rounded once, half to even."""
    if -(_EXACT >> 32) < high < _EXACT >> 32 and count < _EXACT:
        return np.float64(high * (_LOW + 1) + low) / np.float64(count)
    below = high < 0
    if below:
        high = -high - (1 if low != 0 else 0)
        low = (-low) & _LOW
    # Bit by bit: 54 of them, and what is left of the quotient only tells halves apart.
    rest = np.int64(0)
    digits = np.int64(0)
    bits = np.int64(0)
    last = np.int64(0)
    inexact = np.int64(0)
    for step in range(96 + 128):
        position = np.int64(95 - step)
        bit = np.int64(0)
        if position >= 32:
            bit = (high >> (position - 32)) & 1
        elif position >= 0:
            bit = (low >> position) & 1
        rest = rest * 2 + bit
        digit = np.int64(1) if rest >= count else np.int64(0)
        rest -= digit * count
        if bits < 54:
            digits = digits * 2 + digit
            if digits > 0:
                bits += 1
                last = position
        else:
            inexact |= digit
    if rest > 0:
        inexact = np.int64(1)
    half = digits & 1
    digits >>= 1
    if half and (inexact or digits & 1):
        digits += 1
    value = np.float64(digits) * 2.0 ** np.float64(last + 1)
    return -value if below else value


@kernel("i:LPiiii")
def _value(L, P, f, count, low, high):
    """The code of a group's value, or NO_VALUE: it is beyond the bound."""
    op = np.int64(P[f + at.F_OP])
    count = _values(P, f, count)
    if op != at.FOLD_COUNT and count == 0 and P[f + at.F_OPTIONAL]:
        return np.int64(NIL)
    if op >= at.FOLD_MIN:
        return code_of(L, np.int64(P[f + at.F_TYPE]), op, low)
    if op < 0:
        return encode(L, np.int64(at.T_FLOAT), low)
    high += low >> 32
    low &= _LOW
    if op == at.FOLD_COUNT:
        return encode(L, np.int64(P[f + at.F_TYPE]), count)
    said = (np.int64(P[f + at.F_SAID]) << 32) | (np.int64(P[f + at.F_SAID + 1]) & _LOW)
    if op == at.FOLD_MEAN:
        return encode(L, np.int64(at.T_FLOAT), canonical(_quotient(high, low, count * said)))
    value = ((((high & _LOW) ^ _SIGN) - _SIGN) << 32) | low
    if op == at.FOLD_BOUNDED:
        if high < -_SIGN or high >= _SIGN or value > said or (value < -said and said < _MOST):
            return np.int64(NO_VALUE)
    return encode(L, np.int64(P[f + at.F_TYPE]), value)


@kernel("v:ALiiii")
def _settle(A, L, r, n, code, holds):
    """The row of a group of `n` columns at KEY, with a value if its relation has one more."""
    if L[L[at.RELS] + r * at.RSZ + at.R_ARITY] > n:
        A[at.KEY + n] = code
    settle_row(A, L, A, at.KEY, r, holds)


@kernel("i:ALPii")
def _show(A, L, P, f, entry):
    """Show the value that a group has now. 0: it is beyond the bound, and nothing was changed."""
    g = L[entry] >> 32
    row = L[entry] & 0xFFFFFFFF
    rb = L[at.RELS] + g * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    cell = _totals(L, g, row)
    shown = np.int64(A[offset + at.SUPPORT])
    shows = np.int64(1) if L[cell] != 0 or P[f + at.F_ALWAYS] else np.int64(0)
    old = np.int64(NO_VALUE)
    new = np.int64(NO_VALUE)
    if shown:
        old = _value(L, P, f, L[entry + 2], L[entry + 3], L[entry + 4])
    values = _values(P, f, L[cell])
    if L[rb + at.R_BEST] == at.KEEPS_BEST and values > 0 and is_open(L, cell):
        find_best(A, L, P, f, offset + at.COLS, cell)
    if L[rb + at.R_BEST] == at.KEEPS_REAL:
        L[cell + 1] = real_value(L, cell, values if P[f + at.F_OP] == at.FOLD_REAL_MEAN else 1)
    if shows:
        new = _value(L, P, f, L[cell], L[cell + 1], L[cell + 2])
        if new == NO_VALUE:
            return np.int64(0)
    n = np.int64(P[f + at.F_NGROUP])
    for k in range(n):
        A[at.KEY + k] = A[offset + at.COLS + k]
    if old != new:
        if shown:
            _settle(A, L, np.int64(P[f + at.F_RESULT]), n, old, np.int64(0))
        if shows:
            _settle(A, L, np.int64(P[f + at.F_RESULT]), n, new, np.int64(1))
    if shown != shows:
        if P[f + at.F_PRESENT] >= 0:
            _settle(A, L, np.int64(P[f + at.F_PRESENT]), n, old, shows)
        A[offset + at.SUPPORT] = shows
    return np.int64(1)


@kernel("v:ALi")
def _clear(A, L, r):
    """No row of a relation that the fold makes holds: they were made by other rules."""
    if r < 0:
        return
    rb = L[at.RELS] + r * at.RSZ
    for row in range(L[rb + at.R_N]):
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if L[offset >> 1] & at.NOW:
            for k in range(L[rb + at.R_ARITY]):
                A[at.KEY + k] = A[offset + at.COLS + k]
            settle_row(A, L, A, at.KEY, r, np.int64(0))


@kernel("v:Lii")
def _put_off(L, r, groups):
    """Many groups come into relation `r`: its empty indexes are filled when asked, or at the end.

    Sorted: 540,000 rows one by one were 0.4 s of TPC-H's query 20.
    """
    if r < 0 or groups < _MANY:
        return
    rb = L[at.RELS] + r * at.RSZ
    for x in range(L[rb + at.R_IDX], L[rb + at.R_IDX] + L[rb + at.R_NIDX]):
        xb = L[at.IDXS] + x * at.XSZ
        if L[xb + at.X_USED] == 0 and L[xb + at.X_LATE] == 0:
            L[xb + at.X_LATE] = at.LATE_NOW
            L[at.TO_FILL] = 1


@kernel("v:ALPi")
def _begin(A, L, P, t):
    """Begin the fold's stratum; one that is fresh forgets what it knew of groups."""
    f = np.int64(P[t + at.T_FOLD])
    g = np.int64(P[f + at.F_GROUPS])
    if P[t + at.T_FRESH]:
        if P[f + at.F_PIPED] == 0:
            _empty(A, L, g)
        rb = L[at.RELS] + g * at.RSZ
        for e in range(L[rb + at.R_CHANGED + 1]):  # all: a fresh source has emptied them, too
            row = L[L[at.FOLDED] + L[L[rb + at.R_CHANGED] + e]] & 0xFFFFFFFF
            A[L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.SUPPORT] = 0
        _clear(A, L, np.int64(P[f + at.F_RESULT]))
        _clear(A, L, np.int64(P[f + at.F_PRESENT]))
    if P[f + at.F_ALWAYS]:
        _group(A, L, g, np.int64(at.KEY), hash_words(A, at.KEY, np.int64(0)))


@kernel("i:ALPi")
def _rows(A, L, P, t):
    """Take changed rows of the source, or all that hold; 0: the quota is used up before the end."""
    f = np.int64(P[t + at.T_FOLD])
    rb = L[at.RELS] + P[f + at.F_SOURCE] * at.RSZ
    whole = P[t + at.T_FRESH]
    n = L[rb + at.R_N] if whole else L[rb + at.R_CHANGED + 1]
    while L[at.S_ROW] < n:
        if L[at.C_PROBED] > L[at.QUOTA]:
            return np.int64(0)
        entries = np.int64(0)
        while entries < at.EMIT_BLOCK and L[at.S_ROW] < n:
            row = L[at.S_ROW] if whole else L[L[rb + at.R_CHANGED] + L[at.S_ROW]]
            L[at.S_ROW] += 1
            L[at.C_PROBED] += 1
            offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
            truth = L[offset >> 1] & (at.NOW | at.WAS)
            comes = truth == at.NOW or (whole and truth & at.NOW)
            if comes or (truth == at.WAS and not whole):
                _ask_group(A, L, P, f, entries, offset)
                L[at.EMIT_CELLS + 2 * entries + 1] = offset if comes else -offset
                entries += 1
        _add_rows(A, L, P, f, entries)
    return np.int64(1)


@kernel("i:LPi")
def is_fold_touched(L, P, t):
    """Whether the fold of a stratum that is not fresh has anything to do."""
    f = np.int64(P[t + at.T_FOLD])
    r = P[f + at.F_GROUPS] if P[f + at.F_PIPED] else P[f + at.F_SOURCE]
    return np.int64(L[L[at.RELS] + r * at.RSZ + at.R_CHANGED + 1] > 0)


@kernel("i:ALPi")
def run_fold(A, L, P, t):
    """Run the stratum of a fold, or go on with it. 1: done; 0: the quota is used up.

    -1: the total of the group whose entry S_ROW names is beyond the bound. O(changed rows).
    """
    f = np.int64(P[t + at.T_FOLD])
    rb = L[at.RELS] + P[f + at.F_GROUPS] * at.RSZ
    if L[at.S_ITEM] == _BEGIN:
        _begin(A, L, P, t)
        L[at.S_ITEM] = _SHOW if P[f + at.F_PIPED] else _ROWS
        L[at.S_ROW] = 0
    if L[at.S_ITEM] == _ROWS:
        if _rows(A, L, P, t) == 0:
            return np.int64(0)
        L[at.S_ITEM] = _SHOW
    if L[at.S_ITEM] == _SHOW:
        for r in (P[f + at.F_RESULT], P[f + at.F_PRESENT]):
            _put_off(L, np.int64(r), L[rb + at.R_CHANGED + 1])
    for e in range(L[rb + at.R_CHANGED + 1]):
        entry = L[L[rb + at.R_CHANGED] + e]
        if _show(A, L, P, f, L[at.FOLDED] + entry) == 0:
            L[at.S_ROW] = entry
            return np.int64(-1)
    return np.int64(1)


@kernel("v:ALi")
def _end(A, L, entry):
    """The epoch is over: a group without rows that shows nothing is forgotten."""
    g = L[entry] >> 32
    row = L[entry] & 0xFFFFFFFF
    rb = L[at.RELS] + g * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    L[offset >> 1] &= ~at.TOUCHED
    if L[_totals(L, g, row)] == 0 and A[offset + at.SUPPORT] == 0:
        _forget(A, L, rb, _totals(L, g, row))
        drop_row(A, L, g, row)


@kernel("v:AL")
def keep_folds(A, L):
    """The epoch was committed. O(touched groups)."""
    for e in range(0, L[at.FOLDED + 1], _NOTED):
        entry = L[at.FOLDED] + e
        if L[L[at.RELS] + (L[entry] >> 32) * at.RSZ + at.R_BEST] == at.KEEPS_REAL:
            forget_block(A, L, L[entry + 4])
        _end(A, L, entry)
    L[at.FOLDED + 1] = 0


@kernel("v:AL")
def undo_folds(A, L):
    """The epoch was rolled back: groups are as they were. O(touched groups)."""
    for e in range(0, L[at.FOLDED + 1], _NOTED):
        entry = L[at.FOLDED] + e
        g = L[entry] >> 32
        row = L[entry] & 0xFFFFFFFF
        rb = L[at.RELS] + g * at.RSZ
        A[L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE] + at.SUPPORT] = L[entry + 1]
        cell = _totals(L, g, row)
        _forget(A, L, rb, cell)
        for k in range(3):
            L[cell + k] = L[entry + 2 + k]
        if L[rb + at.R_BEST] == at.KEEPS_BEST:
            without_next(L, cell)
        _end(A, L, entry)
    L[at.FOLDED + 1] = 0
