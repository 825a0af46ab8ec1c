"""Driving the kernel through an epoch: budgets, time, cancellation, errors.

The kernel works in slices of `SLICE` rows probed and derivations found; between slices Python
sees signals (Ctrl-C), the clock and `cancel`. Invariant: a run that does not finish leaves the
arena for `rollback`, and raises an error that names the setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from deltafix.errors import BudgetError, CancelledError, InternalError, LimitError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.maintain import maintain

__all__ = ["SLICE", "STRATEGIES", "Budget", "run_epoch", "set_budget"]

SLICE = 1_000_000
"""Rows and derivations between two looks at the clock: about a tenth of a second."""

_ON = frozenset((at.YIELD, at.ASK, at.OUTSIDE))

STRATEGIES = {
    "wavefront": at.WAVEFRONT,
    "local": at.LOCAL,
    "deletes_first": at.DELETES_FIRST,
    "inserts_first": at.INSERTS_FIRST,
    "dred": at.DRED,
    "recompute": at.RECOMPUTE,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one epoch: rows created, facts taken up, seconds. None: no bound."""

    max_rows: int | None = None
    max_rounds: int | None = None
    timeout: float | None = None


def set_budget(arena: Arena, budget: Budget) -> None:
    """Write a budget where the kernel looks."""
    arena.cells[at.MAX_ROWS] = budget.max_rows or 0
    arena.cells[at.MAX_ROUNDS] = budget.max_rounds or 0
    arena.cells[at.SLICE] = SLICE
    arena.cells[at.QUOTA] = SLICE
    arena.cells[at.S_STRATUM] = -1


def run_epoch(
    arena: Arena, program: Words, budget: Budget, reply: Callable[[], None], run: Callable[[], None]
) -> None:
    """Run `maintain` to the end; `reply` and `run` do what it stops for (ASK, OUTSIDE).

    Raises BudgetError, CancelledError, LimitError, MemoryError, and what user functions lead to.
    """
    outcome = maintain(arena.words, arena.cells, program)
    if outcome == at.DONE:
        return
    began = time.monotonic()
    while outcome in _ON:
        if outcome == at.ASK:
            reply()
        elif budget.timeout is not None and time.monotonic() - began > budget.timeout:
            message = f"the epoch took longer than timeout={budget.timeout} s; rolled back"
            raise BudgetError(message)
        elif outcome == at.OUTSIDE:
            run()
        else:
            arena.cells[at.QUOTA] += SLICE
        outcome = maintain(arena.words, arena.cells, program)
    if outcome == at.STOPPED:
        _raise(int(arena.cells[at.ERROR]), budget)


def _raise(error: int, budget: Budget) -> None:
    if error == at.ERR_ROWS:
        message = f"the epoch derived more than max_rows={budget.max_rows} new rows; rolled back"
        raise BudgetError(message)
    if error == at.ERR_ROUNDS:
        message = f"the epoch took up more than max_rounds={budget.max_rounds} facts; rolled back"
        raise BudgetError(message)
    if error == at.ERR_CANCEL:
        raise CancelledError("cancelled; rolled back")
    if error == at.ERR_SUPPORT:
        raise LimitError("a row has more than 2147483647 derivations; rolled back")
    raise InternalError(f"kernel: stopped with unknown error {error}")
