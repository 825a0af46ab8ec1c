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

from deltafix.kernel import layout as at
from deltafix.kernel.best import displace, gone, recount
from deltafix.kernel.emit import is_underived, touch
from deltafix.kernel.heap import LATE, heap_pop, heap_push
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import push
from deltafix.kernel.task import set_task


@kernel("v:AL")
def _sink(A, L):
    """The suspect's derivations are uncounted: it goes to limbo."""
    r = L[at.T_REL]
    row = L[at.T_ROW]
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    L[cell] = (at.NEVER << at.RANK_SHIFT) | (L[cell] & at.FLAGS & ~at.NOW) | at.LIMBO
    L[rb + at.R_NOW] -= 1
    if L[rb + at.R_BEST]:
        push(L, at.OPEN, (r << 32) | row)


@kernel("v:ALPi")
def _fall(A, L, P, t):
    """The suspect goes to limbo, and its best derivation is looked up."""
    _sink(A, L)
    rb = L[at.RELS] + L[at.T_REL] * at.RSZ
    if is_underived(A, L, rb, L[rb + at.R_ROWS] + L[at.T_ROW] * L[rb + at.R_STRIDE]):
        return
    set_task(A, L, P, t, at.T_REDERIVE, L[at.T_REL], L[at.T_ROW], at.MODE_QUERY, at.THEN_WAIT)


@kernel("v:AL")
def _rest(A, L):
    """A fact in limbo waits for the end of the wave: what holds then, holds."""
    rb = L[at.RELS] + L[at.T_REL] * at.RSZ
    cell = (L[rb + at.R_ROWS] + L[at.T_ROW] * L[rb + at.R_STRIDE]) >> 1
    L[cell] &= at.FLAGS  # rank 0: no offer is lower, so it is entered once
    heap_push(L, 0, 1, True, (L[at.T_REL] << 32) | L[at.T_ROW])


@kernel("v:ALPiiii")
def _restore(A, L, P, t, r, row, offset):
    """No suspect is left: a fact in limbo with a derivation holds, above all others.

    So all of its derivations are of lower rank, and how many they are is known: there is nothing
    to look for. (Its old rank would serve more of what follows from it, and take a query.)
    """
    rb = L[at.RELS] + r * at.RSZ
    L[at.S_REST] = 1
    L[at.C_REVIVED] += 1
    L[at.C_RERANKED] += 1
    L[at.CLOCK] += at.GAP
    L[offset >> 1] = (
        (L[at.CLOCK] << at.RANK_SHIFT) | (L[offset >> 1] & at.FLAGS & ~at.LIMBO) | at.NOW
    )
    A[offset + at.SUPPORT] = A[offset + L[rb + at.R_ALL]]
    L[rb + at.R_NOW] += 1
    set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_REVIVE, at.THEN_NEXT)


@kernel("v:ALi")
def _wait(A, L, best):
    """A fact in limbo waits for the wave to reach its best derivation, if there is one."""
    if best == at.GIVEN_UP:
        _rest(A, L)
        return
    rb = L[at.RELS] + L[at.T_REL] * at.RSZ
    cell = (L[rb + at.R_ROWS] + L[at.T_ROW] * L[rb + at.R_STRIDE]) >> 1
    L[cell] = (best << at.RANK_SHIFT) | (L[cell] & at.FLAGS)
    if best < at.NEVER:
        heap_push(L, best, 1, L[at.STRATEGY] != at.WAVEFRONT, (L[at.T_REL] << 32) | L[at.T_ROW])


@kernel("v:ALPi")
def _try(A, L, P, t):
    """The wave has reached a fact in limbo: revive it, unless its body fell meanwhile."""
    best = L[at.BEST]
    if best > L[at.T_RANK] or best == at.GIVEN_UP:
        _wait(A, L, best)
        return
    r = L[at.T_REL]
    row = L[at.T_ROW]
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    L[at.C_REVIVED] += 1
    L[at.C_RERANKED] += 1
    L[offset >> 1] = (
        ((best + 1) << at.RANK_SHIFT) | (L[offset >> 1] & at.FLAGS & ~at.LIMBO) | at.NOW
    )
    A[offset + at.SUPPORT] = L[at.BEST_COUNT]
    L[rb + at.R_NOW] += 1
    set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_REVIVE, at.THEN_NEXT)


