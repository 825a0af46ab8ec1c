"""A lowest proof over the and-or graph of `ways`: nodes nearest to the goal are looked at first.

A node's label is (height, size) of the best proof found for it; labels only get better, and spread
to what rests on the node (Knuth 1977, label-correcting). Where the kernel can find a lowest proof
alone it is asked, and the node is a leaf here. Invariant: following the best ways never comes back
to a node, because labels fall along them strictly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from deltafix.provenance.nodes import Node, Way
from deltafix.provenance.search import Found
from deltafix.provenance.ways import Ways

Label = tuple[int, int]
"""Height, and size: nodes of the proof, those it uses twice counted twice."""


@dataclass(slots=True)
class Choice:
    """The way chosen for each node of a proof, or the kernel's proof of it.

    `is_smallest` is False where the search gave up before it could rule a lower proof out.
    """

    ways: dict[Node, Way] = field(default_factory=dict)
    found: dict[Node, Found] = field(default_factory=dict)
    is_smallest: bool = True


def lowest(ways: Ways, goal: Node, max_work: int, max_steps: int) -> Choice | None:
    """A lowest proof of a goal; beyond `max_work` rows, one by ranks. None if there is none.

    Raises KeyError where the kernel's part of it alone has more than `max_steps` facts.
    """
    search = _Search(ways, max_work, max_steps)
    if search.run(goal, ranked=False):
        return Choice(search.best, search.found, search.is_smallest)
    if goal in search.labels:
        return Choice(search.best, search.found, is_smallest=False)
    if not search.is_tired:
        return None
    again = _Search(ways, max_work, max_steps)
    again.run(goal, ranked=True)
    return Choice(again.best, again.found, is_smallest=False) if goal in again.labels else None


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
        self.found: dict[Node, Found] = {}
        self.users: dict[Node, list[tuple[Node, Way]]] = {}
        self.is_smallest = True
        self.is_tired = False

    def run(self, goal: Node, *, ranked: bool, all_of_it: bool = False) -> bool:
        """Look at nodes by distance in rules; whether the goal's label is known to be the least.

        A proof of height h holds no node more than h rules from the goal. `all_of_it`: go on to
        the end.
        """
        distance = {goal: 0}
        waiting: deque[Node] = deque((goal,))
        done: set[Node] = set()
        until = self.ways.looked_at + self.max_work
        while waiting:
            node = waiting.popleft()
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
                    there = far + way.cost
                    if there < distance.get(premise, there + 1):
                        distance[premise] = there
                        (waiting.append if way.cost else waiting.appendleft)(premise)
                self._offer(node, way)
            if not ranked and self.ways.looked_at > until:
                self.is_tired = True
                return False
        return goal in self.labels

    def _ask(self, node: Node, until: int) -> None:
        """Let the kernel find a lowest proof of a node that rests on plain rules alone."""
        assert isinstance(node, int)  # noqa: S101  a plain node is a fact
        left = max(until - self.ways.looked_at, 1)
        found = self.ways.state.smallest(node, left, self.max_steps)
        self.ways.work += self.ways.state.searcher.work
        if found is None:
            return
        self.found[node] = found
        self.is_smallest = self.is_smallest and found.smallest
        self.labels[node] = (found.height, len(found.chosen))
        for user, way in self.users.get(node, ()):
            self._offer(user, way)

    def _offer(self, node: Node, way: Way) -> None:
        """Give a node a way if that makes its proof better, and let that spread."""
        waiting = deque(((node, way),))
        while waiting:
            user, one = waiting.popleft()
            label = self._label(one)
            if label is not None and (user not in self.labels or label < self.labels[user]):
                self.labels[user], self.best[user] = label, one
                waiting.extend(self.users.get(user, ()))

    def _label(self, way: Way) -> Label | None:
        """The label that a way gives; None while a premise has none."""
        height, size = 0, 1
        for premise in way.premises:
            label = self.labels.get(premise)
            if label is None:
                return None
            height, size = max(height, label[0]), size + label[1]
        return height + way.cost, size
