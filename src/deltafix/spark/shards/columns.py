"""Rows as columns of 64-bit numbers: sets that grow, indexes, joins, a batch at a time.

Lives here: `distinct`, `Seen` (a set of rows), `Run` (rows with indexes by key); the kernel does
the work (`kernel/columns`). Invariant: columns are never changed; rows that differ in one number
are told apart. It knows nothing of relations, rules or shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from deltafix.kernel.entries import add_rows, group_rows, hash_rows, meet_rows, place_rows

BLOCK = 1 << 22
"""Rows that a join makes at a time, about."""

_IN_BUCKET = 4
"""Rows of an index for a bucket. With one each, the table of beginnings leaves the cache."""

_LEAST = 1 << 10
"""Rows that a set has room for at first."""

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Columns: TypeAlias = tuple[Ints, ...]
_Words: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]


def taken(columns: Columns, which: Any) -> Columns:
    """The chosen rows: `which` is a mask, numbers, or a slice."""
    return tuple(column[which] for column in columns)


def joined(parts: Sequence[Columns]) -> Columns:
    """Parts one after another. There is at least one."""
    if len(parts) == 1:
        return parts[0]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _words(columns: Columns) -> _Words:
    """Rows as the kernel takes them: one after another, two words a number."""
    if not columns:
        return np.zeros(0, np.int32)
    return np.stack(columns, axis=1).reshape(-1).view(np.int32)


def _hashes(words: _Words, size: int) -> Ints:
    hashes = np.empty(size, np.int64)
    hash_rows(words, hashes, size, len(words) // size if size else 0)
    return hashes


def distinct(columns: Columns) -> Columns:
    """The rows, each once, as they stand first. O(n)."""
    return Seen(len(columns[0])).add(columns)


class Seen:
    """A set of rows that grows, with room for some at first."""

    def __init__(self, room: int = _LEAST) -> None:
        self._used = self._room = 0
        self._wanted = room
        self._slots: Ints = np.zeros(0, np.int64)
        self._rows: _Words = np.zeros(0, np.int32)

    def add(self, columns: Columns) -> Columns:
        """Add rows; returns those that were not there, each once. O(n) on average."""
        size, width = len(columns[0]), 2 * len(columns)
        self._grow(self._used + size, width)
        out, rows = np.empty(size, np.int64), _words(columns)
        hashes = _hashes(rows, size)
        new = add_rows(self._rows, self._slots, rows, hashes, out, size, width, self._used)
        self._used += new
        return columns if new == size else taken(columns, out[:new])

    def _grow(self, wanted: int, width: int) -> None:
        if wanted <= self._room:
            return
        self._room = max(wanted, 2 * self._room, self._wanted)
        held = self._rows[: self._used * width]
        self._rows = np.empty(self._room * width, np.int32)
        self._rows[: len(held)] = held
        self._slots = np.zeros(2 * self._room + 1, np.int64)
        place_rows(self._slots, _hashes(held, self._used), self._used)


class Found(NamedTuple):
    """What probes met: `which` of them, and columns of the rows, by number."""

    which: Ints
    rows: dict[int, Ints]


class _Index:
    """Rows, those of a key side by side."""

    def __init__(self, columns: Columns, key: tuple[int, ...]) -> None:
        size = len(columns[0])
        order = np.empty(size, np.int64)
        self.starts = np.zeros(size // _IN_BUCKET + 2, np.int64)
        hashes = _hashes(_words(tuple(columns[c] for c in key)), size)
        group_rows(hashes, self.starts, order, size)
        self.rows = taken(columns, order)
        self.keys = _words(tuple(self.rows[c] for c in key))


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
        found = np.zeros(size, np.bool_)
        for which, _ in self.meet(key, probes, size, ()):
            found[which] = True
        return found

    def meet(
        self, key: tuple[int, ...], probes: Columns, size: int, wanted: Sequence[int]
    ) -> Iterator[Found]:
        """The rows with the probes' values at `key`, their `wanted` columns, in blocks."""
        index = self._index(key)
        asked, told = _words(probes), np.zeros(1, np.int64)
        hashes, width = _hashes(asked, size), 2 * len(key)
        begin, room = 0, BLOCK
        while begin < size:
            which, place = np.empty(room, np.int64), np.empty(room, np.int64)
            end = meet_rows(
                index.keys, index.starts, asked, hashes, which, place, told, begin, size, width
            )
            count = int(told[0])
            if count:
                rows = {column: index.rows[column][place[:count]] for column in wanted}
                yield Found(which[:count], rows)
            elif end == begin:
                room *= 2  # one bucket is larger
            begin = end
