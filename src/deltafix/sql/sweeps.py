"""Window functions over all rows of many partitions at once, by column, in numpy.

One noun: a `Sweep` is what a function is given: rows by partition, sorted, as columns, and of each
row where its partition and its peers begin and have ended. Invariant: the values are those of a
walk (`sql.frames`), which is where a function says what it computes; places are those among all
rows, and an end is behind the last one. What has no exact way here (EXCLUDE, DISTINCT, most
aggregates in a frame, infinities) has none, and partitions are walked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from deltafix.changes.digits import Digits, units_of
from deltafix.changes.exact import ratio
from deltafix.kernel.values import NIL
from deltafix.reducers.aggregate import SortedRows, UserReducer
from deltafix.reducers.numeric import Count, Mean, Sum
from deltafix.sql import reducers

if TYPE_CHECKING:
    from deltafix.sql.frames import Frame

__all__ = ["Aggregate", "Sweep", "Swept", "extreme", "nth", "ranking", "shifted"]

_Ints: TypeAlias = npt.NDArray[np.int64]
_Codes: TypeAlias = npt.NDArray[np.int32]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_LARGE = 1 << 63
_BEYOND = 1 << 40
_WHOLE = 1 << 53
"""Whole numbers below are floats, and their quotient is rounded once."""


class Sweep:
    """The rows of many partitions.

    A row is its sort keys, arguments up to before `split[1]`, from `split[0]` on, and what tells it
    apart; `width` is the number of columns of a row of the result.
    """

    def __init__(self, rows: SortedRows, split: tuple[int, int], width: int) -> None:
        self.rows = rows
        self.split = split
        self._value = width - 1
        sizes = np.diff(rows.starts)
        self.index: _Ints = np.arange(rows.starts[-1])
        self.begin: _Ints = np.repeat(rows.starts[:-1], sizes)
        self.end: _Ints = np.repeat(rows.starts[1:], sizes)
        self.sums: dict[UserReducer, _Sums | None] = {}

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def _new(self) -> _Flags:
        """Which rows have no peer before them."""
        new: _Flags = self.begin == self.index
        for column in range(self.split[0]):
            codes = self.rows.codes(column)
            new[1:] |= codes[1:] != codes[:-1]
        return new

    @cached_property
    def firsts(self) -> _Ints:
        """Where each group of peers begins, and the last has ended."""
        return np.append(np.flatnonzero(self._new), len(self))

    @cached_property
    def group(self) -> _Ints:
        """The number of the group of peers of each row."""
        return np.cumsum(self._new) - 1

    @property
    def peers(self) -> tuple[_Ints, _Ints]:
        """Where the peers of each row begin and have ended."""
        return self.firsts[self.group], self.firsts[self.group + 1]

    def argument(self, number: int = 0) -> int:
        """The column of an argument."""
        return self.split[0] + number

    def there(self, number: int = 0) -> _Flags:
        """Where an argument is not NULL."""
        present = self.rows.present(self.argument(number))
        return np.ones(len(self), dtype=np.bool_) if present is None else present

    def coded(self, values: Any, present: _Flags | None = None) -> _Codes:
        """Values of rows, NULL where they are not `present`."""
        return self.rows.coded(self._value, values, present)

    def picked(self, at: _Ints, found: _Flags, number: int = 0) -> _Codes:
        """An argument of other rows, NULL where none is `found`."""
        codes = self.rows.codes(self.argument(number))
        return np.where(found, codes[np.clip(at, 0, len(self) - 1)], np.int32(NIL))


Swept: TypeAlias = Callable[[Sweep], "_Codes | None"]
"""The value of each row as the engine has it; None: there is no way by column for these."""


def _held(number: int) -> int:
    """A number of rows that is written, or one beyond all that there are."""
    return max(min(number, _BEYOND), -_BEYOND)


# --- places --------------------------------------------------------------------------------------


def ranking(name: str, most: int) -> Swept:
    """ROW_NUMBER and its like, NTILE of at most so many."""

    def values(sweep: Sweep) -> _Codes:
        number, size = sweep.index - sweep.begin, sweep.end - sweep.begin
        buckets = _held(most)
        if name == "row_number":
            return sweep.coded(number + 1)
        if name == "ntile":
            each, more = size // buckets, size % buckets
            long = (each + 1) * more
            short = more + (number - long) // np.maximum(each, 1)
            return sweep.coded(np.where(number < long, number // (each + 1), short) + 1)
        if name == "dense_rank":
            return sweep.coded(sweep.group - sweep.group[sweep.begin] + 1)
        first, past = sweep.peers
        if name == "rank":
            return sweep.coded(first - sweep.begin + 1)
        if name == "percent_rank":
            return sweep.coded((first - sweep.begin) / np.maximum(size - 1, 1))
        return sweep.coded((past - sweep.begin) / size)

    return values


def shifted(by: int, *, ignores: bool) -> Swept:
    """LAG and LEAD."""
    by = _held(by)

    def values(sweep: Sweep) -> _Codes:
        at = sweep.index + by
        if ignores and by:
            present = np.flatnonzero(sweep.there())
            before = np.cumsum(sweep.there())  # with the row itself
            place = (before - sweep.there() if by < 0 else before - 1) + by
            padded = np.concatenate(([-1], present, [len(sweep)]))
            at = padded[np.clip(place, -1, len(present)) + 1]
        found = (sweep.begin <= at) & (at < sweep.end)
        codes, default = (sweep.rows.codes(sweep.argument(n)) for n in range(2))
        return np.where(found, codes[np.clip(at, 0, len(sweep) - 1)], default)

    return values


# --- frames --------------------------------------------------------------------------------------


def nth(frame: Frame, number: int, *, ignores: bool) -> Swept:
    """FIRST_VALUE, NTH_VALUE and LAST_VALUE."""
    number = _held(number)

    def values(sweep: Sweep) -> _Codes | None:
        bounds = _bounds(frame, sweep)
        if bounds is None:
            return None
        low, high = bounds
        if not ignores:
            at = high - 1 if number < 0 else low + number - 1
            return sweep.picked(at, (low <= at) & (at < high))
        present = np.flatnonzero(sweep.there())
        low, high = np.searchsorted(present, low), np.searchsorted(present, high)
        at = high - 1 if number < 0 else low + number - 1
        found = (low <= at) & (at < high)
        return sweep.picked(np.append(present, 0)[np.where(found, at, 0)], found)

    return values


def extreme(frame: Frame, *, last: bool) -> Swept:
    """MIN and MAX: O(n log n), whatever the frame."""

    def values(sweep: Sweep) -> _Codes | None:
        bounds = _bounds(frame, sweep)
        if bounds is None:
            return None
        low, high = bounds
        ranks, codes = sweep.rows.ranks(sweep.argument())
        pick = np.maximum if last else np.minimum
        least = -1 if last else len(codes)  # of NULL, and of nothing
        ranks = np.where(ranks < 0, least, ranks)
        best = np.full(len(sweep), least)
        length = high - low
        # of each row the best of the 1, 2, 4, ... rows from there on: two of them are a frame
        for power in range(int(length.max()).bit_length()):
            size = 1 << power
            if power:
                ranks = pick(ranks, np.append(ranks[size // 2 :], np.full(size // 2, least)))
            here = (length >= size) & (length < 2 * size)
            best[here] = pick(ranks[low[here]], ranks[high[here] - size])
        found = best != least
        return np.where(found, np.append(codes, 0)[np.where(found, best, 0)], np.int32(NIL))

    return values


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, SUM and AVG of a frame, by sums of all rows before."""

    frame: Frame
    reducer: UserReducer
    least: int

    def values(self, sweep: Sweep) -> _Codes | None:
        """The value of each row, NULL for fewer than `least` values; None: not by column."""
        bounds = _bounds(self.frame, sweep)
        sums = None if bounds is None else _Sums.of(sweep, self.reducer)
        if bounds is None or sums is None:
            return None
        low, high = bounds
        count = sums.count[high] - sums.count[low]
        found = self._finished(sums, low, high, count)
        if found is None:
            return None
        return sweep.coded(found, None if self.least == 0 else count >= self.least)

    def totals(self, sweep: Sweep) -> Callable[[int], tuple[Any, int]]:
        """What a partition adds up to, as the reducer has it, and how many values there are.

        It is asked for by number, long after: no array is kept of more than the partitions.
        """
        sums = _Sums.of(sweep, self.reducer)
        assert sums is not None  # noqa: S101  `values` had them
        low, high = sweep.rows.starts[:-1], sweep.rows.starts[1:]
        counts = sums.count[high] - sums.count[low]
        is_mean = isinstance(self.reducer, Mean | reducers.Mean)
        totals = [] if isinstance(self.reducer, Count) else sums.totals(low, high)
        scale = None if sums.digits is None else sums.digits.scale

        def total(group: int) -> tuple[Any, int]:
            count = int(counts[group])
            if not totals:
                return count, count
            of: Any = totals[group]
            if scale is not None and count:
                of = (units_of(of, scale), count, 0, 0, 0)
            return ((of, count) if is_mean else of), count

        return total

    def _finished(self, sums: _Sums, low: _Ints, high: _Ints, count: _Ints) -> Any:
        """The results; None where one is an error."""
        reducer, digits = self.reducer, sums.digits
        if isinstance(reducer, Count):
            return count
        if isinstance(reducer, Sum) and digits is not None:
            return digits.rounded(sums.between(low, high))
        if isinstance(reducer, reducers.Sum):
            (total,) = sums.between(low, high)
            is_held = reducer.least <= total.min(initial=0) and total.max(initial=0) <= reducer.most
            return total if is_held else None
        if isinstance(reducer, Sum):
            return None
        unit = 10**reducer.scale if isinstance(reducer, reducers.Mean) else 1
        if digits is None:
            (total,) = sums.between(low, high)
            most = int(count.max(initial=0)) * unit
            if max(int(np.abs(total).max(initial=0)), most) < _WHOLE:
                return total / (np.maximum(count, 1) * unit)
        up, down = (0, 0) if digits is None else (max(digits.scale, 0), max(-digits.scale, 0))
        totals = sums.totals(low, high)
        return [
            ratio(total << up, (n * unit or 1) << down)
            for total, n in zip(totals, count.tolist(), strict=True)
        ]


