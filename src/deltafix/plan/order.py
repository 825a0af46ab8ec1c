"""Join order: for every set of literals already joined, what can come next and how.

The order itself is chosen at run time, per binding, by the number of candidate rows; this module
lists the options. A literal is an option when one of its columns is known (or nothing is
connected); an aggregate of a known group is the only one. While more than `FREE` literals are left
there is one option only, a whole row or else what has the most known columns, so that the number of
nodes stays small; of strata that run in Python no literal is left free.
Re-derivation takes only options whose index is there already, and adds one only where there is none
(measured: tc needs no index for it on its large relation). Invariant: the nodes of a variant form a
DAG from node 0; each path joins every literal once and runs every check as soon as its arguments
are known, but for calls that may raise.

Those are SQL's and the user's (`Apply.partial`), and asked last, in the order of the body: of what
every other literal lets through, so that an edit raises where all rows at once do, whichever
literal its rows enter by. What other literals are found by is computed before these (`asked_last`).

A constructor runs both ways: a known value gives its fields, known fields give their value; the
literal then tests what it bound, so nothing is left out.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from typing import TypeAlias

from deltafix.errors import InternalError
from deltafix.plan.best import best_of
from deltafix.plan.binding import Equal, is_construction
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
from deltafix.plan.depend import Layer
from deltafix.plan.derive import changes_with, sees
from deltafix.plan.ir import HEAD, Candidate, Check, Node, Variant

FREE = 6

_Joined: TypeAlias = tuple[tuple[Argument, ...], tuple[tuple[int, Argument, bool], ...]]
"""The keys and binds of a `Candidate`."""


@dataclass
class Indexes:
    """The key columns that each relation is indexed by, in the order they were asked for.

    `unique` are columns whose values one row has at most, where that is known: of a table its key,
    of an aggregate's relation the group.
    """

    columns: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    unique: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def has(self, relation: str, columns: tuple[int, ...]) -> bool:
        """Whether there is an index on exactly these columns."""
        return columns in self.columns.get(relation, ())

    def add(self, relation: str, columns: tuple[int, ...]) -> None:
        """Ask for an index on these columns."""
        if not self.has(relation, columns):
            self.columns.setdefault(relation, []).append(columns)

    def within(self, relation: str, columns: tuple[int, ...]) -> tuple[int, ...] | None:
        """The index with the most columns among those that use only the given ones."""
        usable = [c for c in self.columns.get(relation, ()) if set(c) <= set(columns)]
        return max(usable, key=len, default=None)


def unique(relations: Iterable[Relation], folds: Iterable[Fold]) -> dict[str, tuple[int, ...]]:
    """The columns that one row of a relation has at most, of relations where they are not all.

    A table's are what its declaration says. They decide what is looked up when, not what is found.
    """
    keys = {relation.name: tuple(sorted(relation.key)) for relation in relations if relation.key}
    valued = (fold for fold in folds if fold.group and fold.has_value)
    return keys | {fold.relation: tuple(range(len(fold.group))) for fold in valued}


def variant(
    layer: Layer,
    clause: Clause,
    trigger: int | None,
    indexes: Indexes,
    *,
    turns: bool = True,
    free: int = FREE,
) -> Variant:
    """The variant of `clause` started by the literal `trigger` (see `ir.Variant`).

    Without `turns` it calls no functor that is not in the clause (see `turned`). The order of the
    last `free` literals is open: with 0 each node has one candidate, and the next node behind it.
    """
    return _Builder(layer, clause, trigger, indexes, turns=turns, free=free).build()


class _Builder:
    def __init__(
        self,
        layer: Layer,
        clause: Clause,
        trigger: int | None,
        indexes: Indexes,
        *,
        turns: bool,
        free: int,
    ) -> None:
        self.layer = layer
        self.clause = clause
        self.trigger = trigger
        self.indexes = indexes
        self.turns = turns
        self.free = free
        self.nodes: list[Node | None] = []
        self.numbers: dict[frozenset[int], int] = {}
        self.slots = [frozenset(slots_of(literal)) for literal in clause.body]
        self.states = [sees(layer, clause, trigger, at) for at in range(len(clause.body))]
        numbered = list(enumerate(clause.body))
        self.tests = frozenset(n for n, literal in numbered if not isinstance(literal, Match))
        self.last = asked_last(clause.body)
        self.readers: dict[Slot, list[int]] = {}
        for position, slots in enumerate(self.slots):
            for slot in slots:
                self.readers.setdefault(slot, []).append(position)
        # What a literal is where some of its variables are known is said once for all nodes: the
        # linker writes it once.
        self.joined: dict[tuple[int, tuple[int, ...], frozenset[Slot]], _Joined] = {}
        self.tested: dict[tuple[int, frozenset[Slot]], Check] = {}

    def build(self) -> Variant:
        bound: set[Slot] = set()
        binds: tuple[tuple[int, Argument, bool], ...] = ()
        todo = frozenset(range(len(self.clause.body)))
        negated = False
        if self.trigger is not None:
            args: tuple[Argument | None, ...]
            if self.trigger < 0:
                args = self.head()
            else:
                literal = self.clause.body[self.trigger]
                assert isinstance(literal, Match | Absent)  # noqa: S101  only these trigger
                args = literal.args
                negated = changes_with(literal) < 0
                todo -= {self.trigger}
            binds = _binding(args, range(len(args)), bound)
        self.node(*self.long(todo, bound))
        slots = dict.fromkeys(chain.from_iterable(map(slots_of, self.clause.body)))
        slots |= dict.fromkeys(arg for arg in self.clause.args if isinstance(arg, Slot))
        nodes = tuple(node for node in self.nodes if node is not None)
        return Variant(self.clause, self.trigger, binds, tuple(slots), nodes, negated)

    def head(self) -> tuple[Argument | None, ...]:
        """The head's arguments that are known: of a KEY variant all but the kept one."""
        if self.trigger == HEAD:
            return self.clause.args
        kept = dict(best_of(self.layer))[self.clause.head].column
        return tuple(None if c == kept else arg for c, arg in enumerate(self.clause.args))

    def long(
        self, todo: frozenset[int], known: set[Slot]
    ) -> tuple[frozenset[int], frozenset[Slot]]:
        """The nodes of a long body until `free` literals are left; gives what is left, and known.

        One literal a node: the first whole row, else that with the most known columns. Near linear.
        """
        left = todo - self.tests
        if len(left) <= self.free:
            return todo, frozenset(known)
        waiting, matches = self.waiting(todo, known), _Matches(self.clause, left, known)
        while len(left) > self.free:
            checks = self.settled(waiting, known, matches)
            position = matches.next(left)
            left -= {position}
            literal = self.clause.body[position]
            assert isinstance(literal, Match)  # noqa: S101  the kind that was asked for
            columns, _ = self.columns(literal, known)
            ((_, index),) = self.indexed([(position, literal, columns)])
            option = self.candidate(position, index, known, len(self.nodes) + 1)
            self.nodes.append(Node(tuple(checks), (option,)))
            self.learn(self.slots[position] - known, known, waiting, matches)
        return left | waiting.tests, frozenset(known)

    def node(self, todo: frozenset[int], bound: Set[Slot]) -> int:
        """The node for what is left to do; nodes are shared between orders."""
        if todo in self.numbers:
            return self.numbers[todo]
        number = len(self.nodes)
        self.numbers[todo] = number
        self.nodes.append(None)
        known = set(bound)
        tests = self.waiting(todo, known)
        checks = self.settled(tests, known, is_last=todo <= self.tests)
        left = todo - self.tests | tests.tests
        options = self.options(left, known)
        if left and not options:
            waiting = ", ".join(str(self.clause.body[position]) for position in sorted(left))
            raise InternalError(f"plan: nothing binds the variables of {waiting}")
        candidates = []
        for position, index in options:
            child = self.node(left - {position}, known | self.slots[position])
            candidates.append(self.candidate(position, index, known, child))
        self.nodes[number] = Node(tuple(checks), tuple(candidates))
        return number

    def candidate(
        self, position: int, index: tuple[int, ...], known: Set[Slot], child: int
    ) -> Candidate:
        """A literal found by an index, where these variables are known; it binds all of its own."""
        literal = self.clause.body[position]
        assert isinstance(literal, Match)  # noqa: S101  checks are done, matches are left
        key = position, index, self.slots[position] & known
        joined = self.joined.get(key)
        if joined is None:
            keys = tuple(arg for arg in (literal.args[c] for c in index) if arg is not None)
            rest = [c for c in range(len(literal.args)) if c not in index]
            joined = self.joined[key] = keys, _binding(literal.args, rest, set(key[2]))
        return Candidate(position, literal, self.states[position], index, *joined, child)

    def check(self, position: int, known: set[Slot]) -> Check:
        """A check that is ready; `known` grows by the variable it binds, if it binds one."""
        key = position, self.slots[position] & known
        check = self.tested.get(key)
        if check is None:
            literal = self.clause.body[position]
            assert not isinstance(literal, Match)  # noqa: S101  matches are no checks
            slot = ready(literal, known)
            binds = slot if isinstance(slot, Slot) else None
            check = self.tested[key] = Check(literal, self.states[position], binds)
        if check.binds is not None:
            known.add(check.binds)
        return check

    def calls(self, position: int, calls: Iterable[Apply], known: set[Slot]) -> Iterator[Check]:
        """What a literal is turned into; `known` grows by what that binds."""
        state = self.states[position]
        for call in calls:
            known.add(call.target)
            yield Check(call, state, call.target)

    def waiting(self, todo: Iterable[int], known: Set[Slot]) -> _Waiting:
        """The checks that are left to do."""
        return _Waiting(self.clause.body, self.tests.intersection(todo), self.last, known)

    def settled(
        self,
        waiting: _Waiting,
        known: set[Slot],
        matches: _Matches | None = None,
        *,
        is_last: bool = False,
    ) -> list[Check]:
        """The checks that can run, in an order that lets one bind for the next.

        A constructor is turned only when nothing can run as it stands, and what is asked last is
        asked when `is_last`. Near linear in the literals that read what becomes known.
        """
        checks: list[Check] = []
        while True:
            before = len(checks)
            if (position := waiting.next()) is not None:
                checks.append(self.check(position, known))
            elif self.turns and (way := waiting.turned(self.readers, known)):
                checks.extend(self.calls(*way, known))
            elif is_last and (position := waiting.next(is_last=True)) is not None:
                checks.append(self.check(position, known))
            else:
                return checks
            new = {check.binds for check in checks[before:] if check.binds is not None}
            self.learn(new, known, waiting, matches)

    def learn(
        self, new: Iterable[Slot], known: set[Slot], waiting: _Waiting, matches: _Matches | None
    ) -> None:
        """Note that variables have become known, where somebody reads them."""
        known.update(new)
        for slot in new:
            for position in self.readers[slot]:
                if position in self.tests:
                    waiting.rate(position, known)
                elif matches is not None:
                    matches.rate(position, known)

    def options(self, left: frozenset[int], known: set[Slot]) -> list[tuple[int, tuple[int, ...]]]:
        """Literals that may come next, each with the index that finds it."""
        matches = []
        for position in sorted(left):
            literal = self.clause.body[position]
            if isinstance(literal, Match):
                columns, is_one = self.columns(literal, known)
                matches.append((position, literal, columns))
                if is_one:
                    return self.indexed(matches[-1:])
        return self.indexed([m for m in matches if m[2] or not m[1].args] or matches)

    def columns(self, literal: Match, known: Set[Slot]) -> tuple[tuple[int, ...], bool]:
        """The columns that a literal is found by, and whether one row has them at most.

        Nothing that comes before such a literal makes it cheaper: a rule with ten aggregates has
        one order of them, not two to the tenth. What else is known is compared: a table is not
        indexed by its key and each column that some view asks for (TPC-H: 137 indexes for 169).
        """
        columns = _known_columns(literal, known)
        unique = self.indexes.unique.get(literal.relation, ())
        is_one = bool(unique) and set(unique) <= set(columns)
        return (unique if is_one and len(columns) < len(literal.args) else columns), is_one

    def indexed(
        self, options: list[tuple[int, Match, tuple[int, ...]]]
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Options by their known columns, each with an index on these, or less of one."""
        if self.trigger is not None and self.trigger < 0:
            return self.existing(options)
        for _, literal, columns in options:
            if columns and len(columns) < len(literal.args):
                self.indexes.add(literal.relation, columns)
        return [(position, columns) for position, _, columns in options]

    def existing(
        self, options: list[tuple[int, Match, tuple[int, ...]]]
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Options of a re-derivation: those with an index, or one new index on the best."""
        chosen = []
        for position, literal, columns in options:
            if len(columns) == len(literal.args):
                chosen.append((position, columns))
                continue
            usable = self.indexes.within(literal.relation, columns)
            if usable is not None:
                chosen.append((position, usable))
        if chosen or not options:
            return chosen
        lower = [o for o in options if o[1].relation not in self.layer.relations] or options
        position, literal, columns = max(lower, key=lambda o: len(o[2]))
        if columns:
            self.indexes.add(literal.relation, columns)
        return [(position, columns)]


class _Waiting:
    """The checks of a body that are not done, and which of them is next."""

    def __init__(
        self, body: Sequence[Literal], tests: Set[int], last: Set[int], known: Set[Slot]
    ) -> None:
        self.body = body
        self.tests = set(tests)
        self.last = last
        self.ready: tuple[list[tuple[bool, int]], ...] = [], []
        self.unready: list[int] = []
        for position in sorted(tests):
            self.rate(position, known)

    def rate(self, position: int, known: Set[Slot]) -> None:
        """Note a check where it now stands; what was noted of it before counts no more."""
        literal = self.body[position]
        if position not in self.tests or isinstance(literal, Match):
            return
        stands = ready(literal, known)
        if stands is not False:
            makes = stands is not True or not isinstance(literal, Compare)
            heappush(self.ready[position in self.last], (makes, position))
        elif is_construction(literal):
            heappush(self.unready, position)

    def next(self, *, is_last: bool = False) -> int | None:
        """The first check that is ready, of those that are asked last or of the others.

        Comparisons come before what computes: a row that they drop costs nothing else.
        """
        queue = self.ready[is_last]
        while queue:
            _, position = heappop(queue)
            if position in self.tests:
                self.tests.remove(position)
                return position
        return None

    def turned(
        self, readers: Mapping[Slot, Sequence[int]], known: Set[Slot]
    ) -> tuple[int, tuple[Apply, ...]] | None:
        """The first of the checks that wait that can be turned, and into what."""
        while self.unready:
            position = heappop(self.unready)
            literal = self.body[position]
            near = {reader for slot in slots_of(literal) for reader in readers[slot]}
            others = (self.body[reader] for reader in sorted(near & self.tests))
            if position in self.tests and (calls := turned(literal, others, known)):
                return position, calls
        return None


class _Matches:
    """The atoms of a long body, and which of them is next."""

    def __init__(self, clause: Clause, left: Iterable[int], known: Set[Slot]) -> None:
        self.body = clause.body
        self.best: list[tuple[bool, int, int]] = []
        for position in sorted(left):
            self.rate(position, known)

    def rate(self, position: int, known: Set[Slot]) -> None:
        """Note an atom where it now stands; what was noted of it before counts no more."""
        literal = self.body[position]
        assert isinstance(literal, Match)  # noqa: S101  what is no check
        columns = len(_known_columns(literal, known))
        heappush(self.best, (columns < len(literal.args), -columns, position))

    def next(self, left: Set[int]) -> int:
        """The first of those that are left: whole rows, then those with the most known columns."""
        while True:
            position = heappop(self.best)[2]
            if position in left:
                return position


def asked_last(body: Sequence[Literal]) -> frozenset[int]:
    """The calls that may raise, but for those whose value another atom is found by. Near linear.

    An atom is found by what its columns hold, as it is or in a record; by what was computed of its
    own columns none is. What stands before such a call, about the same atoms, comes before it.
    """
    partial = [
        n
        for n, literal in enumerate(body)
        if isinstance(literal, Apply) and literal.partial is not False
    ]
    if not partial:
        return frozenset()
    equal = Equal(body)
    atoms = equal.atoms
    keys = [
        maker
        for target, makers in equal.makers.items()
        for maker in makers
        if target in atoms
        and any(not atoms[target] <= atoms[value] for value in equal.behind(maker))
    ]
    early = set[int]()
    while keys:
        position = keys.pop()
        if position not in early:
            early.add(position)
            for slot in slots_of(body[position])[1:]:
                keys += equal.makers.get(equal.root(slot), ())
    last = sorted({*partial} - early)
    for key in early.intersection(partial):
        about = set[int]().union(*(atoms[value] for value in equal.behind(key)))
        before = last[: bisect(last, key)]
        early.update(n for n in before if all(atoms[value] & about for value in equal.behind(n)))
    return frozenset(last) - early


def _known_columns(literal: Match, known: Set[Slot]) -> tuple[int, ...]:
    return tuple([c for c, arg in enumerate(literal.args) if isinstance(arg, Code) or arg in known])


def _binding(
    args: tuple[Argument | None, ...], columns: range | list[int], known: set[Slot]
) -> tuple[tuple[int, Argument, bool], ...]:
    """What matching a row's columns binds and tests; adds the bound variables to `known`."""
    bindings = []
    for column in columns:
        arg = args[column]
        if arg is None:
            continue
        binds = isinstance(arg, Slot) and arg not in known
        bindings.append((column, arg, binds))
        if isinstance(arg, Slot):
            known.add(arg)
    return tuple(bindings)


def ready(literal: Compare | Apply | Absent, known: Set[Slot]) -> Slot | bool:
    """False: not yet. True: it tests. A slot: it binds that variable."""
    if isinstance(literal, Compare):
        left = isinstance(literal.left, Code) or literal.left in known
        right = isinstance(literal.right, Code) or literal.right in known
    else:
        for arg in literal.args:
            if not (isinstance(arg, Code) or arg in known):
                return False
        if isinstance(literal, Absent) or literal.target in known:
            return True
        return literal.target
    if left and right:
        return True
    if literal.op == "=" and left and isinstance(literal.right, Slot):
        return literal.right
    if literal.op == "=" and right and isinstance(literal.left, Slot):
        return literal.left
    return False


def turned(literal: Literal, others: Iterable[Literal], known: Set[Slot]) -> tuple[Apply, ...]:
    """Calls that bind what a literal waits for; none: nothing does yet.

    `others` are the literals that wait beside it: a value is made once all its fields are known,
    and each of those is read by a literal of its own.
    """
    if not isinstance(literal, Apply) or not is_construction(literal):
        return ()
    return _constructed(literal, others, known) if literal.fields else _read(literal, known)


def _read(literal: Apply, known: Set[Slot]) -> tuple[Apply, ...]:
    """The fields of a value that is known."""
    if literal.target not in known:
        return ()
    width, name = len(literal.args), literal.functor
    columns = {arg: n for n, arg in enumerate(literal.args) if isinstance(arg, Slot)}
    return tuple(
        Apply(slot, f"{name}.{n}", (literal.target,), (literal.result,), literal.types[n], width)
        for slot, n in columns.items()
        if slot not in known
    )


def _constructed(literal: Apply, others: Iterable[Literal], known: Set[Slot]) -> tuple[Apply, ...]:
    """The value whose fields are all known."""
    (source,) = literal.args
    if not isinstance(source, Slot) or source in known:
        return ()
    fields = {
        other.functor: other
        for other in others
        if isinstance(other, Apply) and other.args == (source,) and other.target in known
    }
    name, _, _ = literal.functor.rpartition(".")
    by_field = [fields.get(f"{name}.{n}") for n in range(literal.fields)]
    read = [call for call in by_field if call is not None]
    if len(read) < len(by_field):
        return ()
    kinds = tuple(call.result for call in read)
    return (Apply(source, name, tuple(call.target for call in read), kinds, literal.types[0]),)
