"""What a derivation does to its head: count it, create it, or make it a suspect.

Invariant (the contract's point 2): a head's support is the number of its derivations that hold,
of those with a body rank below its own where the stratum is recursive. There all of them are
counted, too (`R_ALL`): a suspect that has none left need not look for one. Every row is journaled
before its first change in an epoch (`touch`), every created row is listed, so an epoch can be
undone; a row whose count of all derivations alone changes is not touched by that (`tally`).
Nothing here searches for derivations.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.heap import heap_push
from deltafix.kernel.held import outranked
from deltafix.kernel.jit import kernel, prefetch
from deltafix.kernel.keys import key_find, key_insert, key_reserve
from deltafix.kernel.memory import new_row, push, room, row_room
from deltafix.kernel.runs import note_created, push_run


@kernel("v:ALii")
def touch(A, L, r, row):
    """Journal a row's flags, rank and support before its first change in the epoch."""
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    word = L[offset >> 1]
    if word & at.TOUCHED:
        return
    room(L, at.J, 3)
    j = L[at.J] + L[at.J + 1]
    L[j] = (r << 32) | row
    L[j + 1] = word
    L[j + 2] = A[offset + at.SUPPORT]
    if L[rb + at.R_ALL]:
        L[j + 2] |= np.int64(A[offset + L[rb + at.R_ALL]]) << 32
    L[at.J + 1] += 3
    L[offset >> 1] = word | at.TOUCHED


@kernel("v:ALiiii")
def tally(A, L, r, row, offset, n):
    """One derivation more (`n` 1) or less (-1) of the row at word `at` holds, whatever its rank."""
    rb = L[at.RELS] + r * at.RSZ
    if L[rb + at.R_ALL] == 0:
        return
    if A[offset + L[rb + at.R_ALL]] == 0x7FFFFFFF:
        L[at.ERROR] = at.ERR_SUPPORT
        return
    if not (L[offset >> 1] & at.TOUCHED):
        push(L, at.TALLIES, (r << 33) | (row << 1) | (1 if n > 0 else 0))
    A[offset + L[rb + at.R_ALL]] += n


@kernel("i:ALii")
def is_underived(A, L, rb, offset):
    """Whether it is known that no derivation of the row at word `at` holds. O(1)."""
    return np.int64(1) if L[rb + at.R_ALL] and A[offset + L[rb + at.R_ALL]] == 0 else np.int64(0)


@kernel("v:ALiii")
def _lose(A, L, e, r, holds):
    """Entry `e`: its head loses a derivation. At support 0 the head is a suspect.

    `holds` 1: there still is that derivation, but its body ranks too high to count.
    """
    row = key_find(
        A, L, A, r, at.EMIT + e * L[L[at.RELS] + r * at.RSZ + at.R_ARITY], L[at.EMIT_CELLS + 2 * e]
    )
    if row < 0:
        return
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    word = L[offset >> 1]
    # A head created in this epoch is PENDING, and may lose again: without recursion, and where
    # one row per key is kept.
    if not (word & (at.NOW | at.PENDING)):
        if word & at.LIMBO and not holds:
            tally(A, L, r, row, offset, np.int64(-1))
        return
    rank = word >> at.RANK_SHIFT
    counted = (not L[at.RECURSIVE]) or L[at.EMIT_CELLS + 2 * e + 1] < rank
    if counted:
        touch(A, L, r, row)
        A[offset + at.SUPPORT] -= 1
    if not holds:
        tally(A, L, r, row, offset, np.int64(-1))
    if (
        L[at.RECURSIVE]
        and word & at.NOW
        and not (word & at.GIVEN)
        and ((counted and A[offset + at.SUPPORT] == 0) or L[at.STRATEGY] == at.DRED)
    ):
        heap_push(L, rank, 0, 0, (r << 32) | row)


@kernel("v:ALii")
def _forsake(A, L, e, r):
    """Entry `e`: its body now ranks at T_RANK. A head that it held up, but does not, loses it."""
    rb = L[at.RELS] + r * at.RSZ
    row = key_find(A, L, A, r, at.EMIT + e * L[rb + at.R_ARITY], L[at.EMIT_CELLS + 2 * e])
    if row < 0:  # outranked when it was derived
        return
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    rank = L[offset >> 1] >> at.RANK_SHIFT
    if L[offset >> 1] & at.NOW and L[at.EMIT_CELLS + 2 * e + 1] < rank <= L[at.T_RANK]:
        _lose(A, L, e, r, np.int64(1))


