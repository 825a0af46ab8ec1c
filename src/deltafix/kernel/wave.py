"""Retraction and revival in rank order: the wavefront.

Suspects (facts whose support fell to 0) are taken up by ascending rank. A suspect is retracted:
what it supported loses a derivation. If some derivation over facts that still hold exists, it
waits in limbo until the wave reaches that derivation's highest body rank; if the body still
stands then, it is revived with a rank just above it, so that facts further up that need it get
their support back before their own turn comes. A revived fact offers itself to those in limbo.

A fact of which no derivation is left (`is_underived`) falls without a search. A search that looks
at too many rows is given up: the suspect is retracted, and once no suspect is left whatever has a
derivation then holds again, above all others, with all of its derivations for support (`_restore`).

Invariant: behind the wave every fact that holds has a support of lower rank (contract, point 3).
Ranks may tie: a support's rank is strictly lower, so ties cost precision, never correctness.
Sources: A local algorithm, section 3 (ordinals); Ramalingam and Reps' repair order, carried to
derivations (docs/sources.md). The same in plain Python: docs/concepts/maintenance.py.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel.best import displace, gone, recount
from deltafix.kernel.emit import is_underived, touch
from deltafix.kernel.heap import LATE, heap_pop, heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    BEST,
    BEST_COUNT,
    C_RERANKED,
    C_RETRACTED,
    C_REVIVED,
    CLOCK,
    DRED,
    FLAGS,
    GAP,
    GIVEN,
    GIVEN_UP,
    HEAP,
    LIMBO,
    MODE_MOVE,
    MODE_QUERY,
    MODE_RETRACT,
    MODE_REVIVE,
    MOVED,
    NEVER,
    NOW,
    OPEN,
    R_ALL,
    R_BEST,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
    S_REST,
    S_VAIN,
    STRATEGY,
    SUPPORT,
    T_RANK,
    T_REDERIVE,
    T_REL,
    T_ROW,
    T_SAME,
    T_SUPPORT,
    T_THEN,
    THEN_DISPLACE,
    THEN_FALL,
    THEN_GONE,
    THEN_MOVE,
    THEN_MOVED,
    THEN_NEXT,
    THEN_RECOUNT,
    THEN_REST,
    THEN_SINK,
    THEN_TRY,
    THEN_WAIT,
    VAIN,
    WAVEFRONT,
)
from deltafix.kernel.memory import push
from deltafix.kernel.task import set_task


@kernel("v:AL")
def _sink(A, L):
    """The suspect's derivations are uncounted: it goes to limbo."""
    r = L[T_REL]
    row = L[T_ROW]
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    L[cell] = (NEVER << RANK_SHIFT) | (L[cell] & FLAGS & ~NOW) | LIMBO
    L[rb + R_NOW] -= 1
    if L[rb + R_BEST]:
        push(L, OPEN, (r << 32) | row)


@kernel("v:ALPi")
def _fall(A, L, P, t):
    """The suspect goes to limbo, and its best derivation is looked up."""
    _sink(A, L)
    rb = L[RELS] + L[T_REL] * RSZ
    if is_underived(A, L, rb, L[rb + R_ROWS] + L[T_ROW] * L[rb + R_STRIDE]):
        return
    set_task(A, L, P, t, T_REDERIVE, L[T_REL], L[T_ROW], MODE_QUERY, THEN_WAIT)


@kernel("v:AL")
def _rest(A, L):
    """A fact in limbo waits for the end of the wave: what holds then, holds."""
    rb = L[RELS] + L[T_REL] * RSZ
    cell = (L[rb + R_ROWS] + L[T_ROW] * L[rb + R_STRIDE]) >> 1
    L[cell] &= FLAGS  # rank 0: no offer is lower, so it is entered once
    heap_push(L, 0, 1, True, (L[T_REL] << 32) | L[T_ROW])


@kernel("v:ALPiiii")
def _restore(A, L, P, t, r, row, at):
    """No suspect is left: a fact in limbo with a derivation holds, above all others.

    So all of its derivations are of lower rank, and how many they are is known: there is nothing
    to look for. (Its old rank would serve more of what follows from it, and take a query.)
    """
    rb = L[RELS] + r * RSZ
    L[S_REST] = 1
    L[C_REVIVED] += 1
    L[C_RERANKED] += 1
    L[CLOCK] += GAP
    L[at >> 1] = (L[CLOCK] << RANK_SHIFT) | (L[at >> 1] & FLAGS & ~LIMBO) | NOW
    A[at + SUPPORT] = A[at + L[rb + R_ALL]]
    L[rb + R_NOW] += 1
    set_task(A, L, P, t, T_SAME, r, row, MODE_REVIVE, THEN_NEXT)


@kernel("v:ALi")
def _wait(A, L, best):
    """A fact in limbo waits for the wave to reach its best derivation, if there is one."""
    if best == GIVEN_UP:
        _rest(A, L)
        return
    rb = L[RELS] + L[T_REL] * RSZ
    cell = (L[rb + R_ROWS] + L[T_ROW] * L[rb + R_STRIDE]) >> 1
    L[cell] = (best << RANK_SHIFT) | (L[cell] & FLAGS)
    if best < NEVER:
        heap_push(L, best, 1, L[STRATEGY] != WAVEFRONT, (L[T_REL] << 32) | L[T_ROW])


