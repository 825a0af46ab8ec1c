"""Lists of rows in runs: what an epoch created, what waits to become true, and what it changed.

A vector of cells. A row is one cell, `relation << 32 | row` (of changes `relation << 33 | row << 1
| added`); where the rows behind it follow one another, the next cell says how many these are, as
its negative. So a load, whose rows are consecutive, costs its lists nothing a row, and no list has
more cells than rows. Invariant: in `CREATED` a row stands once, and no run begins before a stratum
and ends in it (`S_CREATED`). `arena.spelled_out` reads them in Python.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel
from deltafix.kernel.memory import push


@kernel("v:Liii")
def push_run(L, v, value, step):
    """Append a row, so many above the one before it in a run, to the list described at cell `v`.

    Amortised O(1). Of `CREATED`, runs of strata before are left as they are.
    """
    end = L[v] + L[v + 1]
    if L[v + 1] > (L[at.S_CREATED] if v == at.CREATED else 0):
        last = L[end - 1]
        if last < 0 and L[end - 2] + step * (1 - last) == value:
            L[end - 1] = last - 1
            return
        if last >= 0 and last + step == value:
            value = np.int64(-1)
    push(L, v, value)


@kernel("v:Liii")
def push_rows(L, v, value, n):
    """Append `n` rows, the first of which is `relation << 32 | row`: two cells at most."""
    push_run(L, v, value, np.int64(1))
    if n > 1:
        last = L[v] + L[v + 1] - 1
        if L[last] < 0:
            L[last] -= n - 1
        else:
            push(L, v, 1 - n)


@kernel("v:Lii")
def note_created(L, value, n):
    """List `n` rows, the first of which is `relation << 32 | row`, as created."""
    push_rows(L, np.int64(at.CREATED), value, n)


@kernel("i:Lii")
def run_length(L, v, e):
    """How many rows the list described at cell `v` has from its entry `e` on, in one run."""
    if e + 1 < L[v + 1] and L[L[v] + e + 1] < 0:
        return 1 - L[L[v] + e + 1]
    return np.int64(1)
