"""Reducers behind the aggregates of SQL that the engine has not: each undoes what it added.

A reducer has a name by what it computes, so two views that ask for the same share one. Invariant:
a result is a function of the multiset of values alone: where SQL leaves the order of equal keys
open, the values themselves decide. Which aggregate of SQL is which reducer is `sql.aggregates`'.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from functools import partial, reduce
from itertools import groupby, pairwise
from operator import mul
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from deltafix.changes.digits import Digits
from deltafix.changes.exact import SHIFT, ratio
from deltafix.facts.values import ABOVE, BaseType
from deltafix.facts.wide import as_number
from deltafix.reducers.aggregate import (
    Changes,
    Columnar,
    Gathers,
    Loaded,
    Several,
    SortedRows,
    UserReducer,
)
from deltafix.reducers.extremes import KeptOrder
from deltafix.reducers.numeric import Variance
from deltafix.reducers.ordered import Ordered, Placed, placed
from deltafix.reducers.reducer import Additive
from deltafix.reducers.ways import Way, ranked
from deltafix.sql.arrays import packed
from deltafix.sql.intervals import Interval, as_text, from_text, mean

__all__ = [
    "SMALL",
    "Bits",
    "Deviation",
    "First",
    "Lengths",
    "Mean",
    "Mode",
    "Product",
    "Quantile",
    "Spread",
    "Sum",
    "There",
    "United",
    "Wide",
    "array_agg",
    "nearest",
    "string_agg",
]


@dataclass(frozen=True, slots=True)
class Sum:
    """SUM of whole numbers: exact, and an error where it is no value of its type.

    A number stands for itself times 10^-scale. The engine keeps the sum itself
    (`FunctorDecl.most`), if it is one of its numbers, and asks for the error only.
    """

    kind: str
    least: int
    most: int
    scale: int = 0
    wider: str = ""
    """A type with room for more, if there is one."""
    initial: int = 0

    def add(self, acc: int, value: int, /) -> int:
        """With one more value."""
        return acc + value

    def remove(self, acc: int, value: int, /) -> int:
        """With one value fewer."""
        return acc - value

    def finish(self, acc: int, /) -> int:
        """The result."""
        if not self.least <= acc <= self.most:
            shown = f"{_EXACT.scaleb(acc, -self.scale):f}"
            way_out = f"; SUM(CAST(... AS {self.wider})) has room" if self.wider else ""
            raise OverflowError(f"SUM is {shown}, which is no {self.kind}{way_out}")
        return acc


_EXACT: Final = Context(prec=200)
"""For sums, which are of fewer digits."""


@dataclass(frozen=True, slots=True)
class Wide:
    """A reducer of numbers over the texts that the engine has of those of more than 64 bits.

    `write` makes what the engine has of its result.
    """

    inner: UserReducer
    write: Callable[[Any], Any]

    @property
    def initial(self) -> Any:
        """No values."""
        return self.inner.initial

    def add(self, acc: Any, value: str, /) -> Any:
        """With one more value."""
        return self.inner.add(acc, as_number(value))

    def remove(self, acc: Any, value: str, /) -> Any:
        """With one value fewer."""
        return self.inner.remove(acc, as_number(value))

    def finish(self, acc: Any, /) -> Any:
        """The result."""
        return self.write(self.inner.finish(acc))


@dataclass(frozen=True, slots=True)
class Mean:
    """AVG of a DECIMAL of a scale: of numbers that stand for themselves times 10^-scale.

    Rounded once. The engine keeps it, if it can (`FunctorDecl.scale`).
    """

    scale: int
    initial: tuple[int, int] = (0, 0)

    def add(self, acc: tuple[int, int], value: int, /) -> tuple[int, int]:
        """With one more value."""
        return acc[0] + value, acc[1] + 1

    def remove(self, acc: tuple[int, int], value: int, /) -> tuple[int, int]:
        """With one value fewer."""
        return acc[0] - value, acc[1] - 1

    def finish(self, acc: tuple[int, int], /) -> float:
        """The result; it means something where there is a value."""
        total, count = acc
        return float(Fraction(total, count * 10**self.scale)) if count else math.nan


@dataclass(frozen=True, slots=True)
class There:
    """COUNT, SUM, AVG, MIN or MAX of values of which some are NULL, which do not count.

    NULL where none is there, or 0 for COUNT. `inner` is the reducer of those that are. The engine
    keeps it itself, as it would that one (`FunctorDecl`).
    """

    inner: UserReducer
    kept: str = ""

    @property
    def initial(self) -> tuple[int, Any]:
        """No values."""
        return 0, self.inner.initial

    def add(self, acc: tuple[int, Any], value: tuple[Any] | None, /) -> tuple[int, Any]:
        """With one more value."""
        return acc if value is None else (acc[0] + 1, self.inner.add(acc[1], value[0]))

    def remove(self, acc: tuple[int, Any], value: tuple[Any] | None, /) -> tuple[int, Any]:
        """With one value fewer."""
        return acc if value is None else (acc[0] - 1, self.inner.remove(acc[1], value[0]))

    def finish(self, acc: tuple[int, Any], /) -> Any:
        """The result."""
        if self.kept == "count":
            return acc[0]
        return (self.inner.finish(acc[1]),) if acc[0] else None


class Lengths(Additive[str, tuple[int, Interval], str]):
    """SUM and AVG of intervals: exact, part by part; a mean is rounded once, to microseconds."""

    initial = 0, Interval()

    def __init__(self, *, is_mean: bool) -> None:
        self.is_mean = is_mean

    def shift(self, acc: tuple[int, Interval], value: str, count: int, /) -> tuple[int, Interval]:
        """With so many values more, or fewer."""
        return acc[0] + count, acc[1] + from_text(value) * count

    def finish(self, acc: tuple[int, Interval], /) -> str:
        """The result; it means something where there is a value."""
        number, total = acc
        text = as_text(mean(total, max(number, 1)) if self.is_mean else total)
        if text is None:
            raise OverflowError(f"SUM is {total}, which is no INTERVAL: it is of more than 64 bits")
        return text


class Spread(Variance, Columnar):
    """VARIANCE and STDDEV: NaN where there are not more than `ddof` numbers."""

    sorts = ()

    def finish(self, acc: tuple[int, int, int, int], /) -> float:
        """The result."""
        found = super().finish(acc)
        return math.nan if found is None else found

    def load(self, rows: SortedRows, /) -> Loaded | None:
        """Those of many groups, by whole numbers of the least unit that one of them has."""
        numbers = rows.numbers(0)
        if numbers is None or not np.isfinite(numbers).all():
            return None
        unit, wholes = 0, numbers.tolist()
        if numbers.dtype != np.int64:
            digits = Digits(numbers)
            unit, wholes = digits.scale, digits.wholes(digits.digits)
        bounds = rows.starts.tolist()
        groups = [wholes[start:end] for start, end in pairwise(bounds)]
        sums = [(len(own), sum(own), sum(map(mul, own, own))) for own in groups]
        up, down = max(unit, 0), max(-unit, 0)

        def acc(group: int) -> tuple[int, int, int, int]:
            count, first, second = sums[group]
            first, second = first << SHIFT + up, second << 2 * (SHIFT + up)
            return count, first >> down, second >> 2 * down, 0

        return Loaded(acc, [self._of(*own, up, down) for own in sums])

    def _of(self, count: int, first: int, second: int, up: int, down: int) -> float:
        """As `finish`, of sums of units of 2^(up - down)."""
        if count <= self.ddof:
            return math.nan
        spread = count * second - first * first
        parts = count * (count - self.ddof) * 100**self.scale
        found = ratio(spread << 2 * up, parts << 2 * down)
        return math.sqrt(found) if self.root else found


_WORD: Final = 64


class Bits(Additive[int, tuple[int, ...], int]):
    """BIT_AND, BIT_OR and BIT_XOR: how many values have each bit, behind the number of values."""

    initial = (0,) * (_WORD + 1)

    def __init__(self, op: str) -> None:
        self.op = op

    def shift(self, acc: tuple[int, ...], value: int, count: int, /) -> tuple[int, ...]:
        """With so many values more, or fewer."""
        bits = (n + count * (value >> bit & 1) for bit, n in enumerate(acc[1:]))
        return (acc[0] + count, *bits)

    def finish(self, acc: tuple[int, ...], /) -> int:
        """The result."""
        size, *counts = acc
        test = {"and": lambda n: n == size, "or": lambda n: n > 0, "xor": lambda n: n % 2 == 1}
        bits = sum(1 << bit for bit, n in enumerate(counts) if test[self.op](n))
        return bits - (1 << _WORD) if bits >> _WORD - 1 else bits


class Factors(NamedTuple):
    """A product: how many factors there are of each kind, and the exact one of the finite others.

    That is `odd` times a power of two, so that taking a factor out is a division without rest.
    """

    zeros: int = 0
    nans: int = 0
    infinite: int = 0
    negative: int = 0
    """Of the infinite ones."""
    finite: int = 0
    odd: int = 1
    power: int = 0


class Product(Additive[float, Factors, float]):
    """PRODUCT: exact and rounded once; O(values of the group) a change.

    A number stands for itself times 10^-scale.
    """

    initial = Factors()

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def shift(self, acc: Factors, value: float, count: int, /) -> Factors:
        """With so many values more, or fewer."""
        if value == 0:
            return acc._replace(zeros=acc.zeros + count)
        if math.isnan(value):
            return acc._replace(nans=acc.nans + count)
        if math.isinf(value):
            negative = acc.negative + count * (value < 0)
            return acc._replace(infinite=acc.infinite + count, negative=negative)
        top, bottom = value.as_integer_ratio()  # the second one is a power of two
        twos = (top & -top).bit_length() - 1
        odd, power = top >> twos, twos - bottom.bit_length() + 1
        factor = odd ** abs(count)
        whole = acc.odd * factor if count > 0 else acc.odd // factor
        return acc._replace(finite=acc.finite + count, odd=whole, power=acc.power + count * power)

    def finish(self, acc: Factors, /) -> float:
        """The result."""
        if acc.nans or (acc.infinite and acc.zeros):
            return math.nan
        sign = -1.0 if (acc.odd < 0) is not bool(acc.negative % 2) else 1.0
        if acc.infinite:
            return sign * math.inf
        if acc.zeros:
            return 0.0
        top, bottom = abs(acc.odd), 10 ** (self.scale * acc.finite)
        top, bottom = top << max(acc.power, 0), bottom << max(-acc.power, 0)
        try:
            quotient: float = top / bottom  # of whole numbers, rounded once
            return sign * quotient
        except OverflowError:
            return sign * math.inf


class Quantile(KeptOrder[Any], Columnar):
    """QUANTILE_CONT and QUANTILE_DISC: interpolated exactly and rounded once, or a value there is.

    `share` is between 0 and 1, counted from the greatest value if `descending`; a number of
    QUANTILE_CONT stands for itself times 10^-scale, or `read` makes one of what does, and `close`
    what the engine has of what is between two.
    """

    sorts = ((0, Way(nullable=False)),)

    def __init__(
        self,
        share: Fraction,
        scale: int,
        read: Callable[[Any], Any],
        *,
        continuous: bool,
        descending: bool,
        close: Callable[[Any], Any] = float,
    ) -> None:
        self.share = share
        self.read = read
        self.unit = Fraction(1, 10**scale)
        self.continuous = continuous
        self.descending = descending
        self.close = close

    def finish(self, acc: Ordered[Any], /) -> Any:
        """The result."""
        low, high, rest = self._at(len(acc))
        return self._between(acc[low], acc[high], rest)

    def load(self, rows: SortedRows, /) -> Loaded:
        """Those of many groups."""
        starts = rows.starts.tolist()
        sizes = [end - start for start, end in pairwise(starts)]
        known = {size: self._at(size) for size in {*sizes}}
        at = [known[size] for size in sizes]
        lows, highs = (
            rows.values([start + one[n] for start, one in zip(starts, at, strict=False)])
            for n in range(2)
        )
        rests = [rest for _, _, rest in at]
        return Loaded(partial(self.kept_of, rows), [*map(self._between, lows, highs, rests)])

    def _at(self, size: int) -> tuple[int, int, Fraction]:
        """Between which of so many values it is, and how far behind the first."""
        if not self.continuous:
            index = max(math.ceil(self.share * size) - 1, 0)
            index = size - 1 - index if self.descending else index
            return index, index, Fraction(0)
        at = (1 - self.share if self.descending else self.share) * (size - 1)
        index = math.floor(at)
        return index, min(index + 1, size - 1), at - index

    def _between(self, first: Any, second: Any, rest: Fraction) -> Any:
        """What is so far between two values."""
        if not self.continuous:
            return first
        low, high = self.read(first), self.read(second)
        if not rest or low == high:
            return self.close(low * self.unit)
        if not (math.isfinite(low) and math.isfinite(high)):
            return low * float(1 - rest) + high * float(rest)
        exact = Fraction(low) + (Fraction(high) - Fraction(low)) * rest
        return self.close(exact * self.unit)


def nearest(value: Fraction) -> int:
    """The nearest whole number, of two the one further from zero."""
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value > 0 else -whole


class Deviation(KeptOrder[Any]):
    """MAD: the median of how far values are from their median, exact and rounded once.

    A number stands for itself times 10^-scale. O(values of the group) a result.
    """

    def __init__(self, scale: int) -> None:
        self.unit = Fraction(1, 10**scale)

    def finish(self, acc: Ordered[Any], /) -> float:
        """The result; it means something where there is a value."""
        if not acc:
            return math.nan
        middle = _middle(acc)
        if isinstance(middle, float) and not math.isfinite(middle):
            apart = [placed(abs(value - middle)) for value in acc]
        else:
            apart = [_apart(value, middle) for value in acc]
        found = _middle(sorted(apart))
        return float(found * self.unit) if isinstance(found, Fraction) else float(found)


def _apart(value: Any, middle: Fraction) -> Any:
    """How far a number is from a finite one."""
    is_endless = isinstance(value, float) and not math.isfinite(value)
    return placed(abs(value)) if is_endless else abs(Fraction(value) - middle)


def _middle(ordered: Ordered[Any] | list[Any]) -> Any:
    """The median of numbers in order: exact where it is finite."""
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if any(one is ABOVE or one != one for one in (low, high)):  # noqa: PLR0124  NaN
        return math.nan
    if any(isinstance(one, float) and math.isinf(one) for one in (low, high)):
        return low + (high - low) / 2 if low != high else low
    return (Fraction(low) + Fraction(high)) / 2


SMALL = 64
"""By how much a change is smaller than what it changes if that is not walked, or made anew."""
_Counts: TypeAlias = tuple[Ordered[Any], Ordered[Any]]


class Mode(Gathers):
    """MODE: the most frequent value, the least of several. O(log n) a change.

    State: the values, and each once behind how often it is there, the most frequent first.
    """

    initial: _Counts = (Ordered(), Ordered())

    def add(self, acc: _Counts, value: Any, /) -> _Counts:
        """With one more value."""
        values, sizes = acc
        count = values.count(value)
        if count:
            sizes = sizes.discard((-count, value))
        return values.add(value), sizes.add((-count - 1, value))

    def remove(self, acc: _Counts, value: Any, /) -> _Counts:
        """With one value fewer."""
        values, sizes = acc[0].discard(value), acc[1]
        count = values.count(value)
        sizes = sizes.discard((-count - 1, value))
        return values, sizes.add((-count, value)) if count else sizes

    def gather(self, acc: _Counts, values: list[Any], sign: int, /) -> _Counts:
        """With these values, too, or without them. O(all values) where these are many."""
        if len(values) * SMALL < len(acc[0]):
            return reduce(self.add if sign > 0 else self.remove, values, acc)
        after = acc[0].moved(values, sign)
        return after, Ordered((-sum(1 for _ in same), value) for value, same in groupby(after))

    def finish(self, acc: _Counts, /) -> Any:
        """The result."""
        return acc[1][0][1]


class United(KeptOrder[str], Columnar):
    """STRING_AGG and ARRAY_AGG: the values in the order of `sorts`, or the first, made one."""

    initial: Ordered[Any] = Placed()

    def __init__(
        self,
        sorts: Sequence[tuple[int, Way]],
        unite: Callable[[Iterable[Any]], str],
        most: int | None = None,
    ) -> None:
        key, columns = ranked([way for _, way in sorts]), [column for column, _ in sorts]
        self.sorts = sorts
        self.rank: Callable[[Any], Any] = lambda value: key([value[n] for n in columns])
        self._sort_key = lambda value: (self.rank(value), value)
        self.unite = unite
        self.most = sys.maxsize if most is None else most

    def finish(self, acc: Ordered[Any], /) -> str:
        """The result."""
        return self.unite(value for _, value in acc.between(0, self.most))

    def load(self, rows: SortedRows, /) -> Loaded:
        """Those of many groups."""
        sizes = np.minimum(np.diff(rows.starts), self.most)
        bounds = [0, *np.cumsum(sizes).tolist()]
        firsts = np.repeat(rows.starts[:-1] - bounds[:-1], sizes)
        values = rows.values((firsts + np.arange(bounds[-1])).tolist())
        results = [self.unite(values[start:end]) for start, end in pairwise(bounds)]
        return Loaded(partial(self.kept_of, rows), results)


def string_agg(separator: str, ways: Sequence[Way]) -> United:
    """STRING_AGG of texts with their sort keys: by these, and then by the texts themselves."""

    def unite(values: Iterable[Any]) -> str:
        return separator.join([value[0] for value in values])

    return United([*enumerate(ways, 1), (0, Way(nullable=False))], unite)


def array_agg(
    base: BaseType, ways: Sequence[Way], most: int | None = None, *, nullable: bool
) -> United:
    """ARRAY_AGG of marks, each with a value, which may be NULL, and its sort keys.

    `ways` are those of the keys, then that of the value; the array has at most `most` values.
    """

    def unite(values: Iterable[Any]) -> str:
        elements = (value[1] for value in values)
        return packed(
            base, (element and element[0] for element in elements) if nullable else elements
        )

    return United([*enumerate(ways[:-1], 2), (1, ways[-1])], unite, most)


class First(KeptOrder[Any], Several, Columnar):
    """ORDER BY ... LIMIT and DISTINCT ON: some of the rows in their order.

    Its result is a list: O(log n) for each row that changes, however long the list.
    """

    initial: Ordered[Any] = Placed()

    def __init__(self, ways: Sequence[Way], offset: int, limit: int | None) -> None:
        key = ranked(ways)
        self.sorts = [*enumerate(ways)]
        self._sort_key = self._ranked = lambda value: (key(value), value)
        self.offset = offset
        self.end = sys.maxsize if limit is None else min(offset + limit, sys.maxsize)

    def finish(self, acc: Ordered[Any], /) -> list[Any]:
        """The rows from `offset` on."""
        return [row for _, row in acc.between(self.offset, self.end)]

    def load(self, rows: SortedRows, /) -> Loaded:
        """The rows of many partitions."""
        sizes = np.diff(rows.starts)
        begins, count = np.repeat(rows.starts[:-1], sizes), int(rows.starts[-1])
        number = np.arange(count) - begins
        shown = np.flatnonzero((number >= self.offset) & (number < self.end))
        columns = [rows.codes(column)[shown] for column, _ in self.sorts]
        return Loaded(partial(self.kept_of, rows), shown=(shown, columns))

    def changes(self, before: Ordered[Any], after: Ordered[Any], values: list[Any], /) -> Changes:
        """What a result loses and gains where these rows came or went.

        A row that stays as it was is among the first no more, or only now, if it stood as near to
        one of their ends as there are changes.
        """
        more = len(values)
        near = [*map(self._ranked, values)]
        for acc in (before, after):
            end = min(self.end, len(acc))
            near += acc.between(self.offset, self.offset + more)
            near += acc.between(max(end - more, 0), end)

        def shown(acc: Ordered[Any], key: Any) -> bool:
            index = acc.place(key)
            return self.offset <= index < min(self.end, len(acc)) and acc[index] == key

        standing = [(key[1], shown(before, key), shown(after, key)) for key in near]
        went = [row for row, was, now in standing if was and not now]
        return went, [row for row, was, now in standing if now and not was]
