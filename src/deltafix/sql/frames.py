"""The values of window functions, from the sorted rows of one partition.

Nouns: a `Windowed` reducer keeps the rows of a partition sorted; a function gives a value for each
of them; a `Frame` says which rows around a row an aggregate sees. Invariant: the values follow from
the rows alone; rows that ORDER BY leaves equal are peers, and are sorted by what tells them
apart. A changed partition is walked once: O(n log n) for its n rows, whatever the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from deltafix.engine.folds.users import Several, UserReducer
from deltafix.reactive.ordered import Ordered
from deltafix.sql.reducers import Kept, Way, ranked

__all__ = ["Frame", "Function", "Windowed", "aggregated", "nth", "ranking", "shifted"]


@dataclass(frozen=True, slots=True)
class Partition:
    """The sorted rows of a partition: what the function is given of each, and its peers.

    `first` and `end` are, for each row, where its peers begin and where they have ended.
    """

    args: Sequence[Sequence[Any]]
    first: Sequence[int]
    end: Sequence[int]


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
        self._rest = ranked([Way(nullable) for nullable in rest])
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
        found = self._function(Partition(args, first, end))
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


def shifted(by: int) -> Function:
    """LAG and LEAD: the first argument of the row `by` rows later, else the second one here."""

    def found(rows: Partition) -> Iterator[Any]:
        for place, (_, default) in enumerate(rows.args):
            other = place + by
            yield rows.args[other][0] if 0 <= other < len(rows.args) else default

    return found


# --- frames --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """From which row to which: rows after this one, None for all there are that way.

    With `peers` 0 stands for the peers of this row, and there is no other number.
    """

    peers: bool
    start: int | None
    end: int | None

    def bounds(self, rows: Partition) -> Iterator[tuple[int, int]]:
        """For each row where its frame begins and has ended; both only ascend."""
        size = len(rows.args)
        for place in range(size):
            low, high = 0, size
            if self.start is not None:
                low = rows.first[place] if self.peers else place + self.start
            if self.end is not None:
                high = rows.end[place] if self.peers else place + self.end + 1
            low = min(max(low, 0), size)
            yield low, max(min(high, size), low)


def nth(frame: Frame, number: int) -> Function:
    """FIRST_VALUE (1), NTH_VALUE and LAST_VALUE (-1): an argument of a row of the frame."""

    def found(rows: Partition) -> Iterator[Any]:
        for low, high in frame.bounds(rows):
            place = low + number - 1 if number > 0 else high + number
            yield rows.args[place][0] if low <= place < high else None

    return found


def aggregated(frame: Frame, reducer: UserReducer, least: int) -> Function:
    """An aggregate of the frame: its NULLs do not count, and it is NULL for fewer than `least`.

    With `least` 0 it is never NULL.
    """

    def found(rows: Partition) -> Iterator[Any]:
        acc, count, start, end = reducer.initial, 0, 0, 0
        for low, high in frame.bounds(rows):
            for (value,) in rows.args[end:high]:
                if value is not None:
                    acc, count = reducer.add(acc, value[0]), count + 1
            for (value,) in rows.args[start:low]:
                if value is not None:
                    acc, count = reducer.remove(acc, value[0]), count - 1
            start, end = low, max(end, high)
            if least == 0:
                yield reducer.finish(acc)
            else:
                yield None if count < least else (reducer.finish(acc),)

    return found
