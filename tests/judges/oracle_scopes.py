"""Bodies as the oracle takes them: alternatives, and whose variables are whose.

A variable belongs to the innermost body that mentions it outside negated groups and aggregates.
`range` has many values, so it is moved into an equation of its own before evaluation.
"""

from __future__ import annotations

from collections.abc import Set

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.terms import Aggregate, Call, Term, Var, Wildcard

__all__ = [
    "bindable",
    "cases_of",
    "extreme",
    "given",
    "hoisted",
    "named",
    "names_in",
    "own",
    "pattern",
]


def cases_of(formula: Formula) -> list[tuple[Formula, ...]]:
    """The alternatives of a body, each a conjunction of literals."""
    match formula:
        case And(parts):
            found: list[tuple[Formula, ...]] = [()]
            for part in parts:
                found = [left + right for left in found for right in cases_of(part)]
            return found
        case Or(parts):
            return [case for part in parts for case in cases_of(part)]
    return [(formula,)]


def extreme(part: Formula) -> tuple[Term, Aggregate] | None:
    """The value and the aggregate of `value = min …` or `value = max …`."""
    if isinstance(part, Comparison) and part.op == "=":
        for value, other in ((part.left, part.right), (part.right, part.left)):
            if isinstance(other, Aggregate) and other.op in ("min", "max"):
                return value, other
    return None


def names_in(node: object, inner: bool = True) -> set[str]:
    """The variables of a term or formula; without `inner`, not those of its inner scopes."""
    match node:
        case Var(name):
            return {name}
        case Call(_, args) | Atom(_, args) | And(args) | Or(args):
            return names_in(args, inner)
        case Comparison(_, left, right):
            return names_in((left, right), inner)
        case Not(body) if inner or isinstance(body, Atom | Comparison):
            return names_in(body, inner)
        case Aggregate(_, target, body) if inner:
            return names_in((target, body))
        case tuple():
            return set().union(*(names_in(part, inner) for part in node))
    return set()


def pattern(term: Term) -> bool:
    """Whether a term may take its variables' values from a value it is matched with."""
    return isinstance(term, Var | Wildcard) or (isinstance(term, Call) and term.functor[0] in "[$")


def bindable(term: Term) -> set[str]:
    """The variables that matching a value against a term gives values to."""
    if isinstance(term, Call) and term.functor[0] in "[$":
        return set().union(*map(bindable, term.args))
    return {term.name} if isinstance(term, Var) else set()


def given(parts: list, known: Set[str] = frozenset()) -> set[str]:
    """The variables that have values by a conjunction; those of `known` have them before."""
    known = set(known)
    while True:
        before = len(known)
        for part in parts:
            if isinstance(part, Atom):
                known |= {name for arg in part.args for name in bindable(arg)}
            elif isinstance(part, Comparison) and part.op == "=":
                for to, source in ((part.left, part.right), (part.right, part.left)):
                    known |= bindable(to) if own(source) <= known else set()
        if len(known) == before:
            return known


def own(node: object) -> set[str]:
    """The variables that belong to this scope itself."""
    return names_in(node, inner=False)


def hoisted(rule: Rule) -> Rule:
    """The rule with every `range` of its own body and heads in an equation of its own."""
    found: list[Formula] = []

    def term(node: Term) -> Term:
        if not isinstance(node, Call):
            return node
        inner = Call(node.functor, tuple(map(term, node.args)))
        if node.functor != "range":
            return inner
        found.append(Comparison("=", Var(f"range.{len(found)}"), inner))
        return Var(f"range.{len(found) - 1}")

    def formula(node: Formula) -> Formula:
        if isinstance(node, Atom):
            return Atom(node.relation, tuple(map(term, node.args)))
        if isinstance(node, Comparison):
            return Comparison(node.op, term(node.left), term(node.right))
        if isinstance(node, And | Or):
            return type(node)(tuple(map(formula, node.parts)))
        return node

    heads = tuple(map(formula, rule.heads))
    body = formula(rule.body)
    return Rule(heads, And((body, *found))) if found else rule


def named(formula: Formula, path: str = "_") -> Formula:
    """A body with its wildcards (outside negations) turned into variables of their own."""
    match formula:
        case Atom(relation, args):
            terms = (_named_term(arg, f"{path}.{i}") for i, arg in enumerate(args))
            return Atom(relation, tuple(terms))
        case And(parts):
            return And(tuple(named(part, f"{path}.{i}") for i, part in enumerate(parts)))
        case Or(parts):
            return Or(tuple(named(part, f"{path}.{i}") for i, part in enumerate(parts)))
    return formula


def _named_term(term: Term, path: str) -> Term:
    if isinstance(term, Wildcard):
        return Var(path)
    if isinstance(term, Call) and term.functor[0] in "[$":
        terms = (_named_term(arg, f"{path}.{i}") for i, arg in enumerate(term.args))
        return Call(term.functor, tuple(terms))
    return term
