"""Which object computes each outside stratum of a plan.

Data from the plan and functions from the user meet here, once, when a database is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltafix.engine.bind import bound, folding
from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.stages import Bounds, Strata, Stratum
from deltafix.errors import FunctorError
from deltafix.rules.ast import Program

if TYPE_CHECKING:
    from deltafix.reducers.aggregate import UserReducer


@dataclass(frozen=True, slots=True)
class Users:
    """What the user of a database brings: functions behind `@name`, reducers behind aggregates."""

    functors: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: MappingProxyType({}))
    reducers: Mapping[str, UserReducer] = field(default_factory=lambda: MappingProxyType({}))

    def declared_by(self, program: Program) -> Users:
        """The same, of the functors those that a program declares."""
        declared = {functor.name for functor in program.functors}
        known = {name: functor for name, functor in self.functors.items() if name in declared}
        return Users(known, self.reducers)

    def bound_to(self, program: Program, before: Users | None = None) -> Users:
        """As a program calls them; what another program of the database calls is bound `before`.

        Raises FunctorError for one that it wants, or does not have.
        """
        known = {} if before is None else before.functors
        return Users(bound(program, self.functors, known), folding(program, self.reducers))


def outside_strata(
    linked: Linked,
    codes: Codes,
    users: Users,
    before: Strata | None = None,
    kept: Mapping[int, int] = MappingProxyType({}),
) -> Strata:
    """The outside strata of a linked plan. Raises FunctorError for a missing reducer.

    They are empty, but for those of `before` that go on: `kept` has their numbers there. Folds
    that the kernel computes are not among them.
    """
    arena, strata = linked.tables.arena, dict[int, Stratum]()
    bounds = Bounds(arena) if before is None else before.bounds
    layers = [outside.layer for outside in linked.outside.values()]
    folds = (fold for layer in layers for fold in (layer.fold, *layer.folds) if fold is not None)
    for name in (fold.op for fold in (*linked.folds.values(), *folds)):
        if name.startswith("@@") and name[2:] not in users.reducers:
            message = f"the program folds with {name[2:]}; pass it: connect(..., reducers=...)"
            if users.reducers:
                message += f"; given: {', '.join(sorted(users.reducers))}"
            raise FunctorError(message)
    for number, outside in linked.outside.items():
        fold = outside.layer.fold
        if before is not None and number in kept:
            strata[number] = before.held(kept[number])
        elif fold is not None:
            from deltafix.engine.folds import FoldStratum  # noqa: PLC0415  for programs with one

            strata[number] = FoldStratum(arena, linked, codes, fold, users.reducers)
        else:
            from deltafix.engine.beyond import BeyondStratum  # noqa: PLC0415  for programs with one

            strata[number] = BeyondStratum(
                arena, linked, codes, outside.layer, users=users, bounds=bounds
            )
    if before is None:
        return Strata(arena, linked, strata, bounds, reducers=users.reducers)
    fresh = strata.keys() - kept.keys()
    return Strata(
        arena, linked, strata, bounds, cold=before.cold, fresh=fresh, reducers=users.reducers
    )
