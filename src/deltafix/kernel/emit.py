"""What a derivation does to its head: count it, create it, or make it a suspect.

Invariant (the contract's point 2): a head's support is the number of its derivations that hold,
of those with a body rank below its own where the stratum is recursive. There all of them are
counted, too (`R_ALL`): a suspect that has none left need not look for one. Every row is journaled
before its first change in an epoch (`touch`), every created row is queued, so an epoch can be
undone; a row whose count of all derivations alone changes is not touched by that (`tally`).
Nothing here searches for derivations.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.heap import heap_push
from deltafix.kernel.held import outranked
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import key_find, key_insert, key_reserve
from deltafix.kernel.layout import (
    C_CREATED,
    C_DERIVATIONS,
    CLOCK,
    DRED,
    EMIT,
    EMIT_CELLS,
    EMITTED,
    ERR_ROWS,
    ERR_SUPPORT,
    ERROR,
    FLAGS,
    GAP,
    GIVEN,
    HASH_BITS,
    LIMBO,
    MAX_ROWS,
    MODE_DESTROY,
    MODE_MOVE,
    MODE_OPEN,
    MODE_REST,
    MODE_RETRACT,
    MODE_REVIVE,
    MODE_SAVE,
    MOVED,
    NOW,
    PENDING,
    R_ALL,
    R_ARITY,
    R_BEST,
    R_DERIVATIONS,
    R_PK,
    R_PKCAP,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RECURSIVE,
    RELS,
    RSZ,
    RULE_COUNTS,
    STRATEGY,
    SUPPORT,
    T_RANK,
    TALLIES,
    TOUCHED,
    USED,
    WAVEFRONT,
    J,
    Q,
)
from deltafix.kernel.memory import new_row, push, room, row_room


@kernel("v:ALii")
def touch(A, L, r, row):
    """Journal a row's flags, rank and support before its first change in the epoch."""
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    word = L[at >> 1]
    if word & TOUCHED:
        return
    room(L, J, 3)
    j = L[J] + L[J + 1]
    L[j] = (r << 32) | row
    L[j + 1] = word
    L[j + 2] = A[at + SUPPORT]
    if L[rb + R_ALL]:
        L[j + 2] |= np.int64(A[at + L[rb + R_ALL]]) << 32
    L[J + 1] += 3
    L[at >> 1] = word | TOUCHED


@kernel("v:ALiiii")
def tally(A, L, r, row, at, n):
    """One derivation more (`n` 1) or less (-1) of the row at word `at` holds, whatever its rank."""
    rb = L[RELS] + r * RSZ
    if L[rb + R_ALL] == 0:
        return
    if A[at + L[rb + R_ALL]] == 0x7FFFFFFF:
        L[ERROR] = ERR_SUPPORT
        return
    if not (L[at >> 1] & TOUCHED):
        push(L, TALLIES, (r << 33) | (row << 1) | (1 if n > 0 else 0))
    A[at + L[rb + R_ALL]] += n


@kernel("i:ALii")
def is_underived(A, L, rb, at):
    """Whether it is known that no derivation of the row at word `at` holds. O(1)."""
    return np.int64(1) if L[rb + R_ALL] and A[at + L[rb + R_ALL]] == 0 else np.int64(0)


@kernel("v:ALiii")
def _lose(A, L, e, r, holds):
    """Entry `e`: its head loses a derivation. At support 0 the head is a suspect.

    `holds` 1: there still is that derivation, but its body ranks too high to count.
    """
    row = key_find(A, L, A, r, EMIT + e * L[L[RELS] + r * RSZ + R_ARITY], L[EMIT_CELLS + 2 * e])
    if row < 0:
        return
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    word = L[at >> 1]
    # A head created in this epoch is PENDING, and may lose again: without recursion, and where
    # one row per key is kept.
    if not (word & (NOW | PENDING)):
        if word & LIMBO and not holds:
            tally(A, L, r, row, at, np.int64(-1))
        return
    rank = word >> RANK_SHIFT
    counted = (not L[RECURSIVE]) or L[EMIT_CELLS + 2 * e + 1] < rank
    if counted:
        touch(A, L, r, row)
        A[at + SUPPORT] -= 1
    if not holds:
        tally(A, L, r, row, at, np.int64(-1))
    if (
        L[RECURSIVE]
        and word & NOW
        and not (word & GIVEN)
        and ((counted and A[at + SUPPORT] == 0) or L[STRATEGY] == DRED)
    ):
        heap_push(L, rank, 0, 0, (r << 32) | row)


@kernel("v:ALii")
def _forsake(A, L, e, r):
    """Entry `e`: its body now ranks at T_RANK. A head that it held up, but does not, loses it."""
    rb = L[RELS] + r * RSZ
    row = key_find(A, L, A, r, EMIT + e * L[rb + R_ARITY], L[EMIT_CELLS + 2 * e])
    if row < 0:  # outranked when it was derived
        return
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    rank = L[at >> 1] >> RANK_SHIFT
    if L[at >> 1] & NOW and L[EMIT_CELLS + 2 * e + 1] < rank <= L[T_RANK]:
        _lose(A, L, e, r, np.int64(1))


