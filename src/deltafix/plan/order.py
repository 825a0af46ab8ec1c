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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from deltafix.errors import InternalError
from deltafix.plan.best import best_of
from deltafix.plan.binding import Equal, is_construction
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
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
from deltafix.plan.ir import HEAD, Candidate, Check, Node, Sees, Variant, Way

FREE = 6


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
    """The variant of `clause` started by the literal `trigger` (see `Variants`)."""
    return Variants(layer, clause, indexes, turns=turns, free=free).of(trigger)


_Settled: TypeAlias = tuple[tuple[tuple[int, Apply | None, Slot | None], ...], int, int]
"""Checks that run (position, what it is turned into if it is, what it binds), those that are left,
and the variables that are known then."""


class Variants:
    """The variants of a clause; `of` gives one (see `ir.Variant`).

    Without `turns` they call no functor that is not in the clause (see `_turned`). The order of the
    last `free` literals is open: with 0 each node has one candidate, and the next node behind it.

    Sets of literals and of variables are integers, a bit each. What can come next depends on what
    is left and known alone, whichever literal came first, so it is found once for all variants.
    """

    def __init__(
        self,
        layer: Layer,
        clause: Clause,
        indexes: Indexes,
        *,
        turns: bool = True,
        free: int = FREE,
    ) -> None:
        self.layer = layer
        self.clause = clause
        self.indexes = indexes
        self.turns = turns
        self.free = free
        self.bits: dict[Slot, int] = {}
        self.slots = [self.bits_of(slots_of(literal)) for literal in clause.body]
        self.bits_of(arg for arg in clause.args if isinstance(arg, Slot))
        self.names = tuple(self.bits)
        self.readers: dict[int, list[int]] = {bit: [] for bit in self.bits.values()}
        self.args: dict[int, tuple[tuple[int, int], ...]] = {}  # of atoms: columns, and variables
        self.needs: dict[int, tuple[int, int]] = {}  # of tests: the variables of their sides
        self.tests = 0
        for position, literal in enumerate(clause.body):
            if isinstance(literal, Match):
                args = enumerate(literal.args)
                self.args[position] = tuple([(n, self.bit(a)) for n, a in args if a is not None])
            else:
                self.tests |= 1 << position
                self.needs[position] = self.sides(literal)
            for bit in _bits(self.slots[position]):
                self.readers[bit].append(position)
        self.last = sum(1 << position for position in asked_last(clause.body))
        self.found: dict[tuple[int, int], tuple[Way, bool]] = {}
        self.joined: dict[tuple[int, tuple[int, ...], int], Way] = {}
        self.tested: dict[tuple[int, Sees, Slot | None], Check] = {}
        self.ready: dict[tuple[int, int, bool], _Settled] = {}
        self.ways: dict[tuple[int, int], tuple[Way, ...]] = {}
        # Of the variant that is made:
        self.trigger: int | None = None
        self.states: list[Sees] = []
        self.nodes: list[Node | None] = []
        self.numbers: dict[int, int] = {}

    def bits_of(self, slots: Iterable[Slot]) -> int:
        """Variables as a set."""
        found = 0
        for slot in slots:
            found |= self.bits.setdefault(slot, 1 << len(self.bits))
        return found

    def bit(self, arg: Argument) -> int:
        """The variables of an argument."""
        return self.bits[arg] if isinstance(arg, Slot) else 0

    def sides(self, literal: Compare | Apply | Absent) -> tuple[int, int]:
        """The variables of a comparison's sides; else of all arguments, and of a call's value."""
        if isinstance(literal, Compare):
            return self.bit(literal.left), self.bit(literal.right)
        target = self.bit(literal.target) if isinstance(literal, Apply) else 0
        return self.bits_of(arg for arg in literal.args if isinstance(arg, Slot)), target

    def of(self, trigger: int | None) -> Variant:
        """The variant that the literal `trigger` starts."""
        self.trigger, self.nodes, self.numbers = trigger, [], {}
        body = self.clause.body
        self.states = [sees(self.layer, self.clause, trigger, at) for at in range(len(body))]
        known = 0
        binds: tuple[tuple[int, Argument, bool], ...] = ()
        todo = (1 << len(body)) - 1
        negated = False
        if trigger is not None:
            args: tuple[Argument | None, ...]
            if trigger < 0:
                args = self.head()
            else:
                literal = body[trigger]
                assert isinstance(literal, (Match, Absent))  # noqa: S101  only these trigger
                args = literal.args
                negated = changes_with(literal) < 0
                todo &= ~(1 << trigger)
            binds = self.binding(args, range(len(args)), known)
            known = self.bits_of(arg for _, arg, _ in binds if isinstance(arg, Slot))
        self.node(*self.long(todo, known))
        nodes = tuple([node for node in self.nodes if node is not None])
        return Variant(self.clause, trigger, binds, self.names, nodes, negated)

    def head(self) -> tuple[Argument | None, ...]:
        """The head's arguments that are known: of a KEY variant all but the kept one."""
        if self.trigger == HEAD:
            return self.clause.args
        kept = dict(best_of(self.layer))[self.clause.head].column
        return tuple(None if c == kept else arg for c, arg in enumerate(self.clause.args))

    def long(self, todo: int, known: int) -> tuple[int, int]:
        """The nodes of a long body until `free` literals are left; gives what is left, and known.

        One literal a node: the first whole row, else that with the most known columns. Near linear.
        """
        left = todo & ~self.tests
        if left.bit_count() <= self.free:
            return todo, known
        waiting, matches = _Waiting(self, todo & self.tests, known), _Matches(self, left, known)
        while left.bit_count() > self.free:
            checks, known = self.settled(waiting, known, matches)
            position = matches.next(left)
            left &= ~(1 << position)
            way, _ = self.found_by(position, known)
            (way,) = self.indexed((way,), known)
            option = Candidate(way, self.states[position], len(self.nodes) + 1)
            self.nodes.append(Node(self.checks(checks), (option,)))
            known = self.learn(self.slots[position], known, waiting, matches)
        return left | waiting.tests, known

    def node(self, todo: int, known: int) -> int:
        """The node for what is left to do, which has none yet; nodes are shared between orders."""
        number = self.numbers[todo] = len(self.nodes)
        self.nodes.append(None)
        tests, left = todo & self.tests, todo & ~self.tests
        checks: tuple[Check, ...] = ()
        if tests:
            key = tests, known, not left
            settled = self.ready.get(key)
            if settled is None:
                waiting = _Waiting(self, tests, known)
                ran, known = self.settled(waiting, known, is_last=not left)
                settled = self.ready[key] = tuple(ran), waiting.tests, known
            ran_now, tests, known = settled
            checks = self.checks(ran_now)
            left |= tests
        ways = self.options(left, known) if left else ()
        if left and not ways:
            shown = ", ".join(str(self.clause.body[bit.bit_length() - 1]) for bit in _bits(left))
            raise InternalError(f"plan: nothing binds the variables of {shown}")
        candidates = []
        for way in ways:
            position = way.literal
            rest = left & ~(1 << position)
            child = self.numbers.get(rest)
            if child is None:
                child = self.node(rest, known | self.slots[position])
            candidates.append(Candidate(way, self.states[position], child))
        self.nodes[number] = Node(checks, tuple(candidates))
        return number

    def way(self, position: int, by: tuple[int, ...], known: int) -> Way:
        """A literal found by an index, where these variables are known; it binds all of its own.

        One thing for all nodes, as a check is: the linker writes it once.
        """
        key = position, by, self.slots[position] & known
        way = self.joined.get(key)
        if way is None:
            literal = self.clause.body[position]
            assert isinstance(literal, Match)  # noqa: S101  checks are done, matches are left
            keys = tuple(arg for arg in (literal.args[c] for c in by) if arg is not None)
            rest = [c for c in range(len(literal.args)) if c not in by]
            binds = self.binding(literal.args, rest, known)
            way = self.joined[key] = Way(position, literal, by, keys, binds)
        return way

    def binding(
        self, args: tuple[Argument | None, ...], columns: Iterable[int], known: int
    ) -> tuple[tuple[int, Argument, bool], ...]:
        """What matching a row's columns binds and tests."""
        bindings = []
        for column in columns:
            arg = args[column]
            if arg is not None:
                bit = self.bit(arg)
                bindings.append((column, arg, bool(bit & ~known)))
                known |= bit
        return tuple(bindings)

    def checks(self, ran: Iterable[tuple[int, Apply | None, Slot | None]]) -> tuple[Check, ...]:
        """Checks, with the states that the variant sees."""
        return tuple([self.check(*one) for one in ran])

    def check(self, position: int, call: Apply | None, binds: Slot | None) -> Check:
        """A literal that tests or computes, or what it was turned into."""
        state = self.states[position]
        if call is not None:
            return Check(call, state, binds)
        key = position, state, binds
        check = self.tested.get(key)
        if check is None:
            literal = self.clause.body[position]
            assert not isinstance(literal, Match)  # noqa: S101  matches are no checks
            check = self.tested[key] = Check(literal, state, binds)
        return check

    def settled(
        self,
        waiting: _Waiting,
        known: int,
        matches: _Matches | None = None,
        *,
        is_last: bool = False,
    ) -> tuple[list[tuple[int, Apply | None, Slot | None]], int]:
        """The checks that can run, in an order that lets one bind for the next; what is known then.

        A constructor is turned only when nothing can run as it stands, and what is asked last is
        asked when `is_last`. Near linear in the literals that read what becomes known.
        """
        checks: list[tuple[int, Apply | None, Slot | None]] = []
        while True:
            before = len(checks)
            if (position := waiting.next()) is not None:
                checks.append((position, None, waiting.binds(position, known)))
            elif self.turns and (way := waiting.turned(known)):
                checks.extend((way[0], call, call.target) for call in way[1])
            elif is_last and (position := waiting.next(is_last=True)) is not None:
                checks.append((position, None, waiting.binds(position, known)))
            else:
                return checks, known
            new = self.bits_of(slot for *_, slot in checks[before:] if slot is not None)
            known = self.learn(new, known, waiting, matches)

    def learn(self, new: int, known: int, waiting: _Waiting, matches: _Matches | None) -> int:
        """Note that variables have become known, where somebody reads them."""
        new &= ~known
        known |= new
        for bit in _bits(new):
            for position in self.readers[bit]:
                if position in self.needs:
                    waiting.rate(position, known)
                elif matches is not None:
                    matches.rate(position, known)
        return known

    def options(self, left: int, known: int) -> tuple[Way, ...]:
        """Literals that may come next, each with the index that finds it.

        Those of a re-derivation depend on the indexes that are there by then.
        """
        if self.trigger is not None and self.trigger < 0:
            return self.indexed(self.connected(left, known), known)
        ways = self.ways.get((left, known))
        if ways is None:
            ways = self.ways[left, known] = self.indexed(self.connected(left, known), known)
        return ways

    def connected(self, left: int, known: int) -> tuple[Way, ...]:
        """The literals that may come next, by their known columns.

        Nothing that comes before one that has one row at most makes it cheaper: a rule with ten
        aggregates has one order of them, not two to the tenth.
        """
        ways = []
        for position in self.args:
            if left >> position & 1:
                way, is_one = self.found_by(position, known)
                if is_one:
                    return (way,)
                ways.append(way)
        return tuple([way for way in ways if way.by or not way.match.args] or ways)

    def found_by(self, position: int, known: int) -> tuple[Way, bool]:
        """A literal by all of its columns that are known, or those that one row has at most.

        Whether one row has them at most stands beside it.

        What else is known is compared: a table is not indexed by its key and each column that some
        view asks for (TPC-H: 137 indexes for 169).
        """
        key = position, self.slots[position] & known
        found = self.found.get(key)
        if found is None:
            literal = self.clause.body[position]
            assert isinstance(literal, Match)  # noqa: S101  as above
            columns = self.columns(position, known)
            unique = self.indexes.unique.get(literal.relation, ())
            is_one = bool(unique) and set(unique) <= set(columns)
            by = unique if is_one and len(columns) < len(literal.args) else columns
            found = self.found[key] = self.way(position, by, known), is_one
        return found

    def columns(self, position: int, known: int) -> tuple[int, ...]:
        """The columns of an atom that are known."""
        return tuple([column for column, bit in self.args[position] if not bit & ~known])

    def indexed(self, ways: tuple[Way, ...], known: int) -> tuple[Way, ...]:
        """Ways by their known columns, each with an index on these, or less of one."""
        if self.trigger is not None and self.trigger < 0:
            return self.existing(ways, known)
        for way in ways:
            if 0 < len(way.by) < len(way.match.args):
                self.indexes.add(way.match.relation, way.by)
        return ways

    def existing(self, ways: tuple[Way, ...], known: int) -> tuple[Way, ...]:
        """Those of a re-derivation: ways with an index, or one new index on the best."""
        chosen = []
        for way in ways:
            if len(way.by) == len(way.match.args):
                chosen.append(way)
                continue
            usable = self.indexes.within(way.match.relation, way.by)
            if usable is not None:
                chosen.append(self.way(way.literal, usable, known))
        if chosen or not ways:
            return tuple(chosen)
        lower = [w for w in ways if w.match.relation not in self.layer.relations] or ways
        best = max(lower, key=lambda way: len(way.by))
        if best.by:
            self.indexes.add(best.match.relation, best.by)
        return (best,)


