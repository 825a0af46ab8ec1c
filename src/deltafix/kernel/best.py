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

from deltafix.kernel.emit import touch
from deltafix.kernel.held import beats, held_row
from deltafix.kernel.index import index_row, unindex_row
from deltafix.kernel.jit import kernel
from deltafix.kernel.layout import (
    BEST,
    BEST_COUNT,
    C_RETRACTED,
    COLS,
    FLAGS,
    LIMBO,
    MODE_OPEN,
    MODE_RETRACT,
    MODE_TAKE,
    MOVED,
    NEVER,
    NOW,
    OPEN,
    PENDING,
    R_BEST_COL,
    R_NOW,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
    S_ITEM,
    SUPPORT,
    T_HELD,
    T_OPEN,
    T_REL,
    T_ROW,
    T_SAME,
    THEN_DISPLACE,
    THEN_GONE,
    THEN_NEXT,
    WAS,
)
from deltafix.kernel.task import set_task


@kernel("v:ALPiii")
def take(A, L, P, t, r, row):
    """A queued row becomes true, and what follows from it is the next task."""
    rb = L[RELS] + r * RSZ
    cell = (L[rb + R_ROWS] + row * L[rb + R_STRIDE]) >> 1
    L[cell] = (L[cell] & ~(PENDING | MOVED)) | NOW
    L[rb + R_NOW] += 1
    index_row(A, L, r, row)
    set_task(A, L, P, t, T_SAME, r, row, MODE_TAKE, THEN_DISPLACE if L[T_HELD] >= 0 else THEN_NEXT)


@kernel("v:ALi")
def _drop(A, L, at):
    """A queued candidate comes to nothing."""
    L[at >> 1] &= ~(PENDING | MOVED)
    A[at + SUPPORT] = 0


@kernel("i:ALii")
def admit(A, L, r, row):
    """Whether a queued candidate is still the best for its key; T_HELD: the row it displaces."""
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    held = held_row(A, L, r, at + COLS)
    L[T_HELD] = held
    if held < 0:
        return np.int64(1)
    other = L[rb + R_ROWS] + held * L[rb + R_STRIDE] + COLS
    column = L[rb + R_BEST_COL]
    if beats(A, L, r, np.int64(A[at + COLS + column]), np.int64(A[other + column])):
        return np.int64(1)
    _drop(A, L, at)
    return np.int64(0)


@kernel("v:ALPi")
def recount(A, L, P, t):
    """A candidate's derivations are known: it becomes true above the best, or comes to nothing."""
    r = L[T_REL]
    row = L[T_ROW]
    rb = L[RELS] + r * RSZ
    at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
    if L[BEST] == NEVER:
        _drop(A, L, at)
        return
    L[at >> 1] = ((L[BEST] + 1) << RANK_SHIFT) | (L[at >> 1] & FLAGS)
    A[at + SUPPORT] = L[BEST_COUNT]
    take(A, L, P, t, r, row)


@kernel("v:ALPi")
def displace(A, L, P, t):
    """The better row is true: now the one it displaces is retracted."""
    L[C_RETRACTED] += 1
    touch(A, L, L[T_REL], L[T_HELD])
    set_task(A, L, P, t, T_SAME, L[T_REL], L[T_HELD], MODE_RETRACT, THEN_GONE)


@kernel("v:AL")
def gone(A, L):
    """What followed from the displaced row knows: it holds no more."""
    rb = L[RELS] + L[T_REL] * RSZ
    at = L[rb + R_ROWS] + L[T_ROW] * L[rb + R_STRIDE]
    L[at >> 1] &= ~NOW
    A[at + SUPPORT] = 0
    L[rb + R_NOW] -= 1
    if not (L[at >> 1] & WAS):
        # No reader knows it: out of the index, or a key that improves n times costs n * n.
        unindex_row(A, L, L[T_REL], L[T_ROW])


@kernel("i:ALPi")
def next_open(A, L, P, t):
    """Take the next key without a row as a task: look up what is derived for it. 0: none left."""
    while L[S_ITEM] < L[OPEN + 1]:
        value = L[L[OPEN] + L[S_ITEM]]
        L[S_ITEM] += 1
        r = value >> 32
        row = value & 0xFFFFFFFF
        rb = L[RELS] + r * RSZ
        at = L[rb + R_ROWS] + row * L[rb + R_STRIDE]
        if L[at >> 1] & (NOW | PENDING):
            continue
        L[at >> 1] &= ~LIMBO
        if held_row(A, L, r, at + COLS) < 0:
            set_task(A, L, P, t, T_OPEN, r, row, MODE_OPEN, THEN_NEXT)
            return np.int64(1)
    L[OPEN + 1] = 0
    return np.int64(0)
