"""What a reducer is: an initial accumulator, how a value is added, and how it is removed.

Two kinds, told apart by type:

- `WellFormed`: `remove` undoes `add` on every accumulator that additions can reach,
  `remove(add(a, v), v) == a` (Skip reduce paper, Definition 7). By its Theorem 2 that is exactly
  when updating equals recomputing, so such a reducer never needs the values again.
- `Partial`: `remove` may also return None, which asks for a recomputation of that key (Remark 4).

Both need `add` and `remove` to commute pairwise. `deltafix.check_reducer` tests these laws.

Invariant: accumulators are values. `add` and `remove` return one and change none; that is what
makes rolling an epoch back a matter of keeping the old reference. Nothing here knows about keys,
collections or epochs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

from deltafix.errors import ReducerError
from deltafix.facts.values import settled

if TYPE_CHECKING:
    from deltafix.reactive.columns import Segment

__all__ = ["Field", "Mergeable", "Partial", "Reducer", "WellFormed", "getter", "reducer"]

V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")

Field: TypeAlias = str | int | Callable[[Any], Any] | None
"""Which part of a value to read: an attribute name, a position, a function, or None: all of it."""


def getter(field: Field) -> Callable[[Any], Any] | None:
    """The function that reads `field`, or None when it is the value itself."""
    if field is None:
        return None
    if callable(field):
        return lambda value: settled(field(value))
    if isinstance(field, int):
        return itemgetter(field)
    return attrgetter(field)


class Reducer(ABC, Generic[V, A, R]):
    """Base of both kinds; subclass `WellFormed` or `Partial`, not this.

    V is the type of values, A of accumulators, R of results (what the reduced collection holds).
    """

    @property
    @abstractmethod
    def initial(self) -> A:
        """The accumulator of no values."""

    @abstractmethod
    def add(self, acc: A, value: V) -> A:
        """The accumulator with one more `value`. Must commute with itself."""

    @abstractmethod
    def remove(self, acc: A, value: V) -> A | None:
        """The accumulator with one `value` fewer. See the class for what None means."""

    def finish(self, acc: A) -> R:
        """The result kept for the key; the accumulator itself unless overridden."""
        return acc  # type: ignore[return-value]  # R is A unless finish is overridden

    def same(self, left: A, right: A) -> bool:
        """Whether two accumulators count as equal; the laws are checked up to this."""
        return bool(left == right)

    @property
    def name(self) -> str:
        """How messages call it."""
        return type(self).__name__

    def __repr__(self) -> str:
        return self.name

    def apply(self, acc: A, changes: Mapping[V, int]) -> A | None:
        """All removals of a net change, then all additions (Definition 11).

        `changes` maps each value to how many more (or, negative, fewer) of it there are. Override
        only to be faster; the result must be the same. O(sum of the absolute counts).
        """
        current: A | None = acc
        for value, count in changes.items():
            for _ in range(-count):
                current = self.remove(current, value)  # type: ignore[arg-type]  # None left below
                if current is None:
                    return None
        for value, count in changes.items():
            for _ in range(count):
                current = self.add(current, value)  # type: ignore[arg-type]
        return current

    def swap(self, acc: A, gone: V, come: V) -> A | None:
        """The accumulator with `come` in the place of `gone`. Override only to be faster."""
        removed = self.remove(acc, gone)
        return None if removed is None else self.add(removed, come)

    def fold(self, counts: Mapping[V, int]) -> A:
        """The accumulator of a whole multiset, given as value -> positive count."""
        acc = self.apply(self.initial, counts)
        if acc is None:  # only removals may ask for a recomputation, and there were none
            raise ReducerError(f"{self.name}.apply returned None without a removal")
        return acc

    def fold_values(self, values: list[V]) -> A:
        """As `fold`, of loaded values, repeated as often as they occur.

        Called only where `segment_entries` gave results for them. Override only to be faster.
        """
        counts: dict[V, int] = {}
        for value in values:
            counts[value] = counts.get(value, 0) + 1
        return self.fold(counts)

    def segment_entries(self, segment: Segment) -> tuple[list[A] | None, list[R]] | None:
        """Accumulators and results for all keys of freshly loaded columns, in the segment's order.

        None, the default, means that this reducer has no columnar way: values are folded one by
        one. None for the accumulators alone leaves them to be folded when a key is first touched.
        O(rows) in numpy where overridden.
        """
        del segment
        return None


class WellFormed(Reducer[V, A, R]):
    """A reducer that claims `remove(add(a, v), v) == a` for every reachable accumulator `a`."""

    @abstractmethod
    def remove(self, acc: A, value: V) -> A:
        """The accumulator with one `value` fewer; never None."""


class Additive(WellFormed[V, A, R]):
    """A well-formed reducer that has a value several times, or takes it so often, at once."""

    @abstractmethod
    def shift(self, acc: A, value: V, count: int) -> A:
        """The accumulator with `value` so many times more; fewer, if `count` is negative."""

    def add(self, acc: A, value: V) -> A:
        return self.shift(acc, value, 1)

    def remove(self, acc: A, value: V) -> A:
        return self.shift(acc, value, -1)

    def apply(self, acc: A, changes: Mapping[V, int]) -> A:
        for value, count in changes.items():
            acc = self.shift(acc, value, count)
        return acc


class Mergeable(WellFormed[V, A, R]):
    """A well-formed reducer whose accumulators of two multisets give that of their sum.

    `merge(fold(xs), fold(ys)) == fold(xs + ys)`, so merging commutes, is associative, and leaves
    what is merged with `initial`: parts may be folded apart, in any order, and put together.
    """

    @abstractmethod
    def merge(self, left: A, right: A) -> A:
        """The accumulator of both multisets together; neither is changed."""


class Partial(Reducer[V, A, R]):
    """A reducer whose `remove` either undoes `add` or returns None: «recompute this key»."""


class _Functions(Reducer[V, A, R]):
    """A reducer made of functions; see `reducer`."""

    def __init__(
        self,
        initial: A,
        add: Callable[[A, V], A],
        remove: Callable[[A, V], A | None],
        finish: Callable[[A], R] | None,
        name: str,
    ) -> None:
        self._initial = initial
        self._add = add
        self._remove = remove
        self._finish = finish
        self._name = name

    @property
    def initial(self) -> A:
        return self._initial

    @property
    def name(self) -> str:
        return self._name

    def add(self, acc: A, value: V) -> A:
        return self._add(acc, value)

    def remove(self, acc: A, value: V) -> Any:
        return self._remove(acc, value)

    def finish(self, acc: A) -> R:
        if self._finish is None:
            return acc  # type: ignore[return-value]  # R is A when there is no finish
        return self._finish(acc)


class _WellFormedFunctions(_Functions[V, A, R], WellFormed[V, A, R]):
    pass


class _PartialFunctions(_Functions[V, A, R], Partial[V, A, R]):
    pass


@overload
def reducer(
    initial: A,
    add: Callable[[A, V], A],
    remove: Callable[[A, V], A],
    finish: Callable[[A], Any] | None = None,
    *,
    name: str = "reducer",
    partial: Literal[False] = False,
) -> WellFormed[V, A, Any]: ...
@overload
def reducer(
    initial: A,
    add: Callable[[A, V], A],
    remove: Callable[[A, V], A | None],
    finish: Callable[[A], Any] | None = None,
    *,
    name: str = "reducer",
    partial: Literal[True],
) -> Partial[V, A, Any]: ...
def reducer(
    initial: A,
    add: Callable[[A, V], A],
    remove: Callable[[A, V], A | None],
    finish: Callable[[A], Any] | None = None,
    *,
    name: str = "reducer",
    partial: bool = False,
) -> WellFormed[V, A, Any] | Partial[V, A, Any]:
    """A reducer from three functions, without a class.

    Args:
        initial: the accumulator of no values; never changed in place.
        add: `(accumulator, value) -> accumulator`.
        remove: its inverse; with `partial=True` it may return None to ask for a recomputation.
        finish: accumulator -> result; the accumulator itself by default.
        name: how messages call it.
        partial: which kind is claimed.

    >>> total = reducer(0, lambda a, v: a + v, lambda a, v: a - v, name="total")
    >>> total.remove(total.add(0, 3), 3)
    0
    """
    for what, function in (("add", add), ("remove", remove)):
        if not callable(function):
            raise ReducerError(f"{what} of {name} must be a function, not {function!r}")
    kind: type[_Functions[V, A, Any]] = _PartialFunctions if partial else _WellFormedFunctions
    return kind(initial, add, remove, finish, name)  # type: ignore[return-value]  # both kinds
