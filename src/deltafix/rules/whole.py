"""Disjunctions that stay whole, so that a rule grows with their number and not with their product.

    r(x) :- p(x), (a(x) ; b(x)), (c(x) ; d(x)), (e(x) ; f(x)), (g(x) ; h(x)).

is 16 conjunctions, and each further group doubles them. Where a body has more than MOST, a
disjunction that can stand alone is marked (`Or.whole`): the planner makes a relation of it, of the
variables that it shares with the rest (`plan.flatten`). It can where each of its alternatives gives
a value to each of these variables and to its own, be it by what the rest binds whatever the other
disjunctions choose. Then a choice elsewhere decides neither what has a value here nor which
variables are local to a negated group or an aggregate. Others multiply as they are written.

Invariant: marks change no meaning, and a rule of few choices has none. None are set in the bodies
of aggregates, which count their bindings, in the orders of a subsumption, and in rules that call
`autoinc`, which number theirs; `Recursions` says where marks do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from deltafix.rules import walk
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Program, Rule, conjunction
from deltafix.rules.autoinc import counts
from deltafix.rules.scope import grounded_by, shared, ungrounded
from deltafix.rules.strata import Stratum
from deltafix.rules.terms import Const, Term, Var, has_aggregate

MOST: Final = 4
"""Conjunctions of one body before its disjunctions stay whole. So few are faster than a relation
for each: at 8 the rules of Datalog take edits a quarter faster, those of SQL half as fast again."""

Stuck = tuple[Formula, frozenset[str]]
"""An alternative that cannot stand alone, and the variables that lack a value there."""


def keep_whole(rule: Rule) -> tuple[Rule, tuple[Stuck, ...]]:
    """The rule with its disjunctions marked where they would multiply, and what could not be.

    Names are `apart`. At most quadratic in the disjunctions.
    """
    if rule.is_fact or counts(rule) or not _multiplies(rule.body):
        return rule, ()
    work = _Marking()
    total = walk.occurrences((*rule.heads, rule.body))
    body = work.conjunction(rule.body, total, frozenset())
    return replace(rule, body=body), tuple(work.stuck)


def is_marked(formula: Formula) -> bool:
    """Whether a body has a disjunction that stays whole."""
    if isinstance(formula, Not):
        return is_marked(formula.body)
    if isinstance(formula, (And, Or)):
        whole = isinstance(formula, Or) and formula.whole
        return whole or any(map(is_marked, formula.parts))
    return False


def written_out(formula: Formula) -> Formula:
    """The formula without marks."""
    if isinstance(formula, Not):
        return replace(formula, body=written_out(formula.body))
    if isinstance(formula, Or):
        return replace(formula, parts=tuple(map(written_out, formula.parts)), whole=False)
    if isinstance(formula, And):
        return replace(formula, parts=tuple(map(written_out, formula.parts)))
    return formula


def _multiplies(formula: Formula) -> bool:
    """Whether a body, or a group in it, may have too many choices."""
    return any(walk.count_alternatives(part) > MOST for part in (formula, *groups(formula)))


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, And):
        for part in formula.parts:
            yield from _conjuncts(part)
    else:
        yield formula


def groups(formula: Formula) -> Iterator[Formula]:
    """The bodies under `!`, at any depth, but for those inside aggregates."""
    if isinstance(formula, Not):
        yield formula.body
        yield from groups(formula.body)
    elif isinstance(formula, (And, Or)):
        for part in formula.parts:
            yield from groups(part)


class _Marking:
    def __init__(self) -> None:
        self.stuck: list[Stuck] = []

    def conjunction(self, body: Formula, total: Counter[str], known: frozenset[str]) -> Formula:
        """A body whose disjunctions are marked where they multiply and can stand alone.

        `total` are the occurrences in all that holds with it, itself included; the variables that
        are `known` have values without it.
        """
        if not _multiplies(body):
            return body
        parts = list(_conjuncts(body))
        waiting = [
            position for position, part in enumerate(parts) if walk.count_alternatives(part) > 1
        ]
        if len(waiting) == 1 or walk.count_alternatives(body) <= MOST:
            waiting.clear()  # nothing multiplies here
        bound = self.bound(parts, total, known)
        while waiting:
            tried = {position: self.alone(parts[position], total, bound) for position in waiting}
            marked = {
                position: choice for position, choice in tried.items() if isinstance(choice, Or)
            }
            if not marked:
                self.stuck.extend(choice for choice in tried.values() if not isinstance(choice, Or))
                break
            for position, choice in marked.items():
                parts[position] = choice
            waiting = [position for position in waiting if position not in marked]
            bound = self.bound(parts, total, known)
        for position, part in enumerate(parts):
            if isinstance(part, Not) and not isinstance(part.body, (Atom, Comparison)):
                inner = self.conjunction(part.body, total, bound | shared(part.body, total))
                parts[position] = replace(part, body=inner)
            elif isinstance(part, Or) and not part.whole:
                parts[position] = replace(part, parts=self.choices(part, total, bound))
        return conjunction(parts, body.span)

    def bound(
        self, parts: Iterable[Formula], total: Counter[str], known: frozenset[str]
    ) -> frozenset[str]:
        """The variables that have values whatever the disjunctions choose."""
        return grounded_by([p for p in parts if walk.count_alternatives(p) <= MOST], total, known)

    def alone(self, part: Formula, total: Counter[str], known: frozenset[str]) -> Or | Stuck:
        """A disjunction that stays whole, or what of it cannot stand alone."""
        assert isinstance(part, Or)  # noqa: S101  nothing else is a choice
        parts = self.choices(part, total, known)
        kept_whole = replace(part, parts=parts, whole=True)
        if sum(map(walk.count_alternatives, parts)) > walk.MAX_ALTERNATIVES:
            return part, frozenset()
        for case, seen, columns in _cases(kept_whole, total):
            missing = _lacks(case, seen, columns, known)
            if missing:
                return conjunction(case), missing
        return kept_whole

    def choices(self, part: Or, total: Counter[str], known: frozenset[str]) -> tuple[Formula, ...]:
        """What a disjunction chooses from, where that multiplies in turn."""
        rest = total - walk.occurrences(part)
        return tuple(self.conjunction(p, rest + walk.occurrences(p), known) for p in part.parts)


def asked(part: Or, total: Counter[str], bound: Iterable[str]) -> tuple[frozenset[str], ...] | None:
    """By choice of a disjunction, the variables that it needs values for; None: some are not bound.

    As few as there can be: what follows from others is left out.
    """
    needed = []
    for case, seen, columns in _cases(part, total):
        names = columns.intersection(bound) - grounded_by(case, seen)
        if _lacks(case, seen, columns, names):
            return None
        for name in sorted(names):
            if not _lacks(case, seen, columns, names - {name}):
                names -= {name}
        needed.append(names)
    return tuple(needed)


def _cases(
    part: Or, total: Counter[str]
) -> Iterator[tuple[tuple[Formula, ...], Counter[str], frozenset[str]]]:
    """The choices of a disjunction, the occurrences around each, and what it shares with these."""
    own = walk.occurrences(part)
    rest = total - own
    columns = frozenset(name for name in own if rest[name])
    for case in walk.inside(part):
        yield case, rest + walk.occurrences(case), columns


def _lacks(
    case: tuple[Formula, ...], seen: Counter[str], columns: frozenset[str], known: frozenset[str]
) -> frozenset[str]:
    """The variables without values in a choice that stands alone."""
    return ungrounded(case, seen, known) or columns - grounded_by(case, seen, known)


class Recursions:
    """Where the disjunctions of a rule multiply all the same, because of its recursion.

    That is where a relation made for one would be a further member of a recursion that negates,
    joins or drops rows, and where what a group or aggregate is asked for would depend on one.
    """

    def __init__(self, program: Program, strata: Iterable[Stratum]) -> None:
        self.program = program
        recursive = [frozenset(stratum.relations) for stratum in strata if stratum.recursive]
        self.home = {name: members for members in recursive for name in members}
        self.closed: dict[frozenset[str], bool] = {}

    def multiply(self, rule: Rule) -> bool:
        """Whether the marks in a rule do not count. Linear in the program, once a recursion."""
        members = frozenset().union(*(self.home.get(h.relation, ()) for h in rule.heads))
        if not any(atom.relation in members for atom, _ in walk.uses(rule.body)):
            return False
        if members not in self.closed:
            self.closed[members] = self._is_closed(members)
        return self.closed[members] or looks_around(rule, (Var, Const))

    def _is_closed(self, members: frozenset[str]) -> bool:
        return any(map(self.program.keeps, members)) or any(
            through and atom.relation in members
            for rule in self.program.rules
            if any(head.relation in members for head in rule.heads)
            for atom, through in walk.uses(rule.body)
        )


def looks_around(rule: Rule, row_terms: tuple[type[Term], ...]) -> bool:
    """Whether a rule has an aggregate, or a negation of more than a comparison or a plain row.

    Those may read what the rest of the rule binds. A plain row has `row_terms` alone.
    """
    if any(
        has_aggregate(term) for part in (*rule.heads, rule.body) for term in walk.terms_of(part)
    ):
        return True
    return not all(
        isinstance(group, Comparison)
        or (isinstance(group, Atom) and all(isinstance(arg, row_terms) for arg in group.args))
        for group in groups(rule.body)
    )
