"""The maintenance algorithm of deltafix in plain Python: dicts where the kernel has an arena.

Positive rules without constants, one stratum for everything, one strategy (`wavefront`). Nothing is
indexed, so an edit costs what a join over all facts costs: this is for reading, and for checking
the kernel against. `docs/concepts/maintenance.md` walks through it.

A fact is a tuple: its relation, then its values. A derivation is a rule's number and the facts of
its body, in order. Invariant, after every commit (`check` recounts it):

    support[f] = 1 if f is an input fact, plus the derivations of f over present facts all of whose
                 body facts have a lower rank than f
    f is present  <=>  support[f] >= 1

Along supports ranks fall, so every present fact follows from the input: no cycle holds itself up.
That every commit restores this, and ends, is proved in `proofs/`, under the names used here.

>>> reach = Maintained([
...     (("reach", "x"), [("root", "x")]),
...     (("reach", "y"), [("reach", "x"), ("edge", "x", "y")]),
... ])
>>> edges = [("edge", "r", "b"), ("edge", "r", "c"), ("edge", "b", "c"), ("edge", "c", "b")]
>>> added, removed = reach.commit([("root", "r"), *edges])
>>> sorted(added - set(edges))
[('reach', 'b'), ('reach', 'c'), ('reach', 'r'), ('root', 'r')]
>>> reach.support["reach", "b"], reach.support["reach", "c"]   # b ranks lower: c is no support
(1, 2)
>>> reach.commit(delete=[("edge", "r", "b")])                  # b moves above c
(set(), {('edge', 'r', 'b')})
>>> sorted(reach.commit(delete=[("edge", "r", "c")])[1])       # now b and c have only each other
[('edge', 'r', 'c'), ('reach', 'b'), ('reach', 'c')]
>>> sources = (("reach", "x"), [("edge", "x", "y")])           # rules change as facts do
>>> sorted(reach.commit(add=[sources])[0])
[('reach', 'b'), ('reach', 'c')]
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

Fact = tuple  # ("path", 1, 2)
Atom = tuple  # ("path", "x", "y"): a relation, then names of variables
Rule = tuple  # (head atom, [body atoms])
Derivation = tuple  # (head, number of the rule, body)

NEVER = float("inf")


class Maintained:
    """Facts that follow from rules and input facts, kept exact under inserts and deletes."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.numbers = itertools.count()  # of rules; a number is not given twice
        self.rules: dict[int, Rule] = {next(self.numbers): rule for rule in rules}
        self.given: set[Fact] = set()  # the input facts
        self.rank: dict[Fact, int] = {}  # the present facts
        self.support: dict[Fact, int] = {}
        self.touched: set[Fact] = set()  # facts that the last commit took up

    def commit(
        self,
        insert: Iterable[Fact] = (),
        delete: Iterable[Fact] = (),
        add: Iterable[Rule] = (),
        remove: Iterable[Rule] = (),
    ) -> tuple[set, set]:
        """Change input facts and rules; returns the facts that became present, and that ceased."""
        before = set(self.rank)
        self.touched = set()
        self.suspects: list[tuple] = []  # a heap: (rank, waits, tie-breaker, fact)
        self.limbo: dict[Fact, float] = {}  # overdeleted, with the rank at which they may return
        self.moved: set[Fact] = set()
        remove = list(remove)
        for number in [n for n, rule in self.rules.items() if rule in remove]:
            for head, _, body in self.instances(number):
                if self.height(body) < self.rank[head]:
                    self.lose(head)
            del self.rules[number]
        for fact in set(delete) & self.given:
            self.given.discard(fact)
            self.lose(fact)
        self.wave()
        self.grow(insert, add)
        after = set(self.rank)
        return after - before, before - after

    # --- joins: the naive part --------------------------------------------------------------------

    def bodies(self, atoms: list[Atom], binding: dict) -> Iterator[tuple[tuple[Fact, ...], dict]]:
        """The ways to match the atoms with present facts: the facts, and what the variables are."""
        if not atoms:
            yield (), binding
            return
        for fact in list(self.rank):
            bound = match(atoms[0], fact, binding)
            if bound is not None:
                for facts, whole in self.bodies(atoms[1:], bound):
                    yield (fact, *facts), whole

    def derivations(self, head: Fact) -> set[tuple]:
        """The derivations of a fact over present facts."""
        return {
            (number, body)
            for number, (atom, atoms) in self.rules.items()
            if (bound := match(atom, head, {})) is not None
            for body, _ in self.bodies(atoms, bound)
        }

    def instances(self, number: int) -> Iterator[Derivation]:
        """The derivations by one rule over present facts."""
        atom, atoms = self.rules[number]
        for body, whole in self.bodies(atoms, {}):
            yield (atom[0], *(whole[name] for name in atom[1:])), number, body

    def uses(self, fact: Fact) -> list[Derivation]:
        """The derivations that have a present fact in their body."""
        found = {
            derivation
            for number, (_, atoms) in self.rules.items()
            if any(match(one, fact, {}) is not None for one in atoms)
            for derivation in self.instances(number)
            if fact in derivation[2]
        }
        return sorted(found, key=repr)  # so that ranks do not depend on hashes

    def height(self, body: tuple[Fact, ...]) -> int:
        """The highest rank in a body; a derivation supports exactly the heads ranked above it."""
        return max((self.rank[fact] for fact in body), default=0)

    # --- deleting: suspects in rank order ---------------------------------------------------------

    def lose(self, fact: Fact) -> None:
        """A support of a present fact is gone; without any, the fact is a suspect."""
        self.support[fact] -= 1
        if not self.support[fact]:
            heappush(self.suspects, (self.rank[fact], False, repr(fact), fact))

    def best(self, fact: Fact) -> tuple[float, int]:
        """The lowest height among a fact's derivations, and how many have it."""
        heights = [self.height(body) for _, body in self.derivations(fact) if fact not in body]
        return (min(heights), heights.count(min(heights))) if heights else (NEVER, 0)

    def wave(self) -> None:
        """Take suspects by rank; below the wave, every present fact has a support.

        A suspect that another derivation holds up moves above that derivation: only facts that
        rank in between lose its support. If the derivation rests on the fact itself, the fact
        is a suspect once more. Then it is overdeleted, and waits in limbo until the wave
        reaches its best derivation; if the body still stands there, it is rederived.
        """
        while self.suspects:
            at, waits, _, fact = heappop(self.suspects)
            if waits:
                if self.limbo.get(fact) == at:
                    self.rederive(fact, at)
            elif self.rank.get(fact) == at and not self.support[fact]:
                self.touched.add(fact)
                if fact not in self.moved and (found := self.best(fact))[1]:
                    self.moved.add(fact)
                    self.move(fact, *found)
                else:
                    self.overdelete(fact)

    def move(self, fact: Fact, height: float, count: int) -> None:
        """Give a suspect a rank above its best derivations, and take it from heads up to there."""
        for head, _, body in self.uses(fact):
            if head in self.rank and self.height(body) < self.rank[head] <= height + 1:
                self.lose(head)
        self.rank[fact], self.support[fact] = int(height) + 1, count

    def overdelete(self, fact: Fact) -> None:
        """Take a suspect out, and its derivations from what they supported."""
        for head, _, body in self.uses(fact):
            if head in self.rank and self.height(body) < self.rank[head]:
                self.lose(head)
        del self.rank[fact], self.support[fact]
        self.wait(fact)

    def wait(self, fact: Fact) -> None:
        """Note at which rank of the wave a fact in limbo may come back, if at all."""
        self.limbo[fact], _ = self.best(fact)
        if self.limbo[fact] < NEVER:
            heappush(self.suspects, (self.limbo[fact], True, repr(fact), fact))

    def rederive(self, fact: Fact, at: float) -> None:
        """The wave is at a limbo fact's best derivation: bring the fact back if it still holds."""
        height, count = self.best(fact)
        if height > at:
            self.wait(fact)  # the body fell meanwhile; perhaps another stands further up
            return
        del self.limbo[fact]
        self.rank[fact], self.support[fact] = int(height) + 1, count
        for head, _, body in self.uses(fact):
            reached = self.height(body)
            if head in self.rank and reached < self.rank[head]:
                self.support[head] += 1
            elif head in self.limbo and reached < self.limbo[head]:
                self.limbo[head] = reached
                heappush(self.suspects, (reached, True, repr(head), head))

    # --- inserting: semi-naive, one fact at a time ------------------------------------------------

    def grow(self, insert: Iterable[Fact], add: Iterable[Rule] = ()) -> None:
        """Make rules and input facts true, and what follows. A new fact ranks above all others."""
        pending: dict[Fact, int] = {}  # support of facts that are about to be true
        queue: deque[Fact] = deque()

        def gain(fact: Fact) -> None:
            if fact in self.rank:
                self.support[fact] += 1
                return
            if fact not in pending:
                queue.append(fact)
            pending[fact] = pending.get(fact, 0) + 1

        for rule in add:
            if rule not in self.rules.values():
                self.rules[number := next(self.numbers)] = rule
                for head, _, body in sorted(self.instances(number), key=repr):
                    if head not in self.rank or self.height(body) < self.rank[head]:
                        gain(head)
        for fact in sorted(set(insert) - self.given, key=repr):
            self.given.add(fact)
            gain(fact)
        while queue:
            fact = queue.popleft()
            self.touched.add(fact)
            rank = max(self.rank.values(), default=0) + 1
            self.rank[fact], self.support[fact] = rank, pending.pop(fact)
            for head, _, _ in self.uses(fact):
                if head not in self.rank:  # a head that holds ranks below this fact
                    gain(head)

    # --- the contract ----------------------------------------------------------------------------

    def check(self) -> None:
        """Recount every support, and see that nothing is missing. Raises AssertionError."""
        for fact, rank in self.rank.items():
            counted = sum(self.height(body) < rank for _, body in self.derivations(fact))
            assert self.support[fact] == counted + (fact in self.given) >= 1, fact
        for number in self.rules:
            assert all(head in self.rank for head, _, _ in self.instances(number)), number
        assert self.given <= set(self.rank)


def match(atom: Atom, fact: Fact, binding: dict) -> dict | None:
    """The binding with the atom's variables set to the fact's values; None if they do not agree."""
    if atom[0] != fact[0] or len(atom) != len(fact):
        return None
    bound = dict(binding)
    for name, value in zip(atom[1:], fact[1:], strict=True):
        if bound.setdefault(name, value) != value:
            return None
    return bound
