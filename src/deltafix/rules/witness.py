"""Witnesses: variables that a `min` or `max` binds by where its value is found.

    cheapest(shop, p) :- p = min x : { price(shop, x) }.

No other atom binds `shop`: it is a witness, each shop where the least price is found. The rule
then means, and from here on is,

    cheapest(shop, p) :- p = min x : { price(shop', x) }, price(shop, x'), x' = p.

Invariant: a rule without witnesses comes back as it is; names stay apart (`rules.apart`).
Source: Soufflé's manual, "Aggregates" (witnesses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from deltafix.rules.apart import plain_name
from deltafix.rules.ast import Comparison, Formula, Rule, conjunction, disjunction
from deltafix.rules.scope import grounded_by, shared
from deltafix.rules.terms import Aggregate, Term, Var
from deltafix.rules.walk import (
    MAX_ALTERNATIVES,
    Leaf,
    alternatives,
    body_of,
    count_alternatives,
    map_formula,
    map_term,
    occurrences,
)

__all__ = ["with_witnesses"]


def with_witnesses(rule: Rule) -> Rule:
    """The rule with the body of each `min` and `max` joined where that binds its witnesses."""
    if count_alternatives(rule.body) > MAX_ALTERNATIVES:
        return rule
    cases = alternatives(rule.body)
    taken = set(occurrences((*rule.heads, rule.body)))
    written = [_alternative(rule, parts, taken) for parts in cases]
    if all(new is old for new, old in zip(written, cases, strict=True)):
        return rule
    return replace(rule, body=disjunction(conjunction(parts) for parts in written))


def _alternative(rule: Rule, parts: tuple[Formula, ...], taken: set[str]) -> tuple[Formula, ...]:
    """One conjunction with its witnesses joined; the same object where there are none."""
    total = occurrences((*rule.heads, *parts))
    bound = grounded_by(parts, total)
    written: list[Formula] = []
    for part in parts:
        found = _extreme(part)
        witnesses = frozenset() if found is None else _witnesses(found[1], total, bound)
        if found is None or not witnesses:
            written.append(part)
        else:
            written.extend(_joined(*found, witnesses, total, taken))
    return tuple(written) if len(written) > len(parts) else parts


def _extreme(part: Formula) -> tuple[Term, Aggregate] | None:
    """The value and the aggregate of `value = min …` or `value = max …`."""
    if isinstance(part, Comparison) and part.op == "=":
        for value, other in ((part.left, part.right), (part.right, part.left)):
            if isinstance(other, Aggregate) and other.op in ("min", "max"):
                return value, other
    return None


def _witnesses(aggregate: Aggregate, total: Counter[str], bound: frozenset[str]) -> frozenset[str]:
    """The variables that only the aggregate's body binds; none if it does not bind them all."""
    wanted = shared(aggregate, total) - bound
    inside = [grounded_by(case, total) for case in alternatives(body_of(aggregate))]
    return wanted if all(wanted <= found for found in inside) else frozenset()


def _joined(
    value: Term,
    aggregate: Aggregate,
    witnesses: Iterable[str],
    total: Counter[str],
    taken: set[str],
) -> tuple[Formula, ...]:
    """The aggregate with witnesses of its own, and its body where the value is found."""
    own = set(occurrences(aggregate)) - shared(aggregate, total)
    alone = _renaming(sorted(witnesses), taken)
    copied = _renaming(sorted(own), taken)
    target = aggregate.target
    assert target is not None  # noqa: S101  min and max have one
    return (
        Comparison("=", value, _renamed_term(aggregate, alone), aggregate.span),
        map_formula(body_of(aggregate), _leaf(copied)),
        Comparison("=", _renamed_term(target, copied), value, aggregate.span),
    )


def _renaming(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """A name for each that nothing in the rule has; they become taken."""
    found = {}
    for name in names:
        number = 2
        while f"{plain_name(name)}'{number}" in taken:
            number += 1
        found[name] = f"{plain_name(name)}'{number}"
        taken.add(found[name])
    return found


def _renamed_term(term: Term, names: dict[str, str]) -> Term:
    return map_term(term, _leaf(names))


def _leaf(names: dict[str, str]) -> Callable[[Leaf], Term]:
    def rename(leaf: Leaf) -> Term:
        if isinstance(leaf, Var) and leaf.name in names:
            return replace(leaf, name=names[leaf.name])
        return leaf

    return rename
