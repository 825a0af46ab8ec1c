"""One fixed program for the maintenance kernel: reachability over pairs of codes.

    reach(y) :- reach(x), pair(x, y).        reach takes given rows too: they are the base

Lives here: the program in the kernel's own terms (`kernel.layout`, "Program"), the arena that
holds its two relations, and one epoch over it. Invariant: this is the program that the planner
makes of the rule above; tests/agree compares rows, deltas and counted work with the engine's.
Codes are plain int32; what they stand for is `managed`'s business. Not for several threads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deltafix.errors import BudgetError, CancelledError, InternalError, LimitError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.edit import delete_rows, insert_rows, lookup
from deltafix.kernel.end import commit, rollback
from deltafix.kernel.index import bucket_start, idx_find
from deltafix.kernel.jit import kernel
from deltafix.kernel.keys import hash_words, key_find
from deltafix.kernel.layout import (
    COLS,
    NOW,
    R_ROWS,
    R_STRIDE,
    RANK_SHIFT,
    RELS,
    RSZ,
)
from deltafix.kernel.maintain import maintain

__all__ = ["PAIR", "REACH", "Reachability"]

PAIR, REACH = 0, 1  # relation numbers
BY_SOURCE, BY_TARGET = 0, 1  # indexes of PAIR: on its first column, on its second
_X, _Y = 0, 1  # variables of the rule
_FEW = 32
_SLICE = 2_000_000  # rows and derivations between two looks at signals and the clock

Codes = npt.NDArray[np.int32]


@kernel("i:ALi", door=True)
def lowest_source(A, L, row):  # type: ignore[no-untyped-def]  # noqa: N803  kernel's names
    """The REACH row of lowest rank below `row` with a pair into it, or -1. O(pairs into it)."""
    reach = L[RELS] + REACH * RSZ
    here = L[reach + R_ROWS] + row * L[reach + R_STRIDE]
    pairs = L[RELS] + PAIR * RSZ
    slot = idx_find(A, L, BY_TARGET, here + COLS, hash_words(A, here + COLS, 1))
    best = np.int64(-1)
    best_rank = L[here >> 1] >> RANK_SHIFT
    if slot < 0:
        return best
    ref = (L[slot] & 0xFFFFFFFF) - 1
    size = L[slot + 1] >> 32
    for k in range(L[slot + 1] & 0xFFFFFFFF):
        pair = ref if size == 0 else np.int64(A[bucket_start(L, ref) + k])
        source = L[pairs + R_ROWS] + pair * L[pairs + R_STRIDE] + COLS
        found = key_find(A, L, A, REACH, source, hash_words(A, source, 1))
        if found >= 0:
            word = L[(L[reach + R_ROWS] + found * L[reach + R_STRIDE]) >> 1]
            if word & NOW and (word >> RANK_SHIFT) < best_rank:
                best = found
                best_rank = word >> RANK_SHIFT
    return best


class Reachability:
    """An arena with the two relations and the program over them.

    Life of an epoch: `give` and `take` rows, then `run` and `commit`, or `rollback`.
    """

    def __init__(self) -> None:
        self.arena = Arena()
        self._relation(PAIR, arity=2, keys=((0,), (1,)), first_index=BY_SOURCE, read_above=True)
        self._relation(REACH, arity=1, keys=(), first_index=2, read_above=False)
        cells = self.arena.cells
        cells[at.VARS] = self.arena.block(16)
        cells[at.STACK] = self.arena.block(64) // 2
        cells[at.RULE_COUNTS] = self.arena.block(16) // 2
        cells[at.SCHEDULE] = at.WAVEFRONT
        self._program = _program()

    def _relation(
        self,
        number: int,
        *,
        arity: int,
        keys: Sequence[tuple[int, ...]],
        first_index: int,
        read_above: bool,
    ) -> None:
        """Write one relation's descriptor and its index descriptors."""
        arena, cells = self.arena, self.arena.cells
        if number == 0:
            cells[at.RELS] = arena.block(2 * at.RSZ * 2 + 2) // 2
            cells[at.IDXS] = arena.block(2 * at.XSZ * 2 + 2) // 2
            cells[at.N_RELS] = 2
        rb = int(cells[at.RELS]) + number * at.RSZ
        stride = (at.COLS + arity + len(keys) + 1) // 2 * 2
        for field, value in (
            (at.R_ROWS, arena.block(64 * stride)),
            (at.R_STRIDE, stride),
            (at.R_ARITY, arity),
            (at.R_CAP, 64),
            (at.R_FREE, -1),
            (at.R_PK, arena.block(64) // 2),
            (at.R_PKCAP, 32),
            (at.R_IDX, first_index),
            (at.R_NIDX, len(keys)),
            (at.R_KEEP, int(read_above)),
            (at.R_STRATUM, number),
            (at.R_RULES, int(number == REACH)),
        ):
            cells[rb + field] = value
        arena.vector(rb + at.R_CHANGED, 64)
        for position, key in enumerate(keys):
            xb = int(cells[at.IDXS]) + (first_index + position) * at.XSZ
            columns = arena.block(len(key) * 2 + 2) // 2
            for field, value in (
                (at.X_REL, number),
                (at.X_NKEY, len(key)),
                (at.X_POS, at.COLS + arity + position),
                (at.X_SLOTS, arena.block(32 * 4) // 2),
                (at.X_CAP, 32),
                (at.X_COLS, columns),
            ):
                cells[xb + field] = value
            cells[columns : columns + len(key)] = key

    # --- an epoch -----------------------------------------------------------------------------

    def give(self, relation: int, codes: Codes, count: int) -> int:
        """Give rows, flat; how many were not given before."""
        return int(insert_rows(self.arena.words, self.arena.cells, codes, relation, count))

    def take(self, relation: int, codes: Codes, count: int) -> int:
        """Take given rows, flat; how many were given."""
        return int(delete_rows(self.arena.words, self.arena.cells, codes, relation, count))

    def run(self, *, max_rows: int | None = None, timeout: float | None = None) -> None:
        """Derive what follows. On an error the epoch is still to be rolled back.

        Raises:
            BudgetError: `max_rows` or `timeout` was exceeded.
            CancelledError: `cancel` was called meanwhile.
            LimitError: An element has more derivations than can be counted.
        """
        cells = self.arena.cells
        cells[at.S_STRATUM] = -1
        cells[at.CANCEL] = 0
        cells[at.MAX_ROWS] = max_rows or 0
        deadline = None if timeout is None else time.monotonic() + timeout
        work = 0
        while True:
            cells[at.QUOTA] = work + _SLICE
            outcome = maintain(self.arena.words, cells, self._program)
            if outcome == at.DONE:
                return
            if outcome == at.STOPPED:
                raise _stopped(int(cells[at.ERROR]), max_rows)
            work = int(cells[at.C_PROBED] + cells[at.C_DERIVATIONS])
            if deadline is not None and time.monotonic() > deadline:
                raise BudgetError(f"the update took longer than timeout={timeout} s; undone")

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
        if count <= _FEW:
            return self._few_changes(arena.take(at.DELTA).tolist())
        entries = arena.take(at.DELTA)
        entries = entries[(entries >> 33) == REACH]
        codes = self._records(REACH)[(entries >> 1) & 0xFFFFFFFF, at.COLS]
        came = (entries & 1) == 1
        return codes[came].tolist(), codes[~came].tolist()

    def _few_changes(self, entries: list[int]) -> tuple[list[int], list[int]]:
        """As the end of `commit`, without arrays: half the time of a small edit was theirs."""
        added: list[int] = []
        removed: list[int] = []
        for entry in entries:
            if entry >> 33 == REACH:
                code = self.code((entry >> 1) & 0xFFFFFFFF)
                (added if entry & 1 else removed).append(code)
        return added, removed

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
        """The REACH row of lowest rank that supports this one, or -1."""
        return int(lowest_source(self.arena.words, self.arena.cells, row))

    def counters(self) -> tuple[int, int, int, int]:
        """Derivations, and retracted, revived and re-ranked elements, of the last epoch."""
        cells = self.arena.cells[at.C_DERIVATIONS : at.C_RERANKED + 1].tolist()
        retracted, revived, reranked = cells[at.C_RETRACTED - at.C_DERIVATIONS :]
        return cells[0], retracted, revived, reranked

    def count(self, relation: int) -> int:
        """How many rows a relation has, as of the last commit. O(1)."""
        return int(self.arena.cells[int(self.arena.cells[at.RELS]) + relation * at.RSZ + at.R_WAS])

    def rows(self, relation: int, mask: int = at.WAS) -> Codes:
        """Copies of the records (n, stride) whose flags include `mask`. O(rows allocated)."""
        records = self._records(relation)
        # the flags are the low byte of the first cell: its low word on a little-endian machine
        chosen: Codes = records[(records[:, 0] & mask) == mask]
        return chosen

    def _cell(self, row: int) -> int:
        rb = int(self.arena.cells[at.RELS]) + REACH * at.RSZ
        cells = self.arena.cells
        return int(cells[rb + at.R_ROWS] + row * cells[rb + at.R_STRIDE]) >> 1

    def _records(self, relation: int) -> Words:
        cells = self.arena.cells
        rb = int(cells[at.RELS]) + relation * at.RSZ
        start, stride, count = (int(cells[rb + f]) for f in (at.R_ROWS, at.R_STRIDE, at.R_N))
        return self.arena.words[start : start + count * stride].reshape(count, stride)


def _stopped(error: int, max_rows: int | None) -> Exception:
    match error:
        case at.ERR_ROWS:
            return BudgetError(f"the update adds more than max_rows={max_rows} elements; undone")
        case at.ERR_CANCEL:
            return CancelledError("cancelled; undone")
        case at.ERR_SUPPORT:
            return LimitError("an element has more than 2147483647 derivations; undone")
    return InternalError(f"fixpoint/reachability: stopped with unknown error {error}")


def _program() -> Words:
    """The rule's four variants and the two strata, as `kernel.layout` spells programs."""
    out = [2, 0]

    def put(*values: int) -> int:
        out.extend(values)
        return len(out) - len(values)

    def variant(trigger: int, binds: Sequence[int], head: int, node: int) -> int:
        match = put(*(n for column, name in enumerate(binds) for n in (column, at.M_BIND, name)))
        return put(
            trigger, 0, REACH, node, put(at.O_VAR, head), len(binds), match, 0,
            int(trigger == REACH), 0, nothing,
        )  # fmt: skip

    def join(relation: int, sees: int, key: int, binds: tuple[int, ...], *, then: int) -> int:
        """A node whose one candidate is a literal found by `key`, binding (column, variable)."""
        index = BY_TARGET if key == _Y else BY_SOURCE
        method = at.BY_KEY if relation == REACH else at.BY_INDEX
        keys = put(at.O_VAR, key)
        match = put(binds[0], at.M_BIND, binds[1]) if binds else nothing
        option = put(relation, method, index, sees, then, 1, keys, len(binds) // 2, match)
        return put(0, nothing, 1, put(option))

    def stratum(*fields: int) -> int:
        """A stratum of variants: what the kernel's record has beyond them is not used, and 0."""
        return put(*fields, *(0,) * (at.TSZ - len(fields)))

    nothing = put(0)
    emit = put(0, nothing, 0, nothing)
    # on +pair(x, y): reach(x) by key, as before the pair's own stratum runs
    lower = variant(PAIR, (_X, _Y), _Y, join(REACH, at.SAME_BEFORE, _X, (), then=emit))
    # on +reach(x): pair(x, y) by its first column
    by_x = join(PAIR, at.LOWER_AFTER, _X, (1, _Y), then=emit)
    same = variant(REACH, (_X,), _Y, by_x)
    # why reach(y): pair(x, y) by its second column, then reach(x) by key
    stands = join(REACH, at.SAME_AFTER, _X, (), then=emit)
    by_y = join(PAIR, at.LOWER_AFTER, _Y, (0, _X), then=stands)
    why = variant(REACH, (_Y,), _Y, by_y)

    none = put(put(0))  # per relation of a stratum: the offset of an empty list
    pairs = stratum(0, 1, put(PAIR), 0, nothing, none, none, 0, nothing, 0, nothing)
    reach = stratum(
        1, 1, put(REACH), 1, put(PAIR, lower), put(put(1, same)), put(put(1, why)),
        1, put(put(1, lower)), 0, nothing,
    )  # fmt: skip
    out[1] = put(pairs, reach)
    return np.array(out, dtype=np.int32)
