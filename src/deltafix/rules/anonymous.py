"""Records that are only compared: `[x, y] = [1, z]` where no type has so many fields.

Such records need no type: they are equal where their fields are. Invariant: the rule means the
same; a record of a width that some type has is left to inference.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from deltafix.rules.ast import And, Comparison, Formula, Not, Or, Rule, conjunction, disjunction
from deltafix.rules.terms import Aggregate, Call, Term, Wildcard
from deltafix.rules.walk import body_of


def by_fields(rule: Rule, widths: AbstractSet[int]) -> Rule:
    """The rule with comparisons of such records written out; `widths` are those of the types."""
    found = _formula(rule.body, widths)
    heads = tuple(
        replace(head, args=tuple(_term(arg, widths) for arg in head.args)) for head in rule.heads
    )
    same = (heads, found) == (rule.heads, rule.body)
    return rule if same else replace(rule, heads=heads, body=found)


def _formula(formula: Formula, widths: AbstractSet[int]) -> Formula:
    if isinstance(formula, Not):
        return replace(formula, body=_formula(formula.body, widths))
    if isinstance(formula, And):
        return conjunction((_formula(part, widths) for part in formula.parts), formula.span)
    if isinstance(formula, Or):
        return disjunction((_formula(part, widths) for part in formula.parts), formula.span)
    if not isinstance(formula, Comparison):
        return replace(formula, args=tuple(_term(arg, widths) for arg in formula.args))
    left, right = _term(formula.left, widths), _term(formula.right, widths)
    if not (_is_anonymous(left, widths) and _is_anonymous(right, widths)):
        return replace(formula, left=left, right=right)
    assert isinstance(left, Call)  # noqa: S101  `_is_anonymous`
    assert isinstance(right, Call)  # noqa: S101  `_is_anonymous`
    if formula.op not in ("=", "!=") or len(left.args) != len(right.args):
        return replace(formula, left=left, right=right)
    pairs = [
        _formula(Comparison(formula.op, one, other, formula.span), widths)
        for one, other in zip(left.args, right.args, strict=True)
        if not isinstance(one, Wildcard) and not isinstance(other, Wildcard)
    ]
    return (conjunction if formula.op == "=" else disjunction)(pairs, formula.span)


def _is_anonymous(term: Term, widths: AbstractSet[int]) -> bool:
    return isinstance(term, Call) and term.functor == "[]" and len(term.args) not in widths


def _term(term: Term, widths: AbstractSet[int]) -> Term:
    """Bodies of aggregates inside a term."""
    if isinstance(term, Aggregate):
        return replace(term, body=_formula(body_of(term), widths))
    if isinstance(term, Call):
        return replace(term, args=tuple(_term(arg, widths) for arg in term.args))
    return term