@kernel("v:ALPi")
def _try(A, L, P, t):
    """The wave has reached a fact in limbo: revive it, unless its body fell meanwhile."""
    best = L[BEST]
    if best > L[T_RANK] or best == GIVEN_UP:
        _wait(A, L, best)
        return
    r = L[T_REL]
    row = L[T_ROW]
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    L[C_REVIVED] += 1
    L[C_RERANKED] += 1
    L[at >> 1] = ((best + 1) << RANK_SHIFT) | (L[at >> 1] & FLAGS & ~LIMBO) | NOW
    A[at + SUPPORT] = L[BEST_COUNT]
    L[rb + R_NOW] += 1
    set_task(A, L, P, t, T_SAME, r, row, MODE_REVIVE, THEN_NEXT)


@kernel("v:ALPi")
def _move(A, L, P, t):
    """A suspect's best derivation is known: move up above its body at once, or fall.

    Waiting in limbo would take every fact that it supports through two changes; moving touches
    only those that rank below its new place. If the body turns out to rest on the fact itself,
    the fact becomes a suspect once more, and then it waits (MOVED), so this ends. A fact without
    any derivation falls, and is not looked up again: until then rows only leave.
    """
    r = L[T_REL]
    row = L[T_ROW]
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    L[cell] |= NOW
    L[S_VAIN] = min(L[S_VAIN] + 1, VAIN) if L[BEST] == GIVEN_UP else 0
    if L[BEST] == GIVEN_UP:
        L[C_RETRACTED] += 1
        set_task(A, L, P, t, T_SAME, r, row, MODE_RETRACT, THEN_REST)
    elif L[BEST] < NEVER:
        L[T_RANK] = L[BEST] + 1
        L[T_SUPPORT] = L[BEST_COUNT]
        set_task(A, L, P, t, T_SAME, r, row, MODE_MOVE, THEN_MOVED)
    else:
        L[C_RETRACTED] += 1
        set_task(A, L, P, t, T_SAME, r, row, MODE_RETRACT, THEN_SINK)


@kernel("v:AL")
def _moved(A, L):
    """The heads that lost the fact's support know: give it its new rank."""
    rb = L[RELS] + L[T_REL] * RSZ
    at = L[rb + R_ROWS] + L[T_ROW] * L[rb + R_STRIDE]
    L[at >> 1] = (L[T_RANK] << RANK_SHIFT) | (L[at >> 1] & FLAGS)
    A[at + SUPPORT] = L[T_SUPPORT]
    L[C_RERANKED] += 1


@kernel("v:ALPi")
def follow(A, L, P, t):
    """What follows a task whose variants have run."""
    then = L[T_THEN]
    L[T_THEN] = THEN_NEXT
    if then == THEN_FALL:
        _fall(A, L, P, t)
    elif then == THEN_SINK:
        _sink(A, L)
    elif then == THEN_REST:
        _sink(A, L)
        _rest(A, L)
    elif then == THEN_WAIT:
        if L[BEST] < NEVER:
            _wait(A, L, L[BEST])
    elif then == THEN_TRY:
        _try(A, L, P, t)
    elif then == THEN_MOVE:
        _move(A, L, P, t)
    elif then == THEN_MOVED:
        _moved(A, L)
    elif then == THEN_RECOUNT:
        recount(A, L, P, t)
    elif then == THEN_DISPLACE:
        displace(A, L, P, t)
    elif then == THEN_GONE:
        gone(A, L)


@kernel("i:ALPi")
def next_suspect(A, L, P, t):
    """Take the next suspect or fact in limbo off the heap as a task. 0: the wave is over."""
    while L[HEAP + 1] > 0:
        key = L[L[HEAP]]
        value = L[L[HEAP] + 1]
        heap_pop(L)
        late = key >= LATE
        if late:
            key -= LATE
        p = (key >> 1) - 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        word = L[at >> 1]
        if (word >> RANK_SHIFT) != p:
            continue
        if key & 1:
            if word & LIMBO and is_underived(A, L, rb, at):
                L[at >> 1] = (NEVER << RANK_SHIFT) | (word & FLAGS)
            elif word & LIMBO and (L[S_REST] or (late and p == 0 and L[rb + R_ALL])):
                _restore(A, L, P, t, r, row, at)
                return np.int64(1)
            elif word & LIMBO:
                L[T_RANK] = p
                set_task(A, L, P, t, T_REDERIVE, r, row, MODE_QUERY, THEN_TRY)
                return np.int64(1)
        elif word & NOW and not (word & GIVEN) and (A[at + SUPPORT] == 0 or L[STRATEGY] == DRED):
            touch(A, L, r, row)
            if L[STRATEGY] == WAVEFRONT and is_underived(A, L, rb, at):
                L[C_RETRACTED] += 1
                set_task(A, L, P, t, T_SAME, r, row, MODE_RETRACT, THEN_SINK)
            elif L[STRATEGY] == WAVEFRONT and not (word & MOVED):
                L[at >> 1] = (L[at >> 1] | MOVED) & ~NOW  # it must not find itself
                set_task(A, L, P, t, T_REDERIVE, r, row, MODE_QUERY, THEN_MOVE)
            else:
                L[C_RETRACTED] += 1
                set_task(A, L, P, t, T_SAME, r, row, MODE_RETRACT, THEN_FALL)
            return np.int64(1)
    return np.int64(0)
