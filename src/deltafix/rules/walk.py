"""Walking terms and formulae: variables, atoms, alternatives, leaf-by-leaf rebuilding.

Invariant: every walk visits left to right, as the text reads, so what depends on order (messages,
plans) does not vary. The type name inside `as(term, type)` is not a leaf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import Final, TypeAlias

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

MAX_ALTERNATIVES: Final = 4096
"""Alternatives of one body; `(a ; b), (c ; d), …` doubles with every group."""

Leaf: TypeAlias = Var | Wildcard | Const
_LEAVES: Final = (Wildcard, Const)
_WITH_ARGS: Final = (Atom, Call)
_WITH_PARTS: Final = (And, Or)
_INNER: Final = (Call, Aggregate)


def body_of(aggregate: Aggregate) -> Formula:
    """The body of an aggregate, as the formula it is."""
    body = aggregate.body
    assert isinstance(body, (Atom, Comparison, And, Or, Not))  # noqa: S101  terms lie below formulae
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


def computed(formula: Formula) -> Iterator[Call | Aggregate]:
    """The calls and aggregates of a formula, inner ones too."""
    for term in terms_of(formula):
        if isinstance(term, _INNER):
            for part in subterms(term):
                if isinstance(part, _INNER):
                    yield part


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
    gives instead of a call stays. Calls and aggregates are new objects, each occurrence its own.
    """
    if not isinstance(term, _INNER):
        return leaf(term)
    if call is not None:
        named = call(term)
        if not isinstance(named, _INNER):
            return named
        term = named
    if isinstance(term, Call):
        if term.functor == "as":
            args: tuple[Term, ...] = (map_term(term.args[0], leaf, call), *term.args[1:])
        else:
            args = tuple([map_term(arg, leaf, call) for arg in term.args])
        return Call(term.functor, args, term.span)
    target = None if term.target is None else map_term(term.target, leaf, call)
    over = term.over and tuple([map_term(variable, leaf, call) for variable in term.over])
    body = map_formula(body_of(term), leaf, call)
    return Aggregate(term.op, target, body, term.span, over, term.kind)


def map_formula(
    formula: Formula,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None = None,
) -> Formula:
    """The same formula with every variable, wildcard and constant replaced.

    A part in which nothing is another is the part itself, of which a rule mostly consists.
    """
    if isinstance(formula, Atom):
        return _map_atom(formula, leaf, call)
    if isinstance(formula, Comparison):
        left = map_term(formula.left, leaf, call)
        right = map_term(formula.right, leaf, call)
        if left is formula.left and right is formula.right:
            return formula
        return Comparison(formula.op, left, right, formula.span)
    if isinstance(formula, Not):
        body = map_formula(formula.body, leaf, call)
        return formula if body is formula.body else Not(body, formula.span)
    return with_parts(formula, [map_formula(part, leaf, call) for part in formula.parts])


def _map_atom(
    atom: Atom,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None,
) -> Atom:
    args = tuple([map_term(arg, leaf, call) for arg in atom.args])
    return atom if all(map(is_, args, atom.args)) else Atom(atom.relation, args, atom.span)


def with_parts(formula: And | Or, parts: Sequence[Formula]) -> Formula:
    """The formula of other parts; itself where they are its own."""
    if all(map(is_, parts, formula.parts)):
        return formula
    if isinstance(formula, And):
        return And(tuple(parts), formula.span)
    return Or(tuple(parts), formula.span, formula.whole)


def map_rule(
    rule: Rule,
    leaf: Callable[[Leaf], Term],
    call: Callable[[Call | Aggregate], Term] | None = None,
) -> Rule:
    """The same rule with every variable, wildcard and constant replaced."""
    heads = tuple([_map_atom(head, leaf, call) for head in rule.heads])
    return Rule(heads, map_formula(rule.body, leaf, call), rule.span, rule.name)
