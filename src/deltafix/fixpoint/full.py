"""The full fixpoint: base and step that grow and shrink, maintained in time proportional to that.

One noun, `FullFixpoint`. Its update in three numbered stages: (1) the delta's pairs and base
elements are counted in and out of the supports, (2) elements left without support are repaired or
retracted in rank order, (3) what is new is expanded. Additions are counted before anything is
retracted, so an added pair can save an element. Invariant: that of `ledger`.

The relation belongs to the caller, who has two obligations (`contract` checks both): step is
stable during an update, and the delta is accurate. `managed` takes both off the caller's hands.

Source: Incremental fixpoint computation, sections 3.1 and 3.2.

A `Contract` remembers step(x) of every element as it was after the last update, and so names the
very pair of which a delta is silent or untrue (section 3.1.4): a tool for tests, in memory and time
of the order of the whole relation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from deltafix.errors import InternalError, StepContractError
from deltafix.fixpoint.ledger import Ledger
from deltafix.fixpoint.view import Change, FixpointDelta, FixpointView, not_in_fixpoint

A = TypeVar("A", bound=Hashable)


class FullFixpoint(FixpointView[A]):
    """`lfp(S ↦ base ∪ ⋃ step(x) for x in S)` under additions and removals.

    Args:
        base: The seed elements.
        step: The elements derived from one element; called at most once per element and update.
        step_inverse: The elements x with y in step(x), if that is cheap to answer. Otherwise the
            fixpoint keeps the inverse of step over its own elements (one entry per pair).
        validate: Check the caller's obligations at every update; costs O(whole relation).
        max_elements: Refuse to grow beyond so many elements; None means no bound.

    Raises:
        StepContractError: `validate` found a broken obligation; the message names the pair.
        BudgetError: `max_elements` was exceeded.
    """

    __slots__ = ("_contract", "_inverse", "_ledger", "_step", "_step_inverse", "_steps")

    def __init__(
        self,
        base: Iterable[A],
        step: Callable[[A], Iterable[A]],
        step_inverse: Callable[[A], Iterable[A]] | None = None,
        *,
        validate: bool = False,
        max_elements: int | None = None,
    ) -> None:
        super().__init__()
        self._step = step
        self._step_inverse = step_inverse
        self._inverse: dict[A, dict[A, None]] = {}
        self._steps: dict[A, tuple[A, ...]] = {}  # step(x) as answered during this update
        self._contract = Contract(step, step_inverse) if validate else None
        self._ledger: Ledger[A] = Ledger(self._forward, self._backward, max_elements)
        self._update(FixpointDelta.of(added_base=base), undoable=False)

    # --- updates ------------------------------------------------------------------------------

    def apply(self, delta: FixpointDelta[A]) -> Change[A]:
        """Bring the fixpoint up to date after base and step changed as `delta` says.

        Cost: O(elements touched + their pairs, forward and backward), heap operations aside. If
        anything raises, `step` included, the fixpoint is as it was before.

        Returns:
            The net change: nothing that left and came back.

        Raises:
            StepContractError: The delta contradicts itself, removes an element that is not in the
                base, or (with `validate`) is not accurate, or step was not stable.
            BudgetError: `max_elements` would be exceeded.
        """
        delta.check()
        for element in delta.removed_base:
            if element not in self._ledger.base:
                raise StepContractError(
                    f"the delta removes {element!r} from the base, where it is not"
                )
        if self._contract is not None:
            self._contract.check_delta(delta)
        return self._update(delta)

    def add_base(self, *elements: A) -> Change[A]:
        """`apply` with base elements added."""
        return self.apply(FixpointDelta.of(added_base=elements))

    def remove_base(self, *elements: A) -> Change[A]:
        """`apply` with base elements removed."""
        return self.apply(FixpointDelta.of(removed_base=elements))

    def added_step(self, x: A, y: A) -> Change[A]:
        """`apply` with the one pair that step has gained."""
        return self.apply(FixpointDelta.of(added_step=((x, y),)))

    def removed_step(self, x: A, y: A) -> Change[A]:
        """`apply` with the one pair that step has lost."""
        return self.apply(FixpointDelta.of(removed_step=((x, y),)))

    # --- questions ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[A]:
        return iter(self._ledger.rank)

    def __len__(self) -> int:
        return len(self._ledger.rank)

    def __contains__(self, element: object) -> bool:
        return element in self._ledger.rank

    @property
    def base(self) -> frozenset[A]:
        """The seed elements; O(their number)."""
        return frozenset(self._ledger.base)

    def rank(self, element: A) -> int:
        """Position in the well-founded order; comparable with other ranks until the next update.

        Ranks come from a counter with gaps, so only their order means something.
        """
        try:
            return self._ledger.rank[element]
        except KeyError:
            raise not_in_fixpoint(element) from None

    def supports(self, element: A) -> int:
        """How many well-founded derivations the element has, one more if it is in the base."""
        self.rank(element)
        return self._ledger.support[element]

    def why(self, element: A) -> tuple[A, ...]:
        """A proof, always by the support of lowest rank; O(its length × pairs into each)."""
        ranks, chain = self._ledger.rank, [element]
        self.rank(element)
        while (y := chain[-1]) not in self._ledger.base:
            below = [x for x in self._backward(y) if ranks.get(x, ranks[y]) < ranks[y]]
            chain.append(min(below, key=ranks.__getitem__))
        return tuple(reversed(chain))

    def check_invariants(self) -> None:
        """Recompute the fixpoint and every support count, and compare; O(whole relation)."""
        ledger = self._ledger
        want = dict.fromkeys(ledger.base)
        pending = list(want)
        while pending:
            for y in self._step(pending.pop()):
                if y not in want:
                    want[y] = None
                    pending.append(y)
        if want.keys() != ledger.rank.keys():
            odd = min(want.keys() ^ ledger.rank.keys(), key=repr)
            raise InternalError(f"fixpoint/full: {odd!r} differs from recomputation")
        counts = {y: int(y in ledger.base) for y in want}
        for x in want:
            for y in dict.fromkeys(self._step(x)):
                counts[y] += ledger.rank[x] < ledger.rank[y]
        for y, want_count in counts.items():
            if ledger.support[y] != want_count or want_count < 1:
                raise InternalError(
                    f"fixpoint/full: {y!r} has {want_count} supports, {ledger.support[y]} counted"
                )

    # --- the three stages ---------------------------------------------------------------------

    def _update(self, delta: FixpointDelta[A], *, undoable: bool = True) -> Change[A]:
        ledger = self._ledger
        ledger.begin(undoable=undoable)
        self._steps.clear()
        try:
            pending = self._count(delta)
            ledger.repair()
            gone = frozenset(ledger.suspended)
            for x in gone:
                self._unlink(x)
            self._expand(delta, pending)
            if self._contract is not None:
                self._contract.check_stable(self._steps)
        except BaseException:
            ledger.undo()  # a user's step may raise anything, an interrupt may come anywhere
            raise
        finally:
            self._steps.clear()
        new = frozenset(ledger.joined)
        change = Change(new - gone, gone - new)
        ledger.report.added, ledger.report.removed = len(change.added), len(change.removed)
        ledger.report.revived += len(new & gone)
        ledger.report.reranked += len(new & gone)
        self._report = ledger.report
        if self._contract is not None:
            self._contract.remember(self)
        return change

    def _count(self, delta: FixpointDelta[A]) -> list[tuple[A, A]]:
        """Stage 1. Returns the added pairs whose second element is not in the fixpoint."""
        ledger = self._ledger
        pending: list[tuple[A, A]] = []
        for x, y in delta.removed_step:
            if x in ledger.rank:
                self._unlink_pair(x, y)
                if ledger.supports(x, y):
                    ledger.lose(y)
        for element in delta.removed_base:
            ledger.drop(ledger.base, element)
            ledger.lose(element)
        for x, y in delta.added_step:
            if x in ledger.rank:
                self._link_pair(x, y)
                if y not in ledger.rank:
                    pending.append((x, y))
                elif ledger.supports(x, y):
                    ledger.gain(y)
        for element in delta.added_base:
            if element not in ledger.base:
                ledger.put(ledger.base, element, None)
                if element in ledger.rank:
                    ledger.gain(element)
        return pending

    def _expand(self, delta: FixpointDelta[A], waiting: list[tuple[A, A]]) -> None:
        """Stage 3: everything reachable from new base elements and from the waiting pairs."""
        ledger = self._ledger
        for element in delta.added_base:
            if element not in ledger.rank:
                ledger.join(element)
        # Only pairs of elements that stood before: an element that left and joins again derives
        # its pairs in `expand`, and they must be counted once.
        for x, y in [(x, y) for x, y in waiting if x in ledger.rank]:
            ledger.derive(x, y)
        ledger.expand()
        # after the expansion, because one that left and joined again was unlinked in between
        for x in ledger.joined:
            for y in self._forward(x):
                self._link_pair(x, y)

    # --- step and its inverse -----------------------------------------------------------------

    def _forward(self, x: A) -> tuple[A, ...]:
        known = self._steps.get(x)
        if known is None:
            self._ledger.report.step_calls += 1
            known = self._steps[x] = tuple(dict.fromkeys(self._step(x)))
        return known

    def _backward(self, y: A) -> Iterable[A]:
        self._ledger.report.inverse_calls += 1
        if self._step_inverse is not None:
            return dict.fromkeys(self._step_inverse(y))
        return tuple(self._inverse.get(y, ()))

    def _link_pair(self, x: A, y: A) -> None:
        if self._step_inverse is None:
            sources = self._inverse.get(y)
            if sources is None:
                self._ledger.put(self._inverse, y, {x: None})
            elif x not in sources:
                self._ledger.put(sources, x, None)

    def _unlink_pair(self, x: A, y: A) -> None:
        sources = self._inverse.get(y)
        if sources is not None and x in sources:
            self._ledger.drop(sources, x)
            if not sources:
                self._ledger.drop(self._inverse, y)

    def _unlink(self, x: A) -> None:
        """Forget the pairs of an element that is gone."""
        if self._step_inverse is None:
            for y in self._forward(x):
                self._unlink_pair(x, y)


class Contract(Generic[A]):
    """Checks what `step` and a delta say against what `step` said before.

    Args:
        step: The user's step.
        step_inverse: The user's inverse, if there is one.
    """

    __slots__ = ("_before", "_inverse", "_step")

    def __init__(
        self,
        step: Callable[[A], Iterable[A]],
        step_inverse: Callable[[A], Iterable[A]] | None,
    ) -> None:
        self._step = step
        self._inverse = step_inverse
        self._before: dict[A, frozenset[A]] = {}

    def check_delta(self, delta: FixpointDelta[A]) -> None:
        """Compare a delta with how step changed on every known element.

        Raises:
            StepContractError: The delta lists a pair that did not change that way, or leaves out
                one that did.
        """
        for x, y in delta.added_step:
            if y not in set(self._step(x)):
                raise StepContractError(
                    f"the delta adds the pair ({x!r}, {y!r}), but step({x!r}) does not give {y!r}; "
                    "step must already answer for the new state"
                )
            if y in self._before.get(x, ()):
                raise StepContractError(
                    f"the delta adds the pair ({x!r}, {y!r}), which was there before; list only "
                    "pairs that are new"
                )
        for x, y in delta.removed_step:
            if y in set(self._step(x)):
                raise StepContractError(
                    f"the delta removes the pair ({x!r}, {y!r}), but step({x!r}) still gives "
                    f"{y!r}; step must already answer for the new state"
                )
            if x in self._before and y not in self._before[x]:
                raise StepContractError(
                    f"the delta removes the pair ({x!r}, {y!r}), which was not there before"
                )
        added, removed = set(delta.added_step), set(delta.removed_step)
        for x, before in self._before.items():
            now = frozenset(self._step(x))
            for y in now - before:
                if (x, y) not in added:
                    raise StepContractError(
                        f"step({x!r}) gives {y!r} now and did not before, but the delta does not "
                        f"add the pair ({x!r}, {y!r})"
                    )
            for y in before - now:
                if (x, y) not in removed:
                    raise StepContractError(
                        f"step({x!r}) gave {y!r} before and does not now, but the delta does not "
                        f"remove the pair ({x!r}, {y!r})"
                    )

    def check_stable(self, seen: dict[A, tuple[A, ...]]) -> None:
        """Ask step again for everything it was asked during an update.

        Raises:
            StepContractError: It answers differently, or the inverse disagrees with it.
        """
        for x, before in seen.items():
            differing = frozenset(self._step(x)) ^ frozenset(before)
            if differing:
                y = min(differing, key=repr)
                raise StepContractError(
                    f"step({x!r}) changed its answer about {y!r} during one update; it must be "
                    f"stable until the update returns (violating pair: ({x!r}, {y!r}))"
                )
            if self._inverse is None:
                continue
            for y in before:
                if x not in set(self._inverse(y)):
                    raise StepContractError(
                        f"step({x!r}) gives {y!r}, but step_inverse({y!r}) does not give {x!r}"
                    )

    def remember(self, elements: Iterable[A]) -> None:
        """Keep what step says now about the elements of the fixpoint."""
        self._before = {x: frozenset(self._step(x)) for x in elements}
