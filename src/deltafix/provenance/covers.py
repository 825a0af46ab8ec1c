"""Which of the rows derived for a key join to its value, and how low a proof by them can be.

A value that is a join holds by any rows that join to it, and these are too many to write out. A
`Cover` finds them when asked: the sets that nothing can be left out of, one after the other, and
(`Levels`) the least height from which on there is one. Invariant: of a lattice whose join is
associative, commutative and idempotent, `each` comes to every such set once. What a row rests on
is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.facts.schema import Row
from deltafix.provenance.nodes import Node

Join: TypeAlias = Callable[[Iterable[Row]], Row | None]
"""The join of values; None of nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Rows of which some join to a value.

    Attributes:
        goal: the value. Rows that join to more than it do, if there are such.
        values: what each row has to give to it.
        join: the lattice's.
    """

    goal: Row
    values: Mapping[Node, Row]
    join: Join

    def each(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, ...] | None]:
        """The sets of these rows that join to the goal while none of their parts does.

        None stands for a choice that came to nothing, so that callers can bound the work. Rows
        are left out where they may be, the first ones first: of the order that the rows have, the
        first set is the greatest. It takes O(rows) joins; there may be exponentially many.
        """
        order = list(nodes)
        after: list[Row | None] = [None]
        for node in reversed(order):
            after.append(self._with(after[-1], node))
        after.reverse()
        if not self.is_enough(after[0]):
            return
        pending: list[tuple[int, Row | None, tuple[Node, ...]]] = [(0, None, ())]
        while pending:
            index, joined, taken = pending.pop()
            if not self._are_needed(taken):  # nor will they be, whatever else is taken
                yield None
                continue
            if self.is_enough(joined):
                yield taken
                continue
            node, rest = order[index], after[index + 1]
            more = self._with(joined, node)
            if more != joined:
                pending.append((index + 1, more, (*taken, node)))
            if self.is_enough(self.both(joined, rest)):
                pending.append((index + 1, joined, taken))

    def is_enough(self, joined: Row | None) -> bool:
        """Whether a value is the goal, or more than it."""
        return joined is not None and self.join((self.goal, joined)) == joined

    def both(self, left: Row | None, right: Row | None) -> Row | None:
        """The join of two values, of which each may be that of nothing."""
        return self.join(value for value in (left, right) if value is not None)

    def _with(self, joined: Row | None, node: Node) -> Row | None:
        return self.both(joined, self.values[node])

    def _are_needed(self, taken: tuple[Node, ...]) -> bool:
        """Whether each of some rows says what the others do not, and these lack. O(rows)."""
        before: list[Row | None] = [None]
        for node in taken:
            before.append(self._with(before[-1], node))
        after: Row | None = None
        for node in reversed(taken):
            before.pop()
            rest = self.both(before[-1], after)
            if self.is_enough(rest) or (rest is not None and self._with(rest, node) == rest):
                return False
            after = self._with(after, node)
        return True


class Levels:
    """The least height of rows that join to a node's value, as their heights become known."""

    def __init__(self, node: Node, cover: Cover) -> None:
        self.node = node
        self.cover = cover
        self.least: int | None = None
        self._joined: dict[int, Row | None] = {}

    def tell(self, row: Node, height: int) -> int | None:
        """Note a height at which a row is proved; the least at which the node is. O(heights)."""
        cover, values = self.cover, self._joined
        values[height] = cover.both(values.get(height), cover.values[row])
        joined: Row | None = None
        for known in sorted(values):
            joined = cover.both(joined, values[known])
            if cover.is_enough(joined):
                self.least = known
                break
        return self.least
