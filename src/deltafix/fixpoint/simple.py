"""The simple fixpoint: base and step, expansion only.

One noun, `Fixpoint`. Invariant: it holds the least set that contains the base and, with x, all of
step(x); every element knows the one it was first derived from, which has a lower rank. Nothing
ever leaves it: for removals see `full`, for a relation owned by the fixpoint `managed`.

Source: Incremental fixpoint computation, sections 3.1 and 3.2.1 (expansion).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from deltafix.errors import BudgetError, InternalError
from deltafix.fixpoint.view import Change, FixpointReport, FixpointView, not_in_fixpoint

A = TypeVar("A", bound=Hashable)


class Fixpoint(FixpointView[A]):
    """`lfp(S ↦ base ∪ ⋃ step(x) for x in S)`, growing.

    Ranks are positions of arrival. The source's `expand` looks only at what is new in `base` and so
    misses a pair added between two known elements, or from a known to a new one;
    `added_step` starts from the pair itself.

    Args:
        base: The seed elements.
        step: The elements derived from one element. It may know more pairs later, each of which
            has to be announced by `added_step`; it must never know fewer.
        max_elements: Refuse to grow beyond so many elements; None means no bound.

    Raises:
        BudgetError: `max_elements` was exceeded; nothing was added.
    """

    __slots__ = ("_came_from", "_max_elements", "_rank", "_step")

    def __init__(
        self,
        base: Iterable[A],
        step: Callable[[A], Iterable[A]],
        *,
        max_elements: int | None = None,
    ) -> None:
        super().__init__()
        self._step = step
        self._max_elements = max_elements
        self._rank: dict[A, int] = {}
        self._came_from: dict[A, A] = {}  # no entry: the element is in the base
        self.add_base(*base)

    def add_base(self, *elements: A) -> Change[A]:
        """Make elements part of the base; O(new elements + their steps)."""
        report = self._report = FixpointReport()
        new = [element for element in dict.fromkeys(elements) if element not in self._rank]
        grown = self._expand([(element, None) for element in new], report)
        for element in elements:
            self._came_from.pop(element, None)
        return grown

    def added_step(self, x: A, y: A) -> Change[A]:
        """Say that y is in step(x) now; O(new elements + their steps)."""
        report = self._report = FixpointReport()
        if x not in self._rank or y in self._rank:
            return Change()
        return self._expand([(y, (x,))], report)

    def __iter__(self) -> Iterator[A]:
        return iter(self._rank)

    def __len__(self) -> int:
        return len(self._rank)

    def __contains__(self, element: object) -> bool:
        return element in self._rank

    def rank(self, element: A) -> int:
        """The element's place in the order of arrival, from 0."""
        try:
            return self._rank[element]
        except KeyError:
            raise not_in_fixpoint(element) from None

    def why(self, element: A) -> tuple[A, ...]:
        """The chain of first derivations, from the base; O(length)."""
        if element not in self._rank:
            raise not_in_fixpoint(element)
        chain = [element]
        while chain[-1] in self._came_from:
            chain.append(self._came_from[chain[-1]])
        return tuple(reversed(chain))

    def check_invariants(self) -> None:
        """Compare with recomputation; every element's first derivation must be real and earlier."""
        want = set(self._rank.keys() - self._came_from.keys())
        pending = list(want)
        while pending:
            for y in self._step(pending.pop()):
                if y not in want:
                    want.add(y)
                    pending.append(y)
        if want != self._rank.keys():
            odd = min(want ^ self._rank.keys(), key=repr)
            raise InternalError(f"fixpoint/simple: {odd!r} differs from recomputation")
        for y, x in self._came_from.items():
            if y not in self._step(x) or self._rank[x] >= self._rank[y]:
                raise InternalError(f"fixpoint/simple: {y!r} is not derived from {x!r}")

    def _expand(self, seeds: list[tuple[A, tuple[A] | None]], report: FixpointReport) -> Change[A]:
        """Semi-naive expansion, one step call per new element; undone if anything raises."""
        new: list[A] = []
        try:
            for element, source in seeds:
                self._add(element, source, new)
            for x in new:  # grows while it is walked: a queue
                report.step_calls += 1
                for y in self._step(x):
                    report.derivations += 1
                    if y not in self._rank:
                        self._add(y, (x,), new)
        except BaseException:
            for element in new:
                del self._rank[element]
                self._came_from.pop(element, None)
            raise
        report.added = len(new)
        return Change(frozenset(new))

    def _add(self, element: A, source: tuple[A] | None, new: list[A]) -> None:
        if self._max_elements is not None and len(self._rank) >= self._max_elements:
            raise BudgetError(
                f"the fixpoint would grow beyond max_elements={self._max_elements}; raise the "
                "bound, or check that step is meant to reach so far"
            )
        self._rank[element] = len(self._rank)
        if source is not None:
            self._came_from[element] = source[0]
        new.append(element)
