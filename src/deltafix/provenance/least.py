"""A lowest proof over the and-or graph of `ways`: nodes nearest to the goal are looked at first.

A node's label is (height, size) of the best proof found for it; labels only get better, and spread
to what rests on the node (Knuth 1977, label-correcting). Where the kernel can find a lowest proof
alone it is asked, and the node is a leaf here. Invariant: following the best ways never comes back
to a node, because labels fall along them strictly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from deltafix.provenance.covers import Levels
from deltafix.provenance.nodes import Node, Way
from deltafix.provenance.search import Found
from deltafix.provenance.ways import Ways

Label = tuple[int, int]
"""Height, and size: nodes of the proof, those it uses twice counted twice."""

_NONE: Final = (1 << 60, 0)


@dataclass(slots=True)
class Choice:
    """The way chosen for each node of a proof, or the kernel's proof of it.

    `is_smallest` is False where the search gave up before it could rule a lower proof out.
    """

    ways: dict[Node, Way] = field(default_factory=dict)
    from_kernel: dict[Node, Found] = field(default_factory=dict)
    is_smallest: bool = True


def lowest(ways: Ways, goal: Node, max_work: int, max_steps: int) -> Choice | None:
    """A lowest proof of a goal; beyond `max_work` rows, one by ranks. None if there is none.

    Raises KeyError where the kernel's part of it alone has more than `max_steps` facts.
    """
    search = _Search(ways, max_work, max_steps)
    if search.run(goal, ranked=False):
        return Choice(search.best, search.from_kernel, search.is_smallest)
    if goal in search.labels:
        return Choice(search.best, search.from_kernel, is_smallest=False)
    if not search.is_tired:
        return None
    again = _Search(ways, max_work, max_steps)
    again.run(goal, ranked=True)
    return (
        Choice(again.best, again.from_kernel, is_smallest=False) if goal in again.labels else None
    )


def labels(ways: Ways, goal: Node, max_work: int) -> dict[Node, Label]:
    """The labels of nodes that a goal may rest on; of none below those that the kernel answers for.

    Empty where that is more than `max_work` allows.
    """
    search = _Search(ways, max_work, max_work)
    search.run(goal, ranked=False, all_of_it=True)
    return {} if search.is_tired else search.labels


class _Search:
    def __init__(self, ways: Ways, max_work: int, max_steps: int) -> None:
        self.ways = ways
        self.max_work = max_work
        self.max_steps = max_steps
        self.labels: dict[Node, Label] = {}
        self.best: dict[Node, Way] = {}
        self.from_kernel: dict[Node, Found] = {}
        self.users: dict[Node, list[tuple[Node, Way]]] = {}
        self.levels: dict[Way, Levels] = {}
        self.is_smallest = True
        self.is_tired = False

    def run(self, goal: Node, *, ranked: bool, all_of_it: bool = False) -> bool:
        """Look at nodes by distance in rules; whether the goal's label is known to be the least.

        A proof of height h holds no node more than h rules from the goal. `all_of_it`: go on to
        the end.
        """
        known = self._run(goal, ranked=ranked, all_of_it=all_of_it)
        # Rows that join to a value were taken as soon as they did; there may be fewer by now.
        for way, levels in self.levels.items():
            if levels.least is not None:
                self._offer(levels.node, self._taken(way, levels.least))
        return known

    def _run(self, goal: Node, *, ranked: bool, all_of_it: bool) -> bool:
        distance = {goal: 0}
        pending: deque[Node] = deque((goal,))
        done: set[Node] = set()
        until = self.ways.looked_at + self.max_work
        while pending:
            node = pending.popleft()
            if node in done:
                continue
            far = distance[node]
            if not all_of_it and goal in self.labels and self.labels[goal][0] <= far:
                return True
            done.add(node)
            if self.ways.is_plain(node):
                self._ask(node, until)
                continue
            for way in self.ways.of(node, ranked=ranked):
                for premise in way.premises:
                    self.users.setdefault(premise, []).append((node, way))
                    height = far + way.cost
                    if height < distance.get(premise, height + 1):
                        distance[premise] = height
                        (pending.append if way.cost else pending.appendleft)(premise)
                if way.cover is None:
                    self._offer(node, way)
                else:
                    self.levels[way] = Levels(node, way.cover)
                    for premise in way.premises:
                        if premise in self.labels:
                            self._use(premise, node, way)
            if not ranked and self.ways.looked_at > until:
                self.is_tired = True
                return False
        return goal in self.labels

    def _ask(self, node: Node, until: int) -> None:
        """Let the kernel find a lowest proof of a node that rests on plain rules alone."""
        assert isinstance(node, int)  # noqa: S101  a plain node is a fact
        left = max(until - self.ways.looked_at, 1)
        proof = self.ways.state.smallest(node, left, self.max_steps)
        self.ways.work += self.ways.state.searcher.work
        if proof is None:
            return
        self.from_kernel[node] = proof
        self.is_smallest = self.is_smallest and proof.smallest
        self.labels[node] = (proof.height, len(proof.chosen))
        for user, way in self.users.get(node, ()):
            self._use(node, user, way)

    def _use(self, premise: Node, user: Node, way: Way) -> None:
        """Tell a node that a premise of a way of it has a better proof, and let that spread."""
        pending = deque(((premise, user, way),))
        while pending:
            premise, user, way = pending.popleft()
            covered = way if way.cover is None else self._covered(premise, user, way)
            if covered is not None and self._improve(user, covered):
                pending.extend((user, *more) for more in self.users.get(user, ()))

    def _offer(self, node: Node, way: Way) -> None:
        """Give a node a way if that makes its proof better, and let that spread."""
        if self._improve(node, way):
            for user, other in self.users.get(node, ()):
                self._use(node, user, other)

    def _improve(self, node: Node, way: Way) -> bool:
        label = self._label(way)
        if label is None or (node in self.labels and label >= self.labels[node]):
            return False
        self.labels[node], self.best[node] = label, way
        return True

    def _covered(self, premise: Node, user: Node, way: Way) -> Way | None:
        """The rows that a joined value is to rest on, now that one of them has a better proof.

        None where that makes its proof no lower, as it does for all but a few of many rows.
        """
        levels = self.levels.get(way)
        if levels is None:
            return None  # its premises are being listed
        height = levels.tell(premise, self.labels[premise][0])
        if height is None or (user in self.labels and self.labels[user][0] <= height):
            return None
        return self._taken(way, height)

    def _taken(self, way: Way, height: int) -> Way:
        """Rows no higher than `height` that join to the value, as low and as few as can be told."""
        rows = [part for part in way.premises if self.labels.get(part, _NONE)[0] <= height]
        rows.sort(key=self.labels.__getitem__, reverse=True)
        return next(taken for taken in way.each(rows) if taken is not None)

    def _label(self, way: Way) -> Label | None:
        """The label that a way gives; None while a premise has none."""
        height, size = 0, 1
        for premise in way.premises:
            label = self.labels.get(premise)
            if label is None:
                return None
            height, size = max(height, label[0]), size + label[1]
        return height + way.cost, size
