"""What happens between two slices of an epoch, about ten times a second: limits, and a word on it.

And which rules ran, where one is stopped.
Invariant: nothing here changes a row. It holds no database: a run must not keep its own alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltafix.doing import hearer
from deltafix.engine.limits import Limits
from deltafix.engine.link import Linked
from deltafix.engine.run import stratum_of
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena

__all__ = ["between", "stopped"]

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
            for name in _named(linked, stages[number].relations)
        ]
        shown = ", ".join(sizes[:_SHOWN]) + (", …" if len(sizes) > _SHOWN else "")
        told(f"{shown} (stratum {number + 1} of {len(stages)})")


def _named(linked: Linked, relations: Sequence[str]) -> list[str]:
    """Those of a stratum's relations that its program has; where there are none, all."""
    hidden = {one.name for one in linked.plan.relations if one.hidden}
    return [name for name in relations if name not in hidden] or [*relations]


def stopped(arena: Arena, linked: Linked, error: BudgetError) -> BudgetError:
    """The error of a run that went over its budget, with the relations that were computed then."""
    stages, number = linked.plan.stages, stratum_of(arena)
    found = stages[number].relations if 0 <= number < len(stages) else ()
    if not found:
        return error
    named = _named(linked, found)
    shown = ", ".join(f"`{name}`" for name in named[:_SHOWN]) + (", …" if named[_SHOWN:] else "")
    message = str(error).removesuffix("; rolled back")
    return BudgetError(f"{message}, in {shown}; rolled back", relations=found)
