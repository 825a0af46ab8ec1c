"""What a group or aggregate inside recursion is asked for, without asking the recursion.

    p(x + 1) :- p(x), x < 20, n = count : { e(y), y < x }, n < 3.

The aggregate is asked for every `x` in `p`, and `p` waits for its answers. More than is asked for
does no harm, so it is computed for a *domain* of the column, all that could get there, negations
and aggregates aside:

    ~p 0(x) :- ~given p(x).        ~p 0(x + 1) :- ~p 0(x), x < 20.

The value of a `min` or `max` is one of the values it ranges over, so it has a domain too; that of
other aggregates has none. Invariant: a domain holds every value of its column, depends on no
negation or aggregate of the recursion, and is finite where the relation is: what recursion
computes has one only where each step stays among finitely many values (`_Steps`). Where there is
none the clauses stay as they are, and `plan.depend` refuses them.

A group that tests two such columns is computed for all pairs of their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from deltafix.plan.binding import connected, evaluable, unbound
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
    Relation,
    Slot,
    slots_of,
)
from deltafix.plan.flatten import Draft
from deltafix.plan.narrow import cut_reads
from deltafix.rules.strata import components

_WAYS: Final = {"+": ("<", "<="), "-": (">", ">=")}
"""By how a value steps on, the tests that end it."""
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CHOOSING: Final = ("min", "max")
"""Functors and aggregates whose value is one of those they are given."""
_TRUTH: Final = ("land", "lor", "lxor", "lnot", "match", "contains")
_MOVES, _STAYS, _FIXED = range(3)


def ask_domains(draft: Draft, keeping: frozenset[str]) -> None:
    """Let the clauses of `draft.asking` read domains, where there are any.

    Relations that join or drop rows (`keeping`) have none. Each recursion costs its clauses.
    """
    works: dict[frozenset[str], _Domains] = {}
    for number, (count, stratum) in draft.asking.items():
        work = works.get(stratum)
        if work is None:
            work = works[stratum] = _Domains(draft, keeping, stratum)
        clause = draft.clauses[number]
        body = work.asked(clause, count)
        if body is not None:
            draft.clauses[number] = replace(clause, body=body)
    for work in works.values():
        work.write()


class _Domains:
    """The domains of one recursion, before they are written into the program."""

    def __init__(self, draft: Draft, keeping: frozenset[str], stratum: frozenset[str]) -> None:
        self.draft = draft
        self.keeping = keeping
        self.stratum = stratum
        self.answers = _depending(draft, stratum)
        self.folds: dict[str, Fold] = {fold.relation: fold for fold in draft.folds}
        self.derives: dict[str, list[Clause]] = {}
        for clause in draft.clauses:
            self.derives.setdefault(clause.head, []).append(clause)
        self.columns: dict[str, tuple[str, int]] = {}
        self.clauses: dict[str, list[Clause]] = {}
        self.kept: dict[str, None] = {}

    def asked(self, clause: Clause, count: int) -> tuple[Literal, ...] | None:
        """A body whose first `count` literals say what is asked for, by domains; None: none do."""
        rest = clause.body[count:]
        wanted = [slot for literal in rest for slot in slots_of(literal)]
        wanted += [arg for arg in clause.args if isinstance(arg, Slot)]
        asked = self.above(clause.body[:count], wanted)
        if unbound(wanted, (*asked, *rest)):
            return None
        waiting = self.reads(asked)
        needed: dict[str, dict[str, None]] = {}
        while waiting:
            name = waiting.pop()
            if name in needed or name in self.kept:
                continue
            if not self.define(name):
                return None
            reads = [
                read for definition in self.clauses[name] for read in self.reads(definition.body)
            ]
            needed[name] = dict.fromkeys(read for read in reads if read not in self.kept)
            waiting.extend(needed[name])
        for members in components(needed):
            for definition in (definition for name in members for definition in self.clauses[name]):
                (value,) = definition.args
                if _Steps(definition.body, frozenset(members)).kind(value) == _MOVES:
                    return None
        self.kept |= dict.fromkeys(needed)
        return (*asked, *rest)

    def above(self, body: Iterable[Literal], wanted: Iterable[Slot]) -> tuple[Literal, ...]:
        """What of a body the wanted variables rest on, with domains for what depends on answers."""
        literals: list[Literal] = []
        for literal in body:
            if isinstance(literal, Absent):
                continue
            if not isinstance(literal, Match):
                literals.append(literal)
            elif literal.relation in self.stratum:
                for column, arg in enumerate(literal.args):
                    if isinstance(arg, Slot):
                        literals.append(self.domain(literal.relation, column, arg))
            elif literal.relation not in self.answers:
                literals.append(literal)
            else:
                fold, value = self.folds.get(literal.relation), literal.args[-1:]
                if fold is None or fold.way not in _CHOOSING or fold.value is None:
                    continue
                literals.extend(
                    self.domain(fold.source, fold.value, arg)
                    for arg in value
                    if isinstance(arg, Slot)
                )
        ran, _ = evaluable(literals)
        return connected(wanted, ran)

    def domain(self, relation: str, column: int, value: Slot) -> Match:
        """A variable in the domain of a column."""
        name = f"~{relation.removeprefix('~')} {column}"
        self.columns[name] = (relation, column)
        return Match(name, (value,))

    def reads(self, body: Iterable[Literal]) -> list[str]:
        """The domains that a body reads."""
        return [
            literal.relation
            for literal in body
            if isinstance(literal, Match) and literal.relation in self.columns
        ]

    def define(self, name: str) -> bool:
        """Make the clauses of a domain; False where something has no value without the answers."""
        relation, column = self.columns[name]
        if relation in self.keeping:
            return False
        if name not in self.clauses:
            clauses = []
            for clause in self.derives.get(relation, ()):
                arg = clause.args[column]
                body = self.above(clause.body, (arg,) if isinstance(arg, Slot) else ())
                if isinstance(arg, Slot) and arg not in evaluable(body)[1]:
                    return False
                clauses.append(Clause(name, (arg,), body, clause.rule))
            self.clauses[name] = clauses
        return True

    def write(self) -> None:
        """Enter the domains, and set given rows apart where a domain must know them."""
        draft = self.draft
        described = {relation.name: relation for relation in draft.relations}
        for name in self.kept:
            relation, column = self.columns[name]
            types = described[relation].types
            draft.relations.append(Relation(name, (types[column],), hidden=True, is_domain=True))
            draft.clauses.extend(self.clauses[name])
            if relation in self.stratum:
                row = tuple(Slot(f"c{number}") for number in range(len(types)))
                given = Match(draft.set_apart(described[relation]), row)
                draft.clauses.append(Clause(name, (row[column],), (given,), -1))


class _Steps:
    """How far the values of one clause's variables may go, round after round.

    Those of the domains that `moving` names come back as they are; `_STAYS` says that a value is
    among those, or that its steps end, `_FIXED` that it does not depend on them.
    """

    def __init__(self, body: Iterable[Literal], moving: frozenset[str]) -> None:
        literals = tuple(body)
        cuts = cut_reads(literals)
        read = [cuts.get(literal, literal) for literal in literals]
        self.body = [literal for literal in read if literal is not None]
        self.moving = moving
        self.known: dict[Argument, int] = {}

    def kind(self, value: Argument) -> int:
        """The best that some literal says of a value."""
        if isinstance(value, Code):
            return _FIXED
        if value not in self.known:
            self.known[value] = _MOVES  # nothing rests on itself
            self.known[value] = max(
                (self.said(literal, value) for literal in self.body), default=_MOVES
            )
        return self.known[value]

    def said(self, literal: Literal, value: Slot) -> int:
        """What one literal says of a value."""
        if isinstance(literal, Match):
            if value not in literal.args:
                return _MOVES
            return _STAYS if literal.relation in self.moving else _FIXED
        if isinstance(literal, Compare):
            sides = (literal.left, literal.right)
            if literal.op != "=" or value not in sides:
                return _MOVES
            return self.kind(sides[sides[0] == value])
        if isinstance(literal, Apply) and literal.target == value:
            return self.computed(literal)
        return _MOVES

    def computed(self, call: Apply) -> int:
        """What a functor makes of its arguments."""
        kinds = [self.kind(arg) for arg in call.args]
        least = min(kinds, default=_FIXED)
        last = call.args[-1] if call.args else None
        is_constant = isinstance(last, Code)
        few = (call.functor in ("%", "substr") and is_constant) or call.functor in _TRUTH
        if few or least == _FIXED:
            return _FIXED
        if least == _STAYS and (call.functor in _CHOOSING or call.functor == "range"):
            # Numbers between two values, of a range of step 1 or -1, stay between them.
            return _STAYS if len(call.args) == 2 else _MOVES
        if len(kinds) != 2 or least == _MOVES or call.functor not in _WAYS:
            return _MOVES
        first, step = call.args if is_constant else call.args[::-1]
        if not isinstance(step, Code) or not isinstance(step.value, int) or step.value <= 0:
            return _MOVES
        if call.functor == "-" and not is_constant:
            return _MOVES
        ends = any(self.ends(literal, {first, call.target}, call.functor) for literal in self.body)
        return _STAYS if ends else _MOVES

    def ends(self, test: Literal, steps: set[Argument], way: str) -> bool:
        """Whether a test holds what steps up below (or down above) something that stays put."""
        if not isinstance(test, Compare):
            return False
        return any(
            side in steps and op in _WAYS[way] and self.kind(other) == _FIXED
            for side, other, op in (
                (test.left, test.right, test.op),
                (test.right, test.left, _TURNED.get(test.op, "")),
            )
        )


def _depending(draft: Draft, stratum: frozenset[str]) -> frozenset[str]:
    """The hidden relations that need a stratum: what answers its negations and aggregates."""
    readers: dict[str, list[str]] = {}
    for clause in draft.clauses:
        for literal in clause.body:
            if isinstance(literal, (Match, Absent)):
                readers.setdefault(literal.relation, []).append(clause.head)
    for fold in draft.folds:
        readers.setdefault(fold.source, []).extend(filter(None, (fold.relation, fold.present)))
    hidden = {relation.name for relation in draft.relations if relation.hidden}
    depending: set[str] = set()
    queue = list(stratum)
    while queue:
        for name in readers.get(queue.pop(), ()):
            if name in hidden and name not in depending:
                depending.add(name)
                queue.append(name)
    return frozenset(depending)
