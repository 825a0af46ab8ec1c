"""Whether inputs can bound what a program derives: make less of it, or end it.

    n(0).    n(x + 1) :- n(x), !lim(x).

Without rows in `lim` this never ends, so it must not be evaluated before `lim` is there. Negation,
aggregates and merges over what inputs reach are what bounds; all else only grows with its inputs,
so what does not end without them does not end with them. Invariant: a program that is not bounded
derives from empty inputs nothing that it does not derive from all others too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltafix.plan.clause import Absent, Match, Subsumption
from deltafix.plan.depend import Layer
from deltafix.plan.normalize import Core


def is_bounded(core: Core, layers: Iterable[Layer]) -> bool:
    """Whether some stratum looks at an input other than positively. Linear in the core.

    Inputs are relations with `.input` and relations without a rule.
    """
    derived = {clause.head for clause in core.clauses}
    declared = () if core.program is None else core.program.names("input")
    inputs = [relation for relation in core.relations if relation.name in declared]
    reached = {name for one in inputs for name in (one.name, one.entry)}
    for layer in layers:
        if layer.fold is not None:
            if layer.fold.source in reached:
                return True
            continue
        reached.update(name for name in layer.relations if name not in derived)
        read = list(_reads(layer))
        if reached.isdisjoint((*layer.relations, *(one.relation for one in read))):
            continue
        reached.update(layer.relations)
        if layer.merges or any(isinstance(one, Absent) and one.relation in reached for one in read):
            return True
    return False


def _reads(layer: Layer) -> Iterator[Match | Absent]:
    bodies = [clause.body for clause in layer.clauses]
    for _, merge in layer.merges:
        if isinstance(merge, Subsumption):
            bodies.extend(order.body for order in merge.orders)
    for body in bodies:
        yield from (one for one in body if isinstance(one, Match | Absent))
