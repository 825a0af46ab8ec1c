"""Reachability over pairs of codes, as a planned program in an arena of its own.

    reach(y) :- reach(x), pair(x, y).        reach takes given rows too: they are the base

Lives here: the rule, its two relations in the kernel's memory, and one epoch over them. The plan,
its link into the arena and the run are the engine's (`plan.build`, `engine.link`, `engine.run`);
what is left out is a Database's types, transactions and deltas, which would double the cost of an
edit. Codes are plain int32; what they stand for is `managed`'s business. Not for several threads.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import FEW
from deltafix.engine.codes import Codes as Symbols
from deltafix.engine.link import link
from deltafix.engine.run import Budget, Run, set_budget
from deltafix.engine.store import few_changes, records_of, relation_cell, rows_of_group
from deltafix.engine.tables import Tables
from deltafix.errors import InternalError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.entries import commit, delete_rows, insert_rows, lookup, rollback
from deltafix.plan.build import plan_core
from deltafix.plan.clause import Clause, Match, Relation, Slot
from deltafix.plan.ir import Plan
from deltafix.plan.normalize import Core

PAIR, REACH = 0, 1  # relation numbers: the order in which the core lists them

Codes = npt.NDArray[np.int32]


@cache
def _plan() -> Plan:
    x, y = Slot("x"), Slot("y")
    body = (Match("reach", (x,)), Match("pair", (x, y)))
    relations = (Relation("pair", ("number", "number")), Relation("reach", ("number",)))
    return plan_core(Core(relations, (Clause("reach", (y,), body, 0),)))


class Reachability:
    """An arena with the two relations and the program over them.

    Life of an epoch: `give` and `take` rows, then `run` and `commit`, or `rollback`.
    """

    def __init__(self, budget: Budget) -> None:
        self.arena = Arena()
        self._budget = budget
        self._linked = link(_plan(), Tables(self.arena), Symbols(self.arena, ordered=False))
        self._run = Run(self.arena, self._linked.program, _never, _never)
        self.arena.cells[at.SCHEDULE] = at.WAVEFRONT
        set_budget(self.arena, budget)

    # --- an epoch -----------------------------------------------------------------------------

    def give(self, relation: int, codes: Codes, count: int) -> int:
        """Give rows, flat; how many were not given before."""
        return int(insert_rows(self.arena.words, self.arena.cells, codes, relation, count))

    def take(self, relation: int, codes: Codes, count: int) -> int:
        """Take given rows, flat; how many were given."""
        return int(delete_rows(self.arena.words, self.arena.cells, codes, relation, count))

    def run(self) -> None:
        """Derive what follows. On an error (`engine.run.Run.epoch`) `rollback` is to be called."""
        self._run.epoch(self._budget)

    def cancel(self) -> None:
        """Stop the run that is on, from any thread."""
        self.arena.cells[at.CANCEL] = 1

    def commit(self) -> tuple[list[int], list[int]]:
        """End the epoch; codes that reach now and did not, and the other way round. O(touched)."""
        arena, cells = self.arena, self.arena.cells
        commit(arena.words, cells)
        if cells[at.DEAD + 1]:
            arena.release()
        count = int(cells[at.DELTA + 1])
        if count == 0:
            return [], []
        if count <= FEW:
            sides: tuple[list[int], list[int]] = [], []
            for relation, row, came in few_changes(arena):
                if relation == REACH:
                    sides[came].append(self.code(row))
            return sides[1], sides[0]
        entries = arena.take(at.DELTA)
        entries = entries[(entries >> 33) == REACH]
        codes = records_of(arena, REACH)[(entries >> 1) & 0xFFFFFFFF, at.COLS]
        new = (entries & 1) == 1
        return codes[new].tolist(), codes[~new].tolist()

    def rollback(self) -> None:
        """Undo everything since the last commit. O(touched)."""
        rollback(self.arena.words, self.arena.cells)
        self.arena.release()

    # --- questions ----------------------------------------------------------------------------

    def find(self, relation: int, codes: Codes, mask: int) -> int:
        """Row number of the row with these codes if its flags include `mask`, else -1. O(1)."""
        return int(lookup(self.arena.words, self.arena.cells, codes, relation, 0, mask))

    def rank(self, row: int) -> int:
        """The rank of a REACH row."""
        return int(self.arena.cells[self._cell(row)]) >> at.RANK_SHIFT

    def is_base(self, row: int) -> bool:
        """Whether a REACH row is given."""
        return bool(int(self.arena.cells[self._cell(row)]) & at.GIVEN)

    def code(self, row: int) -> int:
        """The code of a REACH row."""
        return int(self.arena.words[2 * self._cell(row) + at.COLS])

    def source(self, row: int) -> int:
        """The REACH row of lowest rank that supports this one. O(pairs into it)."""
        pairs = rows_of_group(
            self.arena, self._linked, "pair", (1,), (self.code(row),), mask=at.WAS
        )
        found = (self.find(REACH, pair, at.WAS) for pair in pairs)
        supports = [r for r in found if r >= 0 and self.rank(r) < self.rank(row)]
        if not supports:
            raise InternalError(f"fixpoint/reachability: row {row} has no support")
        return min(supports, key=self.rank)

    def counters(self) -> tuple[int, int, int, int]:
        """Derivations, and retracted, revived and re-ranked elements, of the last epoch."""
        cells = self.arena.cells[at.C_DERIVATIONS : at.C_RERANKED + 1].tolist()
        retracted, revived, reranked = cells[at.C_RETRACTED - at.C_DERIVATIONS :]
        return cells[0], retracted, revived, reranked

    def count(self, relation: int) -> int:
        """How many rows a relation has, as of the last commit. O(1)."""
        return relation_cell(self.arena, relation, at.R_WAS)

    def rows(self, relation: int, mask: int = at.WAS) -> Codes:
        """Copies of the records (n, stride) whose flags include `mask`. O(rows allocated)."""
        records = records_of(self.arena, relation)
        # the flags are the low byte of the first cell: its low word on a little-endian machine
        chosen: Codes = records[(records[:, 0] & mask) == mask]
        return chosen

    def _cell(self, row: int) -> int:
        """The first cell of a REACH row's record."""
        start = relation_cell(self.arena, REACH, at.R_ROWS)
        return (start + row * relation_cell(self.arena, REACH, at.R_STRIDE)) >> 1


def _never(*_: object) -> None:
    raise InternalError("fixpoint/reachability: the rule has no functor and no outside stratum")
