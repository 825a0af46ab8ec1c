"""Calls of functors that Python computes, collected before the kernel stops for them.

A stop costs microseconds, a row of a join a fraction of one. So where one value is missing, the
rows that the phase would take next are run, too, without deriving anything, and what they lack is
noted beside it: a load stops once for thousands of values. Only phases look ahead so whose rows are
those below (DESTROY, SAVE, CREATE, FULL), or wait to become true (TAKE): what they run later, they
run on the same rows, and more of the stratum's own, so no value is asked for that would not be.
Invariant: when it is over, the run stands where it stood, its counters too.
"""

from __future__ import annotations

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel

_KEPT = (
    at.S_ITEM, at.S_ROW, at.T_NEXT, at.T_LEFT, at.T_ROW, at.T_MODE, at.P_NODE, at.P_LEVEL,
    at.P_RANK, at.TRIGGER_REL, at.TRIGGER_ROW, at.C_PROBED, at.C_TRIED, at.QUOTA, at.BATCH,
    at.VARS, at.STACK, at.S_START, at.S_ASKS, at.PASSED, at.PASSED_NEXT, at.S_HEAD,
    at.T_REL, at.T_THEN,
)  # fmt: skip


@kernel("v:AL")
def begin_asking(A, L):
    """Collect calls from here on, from the paused binding first."""
    for k in range(len(_KEPT)):
        L[at.ASKING_KEPT + k] = L[_KEPT[k]]
    for k in range(L[at.N_VARS]):
        A[L[at.ASKING_VARS] + k] = A[L[at.VARS] + k]
        L[(L[at.ASKING_VARS] >> 1) - 1 - k] = L[(L[at.VARS] >> 1) - 1 - k]
    for k in range((L[at.P_LEVEL] + 1) * at.LEVEL):
        L[L[at.ASKING_STACK] + k] = L[L[at.STACK] + k]
    L[at.VARS] = L[at.ASKING_VARS]
    L[at.STACK] = L[at.ASKING_STACK]
    L[at.ASKS + 1] = 0  # what it was paused for is noted again
    L[at.ASKING] = 1
    L[at.BATCH] = 0
    L[at.QUOTA] = L[at.C_PROBED] + L[at.C_DERIVATIONS] + L[at.ASK_AHEAD]


@kernel("v:L")
def end_asking(L):
    """Stand where the run was paused."""
    for k in range(len(_KEPT)):
        L[_KEPT[k]] = L[at.ASKING_KEPT + k]
    L[at.PAUSED] = 1
    L[at.ASKING] = 0
    L[at.LOOK] += 1  # what filters said was said of another row
