"""What binds the variables of core literals.

Questions about a body: which literals can run and what is bound then (`evaluable`), which variables
nothing binds (`unbound`), which literals around a group bind what the group only tests (`binders`),
which test no more than some variables (`tests_of`), and which variables are one value, where it
stands and what computes it (`Equal`). Invariant: answers depend on the literals alone; in which
order they run is `plan.order`'s.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Code,
    Compare,
    Literal,
    Match,
    Slot,
    slots_of,
)


def evaluable(body: Iterable[Literal]) -> tuple[tuple[Literal, ...], set[Argument]]:
    """The positive literals that can run by themselves, and the variables bound then.

    Near linear: a literal is looked at again only when one of its variables is bound.
    """
    literals = [literal for literal in body if not isinstance(literal, Absent)]
    readers = _readers(literals)
    bound: set[Argument] = set()
    ran: set[int] = set()
    queue = list(range(len(literals)))
    while queue:
        position = queue.pop()
        if position in ran:
            continue
        gives = _gives(literals[position], bound)
        if gives is None:
            continue
        ran.add(position)
        for arg in gives:
            if arg not in bound:
                bound.add(arg)
                queue.extend(readers.get(arg, ()))
    return tuple(literals[position] for position in sorted(ran)), bound


def unbound(args: Iterable[Argument], body: Iterable[Literal]) -> tuple[Slot, ...]:
    """The variables among `args` that a body does not bind by itself."""
    _, bound = evaluable(body)
    return tuple(arg for arg in args if isinstance(arg, Slot) and arg not in bound)


def binders(
    missing: Iterable[Slot], around: Iterable[Literal], recursion: Container[str]
) -> tuple[tuple[Literal, ...], bool]:
    """What binds some variables among the literals around, and whether that needs recursion.

    Only literals connected with the variables count: others would multiply. Those that read a
    relation of `recursion` are left out where the rest binds as much: what a group is asked for
    may be more than it is asked for in the end.
    """
    wanted = tuple(missing)
    literals, _ = evaluable(around)
    lower, bound = evaluable(
        literal
        for literal in literals
        if not (isinstance(literal, Match) and literal.relation in recursion)
    )
    enough = all(slot in bound for slot in wanted)
    return connected(wanted, lower if enough else literals), not enough


def tests_of(known: Iterable[Slot], literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """The comparisons that say more of known variables alone, with what computes their sides.

    A function that may fail is not called for what these rule out.
    """
    bound: set[Argument] = set(known)
    ran: list[tuple[Literal, bool]] = []
    for literal in literals:
        if isinstance(literal, Compare) and bound.issuperset(slots_of(literal)):
            ran.append((literal, True))
        elif (
            isinstance(literal, Apply)
            and literal.functor != "range"  # of many values
            and all(isinstance(arg, Code) or arg in bound for arg in literal.args)
        ):
            ran.append((literal, literal.target in bound))
            bound.add(literal.target)
    needed: set[Argument] = set()
    tests: list[Literal] = []
    for literal, is_test in reversed(ran):
        if is_test or (isinstance(literal, Apply) and literal.target in needed):
            tests.append(literal)
            needed.update(slots_of(literal))
    return tuple(reversed(tests))


def connected(wanted: Iterable[Slot], literals: Sequence[Literal]) -> tuple[Literal, ...]:
    """The literals that share a variable with the wanted ones, directly or not."""
    readers = _readers(literals)
    queue: list[Argument] = list(wanted)
    reached: set[int] = set()
    while queue:
        for position in readers.pop(queue.pop(), ()):
            if position not in reached:
                reached.add(position)
                queue.extend(slots_of(literals[position]))
    return tuple(literals[position] for position in sorted(reached))


def _readers(literals: Sequence[Literal]) -> dict[Argument, list[int]]:
    """By variable, the places of the literals that have it."""
    readers: dict[Argument, list[int]] = {}
    for position, literal in enumerate(literals):
        for slot in slots_of(literal):
            readers.setdefault(slot, []).append(position)
    return readers


def _gives(literal: Literal, bound: set[Argument]) -> tuple[Argument, ...] | None:
    """The variables that a literal binds once `bound` are known; None: it cannot run yet."""

    def has(arg: Argument) -> bool:
        return isinstance(arg, Code) or arg in bound

    if isinstance(literal, Match):
        return slots_of(literal)
    if isinstance(literal, Apply):
        return (literal.target,) if all(map(has, literal.args)) else None
    if isinstance(literal, Compare):
        sides = (literal.left, literal.right)
        if all(map(has, sides)):
            return ()
        if literal.op == "=" and any(map(has, sides)):
            return sides
    return None


class Equal:
    """Which variables of a body are one value, as they are or in a record. Near linear.

    A value goes by one of its variables, its `root`.

    Attributes:
        atoms: by value, the places of the positive atoms that have it.
        makers: by value, the places of the calls that compute it.
    """

    def __init__(self, body: Sequence[Literal]) -> None:
        self._body = body
        self._above: dict[Slot, Slot] = {}
        self.atoms: dict[Slot, set[int]] = {}
        self.makers: dict[Slot, list[int]] = {}
        for literal in body:
            if is_construction(literal) or (isinstance(literal, Compare) and literal.op == "="):
                for slot in (slots := slots_of(literal)):
                    self._above[self.root(slot)] = self.root(slots[0])
        for position, literal in enumerate(body):
            if isinstance(literal, Match):
                for slot in slots_of(literal):
                    self.atoms.setdefault(self.root(slot), set()).add(position)
            elif isinstance(literal, Apply) and not is_construction(literal):
                self.makers.setdefault(self.root(literal.target), []).append(position)

    def root(self, slot: Slot) -> Slot:
        """The variable that a value goes by."""
        while (above := self._above.setdefault(slot, slot)) != slot:
            self._above[slot] = slot = self._above[above]
        return slot

    def behind(self, position: int) -> Iterator[Slot]:
        """The values of atoms that what a call computes is computed of."""
        seen, rest = set[Slot](), [position]
        while rest:
            for slot in {self.root(arg) for arg in slots_of(self._body[rest.pop()])[1:]} - seen:
                seen.add(slot)
                if slot in self.atoms:
                    yield slot
                else:
                    rest += self.makers.get(slot, ())


def is_construction(literal: Literal) -> bool:
    """Whether it is between a value and its fields."""
    return isinstance(literal, Apply) and literal.functor[0] in "[$"