def _bits(some: int) -> Iterator[int]:
    """The members of a set, each as a set."""
    while some:
        low = some & -some
        yield low
        some ^= low


class _Waiting:
    """The checks of a body that are not done, and which of them is next."""

    def __init__(self, of: Variants, tests: int, known: int) -> None:
        self.of = of
        self.tests = tests
        self.queues: tuple[list[tuple[bool, int]], ...] = [], []
        self.unready: list[int] = []
        for position in of.needs:
            if tests >> position & 1:
                self.rate(position, known)

    def rate(self, position: int, known: int) -> None:
        """Note a check where it now stands; what was noted of it before counts no more."""
        if not self.tests >> position & 1:
            return
        stands = self.stands(position, known)
        if stands is not False:
            makes = stands is not True or not isinstance(self.of.clause.body[position], Compare)
            heappush(self.queues[self.of.last >> position & 1], (makes, position))
        elif is_construction(self.of.clause.body[position]):
            heappush(self.unready, position)

    def stands(self, position: int, known: int) -> Slot | bool:
        """False: not yet. True: it tests. A slot: it binds that variable."""
        literal = self.of.clause.body[position]
        left, right = self.of.needs[position]
        if not isinstance(literal, Compare):
            if left & ~known:
                return False
            return literal.target if isinstance(literal, Apply) and right & ~known else True
        if not (left | right) & ~known:
            return True
        if literal.op == "=" and not left & ~known and isinstance(literal.right, Slot):
            return literal.right
        if literal.op == "=" and not right & ~known and isinstance(literal.left, Slot):
            return literal.left
        return False

    def binds(self, position: int, known: int) -> Slot | None:
        """What a check that is ready binds."""
        stands = self.stands(position, known)
        return stands if isinstance(stands, Slot) else None

    def next(self, *, is_last: bool = False) -> int | None:
        """The first check that is ready, of those that are asked last or of the others.

        Comparisons come before what computes: a row that they drop costs nothing else.
        """
        queue = self.queues[is_last]
        while queue:
            _, position = heappop(queue)
            if self.tests >> position & 1:
                self.tests &= ~(1 << position)
                return position
        return None

    def turned(self, known: int) -> tuple[int, tuple[Apply, ...]] | None:
        """The first of the checks that wait that can be turned, and into what."""
        bits, body = self.of.bits, self.of.clause.body

        def is_known(slot: Slot) -> bool:
            return bool(bits[slot] & known)

        while self.unready:
            position = heappop(self.unready)
            readers = (self.of.readers[bit] for bit in _bits(self.of.slots[position]))
            near = sorted({reader for some in readers for reader in some})
            others = (body[reader] for reader in near if self.tests >> reader & 1)
            if self.tests >> position & 1 and (calls := _turned(body[position], others, is_known)):
                return position, calls
        return None


