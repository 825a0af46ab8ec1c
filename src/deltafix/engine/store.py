"""Reading relations out of the arena: rows by state, single rows, changes.

Invariant: readers ask for rows that WERE true when the last epoch ended (flag WAS), so they see a
committed state whatever a writer is doing; rows never move under them (`kernel.arena`). Tables
are copies: nothing handed out aliases the arena.
"""

from __future__ import annotations

import numpy as np

from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words

__all__ = ["changes_of", "codes_where", "relation_cell", "rows_at"]


def relation_cell(arena: Arena, relation: int, field: int) -> int:
    """One field of a relation's descriptor."""
    return int(arena.cells[int(arena.cells[at.RELS]) + relation * at.RSZ + field])


def _records(arena: Arena, relation: int) -> Words:
    """All row records of a relation as a view (rows, stride)."""
    start = relation_cell(arena, relation, at.R_ROWS)
    stride = relation_cell(arena, relation, at.R_STRIDE)
    count = relation_cell(arena, relation, at.R_N)
    return arena.words[start : start + count * stride].reshape(count, stride)


def codes_where(arena: Arena, relation: int, mask: int) -> Words:
    """The codes (n, arity) of the rows whose flags include `mask`. O(rows allocated)."""
    records = _records(arena, relation)
    arity = relation_cell(arena, relation, at.R_ARITY)
    # The flags are the low byte of the first cell: its low word on a little-endian machine.
    chosen = (records[:, 0] & mask) == mask
    return records[chosen, at.COLS : at.COLS + arity]


def rows_at(arena: Arena, relation: int, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Words:
    """The codes (n, arity) of the given row numbers."""
    arity = relation_cell(arena, relation, at.R_ARITY)
    return _records(arena, relation)[rows, at.COLS : at.COLS + arity]


def changes_of(arena: Arena) -> dict[int, tuple[Words, Words]]:
    """Net changes of the last epoch: relation -> (added, removed) codes. O(changed)."""
    entries = arena.take(at.DELTA).copy()
    relations = entries >> 33
    rows = (entries >> 1) & 0xFFFFFFFF
    added = (entries & 1) == 1
    found = {}
    for relation in np.unique(relations).tolist():
        mine = relations == relation
        found[relation] = (
            rows_at(arena, relation, rows[mine & added]),
            rows_at(arena, relation, rows[mine & ~added]),
        )
    return found
