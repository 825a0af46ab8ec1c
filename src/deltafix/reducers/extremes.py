"""Reducers over an order: Min, Max, First, Last, TopK, Median, Quantile.

Two ways, by choice. With kept order state (the default) the accumulator is the key's whole sorted
multiset: well-formed, O(log n) a change, memory O(n) a key. `Min(partial=True)` and
`Max(partial=True)` keep one value instead: O(1) a change and in memory, but removing the extreme
asks for a recomputation of that key, O(n) (Skip reduce paper, 6.4); choose it where extremes are
rarely removed.

Invariant: results depend on the multiset alone; NaN is above all other numbers. Equal field values
are told apart by comparing the whole values; where that is impossible the comparison's TypeError
names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from deltafix.errors import ReducerError
from deltafix.reducers.aggregate import Gathers, SortedRows, read_from
from deltafix.reducers.numeric import _label, _OfField
from deltafix.reducers.ordered import Ordered, placed, restored
from deltafix.reducers.reducer import Field, Partial, WellFormed, getter

if TYPE_CHECKING:
    from deltafix.reactive.columns import Segment

__all__ = ["First", "KeptOrder", "Last", "Max", "Median", "Min", "Quantile", "TopK"]

R = TypeVar("R")
_EMPTY: Ordered[Any] = Ordered()


class KeptOrder(WellFormed[Any, "Ordered[Any]", R], Gathers, Generic[R]):
    """State: the sorted multiset of what `_sort_key` reads from the values; O(log n) a change."""

    initial: Ordered[Any] = _EMPTY
    _sort_key: Callable[[Any], Any] | None = None

    def add(self, acc: Ordered[Any], value: Any) -> Ordered[Any]:
        return acc.add(value if self._sort_key is None else self._sort_key(value))

    def remove(self, acc: Ordered[Any], value: Any) -> Ordered[Any]:
        return acc.discard(value if self._sort_key is None else self._sort_key(value))

    def swap(self, acc: Ordered[Any], gone: Any, come: Any) -> Ordered[Any]:
        read = self._sort_key
        return acc.replace(gone, come) if read is None else acc.replace(read(gone), read(come))

    def apply(self, acc: Ordered[Any], changes: Mapping[Any, int]) -> Ordered[Any]:
        gone: list[Any] = []
        come: list[Any] = []
        for value, count in changes.items():
            (come if count > 0 else gone).extend((value,) * abs(count))
        return self.gather(self.gather(acc, gone, -1), come, 1)

    def gather(self, acc: Ordered[Any], values: list[Any], sign: int, /) -> Ordered[Any]:
        read = self._sort_key
        return acc.moved(values if read is None else map(read, values), sign)

    def kept_of(self, rows: SortedRows, group: int) -> Ordered[Any]:
        """The accumulator of a group, sorted by columns as by `_sort_key`. O(values / 32)."""
        start, end = rows.starts[group : group + 2].tolist()
        read = read_from(rows, range(start, end), self._sort_key)
        return self.initial.deferred(end - start, read)

    def fold_values(self, values: list[Any]) -> Ordered[Any]:
        read = self._sort_key
        return Ordered.of_numbers(values if read is None else [read(value) for value in values])

    def fold(self, counts: Mapping[Any, int]) -> Ordered[Any]:
        read = self._sort_key
        return Ordered(
            item
            for value, count in counts.items()
            for item in (value if read is None else read(value),) * count
        )


class _Extreme(KeptOrder[Any]):
    _last: bool = False

    def __init__(self, of: Field = None) -> None:
        self.of = of
        self._sort_key = getter(of)

    @property
    def name(self) -> str:
        return _label("Max" if self._last else "Min", self.of)

    def finish(self, acc: Ordered[Any]) -> Any:
        """The extreme; None over no values, which a collection never holds."""
        return acc.lowest()

    def segment_entries(self, segment: Segment) -> tuple[None, list[Any]] | None:
        extremes = segment.extremes(self.of, last=self._last)
        return None if extremes is None else (None, extremes)


class _LastExtreme(_Extreme):
    _last = True

    def finish(self, acc: Ordered[Any]) -> Any:
        return acc.highest()


class _PartialExtreme(_OfField, Partial[Any, Any, Any]):
    """State: the extreme alone, in a 1-tuple so that None may be a value; () over no values."""

    initial: tuple[Any, ...] = ()
    _last: bool = False

    @property
    def name(self) -> str:
        return _label("Max" if self._last else "Min", self.of).replace("()", "") + " (partial)"

    def add(self, acc: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        number = placed(value if self._get is None else self._get(value))
        if not acc or (acc[0] < number if self._last else number < acc[0]):
            return (number,)
        return acc

    def remove(self, acc: tuple[Any, ...], value: Any) -> tuple[Any, ...] | None:
        number = placed(value if self._get is None else self._get(value))
        return None if number == acc[0] else acc

    def finish(self, acc: tuple[Any, ...]) -> Any:
        return restored(acc[0]) if acc else None

    def segment_entries(self, segment: Segment) -> tuple[list[tuple[Any, ...]], list[Any]] | None:
        extremes = segment.extremes(self.of, last=self._last)
        return None if extremes is None else ([(value,) for value in extremes], extremes)


class _PartialLastExtreme(_PartialExtreme):
    _last = True


@overload
def Min(of: Field = None, *, partial: Literal[False] = False) -> WellFormed[Any, Any, Any]: ...
@overload
def Min(of: Field = None, *, partial: Literal[True]) -> Partial[Any, Any, Any]: ...
def Min(
    of: Field = None, *, partial: bool = False
) -> WellFormed[Any, Any, Any] | Partial[Any, Any, Any]:
    """The least value of a field. See the module for what `partial` trades."""
    return _PartialExtreme(of) if partial else _Extreme(of)


@overload
def Max(of: Field = None, *, partial: Literal[False] = False) -> WellFormed[Any, Any, Any]: ...
@overload
def Max(of: Field = None, *, partial: Literal[True]) -> Partial[Any, Any, Any]: ...
def Max(
    of: Field = None, *, partial: bool = False
) -> WellFormed[Any, Any, Any] | Partial[Any, Any, Any]:
    """The greatest value of a field. See the module for what `partial` trades."""
    return _PartialLastExtreme(of) if partial else _LastExtreme(of)


class _Ranked(KeptOrder[R], Generic[R]):
    """Keeps whole values, ordered by a field of theirs and then by themselves."""

    def __init__(self, by: Field = None) -> None:
        self.by = by
        read = getter(by)
        if read is not None:
            # Equal whole values are one item, so a tie is broken by `<` on the values themselves.
            self._sort_key = lambda value: (read(value), value)

    @property
    def name(self) -> str:
        return _label(type(self).__name__, self.by)

    def _value(self, item: Any) -> Any:
        return item if self.by is None else item[1]


class First(_Ranked[Any]):
    """The value with the least `by` (an event time, a sequence number)."""

    def finish(self, acc: Ordered[Any]) -> Any:
        return self._value(acc.lowest()) if acc else None


class Last(_Ranked[Any]):
    """The value with the greatest `by`."""

    def finish(self, acc: Ordered[Any]) -> Any:
        return self._value(acc.highest()) if acc else None


class TopK(_Ranked[tuple[Any, ...]]):
    """The `k` values with the greatest `by`, greatest first, as a tuple; `largest=False` turns it.

    Repeated values count as often as they occur. O(log n) a change plus O(k log n) for the result.
    """

    def __init__(self, k: int, by: Field = None, *, largest: bool = True) -> None:
        super().__init__(by)
        if k < 1:
            raise ReducerError(f"k must be at least 1, not {k}")
        self.k = k
        self.largest = largest

    @property
    def name(self) -> str:
        return f"TopK({self.k})"

    def finish(self, acc: Ordered[Any]) -> tuple[Any, ...]:
        items = acc.last(self.k) if self.largest else acc.first(self.k)
        return tuple(self._value(item) for item in items)


class Quantile(_Extreme):
    """The `q`-quantile of a field, 0 <= q <= 1.

    `interpolate=True` (the default) is linear interpolation between the two neighbours (numpy's
    and R's type 7) and needs numbers; False takes the lower neighbour and works on anything
    ordered.
    """

    def __init__(self, q: float, of: Field = None, *, interpolate: bool = True) -> None:
        super().__init__(of)
        if not 0 <= q <= 1:
            raise ReducerError(f"q must lie between 0 and 1, not {q!r}")
        self.q = q
        self.interpolate = interpolate

    @property
    def name(self) -> str:
        return _label(f"Quantile {self.q:g} ", self.of)

    def finish(self, acc: Ordered[Any]) -> Any:
        if not len(acc):
            return None
        # Exact: 0.1 * 10 in doubles may land beside the value it means.
        position = Fraction(self.q).limit_denominator(10**9) * (len(acc) - 1)
        low = int(position)
        rest = position - low
        below = acc[low]
        if not rest or not self.interpolate:
            return below
        above = acc[low + 1]
        return below if above == below else below + (above - below) * float(rest)

    def segment_entries(self, segment: Segment) -> None:
        """Order statistics are found per key, from the kept order."""


class Median(Quantile):
    """The middle value of a field; the mean of the two middle ones where their number is even."""

    def __init__(self, of: Field = None, *, interpolate: bool = True) -> None:
        super().__init__(0.5, of, interpolate=interpolate)

    @property
    def name(self) -> str:
        return _label("Median", self.of)