@kernel("v:ALPi")
def _move(A, L, P, t):
    """A suspect's best derivation is known: move up above its body at once, or fall.

    Waiting in limbo would take every fact that it supports through two changes; moving touches
    only those that rank below its new place. If the body turns out to rest on the fact itself,
    the fact becomes a suspect once more, and then it waits (MOVED), so this ends. A fact without
    any derivation falls, and is not looked up again: until then rows only leave.
    """
    r = L[at.T_REL]
    row = L[at.T_ROW]
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    L[cell] |= at.NOW
    L[at.S_VAIN] = min(L[at.S_VAIN] + 1, at.VAIN) if L[at.BEST] == at.GIVEN_UP else 0
    if L[at.BEST] == at.GIVEN_UP:
        L[at.C_RETRACTED] += 1
        set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_RETRACT, at.THEN_REST)
    elif L[at.BEST] < at.NEVER:
        L[at.T_RANK] = L[at.BEST] + 1
        L[at.T_SUPPORT] = L[at.BEST_COUNT]
        set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_MOVE, at.THEN_MOVED)
    else:
        L[at.C_RETRACTED] += 1
        set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_RETRACT, at.THEN_SINK)


@kernel("v:AL")
def _moved(A, L):
    """The heads that lost the fact's support know: give it its new rank."""
    rb = L[at.RELS] + L[at.T_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + L[at.T_ROW] * L[rb + at.R_STRIDE]
    L[offset >> 1] = (L[at.T_RANK] << at.RANK_SHIFT) | (L[offset >> 1] & at.FLAGS)
    A[offset + at.SUPPORT] = L[at.T_SUPPORT]
    L[at.C_RERANKED] += 1


@kernel("v:ALPi")
def follow(A, L, P, t):
    """What follows a task whose variants have run."""
    then = L[at.T_THEN]
    L[at.T_THEN] = at.THEN_NEXT
    if then == at.THEN_FALL:
        _fall(A, L, P, t)
    elif then == at.THEN_SINK:
        _sink(A, L)
    elif then == at.THEN_REST:
        _sink(A, L)
        _rest(A, L)
    elif then == at.THEN_WAIT:
        if L[at.BEST] < at.NEVER:
            _wait(A, L, L[at.BEST])
    elif then == at.THEN_TRY:
        _try(A, L, P, t)
    elif then == at.THEN_MOVE:
        _move(A, L, P, t)
    elif then == at.THEN_MOVED:
        _moved(A, L)
    elif then == at.THEN_RECOUNT:
        recount(A, L, P, t)
    elif then == at.THEN_DISPLACE:
        displace(A, L, P, t)
    elif then == at.THEN_GONE:
        gone(A, L)


@kernel("i:ALPi")
def next_suspect(A, L, P, t):
    """Take the next suspect or fact in limbo off the heap as a task. 0: the wave is over."""
    while L[at.HEAP + 1] > 0:
        key = L[L[at.HEAP]]
        value = L[L[at.HEAP] + 1]
        heap_pop(L)
        late = key >= LATE
        if late:
            key -= LATE
        p = (key >> 1) - 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        word = L[offset >> 1]
        if (word >> at.RANK_SHIFT) != p:
            continue
        if key & 1:
            if word & at.LIMBO and is_underived(A, L, rb, offset):
                L[offset >> 1] = (at.NEVER << at.RANK_SHIFT) | (word & at.FLAGS)
            elif word & at.LIMBO and (L[at.S_REST] or (late and p == 0 and L[rb + at.R_ALL])):
                _restore(A, L, P, t, r, row, offset)
                return np.int64(1)
            elif word & at.LIMBO:
                L[at.T_RANK] = p
                set_task(A, L, P, t, at.T_REDERIVE, r, row, at.MODE_QUERY, at.THEN_TRY)
                return np.int64(1)
        elif (
            word & at.NOW
            and not (word & at.GIVEN)
            and (A[offset + at.SUPPORT] == 0 or L[at.STRATEGY] == at.DRED)
        ):
            touch(A, L, r, row)
            if L[at.STRATEGY] == at.WAVEFRONT and is_underived(A, L, rb, offset):
                L[at.C_RETRACTED] += 1
                set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_RETRACT, at.THEN_SINK)
            elif L[at.STRATEGY] == at.WAVEFRONT and not (word & at.MOVED):
                L[offset >> 1] = (L[offset >> 1] | at.MOVED) & ~at.NOW  # it must not find itself
                set_task(A, L, P, t, at.T_REDERIVE, r, row, at.MODE_QUERY, at.THEN_MOVE)
            else:
                L[at.C_RETRACTED] += 1
                set_task(A, L, P, t, at.T_SAME, r, row, at.MODE_RETRACT, at.THEN_FALL)
            return np.int64(1)
    return np.int64(0)
