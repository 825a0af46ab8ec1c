"""Which object computes each outside stratum of a plan.

Data from the plan and functions from the user meet here, once, when a database is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from deltafix.engine.beyond import BeyondStratum
from deltafix.engine.codes import Codes
from deltafix.engine.folds import FoldStratum
from deltafix.engine.folds.users import UserReducer
from deltafix.engine.link import Linked
from deltafix.engine.stages import Bounds, Strata, Stratum
from deltafix.kernel.arena import Arena

__all__ = ["Users", "outside_strata"]


@dataclass(frozen=True, slots=True)
class Users:
    """What the user of a database brings: functions behind `@name`, reducers behind aggregates."""

    functors: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: MappingProxyType({}))
    reducers: Mapping[str, UserReducer] = field(default_factory=lambda: MappingProxyType({}))


def outside_strata(arena: Arena, linked: Linked, codes: Codes, users: Users) -> Strata:
    """The outside strata of a linked plan, empty. Raises FunctorError for a missing reducer."""
    made: dict[int, Stratum] = {}
    bounds = Bounds(arena)
    for number, outside in linked.outside.items():
        fold = outside.layer.fold
        if fold is not None:
            made[number] = FoldStratum(arena, linked, codes, fold, users.reducers)
        else:
            made[number] = BeyondStratum(
                arena, linked, codes, outside.layer, functors=users.functors, bounds=bounds
            )
    return Strata(arena, linked, made, bounds)
