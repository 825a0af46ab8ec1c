"""The tables of an arena: relations, indexes, memos, groups; descriptors laid out and added to.

Life: `lay_out` names the tables of a plan, and makes those that are not there; `describe` says
what that plan does with them; after a plan that was refused, `forget` takes back what was made for
it. Invariant: a table keeps its number for the arena's life, and its rows; indexes of a relation
are only added, at the end of its list, and hold its rows from then on. Tables that a plan does not
name stay, without derived rows, and are there when a later one names them again. Indexes are
numbered through all tables, in order and without gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import VALUE_TYPES
from deltafix.errors import LimitError
from deltafix.facts.values import BaseType
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import discard, drop_index, fill_index, note_keys
from deltafix.kernel.frames import vector_cells
from deltafix.plan.clause import Absent, Fold, Match
from deltafix.plan.ir import Plan

__all__ = ["Groups", "Memo", "Piece", "Tables"]


_FILTER_CELLS = 1 << 10


@dataclass(frozen=True, slots=True)
class Memo:
    """A functor that Python computes, for arguments of these types (`kernel.layout`, memo)."""

    functor: str
    types: tuple[BaseType, ...]
    result: BaseType


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a fold that the kernel computes (`kernel.fold`), by the relation it makes."""

    relation: str
    columns: int
    keeps: int

    @classmethod
    def of(cls, fold: Fold) -> Groups:
        """Those of a fold."""
        keeps = at.KEEPS_BEST if fold.is_extreme else at.KEEPS_REAL if fold.is_real else 0
        return cls(fold.relation, len(fold.group), keeps)


Table: TypeAlias = str | Memo | Groups
"""A relation by name, a memo, or the groups of a fold."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The words of a stratum or variant, from offset 0, and which of them say where it lies.

    Attributes:
        of: the stratum, or the nodes of the variant; variants of the same nodes in a stratum are
            the same but for their rules.
        given: what else of the plan the words depend on.
        record: the offset of the record of it.
        words: them.
        offsets: the places of offsets.
        indexes: the places of numbers of indexes, and `indexed` the relations of these.
        lasts: the places of the counter that clauses of no rule share.
        memos: the functors that it asks for, by number.
        lookups: what a variant's first join looks up by one column of the trigger's row: a
            relation, the columns of its index, and that column.
        parts: a stratum's variants, by the identity of their nodes.
        filtered: the indexes of a stratum that are to have a filter.
        rules, slots, depth: more than the numbers of its rules, and the most variables and literals
            of its clauses.
    """

    of: object
    given: object
    record: int
    words: Words
    offsets: Words
    indexes: Words
    indexed: Words
    lasts: Words
    memos: tuple[tuple[Memo, int], ...] = ()
    lookups: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    parts: Mapping[int, Piece] = field(default_factory=dict)
    filtered: tuple[tuple[str, tuple[int, ...]], ...] = ()
    rules: int = 0
    slots: int = 0
    depth: int = 0


