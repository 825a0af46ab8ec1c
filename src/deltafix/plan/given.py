"""Rows given to a relation that keeps only some of its rows, set apart in a hidden relation.

A lattice, a subsumption or a choice may drop a given row from what readers see, and bring it back
when another goes. So what is given lies in an input relation of its own, and a clause proposes
it:

    dist(x, d) :- ~given dist(x, d).

The same holds for relations of even negation, so that a stratum outside the kernel only ever
hears of lower relations. Where `plan.keep` or `plan.domains` made such a relation already, that
one serves.
Invariant: every declared relation of such a stratum has one.
"""

from __future__ import annotations

from dataclasses import replace

from deltafix.plan.clause import given_apart
from deltafix.plan.depend import Layer, layers
from deltafix.plan.normalize import Core


def set_apart(
    core: Core, ordered: tuple[Layer, ...]
) -> tuple[Core, tuple[Layer, ...], dict[str, str]]:
    """A core of these strata with given rows set apart, its strata, and where given rows lie."""
    outside = {
        name
        for layer in ordered
        if not layer.plain and layer.fold is None
        for name in layer.relations
    }
    entered = {relation.name: relation.entry for relation in core.relations if relation.entry}
    entered |= core.apart
    relations = [
        r for r in core.relations if r.name in outside and not r.hidden and r.name not in entered
    ]
    if not relations:
        return core, ordered, entered
    made = [given_apart(relation) for relation in relations]
    whole = replace(
        core,
        relations=(*core.relations, *(hidden for hidden, _ in made)),
        clauses=(*core.clauses, *(clause for _, clause in made)),
    )
    return whole, layers(whole), entered | {clause.head: hidden.name for hidden, clause in made}
