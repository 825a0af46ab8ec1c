"""Groups: rows of column codes by some of their columns.

A group's key is the tuple of its codes (of its values, in a recursion: `engine.beyond`). Few rows
are grouped one by one, many by sorting.
Invariant: the order of groups is that of their first row, or of their codes; nobody relies on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from deltafix.engine.stages import Changed
from deltafix.facts.schema import Row
from deltafix.kernel.arena import Words

Key: TypeAlias = Row
"""Codes of the group's columns, or their values where rows come one by one."""
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

FEW = 48
"""Rows up to which a loop beats sorting (numpy's calls cost about 40 µs together)."""


def keys_of(rows: Words, group: tuple[int, ...]) -> list[Key]:
    """The key of every row."""
    if len(group) == 1:
        return [(code,) for code in rows[:, group[0]].tolist()]
    if not group:
        return [()] * len(rows)
    return list(zip(*(rows[:, column].tolist() for column in group), strict=True))


def partition(rows: Words, group: tuple[int, ...]) -> tuple[list[Key], Numbers]:
    """The distinct keys, and for every row the number of its key. O(n log n), vectorised."""
    if not group:
        return [()], np.zeros(len(rows), dtype=np.int64)
    columns = [rows[:, column].astype(np.int64) for column in group]
    places = np.zeros(len(rows), dtype=np.int64)
    for column in columns:  # each step numbers the distinct prefixes of the key
        found, inverse = np.unique(column, return_inverse=True)
        _, places = np.unique(places * len(found) + inverse, return_inverse=True)
    first = np.zeros(int(places.max()) + 1 if len(rows) else 0, dtype=np.int64)
    first[places[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return keys_of(rows[first], group), places


def grouped(change: Changed, sign: int, group: tuple[int, ...]) -> tuple[list[Key], Numbers]:
    """`partition` of the rows that came (`sign` 1) or went; once for all folds of these groups."""
    rows = change.added if sign > 0 else change.removed
    return change.once((sign, group), lambda: partition(rows, group))


def table(rows: Iterable[Key], width: int) -> Words:
    """Rows of codes as a table (n, width)."""
    listed = list(rows)
    return np.array(listed, dtype=np.int32).reshape(len(listed), width)
