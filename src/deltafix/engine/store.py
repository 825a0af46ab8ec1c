"""Reading relations out of the arena: rows by state, single rows, changes.

Invariant: readers ask for rows that WERE true when the last epoch ended (flag WAS), so they see a
committed state whatever a writer is doing; rows never move under them (`kernel.arena`). Tables
are copies: nothing handed out aliases the arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deltafix.engine.codes import FEW
from deltafix.engine.link import Linked
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import find_slot, read_changes

__all__ = [
    "by_relation",
    "cells_of",
    "changed_in_epoch",
    "changed_since",
    "codes_where",
    "few_changes",
    "group_of",
    "records_of",
    "relation_cell",
    "rows_of_group",
    "total_of",
]


def relation_cell(arena: Arena, relation: int, field: int) -> int:
    """One field of a relation's descriptor."""
    numbers = arena.numbers
    return numbers[numbers[at.RELS] + relation * at.RSZ + field]


def records_of(arena: Arena, relation: int) -> Words:
    """All row records of a relation as a view (rows, stride)."""
    # The count first: a writer that moves the rows publishes them before it adds to them.
    count = relation_cell(arena, relation, at.R_N)
    start = relation_cell(arena, relation, at.R_ROWS)
    stride = relation_cell(arena, relation, at.R_STRIDE)
    return arena.words[start : start + count * stride].reshape(count, stride)


def codes_where(
    arena: Arena, relation: int, mask: int, start: int = 0, count: int | None = None
) -> Words:
    """The codes (n, arity) of the rows whose flags include `mask`. O(rows allocated).

    Of `count` rows allocated, from `start` on, if that is said.
    """
    records = records_of(arena, relation)
    if count is not None:
        records = records[start : start + count]
    arity = relation_cell(arena, relation, at.R_ARITY)
    # The flags are the low byte of the first cell: its low word on a little-endian machine.
    chosen = (records[:, 0] & mask) == mask
    return records[chosen, at.COLS : at.COLS + arity]


def few_changes(arena: Arena) -> list[int] | None:
    """The rows that the last epoch changed, as `by_relation` reads them; None: they are many.

    One call and one list: each number that is read by itself costs 60 ns.
    """
    if arena.numbers[at.N_CHANGED] > FEW:
        return None
    out, numbers = arena.few
    used = read_changes(arena.words, arena.cells, out)
    return numbers[:used].tolist() if used <= len(numbers) else None


def by_relation(numbers: list[int]) -> dict[int, tuple[list[list[int]], list[list[int]]]]:
    """The codes of rows that went and that came, by the numbers of their relations."""
    changed: dict[int, tuple[list[list[int]], list[list[int]]]] = {}
    start, count = 0, len(numbers)
    while start < count:
        end = start + 3 + numbers[start + 2]
        sides = changed.get(numbers[start])
        if sides is None:
            sides = changed[numbers[start]] = [], []
        sides[numbers[start + 1]].append(numbers[start + 3 : end])
        start = end
    return changed


def changed_in_epoch(arena: Arena, relation: int) -> tuple[Words, Words]:
    """The codes (n, arity) of rows that became true, and false, so far in the running epoch."""
    arity = relation_cell(arena, relation, at.R_ARITY)
    count = relation_cell(arena, relation, at.R_CHANGED + 1)
    if count == 0:
        nothing = np.empty((0, arity), dtype=np.int32)
        return nothing, nothing
    start = relation_cell(arena, relation, at.R_CHANGED)
    touched = arena.cells[start : start + count]
    if count <= FEW:
        return _few_changed(arena, relation, arity, sorted(set(touched.tolist())))
    records = records_of(arena, relation)[np.unique(touched)]
    truth = records[:, 0] & (at.NOW | at.WAS)
    columns = records[:, at.COLS : at.COLS + arity]
    return columns[truth == at.NOW], columns[truth == at.WAS]


