"""Reducers over numbers: Count, Sum, Mean, Variance, Histogram. All well-formed, all O(1) a change.

Invariant: state is exact (see `exact`), so removing what was added gives back precisely the old
accumulator, floats included; results are correctly rounded. The printed sum reducer (Skip reduce
paper, 6.1) over IEEE doubles is not well-formed; this one is. Order statistics live in `extremes`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any

from deltafix.changes.exact import (
    SHIFT,
    Total,
    divide,
    extend,
    ratio,
    same_total,
    total_value,
    units,
)
from deltafix.errors import ReducerError
from deltafix.reducers.ordered import placed
from deltafix.reducers.reducer import Additive, Field, WellFormed, getter

if TYPE_CHECKING:
    from deltafix.reactive.columns import Segment

__all__ = ["Count", "Histogram", "Mean", "Sum", "Variance"]


def _label(name: str, field: Field) -> str:
    if field is None:
        return f"{name}()"
    return f"{name}({getattr(field, '__name__', repr(field)) if callable(field) else repr(field)})"


class Count(WellFormed[Any, int, int]):
    """How many values a key has, repetitions included (6.2)."""

    initial = 0

    @property
    def name(self) -> str:
        return "Count()"

    def add(self, acc: int, value: Any) -> int:
        return acc + 1

    def remove(self, acc: int, value: Any) -> int:
        return acc - 1

    def swap(self, acc: int, gone: Any, come: Any) -> int:
        return acc

    def apply(self, acc: int, changes: Mapping[Any, int]) -> int:
        return acc + sum(changes.values())

    def segment_entries(self, segment: Segment) -> tuple[list[int], list[int]]:
        sizes = segment.sizes()
        return sizes, sizes


class _OfField:
    """Reads one field of each value; the base of the numeric reducers."""

    def __init__(self, of: Field = None) -> None:
        self.of = of
        self._get: Callable[[Any], Any] | None = getter(of)

    @property
    def name(self) -> str:
        return _label(type(self).__name__, self.of)


class Sum(_OfField, WellFormed[Any, Total, Any]):
    """The exact sum of a field over a key's values (6.1).

    Results: int for integers, float (correctly rounded, as `math.fsum`) once a float is among the
    values, Decimal and Fraction for theirs. NaN and infinities are counted beside the finite part
    and leave no trace when removed. Memory: one integer a key; up to 310 bytes with floats.
    """

    initial = 0

    def add(self, acc: Total, value: Any) -> Total:
        number = value if self._get is None else self._get(value)
        if type(number) is int and type(acc) is int:
            return acc + number
        return extend(acc, number, 1)

    def remove(self, acc: Total, value: Any) -> Total:
        number = value if self._get is None else self._get(value)
        if type(number) is int and type(acc) is int:
            return acc - number
        return extend(acc, number, -1)

    def swap(self, acc: Total, gone: Any, come: Any) -> Total:
        get = self._get
        if get is not None:
            gone, come = get(gone), get(come)
        if type(gone) is int and type(come) is int and type(acc) is int:
            return acc - gone + come
        return extend(extend(acc, gone, -1), come, 1)

    def apply(self, acc: Total, changes: Mapping[Any, int]) -> Total:
        get = self._get
        for value, count in changes.items():
            number = value if get is None else get(value)
            if type(number) is int and type(acc) is int:
                acc += number * count
            else:
                acc = extend(acc, number, count)
        return acc

    def same(self, left: Total, right: Total) -> bool:
        return same_total(left, right)

    def finish(self, acc: Total) -> Any:
        return total_value(acc) if type(acc) is tuple else acc

    def segment_entries(self, segment: Segment) -> tuple[list[Total], list[Any]] | None:
        totals = segment.totals(self.of)
        if totals is None:
            return None
        whole = not totals or type(totals[0]) is int  # of one column: all are
        return totals, totals if whole else [total_value(total) for total in totals]


class Mean(_OfField, Additive[Any, tuple[Total, int], Any]):
    """The mean of a field: (sum, count) as state, their quotient as result (6.3).

    The quotient is correctly rounded from the exact sum.
    """

    initial: tuple[Total, int] = (0, 0)

    def shift(self, acc: tuple[Total, int], value: Any, count: int) -> tuple[Total, int]:
        number = value if self._get is None else self._get(value)
        return (extend(acc[0], number, count), acc[1] + count)

    def same(self, left: tuple[Total, int], right: tuple[Total, int]) -> bool:
        return left[1] == right[1] and same_total(left[0], right[0])

    def finish(self, acc: tuple[Total, int]) -> Any:
        """The mean; None over no values (SQL's NULL), which a collection never holds."""
        return divide(*acc) if acc[1] else None

    def segment_entries(self, segment: Segment) -> tuple[list[tuple[Total, int]], list[Any]] | None:
        totals = segment.totals(self.of)
        if totals is None:
            return None
        accs = list(zip(totals, segment.sizes(), strict=True))
        return accs, [divide(*acc) for acc in accs]


_Moments = tuple[int, int, int, int]


class Variance(_OfField, Additive[Any, _Moments, float | None]):
    """The variance of a field, exactly from (count, Σx, Σx²) kept as whole units; see `exact`.

    `ddof=0` is the population's variance, 1 the sample's; `root=True` gives the standard
    deviation. There is no cancellation, as the two sums are exact; the result is rounded once
    (twice with `root`). None where fewer than `ddof + 1` values are there. Integers and floats; NaN
    while NaN or an infinity is among them, which are counted beside the sums. A number stands for
    itself times 10^-scale.
    """

    initial: _Moments = (0, 0, 0, 0)

    def __init__(
        self, of: Field = None, *, ddof: int = 0, root: bool = False, scale: int = 0
    ) -> None:
        super().__init__(of)
        if ddof < 0:
            raise ReducerError(f"ddof must be 0 or more, not {ddof}")
        self.ddof = ddof
        self.root = root
        self.scale = scale

    def shift(self, acc: _Moments, value: Any, count: int) -> _Moments:
        number = value if self._get is None else self._get(value)
        if isinstance(number, float):
            if not isfinite(number):
                return (acc[0] + count, acc[1], acc[2], acc[3] + count)
            whole = units(number)
        elif hasattr(number, "__index__"):
            whole = number.__index__() << SHIFT
        else:
            raise TypeError(f"{number!r} ({type(number).__name__}) is not an int or float")
        return (acc[0] + count, acc[1] + whole * count, acc[2] + whole * whole * count, acc[3])

    def finish(self, acc: _Moments) -> float | None:
        count, first, second, odd = acc
        if count <= self.ddof:
            return None
        if odd:
            return nan
        # var = (n Σx² - (Σx)²) / (n (n - ddof)), all of it in integers up to this division.
        spread = count * second - first * first
        parts = count * (count - self.ddof) * 100**self.scale
        variance = ratio(spread, parts << (2 * SHIFT))
        return sqrt(variance) if self.root else variance


class Histogram(_OfField, Additive[Any, tuple[int, ...], tuple[int, ...]]):
    """How many values fall between ascending `edges`: a tuple of `len(edges) + 1` counts.

    Bin 0 lies below `edges[0]`, bin i holds `edges[i-1] <= x < edges[i]`, the last one the rest,
    NaN too.
    O(log edges) to find the bin and O(edges) to copy the counts.
    """

    def __init__(self, edges: Sequence[Any], of: Field = None) -> None:
        super().__init__(of)
        self.edges = tuple(edges)
        if not self.edges or any(
            not before < after for before, after in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise ReducerError(f"edges must ascend and be at least one, not {edges!r}")

    @property
    def initial(self) -> tuple[int, ...]:
        return (0,) * (len(self.edges) + 1)

    def shift(self, acc: tuple[int, ...], value: Any, count: int) -> tuple[int, ...]:
        number = placed(value if self._get is None else self._get(value))
        bin_ = bisect_right(self.edges, number)
        return (*acc[:bin_], acc[bin_] + count, *acc[bin_ + 1 :])
