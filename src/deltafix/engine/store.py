"""Reading relations out of the arena: rows by state, single rows, changes.

Invariant: readers ask for rows that WERE true when the last epoch ended (flag WAS), so they see a
committed state whatever a writer is doing; rows never move under them (`kernel.arena`). Tables
are copies: nothing handed out aliases the arena.
"""

from __future__ import annotations

import numpy as np

from deltafix.engine.link import Linked
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words
from deltafix.kernel.edit import find_slot
from deltafix.kernel.end import copy_changes

__all__ = [
    "Changed",
    "changed_in_epoch",
    "changes_of",
    "codes_where",
    "records_of",
    "relation_cell",
    "rows_of_group",
]


def relation_cell(arena: Arena, relation: int, field: int) -> int:
    """One field of a relation's descriptor."""
    return int(arena.cells[int(arena.cells[at.RELS]) + relation * at.RSZ + field])


def records_of(arena: Arena, relation: int) -> Words:
    """All row records of a relation as a view (rows, stride)."""
    # The count first: a writer that moves the rows publishes them before it adds to them.
    count = relation_cell(arena, relation, at.R_N)
    start = relation_cell(arena, relation, at.R_ROWS)
    stride = relation_cell(arena, relation, at.R_STRIDE)
    return arena.words[start : start + count * stride].reshape(count, stride)


def codes_where(arena: Arena, relation: int, mask: int) -> Words:
    """The codes (n, arity) of the rows whose flags include `mask`. O(rows allocated)."""
    records = records_of(arena, relation)
    arity = relation_cell(arena, relation, at.R_ARITY)
    # The flags are the low byte of the first cell: its low word on a little-endian machine.
    chosen = (records[:, 0] & mask) == mask
    return records[chosen, at.COLS : at.COLS + arity]


def changed_in_epoch(arena: Arena, relation: int) -> tuple[Words, Words]:
    """The codes (n, arity) of rows that became true, and false, so far in the running epoch."""
    arity = relation_cell(arena, relation, at.R_ARITY)
    count = relation_cell(arena, relation, at.R_CHANGED + 1)
    if count == 0:
        nothing = np.empty((0, arity), dtype=np.int32)
        return nothing, nothing
    start = relation_cell(arena, relation, at.R_CHANGED)
    records = records_of(arena, relation)[np.unique(arena.cells[start : start + count])]
    truth = records[:, 0] & (at.NOW | at.WAS)
    columns = records[:, at.COLS : at.COLS + arity]
    return columns[truth == at.NOW], columns[truth == at.WAS]


def rows_of_group(
    arena: Arena,
    linked: Linked,
    relation: str,
    columns: tuple[int, ...],
    key: tuple[int, ...],
    *,
    mask: int,
) -> Words:
    """The codes (n, arity) of the rows whose flags include `mask` and that have these codes.

    O(rows of the group) through the relation's index on exactly `columns`. For the thread that
    has the writer's lock: a writer moves buckets.
    """
    number = linked.ids[relation]
    place = linked.plan.indexes[relation].index(columns)
    words, cells = arena.words, arena.cells
    words[at.KEY2 : at.KEY2 + len(key)] = key
    index = relation_cell(arena, number, at.R_IDX) + place
    slot = find_slot(words, cells, index, len(key))
    if slot < 0:
        rows = np.empty(0, dtype=np.int32)
    else:
        ref = (int(cells[slot]) & 0xFFFFFFFF) - 1
        size, count = int(cells[slot + 1]) >> 32, int(cells[slot + 1]) & 0xFFFFFFFF
        start = int(cells[at.BUCKETS]) + ref * 4
        rows = words[start : start + count] if size else np.array([ref], dtype=np.int32)
    records = records_of(arena, number)[rows]
    arity = relation_cell(arena, number, at.R_ARITY)
    return records[(records[:, 0] & mask) == mask, at.COLS : at.COLS + arity]


def changes_of(arena: Arena, width: int) -> Changed:
    """Copy the net changes of the last epoch, `width` codes a row, out of the arena."""
    entries = arena.take(at.DELTA).copy()
    codes = np.empty(len(entries) * width, dtype=np.int32)
    copy_changes(arena.words, arena.cells, codes, width)
    return Changed(entries, codes.reshape(len(entries), width))


class Changed:
    """Net changes as copied: entries `relation << 33 | row << 1 | added`, and columns."""

    __slots__ = ("_codes", "_entries")

    def __init__(self, entries: Cells, codes: Words) -> None:
        self._entries = entries
        self._codes = codes

    def relations(self) -> list[int]:
        """The numbers of the relations that changed."""
        return sorted(set((self._entries >> 33).tolist()))

    def side(self, relation: int, arity: int, *, added: bool) -> Words:
        """The codes (n, arity) of a relation's added or removed rows."""
        chosen = ((self._entries >> 33) == relation) & ((self._entries & 1) == added)
        return self._codes[chosen, :arity]
