"""Which key needs which, kept in an order in which everything comes after what it needs.

A node is a key of a family of relations (`plan.founded`); an edge stands while clauses say that its
first node needs its second, and counts how often they do. Few new edges move the nodes between
their ends (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs",
ACM JEA 11, 2006, https://doi.org/10.1145/1187436.1210590), many order everything anew.
Invariant: after `settle` a node's place is above those of all nodes it needs; `undo` restores
edges and places as they were when `keep` was called last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from deltafix.facts.schema import Row

Node: TypeAlias = tuple[int, Row]
"""A family and a key of it."""

_FEW = 8
"""New edges for each hundred nodes up to which they are put in one by one."""


class Circle(Exception):  # noqa: N818  it never leaves the stratum
    """`nodes`, each needing the next, the first again at the end."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        super().__init__(nodes)
        self.nodes = nodes


class Needs:
    """The graph and its order. `positions` has every node with an edge."""

    def __init__(self) -> None:
        self.below: dict[Node, dict[Node, int]] = {}
        self.above: dict[Node, dict[Node, None]] = {}
        self.positions: dict[Node, int] = {}
        self._lowest = self._highest = 0
        self._counts: dict[tuple[Node, Node], int] = {}
        self._moved: dict[Node, int | None] = {}
        self._before: tuple[dict[Node, int], int, int] | None = None

    def count(self, node: Node, needed: Node, sign: int) -> None:
        """A clause that says so began (1) or ceased (-1) to hold."""
        now = self.below.get(node, {}).get(needed, 0)
        self._counts.setdefault((node, needed), now)
        self._set(node, needed, now + sign)

    def settle(self) -> None:
        """Put the edges that came into the order. Raises Circle.

        O(nodes between the ends, and their edges) for each of a few, else O(graph).
        """
        came = [
            (node, needed)
            for (node, needed), before in self._counts.items()
            if before == 0 and needed in self.below.get(node, ())
        ]
        if len(came) * 100 > len(self.positions) * _FEW:
            self._order()
        else:
            for node, needed in came:
                self._put_in(node, needed)

    def keep(self) -> None:
        """The epoch was committed; nodes without edges are forgotten."""
        for edge in self._counts:
            for node in edge:
                if node not in self.below and node not in self.above:
                    self.positions.pop(node, None)
        self._forget()

    def undo(self) -> None:
        """The epoch was rolled back."""
        for (node, needed), before in self._counts.items():
            self._set(node, needed, before)
        if self._before is not None:
            self.positions, self._lowest, self._highest = self._before
        for node, position in self._moved.items():
            if position is None:
                self.positions.pop(node, None)
            else:
                self.positions[node] = position
        self._forget()

    def edges(self) -> Iterator[tuple[Node, Node, int]]:
        """The edges with their counts."""
        for node, needed in self.below.items():
            for other, count in needed.items():
                yield node, other, count

    def _forget(self) -> None:
        self._counts.clear()
        self._moved.clear()
        self._before = None

    def _set(self, node: Node, needed: Node, count: int) -> None:
        if count:
            self.below.setdefault(node, {})[needed] = count
            self.above.setdefault(needed, {})[node] = None
            return
        for sides, start, end in ((self.below, node, needed), (self.above, needed, node)):
            side = sides.get(start)
            if side is not None:
                side.pop(end, None)
                if not side:
                    del sides[start]

    def _order(self) -> None:
        """Order everything anew."""
        try:
            order = list(TopologicalSorter(self.below).static_order())
        except CycleError as error:
            raise Circle(tuple(reversed(error.args[1]))) from None
        if self._before is None:
            before = (self.positions, self._lowest, self._highest)
            self._before = before
        self.positions = {node: position for position, node in enumerate(order)}
        self._lowest, self._highest = 0, len(order)

    def _put_in(self, node: Node, needed: Node) -> None:
        """One edge: what stands between its ends and hangs on them changes places."""
        positions = self.positions
        if node == needed:
            raise Circle((node, node))
        if needed not in positions:
            self._lowest -= 1
            self._move(needed, self._lowest)
        if node not in positions:
            self._highest += 1
            self._move(node, self._highest)
        bottom, top = positions[node], positions[needed]
        if top < bottom:
            return
        lower = self._lower(needed, node, range(bottom + 1, top))
        upper = self._upper(node, range(bottom + 1, top))
        free = sorted(positions[other] for other in (*lower, *upper))
        for moved, position in zip((*lower, *upper), free, strict=True):
            self._move(moved, position)

    def _move(self, node: Node, position: int) -> None:
        if self._before is None:
            self._moved.setdefault(node, self.positions.get(node))
        self.positions[node] = position

    def _lower(self, start: Node, goal: Node, between: range) -> list[Node]:
        """What `start` needs in these places, in order. Raises Circle if it needs `goal`.

        Edges that are still to be put in may lead out of them; their turn comes.
        """
        came: dict[Node, Node | None] = {start: None}
        todo = [start]
        while todo:
            here = todo.pop()
            for other in self.below.get(here, ()):
                if other == goal:
                    raise Circle((goal, *_way(came, here), goal))
                if other not in came and self.positions.get(other) in between:
                    came[other] = here
                    todo.append(other)
        return self._sorted(came)

    def _upper(self, start: Node, between: range) -> list[Node]:
        """What needs `start` in these places, in order."""
        seen = {start}
        todo = [start]
        while todo:
            for other in self.above.get(todo.pop(), ()):
                if other not in seen and self.positions.get(other) in between:
                    seen.add(other)
                    todo.append(other)
        return self._sorted(seen)

    def _sorted(self, nodes: Iterable[Node]) -> list[Node]:
        return sorted(nodes, key=self.positions.__getitem__)


def _way(came: dict[Node, Node | None], last: Node) -> tuple[Node, ...]:
    """From the start of a search to a node that it found."""
    path: list[Node] = []
    node: Node | None = last
    while node is not None:
        path.append(node)
        node = came[node]
    return tuple(reversed(path))
