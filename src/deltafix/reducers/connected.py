"""A connective of one's own as a reducer: its ↑ and ↓ run wherever reducers do, in rules too.

The values are the connective's parts by number: part i is there while the key has the value i. The
accumulator is how often each part is there, and whether the connective holds; where a part comes,
or goes, the connective's own rules say what that does. Invariant: whether it holds is what these
rules made of it, and is never worked out from the parts: `changes.connective` has shown that it is
the same.
"""

from __future__ import annotations

from typing import TypeAlias

from deltafix.changes.connective import holds_of_nothing, turns
from deltafix.changes.formula import Connective
from deltafix.errors import ReducerError
from deltafix.reducers.reducer import Additive

Acc: TypeAlias = tuple[tuple[int, ...], bool]


class Holds(Additive[int, Acc, int]):
    """1 while a connective holds of the parts that a key has, by number, and 0 while it does not.

    In rules, `1 = @@exactly_one i : { i = 0, a(x) ; i = 1, b(x) }` is `exactly_one(a(x), b(x))`
    for `connect(program, reducers={"exactly_one": Holds(exactly_one)})`. A change costs O(parts).

    Raises:
        ReducerError: the connective holds where no part does, so of every key that there could be;
            or a value is no part's number.
    """

    __slots__ = ("_turns", "connective")

    def __init__(self, connective: Connective) -> None:
        if holds_of_nothing(connective):
            raise ReducerError(
                f"{connective.name} holds where none of its parts does, of every key that there "
                "could be; give it a part that says which keys there are"
            )
        self.connective = connective
        self._turns = turns(connective)

    @property
    def initial(self) -> Acc:
        """No part, and it does not hold."""
        return ((0,) * len(self.connective.parameters), False)

    def finish(self, acc: Acc) -> int:
        """1 while it holds, else 0."""
        return int(acc[1])

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.connective.name

    def shift(self, acc: Acc, value: int, count: int) -> Acc:
        """With a part so many times more, or fewer."""
        counts, holds = acc
        if not 0 <= value < len(counts):
            parts = self.connective.parameters
            shown = ", ".join(f"{number} ({part})" for number, part in enumerate(parts))
            raise ReducerError(f"{self.name} has no part {value}; there are {shown}")
        before, after = counts[value], counts[value] + count
        if bool(before) != bool(after):
            bits = sum(1 << number for number, count in enumerate(counts) if count)
            up, down = self._turns[bits, value]
            holds = (holds or up) and not down
        return (*counts[:value], after, *counts[value + 1 :]), holds
