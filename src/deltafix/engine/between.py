"""What happens between two slices of an epoch, about ten times a second: limits, and a word on it.

Invariant: nothing here changes a row. It holds no database: a run must not keep its own alive.
"""

from __future__ import annotations

from deltafix.doing import hearer
from deltafix.engine.limits import Limits
from deltafix.engine.link import Linked
from deltafix.engine.run import stratum_of
from deltafix.engine.store import relation_cell
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena

__all__ = ["between"]

_SHOWN = 2
"""Relations of a stratum that are named: a line has room for no more."""


def between(arena: Arena, linked: Linked, limits: Limits) -> None:
    """Hold the rows against the limits, and tell how far the epoch is. Raises BudgetError."""
    limits.check()
    told = hearer()
    if told is None:
        return
    stages, number = linked.plan.stages, stratum_of(arena)
    if 0 <= number < len(stages):
        sizes = [
            f"{name}: {relation_cell(arena, linked.ids[name], at.R_NOW):,} rows"
            for name in stages[number].relations
        ]
        shown = ", ".join(sizes[:_SHOWN]) + (", …" if len(sizes) > _SHOWN else "")
        told(f"{shown} (stratum {number + 1} of {len(stages)})")
