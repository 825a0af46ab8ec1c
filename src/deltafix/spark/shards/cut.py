"""Clauses cut into pieces, each of which finds every derivation in exactly one shard.

A piece joins literals that share key variables: all rows that agree on them are in one shard, so
the derivation is found there and nowhere else. A clause whose literals share nothing is cut in
two: what was joined so far becomes a hidden relation of the variables still needed, which is then
placed by the next key, as in any distributed join. Where even that does not help (a product), the
other literal is copied to every shard.

Invariant: the pieces derive what the clauses did, with one derivation for each of theirs. Which
relation lives where is `localize`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deltafix.facts.values import BaseType
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Match,
    Relation,
    Slot,
)


@dataclass(frozen=True, slots=True)
class Use:
    """A literal and the columns of its relation that hold the key; None: wanted everywhere."""

    literal: Match | Absent
    columns: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A clause that runs inside a shard. A lone use lies wherever its relation does: no key."""

    head: str
    args: tuple[Argument, ...]
    uses: tuple[Use, ...]
    tests: tuple[Compare | Apply, ...]

    @property
    def lone(self) -> bool:
        """Whether only one literal is placed, so that any home of it will do."""
        return sum(use.columns is not None for use in self.uses) == 1


@dataclass
class _Group:
    """Literals joined so far in one shard: what they bind, and what they all share."""

    first: Match
    keyed: list[Match | Absent] = field(default_factory=list)
    everywhere: list[Match | Absent] = field(default_factory=list)
    tests: list[Compare | Apply] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.key = variables(self.first.args)
        self.bound = set(self.key)
        self.keyed.append(self.first)
        self.extended = False

    def absorb(self, tests: list[Compare | Apply]) -> None:
        """Take the tests whose arguments are bound, with what they bind."""
        taken = True
        while taken:
            taken = False
            for test in list(tests):
                if self.runs(test):
                    tests.remove(test)
                    self.tests.append(test)
                    taken = self.extended = True

    def runs(self, test: Compare | Apply) -> bool:
        if isinstance(test, Apply):
            if variables(test.args) <= self.bound:
                self.bound.add(test.target.name)
                return True
            return False
        left, right = variables((test.left,)), variables((test.right,))
        if left | right <= self.bound:
            return True
        if test.op == "=" and (left <= self.bound or right <= self.bound):
            self.bound |= left | right
            return True
        return False

    def joins(self, literal: Match | Absent) -> bool:
        """Take a literal that shares a key variable with all that are here."""
        names = variables(literal.args)
        if isinstance(literal, Absent) and not names <= self.bound:
            return False
        if not names & self.key:
            return False
        self.key &= names
        self.bound |= names
        self.keyed.append(literal)
        self.extended = True
        return True

    def uses(self) -> tuple[Use, ...]:
        key = sorted(self.key)
        placed = [Use(lit, tuple(lit.args.index(Slot(name)) for name in key)) for lit in self.keyed]
        return (*placed, *(Use(literal, None) for literal in self.everywhere))


def variables(args: Iterable[object]) -> set[str]:
    """The names of the variables among arguments."""
    return {arg.name for arg in args if isinstance(arg, Slot)}


class Cutter:
    """Cuts clauses; keeps the hidden relations that it adds."""

    def __init__(self, types: Mapping[str, Sequence[BaseType]]) -> None:
        self._types = types
        self.joins: list[Relation] = []
        self.pieces: list[Piece] = []

    def cut(self, clause: Clause) -> None:
        """Append the pieces of a clause that has a positive literal."""
        kinds = self._kinds(clause)
        todo = [*clause.atoms]
        tests = [literal for literal in clause.body if isinstance(literal, Compare | Apply)]
        first = next(literal for literal in todo if isinstance(literal, Match))
        todo.remove(first)
        group = _Group(first)
        while True:
            self._grow(group, todo, tests)
            if not todo:
                self.pieces.append(
                    Piece(clause.head, clause.args, group.uses(), tuple(group.tests))
                )
                return
            if group.extended:
                group = _Group(self._hide(group, clause, todo, tests, kinds))
            else:
                # A product, or a test of absence that shares nothing.
                ready = [
                    x for x in todo if isinstance(x, Match) or variables(x.args) <= group.bound
                ]
                literal = next((x for x in ready if isinstance(x, Match)), ready[0])
                todo.remove(literal)
                group.everywhere.append(literal)
                group.bound |= variables(literal.args)
                group.extended = True

    def _grow(
        self, group: _Group, todo: list[Match | Absent], tests: list[Compare | Apply]
    ) -> None:
        grown = True
        while grown:
            group.absorb(tests)
            grown = False
            for literal in list(todo):
                if group.joins(literal):
                    todo.remove(literal)
                    grown = True

    def _hide(
        self,
        group: _Group,
        clause: Clause,
        todo: Sequence[Match | Absent],
        tests: Sequence[Compare | Apply],
        kinds: Mapping[str, BaseType],
    ) -> Match:
        """Make the group a hidden relation of the variables that are needed later."""
        later = variables(clause.args)
        for literal in todo:
            later |= variables(literal.args)
        for test in tests:
            later |= variables((test.left, test.right) if isinstance(test, Compare) else test.args)
            if isinstance(test, Apply):
                later.add(test.target.name)
        kept: list[Argument] = [Slot(name) for name in sorted(group.bound & later)]
        args = tuple(kept) or (Code(0, "number"),)
        name = f"~join {len(self.joins) + 1}"
        types = tuple(kinds[a.name] if isinstance(a, Slot) else a.type for a in args)
        self.joins.append(Relation(name, types, hidden=True))
        self.pieces.append(Piece(name, args, group.uses(), tuple(group.tests)))
        return Match(name, args)

    def _kinds(self, clause: Clause) -> dict[str, BaseType]:
        """The types of a clause's variables."""
        kinds: dict[str, BaseType] = {}
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                for arg, kind in zip(literal.args, self._types[literal.relation], strict=True):
                    if isinstance(arg, Slot):
                        kinds[arg.name] = kind
            elif isinstance(literal, Compare):
                kinds.update(dict.fromkeys(variables((literal.left, literal.right)), literal.type))
            else:
                kinds[literal.target.name] = literal.result
                kinds.update(
                    {a.name: t for a, t in zip(literal.args, literal.types, strict=True)
                     if isinstance(a, Slot)}
                )  # fmt: skip
        return kinds
