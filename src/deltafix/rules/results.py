"""The result of an aggregate, used inside that aggregate too: two variables of one name.

    top(k) :- k = max i * k : { p(i), q(k) }.

Nothing else gives `k` a value, so it is the result outside, and inside a variable of the
aggregate's own, as in Soufflé. Where another literal binds `k`, or the scope around does, there is
one `k` and the equation tests it. Invariant: names are apart before and after (`rules.apart`); a
rule without such an equation comes back as it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from deltafix.rules.apart import own_names, plain_name
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.scope import grounded_by
from deltafix.rules.terms import Aggregate, Call, Term, Var
from deltafix.rules.walk import (
    Leaf,
    alternatives,
    body_of,
    map_term,
    occurrences,
    subterms,
    terms_of,
)


def with_local_results(rule: Rule) -> Rule:
    """The rule with the results of aggregates apart from what is inside these."""
    if not _aggregates(rule.body):
        return rule
    work = _Results(occurrences((*rule.heads, rule.body)))
    body = work.scope(rule.body, frozenset())
    return replace(rule, body=body) if work.renamed else rule


class _Results:
    def __init__(self, total: Counter[str]) -> None:
        self.total = total
        self.renamed: set[str] = set()

    def scope(self, body: Formula, outer: frozenset[str]) -> Formula:
        """The body of a rule, a negated group or an aggregate; `outer` has the scopes around."""
        if not _aggregates(body):
            return body
        local: dict[int, str] = {}
        for case in alternatives(body):
            for part in case:
                name = _result(part)
                if name is not None and name not in outer:
                    rest = [other for other in case if other is not part]
                    if name not in grounded_by(rest, self.total):
                        local[id(part)] = name
        return self.formula(body, local, outer | own_names(body))

    def formula(self, formula: Formula, local: dict[int, str], outer: frozenset[str]) -> Formula:
        if isinstance(formula, And | Or):
            parts = (self.formula(part, local, outer) for part in formula.parts)
            return replace(formula, parts=tuple(parts))
        if isinstance(formula, Not):
            if isinstance(formula.body, Atom | Comparison):
                return replace(formula, body=self.formula(formula.body, {}, outer))
            return replace(formula, body=self.scope(formula.body, outer))
        names: dict[str, str] = {}
        name = local.get(id(formula))
        if name is not None:
            names[name] = self.fresh(name)
        if isinstance(formula, Atom):
            return replace(formula, args=tuple(self.term(a, names, outer) for a in formula.args))
        left, right = (self.term(t, names, outer) for t in (formula.left, formula.right))
        return replace(formula, left=left, right=right)

    def term(self, term: Term, names: dict[str, str], outer: frozenset[str]) -> Term:
        if isinstance(term, Call):
            return replace(term, args=tuple(self.term(arg, names, outer) for arg in term.args))
        if not isinstance(term, Aggregate):
            return term

        def rename(leaf: Leaf) -> Term:
            if isinstance(leaf, Var) and leaf.name in names:
                return replace(leaf, name=names[leaf.name])
            return leaf

        mine = map_term(term, rename)
        assert isinstance(mine, Aggregate)  # noqa: S101  only leaves are mapped
        target = None if mine.target is None else self.term(mine.target, {}, outer)
        return replace(mine, target=target, body=self.scope(body_of(mine), outer))

    def fresh(self, name: str) -> str:
        number = 2
        while (found := f"{plain_name(name)}'{number}") in self.total or found in self.renamed:
            number += 1
        self.renamed.add(found)
        return found


def _aggregates(body: Formula) -> bool:
    return any(isinstance(part, Aggregate) for t in terms_of(body) for part in subterms(t))


def _result(part: Formula) -> str | None:
    """The variable of `variable = … aggregate …` where it occurs inside the aggregate too."""
    if isinstance(part, Comparison) and part.op == "=":
        for value, other in ((part.left, part.right), (part.right, part.left)):
            inside = (p for p in subterms(other) if isinstance(p, Aggregate))
            if isinstance(value, Var) and any(value.name in occurrences(p) for p in inside):
                return value.name
    return None
