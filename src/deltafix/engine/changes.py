"""The Delta of a committed epoch, read out of the arena as late as possible.

Few rows are copied at the commit, by one call, and read one by one: what numpy's calls cost
together is more than a whole edit. Of many, those that an epoch removed stay readable until the
next one allocates, and those that it added until the one after that does: what the next one removes
is not taken again before. So a Delta that nobody looks at costs nothing: if it is still referenced
when the next transaction begins, it notes which rows came and copies those that went; when the one
after begins, it copies the rest (`keep`). A load that a script still holds when it makes its first
edit is never copied: most of the first view of a loaded table was that (docs/kernel.md, "Pages of a
load").
Invariant: what a Delta shows never changes. Readers hold the database's gate: no table moves then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from deltafix.engine.coded import CodedRows
from deltafix.engine.codes import ORDERED_FROM, Codes
from deltafix.engine.questions import cause_in
from deltafix.engine.state.edits import Edit
from deltafix.engine.store import by_relation, few_changes, records_of
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.relation_delta import Ask
from deltafix.facts.schema import Schema
from deltafix.facts.side import Side
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words, spelled_out
from deltafix.rules.ast import Program

Codings: TypeAlias = "Words | list[list[int]]"
"""Rows as codes (n, arity): an array, or lists if they are few."""

Sides: TypeAlias = "Mapping[int, tuple[Codings, Codings]]"
"""Rows removed and added, by the number of their relation."""

_NONE: tuple[Codings, Codings] = ([], [])


class _Seen(NamedTuple):
    """A relation that users see. `nothing` is the side of every change that has none: half."""

    schema: Schema
    nothing: Side


class ChangedRows:
    """Reads the net changes of a database's epochs: in the relations that users see."""

    def __init__(
        self,
        arena: Arena,
        codes: Codes,
        relations: Mapping[int, Schema],
        schemas: Mapping[str, Schema],
        gate: AbstractContextManager[object],
    ) -> None:
        self.arena = arena
        self._codes = codes
        self._schemas = schemas
        self._seen = {
            number: _Seen(schema, Side(schema, (), 0)) for number, schema in relations.items()
        }
        self._positions = {number: position for position, number in enumerate(relations)}
        self.gate = gate

    def last(self) -> Sides:
        """Rows that the last epoch removed and added, by relation. O(changes)."""
        return self.rows_of(self.arena.take(at.DELTA))

    def kept(self) -> tuple[Cells, Sides]:
        """Of what the last epoch changed: the kernel's list of rows that came; those that went."""
        listed = self.arena.take(at.DELTA)
        if (listed[listed >= 0] & 1).all():
            return listed.copy(), {}
        entries = spelled_out(listed, 2)
        has_come = (entries & 1) == 1
        return entries[has_come], self.rows_of(entries[~has_come])

    def rows_of(self, entries: Cells) -> Sides:
        """The rows of some entries, removed and added, by relation. O(rows)."""
        entries = spelled_out(entries, 2)
        numbers = entries >> 33
        changed: dict[int, tuple[Codings, Codings]] = {}
        for number in set(np.flatnonzero(np.bincount(numbers)).tolist()) & self._seen.keys():
            chosen = entries[numbers == number]
            rows, added = (chosen >> 1) & 0xFFFFFFFF, (chosen & 1) == 1
            records = records_of(self.arena, number)
            arity = self._seen[number].schema.arity
            changed[number] = (
                _by_column(records, rows[~added], arity), _by_column(records, rows[added], arity),
            )  # fmt: skip
        return changed

    def delta(self, changed: Sides, epoch: int, ask: Ask) -> Delta:
        """Rows removed and added, as a Delta; `ask` answers its `why`."""
        seen = self._seen
        numbers = [number for number in changed if number in seen]
        if len(numbers) > 1:
            numbers.sort(key=self._positions.__getitem__)
        parts = {}
        for number in numbers:
            schema, nothing = seen[number]
            removed, added = changed[number]
            gained = self._side(schema, added) if len(added) else nothing
            lost = self._side(schema, removed) if len(removed) else nothing
            parts[schema.relation] = RelationDelta.of_sides(schema, gained, lost)
        return Delta.net(parts, self._schemas, epoch, ask)

    def coded(self, changed: Sides) -> dict[str, tuple[CodedRows, CodedRows]]:
        """Rows removed and added as codes, by the name of their relation."""
        coded = {}
        for number in changed.keys() & self._seen.keys():
            schema, sides = self._seen[number].schema, changed[number]
            removed, added = (
                np.array(side, np.int32).reshape(len(side), schema.arity) for side in sides
            )
            coded[schema.relation] = (
                CodedRows(schema, removed, self._codes), CodedRows(schema, added, self._codes),
            )  # fmt: skip
        return coded

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
    for index, column in enumerate(codes):
        column[:] = records[:, at.COLS + index][rows]
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
    """The net changes of a database's last epoch; made within its gate.

    Attributes:
        epoch: its number.
        edited: what the transaction edited.
        few: what it changed, for `by_relation`; None: many rows, in the arena until they are read.
    """

    __slots__ = ("__weakref__", "_db", "_kept", "_rows", "_sides", "edited", "epoch", "few")

    def __init__(self, rows: ChangedRows, epoch: int, edited: Edited, database: ref[Any]) -> None:
        self._rows = rows
        self._db = database
        # Once `keep` was called: entries of the rows that came, and the codes of those that went.
        self._kept: tuple[Cells, Sides] | None = None
        self._sides: Sides | None = None
        self.epoch = epoch
        self.edited = edited
        self.few = few_changes(rows.arena)

    def keep(self, last: int) -> bool:
        """An epoch begins behind the `last`: copy what it will make unreadable.

        Returns whether some of it is still in the arena, so that this must be called again. O(what
        went), a cell for each row that came; of the epoch before the last one O(changed).
        """
        rows = self._rows
        with rows.gate:
            if self._sides is None and self.epoch == last:
                # Once noted it stays so: a rollback empties the kernel's list.
                if self._kept is None:
                    self._kept = rows.kept()
                return True
            self._copied()
        return False

    def _read(self) -> Sides:
        """The changed rows' codes; copied out of the arena once. O(changed)."""
        if self._sides is None and self.few is not None:
            self._sides = by_relation(self.few)
        if self._sides is None:
            with self._rows.gate:
                return self._copied()
        return self._sides

    def _copied(self) -> Sides:
        rows = self._rows
        if self._sides is None and self._kept is None:
            self._sides = rows.last()
        elif self._sides is None and self._kept is not None:
            came, went = rows.rows_of(self._kept[0]), self._kept[1]
            self._sides = {
                number: (went.get(number, _NONE)[0], came.get(number, _NONE)[1])
                for number in came.keys() | went.keys()
            }
        self._kept = None
        return self._sides or {}

    def coded(self) -> dict[str, tuple[CodedRows, CodedRows]]:
        """Rows removed and added as codes, by the name of their relation."""
        return self._rows.coded(self._read())

    def delta(self) -> Delta:
        """The changes as a Delta over the relations that users see."""
        ask = partial(cause_in, self._db, self.edited)
        return self._rows.delta(self._read(), self.epoch, ask)
