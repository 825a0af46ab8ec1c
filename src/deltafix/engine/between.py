"""What happens between two slices of an epoch, about ten times a second: limits, and a word on it.

And which rules ran, where one is stopped.
Invariant: nothing here changes a row. It holds no database: a run must not keep its own alive.

`.limitsize`: Soufflé stops a recursion after the round in which a relation comes to its limit. What
is there after so many rounds is no function of the rules, so there is no delta of it: here the
epoch fails, and no committed epoch leaves a recursive relation over its limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltafix.doing import hearer
from deltafix.engine.link import Linked
from deltafix.engine.run import stratum_of
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.plan.clause import Absent, Match
from deltafix.plan.ir import Plan
from deltafix.rules.ast import Program
from deltafix.rules.strata import recursive_relations, strata

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
        rows = {
            name: relation_cell(arena, linked.ids[name], at.R_NOW)
            for name in stages[number].relations
        }
        named = named_in(linked.plan, number)
        if rows.keys() >= set(named):
            sizes = [f"{name}: {rows[name]:,} rows" for name in named[:_SHOWN]]
            shown = ", ".join(sizes) + (", …" if named[_SHOWN:] else "")
        else:
            shown = f"for {', '.join(named[:_SHOWN])}: {sum(rows.values()):,} rows"
        told(f"{shown} (stratum {number + 1} of {len(stages)})")


def named_in(plan: Plan, number: int) -> list[str]:
    """The relations of a stratum that somebody wrote; where none is, the first ones it is for."""
    made_for = {one.name: one.of for one in plan.relations if not one.hidden}
    needed = set(plan.stages[number].relations)
    for stage in plan.stages[number:]:
        own = stage.relations
        reads = {
            one.relation
            for clause in stage.clauses
            for one in clause.body
            if isinstance(one, Match | Absent)
        }
        reads.update(stage.outside.reads if stage.outside is not None else ())
        if not needed.isdisjoint((*own, *reads)):
            needed.update(own)
            known = [name for name in own if name in made_for]
            found = [name for name in known if not made_for[name]]
            found = found or [made_for[name] for name in known]
            if found:
                return list(dict.fromkeys(found))
    return [*plan.stages[number].relations]


def stopped(arena: Arena, linked: Linked, error: BudgetError) -> BudgetError:
    """The error of a run that went over its budget, with the relations that were computed then."""
    stages, number = linked.plan.stages, stratum_of(arena)
    if not (0 <= number < len(stages) and stages[number].relations):
        return error
    named = named_in(linked.plan, number)
    shown = ", ".join(f"`{name}`" for name in named[:_SHOWN]) + (", …" if named[_SHOWN:] else "")
    message = str(error).removesuffix("; rolled back")
    return BudgetError(f"{message}, in {shown}; rolled back", relations=named)


class Limits:
    """The limits of a program; `check` holds the rows at hand against them."""

    __slots__ = ("_arena", "_limits")

    def __init__(self, program: Program, arena: Arena, ids: Mapping[str, int]) -> None:
        self._arena = arena
        given = [one for one in program.directives if one.kind == "limitsize"]
        recursive = recursive_relations(strata(program)) if given else ()
        self._limits = [
            (one.relation, ids[one.relation], int(one.parameters["n"]))
            for one in given
            if one.relation in recursive
        ]

    def __bool__(self) -> bool:
        return bool(self._limits)

    def check(self) -> None:
        """Raise BudgetError if a relation has more rows now than its limit. O(limits)."""
        for name, number, most in self._limits:
            rows = relation_cell(self._arena, number, at.R_NOW)
            if rows > most:
                message = (
                    f"`{name}` has {rows} rows, .limitsize allows n={most}; rolled back, since "
                    "a recursion that is stopped has no exact answer"
                )
                raise BudgetError(message)
