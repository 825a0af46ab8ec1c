"""Walking terms and formulae: variables, atoms, alternatives, leaf-by-leaf rebuilding.

Invariant: every walk visits left to right, as the text reads, so what depends on order (messages,
plans) does not vary. The type name inside `as(term, type)` is not a leaf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

MAX_ALTERNATIVES: Final = 4096
"""Alternatives of one body; `(a ; b), (c ; d), …` doubles with every group."""

Leaf: TypeAlias = Var | Wildcard | Const
_LEAVES: Final = (Wildcard, Const)
_WITH_ARGS: Final = (Atom, Call)
_WITH_PARTS: Final = (And, Or)


def body_of(aggregate: Aggregate) -> Formula:
    """The body of an aggregate, as the formula it is."""
    body = aggregate.body
    assert isinstance(body, Atom | Comparison | And | Or | Not)  # noqa: S101  terms lie below formulae
    return body


def terms_of(formula: Formula) -> Iterator[Term]:
    """The outermost terms of a formula, negated ones included."""
    if isinstance(formula, Atom):
        yield from formula.args
    elif isinstance(formula, Comparison):
        yield formula.left
        yield formula.right
    elif isinstance(formula, Not):
        yield from terms_of(formula.body)
    else:
        for part in formula.parts:
            yield from terms_of(part)


def subterms(term: Term) -> Iterator[Term]:
    """A term and everything in it, bodies of aggregates included."""
    yield term
    if isinstance(term, Call):
        for arg in term.args:
            yield from subterms(arg)
    elif isinstance(term, Aggregate):
        if term.target is not None:
            yield from subterms(term.target)
        for inner in terms_of(body_of(term)):
            yield from subterms(inner)


def is_constructor(term: Term) -> bool:
    """Whether a term is a record or a branch of an algebraic data type."""
    return isinstance(term, Call) and term.functor[0] in "[$"


def pattern_variables(term: Term) -> Iterator[str]:
    """The variables that matching a value against the term gives values to."""
    if isinstance(term, Var):
        yield term.name
    elif isinstance(term, Call) and is_constructor(term):
        for arg in term.args:
            yield from pattern_variables(arg)


def occurrences(node: Formula | Term | Iterable[Formula]) -> Counter[str]:
    """How often each variable occurs."""
    names: list[str] = []
    _collect(node, names)
    return Counter(names)


def _collect(node: Formula | Term | Iterable[Formula], names: list[str]) -> None:
    """Append the names of variables; a list for all of it took a fifth of the time of counters."""
    if isinstance(node, Var):
        names.append(node.name)
    elif isinstance(node, _LEAVES):
        return
    elif isinstance(node, _WITH_ARGS):
        for arg in node.args:
            _collect(arg, names)
    elif isinstance(node, Comparison):
        _collect(node.left, names)
        _collect(node.right, names)
    elif isinstance(node, Not):
        _collect(node.body, names)
    elif isinstance(node, Aggregate):
        if node.target is not None:
            _collect(node.target, names)
        for variable in node.over or ():
            _collect(variable, names)
        _collect(body_of(node), names)
    else:
        for part in node.parts if isinstance(node, _WITH_PARTS) else node:
            _collect(part, names)


def uses(formula: Formula, negation: str = "") -> Iterator[tuple[Atom, str]]:
    """Every atom of a body with what stands between: a `!` for each negation, or an aggregate.

    An atom under several aggregates is named by the innermost; negations inside do not count.
    """
    if isinstance(formula, Atom):
        yield formula, negation
        yield from _uses_in(formula.args, negation)
    elif isinstance(formula, Comparison):
        yield from _uses_in((formula.left, formula.right), negation)
    elif isinstance(formula, Not):
        yield from uses(formula.body, negation if negation.strip("!") else f"{negation}!")
    else:
        for part in formula.parts:
            yield from uses(part, negation)


def _uses_in(terms: Iterable[Term], negation: str) -> Iterator[tuple[Atom, str]]:
    for term in terms:
        if isinstance(term, Call):
            yield from _uses_in(term.args, negation)
        elif isinstance(term, Aggregate):
            if term.target is not None:
                yield from _uses_in((term.target,), negation)
            yield from uses(body_of(term), term.op)


def count_alternatives(formula: Formula) -> int:
    """How many alternatives `alternatives` gives, without making them."""
    if isinstance(formula, And):
        count = 1
        for part in formula.parts:
            count = min(count * count_alternatives(part), MAX_ALTERNATIVES + 1)
        return count
    if isinstance(formula, Or) and not formula.whole:
        return min(sum(map(count_alternatives, formula.parts)), MAX_ALTERNATIVES + 1)
    return 1


def alternatives(formula: Formula) -> tuple[tuple[Formula, ...], ...]:
    """A body as a choice of conjunctions of atoms, comparisons and negations, in text order.

    Disjunctions inside negations and aggregates stay there, and those that are `whole` are parts
    of the conjunctions. `true` is one empty alternative, `false` none. At most MAX_ALTERNATIVES in
    a checked program.
    """
    if isinstance(formula, And):
        choices: tuple[tuple[Formula, ...], ...] = ((),)
        for part in formula.parts:
            choices = tuple(left + right for left in choices for right in alternatives(part))
        return choices
    if isinstance(formula, Or) and not formula.whole:
        return inside(formula)
    return ((formula,),)


def inside(disjunction: Or) -> tuple[tuple[Formula, ...], ...]:
    """The conjunctions that a disjunction is a choice of, be it `whole` or not."""
    return tuple(case for part in disjunction.parts for case in alternatives(part))


def map_term(
    term: Term,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None = None,
) -> Term:
    """The same term with every variable, wildcard and constant replaced.

    `call` rewrites calls and aggregates themselves, before their arguments are looked at; what it
    gives instead of a call stays.
    """
    if call is not None and isinstance(term, Call | Aggregate):
        named = call(term)
        if not isinstance(named, Call | Aggregate):
            return named
        term = named
    if isinstance(term, Call):
        args = term.args if term.functor != "as" else term.args[:1]
        mapped = (map_term(arg, leaf, call) for arg in args)
        return replace(term, args=(*mapped, *term.args[len(args) :]))
    if isinstance(term, Aggregate):
        target = None if term.target is None else map_term(term.target, leaf, call)
        over = term.over and tuple(map_term(variable, leaf, call) for variable in term.over)
        body = map_formula(body_of(term), leaf, call)
        return replace(term, target=target, body=body, over=over)
    return leaf(term)


def map_formula(
    formula: Formula,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None = None,
) -> Formula:
    """The same formula with every variable, wildcard and constant replaced."""
    if isinstance(formula, Atom):
        return replace(formula, args=tuple(map_term(arg, leaf, call) for arg in formula.args))
    if isinstance(formula, Comparison):
        left = map_term(formula.left, leaf, call)
        return replace(formula, left=left, right=map_term(formula.right, leaf, call))
    if isinstance(formula, Not):
        return replace(formula, body=map_formula(formula.body, leaf, call))
    return replace(formula, parts=tuple(map_formula(part, leaf, call) for part in formula.parts))


def map_rule(
    rule: Rule,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None = None,
) -> Rule:
    """The same rule with every variable, wildcard and constant replaced."""
    heads = []
    for head in rule.heads:
        heads.append(replace(head, args=tuple(map_term(arg, leaf, call) for arg in head.args)))
    return replace(rule, heads=tuple(heads), body=map_formula(rule.body, leaf, call))