class _Matches:
    """The atoms of a long body, and which of them is next."""

    def __init__(self, of: Variants, left: int, known: int) -> None:
        self.of = of
        self.best: list[tuple[bool, int, int]] = []
        for position in of.args:
            if left >> position & 1:
                self.rate(position, known)

    def rate(self, position: int, known: int) -> None:
        """Note an atom where it now stands; what was noted of it before counts no more."""
        literal = self.of.clause.body[position]
        assert isinstance(literal, Match)  # noqa: S101  what is no check
        columns = len(self.of.columns(position, known))
        heappush(self.best, (columns < len(literal.args), -columns, position))

    def next(self, left: int) -> int:
        """The first of those that are left: whole rows, then those with the most known columns."""
        while True:
            position = heappop(self.best)[2]
            if left >> position & 1:
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


def _turned(
    literal: Literal, others: Iterable[Literal], is_known: Callable[[Slot], bool]
) -> tuple[Apply, ...]:
    """Calls that bind what a literal waits for; none: nothing does yet.

    `others` are the literals that wait beside it: a value is made once all its fields are known,
    and each of those is read by a literal of its own.
    """
    if not isinstance(literal, Apply) or not is_construction(literal):
        return ()
    return _constructed(literal, others, is_known) if literal.fields else _read(literal, is_known)


