"""Recursion through aggregates: what each relation is asked for by, and what that asks for.

    height(n, h + 1) :- child(n, _), h = max p : { child(n, c), height(c, p) }.

`height` is asked for one `n` at a time, and asks for the heights of the children of `n`. Where that
never leads back to itself the rules have one solution, found from the bottom up: the program is
*modularly stratified* (Ross, "Modular stratification and magic sets for Datalog programs with
negation", JACM 41(6), 1994, https://doi.org/10.1145/195613.195646; the aggregates are those of
"Fixing incremental computation", section 6, "Extensions to Datalog"). A *key* is the columns that a
relation is asked for by. A call is a `need`, a clause over relations of lower strata alone, which
holds for the keys that make it: what these relations rule out asks for nothing. Only where they do
not say which key asks (a fold asks its source for each of its groups) the two relations are a
family, computed in a fixed order for each key (`~1`, the bindings, before `~2`, their maximum):

    ~1[n] needs height[c] :- child(n, c).        height[n] needs ~2[n] :- child(n, _).

Invariant: the rows of a key follow from lower relations and from the rows of the keys it needs,
whatever these are. So the solution is unique where needs have no cycle, which is for the executor
to see (`engine.beyond.founded`); where no choice of keys tells a group from what it needs there is
nothing to see, and `calls` is None.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from deltafix.plan.binding import evaluable
from deltafix.plan.clause import (
    Absent,
    Argument,
    Clause,
    Code,
    Fold,
    Literal,
    Match,
    Slot,
    slots_of,
)

_Pair = tuple[str, str, tuple[tuple[int, int], ...]]
"""A relation, one that it asks for the same key, and which column of it is which of the other."""


@dataclass(frozen=True, slots=True)
class Need:
    """Where `clause` holds, its head's first columns, a key of `caller`, need the rest, `callee`'s.

    Both stand for the families of these relations.
    """

    caller: str
    callee: str
    clause: Clause


@dataclass(frozen=True, slots=True)
class Calls:
    """By relation: the columns of its key (alike in a family), its family, its turn in there."""

    keys: dict[str, tuple[int, ...]]
    families: dict[str, int]
    turns: dict[str, int]
    needs: tuple[Need, ...]


def calls(clauses: tuple[Clause, ...], folds: tuple[Fold, ...]) -> Calls | None:
    """The calls of a recursion; None where it has none that could be founded.

    Quadratic in the columns times the clauses.
    """
    return _Calls(clauses, folds).solve()


class _Calls:
    def __init__(self, clauses: tuple[Clause, ...], folds: tuple[Fold, ...]) -> None:
        self.clauses = clauses
        self.folds = folds
        self.keys: dict[str, tuple[int, ...]] = {
            clause.head: tuple(range(len(clause.args))) for clause in clauses
        }
        for fold in folds:
            for name in fold.outputs:
                self.keys[name] = tuple(range(len(fold.group)))
        self.lower = [self._lower(clause) for clause in clauses]
        self.bound = [frozenset(evaluable(body)[1]) for body in self.lower]
        self.homes = {name: {name} for name in self.keys}
        self.asks: dict[str, set[str]] = {name: set() for name in self.keys}

    def solve(self) -> Calls | None:
        """Shrink the keys until every call is by one; then families, then what is left."""
        while self._shrink() or self._part():
            pass
        # All are on the way from one to another: what has one key only would need itself.
        if not all(self.keys.values()) or not all(map(self._join, self._same())):
            return None
        needs: list[Need] = []
        for clause, body, bound in zip(self.clauses, self.lower, self.bound, strict=True):
            for literal in self._within(clause):
                if not self._known(clause, literal, bound):
                    if self._pair(clause, literal) is None:
                        return None
                    continue  # a family, as `_same` says
                args = (
                    *(clause.args[column] for column in self.keys[clause.head]),
                    *self._asked(literal),
                )
                call = Clause("~needs", args, body, clause.rule)
                needs.append(Need(clause.head, literal.relation, call))
        return self._calls(needs)

    def _calls(self, needs: list[Need]) -> Calls | None:
        try:
            order = list(TopologicalSorter(self.asks).static_order())
        except CycleError:
            return None
        families: dict[str, int] = {}
        for name in order:
            families.setdefault(name, len({*families.values()}))
            families.update(dict.fromkeys(self.homes[name], families[name]))
        turns = {name: turn for turn, name in enumerate(order)}
        return Calls(self.keys, families, turns, tuple(needs))

    def _lower(self, clause: Clause) -> tuple[Literal, ...]:
        """What a clause says about lower relations, by itself."""
        own = [
            literal for literal in clause.body if getattr(literal, "relation", "") not in self.keys
        ]
        positive, bound = evaluable(own)
        return tuple(
            literal
            for literal in own
            if literal in positive
            or (isinstance(literal, Absent) and bound.issuperset(slots_of(literal)))
        )

    def _within(self, clause: Clause) -> Iterator[Match | Absent]:
        for literal in clause.body:
            if isinstance(literal, (Match, Absent)) and literal.relation in self.keys:
                yield literal

    def _keep(self, name: str, columns: Container[int]) -> bool:
        """Leave only these columns in a key; whether any went."""
        kept = tuple(column for column in self.keys[name] if column in columns)
        shrunk = kept != self.keys[name]
        self.keys[name] = kept
        return shrunk

    def _shrink(self) -> bool:
        shrunk = False
        for fold in self.folds:
            source = self.keys[fold.source]
            for name in fold.outputs:
                shrunk |= self._keep(name, [n for n, c in enumerate(fold.group) if c in source])
            shrunk |= self._keep(fold.source, [fold.group[n] for n in self.keys[fold.relation]])
        for clause, bound in zip(self.clauses, self.bound, strict=True):
            literals = list(self._within(clause))
            for literal in literals:
                given = {*bound, *self._heads(clause)}
                shrunk |= self._keep(
                    literal.relation, [n for n, arg in enumerate(literal.args) if _is(arg, given)]
                )
            through = [{*self._asked(literal)} for literal in literals]
            shrunk |= self._keep(
                clause.head,
                [
                    n
                    for n, arg in enumerate(clause.args)
                    if _is(arg, bound) or all(arg in asked for asked in through)
                ],
            )
        return shrunk

    def _part(self) -> bool:
        """Where a call is neither for the head's key nor known below: leave what is known below.

        One at a time, so that what else asks by these keys can follow.
        """
        for clause, bound in zip(self.clauses, self.bound, strict=True):
            for literal in self._within(clause):
                if self._pair(clause, literal) or self._known(clause, literal, bound):
                    continue
                head = [n for n, arg in enumerate(clause.args) if _is(arg, bound)]
                asked = [n for n, arg in enumerate(literal.args) if _is(arg, bound)]
                shrunk = self._keep(clause.head, head)
                if self._keep(literal.relation, asked) or shrunk:
                    return True
        return False

    def _heads(self, clause: Clause) -> tuple[Argument, ...]:
        return tuple(clause.args[column] for column in self.keys[clause.head])

    def _asked(self, literal: Match | Absent) -> tuple[Argument, ...]:
        """The key that a literal asks for; once keys are shrunk it has no wildcard."""
        args = (literal.args[column] for column in self.keys[literal.relation])
        return tuple(arg for arg in args if arg is not None)

    def _known(self, clause: Clause, literal: Match | Absent, bound: Container[Argument]) -> bool:
        args = (*self._heads(clause), *self._asked(literal))
        return all(_is(arg, bound) for arg in args)

    def _pair(self, clause: Clause, literal: Match | Absent) -> _Pair | None:
        """The columns that are the same, where a literal asks for the key of its clause's head."""
        heads, asked = self._heads(clause), self._asked(literal)
        alike = {*heads} == {*asked} and len({*heads}) == len(heads) == len(asked)
        if not alike or not all(isinstance(arg, Slot) for arg in heads):
            return None
        columns = {literal.args[column]: column for column in self.keys[literal.relation]}
        pairs = tuple((c, columns[clause.args[c]]) for c in self.keys[clause.head])
        return clause.head, literal.relation, pairs

    def _same(self) -> Iterator[_Pair]:
        """Calls for the same key that nothing but that says: by folds, and with no value known."""
        for fold in self.folds:
            for name in fold.outputs:
                yield name, fold.source, tuple((n, fold.group[n]) for n in self.keys[name])
        for clause, bound in zip(self.clauses, self.bound, strict=True):
            for literal in self._within(clause):
                pair = self._pair(clause, literal)
                if pair is not None and not self._known(clause, literal, bound):
                    yield pair

    def _join(self, pair: _Pair) -> bool:
        """Make one family of two, keys in one order; False if they are one, and in another."""
        name, other, columns = pair
        family, other_family = self.homes[name], self.homes[other]
        if family is other_family:
            if not self._aligned(name, other, columns):
                return False
        else:
            of = dict(columns)
            turned = [self.keys[other].index(of[column]) for column in self.keys[name]]
            for member in other_family:
                self.keys[member] = tuple(self.keys[member][index] for index in turned)
            family |= other_family
            for member in other_family:
                self.homes[member] = family
        self.asks[name].add(other)
        return True

    def _aligned(self, name: str, other: str, columns: tuple[tuple[int, int], ...]) -> bool:
        of = dict(columns)
        return tuple(of[column] for column in self.keys[name]) == self.keys[other]


def _is(arg: Argument | None, known: Container[Argument]) -> bool:
    return isinstance(arg, Code) or (arg is not None and arg in known)
