"""Rows as columns of 64-bit numbers: sets that grow, indexes, joins, a batch at a time in numpy.

Lives here: `distinct`, `Seen` (a set of rows), `Run` (rows with indexes by key). Rows are found by
the 64-bit hash of their key columns and then compared, so answers are exact. Invariant: two
different keys with one hash in one set are never taken for the same; they raise `CollisionError`
(odds of 1 in 10^7 for a million rows), and who called does the work another way.
It knows nothing of relations, rules or shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from deltafix.spark.hashing import Hashes, hash_columns

__all__ = [
    "BLOCK", "CollisionError", "Columns", "Found", "Ints", "Run", "Seen", "distinct", "joined",
    "taken",
]  # fmt: skip

BLOCK = 1 << 22
"""Rows that a join makes at a time, about."""

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Columns: TypeAlias = tuple[Ints, ...]


class CollisionError(Exception):
    """Two different rows of one set have the same hash."""


def taken(columns: Columns, which: Any) -> Columns:
    """The chosen rows: `which` is a mask, numbers, or a slice."""
    return tuple(column[which] for column in columns)


def joined(parts: Sequence[Columns]) -> Columns:
    """Parts one after another. There is at least one."""
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _equal(left: Columns, right: Columns) -> Any:
    same = left[0] == right[0]
    for one, other in zip(left[1:], right[1:], strict=True):
        same &= one == other
    return same


def distinct(columns: Columns, spare: float = 0.0) -> Columns:
    """The rows, each once, in any order. O(n log n).

    `spare`: the share of rows that may stand twice all the same; to put all in order costs several
    times what it costs to see that it is not worth it.
    """
    hashes = np.sort(hash_columns(columns))
    again = int(np.count_nonzero(hashes[1:] == hashes[:-1]))
    return columns if again <= spare * len(hashes) else _sorted_distinct(columns)[1]


def _sorted_distinct(columns: Columns) -> tuple[Hashes, Columns]:
    hashes = hash_columns(columns)
    order = np.argsort(hashes)
    hashes, columns = hashes[order], taken(columns, order)
    again = hashes[1:] == hashes[:-1]
    if not again.any():
        return hashes, columns
    places = np.flatnonzero(again)
    if not _equal(taken(columns, places), taken(columns, places + 1)).all():
        raise CollisionError
    first = np.concatenate(([True], ~again))
    return hashes[first], taken(columns, first)


class Seen:
    """A set of rows that grows. Runs sorted by hash, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, Columns]] = []

    def add(self, columns: Columns) -> Columns:
        """Add rows; returns those that were not there, each once. O(n log n) on average."""
        hashes, columns = _sorted_distinct(columns)
        for known, rows in self._runs:
            place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            there = known[place] == hashes
            if there.any():
                if not _equal(taken(rows, place[there]), taken(columns, there)).all():
                    raise CollisionError
                hashes, columns = hashes[~there], taken(columns, ~there)
        if len(hashes):
            self._runs.append((hashes, columns))
            while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
                (early, left), (late, right) = self._runs[-2:]
                both = np.concatenate((early, late))
                order = np.argsort(both, kind="stable")  # two sorted runs: a merge
                self._runs[-2:] = [(both[order], taken(joined((left, right)), order))]
        return columns


class Found(NamedTuple):
    """What probes met: `which` of them, and columns of the rows, by number."""

    which: Ints
    rows: dict[int, Ints]


class _Index:
    """Rows in the order of the hash of their key columns, and where each key begins."""

    def __init__(self, columns: Columns, key: tuple[int, ...]) -> None:
        hashes = hash_columns(tuple(columns[c] for c in key), len(columns[0]))
        order = np.argsort(hashes)
        hashes = hashes[order]
        self.rows = taken(columns, order)
        self.keys = tuple(self.rows[c] for c in key)
        first = np.concatenate(([True], hashes[1:] != hashes[:-1]))
        self.starts = np.flatnonzero(first)
        self.hashes = hashes[self.starts]
        self.counts = np.diff(np.append(self.starts, len(hashes)))
        inside = np.flatnonzero(~first)
        if self.keys and not _equal(taken(self.keys, inside), taken(self.keys, inside - 1)).all():
            raise CollisionError

    def ranges(self, probes: Columns, size: int) -> tuple[Ints, Ints]:
        """For each of `size` probes, where its rows begin and how many there are."""
        hashes = hash_columns(probes, size)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        there = self.hashes[place] == hashes
        starts = self.starts[place]
        if probes:
            there &= _equal(taken(self.keys, starts), probes)
        return starts, np.where(there, self.counts[place], 0)


class Run:
    """Rows, at least one, with an index for each key that was asked for."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._indexes: dict[tuple[int, ...], _Index] = {}

    def __len__(self) -> int:
        return len(self.columns[0])

    def _index(self, key: tuple[int, ...]) -> _Index:
        found = self._indexes.get(key)
        if found is None:
            found = self._indexes[key] = _Index(self.columns, key)
        return found

    def has(self, key: tuple[int, ...], probes: Columns, size: int) -> Any:
        """A mask: for which of `size` probes there is a row with these values at `key`."""
        return self._index(key).ranges(probes, size)[1] > 0

    def meet(
        self, key: tuple[int, ...], probes: Columns, size: int, wanted: Sequence[int]
    ) -> Iterator[Found]:
        """The rows with the probes' values at `key`, their `wanted` columns, in blocks."""
        index = self._index(key)
        starts, counts = index.ranges(probes, size)
        ends = np.cumsum(counts)
        begin = 0
        while begin < size:
            before = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, before + BLOCK, side="right")), begin + 1)
            some = counts[begin:end]
            total = int(ends[end - 1]) - before
            if total:
                which = np.repeat(np.arange(begin, end), some)
                shift = starts[begin:end] - (ends[begin:end] - some - before)
                place = np.arange(total) + np.repeat(shift, some)
                yield Found(which, {column: index.rows[column][place] for column in wanted})
            begin = end
