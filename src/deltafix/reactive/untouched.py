"""The keys of a loaded table that one holder has not changed yet.

A table is loaded once and held by several operators: the input keeps its values, each reduction
its results. All share the table's dictionary of keys; a holder notes one byte a key. Copying the
dictionary for each would take longer than sorting the rows.

Invariant: a key is here or in its holder's own dictionary, never in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Untouched:
    """key -> place in the loaded table, of the keys not taken yet. False when none is left."""

    __slots__ = ("_left", "codes", "taken")

    def __init__(self, codes: dict[Any, int]) -> None:
        self.codes = codes
        self.taken = bytearray(len(codes))
        """By place: 1 where the key is the holder's."""
        self._left = len(codes)

    def take(self, key: Any) -> int | None:
        """The place of a key, which is the holder's from now on; None if it is not here."""
        place = self.codes.get(key)
        if place is None or self.taken[place]:
            return None
        self.taken[place] = 1
        self._left -= 1
        return place

    def get(self, key: Any) -> int | None:
        """The place of a key that stays here; None if it is not here."""
        place = self.codes.get(key)
        return None if place is None or self.taken[place] else place

    def items(self) -> Iterator[tuple[Any, int]]:
        """(key, place) of all that are here."""
        if self._left:
            taken = self.taken
            for key, place in self.codes.items():
                if not taken[place]:
                    yield key, place

    def __len__(self) -> int:
        return self._left