class _Sums:
    """The sums of an argument over all rows before each, and behind the last one.

    Attributes:
        count: how many are not NULL.
        parts: what they add up to, a list of digits; of whole numbers one.
        digits: what the digits stand for, where they are of floats.
    """

    def __init__(self, count: _Ints, parts: list[_Ints], digits: Digits | None) -> None:
        self.count = count
        self.parts = parts
        self.digits = digits

    @classmethod
    def of(cls, sweep: Sweep, reducer: UserReducer) -> _Sums | None:
        """Those that a reducer asks for; None where they are not exact."""
        known = sweep.sums.get(reducer)
        if known is None:
            known = sweep.sums[reducer] = cls._made(sweep, reducer)
        return known

    @classmethod
    def _made(cls, sweep: Sweep, reducer: UserReducer) -> _Sums | None:
        count = _before(sweep.there().astype(np.int64))
        if isinstance(reducer, Count):
            return cls(count, [], None)
        numbers = sweep.rows.numbers(sweep.argument())
        known = isinstance(reducer, Sum | Mean | reducers.Sum | reducers.Mean)
        if not known or numbers is None:
            return None
        if numbers.dtype != np.int64:
            if not np.isfinite(numbers).all() or len(numbers) >= 1 << 31:
                return None
            digits = Digits(numbers)
            return cls(count, [*map(_before, digits.digits)], digits)
        most = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
        return cls(count, [_before(numbers)], None) if most * len(numbers) < _LARGE else None

    def between(self, low: _Ints, high: _Ints) -> list[_Ints]:
        """What rows from places to before others add up to, each digit."""
        return [part[high] - part[low] for part in self.parts]

    def totals(self, low: _Ints, high: _Ints) -> list[int]:
        """The same as whole numbers; of floats, of what their least digit counts."""
        sums = self.between(low, high)
        return sums[0].tolist() if self.digits is None else self.digits.wholes(sums)


