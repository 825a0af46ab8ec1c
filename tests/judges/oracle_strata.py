"""In what order the oracle evaluates relations: strata, and which of them fall as others rise.

Invariant: computed from the rules as written, by reachability alone; deltafix's strata are not
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Program, Rule
from deltafix.rules.terms import Aggregate, Call

__all__ = ["levels", "loops", "uses_of"]


def loops(name: str, program: Program) -> bool:
    """Whether a relation's rules read the relation itself."""
    mine = [r for r in program.rules if any(h.relation == name for h in r.heads)]
    return any(name in uses_of(rule) for rule in mine)


def uses_of(rule: Rule) -> list[str]:
    """The relations that a rule reads, in its body and in its heads."""
    found = (*_uses(rule.body), *_uses_in(rule.heads))
    return list(dict.fromkeys(name for name, _ in found))


def levels(program: Program) -> tuple[dict[str, int], set[str], set[str]]:
    """The stratum of each relation.

    With it those an odd number of negations from their first one, and those that aggregate over
    their own recursion.
    """
    edges = [
        (head.relation, name, odd)
        for rule in program.rules
        for head in rule.heads
        for name, odd in (*_uses(rule.body), *_uses_in(rule.heads))
    ]
    edges += [
        (order.less.relation, name, None)
        for order in program.orders
        for name, _ in _uses(order.body)
        if name != order.less.relation  # its own rows, as derived: outside recursion only
    ]
    names = [relation.name for relation in program.relations]
    reach = {name: {name} for name in names}
    for _ in names:
        for head, used, _ in edges:
            reach[head] |= reach[used]
    together = {n: [m for m in names if m in reach[n] and n in reach[m]] for n in names}
    falling: set[str] = set()
    founded: set[str] = set()
    for head, used, odd in edges:
        if used in together[head] and odd is None:
            if any(program.keeps(name) for name in together[head]):
                raise ValueError("aggregation inside recursion that keeps some rows")
            founded.update(together[head])
    for group in {tuple(members) for members in together.values()}:
        if founded.intersection(group):
            continue
        side = {group[0]: False}
        for _ in group:
            for head, used, odd in edges:
                if head in group and used in group:
                    for one, other in ((head, used), (used, head)):
                        if one in side and side.setdefault(other, side[one] != odd) != (
                            side[one] != odd
                        ):
                            raise ValueError("negation inside recursion")
        falling |= {name for name, odd in side.items() if odd}
    height: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in height:
            below = {m for n in together[name] for m in reach[n]} - set(together[name])
            height[name] = 1 + max((depth(m) for m in below), default=-1)
        return height[name]

    order = sorted(names, key=lambda n: (depth(n), together[n][0]))
    rank = {together[n][0]: place for place, n in reversed(list(enumerate(order)))}
    return {n: rank[together[n][0]] for n in names}, falling, founded


def _uses(formula: Formula, odd: bool | None = False) -> Iterator[tuple[str, bool | None]]:
    """Relations with whether an odd number of negations stands between; None: an aggregate."""
    match formula:
        case Atom(relation, args):
            yield relation, odd
            yield from _uses_in(args)
        case Comparison(_, left, right):
            yield from _uses_in((left, right))
        case And(parts) | Or(parts):
            for part in parts:
                yield from _uses(part, odd)
        case Not(body):
            yield from _uses(body, None if odd is None else not odd)


def _uses_in(terms: tuple) -> Iterator[tuple[str, bool | None]]:
    for term in terms:
        if isinstance(term, Aggregate):
            yield from _uses(term.body, None)
            if term.target is not None:
                yield from _uses_in((term.target,))
        elif isinstance(term, Call | Atom):
            yield from _uses_in(term.args)
