"""Core clauses back to rules: a shard's program is a program like any other.

Invariant: `rule(head, args, body)` has the meaning of the core clause; variables are renamed to
plain names, constants carry their types. Which relations the atoms name is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Literal,
    Match,
    Slot,
)
from deltafix.rules.ast import (
    Atom,
    Attribute,
    Comparison,
    Formula,
    Not,
    RelationDecl,
    Rule,
    conjunction,
)
from deltafix.rules.functors import CONSTRAINTS
from deltafix.rules.terms import Aggregate, BaseType, Call, Const, Term, Var, Wildcard

__all__ = ["Spelling", "declare", "fold_rules", "plain_rule", "variables"]


def declare(name: str, types: Sequence[BaseType]) -> RelationDecl:
    """A declaration with the columns `c0`, `c1` and so on."""
    return RelationDecl(name, tuple(Attribute(f"c{n}", t) for n, t in enumerate(types)))


def variables(args: Iterable[object]) -> set[str]:
    """The names of the variables among arguments."""
    return {arg.name for arg in args if isinstance(arg, Slot)}


class Spelling:
    """One clause's terms and formulae; keeps the renaming of its variables."""

    def __init__(self) -> None:
        self._names: dict[str, Var] = {}

    def term(self, arg: Argument | None) -> Term:
        """An argument as a term."""
        if arg is None:
            return Wildcard()
        if isinstance(arg, Code):
            return Const(arg.value, arg.type)
        return self._names.setdefault(arg.name, Var(f"v{len(self._names)}"))

    def atom(self, name: str, args: Iterable[Argument | None], *more: Term) -> Atom:
        """`name(args, more)`."""
        return Atom(name, (*map(self.term, args), *more))

    def tests(self, tests: Sequence[Compare | Apply]) -> list[Formula]:
        """Comparisons and functor applications as formulae."""
        constraints = {
            test.target: test
            for test in tests
            if isinstance(test, Apply) and test.functor in CONSTRAINTS
        }
        found: list[Formula] = []
        for test in tests:
            if isinstance(test, Compare):
                asked = constraints.get(test.left) if isinstance(test.left, Slot) else None
                if asked is None:
                    found.append(Comparison(test.op, self.term(test.left), self.term(test.right)))
                    continue
                left, right = map(self.term, asked.args)
                holds = Comparison(asked.functor, left, right)
                wanted = isinstance(test.right, Code) and test.right.value
                found.append(holds if wanted else Not(holds))
            elif test.functor not in CONSTRAINTS:
                args = tuple(map(self.term, test.args))
                if test.functor == "as":
                    args = (*args, Const(test.result, "symbol"))
                found.append(Comparison("=", self.term(test.target), Call(test.functor, args)))
        return found

    def literal(self, literal: Literal, name: str, *more: Term) -> Formula:
        """A match or an absence over the relation called `name`."""
        if not isinstance(literal, Match | Absent):
            raise TypeError(literal)
        atom = self.atom(name, literal.args, *more)
        return Not(atom) if isinstance(literal, Absent) else atom


def plain_rule(clause: Clause) -> Rule:
    """A core clause as a rule over the relations it names."""
    spelling = Spelling()
    read = (literal for literal in clause.body if isinstance(literal, Match | Absent))
    body = [spelling.literal(literal, literal.relation) for literal in read]
    body += spelling.tests([lit for lit in clause.body if isinstance(lit, Compare | Apply)])
    return Rule((spelling.atom(clause.head, clause.args),), conjunction(body))


def fold_rules(fold: Fold, arity: int, guard: str | None = None) -> list[Rule]:
    """A fold as rules: the aggregate over its source, and the groups that have a row.

    `arity` is the source's. A fold without groups has a value in every shard, unless `guard`, a
    relation of one column, is empty there.
    """
    columns: list[Term] = [Wildcard()] * arity
    group: list[Term] = []
    for number, column in enumerate(fold.group):
        group.append(Var(f"g{number}"))
        columns[column] = group[-1]
    inside = tuple(
        Var(f"_i{n}") if isinstance(column, Wildcard) else column
        for n, column in enumerate(columns)
    )
    # A column may be both in the group and folded.
    target = None if fold.value is None else inside[fold.value]
    aggregate = Aggregate(fold.op, target, Atom(fold.source, inside))
    value = Comparison("=", Var("value"), aggregate)
    outside: list[Formula] = [Atom(fold.source, tuple(columns))] if fold.group else []
    if guard is not None:
        outside.append(Atom(guard, (Wildcard(),)))
    head = Atom(fold.relation, (*group, Var("value")))
    rules = [Rule((head,), conjunction([*outside, value]))]
    if fold.present is not None:
        rules.append(Rule((Atom(fold.present, tuple(group)),), conjunction(outside)))
    return rules