def _before(numbers: _Ints) -> _Ints:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(numbers)))


def _bounds(frame: Frame, sweep: Sweep) -> tuple[_Ints, _Ints] | None:
    """Where the frame of each row begins and has ended; None: it has no way by column."""
    if frame.exclude:
        return None
    ways = {"ROWS": _by_rows, "GROUPS": _by_groups, "RANGE": _by_values}
    ends = ways[frame.kind](frame, sweep)
    if ends is None:
        return None
    low = sweep.begin if frame.start is None else np.clip(ends[0], sweep.begin, sweep.end)
    high = sweep.end if frame.end is None else np.clip(ends[1], low, sweep.end)
    return low, high


def _by_rows(frame: Frame, sweep: Sweep) -> tuple[_Ints, _Ints]:
    return sweep.index + _held(frame.start or 0), sweep.index + _held(frame.end or 0) + 1


def _by_groups(frame: Frame, sweep: Sweep) -> tuple[_Ints, _Ints]:
    first, last = sweep.group[sweep.begin], sweep.group[sweep.end - 1] + 1
    low, high = sweep.group + _held(frame.start or 0), sweep.group + _held(frame.end or 0) + 1
    return sweep.firsts[np.clip(low, first, last)], sweep.firsts[np.clip(high, first, last)]


def _by_values(frame: Frame, sweep: Sweep) -> tuple[_Ints, _Ints] | None:
    low, high = sweep.peers
    if frame.key is None or not (frame.start or frame.end):
        return low, high
    numbers = sweep.rows.numbers(0)
    if numbers is None or (numbers.dtype != np.int64 and np.isnan(numbers).any()):
        return None
    present = sweep.rows.present(0)
    here = sweep.index if present is None else np.flatnonzero(present)
    values = numbers[here]
    for end, bound, side in ((low, frame.start, "left"), (high, frame.end, "right")):
        if not bound:
            continue
        step = frame.key.step(bound)
        if step is None:
            return None
        unit, by = step
        if values.dtype == np.int64:
            most = max(int(values.max(initial=0)), -int(values.min(initial=0))) * unit
            if most + abs(by) >= _LARGE:
                return None
        measures = values * unit if unit != 1 else values
        wanted = measures + by
        if frame.key.way.descending:
            measures, wanted = -measures, -wanted
        places = _placed(sweep.begin[here], measures, wanted, side)
        # counted among the rows that are not NULL, which lie together in each partition
        own = np.searchsorted(sweep.begin[here], sweep.begin[here])
        end[here] = here[own] + (places - own)
    return low, high


def _placed(group: _Ints, values: Any, wanted: Any, side: str) -> _Ints:
    """Where in its group each value that is wanted would stand: before equal ones, or behind."""
    count = len(values)
    is_wanted = np.repeat([False, True], count)
    behind = is_wanted if side == "right" else ~is_wanted
    order = np.lexsort((behind, np.concatenate((values, wanted)), np.tile(group, 2)))
    before = np.cumsum(~is_wanted[order])
    places = np.empty(2 * count, dtype=np.int64)
    places[order] = before
    return places[count:]
