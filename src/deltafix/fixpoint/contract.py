"""The caller's obligations at level 1, checked on request: step stability and delta accuracy.

One noun, `Contract`. Invariant: it remembers step(x) of every element of the fixpoint as it was
after the last update, and so can name the very pair of which a delta is silent or untrue. It
costs memory and time of the order of the whole relation: a tool for tests and debugging.

Source: Incremental fixpoint computation, section 3.1.4 (required properties).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from deltafix.errors import StepContractError
from deltafix.fixpoint.view import FixpointDelta

A = TypeVar("A", bound=Hashable)


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
