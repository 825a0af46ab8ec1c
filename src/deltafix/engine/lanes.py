"""Threads for the kernel's lanes: a round of a large evaluation, on all processors.

Life: `Run` calls `run` where the kernel says SHARE. Parts of the rows at hand go to whichever
thread asks next; when a lane must wait, for its heads to be counted or for an index, all stop, that
is done, and they go on. The calling thread is one of them. Invariant: when `run` returns, or
raises, no thread is in the arena but the caller's. What a lane is: `kernel.lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic

import numpy as np

from deltafix.engine.threads import side_by_side, whole
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words
from deltafix.kernel.entries import (
    begin_counting,
    close_round,
    count_rows,
    count_zone,
    end_counting,
    end_entering,
    enter_keys,
    entering,
    fill_index,
    forget_heads,
    grow_keys,
    lend,
    list_rows,
    maintain,
    make_index_room,
    make_list_room,
    next_stretch,
    open_round,
    place_heads,
    place_zone,
    sort_keys,
    spread_part,
    take_up,
)

_PARTS = 8
"""Parts of a round for each lane, so that one with much to do does not keep the others waiting."""
_MOST = 8192
_MANY = 4096
"""Rows from which they are sorted before they enter indexes, and threads share one index."""
_AT_ONCE = 1 << 22
"""Rows from which indexes are entered one after another: 32 MiB to sort them in."""
_TAKE = 7
"""The kernel's phase in which queued rows become true."""
_QUOTA = 1 << 20
"""Rows and derivations between two looks at whether to stop."""
_SECONDS = 0.2
"""Between two looks at limits, time and cancellation."""


