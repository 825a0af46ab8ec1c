"""Groups: rows of column codes by some of their columns.

A group's key is the tuple of its codes (of its values, in a recursion: `engine.beyond`).

A `Journal` is a value per group that an epoch can take back: what a group held when the epoch began
is noted before its first change, so `undo` puts exactly that back.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from deltafix.facts.schema import Row
from deltafix.kernel.arena import Words

Key: TypeAlias = Row
"""Codes of the group's columns, or their values where rows come one by one."""


def keys_of(rows: Words, group: tuple[int, ...]) -> list[Key]:
    """The key of every row."""
    if len(group) == 1:
        return [(code,) for code in rows[:, group[0]].tolist()]
    if not group:
        return [()] * len(rows)
    return list(zip(*(rows[:, column].tolist() for column in group), strict=True))


def table(rows: Iterable[Key], width: int) -> Words:
    """Rows of codes as a table (n, width)."""
    listed = list(rows)
    return np.array(listed, dtype=np.int32).reshape(len(listed), width)


def numbered(*tables: Words) -> list[npt.NDArray[np.int64]]:
    """A number for each row of some tables (n, width), equal where rows are. O(rows log rows)."""
    rows = np.concatenate(tables)
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in range(rows.shape[1]):
        if column > 1:
            numbers = np.unique(numbers, return_inverse=True)[1]
        numbers = numbers << 32 | (rows[:, column].astype(np.int64) & 0xFFFFFFFF)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def within(rows: Words, some: Words) -> npt.NDArray[np.bool_]:
    """Which rows are among `some`."""
    here, there = numbered(rows, some)
    return np.isin(here, there)


T = TypeVar("T")


class Journal(Generic[T]):
    """Group -> value; a group without a value is absent."""

    def __init__(self) -> None:
        self.now: dict[Key, T] = {}
        self._before: dict[Key, T | None] = {}

    @property
    def touched(self) -> KeysView[Key]:
        """The groups that were looked at or changed in the epoch."""
        return self._before.keys()

    def touch(self, key: Key) -> T | None:
        """The value of a group that may change next."""
        held = self.now.get(key)
        self._before.setdefault(key, held)
        return held

    def was(self, key: Key) -> T | None:
        """What a touched group held when the epoch began."""
        return self._before[key]

    def put(self, key: Key, value: T | None) -> None:
        """Give a group its value; None: it has none."""
        self.touch(key)
        if value is None:
            self.now.pop(key, None)
        else:
            self.now[key] = value

    def keep(self) -> None:
        """The epoch was committed."""
        self._before.clear()

    def undo(self) -> None:
        """The epoch was rolled back."""
        for key, old in self._before.items():
            if old is None:
                self.now.pop(key, None)
            else:
                self.now[key] = old
        self._before.clear()
