"""Rows of blocks that are set aside: for values that Python has yet to compute, or for a table.

A row for which a value is missing waits until many are, and Python is asked once for all of them
(VALUES). Rows that would be looked up in an index that is not filled wait for the others that
would: if few do, the table is gone through once, and each of its rows looks for those that wait for
its key. To enter a row into an index costs four times as much, and most are never asked for
(docs/kernel.md, "Terms by column"). If many wait, the index is filled, and they go on as blocks.

A pile is a vector of records: where a row stands, its trigger's row, and what it has bound.
Invariant: a record is read once, in the order in which rows came; all piles are empty when the rule
is through. Not here: which rows wait (`columns`, `block_join`). Lanes set none aside.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.frames import BOUND, ROWS, SELECTED, WORDS, list_cell, vector
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words
from deltafix.kernel.memory import empty, room

VALUES = at.ASIDE
"""The pile of rows that wait for values; those behind it wait for a table each."""
_SCANNED = 1 << 12
"""Rows of the table that a step goes through, at most."""
_FEW = 64
_MANY = 1 << 14
"""Rows that wait for values when Python is asked first, and at most."""
_RECORDS = 8
"""Cells of ASIDE_HEADS for which there is a word of bits behind them: 16 bits a record."""
# --- a pile's cells, behind its vector's ----------------------------------------------------------
_NEXT = 3  # the record that comes next, as a place in the vector
_END = 4  # where those end that need not wait any more
_LITERAL = 5  # whose table they wait for
_COUNT = 6  # rows that wait
# --- a record's -----------------------------------------------------------------------------------
_CELLS = 0  # its length
_NODE = 1
_ROW = 2
_CHECKED = 3  # 1: the checks of the node have passed
_HASH = 4  # of the key by which it would be looked up
_LINK = 5  # the record before it whose key falls into the same cell, as a place counted from 1
_WIDTH = 6  # how many variables it has, then each with its value, as BOUND has them; then its key


@kernel("v:L")
def begin_aside(L):
    """A rule begins: the first rows that miss a value wait for few others.

    Mostly they all miss the same one, whether something is in doubt; of others there are many.
    """
    L[at.ASIDE_MOST] = _FEW


@kernel("v:L")
def forget_aside(L):
    """No row waits."""
    for k in range(at.PILES):
        pile = np.int64(at.ASIDE + k * at.PILE)
        empty(L, pile)
        for c in range(_NEXT, at.PILE):
            L[pile + c] = 0
    empty(L, np.int64(at.ASIDE_HEADS))
    L[at.ASIDE_SCANNED] = 0


@kernel("i:L")
def is_aside(L):
    """Whether rows wait."""
    for k in range(at.PILES):
        if L[at.ASIDE + k * at.PILE + 1] > 0:
            return np.int64(1)
    return np.int64(0)


@kernel("i:Li")
def pile_for(L, c):
    """The pile of rows that wait for the table of literal `c`; 0: all piles are taken."""
    free = np.int64(0)
    for k in range(1, at.PILES):
        pile = np.int64(at.ASIDE + k * at.PILE)
        if L[pile + 1] > 0 and L[pile + _LITERAL] == c:
            return pile
        if L[pile + 1] == 0 and free == 0:
            free = pile
    if free > 0:
        L[free + _LITERAL] = c
    return free


@kernel("v:ALiiiiii")
def set_aside(A, L, pile, node, i, bound, h, keys):
    """Set aside the row at position `i`, which stands at a node: its first `bound` variables.

    With the key at KEY, of so many words, whose hash is `h`; 0: none, and the checks of its node
    have yet to pass.
    """
    cells = _WIDTH + 1 + 2 * bound + keys
    room(L, pile, cells)
    record = L[pile] + L[pile + 1]
    L[record + _CELLS] = cells
    L[record + _NODE] = node
    L[record + _ROW] = L[list_cell(L, ROWS, i)]
    L[record + _CHECKED] = np.int64(1) if keys > 0 else np.int64(0)
    L[record + _HASH] = h
    L[record + _WIDTH] = bound
    place = record + _WIDTH + 1
    for k in range(bound):
        entry = L[list_cell(L, BOUND, np.int64(k))]
        L[place] = entry
        L[place + 1] = L[vector(L, entry >> 1) + i]
        place += 2
    for k in range(keys):
        L[place + k] = A[at.KEY + k]
    L[pile + 1] += cells
    L[pile + _COUNT] += 1


@kernel("i:Li")
def waiting(L, pile):
    """Rows that wait in a pile."""
    return L[pile + _COUNT]


@kernel("v:Li")
def let_go(L, pile):
    """The rows of a pile need not wait any more: `take_back` has them."""
    L[pile + _END] = L[pile + 1]
    L[pile + _COUNT] = 0


@kernel("v:Li")
def _close_up(L, pile):
    """Move the records of a pile that have yet to be read to its front."""
    first = L[pile + _NEXT]
    for c in range(L[pile + 1] - first):
        L[L[pile] + c] = L[L[pile] + first + c]
    L[pile + 1] -= first
    L[pile + _NEXT] = 0


@kernel("i:Li")
def must_ask(L, more):
    """Whether Python is to be asked now for the values that rows wait for.

    When there are enough of them, or not `more` to do. Then they go on when it has answered.
    """
    pile = np.int64(VALUES)
    if L[pile + _COUNT] == 0 or L[pile + _NEXT] < L[pile + _END]:
        return np.int64(0)
    for k in range(1, at.PILES):
        more |= L[at.ASIDE + k * at.PILE + 1] > 0
    if more and L[pile + _COUNT] < L[at.ASIDE_MOST] and L[at.ASKS + 1] < L[at.ASK_CALLS]:
        return np.int64(0)
    L[at.ASIDE_MOST] = min(4 * L[at.ASIDE_MOST], _MANY)
    _close_up(L, pile)
    let_go(L, pile)
    return np.int64(L[at.ASKS + 1] > 0)  # a row that went on by itself may have asked for them


@kernel("i:Li")
def next_pile(L, more):
    """The pile whose rows come next; 0: none, or the trigger has `more`, which come before."""
    for k in range(at.PILES):
        pile = np.int64(at.ASIDE + k * at.PILE)
        if L[pile + _NEXT] < L[pile + _END]:
            return pile
    if L[at.ASIDE_SCANNED] or more:
        return L[at.ASIDE_SCANNED]
    for k in range(1, at.PILES):
        pile = np.int64(at.ASIDE + k * at.PILE)
        if L[pile + 1] > 0:
            return pile
    return np.int64(0)


@kernel("i:Li")
def is_free(L, pile):
    """Whether the next rows of a pile need not wait any more."""
    return np.int64(L[pile + _NEXT] < L[pile + _END])


@kernel("v:Li")
def _clear(L, pile):
    """All records of a pile have been read."""
    L[pile + 1] = 0
    for c in range(_NEXT, at.PILE):
        L[pile + c] = 0


@kernel("v:Lii")
def _put(L, record, i):
    """Put what a record has bound into the frame, at position `i`."""
    L[list_cell(L, ROWS, i)] = L[record + _ROW]
    L[list_cell(L, SELECTED, i)] = i
    place = record + _WIDTH + 1
    for _ in range(L[record + _WIDTH]):
        L[vector(L, L[place] >> 1) + i] = L[place + 1]
        place += 2


@kernel("v:Li")
def _begin_frame(L, record):
    """The frame's rows stand where a record does, and have bound what it has."""
    L[at.BLOCK_NODE] = L[record + _NODE]
    L[at.N_BOUND] = L[record + _WIDTH]
    for k in range(L[record + _WIDTH]):
        L[list_cell(L, BOUND, np.int64(k))] = L[record + _WIDTH + 1 + 2 * k]


