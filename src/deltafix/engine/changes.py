"""The Delta of a committed epoch, read out of the arena as late as possible.

Rows that an epoch removed stay readable until the next one allocates, so a Delta that nobody
looks at costs nothing: `Changes` remembers that it belongs to the last epoch, and the database
has it copy its codes (`freeze`) only if it is still referenced when the next transaction begins.
Few rows are read one by one: what numpy's calls cost together is more than a whole edit.
Invariant: what a Delta shows never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from deltafix.engine.codes import FEW, ORDERED_FROM, Codes
from deltafix.engine.state.edits import Edit
from deltafix.engine.store import few_changes, relation_cell
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Schema
from deltafix.facts.side import Side
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.rules.ast import Program

Codings: TypeAlias = "Words | list[list[int]]"
"""Rows as codes (n, arity): an array, or lists if they are few."""


class _Place(NamedTuple):
    """Where rows of a relation lie: the cell that says where they begin, and a row's words.

    `nothing` is the side of every change that has none: half of them.
    """

    rows: int
    stride: int
    schema: Schema
    nothing: Side


class ChangedRows:
    """Reads the net changes of a database's last epoch: in the relations that users see."""

    def __init__(
        self,
        arena: Arena,
        codes: Codes,
        relations: Mapping[int, Schema],
        schemas: Mapping[str, Schema],
    ) -> None:
        self._arena = arena
        self._codes = codes
        self._schemas = schemas
        first = int(arena.cells[at.RELS])
        self._places = {
            number: _Place(
                first + number * at.RSZ + at.R_ROWS,
                relation_cell(arena, number, at.R_STRIDE),
                schema,
                Side(schema, (), 0),
            )
            for number, schema in relations.items()
        }

    def read(self) -> dict[int, tuple[Codings, Codings]]:
        """Rows removed and added, by relation, in the order of declarations. O(changes)."""
        count = int(self._arena.cells[at.DELTA + 1])
        found = self._few() if count <= FEW else self._many()
        return {n: found[n] for n in self._places if n in found} if len(found) > 1 else found

    def _few(self) -> dict[int, tuple[Codings, Codings]]:
        found: dict[int, tuple[Any, Any]] = {}
        for relation, came, row in few_changes(self._arena):
            sides = found.get(relation)
            if sides is None:
                if relation not in self._places:
                    continue
                sides = found[relation] = ([], [])
            sides[came].append(row)
        return found

    def _many(self) -> dict[int, tuple[Codings, Codings]]:
        cells, words = self._arena.cells, self._arena.words
        entries = self._arena.take(at.DELTA)
        numbers = entries >> 33
        found: dict[int, tuple[Codings, Codings]] = {}
        for number in set(np.flatnonzero(np.bincount(numbers)).tolist()) & self._places.keys():
            place = self._places[number]
            chosen = entries[numbers == number]
            rows, added = (chosen >> 1) & 0xFFFFFFFF, (chosen & 1) == 1
            first, end = int(cells[place.rows]), (int(rows.max()) + 1) * place.stride
            records = words[first : first + end].reshape(-1, place.stride)
            arity = place.schema.arity
            found[number] = (
                _by_column(records, rows[~added], arity), _by_column(records, rows[added], arity),
            )  # fmt: skip
        return found

    def delta(self, found: Mapping[int, tuple[Codings, Codings]], epoch: int) -> Delta:
        """What `read` gave, as a Delta."""
        parts = []
        for number, (removed, added) in found.items():
            place = self._places[number]
            gained = self._side(place.schema, added) if len(added) else place.nothing
            lost = self._side(place.schema, removed) if len(removed) else place.nothing
            parts.append(RelationDelta.of_sides(place.schema, gained, lost))
        return Delta.net(parts, self._schemas, epoch)

    def _side(self, schema: Schema, codes: Codings) -> Side:
        if isinstance(codes, list):
            return Side(schema, partial(self._codes.few_rows, schema, codes), len(codes))
        tabled = partial(self._codes.table, schema, codes) if schema.arity else None
        read = self._codes.rows if len(codes) < ORDERED_FROM else self._codes.ordered
        return Side(schema, partial(read, schema, codes), len(codes), tabled)


def _by_column(records: Words, rows: Words, arity: int) -> Words:
    """The codes (n, arity) of rows, a column after the other: row by row takes four times as long.

    They leave by columns, too.
    """
    codes = np.empty((arity, len(rows)), dtype=np.int32)
    for place, column in enumerate(codes):
        column[:] = records[:, at.COLS + place][rows]
    return codes.T


class Edited(NamedTuple):
    """What a transaction edited, where its Delta says too little.

    Attributes:
        given: changes of given rows, where it edited rules, or relations with rules.
        before: the program before, where it edited rules.
    """

    given: list[Edit] | None = None
    before: Program | None = None


class Changes:
    """The net changes of one epoch. `freeze` copies them out of the arena.

    Attributes:
        edited: what the transaction edited.
    """

    __slots__ = ("__weakref__", "_epoch", "_found", "_rows", "edited")

    def __init__(self, rows: ChangedRows, epoch: int, edited: Edited) -> None:
        self._rows = rows
        self._epoch = epoch
        self._found: dict[int, tuple[Codings, Codings]] | None = None
        self.edited = edited

    def freeze(self) -> None:
        """Copy the changed rows' codes out of the arena, once. O(changed)."""
        if self._found is None:
            self._found = self._rows.read()

    def delta(self) -> Delta:
        """The changes as a Delta over the relations that users see."""
        self.freeze()
        return self._rows.delta(self._found or {}, self._epoch)
