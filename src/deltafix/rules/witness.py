"""What aggregates bind outside themselves: witnesses, and a result of the same name as one inside.

A witness is a variable that a `min` or `max` binds by where its value is found.

    cheapest(shop, p) :- p = min x : { price(shop, x) }.

No other atom binds `shop`: it is a witness, each shop where the least price is found. The rule
then means, and from here on is,

    cheapest(shop, p) :- p = min x : { price(shop', x) }, price(shop, x'), x' = p.

A witness of several is where all their values are found, and the value of each is that of all rows:
what one of them binds is not given to another. To every other literal it is.

    top(k) :- k = max i * k : { p(i), q(k) }.

Nothing else gives `k` a value, so it is the result outside, and inside a variable of the
aggregate's own, as in Soufflé. Where another literal binds `k`, or the scope around does, there is
one `k` and the equation tests it. Invariant: a rule without either comes back as it is; names stay
apart (`rules.apart`). Source: Soufflé's manual, "Aggregates" (witnesses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from deltafix.rules import ast, walk
from deltafix.rules.apart import fresh_name, own_names, renaming
from deltafix.rules.scope import grounded_by, shared
from deltafix.rules.terms import Aggregate, Call, Term, Var


def with_witnesses(rule: ast.Rule) -> ast.Rule:
    """The rule with the body of each `min` and `max` joined where that binds its witnesses."""
    extremes = any(aggregate.op in ("min", "max") for aggregate in rule.aggregates)
    if not extremes or walk.count_alternatives(rule.body) > walk.MAX_ALTERNATIVES:
        return rule
    cases = walk.alternatives(rule.body)
    taken = set(walk.occurrences((*rule.heads, rule.body)))
    written = [_alternative(rule, parts, taken) for parts in cases]
    if all(new is old for new, old in zip(written, cases, strict=True)):
        return rule
    return replace(rule, body=ast.disjunction(ast.conjunction(parts) for parts in written))


def _alternative(
    rule: ast.Rule, parts: tuple[ast.Formula, ...], taken: set[str]
) -> tuple[ast.Formula, ...]:
    """One conjunction with its witnesses joined; the same object where there are none."""
    total = walk.occurrences((*rule.heads, *parts))
    witnesses = _witnesses(parts, total)
    if not witnesses:
        return parts
    written: list[ast.Formula] = []
    for position, part in enumerate(parts):
        extreme = _extreme(part)
        if extreme is None or position not in witnesses:
            written.append(part)
        else:
            written.extend(_joined(*extreme, witnesses[position], total, taken))
    return tuple(written)


def _extreme(part: ast.Formula) -> tuple[Term, Aggregate] | None:
    """The value and the aggregate of `value = min …` or `value = max …`."""
    if isinstance(part, ast.Comparison) and part.op == "=":
        for value, other in ((part.left, part.right), (part.right, part.left)):
            if isinstance(other, Aggregate) and other.op in ("min", "max"):
                return value, other
    return None


def _witnesses(parts: tuple[ast.Formula, ...], total: Counter[str]) -> dict[int, frozenset[str]]:
    """By the place of a `min` or `max`: the variables that it binds by where its value is found.

    An aggregate may compare with the value of another one, so they are found in rounds; all of a
    round know the same, whatever the order of the text.
    """
    extremes = {
        position: extreme for position, part in enumerate(parts) if (extreme := _extreme(part))
    }
    witnesses: dict[int, frozenset[str]] = {}
    if not extremes:
        return witnesses
    names: set[str] = set()
    bound = grounded_by(parts, total)
    while True:
        new: dict[int, frozenset[str]] = {}
        for position, (_, aggregate) in extremes.items():
            wanted = shared(aggregate, total) - bound
            if position in witnesses or not wanted:
                continue
            inside = [
                grounded_by(case, total, bound)
                for case in walk.alternatives(walk.body_of(aggregate))
            ]
            if all(wanted <= grounded for grounded in inside):
                new[position] = wanted
        if not new:
            return witnesses
        witnesses |= new
        names.update(*new.values())
        values = {
            name for position in new for name in walk.pattern_variables(extremes[position][0])
        }
        bound = grounded_by(parts, total, bound | values) - names


def _joined(
    value: Term,
    aggregate: Aggregate,
    witnesses: Iterable[str],
    total: Counter[str],
    taken: set[str],
) -> tuple[ast.Formula, ...]:
    """The aggregate with witnesses of its own, and its body where the value is found."""
    own = set(walk.occurrences(aggregate)) - shared(aggregate, total)
    alone = renaming({name: fresh_name(name, taken) for name in sorted(witnesses)})
    copied = renaming({name: fresh_name(name, taken) for name in sorted(own)})
    target = aggregate.target
    assert target is not None  # noqa: S101  min and max have one
    return (
        ast.Comparison("=", value, walk.map_term(aggregate, alone), aggregate.span),
        walk.map_formula(walk.body_of(aggregate), copied),
        ast.Comparison("=", walk.map_term(target, copied), value, aggregate.span),
    )


def with_local_results(rule: ast.Rule) -> ast.Rule:
    """The rule with the results of aggregates apart from what is inside these."""
    if not rule.aggregates:
        return rule
    work = _Results(walk.occurrences((*rule.heads, rule.body)))
    body = work.scope(rule.body, frozenset())
    return replace(rule, body=body) if len(work.taken) > len(work.total) else rule


class _Results:
    def __init__(self, total: Counter[str]) -> None:
        self.total = total
        self.taken = set(total)

    def scope(self, body: ast.Formula, outer: frozenset[str]) -> ast.Formula:
        """The body of a rule, a negated group or an aggregate; `outer` has the scopes around."""
        if not _aggregates(body):
            return body
        local: dict[int, str] = {}
        for case in walk.alternatives(body):
            for part in case:
                name = _result(part)
                if name is not None and name not in outer:
                    rest = [other for other in case if other is not part]
                    if name not in grounded_by(rest, self.total):
                        local[id(part)] = name
        return self.formula(body, local, outer | own_names(body))

    def formula(
        self, formula: ast.Formula, local: dict[int, str], outer: frozenset[str]
    ) -> ast.Formula:
        if isinstance(formula, (ast.And, ast.Or)):
            parts = (self.formula(part, local, outer) for part in formula.parts)
            return replace(formula, parts=tuple(parts))
        if isinstance(formula, ast.Not):
            if isinstance(formula.body, (ast.Atom, ast.Comparison)):
                return replace(formula, body=self.formula(formula.body, {}, outer))
            return replace(formula, body=self.scope(formula.body, outer))
        names: dict[str, str] = {}
        name = local.get(id(formula))
        if name is not None:
            names[name] = fresh_name(name, self.taken)
        if isinstance(formula, ast.Atom):
            return replace(formula, args=tuple(self.term(a, names, outer) for a in formula.args))
        left, right = (self.term(t, names, outer) for t in (formula.left, formula.right))
        return replace(formula, left=left, right=right)

    def term(self, term: Term, names: dict[str, str], outer: frozenset[str]) -> Term:
        if isinstance(term, Call):
            return replace(term, args=tuple(self.term(arg, names, outer) for arg in term.args))
        if not isinstance(term, Aggregate):
            return term

        mine = walk.map_term(term, renaming(names))
        assert isinstance(mine, Aggregate)  # noqa: S101  only leaves are mapped
        target = None if mine.target is None else self.term(mine.target, {}, outer)
        return replace(mine, target=target, body=self.scope(walk.body_of(mine), outer))


def _aggregates(body: ast.Formula) -> bool:
    return any(
        isinstance(part, Aggregate) for t in walk.terms_of(body) for part in walk.subterms(t)
    )


def _result(part: ast.Formula) -> str | None:
    """The variable of `variable = … aggregate …` where it occurs inside the aggregate too."""
    if isinstance(part, ast.Comparison) and part.op == "=":
        for value, other in ((part.left, part.right), (part.right, part.left)):
            inside = (p for p in walk.subterms(other) if isinstance(p, Aggregate))
            if isinstance(value, Var) and any(value.name in walk.occurrences(p) for p in inside):
                return value.name
    return None