@dataclass(slots=True)
class Tables:
    """The tables of one arena by number."""

    arena: Arena
    numbers: dict[Table, int] = field(default_factory=dict)
    types: dict[str, tuple[BaseType, ...]] = field(default_factory=dict)
    room: tuple[int, int, int] = (0, 0, 0)
    """Variables, join levels and counters of rules that there is room for."""
    pieces: Mapping[tuple[str, ...], Piece] = field(default_factory=dict)
    """Strata of the last program that was linked, by their relations."""

    def lay_out(self, plan: Plan) -> None:
        """Make the relations and indexes of a plan that are not there. O(rows to be counted).

        Raises LimitError, and MemoryError: `forget` then.
        """
        arena = self.arena
        known = len(self.numbers)
        for relation in plan.relations:
            if len(relation.types) > at.MAX_ARITY:
                arity = len(relation.types)
                message = f"relation {relation.name} has {arity} columns"
                raise LimitError(f"{message}; the limit is {at.MAX_ARITY}")
            self.numbers.setdefault(relation.name, len(self.numbers))
        folds = [*map(Groups.of, plan.folds.values())]
        for groups in folds:
            self.numbers.setdefault(groups, len(self.numbers))
        self._add_descriptors(known)
        for relation in plan.relations:
            number = self.numbers[relation.name]
            if number >= known:
                self._rows(number, len(relation.types))
                self.types[relation.name] = relation.types
                arena.vector(self.cell(number) + at.R_CHANGED, 64)
        for groups in folds:
            if self.numbers[groups] >= known:  # three cells, behind the columns at a cell's start
                odd = (at.COLS + groups.columns) % 2
                self._rows(self.numbers[groups], groups.columns, extra=6 + odd)
                arena.vector(self.cell(self.numbers[groups]) + at.R_CHANGED, 64)
                arena.cells[self.cell(self.numbers[groups]) + at.R_BEST] = groups.keeps
        self._index(plan)
        for stage in plan.stages:
            if stage.recursive and stage.rederive and not stage.best:
                for name in stage.relations:
                    self._count_all(self.numbers[name])

    def filter(self, wanted: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        """Have a filter for these indexes of one column, by relation and columns. O(new keys)."""
        cells = self.arena.cells
        for name, columns in wanted:
            number = self.numbers[name]
            first = int(cells[self.cell(number) + at.R_IDX])
            index = first + self._indexes_of(number).index(columns)
            xb = int(cells[at.IDXS]) + index * at.XSZ
            if cells[xb + at.X_FILTER] == 0:
                number, bit = divmod(int(cells[at.FILTERED]), at.FILTER_BITS)
                cells[at.FILTERED] += 1
                if number == cells[at.N_FILTERS]:
                    self._add_filter()
                cells[xb + at.X_FILTER] = number + 1
                cells[xb + at.X_BIT] = 1 << bit
                note_keys(cells, index)

    def lay_out_memos(self, memos: Iterable[Memo]) -> None:
        """Make the memos that are not there."""
        known = len(self.numbers)
        new = [memo for memo in memos if memo not in self.numbers]
        self.numbers.update(zip(new, range(known, known + len(new)), strict=True))
        self._add_descriptors(known)
        for memo in new:
            self._rows(self.numbers[memo], len(memo.types), extra=1)

    def indexes(self) -> dict[str, list[tuple[int, ...]]]:
        """The key columns of the indexes of every relation, also of those that no plan names."""
        return {
            table: self._indexes_of(number)
            for table, number in self.numbers.items()
            if isinstance(table, str)
        }

    def _indexes_of(self, number: int) -> list[tuple[int, ...]]:
        cells = self.arena.cells
        first, count = (int(cells[self.cell(number) + part]) for part in (at.R_IDX, at.R_NIDX))
        starts = (int(cells[at.IDXS]) + x * at.XSZ for x in range(first, first + count))
        keys = ((int(cells[xb + at.X_COLS]), int(cells[xb + at.X_NKEY])) for xb in starts)
        return [tuple(cells[start : start + n].tolist()) for start, n in keys]

    def cell(self, number: int) -> int:
        """The first cell of a table's descriptor."""
        return int(self.arena.cells[at.RELS]) + number * at.RSZ

    def first_indexes(self) -> tuple[int, ...]:
        """The number of each table's first index, by the table's number."""
        return tuple(self._descriptors()[:, at.R_IDX].tolist())

    def _descriptors(self) -> npt.NDArray[np.int64]:
        """The descriptors of all tables, one a row: a view of the arena, until they are moved."""
        cells, count = self.arena.cells, len(self.numbers)
        start = int(cells[at.RELS])
        return cells[start : start + count * at.RSZ].reshape(count, at.RSZ)

    def make_room(self, slots: int, depth: int, rules: int) -> None:
        """Have room for a program's variables, join levels and counters of rules."""
        arena, cells = self.arena, self.arena.cells
        held = self.room
        self.room = max(slots, held[0]), max(depth, held[1]), max(rules, held[2])
        if self.room[0] > held[0]:
            cells[at.N_VARS] = slots
            for cell in (at.VARS, at.ASKING_VARS):  # raw values, then codes
                cells[cell] = arena.block(3 * slots) + 2 * slots
            cells[at.VECTORS] = arena.block(2 * vector_cells(slots)) // 2
        if self.room[1] > held[1]:
            cells[at.N_LEVELS] = depth
            for cell in (at.STACK, at.ASKING_STACK):
                cells[cell] = arena.block(depth * at.LEVEL * 2) // 2
        if self.room[2] > held[2]:
            cells[at.RULE_COUNTS] = arena.block(rules * 2) // 2

    def describe(self, plan: Plan) -> None:
        """Say which relations have rules, are read, count derivations, keep one row per key."""
        cells = self.arena.cells
        read = {
            literal.relation
            for stage in plan.stages
            for variant in stage.lower
            if isinstance(literal := variant.clause.body[variant.trigger or 0], Match | Absent)
        }
        read.update(name for stage in plan.stages if stage.outside for name in stage.outside.reads)
        ruled = {v.clause.head for s in plan.stages for v in (*s.const, *s.lower, *s.same)}
        ruled.update(name for stage in plan.stages if stage.outside for name in stage.relations)
        home = {name: n for n, stage in enumerate(plan.stages) for name in stage.relations}
        best = {name: kept for stage in plan.stages for name, kept in stage.best.items()}
        inside = (stage for stage in plan.stages if stage.outside is None and not stage.best)
        plain = {name for stage in inside for name in stage.relations}
        names = [relation.name for relation in plan.relations]
        numbers = np.array([self.numbers[name] for name in names], dtype=np.int64)
        of = self._descriptors()  # by column: few calls for all tables, where a cell takes one
        of[numbers, at.R_KEEP] = [name in read for name in names]
        of[numbers, at.R_STRATUM] = [home.get(name, 0) for name in names]
        of[numbers, at.R_RULES] = [name in ruled for name in names]
        # Not where a row per key is kept, nor in Python.
        counts = np.array([name in plain for name in names], dtype=np.int64)
        of[numbers, at.R_ALL] = of[numbers, at.R_ALL_WORD] * counts
        of[numbers, at.R_BEST] = 0
        for name, kept in best.items():
            types = self.types[name]
            key = tuple(c for c in range(len(types)) if c != kept.column)
            rb = self.cell(self.numbers[name])
            cells[rb + at.R_BEST] = 1 if kept.join == "min" else 2
            cells[rb + at.R_BEST_COL] = kept.column
            cells[rb + at.R_BEST_TYPE] = VALUE_TYPES[types[kept.column]]
            position = plan.indexes[name].index(key)
            cells[rb + at.R_BEST_INDEX] = cells[rb + at.R_IDX] + position

    def forget(self, known: int, plan: Plan) -> None:
        """Have the first `known` tables only, with the indexes of this plan. Without new rows."""
        arena, cells = self.arena, self.arena.cells
        self.pieces = {}  # their numbers may be those of other tables next time
        for number in range(known, int(cells[at.N_RELS])):
            rb = self.cell(number)
            stride, capacity = int(cells[rb + at.R_STRIDE]), int(cells[rb + at.R_CAP])
            discard(arena.cells, int(cells[rb + at.R_ROWS]), capacity * stride)
            discard(arena.cells, int(cells[rb + at.R_PK]) * 2, int(cells[rb + at.R_PKROOM]) * 2)
            self._drop_indexes(number, 0)
        for table in list(self.numbers)[known:]:
            del self.numbers[table]
            if isinstance(table, str):
                self.types.pop(table, None)
        cells[at.N_RELS] = known
        for relation in plan.relations:
            self._drop_indexes(self.numbers[relation.name], len(plan.indexes[relation.name]))
        self._close_up()

    def _drop_indexes(self, number: int, kept: int) -> None:
        arena, rb = self.arena, self.cell(number)
        first, count = (int(arena.cells[rb + part]) for part in (at.R_IDX, at.R_NIDX))
        for index in range(first + kept, first + count):
            drop_index(arena.words, arena.cells, index)
        arena.cells[rb + at.R_NIDX] = min(kept, count)

    def _close_up(self) -> None:
        """Number indexes as before those that were dropped: programs say these numbers."""
        cells, count = self.arena.cells, 0
        start = int(cells[at.IDXS])
        for number in range(len(self.numbers)):
            rb = self.cell(number)
            first, held = (start + n * at.XSZ for n in (int(cells[rb + at.R_IDX]), count))
            size = int(cells[rb + at.R_NIDX]) * at.XSZ
            cells[held : held + size] = cells[first : first + size]
            cells[rb + at.R_IDX] = count
            count += size // at.XSZ

    def _add_descriptors(self, known: int) -> None:
        """Have descriptors for all tables, of which `known` are there."""
        arena, cells = self.arena, self.arena.cells
        if known == len(self.numbers):
            return
        start = arena.block(len(self.numbers) * at.RSZ * 2 + 2) // 2
        old = int(cells[at.RELS])
        cells[start : start + known * at.RSZ] = cells[old : old + known * at.RSZ]
        cells[at.RELS] = start
        cells[at.N_RELS] = len(self.numbers)

    def _add_filter(self) -> None:
        """Have one more filter, without keys."""
        arena, cells = self.arena, self.arena.cells
        old, count = int(cells[at.FILTERS]), int(cells[at.N_FILTERS])
        size = count * at.FILTER_SIZE
        start = arena.block((size + at.FILTER_SIZE) * 2) // 2
        cells[start : start + size] = cells[old : old + size]
        cells[start + size + at.FILTER_CELLS] = arena.block(_FILTER_CELLS * 2) // 2
        cells[start + size + at.FILTER_CAP] = _FILTER_CELLS
        cells[at.FILTERS] = start
        cells[at.N_FILTERS] = count + 1

    def _rows(self, number: int, arity: int, extra: int = 0) -> None:
        """A row table and its key table; `extra` words a row behind the columns."""
        arena, cells, rb = self.arena, self.arena.cells, self.cell(number)
        stride = _stride(arity, extra)
        cells[rb + at.R_ROWS] = arena.block(64 * stride)
        cells[rb + at.R_STRIDE] = stride
        cells[rb + at.R_ARITY] = arity
        cells[rb + at.R_CAP] = 64
        cells[rb + at.R_FREE] = -1
        cells[rb + at.R_PK] = arena.block(64) // 2
        cells[rb + at.R_PKCAP] = 32
        cells[rb + at.R_PKROOM] = 32

    def _index(self, plan: Plan) -> None:
        """Give every relation of the plan its indexes; others keep theirs.

        Those of relations that have rows are late (`X_LATE`): many serve edits that never come, and
        cost their memory and each edit until one asks. Where one row per key is kept rows are
        looked up outside joins, too: there they are filled.
        """
        best = {
            self.numbers[name] for stage in plan.stages if stage.best for name in stage.relations
        }
        arena, cells = self.arena, self.arena.cells
        wanted = {
            self.numbers[relation.name]: plan.indexes[relation.name] for relation in plan.relations
        }
        held = self._descriptors()[:, at.R_NIDX].copy()
        counts = held.tolist()
        more = {n: list(keys[counts[n] :]) for n, keys in wanted.items() if len(keys) > counts[n]}
        if not more:
            return
        added = np.zeros_like(held)
        added[list(more)] = [*map(len, more.values())]
        old, last, total = int(cells[at.IDXS]), int(held.sum()), int((held + added).sum())
        start = arena.block(total * at.XSZ * 2 + 2) // 2
        firsts = np.cumsum(held + added) - held - added
        moved = np.arange(last) + np.repeat(firsts - (np.cumsum(held) - held), held)
        cells[start : start + total * at.XSZ].reshape(total, at.XSZ)[moved] = cells[
            old : old + last * at.XSZ
        ].reshape(last, at.XSZ)
        created: list[int] = []
        for number, keys in sorted(more.items()):
            for index, key in enumerate(keys, int(firsts[number]) + counts[number]):
                self._empty_index(start + index * at.XSZ, number, key)
                created.append(index)
        self._descriptors()[:, at.R_IDX] = firsts
        self._descriptors()[:, at.R_NIDX] = held + added
        cells[at.IDXS] = start
        for index in created:
            number = int(cells[start + index * at.XSZ + at.X_REL])
            if number in best:
                fill_index(arena.words, cells, index)
            else:
                # Also those that went in this transaction: they leave their indexes at its end.
                rows = int(cells[self.cell(number) + at.R_N])
                cells[start + index * at.XSZ + at.X_LATE] = rows > 0

    def _empty_index(self, xb: int, number: int, key: Sequence[int]) -> None:
        arena, cells = self.arena, self.arena.cells
        cells[xb + at.X_REL] = number
        cells[xb + at.X_NKEY] = len(key)
        cells[xb + at.X_SLOTS] = arena.block(32 * 4) // 2
        cells[xb + at.X_CAP] = 32
        cells[xb + at.X_COLS] = arena.block(len(key) * 2 + 2) // 2
        start = int(cells[xb + at.X_COLS])
        cells[start : start + len(key)] = key

    def _count_all(self, number: int) -> None:
        """Have room in a relation's rows to count all of their derivations. O(rows), once.

        Rows that are there come from a plan without recursion, whose supports count all (or from
        one that keeps a row per key, or from Python: then they are derived anew).
        """
        arena, cells, rb = self.arena, self.arena.cells, self.cell(number)
        if cells[rb + at.R_ALL_WORD]:
            return
        arity, stride = int(cells[rb + at.R_ARITY]), int(cells[rb + at.R_STRIDE])
        count, capacity = int(cells[rb + at.R_N]), int(cells[rb + at.R_CAP])
        start, wide = int(cells[rb + at.R_ROWS]), _stride(arity, 1)
        rows = arena.words[start : start + count * stride].reshape(count, stride)
        if wide > stride:
            new = arena.block(capacity * wide)
            wider = arena.words[new : new + count * wide].reshape(count, wide)
            wider[:, :stride] = rows
            cells[rb + at.R_ROWS] = new
            cells[rb + at.R_STRIDE] = wide
            discard(arena.cells, start, capacity * stride)
            rows = wider
        cells[rb + at.R_ALL_WORD] = at.COLS + arity
        rows[:, at.COLS + arity] = rows[:, at.SUPPORT]


def _stride(arity: int, extra: int) -> int:
    return (at.COLS + arity + extra + 1) // 2 * 2
