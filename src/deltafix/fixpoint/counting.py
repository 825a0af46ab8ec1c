"""The counting fixpoint for acyclic problems: one number per element, no inverse, no repair.

One noun, `CountingFixpoint`. Invariant: `count[y]` is the number of elements x with y in step(x),
plus one if y is in the base, and `level` rises along every pair. Counting alone is right only
where derivations cannot be cyclic (an unreachable cycle would count itself alive), so a cycle
is refused when it is met, or, on request, the problem is handed to the full fixpoint.

Source: Incremental fixpoint computation, the first note's section 3.3 (counting-based deletion).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Literal, TypeVar

from deltafix.errors import CycleError, InternalError, StepContractError
from deltafix.fixpoint.full import FullFixpoint
from deltafix.fixpoint.ledger import Journal
from deltafix.fixpoint.view import (
    Change,
    FixpointDelta,
    FixpointReport,
    FixpointView,
    not_in_fixpoint,
)

A = TypeVar("A", bound=Hashable)


class CountingFixpoint(FixpointView[A]):
    """`lfp(S ↦ base ∪ ⋃ step(x) for x in S)` where step has no cycle among the elements.

    Cheaper than `FullFixpoint`: no inverse, and a removal never has to look for other support.
    The caller's obligations (stable step, accurate deltas) are those of `FullFixpoint`.

    Args:
        base: The seed elements.
        step: The elements derived from one element.
        on_cycle: "error" refuses the update; "full" hands over to a `FullFixpoint`, once and for
            good, at the cost of building it.

    Raises:
        CycleError: step has a cycle among the elements, and `on_cycle` is "error".
    """

    __slots__ = (
        "_base",
        "_count",
        "_full",
        "_journal",
        "_level",
        "_on_cycle",
        "_step",
        "_steps",
    )

    def __init__(
        self,
        base: Iterable[A],
        step: Callable[[A], Iterable[A]],
        *,
        on_cycle: Literal["error", "full"] = "error",
    ) -> None:
        super().__init__()
        self._step = step
        self._on_cycle = on_cycle
        self._base: dict[A, None] = {}
        self._count: dict[A, int] = {}
        self._level: dict[A, int] = {}
        self._steps: dict[A, tuple[A, ...]] = {}  # step(x) as answered during this update
        self._journal = Journal()
        self._full: FullFixpoint[A] | None = None
        self.apply(FixpointDelta.of(added_base=base))

    # --- updates ------------------------------------------------------------------------------

    def apply(self, delta: FixpointDelta[A]) -> Change[A]:
        """Bring the fixpoint up to date after base and step changed as `delta` says.

        Cost: O(elements that come or go + their pairs), plus, for an added pair that points
        backwards in the levels, the elements whose level has to rise. If anything raises, the
        fixpoint is as it was before.

        Raises:
            StepContractError: The delta contradicts itself or removes what is not in the base.
            CycleError: A cycle was met, and `on_cycle` is "error"; the message shows it.
        """
        if self._full is not None:
            change = self._full.apply(delta)
            self._report = self._full.last_report
            return change
        delta.check()
        for element in delta.removed_base:
            if element not in self._base:
                raise StepContractError(
                    f"the delta removes {element!r} from the base, where it is not"
                )
        report, last = FixpointReport(), self._report
        self._report = report
        self._journal.begin()
        self._steps.clear()
        try:
            gone = self._cascade(delta)
            new = self._expand(delta)
            self._order(delta, new)
        except CycleError:
            self._journal.undo()
            if self._on_cycle == "full":
                return self._hand_over(delta)
            self._report = last
            raise
        except BaseException:
            self._journal.undo()  # a user's step may raise anything
            self._report = last
            raise
        finally:
            self._steps.clear()
        change = Change(frozenset(new) - gone, gone - frozenset(new))
        report.retracted = len(gone)
        report.added, report.removed = len(change.added), len(change.removed)
        report.revived = report.reranked = report.retracted - report.removed
        return change

    # --- questions ----------------------------------------------------------------------------

    @property
    def counts(self) -> bool:
        """Whether it still counts; False after a cycle handed it to a `FullFixpoint`."""
        return self._full is None

    def derivation_count(self, element: A) -> int:
        """In how many ways the element is derived, one more if it is in the base.

        After a hand-over, well-founded derivations alone are counted.

        Raises:
            NotInFixpointError: The element is not in the fixpoint.
        """
        if self._full is not None:
            return self._full.supports(element)
        self.rank(element)
        return self._count[element]

    def __iter__(self) -> Iterator[A]:
        return iter(self._count) if self._full is None else iter(self._full)

    def __len__(self) -> int:
        return len(self._count) if self._full is None else len(self._full)

    def __contains__(self, element: object) -> bool:
        return element in (self._count if self._full is None else self._full)

    def rank(self, element: A) -> int:
        """The element's level: higher than that of every element that derives it."""
        if self._full is not None:
            return self._full.rank(element)
        try:
            return self._level[element]
        except KeyError:
            raise not_in_fixpoint(element) from None

    def why(self, element: A) -> tuple[A, ...]:
        """A shortest proof, searched from the base because no inverse is kept: O(size)."""
        if self._full is not None:
            return self._full.why(element)
        self.rank(element)
        came_from: dict[A, A | None] = dict.fromkeys(self._base)
        queue = list(self._base)
        for x in queue:  # grows while it is walked
            if element in came_from:
                break
            for y in self._step(x):
                if y not in came_from:
                    came_from[y] = x
                    queue.append(y)
        chain = [element]
        while (x_or_none := came_from[chain[-1]]) is not None:
            chain.append(x_or_none)
        return tuple(reversed(chain))

    def check_invariants(self) -> None:
        """Recount every derivation and check every level; O(whole relation)."""
        if self._full is not None:
            self._full.check_invariants()
            return
        counts = dict.fromkeys(self._base, 1)
        queue = list(self._base)
        for x in queue:  # grows while it is walked
            for y in dict.fromkeys(self._step(x)):
                if y not in counts:
                    counts[y] = 0
                    queue.append(y)
                counts[y] += 1
                if x in self._level and y in self._level and self._level[x] >= self._level[y]:
                    raise InternalError(f"fixpoint/counting: the pair ({x!r}, {y!r}) is not rising")
        if counts != self._count:
            odd = min((counts.items() ^ self._count.items()), key=repr)
            raise InternalError(f"fixpoint/counting: {odd!r} differs from a recount")

    # --- the stages ---------------------------------------------------------------------------

    def _cascade(self, delta: FixpointDelta[A]) -> frozenset[A]:
        """Count the delta in and out; remove what is left without a derivation."""
        log, counts = self._journal, self._count
        losing = [y for x, y in delta.removed_step if x in counts and y in counts]
        losing += delta.removed_base
        gaining = [y for x, y in delta.added_step if x in counts and y in counts]
        for element in delta.removed_base:
            log.drop(self._base, element)
        for element in delta.added_base:
            if element not in self._base:
                log.put(self._base, element, None)
                if element in counts:
                    gaining.append(element)
        for y in gaining:
            log.put(counts, y, counts[y] + 1)
        for y in losing:
            log.put(counts, y, counts[y] - 1)
        queue = [y for y in dict.fromkeys(losing) if counts[y] == 0]
        for x in queue:  # grows while it is walked
            log.drop(counts, x)
            log.drop(self._level, x)
            for y in self._forward(x):
                if y not in counts:
                    continue  # a pair this delta adds: never counted, and now it will not be
                log.put(counts, y, counts[y] - 1)
                if counts[y] == 0:
                    queue.append(y)
        return frozenset(queue)

    def _expand(self, delta: FixpointDelta[A]) -> list[A]:
        """Add what the new base elements and pairs reach; returns it in order of arrival."""
        log, counts = self._journal, self._count
        new = [element for element in dict.fromkeys(delta.added_base) if element not in counts]
        for element in new:
            log.put(counts, element, 1)
        first = [
            (x, y)
            for x, y in delta.added_step
            if x in self._level and y not in self._level  # both as of before the expansion
        ]
        for _, y in first:
            if y not in counts:
                log.put(counts, y, 0)
                new.append(y)
            log.put(counts, y, counts[y] + 1)
        for x in new:  # grows while it is walked
            for y in self._forward(x):
                if y not in counts:
                    log.put(counts, y, 0)
                    new.append(y)
                log.put(counts, y, counts[y] + 1)
        return new

    def _order(self, delta: FixpointDelta[A], new: list[A]) -> None:
        """Give new elements levels, and raise those that an added pair has overtaken."""
        log, level = self._journal, self._level
        fresh = dict.fromkeys(new, 0)
        incoming = dict.fromkeys(new, 0)
        backwards: dict[tuple[A, A], None] = {}  # pairs into older elements, not yet in order
        for x, y in delta.added_step:
            if x in self._count and x not in fresh:
                if y in fresh:
                    fresh[y] = max(fresh[y], level[x] + 1)
                else:
                    backwards[x, y] = None
        for x in new:
            for y in self._forward(x):
                if y in fresh:
                    incoming[y] += 1
                else:
                    backwards[x, y] = None
        queue = [x for x in new if incoming[x] == 0]
        for x in queue:  # grows while it is walked (Kahn)
            log.put(level, x, fresh[x])
            for y in self._forward(x):
                if y in fresh:
                    fresh[y] = max(fresh[y], fresh[x] + 1)
                    incoming[y] -= 1
                    if incoming[y] == 0:
                        queue.append(y)
        if len(queue) < len(new):
            self._refuse(self._cycle_among({x for x in new if incoming[x]}))
        for x, y in list(backwards):
            del backwards[x, y]
            if level[x] >= level[y]:
                self._raise(x, y, backwards)

    def _raise(self, source: A, target: A, unordered: dict[tuple[A, A], None]) -> None:
        """Put `target` and what follows it above `source`, each element once.

        Old levels order all pairs but the one added and the `unordered` ones, so elements taken
        by old level have met all that raise them. Meeting `source` closes a cycle.
        """
        log, level = self._journal, self._level
        wanted = {target: level[source] + 1}
        came_from = {target: source}
        order = count()
        heap = [(level[target], next(order), target)]
        while heap:
            _, _, x = heappop(heap)
            if x == source:
                cycle = [x]
                while (previous := came_from[cycle[-1]]) != source:
                    cycle.append(previous)
                self._refuse([source, *reversed(cycle)])
            log.put(level, x, wanted[x])
            for y in self._forward(x):
                if (x, y) in unordered or level[y] > wanted[x]:
                    continue
                if y not in wanted:
                    heappush(heap, (level[y], next(order), y))
                    came_from[y] = x
                wanted[y] = max(wanted.get(y, 0), wanted[x] + 1)

    def _cycle_among(self, rest: set[A]) -> list[A]:
        """A cycle inside `rest`, each of whose elements has a predecessor in it."""
        before = {y: x for x in rest for y in self._forward(x) if y in rest}
        seen: dict[A, None] = {}
        at = min(rest, key=repr)
        while at not in seen:
            seen[at] = None
            at = before[at]
        walk = [*seen, at]
        return list(reversed(walk[walk.index(at) :]))

    def _refuse(self, cycle: list[A]) -> None:
        raise CycleError(
            f"step has a cycle: {' -> '.join(map(repr, cycle))}; counting derivations is right "
            'only without cycles. Use FullFixpoint, or on_cycle="full"'
        )

    def _hand_over(self, delta: FixpointDelta[A]) -> Change[A]:
        """Build a full fixpoint for the state after `delta`, and let it do everything from now."""
        base = [x for x in self._base if x not in set(delta.removed_base)]
        full = FullFixpoint(dict.fromkeys([*base, *delta.added_base]), self._step)
        before, after = frozenset(self._count), frozenset(full)
        self._full = full
        self._report = full.last_report
        for table in (self._base, self._count, self._level):
            table.clear()
        return Change(after - before, before - after)

    def _forward(self, x: A) -> tuple[A, ...]:
        known = self._steps.get(x)
        if known is None:
            self._report.step_calls += 1
            known = self._steps[x] = tuple(dict.fromkeys(self._step(x)))
            self._report.derivations += len(known)
        return known
