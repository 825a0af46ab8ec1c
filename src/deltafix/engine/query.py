"""Point and pattern reads of a committed relation.

Invariant: beside a writer reads never use the kernel's scratch words nor its indexes, because a
writer moves their buckets: then a pattern is a scan. Results are codes.

A `Probe` (`Reading.probing`, which keeps writers out meanwhile) reads indexes too, and checks,
copies and sorts nothing: point reads in codes for those who follow rows from one to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from deltafix.diagnostics import plural
from deltafix.engine.coded import numbered
from deltafix.engine.codes import Codes
from deltafix.engine.link import Linked
from deltafix.engine.store import codes_where, group_of, relation_cell, rows_of_group
from deltafix.errors import FactError
from deltafix.facts.schema import Pattern, Schema
from deltafix.facts.values import CONSTRUCTED
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import find_slot, lookup

if TYPE_CHECKING:
    pass


_ROWS_A_KEY: Final = 256
"""A key's group costs as much as a pass over so many rows."""
_ROWS_ANYWAY: Final = 1 << 12
"""A relation of so few rows is not worth a pass for a few whole rows."""


def select(
    arena: Arena, linked: Linked, codes: Codes, schema: Schema, pattern: Pattern, *, alone: bool
) -> Words:
    """Codes (n, arity) of the committed rows that fit the pattern.

    `...` is any value, and so is None in a column that cannot hold `nil`. `alone`: no other
    thread writes, so indexes may be read.
    """
    if len(pattern) != schema.arity:
        has = plural(schema.arity, "column")
        message = f"{schema.show()} has {has}, but {len(pattern)} were asked for"
        raise FactError(message, relation=schema.relation, value=pattern)
    number = linked.ids[schema.relation]
    wanted: dict[int, int] = {}
    for column, value in enumerate(pattern):
        if value is ... or (value is None and schema.types[column] not in CONSTRUCTED):
            continue
        code = codes.asked(schema, schema.columns[column], value)
        if code is None:
            return np.empty((0, schema.arity), dtype=np.int32)
        wanted[column] = code
    if len(wanted) == schema.arity:
        key = np.array(list(wanted.values()), dtype=np.int32)
        row = lookup(arena.words, arena.cells, key, number, 0, at.WAS)
        return key.reshape(1, schema.arity)[: 1 if row >= 0 else 0]
    usable = [c for c in linked.plan.indexes[schema.relation] if set(c) <= wanted.keys()]
    if alone and usable:
        index = max(usable, key=len)
        values = tuple(wanted[column] for column in index)
        table = rows_of_group(arena, linked, schema.relation, index, values, mask=at.WAS)
    else:
        table = codes_where(arena, number, at.WAS)
    for column, code in wanted.items():
        table = table[table[:, column] == code]
    return table


def semijoin(
    arena: Arena, linked: Linked, relation: str, columns: Sequence[int], keys: Words
) -> Words:
    """Codes (n, arity) of the given rows of an input relation whose `columns` are one of `keys`.

    `columns` ascend; `keys` has a code for each in a row, no row twice. For the thread that has the
    writer's lock, of which edits are seen. O(keys) for whole rows; O(rows found) through an index
    on exactly `columns` where keys are few; else one pass over the relation.
    """
    number = linked.ids[relation]
    if not (relation_cell(arena, number, at.R_N) and len(keys)):
        return np.empty((0, relation_cell(arena, number, at.R_ARITY)), np.int32)
    now, width = (relation_cell(arena, number, cell) for cell in (at.R_NOW, at.R_ARITY))
    if len(columns) == width and len(keys) * _ROWS_A_KEY < max(now, _ROWS_ANYWAY):
        flat = np.ascontiguousarray(keys).reshape(-1)
        given = [
            lookup(arena.words, arena.cells, flat, number, position, at.GIVEN) >= 0
            for position in range(len(keys))
        ]
        return keys[given]
    groups = of_keys(arena, linked, relation, tuple(columns), keys.tolist())
    if groups is not None:
        tables = [np.array(group, np.int32).reshape(len(group), width) for group in groups]
        return np.concatenate(tables)
    table = codes_where(arena, number, at.GIVEN)
    mine, asked = numbered(table[:, list(columns)], keys)
    return table[np.isin(mine, asked)]


def of_keys(
    arena: Arena,
    linked: Linked,
    relation: str,
    columns: tuple[int, ...],
    keys: Collection[Sequence[int]],
) -> list[Words | list[list[int]]] | None:
    """What `semijoin` gives, for each key, through an index; None for want of one, and for many."""
    if columns not in linked.plan.indexes[relation]:
        return None
    many = len(keys)
    now = relation_cell(arena, linked.ids[relation], at.R_NOW)
    if many != 1 and many * _ROWS_A_KEY >= now:
        return None
    return [group_of(arena, linked, relation, columns, key, mask=at.GIVEN) for key in keys]


class Probe:
    """Reads rows of symbols while its maker holds the writer's lock."""

    def __init__(self, arena: Arena, linked: Linked, codes: Codes) -> None:
        self._arena, self._linked, self._codes = arena, linked, codes
        self._keys = [np.zeros(width, dtype=np.int32) for width in range(3)]
        self._indexes: dict[tuple[str, int], tuple[int, int]] = {}

    def code(self, symbol: str) -> int | None:
        """The code of a symbol; None for one that no row can contain. O(1)."""
        return self._codes.known("symbol", symbol)

    def symbol(self, code: int) -> str:
        """The symbol of a code. O(1)."""
        return self._codes.symbols.text(code)

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
        base, index = self._index_on(relation, column)
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
        values: list[int] = words[rows[(words[rows] & at.WAS) != 0] + other].tolist()
        return values

    def rows(self, relation: str, columns: tuple[int, ...], *codes: int) -> list[list[int]]:
        """The rows with `codes` in `columns`, on exactly which there is an index; all for none.

        O(rows found).
        """
        if columns:
            table = rows_of_group(
                self._arena, self._linked, relation, columns, codes, mask=at.WAS
            )  # fmt: skip
        else:
            table = codes_where(self._arena, self._linked.ids[relation], at.WAS)
        rows: list[list[int]] = table.tolist()
        return rows

    def column(self, relation: str, column: int) -> list[int]:
        """One column of all rows. O(rows)."""
        codes: Any = codes_where(self._arena, self._linked.ids[relation], at.WAS)
        values: list[int] = codes[:, column].tolist()
        return values

    def _index_on(self, relation: str, column: int) -> tuple[int, int]:
        """Where the relation's descriptor is, and the number of its index on one column."""
        entry = self._indexes.get((relation, column))
        if entry is None:
            linked, cells = self._linked, self._arena.cells
            base = int(cells[at.RELS]) + linked.ids[relation] * at.RSZ
            number = linked.plan.indexes[relation].index((column,))
            entry = (base, int(cells[base + at.R_IDX]) + number)
            self._indexes[relation, column] = entry
        return entry
