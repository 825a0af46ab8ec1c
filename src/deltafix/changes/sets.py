"""Sets with pairs of disjoint additions and removals: the change action L⋈.

Three nouns: `SetChange` (what was added, what was removed, disjoint), `sets` (its action), and
the three minus operators (`minus_least`, `minus_greatest`, `minus_precise`). Invariant: the two
halves of a `SetChange` never meet, so order of application inside one change cannot matter.
Nothing here knows about functions; derivatives built on the three operators are in `derivative`.

Source: Fixing incremental computation, section 3.2 (Boolean algebras).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from deltafix.changes.action import ChangeAction
from deltafix.errors import ChangeError

__all__ = [
    "SetChange",
    "all_set_changes",
    "all_subsets",
    "kernel_leq",
    "minus_greatest",
    "minus_least",
    "minus_precise",
    "set_change_leq",
    "sets",
]

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)  # no slots: `SetChange[…](…)` fails with both on 3.11
class SetChange(Generic[T]):
    """A change to a set: `(a ∪ added) - removed`, with `added ∩ removed = ∅`.

    Raises:
        ChangeError: The two halves share elements; the message names one.
    """

    added: frozenset[T] = frozenset()
    removed: frozenset[T] = frozenset()

    def __post_init__(self) -> None:
        if not self.added.isdisjoint(self.removed):
            both = min(self.added & self.removed, key=repr)
            raise ChangeError(
                f"a set change adds and removes {both!r} at once; its two halves must be disjoint "
                "(to do one after the other, combine two changes)"
            )

    @classmethod
    def of(cls, added: Iterable[T] = (), removed: Iterable[T] = ()) -> SetChange[T]:
        """A change from any two iterables."""
        return cls(frozenset(added), frozenset(removed))

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def __len__(self) -> int:
        return len(self.added) + len(self.removed)

    def apply(self, values: frozenset[T]) -> frozenset[T]:
        """The set after this change; O(len(values) + len(self))."""
        return (values | self.added) - self.removed

    def then(self, later: SetChange[T]) -> SetChange[T]:
        """First this change, then `later`, as one change."""
        return SetChange(
            (self.added - later.removed) | later.added,
            (self.removed - later.added) | later.removed,
        )


def minus_precise(to: frozenset[T], frm: frozenset[T]) -> SetChange[T]:
    """The smallest change from `frm` to `to`: only what really comes and goes (⊖_K)."""
    return SetChange(to - frm, frm - to)


def minus_greatest(to: frozenset[T], frm: frozenset[T]) -> SetChange[T]:
    """The greatest change in the change order: adds all of `to` again (⊖_⊤)."""
    return SetChange(to, frm - to)


def minus_least(
    universe: frozenset[T],
) -> Callable[[frozenset[T], frozenset[T]], SetChange[T]]:
    """The least change in the change order: removes all that is not in `to` (⊖_⊥).

    It needs the universe because it names every absent element.
    """

    def minus(to: frozenset[T], frm: frozenset[T]) -> SetChange[T]:
        return SetChange(to - frm, universe - to)

    return minus


def set_change_leq(low: SetChange[T], high: SetChange[T]) -> bool:
    """The change order ⊑: `a ⊕ low ⊆ a ⊕ high` for every set a, which is L × L^op."""
    return low.added <= high.added and low.removed >= high.removed


def kernel_leq(low: SetChange[T], high: SetChange[T]) -> bool:
    """The kernel order: sets that `low` makes equal, `high` makes equal.

    That is: `low` touches no element that `high` does not. The source asks for the order of both
    halves apart, which is sufficient but not necessary: adding x and removing x have one kernel.
    """
    return low.added | low.removed <= high.added | high.removed


def sets(universe: Iterable[T] | None = None) -> ChangeAction[frozenset[T], SetChange[T]]:
    """Finite sets under `SetChange`: complete, ordered by ⊆ and ⊑; minus is the precise one.

    Args:
        universe: If given, the elements that values and changes may use.
    """
    within = None if universe is None else frozenset(universe)

    def is_value(value: object) -> bool:
        return isinstance(value, frozenset) and (within is None or value <= within)

    def is_change(change: object) -> bool:
        return isinstance(change, SetChange) and is_value(change.added) and is_value(change.removed)

    return ChangeAction(
        name="sets",
        zero=SetChange(),
        combine=SetChange.then,
        apply=lambda values, change: change.apply(values),
        minus=minus_precise,
        leq=frozenset.issubset,
        change_leq=set_change_leq,
        is_value=is_value,
        is_change=is_change,
    )


def all_subsets(universe: Iterable[T]) -> Iterator[frozenset[T]]:
    """Every subset of a small universe: 2^n sets, smallest first."""
    elements = sorted(frozenset(universe), key=repr)
    for size in range(len(elements) + 1):
        for chosen in combinations(elements, size):
            yield frozenset(chosen)


def all_set_changes(universe: Iterable[T]) -> Iterator[SetChange[T]]:
    """Every change over a small universe: 3^n changes, each element added, removed or left."""
    elements = frozenset(universe)
    for added in all_subsets(elements):
        for removed in all_subsets(elements - added):
            yield SetChange(added, removed)