@kernel("v:ALiiiii")
def gain(A, L, o, h, m, r, mode):
    """A derivation with body rank `m` now holds for the head at word `o` (hash `h`).

    An absent head is created and queued.
    """
    rb = L[RELS] + r * RSZ
    row = key_find(A, L, A, r, o, h)
    if row >= 0:
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        word = L[at >> 1]
        if word & (NOW | PENDING):
            if mode == MODE_OPEN:
                if word & PENDING:
                    L[at >> 1] = word | MOVED
                return
            if mode == MODE_REST and (word & NOW):
                return
            if (not L[RECURSIVE]) or m < (word >> RANK_SHIFT):
                if A[at + SUPPORT] == 0x7FFFFFFF:
                    L[ERROR] = ERR_SUPPORT
                    return
                touch(A, L, r, row)
                A[at + SUPPORT] += 1
            tally(A, L, r, row, at, np.int64(1))
            return
        if mode == MODE_SAVE or (L[rb + R_BEST] and outranked(A, L, r, o)):
            return
        touch(A, L, r, row)
    else:
        if mode == MODE_SAVE or (L[rb + R_BEST] and outranked(A, L, r, o)):
            return
        key_reserve(L, r, 1)
        row_room(A, L, r, 1)
        room(L, Q, 1)
        row = new_row(A, L, A, r, o)
        key_insert(L, r, row, h)
        L[C_CREATED] += 1
        if 0 < L[MAX_ROWS] < L[C_CREATED]:
            L[ERROR] = ERR_ROWS
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        word = np.int64(USED)
    L[CLOCK] += GAP
    L[at >> 1] = (L[CLOCK] << RANK_SHIFT) | (word & FLAGS & ~LIMBO) | PENDING | TOUCHED
    if mode == MODE_OPEN:
        L[at >> 1] |= MOVED
    A[at + SUPPORT] = 1
    if L[rb + R_ALL]:
        A[at + L[rb + R_ALL]] = 1
    push(L, Q, (r << 32) | row)


@kernel("v:ALii")
def _offer(A, L, e, r):
    """Entry `e`: its body holds again. A head that holds gains; one in limbo gets a try."""
    rb = L[RELS] + r * RSZ
    row = key_find(A, L, A, r, EMIT + e * L[rb + R_ARITY], L[EMIT_CELLS + 2 * e])
    if row < 0:
        return
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    word = L[at >> 1]
    m = L[EMIT_CELLS + 2 * e + 1]
    if word & NOW:
        if m < (word >> RANK_SHIFT):
            touch(A, L, r, row)
            A[at + SUPPORT] += 1
    if word & (NOW | LIMBO):
        tally(A, L, r, row, at, np.int64(1))
    if not (word & NOW) and word & LIMBO and m < (word >> RANK_SHIFT):
        L[at >> 1] = (m << RANK_SHIFT) | (word & FLAGS)
        heap_push(L, m, 1, L[STRATEGY] != WAVEFRONT, (r << 32) | row)


@kernel("v:ALiii")
def flush(A, L, r, rule, mode):
    """Apply the block of emitted heads of relation `r`, all derived by `rule`, and empty it."""
    n = L[EMITTED]
    L[C_DERIVATIONS] += n
    L[L[RULE_COUNTS] + rule] += n
    if mode == MODE_DESTROY or mode == MODE_RETRACT:
        L[L[RELS] + r * RSZ + R_DERIVATIONS] -= n
    elif mode != MODE_MOVE and mode != MODE_REST and mode != MODE_OPEN:
        L[L[RELS] + r * RSZ + R_DERIVATIONS] += n
    if n > 2:
        rb = L[RELS] + r * RSZ
        for e in range(n):  # the slots have arrived: ask for the rows they name
            v = L[L[rb + R_PK] + ((L[EMIT_CELLS + 2 * e] * L[rb + R_PKCAP]) >> HASH_BITS)]
            if v != 0:
                row = (v & 0xFFFFFFFF) - 1
                prefetch(L, (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1)
    for e in range(n):
        if mode == MODE_DESTROY or mode == MODE_RETRACT:
            _lose(A, L, e, r, np.int64(0))
        elif mode == MODE_REVIVE:
            _offer(A, L, e, r)
        elif mode == MODE_MOVE:
            _forsake(A, L, e, r)
        else:
            o = EMIT + e * L[L[RELS] + r * RSZ + R_ARITY]
            gain(A, L, o, L[EMIT_CELLS + 2 * e], L[EMIT_CELLS + 2 * e + 1], r, mode)
    L[EMITTED] = 0