@kernel("v:ALiiiii")
def gain(A, L, o, h, m, r, mode):
    """A derivation with body rank `m` now holds for the head at word `o` (hash `h`).

    An absent head is created and queued.
    """
    rb = L[at.RELS] + r * at.RSZ
    row = key_find(A, L, A, r, o, h)
    if row >= 0:
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        word = L[offset >> 1]
        if word & (at.NOW | at.PENDING):
            if mode == at.MODE_OPEN:
                if word & at.PENDING:
                    L[offset >> 1] = word | at.MOVED
                return
            if mode == at.MODE_REST and (word & at.NOW):
                return
            if (not L[at.RECURSIVE]) or m < (word >> at.RANK_SHIFT):
                if A[offset + at.SUPPORT] == 0x7FFFFFFF:
                    L[at.ERROR] = at.ERR_SUPPORT
                    return
                touch(A, L, r, row)
                A[offset + at.SUPPORT] += 1
            tally(A, L, r, row, offset, np.int64(1))
            return
        if mode == at.MODE_SAVE or (L[rb + at.R_BEST] and outranked(A, L, r, o)):
            return
        touch(A, L, r, row)
    else:
        if mode == at.MODE_SAVE or (L[rb + at.R_BEST] and outranked(A, L, r, o)):
            return
        key_reserve(L, r, 1)
        row_room(A, L, r, 1)
        room(L, at.CREATED, 1)
        room(L, at.WAITING, 1)
        row = new_row(A, L, A, r, o)
        key_insert(L, r, row, h)
        note_created(L, (r << 32) | row, 1)
        L[at.C_CREATED] += 1
        if 0 < L[at.MAX_ROWS] < L[at.C_CREATED]:
            L[at.ERROR] = at.ERR_ROWS
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        word = np.int64(at.USED)
    L[at.CLOCK] += at.GAP
    L[offset >> 1] = (
        (L[at.CLOCK] << at.RANK_SHIFT) | (word & at.FLAGS & ~at.LIMBO) | at.PENDING | at.TOUCHED
    )
    if mode == at.MODE_OPEN:
        L[offset >> 1] |= at.MOVED
    A[offset + at.SUPPORT] = 1
    if L[rb + at.R_ALL]:
        A[offset + L[rb + at.R_ALL]] = 1
    L[at.S_QUEUED] += 1
    if L[at.RECURSIVE]:
        push_run(L, np.int64(at.WAITING), (r << 32) | row, np.int64(1))


@kernel("v:ALii")
def _offer(A, L, e, r):
    """Entry `e`: its body holds again. A head that holds gains; one in limbo gets a try."""
    rb = L[at.RELS] + r * at.RSZ
    row = key_find(A, L, A, r, at.EMIT + e * L[rb + at.R_ARITY], L[at.EMIT_CELLS + 2 * e])
    if row < 0:
        return
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    word = L[offset >> 1]
    m = L[at.EMIT_CELLS + 2 * e + 1]
    if word & at.NOW:
        if m < (word >> at.RANK_SHIFT):
            touch(A, L, r, row)
            A[offset + at.SUPPORT] += 1
    if word & (at.NOW | at.LIMBO):
        tally(A, L, r, row, offset, np.int64(1))
    if not (word & at.NOW) and word & at.LIMBO and m < (word >> at.RANK_SHIFT):
        L[offset >> 1] = (m << at.RANK_SHIFT) | (word & at.FLAGS)
        heap_push(L, m, 1, L[at.STRATEGY] != at.WAVEFRONT, (r << 32) | row)


@kernel("v:ALiii")
def flush(A, L, r, rule, mode):
    """Apply the block of emitted heads of relation `r`, all derived by `rule`, and empty it."""
    n = L[at.EMITTED]
    L[at.C_DERIVATIONS] += n
    L[L[at.RULE_COUNTS] + rule] += n
    if mode == at.MODE_DESTROY or mode == at.MODE_RETRACT:
        L[L[at.RELS] + r * at.RSZ + at.R_DERIVATIONS] -= n
    elif mode != at.MODE_MOVE and mode != at.MODE_REST and mode != at.MODE_OPEN:
        L[L[at.RELS] + r * at.RSZ + at.R_DERIVATIONS] += n
    if n > 2:
        rb = L[at.RELS] + r * at.RSZ
        for e in range(n):  # the slots have arrived: ask for the rows they name
            v = L[
                L[rb + at.R_PK] + ((L[at.EMIT_CELLS + 2 * e] * L[rb + at.R_PKCAP]) >> at.HASH_BITS)
            ]
            if v != 0:
                row = (v & 0xFFFFFFFF) - 1
                prefetch(L, (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1)
    for e in range(n):
        if mode == at.MODE_DESTROY or mode == at.MODE_RETRACT:
            _lose(A, L, e, r, np.int64(0))
        elif mode == at.MODE_REVIVE:
            _offer(A, L, e, r)
        elif mode == at.MODE_MOVE:
            _forsake(A, L, e, r)
        else:
            o = at.EMIT + e * L[L[at.RELS] + r * at.RSZ + at.R_ARITY]
            gain(A, L, o, L[at.EMIT_CELLS + 2 * e], L[at.EMIT_CELLS + 2 * e + 1], r, mode)
    L[at.EMITTED] = 0