def _read(literal: Apply, is_known: Callable[[Slot], bool]) -> tuple[Apply, ...]:
    """The fields of a value that is known."""
    if not is_known(literal.target):
        return ()
    width, name = len(literal.args), literal.functor
    columns = {arg: n for n, arg in enumerate(literal.args) if isinstance(arg, Slot)}
    return tuple(
        Apply(slot, f"{name}.{n}", (literal.target,), (literal.result,), literal.types[n], width)
        for slot, n in columns.items()
        if not is_known(slot)
    )


def _constructed(
    literal: Apply, others: Iterable[Literal], is_known: Callable[[Slot], bool]
) -> tuple[Apply, ...]:
    """The value whose fields are all known."""
    (source,) = literal.args
    if not isinstance(source, Slot) or is_known(source):
        return ()
    fields = {
        other.functor: other
        for other in others
        if isinstance(other, Apply) and other.args == (source,) and is_known(other.target)
    }
    name, _, _ = literal.functor.rpartition(".")
    by_field = [fields.get(f"{name}.{n}") for n in range(literal.fields)]
    read = [call for call in by_field if call is not None]
    if len(read) < len(by_field):
        return ()
    kinds = tuple(call.result for call in read)
    return (Apply(source, name, tuple(call.target for call in read), kinds, literal.types[0]),)
