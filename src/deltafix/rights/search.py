"""Checks by search, from an object down to the user, and what they found out.

A *goal* is a node at an object: does the subject have it? `Search` is for one subject. It opens
goals one after another, the last found first, and tells whoever waits when one holds. Goals that
are open when nothing is left to do fail: with unions and intersections that is the least fixpoint,
cycles and all. What is excluded is decided by a search of its own, to its end, before its base is
believed; the model has no cycle through an exclusion, so that ends.

Where conditions are open there are two searches, `sure` and `possible`: one takes open tuples for
none, one for all, and each asks the other what is excluded. Where they agree, that is the answer,
whatever the open ones are.

Invariant: only decided goals are remembered; a search that stops early forgets the open ones.
Everything is in codes of a reader (`reader`), which sees one state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from deltafix.rights.graph import Graph, Leaf, Node
from deltafix.rights.program import View
from deltafix.rights.reader import Reader
from deltafix.rights.tuples import Subject

Goal: TypeAlias = tuple[int, int]
"""The number of a node, and the code of an object."""

_Views: TypeAlias = Mapping[tuple[int, str], View]


class Reason(NamedTuple):
    """Why a goal holds.

    Attributes:
        leaf: the way to it; None for a userset in itself, and for nodes that are no unions.
        row: the row of the leaf's input relation, in codes; empty if it has none.
        because: the goals it follows from.
        absent: the goal that does not hold, for an exclusion.
    """

    leaf: Leaf | None = None
    row: tuple[int, ...] = ()
    because: tuple[Goal, ...] = ()
    absent: Goal | None = None


class Ways(NamedTuple):
    """How one subject can come to a node that is a union.

    Attributes:
        tuples: leaves whose tuples name the subject (True), or everyone of its type (False).
        targets: leaves to follow, and the node that each leads to.
    """

    tuples: list[tuple[Leaf, bool]]
    targets: list[tuple[Leaf, int]]


class Search:
    """What one subject has.

    Args:
        views: of nodes that are kept; they are looked up, and searched where conditions decide.
            Without them every goal that holds has its `Reason`.
        smallest: open all goals before any is believed; then each is believed for a reason of least
            height, which costs O(goals below) where a decision could stop early.

    Attributes:
        excluding: the search that says what is excluded; this one, unless `smallest` or conditions
            ask for another.
        true: the goals that hold, with their reasons.
        order: these in the order in which they were found: before what follows from them.
    """

    def __init__(
        self,
        graph: Graph,
        reader: Reader,
        subject: Subject,
        views: _Views | None = None,
        *,
        smallest: bool = False,
    ) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.reader = reader
        self.subject = subject
        self.views: _Views = {} if views is None or subject.relation else views
        self.is_everyone = subject.id == "*"
        self.kind = subject.kind
        self.code = -1 if self.is_everyone else reader.code(subject.id)
        self.smallest = smallest
        self.true: dict[Goal, Reason] = {}
        self.order: list[Goal] = []
        self.ways: dict[int, Ways] = {}
        self.false: set[Goal] = set()
        # Reasons of least height are not to be found on the way to what is excluded.
        self.excluding = Search(graph, reader, subject, views) if smallest else self

    def holds(self, node: int, at: int) -> bool:
        """Whether the subject has a node at an object. O(goals between them)."""
        goal = (node, at)
        if goal not in self.true and goal not in self.false:
            _Run(self).decide(goal)
        return goal in self.true

    def concerns(self, node: Node) -> bool:
        """Whether the subject can have the node anywhere."""
        return node.may_have(self.kind)

    def ways_to(self, node: Node) -> Ways:
        """Its ways to a node. O(leaves)."""
        mine = [leaf for leaf in node.leaves if leaf.type == self.subject.type]
        tuples: list[tuple[Leaf, bool]] = []
        for leaf in mine:
            if self.subject.relation:
                if leaf.kind == "userset" and self.nodes[leaf.target].label == self.kind:
                    tuples.append((leaf, True))
            elif leaf.kind == "everyone" or (leaf.kind == "user" and not self.is_everyone):
                tuples.append((leaf, leaf.kind == "user"))
        targets = [
            (leaf, target)
            for leaf in node.leaves
            for target in leaf.targets
            if self.concerns(self.nodes[target])
        ]
        return Ways(tuples, targets)

    def is_itself(self, node: Node, at: int) -> bool:
        """Whether the subject, a userset, is that of the node at the object."""
        return at == self.code and bool(node.name) and node.label == self.kind


class _Run:
    """One decision: goals opened on the way, and who waits for them."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.nodes = search.nodes
        self.reader = search.reader
        self.true, self.false = search.true, search.false
        self.opened: set[Goal] = set()
        self.stack: list[Goal] = []
        self.waiting: dict[Goal, list[tuple[Goal, Reason]]] = {}
        self.proved: deque[tuple[Goal, Reason]] = deque()
        self.heard = len(search.order)  # of these truths nobody here waits to be told

    def decide(self, goal: Goal) -> None:
        """Open goals until this one holds or none is left."""
        self._push(goal)
        while self.stack:
            next_goal = self.stack.pop()
            if next_goal not in self.true:
                self._open(next_goal)
                if not self.search.smallest:
                    self._believe()
                if goal in self.true:
                    return
        self._believe()
        self.false |= self.opened - self.true.keys()

    def _push(self, goal: Goal) -> None:
        if goal not in self.opened:
            self.opened.add(goal)
            self.stack.append(goal)

    def _open(self, goal: Goal) -> None:
        number, at = goal
        node = self.nodes[number]
        search = self.search
        if search.subject.relation and search.is_itself(node, at):
            self._settle(goal, Reason())
            return
        view = search.views.get((number, search.subject.type)) if search.views else None
        if view is not None:
            if viewed(view, self.reader, search.code, at):
                self._settle(goal, Reason())
                return
            if view.possible is None or not viewed(view.possible, self.reader, search.code, at):
                return
        if node.kind != "union":
            self._advance(goal, node)
            return
        ways = search.ways.get(number)
        if ways is None:
            ways = search.ways[number] = search.ways_to(node)
        for leaf, names in ways.tuples:
            row = (search.code, at) if names else (at,)
            if self.reader.has(leaf.source, *row):
                self._settle(goal, Reason(leaf, row))
                return
        for leaf, target in ways.targets:
            if leaf.kind == "computed":
                self._wait(goal, (target, at), Reason(leaf, (), ((target, at),)))
            else:
                for via in self.reader.others(leaf.source, 1, at):
                    child = (target, via)
                    self._wait(goal, child, Reason(leaf, (via, at), (child,)))
                    if goal in self.true:
                        return
            if goal in self.true:
                return

    def _wait(self, goal: Goal, child: Goal, reason: Reason) -> None:
        """Have a goal hold once another does."""
        if child in self.true:
            self._settle(goal, reason)
        elif child not in self.false:
            self.waiting.setdefault(child, []).append((goal, reason))
            self._push(child)

    def _settle(self, goal: Goal, reason: Reason) -> None:
        self.proved.append((goal, reason))
        if not self.search.smallest:
            self._believe()

    def _believe(self) -> None:
        """Tell those who wait for goals that hold, and those who wait for them; first found first.

        When all goals are open, first found is of least height. Goals that the decision of an
        excluded one found on its way are told of, too.
        """
        proved, order = self.proved, self.search.order
        while proved or self.heard < len(order):
            if proved:
                goal, reason = proved.popleft()
                if goal in self.true:
                    continue
                self.true[goal] = reason
                order.append(goal)
            while self.heard < len(order):
                self._tell(order[self.heard])

    def _tell(self, goal: Goal) -> None:
        self.heard += 1
        # A part of a definition is no step of its own: it adds no height.
        put = self.proved.append if self.nodes[goal[0]].name else self.proved.appendleft
        for parent, reason in self.waiting.pop(goal, ()):
            if parent not in self.true:
                above = self.nodes[parent[0]]
                whole = reason if above.kind == "union" else self._whole(parent, above)
                if whole is not None:
                    put((parent, whole))

    def _advance(self, goal: Goal, node: Node) -> None:
        if self.search.smallest:
            for number in node.needed:
                if self.search.concerns(self.nodes[number]):
                    self._wait(goal, (number, goal[1]), Reason())
            return
        whole = self._whole(goal, node)
        if whole is not None:
            self._settle(goal, whole)

    def _whole(self, goal: Goal, node: Node) -> Reason | None:
        """Why an intersection or exclusion holds; None while it does not, or never will."""
        at = goal[1]
        needed = node.needed
        for number in needed:
            child = (number, at)
            if child in self.true:
                continue
            waits = not self.search.smallest and child not in self.false
            if waits and self.search.concerns(self.nodes[number]):
                self.waiting.setdefault(child, []).append((goal, Reason()))
                self._push(child)
            return None
        because = tuple((number, at) for number in needed)
        if node.kind == "and":
            return Reason(None, (), because)
        excluded = (node.operands[1], at)
        if self.search.concerns(self.nodes[excluded[0]]) and self.search.excluding.holds(*excluded):
            return None
        return Reason(None, (), because, excluded)


def viewed(view: View, reader: Reader, user: int, at: int) -> bool:
    """Whether a view has a user at an object; -1 is everyone. O(1)."""
    if user >= 0 and view.holds and reader.has(view.holds, user, at):
        return True
    if not view.everyone or not reader.has(view.everyone, at):
        return False
    return user < 0 or not view.excepted or not reader.has(view.excepted, user, at)
