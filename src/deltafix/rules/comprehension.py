"""A set as comprehensions, `{(terms) | body}`: what set operators (`operators`) rearrange.

Nouns: `Rows` are a set, a choice of *alternatives* (the terms of a row, and a body that gives them
values); a `Use` is a place where a set depends on the argument of an `lfp`. Invariant: two
alternatives that stand in one body share no variable unless an equality says so (`apart`), and
`tidy` writes a rule as a person would. Nothing here adds to a program.

What is derived of it (its step from a delta, the count of derivations: section 5.2) prints as
rules, the delta rules of `plan.derive`, and is called with a database of the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from deltafix.changes.counted import reads_of
from deltafix.facts.schema import Row
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Rule, conjunction
from deltafix.rules.builder import Relation
from deltafix.rules.show import show_formula
from deltafix.rules.terms import Const, Term, Var, Wildcard, has_aggregate
from deltafix.rules.walk import Leaf, map_formula, map_rule, map_term, occurrences

Alternative: TypeAlias = tuple[tuple[Term, ...], Formula]

_fresh = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Use:
    """How a set depends on an argument of an `lfp`.

    Attributes:
        argument: which one; compared by identity.
        path: the operators from the set down to the argument, `("union[1]", "join.right")`.
        odd: whether the set shrinks as the argument grows.
        folded: whether an aggregate is on the way.
    """

    argument: object
    path: tuple[str, ...] = ()
    odd: bool = False
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A set of rows as alternatives `(terms, body)`; `types` are the columns' type names.

    `types` is None while the columns are not known yet: what depends on the argument of `lfp`'s
    function in a column-finding call.
    """

    types: tuple[str, ...] | None
    alternatives: tuple[Alternative, ...]
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True)
class FixpointRelation(Relation):
    """The relation of an `lfp`, and how it depends on the arguments of those around it.

    It has no columns and no name while those of an argument around it are not known. `inner` are
    the relations that its function declared.
    """

    uses: tuple[Use, ...] = field(default=(), compare=False, repr=False)
    inner: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def step_from_delta(self) -> StepFromDelta:
        """What the function derives from some rows of the set: prints as delta rules."""
        own = (self.name, *self.inner)
        return StepFromDelta(self.name, self.inner, self._rules_of(*own))

    @property
    def derivation_count(self) -> DerivationCount:
        """In how many ways the function derives a row of the set: prints as a sum."""
        return DerivationCount(self.name, self._rules_of(self.name))

    def _rules_of(self, *names: str) -> tuple[Rule, ...]:
        rules = () if self.builder is None else self.builder.rules
        return tuple(rule for rule in rules if rule.heads[0].relation in names)


Source: TypeAlias = Rows | Relation


def rows_of(source: Source) -> Rows:
    """A source as comprehensions: of a relation, `{(x, y) | relation(x, y)}`."""
    if isinstance(source, Rows):
        return source
    uses: tuple[Use, ...] = ()
    if isinstance(source, FixpointRelation):
        uses = below(f"lfp {source.name!r}", source.uses)
        if not source.name:
            return Rows(None, (), uses)
    terms = tuple(Var(f"{column.name}'{next(_fresh)}") for column in source.attributes)
    types = tuple(column.type for column in source.attributes)
    return Rows(types, ((terms, Atom(source.name, terms)),), uses)


def below(
    step: str, uses: Iterable[Use], *, odd: bool = False, folded: bool = False
) -> tuple[Use, ...]:
    """Uses as seen from an operator above: one for each argument and way to depend on it."""
    distinct: dict[tuple[int, bool, bool], Use] = {}
    for use in uses:
        seen = replace(use, path=(step, *use.path), odd=use.odd != odd, folded=use.folded or folded)
        distinct.setdefault((id(seen.argument), seen.odd, seen.folded), seen)
    return tuple(distinct.values())


def variable(stem: str) -> Var:
    """A variable no other set has; `tidy` calls it `stem` if it can."""
    return Var(f"{stem}'{next(_fresh)}")


def apart(terms: tuple[Term, ...], body: Formula) -> Alternative:
    """The same alternative with variables no other one has: a set may be used twice."""
    names: dict[str, Var] = {}

    def leaf(term: Leaf) -> Term:
        if not isinstance(term, Var):
            return term
        if term.name not in names:
            names[term.name] = variable(plain_name(term.name))
        return names[term.name]

    return tuple(map_term(term, leaf) for term in terms), map_formula(body, leaf)