class Lanes:
    """The lanes of one arena. It has none until `LANES` says so. Readers hold `gate`."""

    __slots__ = ("_arena", "_gate", "_parts", "_stop", "_views")

    def __init__(self, arena: Arena, gate: AbstractContextManager[object]) -> None:
        self._arena = arena
        self._gate = gate
        self._views: list[tuple[Words, Cells]] = []
        self._stop = False
        self._parts: Iterator[int] = iter(())

    def run(self, program: Words, between: Callable[[], None]) -> None:
        """Do a round; `between` is called where no lane runs, and may raise. O(the round)."""
        words, cells = self._arena.words, self._arena.cells
        count = int(cells[at.LANES])
        starts = (lane * at.LANE_CELLS for lane in range(1, count + 1))
        self._views = [(words[2 * first :], cells[first:]) for first in starts]
        rows = open_round(words, cells, program)
        end = int(cells[at.S_END])
        if int(cells[at.S_PHASE]) % 16 == _TAKE:
            whole(lambda: take_up(words, cells, int(self._enter(program, end - rows, end))))
        size = min(max(rows // (count * _PARTS), 64), _MOST)
        first, parts = end - rows, max(rows // size, 1)
        self._parts = iter(range(first, first + parts * at.BLOCK, at.BLOCK))
        cells[at.S_FIRST], cells[at.S_SKIP] = first, (parts - 1) * at.BLOCK
        for lane in range(1, count + 1):
            lend(cells, program, lane, 1)
        busy = [False] * count
        while True:
            self._stop = False
            busy = side_by_side(partial(self._lane, program, busy), count, self._halt)
            for _, own in self._views:
                if own[at.LATE]:
                    if cells[int(cells[at.IDXS]) + (int(own[at.LATE]) - 1) * at.XSZ + at.X_LATE]:
                        fill_index(words, cells, int(own[at.LATE]) - 1)
                    own[at.LATE] = 0
            done = not any(busy) and not self._left()
            if done or any(own[at.QUOTA] < 0 for _, own in self._views):
                whole(partial(self._count, program, count))
            for lane in range(1, count + 1):
                lend(cells, program, lane, 0)
            if done:
                close_round(cells, program)
                return
            between()

    def fill(self) -> None:
        """Fill the indexes that are to be (`LATE_NOW`). O(their relations' rows)."""
        cells = self._arena.cells
        first, count = int(cells[at.RELS]), int(cells[at.N_RELS])
        relations = cells[first : first + count * at.RSZ].reshape(count, at.RSZ)
        indexes = int((relations[:, at.R_IDX] + relations[:, at.R_NIDX]).max(initial=0))
        first = int(cells[at.IDXS])
        table = cells[first : first + indexes * at.XSZ].reshape(indexes, at.XSZ)
        late = np.flatnonzero(table[:, at.X_LATE] == at.LATE_NOW)
        rows = relations[table[late, at.X_REL], at.R_N]
        if cells[at.S_STRATUM] >= 0:  # behind the last stratum: what it worked in is done with
            with self._gate:
                self._arena.release()
        self._jobs([(x, -1, n) for x, n in zip(late.tolist(), rows.tolist(), strict=True)])
        cells[at.TO_FILL] = 0

    def _enter(self, program: Words, first: int, last: int) -> bool:
        """Enter many rows of the queue into their indexes; whether they were many."""
        cells = self._arena.cells
        if last - first < _MANY:
            return False
        stratum = int(program[int(program[1]) + int(cells[at.S_STRATUM])])
        relations = int(program[stratum + at.T_RELS])
        jobs = []
        for number in program[relations : relations + int(program[stratum + at.T_NRELS])].tolist():
            rb = int(cells[at.RELS]) + number * at.RSZ
            begin, count = int(cells[rb + at.R_IDX]), int(cells[rb + at.R_NIDX])
            for index in range(begin, begin + count):
                late = int(cells[int(cells[at.IDXS]) + index * at.XSZ + at.X_LATE])
                if late >= at.PART:
                    fill_index(self._arena.words, cells, index)
                if late == 0 or late >= at.PART:
                    jobs.append((index, first, last))
        try:
            self._jobs(jobs)
        except BaseException:  # some have the rows: a rollback empties late ones, and only those
            for index, _, _ in jobs:
                cells[int(cells[at.IDXS]) + index * at.XSZ + at.X_LATE] = 1
            raise
        return True

    def _jobs(self, wanted: list[tuple[int, int, int]]) -> None:
        """Enter rows into indexes, as many of these at a time as there are threads.

        Where fewer are left than threads, and rows are many, threads share an index; they do, too,
        where sorting the rows of several would take much memory.
        """
        words, cells = self._arena.words, self._arena.cells
        most = max(int(cells[at.LANES]), 1)
        rest = wanted
        while rest:
            some = rest[:most]
            if sum(last - first for _, first, last in some) > _AT_ONCE:
                some = rest[:1]
            rest = rest[len(some) :]
            fewest = min(last - first for _, first, last in some)
            parts = most // len(some) if fewest >= _MANY else 1
            jobs = [entering(cells, *rows, part, parts) for rows in some for part in range(parts)]
            side_by_side(lambda n: count_rows(words, cells, jobs[n]), len(jobs))  # noqa: B023
            for job in jobs:
                make_list_room(words, cells, job)
            side_by_side(lambda n: list_rows(words, cells, jobs[n]), len(jobs))  # noqa: B023
            side_by_side(lambda n: sort_keys(words, cells, jobs[n]), len(jobs))  # noqa: B023
            for job in jobs:
                make_index_room(words, cells, job)
            side_by_side(lambda n: enter_keys(words, cells, jobs[n]), len(jobs))  # noqa: B023
            for job in jobs:
                end_entering(words, cells, job)
            with self._gate:  # the next jobs take what these worked in
                self._arena.release(keep=True)

    def _left(self) -> bool:
        """Whether a part is left that no lane has begun."""
        part = next(self._parts, None)
        if part is None:
            return False
        rest = self._parts
        self._parts = iter((part, *rest))
        return True

    def _lane(self, program: Words, busy: list[bool], lane: int) -> bool:
        """Run a lane until it must wait, or nothing is left; is it in the midst of a part?"""
        words, cells = self._views[lane]
        begun, until = busy[lane], monotonic() + _SECONDS
        head = at.S_HEAD if int(cells[at.S_PHASE]) % 16 == _TAKE else at.S_ROW
        while True:
            if not begun:
                part = next(self._parts, None)
                if part is None:
                    return False
                cells[head] = part
                begun = True
            cells[at.QUOTA] = int(cells[at.C_PROBED]) + int(cells[at.C_DERIVATIONS]) + _QUOTA
            outcome = maintain(words, cells, program)
            if outcome == at.DONE:
                begun = False
            if cells[at.QUOTA] < 0 or cells[at.LATE] or monotonic() > until:
                self._stop = True
            if self._stop:
                return begun

    def _count(self, program: Words, count: int) -> None:
        """Count the heads that wait."""
        words, cells = self._arena.words, self._arena.cells
        stratum = int(program[int(program[1]) + int(cells[at.S_STRATUM])])
        again = 0
        while True:
            for relation in range(int(program[stratum + at.T_NRELS])):
                growth = grow_keys(words, cells, program, relation)
                while growth and next_stretch(cells, growth):
                    side_by_side(partial(spread_part, cells, growth), count)
            begin_counting(words, cells, program, again)
            side_by_side(partial(count_zone, words, cells, program), count)
            try:
                place_heads(words, cells, program)
            except MemoryError:
                forget_heads(cells, program)
                raise
            side_by_side(partial(place_zone, words, cells, program), count)
            again = end_counting(words, cells, program)
            if not again:
                return

    def _halt(self) -> None:
        """Have lanes stop at the next look."""
        self._stop = True
