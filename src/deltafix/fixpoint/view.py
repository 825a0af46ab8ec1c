"""What every level-1 fixpoint can be asked, and what it is told and tells in one update.

Four nouns: `FixpointView` (a collection that also knows ranks and proofs), `FixpointDelta` (how
base and step changed), `Change` (what that did to the fixpoint, net) and `FixpointReport` (the
work it took). Invariant: added and removed of a `Change` are disjoint, each element once.

Source: Incremental fixpoint computation, section 3.1 (API specification).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltafix.errors import NotInFixpointError, StepContractError

__all__ = ["Change", "FixpointDelta", "FixpointReport", "FixpointView"]

A = TypeVar("A", bound=Hashable)


@dataclass(frozen=True)  # no slots: `Change[…](…)` fails with both on Python 3.11
class Change(Generic[A]):
    """The net effect of one update on the fixpoint's elements."""

    added: frozenset[A] = frozenset()
    removed: frozenset[A] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __len__(self) -> int:
        return len(self.added) + len(self.removed)


@dataclass(frozen=True)  # no slots: as `Change`
class FixpointDelta(Generic[A]):
    """How the operator changed: elements of the base, pairs (x, y) with y in step(x).

    `added_step` lists pairs that hold now and did not before, `removed_step` those that held and
    do not any more; the step function already answers for the new state.
    """

    added_base: tuple[A, ...] = ()
    removed_base: tuple[A, ...] = ()
    added_step: tuple[tuple[A, A], ...] = ()
    removed_step: tuple[tuple[A, A], ...] = ()

    @classmethod
    def of(
        cls,
        added_base: Iterable[A] = (),
        removed_base: Iterable[A] = (),
        added_step: Iterable[tuple[A, A]] = (),
        removed_step: Iterable[tuple[A, A]] = (),
    ) -> FixpointDelta[A]:
        """A delta from any four iterables, each entry kept once.

        Raises:
            StepContractError: Something is both added and removed.
        """
        delta = cls(
            tuple(dict.fromkeys(added_base)),
            tuple(dict.fromkeys(removed_base)),
            tuple(dict.fromkeys(added_step)),
            tuple(dict.fromkeys(removed_step)),
        )
        delta.check()
        return delta

    def check(self) -> None:
        """Refuse a delta that adds and removes the same thing.

        Raises:
            StepContractError: It does; the message names it.
        """
        for what, added, removed in (
            ("base element", self.added_base, self.removed_base),
            ("step pair", self.added_step, self.removed_step),
        ):
            both = set(added).intersection(removed) if added and removed else set()
            if both:
                first = min(both, key=repr)
                raise StepContractError(
                    f"{what} {first!r} is both added and removed in one delta; list what differs "
                    "between the states before and after, once"
                )


@dataclass(slots=True)
class FixpointReport:
    """The work of one update, counted. Cost is O(changed + edges of what was touched).

    Attributes:
        step_calls: Calls of the user's `step`.
        inverse_calls: Calls of the user's `step_inverse`, or look-ups in the kept inverse.
        added: Elements that are new.
        retracted: Elements that lost all support at their rank (revived ones included).
        revived: Of those, elements that another derivation kept, at a new rank.
        reranked: Elements that got a new rank: the revived ones, and (on the kernel) suspects
            that could move to another derivation at once, without being retracted.
        removed: Elements that are gone.
        derivations: Pairs (x, y) looked at.
    """

    step_calls: int = 0
    inverse_calls: int = 0
    added: int = 0
    retracted: int = 0
    revived: int = 0
    reranked: int = 0
    removed: int = 0
    derivations: int = 0

    @property
    def touched(self) -> int:
        """Elements the update had to do something about."""
        return self.added + self.retracted + self.reranked - self.revived

    @property
    def changed(self) -> int:
        """Elements in the net change."""
        return self.added + self.removed


class FixpointView(Collection[A]):
    """A least fixpoint as a collection: iterable, `in`, `len`, with ranks and proofs.

    Iteration order is unspecified. Element type `A` is any hashable type.
    """

    __slots__ = ("_report",)

    def __init__(self) -> None:
        self._report = FixpointReport()

    @property
    def last_report(self) -> FixpointReport:
        """The work of the latest update, or of construction."""
        return self._report

    @abstractmethod
    def __iter__(self) -> Iterator[A]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, element: object) -> bool: ...

    @abstractmethod
    def rank(self, element: A) -> int:
        """The element's position in the well-founded order: some derivation has lower ranks only.

        Raises:
            NotInFixpointError: The element is not in the fixpoint.
        """

    @abstractmethod
    def why(self, element: A) -> tuple[A, ...]:
        """A proof: elements from the base to `element`, each in `step` of the one before it.

        Raises:
            NotInFixpointError: The element is not in the fixpoint.
        """

    @abstractmethod
    def check_invariants(self) -> None:
        """Recompute everything and compare.

        Raises:
            InternalError: Something differs: a bug, or a broken obligation of the caller.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} elements)"


def not_in_fixpoint(element: object) -> NotInFixpointError:
    """The error for a question about an element that is not there."""
    return NotInFixpointError(f"{element!r} is not in the fixpoint, so it has no rank and no proof")
