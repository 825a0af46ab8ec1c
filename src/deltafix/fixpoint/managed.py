"""The managed fixpoint: it owns the relation, so that its caller has no obligations left.

Two nouns: `ManagedFixpoint` and its `FixpointTransaction`. Elements of any hashable type are
numbered once; the numbers live in the kernel, under a rule of reachability. Invariant: between
transactions the elements are the least fixpoint of base and pairs; a transaction that raises
leaves no trace. Not for several threads at once.

Source: Incremental fixpoint computation, section 3.1.4 (managed API).

Reachability over pairs of codes is a planned program in an arena of its own; its plan, link and run
are the engine's. A Database's types, transactions and deltas would double the cost of an edit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from itertools import chain
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast
from weakref import ref

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import Codes as Symbols
from deltafix.engine.link import link
from deltafix.engine.run import Budget, Run, set_budget
from deltafix.engine.store import by_relation, few_changes, records_of, relation_cell, rows_of_group
from deltafix.engine.tables import Tables
from deltafix.errors import ChangeError, InternalError, MissingRowError, TransactionError
from deltafix.fixpoint.view import Change, FixpointReport, FixpointView, not_in_fixpoint
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, spelled_out
from deltafix.kernel.entries import commit, delete_rows, insert_rows, lookup, rollback
from deltafix.plan.build import plan_core
from deltafix.plan.clause import Clause, Match, Relation, Slot
from deltafix.plan.ir import Plan
from deltafix.plan.normalize import Core

A = TypeVar("A", bound=Hashable)

_NOTHING: Change[Any] = Change()


class ManagedFixpoint(FixpointView[A]):
    """The least set that contains the base and, with x, every y of a pair (x, y).

    Each edit outside a transaction is one of its own and returns what it changed. An edit costs
    O(elements touched + their pairs), a few microseconds for one that touches little.

    Args:
        base: The seed elements.
        pairs: Pairs (x, y): from x one derives y. Tuples, or an integer array of shape (n, 2).
        max_rows: Bound on the elements that one update may add; None means no bound.
        timeout: Bound on the seconds of one update; None means no bound.
    """

    __slots__ = (
        "_budget",
        "_element_row",
        "_elements",
        "_is_edited",
        "_numbers",
        "_open",
        "_pair_row",
        "_state",
    )

    def __init__(
        self,
        base: Iterable[A] = (),
        pairs: Iterable[tuple[A, A]] | np.ndarray[Any, Any] = (),
        *,
        max_rows: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self._budget = Budget(max_rows=max_rows, timeout=timeout)
        self._numbers: dict[A, int] = {}
        self._elements: list[A] = []
        self._state = Reachability(self._budget)
        # Scratch rows, so that an edit allocates nothing.
        self._element_row = np.zeros(1, dtype=np.int32)
        self._pair_row = np.zeros(2, dtype=np.int32)
        # Weak: a transaction that nobody has any more is none.
        self._open: Callable[[], FixpointTransaction[A] | None] = _nobody
        self._is_edited = False  # since the last commit or rollback, as far as is known
        with self.transaction():
            self.add_steps(pairs)
            for element in base:
                self.add_base(element)

    # --- edits --------------------------------------------------------------------------------

    def add_step(self, x: A, y: A) -> Change[A]:
        """Own the pair (x, y) from now on; no effect if it is owned already.

        Returns:
            What changed; inside a transaction nothing yet, see `FixpointTransaction.change`.
        """
        self._begin()
        pair = self._pair_row
        pair[0], pair[1] = self._number(x), self._number(y)
        self._state.give(PAIR, pair, 1)
        return self._edited()

    def remove_step(self, x: A, y: A) -> Change[A]:
        """Give up the pair (x, y).

        Raises:
            MissingRowError: The pair is not owned; nothing happened.
        """
        self._begin()
        pair = self._pair_row
        pair[0], pair[1] = self._numbers.get(x, -1), self._numbers.get(y, -1)
        if not self._state.take(PAIR, pair, 1):
            raise MissingRowError(f"the pair ({x!r}, {y!r}) is not there, so it cannot be removed")
        return self._edited()

    def add_base(self, element: A) -> Change[A]:
        """Make an element part of the base; no effect if it is already."""
        self._begin()
        row = self._element_row
        row[0] = self._number(element)
        self._state.give(REACH, row, 1)
        return self._edited()

    def remove_base(self, element: A) -> Change[A]:
        """Take an element out of the base; it stays in the fixpoint while a pair derives it.

        Raises:
            MissingRowError: It is not in the base; nothing happened.
        """
        self._begin()
        row = self._element_row
        row[0] = self._numbers.get(element, -1)
        if not self._state.take(REACH, row, 1):
            raise MissingRowError(f"{element!r} is not in the base, so it cannot be removed")
        return self._edited()

    def add_steps(self, pairs: Iterable[tuple[A, A]] | np.ndarray[Any, Any]) -> Change[A]:
        """Own many pairs at once: tuples, or an integer array of shape (n, 2).

        Raises:
            ChangeError: An array of another shape or type; nothing happened.
        """
        codes = self._array_codes(pairs) if isinstance(pairs, np.ndarray) else self._codes(pairs)
        self._begin()
        if len(codes):
            self._state.give(PAIR, codes, len(codes) // 2)
        return self._edited()

    def cancel(self) -> None:
        """Stop the update that is running, from any thread: it raises CancelledError, undone."""
        self._state.cancel()

    def transaction(self) -> FixpointTransaction[A]:
        """Edits inside `with fx.transaction():` take effect together, or not at all.

        Raises:
            TransactionError: One is open already.
        """
        return FixpointTransaction(self)

    # --- questions ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[A]:
        codes = self._state.rows(REACH)[:, at.COLS].tolist()
        return map(self._elements.__getitem__, codes)

    def __len__(self) -> int:
        return self._state.count(REACH)

    def __contains__(self, element: object) -> bool:
        return self._row(element) >= 0

    @property
    def base(self) -> frozenset[A]:
        """The seed elements; O(elements)."""
        codes = self._state.rows(REACH, at.WAS | at.GIVEN)[:, at.COLS].tolist()
        return frozenset(map(self._elements.__getitem__, codes))

    @property
    def step_count(self) -> int:
        """How many pairs are owned. O(1)."""
        return self._state.count(PAIR)

    def steps(self) -> Iterator[tuple[A, A]]:
        """All owned pairs, in no particular order."""
        name = self._elements.__getitem__
        for x, y in self._state.rows(PAIR)[:, at.COLS : at.COLS + 2].tolist():
            yield name(x), name(y)

    def rank(self, element: A) -> int:
        """Position in the well-founded order; comparable with other ranks until the next edit."""
        return self._state.rank(self._known_row(element))

    def why(self, element: A) -> tuple[A, ...]:
        """A proof, always by the support of lowest rank; O(its length × pairs into each)."""
        self._refuse_open("why")
        row = self._known_row(element)
        proof = [element]
        while not self._state.is_base(row):
            row = self._state.source(row)
            proof.append(self._elements[self._state.code(row)])
        return tuple(reversed(proof))

    def compact(self) -> None:
        """Rebuild from what is owned now: drops numbers of elements that are long gone.

        Cost: O(pairs + elements). Ranks are new afterwards, elements the same.

        Raises:
            TransactionError: A transaction is open.
        """
        self._refuse_open("compact")
        fresh = ManagedFixpoint(self.base, self.steps())  # unbounded: it came edit by edit
        fresh._state.bound(self._budget)
        self._state, self._numbers, self._elements = fresh._state, fresh._numbers, fresh._elements

    def check_invariants(self) -> None:
        """Recompute elements and supports from the owned pairs and compare; O(pairs)."""
        records = self._state.rows(REACH)
        ranks = (records.view(np.int64)[:, 0] >> at.RANK_SHIFT).tolist()
        rank = dict(zip(records[:, at.COLS].tolist(), ranks, strict=True))
        given = (records[:, 0] & at.GIVEN != 0).tolist()
        support = dict.fromkeys(rank, 0)
        successors: dict[int, list[int]] = {}
        for x, y in self._state.rows(PAIR)[:, at.COLS : at.COLS + 2].tolist():
            successors.setdefault(x, []).append(y)
            if x in rank and y in rank:
                support[y] += rank[x] < rank[y]
        pending = [code for code, is_given in zip(rank, given, strict=True) if is_given]
        want = set(pending)
        while pending:
            for y in successors.get(pending.pop(), ()):
                if y not in want:
                    want.add(y)
                    pending.append(y)
        if want != rank.keys():
            odd = self._elements[min(want ^ rank.keys())]
            raise InternalError(f"fixpoint/managed: {odd!r} differs from recomputation")
        kept = dict(zip(rank, records[:, at.SUPPORT].tolist(), strict=True))
        for (code, count), is_given in zip(support.items(), given, strict=True):
            if kept[code] != count or (count == 0 and not is_given):
                raise InternalError(
                    f"fixpoint/managed: {self._elements[code]!r} has {count} supports, "
                    f"{kept[code]} counted"
                )

    # --- numbers ------------------------------------------------------------------------------

    def _number(self, element: A) -> int:
        number = self._numbers.get(element)
        if number is None:
            number = self._numbers[element] = len(self._elements)
            self._elements.append(element)
        return number

    def _codes(self, pairs: Iterable[tuple[A, A]]) -> Codes:
        return np.fromiter(map(self._number, chain.from_iterable(pairs)), dtype=np.int32)

    def _array_codes(self, pairs: np.ndarray[Any, Any]) -> Codes:
        """Number the values of an array: one dictionary look-up per distinct value."""
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ChangeError(
                f"pairs came as an array of shape {pairs.shape} and type {pairs.dtype}; valid are "
                "integer arrays of shape (n, 2), or an iterable of pairs"
            )
        distinct, where = np.unique(pairs, return_inverse=True)
        numbers = np.fromiter(map(self._number, distinct.tolist()), dtype=np.int32)
        codes: Codes = numbers[where].reshape(-1)
        return codes

    def _row(self, element: object) -> int:
        number = cast("dict[object, int]", self._numbers).get(element)
        if number is None:
            return -1
        self._element_row[0] = number
        return self._state.find(REACH, self._element_row, at.WAS)

    def _known_row(self, element: A) -> int:
        row = self._row(element)
        if row < 0:
            raise not_in_fixpoint(element)
        return row

    # --- transactions -------------------------------------------------------------------------

    def _refuse_open(self, what: str) -> None:
        if self._open() is not None:
            raise TransactionError(f"{what} asks for a settled state; end the transaction first")
        self._begin()

    def _begin(self) -> None:
        """Before an edit: undo what one that an interrupt ended has left."""
        if self._is_edited and self._open() is None:
            self._state.rollback()
        self._is_edited = True

    def _edited(self) -> Change[A]:
        """After an edit: commit it, unless a transaction is open."""
        return _NOTHING if self._open() is not None else self._commit()

    def _commit(self) -> Change[A]:
        state = self._state
        try:
            state.run()
        except BaseException:
            state.rollback()  # an interrupt too
            raise
        added, removed = state.commit()
        self._is_edited = False
        derivations, retracted, revived, reranked = state.counters()
        self._report = FixpointReport(
            added=len(added),
            retracted=retracted,
            revived=revived,
            reranked=reranked,
            removed=len(removed),
            derivations=derivations,
        )
        if not added and not removed:
            return _NOTHING
        name = self._elements.__getitem__
        return Change(frozenset(map(name, added)), frozenset(map(name, removed)))


class FixpointTransaction(Generic[A]):
    """Made by `ManagedFixpoint.transaction`; begins at once, ends with the `with` block."""

    def __init__(self, fixpoint: ManagedFixpoint[A]) -> None:
        if fixpoint._open() is not None:
            raise TransactionError("a transaction is open already; they do not nest")
        self._fixpoint = fixpoint
        self._change: Change[A] | None = None
        fixpoint._begin()
        fixpoint._open = ref(self)

    @property
    def change(self) -> Change[A]:
        """What the committed transaction changed.

        Raises:
            TransactionError: It is open, or was rolled back.
        """
        if self._change is None:
            state = "open" if self._fixpoint._open() is self else "rolled back"
            raise TransactionError(f"the transaction is {state}; a change comes with its commit")
        return self._change

    def commit(self) -> Change[A]:
        """Let the edits take effect. On an error everything is as before the transaction.

        Raises:
            TransactionError: It has ended already.
            BudgetError: The fixpoint's `max_rows` or `timeout` was exceeded.
        """
        self._end()
        self._change = self._fixpoint._commit()
        return self._change

    def rollback(self) -> None:
        """Forget the edits."""
        self._end()
        self._fixpoint._state.rollback()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._fixpoint._open() is not self:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _end(self) -> None:
        if self._fixpoint._open() is not self:
            raise TransactionError("the transaction has ended already")
        self._fixpoint._open = _nobody


def _nobody() -> None:
    """Whose transaction is open."""


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
        self._linked = link(_plan(), Tables(self.arena), Symbols(self.arena))
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

    def bound(self, budget: Budget) -> None:
        """Have other bounds from now on."""
        self._budget = budget
        set_budget(self.arena, budget)

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
        arena.release()
        few = few_changes(arena)
        if few is not None:
            went, came = by_relation(few).get(REACH, ([], []))
            return [code for (code,) in came], [code for (code,) in went]
        entries = spelled_out(arena.take(at.DELTA), 2)
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
        sources = (self.find(REACH, pair, at.WAS) for pair in pairs)
        supports = [r for r in sources if r >= 0 and self.rank(r) < self.rank(row)]
        if not supports:
            raise InternalError(f"fixpoint/managed: row {row} has no support")
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
    raise InternalError("fixpoint/managed: the rule has no functor and no outside stratum")
