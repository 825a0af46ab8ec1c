"""`.limitsize`: how many rows a recursive relation may have.

Soufflé stops a recursion after the round in which a relation comes to its limit, and lets a
relation without recursion be. What is there after so many rounds is no function of the rules, so
there is no delta of it: here the epoch fails. Invariant: no committed epoch leaves a recursive
relation over its limit. The engine looks between slices of an epoch and at its end, so a recursion
without an end meets the limit too.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.rules.ast import Program
from deltafix.rules.strata import recursive_relations, strata


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