@kernel("i:Li")
def take_back(L, pile):
    """The next rows of a pile that stand at one node are in the frame: how many.

    Below 0 so many, of which the checks of the node have yet to pass.
    """
    record = L[pile] + L[pile + _NEXT]
    _begin_frame(L, record)
    checked = L[record + _CHECKED]
    n = np.int64(0)
    while n < at.BLOCK and L[pile + _NEXT] < L[pile + _END]:
        record = L[pile] + L[pile + _NEXT]
        if L[record + _NODE] != L[at.BLOCK_NODE]:
            break
        _put(L, record, n)
        n += 1
        L[pile + _NEXT] += L[record + _CELLS]
    if L[pile + _NEXT] == L[pile + 1]:
        _clear(L, pile)
    return n if checked else -n


# --- a table that is gone through -----------------------------------------------------------------


@kernel("v:Li")
def _begin_scan(L, pile):
    """Have the records of a pile found by their hashes. O(records)."""
    L[at.ASIDE_SCANNED] = pile
    L[at.ASIDE_ROW] = 0
    L[at.ASIDE_MATCH] = 0
    cap = 2 * L[pile + _COUNT]
    words = cap // _RECORDS + 1
    L[at.ASIDE_HEADS + 1] = 0
    room(L, np.int64(at.ASIDE_HEADS), cap + words)
    L[at.ASIDE_HEADS + 1] = cap
    heads = L[at.ASIDE_HEADS]
    for k in range(cap + words):
        L[heads + k] = 0
    place = np.int64(0)
    while place < L[pile + 1]:
        record = L[pile] + place
        h = L[record + _HASH]
        cell = heads + ((h * cap) >> at.HASH_BITS)
        L[record + _LINK] = L[cell]
        L[cell] = place + 1
        bit = (h * words * 64) >> at.HASH_BITS
        L[heads + cap + (bit >> 6)] |= np.int64(1) << (bit & 63)
        place += L[record + _CELLS]


