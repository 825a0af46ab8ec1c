"""Strata of the core: which relations are computed together, dependencies first.

Invariant: every relation is in exactly one stratum, input relations in one of their own. Checked
programs are stratified; hidden relations can undo that in one case, which is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltafix.diagnostics import Diagnostic
from deltafix.errors import ProgramError
from deltafix.plan.clause import Absent, Clause, Match
from deltafix.plan.normalize import Core
from deltafix.rules.strata import components

__all__ = ["Layer", "layers"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One stratum: its relations, its clauses, and whether a relation needs itself."""

    relations: tuple[str, ...]
    clauses: tuple[Clause, ...]
    recursive: bool


def layers(core: Core) -> tuple[Layer, ...]:
    """The strata of a core, in the order they are computed. Linear in its size.

    Raises ProgramError (DF171) where a negated group needs, through the variables it only tests,
    the relation that is being defined.
    """
    needed: dict[str, dict[str, None]] = {r.name: {} for r in core.relations}
    for clause in core.clauses:
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                needed[clause.head][literal.relation] = None
    found = []
    home: dict[str, int] = {}
    for number, members in enumerate(components(needed)):
        home.update(dict.fromkeys(members, number))
        names = frozenset(members)
        ordered = tuple(r.name for r in core.relations if r.name in names)
        clauses = tuple(clause for clause in core.clauses if clause.head in names)
        recursive = len(ordered) > 1 or ordered[0] in needed[ordered[0]]
        found.append(Layer(ordered, clauses, recursive))
    for clause in core.clauses:
        for literal in clause.body:
            if isinstance(literal, Absent) and home[literal.relation] == home[clause.head]:
                message = (
                    f"the negated group in rule {clause.rule + 1} tests a variable that only "
                    f"the recursion through `{clause.head}` binds"
                )
                hint = "bind the variable inside the group, by an atom of a lower relation"
                diagnostic = Diagnostic("DF171", message, None, hint)
                raise ProgramError(f"error[DF171]: {message}\n  help: {hint}", [diagnostic])
    return tuple(found)
