"""What an epoch changes, among given rows and in all, read from the kernel's journal.

Before `commit`, every row whose flags moved stands in the journal with its old flags, or is listed
as created if the epoch made it (`kernel.layout`). Invariant: the changes are net; a row given and
taken in one transaction is not among them. Reading them here costs a transaction's `insert` and
`delete` nothing, and a database in memory nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deltafix.engine.store import codes_where, relation_cell
from deltafix.facts.schema import Schema
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words


@dataclass(frozen=True, slots=True)
class Edit:
    """Rows of one relation, added or removed, as codes (n, arity)."""

    schema: Schema
    added: bool
    codes: Words


def given_changes(arena: Arena, schemas: Mapping[int, Schema]) -> list[Edit]:
    """Net changes of given rows since the last commit, by relation. O(touched)."""
    journal = arena.take(at.J).reshape(-1, 3)
    created = arena.rows(at.CREATED)
    touched = np.concatenate([journal[:, 0], created])
    old = np.concatenate([journal[:, 1], np.zeros(len(created), dtype=np.int64)])
    numbers = touched >> 32
    edits = []
    for number, schema in schemas.items():
        chosen = np.flatnonzero(numbers == number)
        if not len(chosen):
            continue
        rows = touched[chosen] & 0xFFFFFFFF
        words = _words(arena, number, rows)
        before = (old[chosen] & at.GIVEN) != 0
        now = (words & at.GIVEN) != 0
        for added, moved in ((False, before & ~now), (True, now & ~before)):
            if moved.any():
                edits.append(Edit(schema, added, _codes(arena, number, rows[moved])))
    return edits


def truth_changes(arena: Arena, schemas: Mapping[int, Schema]) -> list[Edit]:
    """Net changes of what holds, given or derived, in the epoch that stands. O(touched)."""
    journal = arena.take(at.J).reshape(-1, 3)
    touched = np.concatenate([journal[:, 0], arena.rows(at.CREATED)])
    numbers = touched >> 32
    edits = []
    for number, schema in schemas.items():
        rows = touched[numbers == number] & 0xFFFFFFFF
        if not len(rows):
            continue
        words = _words(arena, number, rows)
        live = (words & at.TOUCHED) != 0
        was, now = (words & at.WAS) != 0, (words & at.NOW) != 0
        for added, moved in ((False, was & ~now & live), (True, now & ~was & live)):
            if moved.any():
                edits.append(Edit(schema, added, _codes(arena, number, rows[moved])))
    return edits


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
