"""Rows given to a relation that keeps only some of its rows, set apart in a hidden relation.

A lattice, a subsumption or a choice may drop a given row from what readers see, and bring it back
when another goes. So what is given lies in an input relation of its own, and a clause proposes
it:

    dist(x, d) :- ~given dist(x, d).

The same holds for relations of even negation, so that a stratum outside the kernel only ever
hears of lower relations. Where `plan.keep` made such a relation already, that one serves.
Invariant: every declared relation of such a stratum has one.
"""

from __future__ import annotations

from dataclasses import replace

from deltafix.plan.clause import Clause, Match, Relation, Slot
from deltafix.plan.depend import Layer, layers
from deltafix.plan.normalize import Core

__all__ = ["set_apart"]


def set_apart(core: Core) -> tuple[Core, tuple[Layer, ...], dict[str, str]]:
    """The core with given rows set apart, its strata, and where each relation's given rows lie."""
    ordered = layers(core)
    outside = {
        name
        for layer in ordered
        if not layer.plain and layer.fold is None
        for name in layer.relations
    }
    entered = {relation.name: relation.entry for relation in core.relations if relation.entry}
    relations = [r for r in core.relations if r.name in outside and not r.hidden and not r.entry]
    if not relations:
        return core, ordered, entered
    apart = {relation.name: f"~given {relation.name}" for relation in relations}
    hidden = [Relation(apart[r.name], r.types, hidden=True) for r in relations]
    clauses = []
    for relation in relations:
        slots = tuple(Slot(f"${column}") for column in range(len(relation.types)))
        clauses.append(Clause(relation.name, slots, (Match(apart[relation.name], slots),), -1))
    whole = replace(core, relations=(*core.relations, *hidden), clauses=(*core.clauses, *clauses))
    return whole, layers(whole), entered | apart
