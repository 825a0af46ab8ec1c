"""What an epoch changes, among given rows and in all, read from the kernel's journal.

Before `commit`, every row whose flags moved stands in the journal with its old flags, or is listed
as created if the epoch made it (`kernel.layout`). Invariant: the changes are net; a row given and
taken in one transaction is not among them. Reading them here costs a transaction's `insert` and
`delete` nothing, and a database in memory nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from deltafix.engine.store import codes_where, relation_cell
from deltafix.facts.schema import Schema
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words, in_parts

_PART = 1 << 16
"""Rows that are looked at together: some 5 MB."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Rows of one relation, added or removed, as codes (n, arity)."""

    schema: Schema
    added: bool
    codes: Words


def given_changes(arena: Arena, schemas: Mapping[int, Schema]) -> list[Edit]:
    """Net changes of given rows since the last commit, by relation. O(touched)."""
    return _changes(arena, schemas, lambda old, now: (old & at.GIVEN, now & at.GIVEN))


def truth_changes(arena: Arena, schemas: Mapping[int, Schema]) -> list[Edit]:
    """Net changes of what holds, given or derived, in the epoch that stands. O(touched)."""

    def truth(_old: Cells, now: Cells) -> tuple[Cells, Cells]:
        live = np.where(now & at.TOUCHED, now, 0)
        return live & at.WAS, live & at.NOW

    return _changes(arena, schemas, truth)


def _changes(
    arena: Arena,
    schemas: Mapping[int, Schema],
    sides: Callable[[Cells, Cells], tuple[Cells, Cells]],
) -> list[Edit]:
    """Rows that one of their `sides` has, which their flags as they were and are now say."""
    found: dict[tuple[int, bool], list[Words]] = {}
    for touched, old in _touched(arena):
        numbers = touched >> 32
        for number in schemas.keys() & set(np.flatnonzero(np.bincount(numbers)).tolist()):
            chosen = np.flatnonzero(numbers == number)
            rows = touched[chosen] & 0xFFFFFFFF
            before, now = sides(old[chosen], _words(arena, number, rows))
            for added, moved in (
                (False, (before != 0) & (now == 0)),
                (True, (now != 0) & (before == 0)),
            ):
                if moved.any():
                    found.setdefault((number, added), []).append(_codes(arena, number, rows[moved]))
    return [
        Edit(schema, added, np.concatenate(found[number, added]))
        for number, schema in schemas.items()
        for added in (False, True)
        if (number, added) in found
    ]


def _touched(arena: Arena) -> Iterator[tuple[Cells, Cells]]:
    """The rows that the open epoch touched, and their flags before it: a part after another.

    All at once, 24 M rows took 1.3 GB (galen: a third of the peak of its load).
    """
    journal = arena.take(at.J).reshape(-1, 3)
    for start in range(0, len(journal), _PART):
        part = journal[start : start + _PART]
        yield part[:, 0], part[:, 1]
    for created in in_parts(arena.take(at.CREATED), 1, _PART):
        yield created, np.zeros(len(created), dtype=np.int64)


def given_rows(arena: Arena, schemas: Mapping[int, Schema]) -> list[Edit]:
    """All given rows, by relation; no epoch may be open. O(rows)."""
    edits = (
        Edit(schema, True, codes_where(arena, number, at.WAS | at.GIVEN))
        for number, schema in schemas.items()
    )
    return [edit for edit in edits if len(edit.codes)]


def _row_words(arena: Arena, relation: int, rows: Cells) -> Cells:
    stride = relation_cell(arena, relation, at.R_STRIDE)
    return relation_cell(arena, relation, at.R_ROWS) + rows * stride


def _words(arena: Arena, relation: int, rows: Cells) -> Cells:
    words: Cells = arena.cells[_row_words(arena, relation, rows) >> 1]
    return words


def _codes(arena: Arena, relation: int, rows: Cells) -> Words:
    arity = relation_cell(arena, relation, at.R_ARITY)
    columns = _row_words(arena, relation, rows)[:, None] + at.COLS + np.arange(arity)
    codes: Words = arena.words[columns]
    return codes
