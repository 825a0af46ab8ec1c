"""Local variables get names of their own.

A body group under `!` and the term and body of an aggregate are scopes. A variable that an
enclosing scope mentions is that scope's; any other is local, and two scopes side by side may use
one name for different variables: `lo = min x : { v(x) }, hi = max x : { v(x) }`. Invariant: after
`apart` a name means one variable in the whole rule, so counting occurrences tells local from
shared. A renamed variable is `x'2`, which no text can write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.terms import Aggregate, Call, Term, Var
from deltafix.rules.walk import Leaf, body_of, map_formula, map_term, occurrences, with_parts


def plain_name(name: str) -> str:
    """The name as it was written."""
    return name.split("'", 1)[0]


def own_names(node: Term | Formula) -> set[str]:
    """Variables that a term or formula mentions outside its inner scopes."""
    if isinstance(node, Var):
        return {node.name}
    if isinstance(node, (Call, Atom)):
        return set().union(*map(own_names, node.args))
    if isinstance(node, Comparison):
        return own_names(node.left) | own_names(node.right)
    if isinstance(node, (And, Or)):
        return set().union(*map(own_names, node.parts))
    if isinstance(node, Not) and isinstance(node.body, (Atom, Comparison)):
        return own_names(node.body)
    return set()


def fresh_name(name: str, taken: set[str]) -> str:
    """A name for another variable that is written like this one; it becomes taken."""
    plain, number = plain_name(name), 2
    while f"{plain}'{number}" in taken:
        number += 1
    taken.add(f"{plain}'{number}")
    return f"{plain}'{number}"


def renaming(names: Mapping[str, str]) -> Callable[[Leaf], Term]:
    """Gives variables other names: for `map_term` and `map_formula`."""

    def rename(leaf: Leaf) -> Term:
        if isinstance(leaf, Var) and leaf.name in names:
            return replace(leaf, name=names[leaf.name])
        return leaf

    return rename


class _Renamer:
    def __init__(self, total: Counter[str]) -> None:
        self.total = total  # occurrences in the whole rule, under the names given so far
        self.taken = set(total)

    def names(self, inside: Counter[str], outer: set[str]) -> dict[str, str]:
        """New names for the local variables of a scope that occur outside it too."""
        return {
            name: fresh_name(name, self.taken)
            for name, count in inside.items()
            if name not in outer and self.total[name] > count
        }

    def rename(self, inside: Counter[str], names: dict[str, str]) -> None:
        for old, new in names.items():
            self.total[old] -= inside[old]
            self.total[new] = inside[old]

    def formula(self, formula: Formula, outer: set[str]) -> Formula:
        if isinstance(formula, Atom):
            return self.atom(formula, outer)
        if isinstance(formula, Comparison):
            left, right = self.term(formula.left, outer), self.term(formula.right, outer)
            if left is formula.left and right is formula.right:
                return formula
            return Comparison(formula.op, left, right, formula.span)
        if isinstance(formula, (And, Or)):
            return with_parts(formula, [self.formula(part, outer) for part in formula.parts])
        body = formula.body
        if not isinstance(body, (Atom, Comparison)):
            inside = occurrences(body)
            names = self.names(inside, outer)
            if names:
                self.rename(inside, names)
                body = map_formula(body, renaming(names))
            outer = outer | own_names(body)
        inner = self.formula(body, outer)
        return formula if inner is formula.body else Not(inner, formula.span)

    def atom(self, atom: Atom, outer: set[str]) -> Atom:
        args = self.terms(atom.args, outer)
        return atom if args is atom.args else Atom(atom.relation, args, atom.span)

    def terms(self, terms: tuple[Term, ...], outer: set[str]) -> tuple[Term, ...]:
        renamed = tuple([self.term(term, outer) for term in terms])
        return terms if all(map(is_, renamed, terms)) else renamed

    def term(self, term: Term, outer: set[str]) -> Term:
        if isinstance(term, Call):
            args = self.terms(term.args, outer)
            return term if args is term.args else replace(term, args=args)
        if not isinstance(term, Aggregate):
            return term
        inside = occurrences(term)
        names = self.names(inside, outer)
        renamed: Term = term
        if names:
            self.rename(inside, names)
            renamed = map_term(term, renaming(names))
        if not isinstance(renamed, Aggregate):
            return term
        inner = outer | own_names(body_of(renamed))
        target = renamed.target
        if target is not None:
            inner |= own_names(target)
            target = self.term(target, inner)
        body = self.formula(body_of(renamed), inner)
        if target is renamed.target and body is renamed.body:
            return renamed
        return replace(renamed, target=target, body=body)


def apart(rule: Rule) -> Rule:
    """The rule with local variables renamed where their name is used elsewhere. Near linear."""
    total = occurrences((*rule.heads, rule.body))
    outer = own_names(rule.body).union(*map(own_names, rule.heads))
    if len(total) == len(outer):
        return rule
    renamer = _Renamer(total)
    heads = tuple([renamer.atom(head, outer) for head in rule.heads])
    body = renamer.formula(rule.body, outer)
    if body is rule.body and all(map(is_, heads, rule.heads)):
        return rule
    return replace(rule, heads=heads, body=body)
