"""How often rows are there that were put in more than once (`duplicates = "count"`).

The engine keeps it as rows of `R__times(columns, n)`; `Times` is the same as a dictionary, so that
a row need not be looked up there. Invariant: what an epoch changes becomes part of it when the
epoch is committed, and is forgotten when it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from deltafix.facts.schema import Row

COUNTS = "__times"
"""Appended to a relation's name: its rows that were put in more than once, and how often."""


class Edits(NamedTuple):
    """Rows of `R__times` to take out and to put in."""

    old: list[Row]
    new: list[Row]


class Times:
    """The counts of one relation, from the rows of `R__times`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._times = {row[:-1]: cast(int, row[-1]) for row in rows}
        self._open: dict[Row, int] = {}

    def of(self, row: Row) -> int:
        """How often a row is there that is there."""
        return self._open.get(row) or self._times.get(row, 1)

    def change(self, rows: Sequence[Row], before: Sequence[int], after: Sequence[int]) -> Edits:
        """Note how often rows are there now; returns what that changes."""
        edits = Edits([], [])
        for row, old, new in zip(rows, before, after, strict=True):
            if old != new:
                self._open[row] = new
                if old > 1:
                    edits.old.append((*row, old))
                if new > 1:
                    edits.new.append((*row, new))
        return edits

    def settle(self, *, committed: bool) -> None:
        """Keep what the epoch changed, or forget it."""
        for row, new in self._open.items() if committed else ():
            if new > 1:
                self._times[row] = new
            else:
                self._times.pop(row, None)
        self._open.clear()
