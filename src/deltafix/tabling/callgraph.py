"""Who calls whom: strongly connected components of calls in topological order, under insertion.

Invariant: if a call of component x calls one of component y, then x is y or y.label < x.label.
Labels are floats between which new ones fit; when no float fits any more, those around move apart.
Edges are only added, as in the paper (section 3): dropping tables rebuilds nothing, it only leaves
components coarser than they need be. Source: the affected-region search of Pearce and Kelly, with
the placement the paper's examples 3 and 4 show: moved components go as low as their callees let
them, a merged component takes the highest label of its parts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.errors import InternalError

if TYPE_CHECKING:
    from deltafix.tabling.agenda import Event
    from deltafix.tabling.table import Answer, Consumer, Generator, Premise


ROOMY: Final = 2.0**-36
"""Smallest gap to leave between labels, relative to them: good for 16 more halvings."""


def _label(component: Component) -> float:
    return component.label


class Component:
    """A strongly connected component of calls, with the events waiting in it."""

    __slots__ = (
        "callees", "callers", "doubtful", "fifo", "fresh", "heap", "label", "marked", "members",
        "negated", "negative", "open", "unsettled",
    )  # fmt: skip

    def __init__(self, label: float) -> None:
        self.label = label
        self.members: dict[Generator, None] = {}
        self.callees: dict[Component, None] = {}
        self.callers: dict[Component, None] = {}
        self.heap: list[tuple[tuple[int, ...], Event]] = []
        """Keys are unique, so a comparison never reaches the event."""
        self.fifo: deque[tuple[Premise, Any]] = deque()
        self.marked: dict[Answer, None] = {}
        self.open = False
        self.fresh: dict[Generator, None] = {}
        """Members that are not complete yet."""
        self.negated: dict[Generator, None] = {}
        """Members that some goal negates."""
        self.negative = False
        """Some call inside negates another one inside: truth needs the well-founded model."""
        self.doubtful: dict[Consumer, None] = {}
        """Supports inside that stand on a premise outside that is not TRUE."""
        self.unsettled: dict[Answer, None] = {}
        """Answers whose supports, or what these stand on, changed since the last sweep."""


Undo: TypeAlias = "list[tuple[Callable[..., Any], tuple[Any, ...]]]"


class Undoable:
    """Changes things so that an update can take them back: `undo` is None outside updates."""

    __slots__ = ()
    undo: Undo | None

    def log(self, function: Callable[..., Any], *args: Any) -> None:
        """Note how a change is taken back, inside an update."""
        if self.undo is not None:
            self.undo.append((function, args))

    def set(self, owner: object, name: str, value: object) -> None:
        """Assign an attribute, remembering the old value inside an update."""
        if self.undo is not None:
            self.undo.append((setattr, (owner, name, getattr(owner, name))))
        setattr(owner, name, value)

    def put(self, where: dict[Any, Any], key: Any, value: Any = None) -> None:
        """Add a key unless it is there, remembering it inside an update."""
        if key not in where:
            where[key] = value
            if self.undo is not None:
                self.undo.append((where.pop, (key, None)))

    def take(self, where: dict[Any, Any], key: Any) -> None:
        """Remove a key if it is there, remembering it inside an update."""
        if key in where:
            if self.undo is not None:  # first: an interrupt may come behind a call
                self.undo.append((where.__setitem__, (key, where[key])))
            del where[key]


class CallGraph(Undoable):
    """Components in order of their labels; `reopen` hears of open ones whose label changed."""

    def __init__(self, reopen: Callable[[Component], None]) -> None:
        self.reopen = reopen
        self.order: list[Component] = []
        self.undo: Undo | None = None

    # -- places ---------------------------------------------------------------------------------

    def _insert(self, component: Component) -> None:
        self.order.insert(bisect_left(self.order, component.label, key=_label), component)

    def _remove(self, component: Component) -> None:
        at = bisect_left(self.order, component.label, key=_label)
        if self.order[at] is not component:
            msg = "tabling.callgraph: two components with one label"
            raise InternalError(msg)
        del self.order[at]

    def renumber(self) -> None:
        """Label the components 1, 2, 3, … in their order."""
        for number, component in enumerate(self.order, 1):
            self._relabel(component, float(number))

    def _make_room(self, at: int) -> None:
        """Spread the labels around a place evenly, over as few components as leave gaps.

        Complexity: O(components relabelled); windows double, so calls nested n deep relabel
        O(n log n) in all, where renumbering all each time would be quadratic.
        """
        width = 32
        while width < len(self.order):
            first, last = max(0, at - width), min(len(self.order) - 1, at + width)
            low, high = self.order[first].label, self.order[last].label
            step = (high - low) / (last - first)
            if step > max(abs(low), abs(high), 1.0) * ROOMY:
                for index in range(first + 1, last):
                    self._relabel(self.order[index], low + step * (index - first))
                return
            width *= 2
        self.renumber()

    def on_top(self) -> Component:
        """A new component above all others."""
        component = Component(self.order[-1].label + 1 if self.order else 1.0)
        self.order.append(component)
        return component

    def below(self, caller: Component) -> Component:
        """A new component just below its caller."""
        at = bisect_left(self.order, caller.label, key=_label)
        if at == 0:
            label = caller.label - 1
        else:
            low = self.order[at - 1].label
            label = (low + caller.label) / 2
            if not low < label < caller.label:
                self._make_room(at)
                return self.below(caller)
        component = Component(label)
        self.order.insert(at, component)
        return component

    def admit(self, generator: Generator, component: Component) -> None:
        """Make a new call a member of a component."""
        generator.component = component
        component.fresh[generator] = None  # first: what is not fresh stays when a run is broken off
        self.put(component.members, generator)

    def _above(self, low: float | None) -> float:
        """A label between `low` (None: nothing) and the next one above it."""
        while True:
            at = 0 if low is None else bisect_right(self.order, low, key=_label)
            if at == len(self.order):
                return (low or 0.0) + 1
            high = self.order[at].label
            floor = low if low is not None else (0.0 if high > 0 else high - 2)
            label = (floor + high) / 2
            if floor < label < high:
                return label
            marker = None if low is None else self.order[at - 1]
            self.renumber()
            low = None if marker is None else marker.label

    def drop(self, component: Component) -> None:
        """Take away a component without members."""
        self._remove(component)
        for callee in component.callees:
            self.take(callee.callers, component)
        for caller in component.callers:
            self.take(caller.callees, component)

    # -- edges ----------------------------------------------------------------------------------

    def link(self, caller: Component, callee: Component) -> None:
        """Record an edge between two components that are in order."""
        self.put(caller.callees, callee)
        self.put(callee.callers, caller)

    def search(self, caller: Component, callee: Component) -> tuple[list[Component], bool]:
        """What `callee` reaches at or above `caller`, by label, and whether it reaches `caller`."""
        floor = caller.label
        seen = {callee: None}
        stack = [callee]
        while stack:
            for below in stack.pop().callees:
                if below.label >= floor and below not in seen:
                    seen[below] = None
                    stack.append(below)
        return sorted(seen, key=_label), caller in seen

    def move_below(self, moved: list[Component]) -> None:
        """Give components new labels, each as low as its callees allow, lowest first."""
        for component in moved:
            self._remove(component)
        pending = set(moved)
        for component in moved:
            low = max((c.label for c in component.callees if c not in pending), default=None)
            self._relabel(component, self._above(low))
            self._insert(component)
            pending.discard(component)

    def cycle(
        self, caller: Component, callee: Component, reached: list[Component]
    ) -> tuple[list[Component], list[Component]]:
        """The components to merge, and those above `caller` that must then move above them."""
        ceiling = callee.label
        back = {caller: None}
        stack = [caller]
        while stack:
            for above in stack.pop().callers:
                if above.label <= ceiling and above not in back:
                    back[above] = None
                    stack.append(above)
        inside = [c for c in reached if c in back]
        outside = [c for c in sorted(back, key=_label) if c not in set(inside)]
        return inside, outside

    def merge(self, parts: list[Component], lifted: list[Component]) -> Component:
        """Merge components (in order); the largest takes the others in, at the highest label.

        The caller sees to the members' ranks and events.
        """
        top = parts[-1].label
        keeper = max(parts, key=lambda c: len(c.members))
        for component in [*parts, *lifted]:
            self._remove(component)
        self._relabel(keeper, top)
        self._insert(keeper)
        for part in parts:
            if part is not keeper:
                self._absorb(keeper, part)
        self.take(keeper.callees, keeper)
        self.take(keeper.callers, keeper)
        low = top
        for component in lifted:
            low = self._above(low)
            self._relabel(component, low)
            self._insert(component)
        return keeper

    def _absorb(self, keeper: Component, part: Component) -> None:
        for member in part.members:
            self.set(member, "component", keeper)
            self.put(keeper.members, member)
        for member in part.negated:
            self.put(keeper.negated, member)
        for callee in part.callees:
            self.take(callee.callers, part)
            if callee is not keeper:
                self.put(callee.callers, keeper)
                self.put(keeper.callees, callee)
        for caller in part.callers:
            self.take(caller.callees, part)
            if caller is not keeper:
                self.put(caller.callees, keeper)
                self.put(keeper.callers, caller)
        self.set(keeper, "negative", keeper.negative or part.negative)
        for support in part.doubtful:
            self.put(keeper.doubtful, support)
        keeper.unsettled.update(part.unsettled)

    # -- undo -----------------------------------------------------------------------------------

    def _relabel(self, component: Component, label: float) -> None:
        self.set(component, "label", label)
        if component.open:
            self.reopen(component)

    def rebuild(self, generators: Iterable[Generator]) -> None:
        """After an undo: the order of the components that are left, their events gone."""
        self.order = sorted({g.component: None for g in generators}, key=_label)
        for component in self.order:
            component.heap = []
            component.fifo = deque()
            component.marked = {}
            component.fresh = {}
            component.open = False
            component.unsettled = {}
