"""Lists by search: the objects that a user has, from the user up; an object's users, from it down.

Both compute sets, not one answer after another. Going up, a goal (a node at an object) is reached
from what it follows from; an intersection when all its operands are. Going down, all goals below
the object are found first; then each has a set of users, which grows from tuples until nothing
grows. What is excluded is listed whole before it is taken away: the model has no cycle through an
exclusion.

Invariant: a list has what `Search` answers yes to. Nodes that are kept are read, and searched only
where conditions decide. As with `Search`, one list may ask another what is excluded (`excluding`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.rights.graph import Graph, Leaf, Node
from deltafix.rights.program import View
from deltafix.rights.reader import Reader
from deltafix.rights.search import Goal, Search

_Views: TypeAlias = Mapping[tuple[int, str], View]
_NOBODY: frozenset[int] = frozenset()


# --- from a user up to objects ---------------------------------------------------------------


class Upwards:
    """The objects that one subject has, by node."""

    def __init__(self, graph: Graph, search: Search) -> None:
        self.graph = graph
        self.search = search
        self.reader = search.reader
        self.excluding = self
        self._lists: dict[int, set[int]] = {}

    def objects(self, node: Node) -> set[int]:
        """The objects at which the subject has a node. O(goals that hold below it)."""
        objects = self._lists.get(node.number)
        if objects is None:
            objects = self._lists[node.number] = self._reached(node)
        return objects

    def _reached(self, last: Node) -> set[int]:
        if not self.search.concerns(last):
            return set()
        below = self._below(last.number)
        above = self._above(below)
        nodes = self.graph.nodes
        seen: set[Goal] = set()
        counts: dict[Goal, int] = {}
        pending: list[Goal] = []

        def reach(goal: Goal) -> None:
            if goal not in seen:
                seen.add(goal)
                pending.append(goal)

        for number in sorted(below):
            for at in self._begun(nodes[number]):
                reach((number, at))
        while pending:
            number, at = pending.pop()
            for parent, leaf in above.get(number, ()):
                if leaf is not None:
                    computed = leaf.kind == "computed"
                    for higher in [at] if computed else self.reader.others(leaf.source, 0, at):
                        reach((parent, higher))
                    continue
                node = nodes[parent]
                if node.kind == "not":
                    if at not in self.excluding.objects(nodes[node.operands[1]]):
                        reach((parent, at))
                    continue
                counts[parent, at] = counts.get((parent, at), 0) + 1
                if counts[parent, at] == len(set(node.operands)):
                    reach((parent, at))
        return {at for number, at in seen if number == last.number}

    def _view(self, number: int) -> View | None:
        return self.search.views.get((number, self.search.subject.type))

    def _below(self, first: int) -> set[int]:
        """The nodes from which this one follows; not what is excluded, nor below kept ones."""
        below, pending = {first}, [first]
        while pending:
            number = pending.pop()
            if self._view(number) is None:
                for target in _positive(self.graph.nodes[number]):
                    if target not in below and self.search.concerns(self.graph.nodes[target]):
                        below.add(target)
                        pending.append(target)
        return below

    def _above(self, below: set[int]) -> dict[int, list[tuple[int, Leaf | None]]]:
        """The nodes that follow from each node, and by which leaf; None for an operand."""
        above: dict[int, list[tuple[int, Leaf | None]]] = {}
        for number in sorted(below):
            node = self.graph.nodes[number]
            if self._view(number) is None:
                for leaf in node.leaves:
                    for target in leaf.targets:
                        above.setdefault(target, []).append((number, leaf))
                for operand in set(node.needed):
                    above.setdefault(operand, []).append((number, None))
        return above

    def _begun(self, node: Node) -> Iterable[int]:
        """The objects at which a node holds by a tuple, or as the view says."""
        search, reader = self.search, self.reader
        view = self._view(node.number)
        if view is not None:
            objects = _viewed_objects(view, reader, search.code)
            if view.possible is not None:
                open_ = _viewed_objects(view.possible, reader, search.code) - objects
                objects.update(at for at in open_ if search.holds(node.number, at))
            return objects
        if search.subject.relation:
            named = [search.code] if search.is_itself(node, search.code) else []
            for leaf in node.leaves:
                if leaf.kind == "userset" and self.graph.nodes[leaf.target].label == search.kind:
                    named += reader.others(leaf.source, 0, search.code)
            return named
        return [at for leaf in node.leaves for at in self._tuples(leaf)]

    def _tuples(self, leaf: Leaf) -> list[int]:
        if leaf.type == self.search.subject.type:
            if leaf.kind == "everyone":
                return self.reader.column(leaf.source, 0)
            if leaf.kind == "user" and not self.search.is_everyone:
                return self.reader.others(leaf.source, 0, self.search.code)
        return []


def _positive(node: Node) -> Iterator[int]:
    yield from node.needed
    for leaf in node.leaves:
        yield from leaf.targets


def _viewed_objects(view: View, reader: Reader, user: int) -> set[int]:
    """The objects of a kept node for a user; -1 is everyone."""
    objects = set(reader.column(view.everyone, 0)) if view.everyone else set()
    if user >= 0:
        if view.excepted:
            objects.difference_update(reader.others(view.excepted, 0, user))
        if view.holds:
            objects.update(reader.others(view.holds, 0, user))
    return objects


# --- from an object down to users ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Crowd:
    """A set of users: `some`, or everyone of a type but `some`."""

    everyone: bool = False
    some: frozenset[int] | set[int] = _NOBODY

    def __or__(self, other: Crowd) -> Crowd:
        if self.everyone and other.everyone:
            return Crowd(True, self.some & other.some)
        if self.everyone:
            return Crowd(True, self.some - other.some)
        if other.everyone:
            return Crowd(True, other.some - self.some)
        return Crowd(False, self.some | other.some)

    def __and__(self, other: Crowd) -> Crowd:
        return ~(~self | ~other)

    def __invert__(self) -> Crowd:
        return Crowd(not self.everyone, self.some)


class Downwards:
    """The users of one kind, by goal.

    Args:
        kind: a type, or `type#relation` for usersets.
    """

    def __init__(self, graph: Graph, reader: Reader, kind: str, views: _Views) -> None:
        self.nodes = graph.nodes
        self.reader = reader
        self.kind = kind
        self.views = views
        self.excluding = self
        self._known: dict[Goal, Crowd] = {}

    def users(self, goal: Goal) -> Crowd:
        """Who has a goal. O(goals below it, and the users of each as often as they grow)."""
        crowd = self._known.get(goal)
        return self._grown(goal) if crowd is None else crowd

    def _grown(self, last: Goal) -> Crowd:
        """The least fixpoint of the goals below one."""
        order, above = self._goals(last)
        crowds = {goal: self._begun(goal) for goal in order}
        due = deque(reversed(order))  # what was found last lies deepest
        waits = set(order)
        while due:
            goal = due.popleft()
            waits.discard(goal)
            crowd = crowds[goal]
            if not crowd.everyone and not crowd.some:
                continue
            for parent in above.get(goal, ()):
                grown = self._with(parent, crowds, crowd)
                was = crowds[parent]
                if grown.everyone != was.everyone or len(grown.some) != len(was.some):
                    crowds[parent] = grown
                    if parent not in waits:
                        waits.add(parent)
                        due.append(parent)
        self._known.update(crowds)
        return crowds[last]

    def _with(self, parent: Goal, crowds: dict[Goal, Crowd], crowd: Crowd) -> Crowd:
        """What a parent has when something below it has grown to `crowd`."""
        number, at = parent
        node = self.nodes[number]
        if node.kind == "union":
            return crowds[parent] | crowd
        whole = crowds.get((node.operands[0], at), Crowd())
        if node.kind == "not":
            whole = whole & ~self.excluding.users((node.operands[1], at))
        for operand in node.operands[1:] if node.kind == "and" else ():
            whole = whole & crowds.get((operand, at), Crowd())
        itself = {at} if node.name and node.label == self.kind else _NOBODY
        return whole | Crowd(False, itself)

    def _goals(self, last: Goal) -> tuple[list[Goal], dict[Goal, list[Goal]]]:
        """The goals below one, as they are found, and who follows from each; no excluded ones."""
        order, above, seen = [last], dict[Goal, list[Goal]](), {last}
        for goal in order:
            if goal in self._known or self._viewed(goal) is not None:
                continue
            for child in self._children(goal):
                above.setdefault(child, []).append(goal)
                if child not in seen:
                    seen.add(child)
                    order.append(child)
        return order, above

    def _children(self, goal: Goal) -> Iterator[Goal]:
        number, at = goal
        node = self.nodes[number]
        for operand in set(node.needed):
            yield operand, at
        for leaf in node.leaves:
            for target in filter(self._may_have, leaf.targets):
                if leaf.kind == "computed":
                    yield target, at
                else:
                    for via in self.reader.others(leaf.source, 1, at):
                        yield target, via

    def _may_have(self, number: int) -> bool:
        return self.nodes[number].may_have(self.kind)

    def _viewed(self, goal: Goal) -> Crowd | None:
        """What is kept of a goal; None if nothing is, or if conditions decide."""
        view = self.views.get((goal[0], self.kind))
        if view is None:
            return None
        crowds = [self._read(variant, goal[1]) for variant in view.both]
        return crowds[0] if crowds[0] == crowds[-1] else None

    def _read(self, view: View, at: int) -> Crowd:
        everyone = bool(view.everyone) and self.reader.has(view.everyone, at)
        part = view.excepted if everyone else view.holds
        return Crowd(everyone, set(self.reader.others(part, 1, at)) if part else _NOBODY)

    def _begun(self, goal: Goal) -> Crowd:
        """Whom tuples, or the view, give a goal; operands come later."""
        if goal in self._known:
            return self._known[goal]
        viewed = self._viewed(goal)
        if viewed is not None:
            return viewed
        number, at = goal
        node, reader = self.nodes[number], self.reader
        some = {at} if node.name and node.label == self.kind else set()
        everyone = False
        for leaf in node.leaves:
            if leaf.kind == "user" and leaf.type == self.kind:
                some.update(reader.others(leaf.source, 1, at))
            elif leaf.kind == "everyone" and leaf.type == self.kind:
                everyone = everyone or reader.has(leaf.source, at)
        return Crowd(True) if everyone else Crowd(False, some)