def changed_since(arena: Arena, relation: int, count: int) -> Words:
    """The codes (n, arity) of the rows listed as changed behind the first `count`."""
    start = relation_cell(arena, relation, at.R_CHANGED)
    end = relation_cell(arena, relation, at.R_CHANGED + 1)
    arity = relation_cell(arena, relation, at.R_ARITY)
    rows = arena.cells[start + count : start + end]
    return records_of(arena, relation)[rows, at.COLS : at.COLS + arity]


def _few_changed(
    arena: Arena, relation: int, arity: int, touched: list[int]
) -> tuple[Words, Words]:
    """As `changed_in_epoch`, of these rows: a view and six numpy calls took longer than a fold."""
    words = arena.words
    first = relation_cell(arena, relation, at.R_ROWS)
    stride = relation_cell(arena, relation, at.R_STRIDE)
    came: list[list[int]] = []
    went: list[list[int]] = []
    for row in touched:
        start = first + row * stride
        record = words[start : start + at.COLS + arity].tolist()
        truth = record[0] & (at.NOW | at.WAS)
        if truth == at.NOW:
            came.append(record[at.COLS :])
        elif truth == at.WAS:
            went.append(record[at.COLS :])
    return _codes(came, arity), _codes(went, arity)


def _codes(rows: list[list[int]], arity: int) -> Words:
    return np.array(rows, dtype=np.int32).reshape(len(rows), arity)


def group_of(
    arena: Arena,
    linked: Linked,
    relation: str,
    columns: tuple[int, ...],
    key: Sequence[Any],
    *,
    mask: int,
) -> Words | list[list[int]]:
    """As `rows_of_group`; few rows as lists."""
    words, numbers = arena.words, arena.numbers
    base = numbers[at.RELS] + linked.ids[relation] * at.RSZ
    descriptor = numbers[base : base + at.R_IDX + 1]
    for place, code in enumerate(key, at.KEY2):
        words[place] = code
    position = linked.plan.indexes[relation].index(columns)
    slot = find_slot(words, arena.cells, descriptor[at.R_IDX] + position, len(key))
    if slot < 0:
        return []
    entry, bucket = numbers[slot], numbers[slot + 1]
    ref, count = (entry & 0xFFFFFFFF) - 1, bucket & 0xFFFFFFFF
    end = at.COLS + descriptor[at.R_ARITY]
    if not bucket >> 32:  # one row: the slot refers to it, and there is no bucket
        few = [ref]
    else:
        start = numbers[at.BUCKETS] + ref * 4
        rows = words[start : start + count]
        if count > FEW:
            records = records_of(arena, linked.ids[relation])[rows]
            return records[(records[:, 0] & mask) == mask, at.COLS : end]
        few = rows.tolist()
    group = []
    for row in few:
        first = descriptor[at.R_ROWS] + row * descriptor[at.R_STRIDE]
        record = words[first : first + end].tolist()
        if record[0] & mask == mask:
            group.append(record[at.COLS :])
    return group


def rows_of_group(
    arena: Arena,
    linked: Linked,
    relation: str,
    columns: tuple[int, ...],
    key: Sequence[Any],
    *,
    mask: int,
) -> Words:
    """The codes (n, arity) of the rows whose flags include `mask` and that have these codes.

    O(rows of the group) through the relation's index on exactly `columns`. For the thread that
    has the writer's lock: a writer moves buckets.
    """
    group = group_of(arena, linked, relation, columns, key, mask=mask)
    if isinstance(group, list):
        return _codes(group, relation_cell(arena, linked.ids[relation], at.R_ARITY))
    return group


def cells_of(arena: Arena, groups: int, row: int) -> list[int]:
    """The three cells of a group of a fold (`kernel.fold`)."""
    arity, stride = (relation_cell(arena, groups, field) for field in (at.R_ARITY, at.R_STRIDE))
    behind = (at.COLS + arity + 1) // 2 * 2
    cell = (relation_cell(arena, groups, at.R_ROWS) + row * stride + behind) // 2
    cells: list[int] = arena.cells[cell : cell + 3].tolist()
    return cells


def total_of(arena: Arena, groups: int, row: int) -> tuple[int, int]:
    """How many rows a group of a fold has, and the sum of their values."""
    count, low, high = cells_of(arena, groups, row)
    return count, (high << 32) + low