@kernel("i:Li")
def _may_wait(L, h):
    """Whether some record may have this hash: one bit tells it of most that none has.

    Of rows in a table for which 57,000 wait each second one would else meet another's record.
    """
    cap = L[at.ASIDE_HEADS + 1]
    bit = (h * (cap // _RECORDS + 1) * 64) >> at.HASH_BITS
    return (L[L[at.ASIDE_HEADS] + cap + (bit >> 6)] >> (bit & 63)) & 1


@kernel("i:ALiii")
def _waits_for(A, L, record, h, keys):
    """Whether a record has the key at KEY, of so many words, whose hash is `h`."""
    if L[record + _HASH] != h:
        return np.int64(0)
    key = record + L[record + _CELLS] - keys
    for k in range(keys):
        if L[key + k] != A[at.KEY + k]:
            return np.int64(0)
    return np.int64(1)


@kernel("i:ALPi")
def next_scanned(A, L, P, pile):
    """The next rows of the table that a pile waits for, each with one that waits for it: how many.

    They are in the frame, as matches of the pile's literal, of which there may be
    none though the table has more rows. O(rows gone through and matches).
    """
    if L[at.ASIDE_SCANNED] == 0:
        _begin_scan(L, pile)
    c = L[pile + _LITERAL]
    rb = L[at.RELS] + P[c + at.K_REL] * at.RSZ
    xb = L[at.IDXS] + P[c + at.K_INDEX] * at.XSZ
    state = L[at.S_BEFORE] if P[c + at.K_CLASS] == at.LOWER_BEFORE else L[at.S_AFTER]
    columns, keys = L[xb + at.X_COLS], L[xb + at.X_NKEY]
    heads, cap = L[at.ASIDE_HEADS], L[at.ASIDE_HEADS + 1]
    words = list_cell(L, WORDS, np.int64(0))
    _begin_frame(L, L[pile])
    row, match = L[at.ASIDE_ROW], L[at.ASIDE_MATCH]
    last = min(L[rb + at.R_N], row + _SCANNED)
    n = np.int64(0)
    while row < last and n < L[at.MATCHES]:
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if (L[offset >> 1] & state) == state:
            for k in range(keys):
                A[at.KEY + k] = A[offset + at.COLS + L[columns + k]]
            h = hash_words(A, at.KEY, keys)
            if match == 0 and _may_wait(L, h):
                match = L[heads + ((h * cap) >> at.HASH_BITS)]
            while match != 0 and n < L[at.MATCHES]:
                record = L[pile] + match - 1
                if _waits_for(A, L, record, h, keys):
                    _put(L, record, n)
                    L[words + n] = offset
                    n += 1
                match = L[record + _LINK]
        if match == 0:
            row += 1
    L[at.C_PROBED] += n
    L[at.QUOTA] -= row - L[at.ASIDE_ROW]
    L[at.ASIDE_ROW] = row
    L[at.ASIDE_MATCH] = match
    return n


@kernel("i:LPi")
def end_scanned(L, P, pile):
    """The literal whose matches are in the frame; the pile is through where its table is."""
    c = L[pile + _LITERAL]
    if L[at.ASIDE_ROW] == L[L[at.RELS] + P[c + at.K_REL] * at.RSZ + at.R_N]:
        _clear(L, pile)
        L[at.ASIDE_SCANNED] = 0
    return c