def absent(row: tuple[Term, ...], terms: tuple[Term, ...], body: Formula) -> Not:
    """That an alternative, whose variables are its own, does not give `row`."""
    equal = (Comparison("=", mine, theirs) for mine, theirs in zip(row, terms, strict=True))
    outer = frozenset(name for term in row for name in occurrences(term))
    kept, leaf = _joined(conjunction((body, *equal)), outer)
    inside = map_formula(conjunction(kept), leaf)
    if isinstance(inside, Atom):  # of any value, which a name would say of one

        def unnamed(term: Leaf) -> Term:
            return Wildcard() if isinstance(term, Var) and term.name not in outer else term

        inside = map_formula(inside, unnamed)
    elif isinstance(inside, Comparison) and not isinstance(inside.right, Const):
        # The language negates a comparison by its operator, which holds of values only. A group
        # does not hold either where there is no value: there the alternative gives no row.
        value = variable("value")
        inside = And((replace(inside, left=value), Comparison("=", inside.left, value)))
    return Not(inside)


def _joined(body: Formula, outer: frozenset[str]) -> tuple[list[Formula], Callable[[Leaf], Term]]:
    """A body without the equalities that operators made, and what stands for each variable then.

    Variables of `outer` stay: an equality with them is a test.
    """
    same: dict[str, Term] = {}
    kept: list[Formula] = []

    def leaf(term: Leaf) -> Term:
        while isinstance(term, Var) and term.name in same:
            followed = same[term.name]
            if not isinstance(followed, Var):
                return map_term(followed, leaf)
            term = followed
        return term

    def stands_for(term: Term, other: Term) -> bool:
        """Whether `other` can be written wherever `term` stands; `x = x + 1` is a test."""
        if not isinstance(term, Var) or term.name in outer or has_aggregate(other):
            return False
        return term.name not in occurrences(other)

    for part in body.parts if isinstance(body, And) else (body,):
        if isinstance(part, Comparison) and part.op == "=" and part.span is None:
            left, right = map_term(part.left, leaf), map_term(part.right, leaf)
            if left == right:
                continue
            if stands_for(right, left):
                same[right.name] = left  # type: ignore[union-attr]  # a variable
                continue
            if stands_for(left, right):
                same[left.name] = right  # type: ignore[union-attr]  # a variable
                continue
        kept.append(part)
    return kept, leaf


def tidy(rule: Rule) -> Rule:
    """The rule as one would write it: joined columns share a variable, and names are plain."""
    kept, leaf = _joined(rule.body, frozenset())
    joined = map_rule(Rule(rule.heads, conjunction(kept), rule.span), leaf)
    names: dict[str, str] = {}

    def rename(term: Leaf) -> Term:
        if not isinstance(term, Var):
            return term
        if term.name not in names:
            plain = plain_name(term.name)
            tries = (plain, *(f"{plain}{i}" for i in range(2, len(names) + 3)))
            names[term.name] = next(name for name in tries if name not in names.values())
        return Var(names[term.name], term.span)

    return map_rule(joined, rename)


class _Answers(Protocol):
    """What a database answers."""

    def step_from_delta(
        self, relation: str, rows: Iterable[Row], *, through: Iterable[str] = ()
    ) -> list[Row]: ...

    def derivation_count(self, relation: str, row: Row) -> int: ...


@dataclass(frozen=True, slots=True)
class StepFromDelta:
    """The step of an operator: what follows at once from some rows of its set.

    Attributes:
        relation: the set.
        through: the sets of the `lfp`s inside, whose rows are followed until rows of the set come.
        rules: the rules of all these.
    """

    relation: str
    through: tuple[str, ...]
    rules: tuple[Rule, ...]

    def __call__(self, db: _Answers, rows: Iterable[Row]) -> list[Row]:
        """See `Database.step_from_delta`."""
        return db.step_from_delta(self.relation, rows, through=self.through)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        followed = {self.relation, *self.through}
        for rule in self.rules:
            parts = _parts(rule)
            for pivot, part in enumerate(parts):
                if isinstance(part, Atom) and part.relation in followed:
                    body = (_read(other, reads_of(pivot, n)) for n, other in enumerate(parts))
                    yield f"Δ{show_formula(rule.heads[0])} :- {', '.join(body)}."


@dataclass(frozen=True, slots=True)
class DerivationCount:
    """In how many ways an operator derives a row of its set: the sum over its rules."""

    relation: str
    rules: tuple[Rule, ...]

    def __call__(self, db: _Answers, row: Row) -> int:
        """See `Database.derivation_count`."""
        return db.derivation_count(self.relation, row)

    def __str__(self) -> str:
        return "\n".join(
            f"{show_formula(rule.heads[0])}: "
            + (f"count : {{ {show_formula(rule.body)} }}" if _parts(rule) else "1")
            for rule in self.rules
        )


def _parts(rule: Rule) -> tuple[Formula, ...]:
    return rule.body.parts if isinstance(rule.body, And) else (rule.body,)


def _read(part: Formula, state: str) -> str:
    """A literal with the state that it reads; a comparison reads none."""
    mark = "Δ" if state == "delta" else f"{state} "
    return show_formula(part) if isinstance(part, Comparison) else f"{mark}{show_formula(part)}"
