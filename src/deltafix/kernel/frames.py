"""A frame: a block of rows side by side, each variable's values by position, and lists beside them.

Each variable has a vector with a cell for each position; lists say which positions are still
selected, the trigger's row of each, and what the literal at hand has found for it. There are FRAMES
of them, one behind another; all work is in the one at hand (FRAME). Invariant: BOUND lists the
variables whose vectors hold values, of those that are selected. Not here: what is done with them
(`columns`, `block_join`).
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.jit import kernel

# --- what lies behind the vectors of variables: lists of BLOCK cells ------------------------------
SELECTED = 0  # positions of the rows that have passed so far
ROWS = 1  # by position the trigger's row
WORDS = 2  # where the row begins that the literal at hand has found
SLOTS = 3  # its slot, -1: none
HASHES = 4
KEPT = 5  # positions, while a literal is tried
CHOSEN = 6  # the literal that a row goes on with, and its slot there
CHOSEN_SLOTS = 7
OPEN = 8  # how far the rows are joined that go on in the next frame (`block_join`)
CONSTANTS = 9  # two operands that are no vectors
BOUND = 10  # variables that are bound, times two, 1 more if they are patterns; N_VARS cells


@kernel("i:i")
def frame_cells(variables: int) -> int:
    """Cells of the vectors of so many variables, with the lists behind them."""
    return (variables + BOUND) * at.BLOCK + variables


@kernel("i:i")
def vector_cells(variables: int) -> int:
    """Cells of all frames."""
    return at.FRAMES * frame_cells(variables)


@kernel("i:Lii")
def list_cell(L, number, position):
    """A cell of one of the lists behind the vectors."""
    return L[at.FRAME] + (L[at.N_VARS] + number) * at.BLOCK + position


@kernel("i:Li")
def vector(L, variable):
    """The first cell of a variable's vector."""
    return L[at.FRAME] + variable * at.BLOCK


@kernel("v:Lii")
def note_bound(L, kind, variable):
    """A variable has values in its vector: codes, or patterns."""
    L[list_cell(L, BOUND, L[at.N_BOUND])] = 2 * variable + (1 if kind >= at.O_RAW else 0)
    L[at.N_BOUND] += 1


@kernel("v:ALi")
def put_back(A, L, i):
    """Bind all variables as the row at position `i` has them."""
    for k in range(L[at.N_BOUND]):
        entry = L[list_cell(L, BOUND, np.int64(k))]
        value = L[vector(L, entry >> 1) + i]
        if entry & 1:
            L[(L[at.VARS] >> 1) - 1 - (entry >> 1)] = value
        else:
            A[L[at.VARS] + (entry >> 1)] = value
