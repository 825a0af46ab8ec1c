"""Relations that keep one row per key: the least, or greatest, of what is derived for it.

Only rows that hold are kept; a derivation of a worse value leaves no trace. So:

- a candidate that does not beat the row that holds for its key is not created (`outranked`);
- one that does, takes its place: the new row becomes true first, then the old one is retracted,
  so that what follows from both never falls in between (`displace`);
- a row that falls in the wave leaves its key open: when the wave is over, every derivation for
  that key is looked up, by key alone, and the candidates are queued (`next_open`). Their support
  is counted when their turn comes, by the query that re-derivation uses (`recount`).

Invariant: between tasks at most one row holds per key, two while one displaces the other. Rules
are taken to be monotone in the value; ranks keep cycles from holding themselves up, so values
that rest on a cut-off source fall before anything is looked up. Source: design of the wave.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.emit import touch
from deltafix.kernel.held import beats, held_row
from deltafix.kernel.index import index_row, unindex_row
from deltafix.kernel.jit import kernel
from deltafix.kernel.task import set_task


@kernel("v:ALPiii")
def take(A, L, P, t, r, row):
    """A queued row becomes true, and what follows from it is the next task."""
    rb = L[at.RELS] + r * at.RSZ
    cell = (L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]) >> 1
    L[cell] = (L[cell] & ~(at.PENDING | at.MOVED)) | at.NOW
    L[rb + at.R_NOW] += 1
    index_row(A, L, r, row)
    set_task(
        A,
        L,
        P,
        t,
        at.T_SAME,
        r,
        row,
        at.MODE_TAKE,
        at.THEN_DISPLACE if L[at.T_HELD] >= 0 else at.THEN_NEXT,
    )


@kernel("v:ALi")
def _drop(A, L, offset):
    """A queued candidate comes to nothing."""
    L[offset >> 1] &= ~(at.PENDING | at.MOVED)
    A[offset + at.SUPPORT] = 0


@kernel("i:ALii")
def admit(A, L, r, row):
    """Whether a queued candidate is still the best for its key; T_HELD: the row it displaces."""
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    held = held_row(A, L, r, offset + at.COLS)
    L[at.T_HELD] = held
    if held < 0:
        return np.int64(1)
    other = L[rb + at.R_ROWS] + held * L[rb + at.R_STRIDE] + at.COLS
    column = L[rb + at.R_BEST_COL]
    if beats(A, L, r, np.int64(A[offset + at.COLS + column]), np.int64(A[other + column])):
        return np.int64(1)
    _drop(A, L, offset)
    return np.int64(0)


@kernel("v:ALPi")
def recount(A, L, P, t):
    """A candidate's derivations are known: it becomes true above the best, or comes to nothing."""
    r = L[at.T_REL]
    row = L[at.T_ROW]
    rb = L[at.RELS] + r * at.RSZ
    offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
    if L[at.BEST] == at.NEVER:
        _drop(A, L, offset)
        return
    L[offset >> 1] = ((L[at.BEST] + 1) << at.RANK_SHIFT) | (L[offset >> 1] & at.FLAGS)
    A[offset + at.SUPPORT] = L[at.BEST_COUNT]
    take(A, L, P, t, r, row)


@kernel("v:ALPi")
def displace(A, L, P, t):
    """The better row is true: now the one it displaces is retracted."""
    L[at.C_RETRACTED] += 1
    touch(A, L, L[at.T_REL], L[at.T_HELD])
    set_task(A, L, P, t, at.T_SAME, L[at.T_REL], L[at.T_HELD], at.MODE_RETRACT, at.THEN_GONE)


@kernel("v:AL")
def gone(A, L):
    """What followed from the displaced row knows: it holds no more."""
    rb = L[at.RELS] + L[at.T_REL] * at.RSZ
    offset = L[rb + at.R_ROWS] + L[at.T_ROW] * L[rb + at.R_STRIDE]
    L[offset >> 1] &= ~at.NOW
    A[offset + at.SUPPORT] = 0
    L[rb + at.R_NOW] -= 1
    if not (L[offset >> 1] & at.WAS):
        # No reader knows it: out of the index, or a key that improves n times costs n * n.
        unindex_row(A, L, L[at.T_REL], L[at.T_ROW])


@kernel("i:ALPi")
def next_open(A, L, P, t):
    """Take the next key without a row as a task: look up what is derived for it. 0: none left."""
    while L[at.S_ITEM] < L[at.OPEN + 1]:
        value = L[L[at.OPEN] + L[at.S_ITEM]]
        L[at.S_ITEM] += 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[at.RELS] + r * at.RSZ
        offset = L[rb + at.R_ROWS] + row * L[rb + at.R_STRIDE]
        if L[offset >> 1] & (at.NOW | at.PENDING):
            continue
        L[offset >> 1] &= ~at.LIMBO
        if held_row(A, L, r, offset + at.COLS) < 0:
            set_task(A, L, P, t, at.T_OPEN, r, row, at.MODE_OPEN, at.THEN_NEXT)
            return np.int64(1)
    L[at.OPEN + 1] = 0
    return np.int64(0)
