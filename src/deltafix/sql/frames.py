"""The values of window functions, from the sorted rows of one partition.

Nouns: a `Windowed` reducer keeps the rows of a partition sorted; a function gives a value for each
of them; a `Frame` says which rows around a row an aggregate sees. Invariant: the values follow from
the rows alone; rows that ORDER BY leaves equal are peers, and are sorted by what tells them
apart. A changed partition is walked once: O(n log n) for its n rows, whatever the frame, and where
values are put together O(the rows of all frames); EXCLUDE adds the peers of each row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from deltafix.engine.folds.users import Several, UserReducer
from deltafix.reactive.ordered import Ordered, placed
from deltafix.sql.reducers import Kept, Way, ranked

__all__ = [
    "Frame", "Function", "Key", "Windowed", "aggregated", "nth", "ranking", "shifted", "united",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Partition:
    """The sorted rows of a partition: what the function is given of each, and its peers.

    `first` and `end` are, for each row, where its peers begin and where they have ended; `keys` is
    what each row is sorted by.
    """

    args: Sequence[Sequence[Any]]
    first: Sequence[int]
    end: Sequence[int]
    keys: Sequence[Sequence[Any]]


Function: TypeAlias = Callable[[Partition], Iterable[Any]]
"""A value for each row of a partition, as the engine has it."""


class Windowed(Kept, Several):
    """A window function: for each row of a partition what tells it apart, and its value.

    A row is its sort keys (`ways`), then `width` arguments, which may be NULL, then
    what tells it apart, where `told` says which may be.
    """

    def __init__(
        self,
        ways: Sequence[Way],
        told: Sequence[bool],
        width: int,
        function: Function,
    ) -> None:
        self._keys = len(ways)
        self._at = len(ways) + width
        self._by = ranked(ways)
        rest = [*told, *(True for _ in range(width))]
        self._rest = ranked([Way(nullable) for nullable in rest]) if any(rest) else placed
        self._function = function

    def key(self, value: Any) -> Any:
        """What is kept of a row: it decides the order."""
        # the arguments, too: while an epoch is read, what an update took away is still there
        rest = (*value[self._at :], *value[self._keys : self._at])
        return (self._by(value[: self._keys]), self._rest(rest), value)

    def finish(self, acc: Ordered[Any], /) -> list[Any]:
        """The rows of the partition, each with its value."""
        first: list[int] = []
        end: list[int] = []
        rows: list[Any] = []
        for _, peers in groupby(acc, key=itemgetter(0)):
            start = len(rows)
            rows += [row for _, _, row in peers]
            first += [start] * (len(rows) - start)
            end += [len(rows)] * (len(rows) - start)
        args = [row[self._keys : self._at] for row in rows]
        keys = [row[: self._keys] for row in rows]
        found = self._function(Partition(args, first, end, keys))
        return [(*row[self._at :], value) for row, value in zip(rows, found, strict=True)]


# --- places --------------------------------------------------------------------------------------


def ranking(name: str, buckets: int = 1) -> Function:
    """ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, and NTILE of some buckets."""

    def dense(rows: Partition) -> Iterator[int]:
        number = 0
        for place, first in enumerate(rows.first):
            number += place == first
            yield number

    def ntile(rows: Partition) -> Iterator[int]:
        size, more = divmod(len(rows.args), buckets)
        for place in range(len(rows.args)):
            beyond = place - more * (size + 1)
            yield (place // (size + 1) if beyond < 0 else more + beyond // size) + 1

    found: dict[str, Function] = {
        "row_number": lambda rows: range(1, len(rows.args) + 1),
        "rank": lambda rows: [first + 1 for first in rows.first],
        "dense_rank": dense,
        "percent_rank": lambda rows: [n / max(len(rows.first) - 1, 1) for n in rows.first],
        "cume_dist": lambda rows: [n / len(rows.end) for n in rows.end],
        "ntile": ntile,
    }
    return found[name]


def shifted(by: int, *, ignores: bool = False) -> Function:
    """LAG and LEAD: the first argument of the row `by` rows later, else the second one here.

    With `ignores` rows whose argument is NULL are no rows.
    """

    def found(rows: Partition) -> Iterator[Any]:
        there = _there(rows, ignores=ignores)
        for place, (value, default) in enumerate(rows.args):
            if not by:
                yield value
                continue
            at = place
            if ignores:
                at = bisect_left(there, place) if by < 0 else bisect_right(there, place) - 1
            yield rows.args[there[at + by]][0] if 0 <= at + by < len(there) else default

    return found


def _there(rows: Partition, *, ignores: bool) -> Sequence[int]:
    """The places of all rows, or of those whose first argument is not NULL."""
    if not ignores:
        return range(len(rows.args))
    return [place for place, (value, *_) in enumerate(rows.args) if value is not None]


# --- frames --------------------------------------------------------------------------------------


class Key(NamedTuple):
    """What RANGE measures by: the one column that is sorted by.

    `place` makes its values comparable, `shift` one that is so much later, or less.
    """

    place: Callable[[Any], Any]
    shift: Callable[[Any, Any], Any]
    way: Way


@dataclass(frozen=True, slots=True)
class Frame:
    """From which row to which, seen from a row: after it, None for all there are that way.

    They are counted in rows, in groups of peers, or by their values; with RANGE and GROUPS 0 stands
    for the peers of this row, and without a `key` RANGE has no other number. `exclude` leaves out
    this row ("CURRENT ROW"), it with its peers ("GROUP"), or these alone ("TIES").
    """

    kind: Literal["ROWS", "GROUPS", "RANGE"]
    start: Any
    end: Any
    key: Key | None = None
    exclude: str = ""

    def parts(self, rows: Partition) -> Iterator[list[tuple[int, int]]]:
        """For each row where each part of its frame begins and has ended, in their order."""
        for (low, high), holes in zip(self.bounds(rows), self.holes(rows), strict=True):
            begins = [low, *(max(low, end) for _, end in holes)]
            ends = [*(min(begin, high) for begin, _ in holes), high]
            yield [part for part in zip(begins, ends, strict=True) if part[0] < part[1]]

    def holes(self, rows: Partition) -> Iterator[tuple[tuple[int, int], ...]]:
        """For each row what is left out, within its frame or not, in order."""
        for place, (first, end) in enumerate(zip(rows.first, rows.end, strict=True)):
            if self.exclude == "CURRENT ROW":
                yield ((place, place + 1),)
            elif self.exclude == "GROUP":
                yield ((first, end),)
            elif self.exclude == "TIES":
                yield ((first, place), (place + 1, end))
            else:
                yield ()

    def bounds(self, rows: Partition) -> Iterator[tuple[int, int]]:
        """For each row where its frame begins and has ended; both only ascend."""
        size = len(rows.args)
        ways = {"ROWS": self._by_rows, "GROUPS": self._by_groups, "RANGE": self._by_values}
        for low, high in ways[self.kind](rows, size):
            begin = min(max(low, 0), size)
            yield begin, max(min(high, size), begin)

    def _by_rows(self, _: Partition, size: int) -> Iterator[tuple[int, int]]:
        for place in range(size):
            low = 0 if self.start is None else place + self.start
            yield low, size if self.end is None else place + self.end + 1

    def _by_groups(self, rows: Partition, size: int) -> Iterator[tuple[int, int]]:
        starts = [*dict.fromkeys(rows.first), size]
        last = len(starts) - 1
        number = -1
        for place, first in enumerate(rows.first):
            number += place == first
            low = 0 if self.start is None else starts[min(max(number + self.start, 0), last)]
            end = last if self.end is None else min(max(number + self.end + 1, 0), last)
            yield low, starts[end]

    def _by_values(self, rows: Partition, size: int) -> Iterator[tuple[int, int]]:
        if self.key is None or not (self.start or self.end):
            pairs = zip(rows.first, rows.end, strict=True)
            for first, end in pairs:
                yield 0 if self.start is None else first, size if self.end is None else end
            return
        (place, shift, (nullable, descending, _)) = self.key
        values = [key[0] for key in rows.keys]
        if nullable:
            values = [value and value[0] for value in values]
        bare = [value for value in values if value is not None]
        before = next((n for n, value in enumerate(values) if value is not None), 0)  # NULLs
        places = [place(value) for value in (reversed(bare) if descending else bare)]

        def begins(value: Any) -> int:
            if descending:
                return before + len(places) - bisect_right(places, value)
            return before + bisect_left(places, value)

        def ends(value: Any) -> int:
            if descending:
                return before + len(places) - bisect_left(places, value)
            return before + bisect_right(places, value)

        for first, end, value in zip(rows.first, rows.end, values, strict=True):
            low, high = 0 if self.start is None else first, size if self.end is None else end
            if value is not None and self.start:
                low = begins(shift(value, self.start))
            if value is not None and self.end:
                high = ends(shift(value, self.end))
            yield low, high


def nth(frame: Frame, number: int, *, ignores: bool = False) -> Function:
    """FIRST_VALUE (1), NTH_VALUE and LAST_VALUE (-1): an argument of a row of the frame.

    With `ignores` rows whose argument is NULL are no rows.
    """

    def found(rows: Partition) -> Iterator[Any]:
        there = _there(rows, ignores=ignores)
        for parts in frame.parts(rows):
            places = [range(low, high) for low, high in parts]
            if ignores:
                places = [
                    range(bisect_left(there, low), bisect_left(there, high)) for low, high in parts
                ]
            if number < 0:
                place = next((one[-1] for one in reversed(places) if one), None)
            else:
                before = number - 1
                for one in places:
                    if before < len(one):
                        place = one[before]
                        break
                    before -= len(one)
                else:
                    place = None
            yield None if place is None else rows.args[there[place]][0]

    return found


def aggregated(
    frame: Frame, reducer: UserReducer, least: int, *, distinct: bool = False
) -> Function:
    """An aggregate of the frame: its NULLs do not count, and it is NULL for fewer than `least`.

    With `least` 0 it is never NULL; with `distinct` a value counts once.
    """

    def found(rows: Partition) -> Iterator[Any]:
        acc, count, start, end = reducer.initial, 0, 0, 0
        seen = Counter[Any]()

        def come(begin: int, end: int) -> None:
            nonlocal acc, count
            for (value,) in rows.args[begin:end]:
                if value is None:
                    continue
                seen[value] += distinct
                if seen[value] < 2:
                    acc, count = reducer.add(acc, value[0]), count + 1

        def go(begin: int, end: int) -> None:
            nonlocal acc, count
            for (value,) in rows.args[begin:end]:
                if value is None:
                    continue
                seen[value] -= distinct
                if not seen[value]:
                    acc, count = reducer.remove(acc, value[0]), count - 1

        for (low, high), holes in zip(frame.bounds(rows), frame.holes(rows), strict=True):
            come(end, high)
            go(start, low)
            start, end = low, max(end, high)
            out = [(max(low, begin), min(high, past)) for begin, past in holes]
            for hole in out:
                go(*hole)
            if least == 0:
                yield reducer.finish(acc)
            else:
                yield None if count < least else (reducer.finish(acc),)
            for hole in out:
                come(*hole)

    return found


def united(
    frame: Frame, unite: Callable[[list[Any]], Any], order: Callable[[Any], Any] | None, *,
    distinct: bool,
) -> Function:  # fmt: skip
    """Values of the frame made one, with what stands beside them: in its order, or in this one.

    Those whose first argument is NULL do not count; without any it is NULL.
    """

    def found(rows: Partition) -> Iterator[Any]:
        args = [(row[0] and row[0][0], *row[1:]) for row in rows.args]
        for parts in frame.parts(rows):
            there = [row for low, high in parts for row in args[low:high] if row[0] is not None]
            if distinct:
                there = list(dict.fromkeys(there))
            if order is not None:
                there.sort(key=order)
            yield unite(there) if there else None

    return found
