"""Point reads of a committed state, in codes: for those who follow rows from one to the next.

A `Probe` is made by `Reading.probing`, which keeps writers out meanwhile: so indexes may be read,
and nothing is checked, copied or sorted that `Reading.select` must check, copy and sort for rows
that leave. Invariant: what is read is the last committed epoch; codes are those of `engine.codes`
and mean nothing outside this database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.engine.store import codes_where
from deltafix.kernel import layout as at
from deltafix.kernel.entries import find_slot, lookup

if TYPE_CHECKING:
    from deltafix.engine.reading import Reading


class Probe:
    """Reads rows of symbols while its maker holds the writer's lock."""

    def __init__(self, db: Reading) -> None:
        self._arena, self._linked, self._codes = db._arena, db._linked, db._codes
        self._keys = [np.zeros(width, dtype=np.int32) for width in range(3)]
        self._places: dict[tuple[str, int], tuple[int, int]] = {}

    def is_of(self, db: Reading) -> bool:
        """Whether the database still has the relations and indexes that this reads."""
        return self._linked is db._linked and self._arena is db._arena

    def code(self, symbol: str) -> int | None:
        """The code of a symbol; None for one that no row can contain. O(1)."""
        return self._codes.known("symbol", symbol)

    def symbol(self, code: int) -> str:
        """The symbol of a code. O(1)."""
        return self._codes.symbols[code]

    def has(self, relation: str, *codes: int) -> bool:
        """Whether a relation of one or two columns has the row. O(1)."""
        key = self._keys[len(codes)]
        key[:] = codes
        arena = self._arena
        number = self._linked.ids[relation]
        return bool(lookup(arena.words, arena.cells, key, number, 0, at.WAS) >= 0)

    def others(self, relation: str, column: int, code: int) -> list[int]:
        """The other column of the rows with `code` in one of two columns, which is indexed.

        O(rows found).
        """
        words, cells = self._arena.words, self._arena.cells
        base, index = self._place(relation, column)
        words[at.KEY2] = code
        slot = find_slot(words, cells, index, 1)
        if slot < 0:
            return []
        ref = (int(cells[slot]) & 0xFFFFFFFF) - 1
        bucket = int(cells[slot + 1])
        first, stride = int(cells[base + at.R_ROWS]), int(cells[base + at.R_STRIDE])
        other = at.COLS + 1 - column
        if not bucket >> 32:  # one row: the slot refers to it, and there is no bucket
            row = first + ref * stride
            return [int(words[row + other])] if int(words[row]) & at.WAS else []
        begin = int(cells[at.BUCKETS]) + ref * 4
        rows = first + words[begin : begin + (bucket & 0xFFFFFFFF)].astype(np.int64) * stride
        found: list[int] = words[rows[(words[rows] & at.WAS) != 0] + other].tolist()
        return found

    def column(self, relation: str, column: int) -> list[int]:
        """One column of all rows. O(rows)."""
        codes: Any = codes_where(self._arena, self._linked.ids[relation], at.WAS)
        found: list[int] = codes[:, column].tolist()
        return found

    def _place(self, relation: str, column: int) -> tuple[int, int]:
        """Where the relation's descriptor is, and the number of its index on one column."""
        found = self._places.get((relation, column))
        if found is None:
            linked, cells = self._linked, self._arena.cells
            base = int(cells[at.RELS]) + linked.ids[relation] * at.RSZ
            place = linked.plan.indexes[relation].index((column,))
            found = (base, int(cells[base + at.R_IDX]) + place)
            self._places[relation, column] = found
        return found
