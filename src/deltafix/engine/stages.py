"""Strata that Python computes: the kernel stops at them, and goes on with what they changed.

One noun, `Stratum`: it gets the net changes of the relations it reads as tables of column codes,
and gives back the net changes of its own. Invariant: `run` is called at most once an epoch, then
`keep` or `undo`; after `undo` the stratum is as it was. A fold (`engine.folds`) is one kind; those
that count or add up whole numbers are not here, but in the kernel (`kernel.fold`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np

from deltafix.engine.link import Linked
from deltafix.engine.run import Budget, grew
from deltafix.engine.store import changed_in_epoch, codes_where, total_of
from deltafix.engine.threads import whole
from deltafix.errors import BudgetError, CancelledError, FunctorError, InternalError
from deltafix.facts.schema import Row
from deltafix.facts.values import OPTIONAL
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import settle_rows

if TYPE_CHECKING:
    from deltafix.plan.clause import Fold
    from deltafix.reducers.aggregate import UserReducer

T = TypeVar("T")


class Changed:
    """Net changes of a relation: codes (n, arity) of rows added and of rows removed."""

    __slots__ = ("added", "removed")

    def __init__(self, added: Words, removed: Words) -> None:
        self.added: Words = added
        self.removed: Words = removed


class Stratum(Protocol):
    """A stratum outside the kernel."""

    def run(self, below: Mapping[str, Changed]) -> Mapping[str, Changed]:
        """The changes of its relations, for the changes of those it reads."""

    def keep(self) -> None:
        """The epoch was committed."""

    def undo(self) -> None:
        """The epoch was rolled back: be as before `run`."""


@runtime_checkable
class Checked(Protocol):
    """A stratum with state of its own that can be checked."""

    def check_invariants(self) -> None:
        """Raise InternalError where the state breaks its contract."""


@runtime_checkable
class Choosing(Protocol):
    """A stratum whose rows depend on the order of edits."""

    def prefer(self, rows: Callable[[str], Iterable[Row]]) -> None:
        """Let the next run choose these rows of its relations, where it may."""

    def shown(self, relation: str, codes: Words) -> list[Row]:
        """The rows behind codes (n, arity) of one of its relations."""


class Bounds:
    """The bounds of the running epoch, for strata that may run long."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._began = 0.0
        self._budget = Budget()
        self._may_grow = False

    def begin(self, began: float, budget: Budget, *, may_grow: bool) -> None:
        """An epoch that began at `began` (`time.perf_counter`) comes to an outside stratum."""
        self._began = began
        self._budget = budget
        self._may_grow = may_grow

    def check(self, taken: int) -> None:
        """Raise BudgetError or CancelledError; `taken` facts were made true by the stratum."""
        cells, budget = self._arena.cells, self._budget
        if cells[at.CANCEL]:
            raise CancelledError("cancelled; rolled back")
        if budget.max_rows is not None and cells[at.C_CREATED] + taken > budget.max_rows:
            message = f"the epoch derived more than max_rows={budget.max_rows} new rows"
        elif budget.max_rounds is not None and cells[at.C_TAKEN] + taken > budget.max_rounds:
            message = f"the epoch took up more than max_rounds={budget.max_rounds} facts"
        elif budget.timeout is not None and time.perf_counter() - self._began > budget.timeout:
            message = f"the epoch took longer than timeout={budget.timeout} s"
        elif self._may_grow and budget.max_recursion and taken > budget.max_recursion:
            raise grew(budget)
        else:
            return
        raise BudgetError(f"{message}; rolled back")


class Strata:
    """The outside strata of a database, by number; those that ran in the epoch.

    Attributes:
        bounds: of the running epoch; strata look at them.
        ran: those that computed something in the epoch, in their order.
        cold: strata that have not computed their state from the kernel's rows yet.
        fresh: numbers of strata that replace earlier rules in this epoch.
    """

    def __init__(
        self,
        arena: Arena,
        linked: Linked,
        strata: Mapping[int, Stratum],
        bounds: Bounds,
        *,
        cold: set[Stratum] | None = None,
        fresh: Collection[int] = (),
        reducers: Mapping[str, UserReducer] = MappingProxyType({}),
    ) -> None:
        self._arena = arena
        self.bounds = bounds
        self._linked = linked
        self._strata = strata
        self.ran: list[Stratum] = []
        self.cold: set[Stratum] = set() if cold is None else cold
        self.fresh = fresh
        self._reducers = reducers
        self._read: tuple[str, int | None, Changed] | None = None

    def run(self, began: float, budget: Budget) -> None:
        """Compute the stratum at which the kernel stopped, and enter its changes."""
        arena = self._arena
        number = int(arena.cells[at.S_STRATUM])
        if number in self._linked.folds:
            self._refuse(self._linked.folds[number])
        self._warm(number)
        self.bounds.begin(began, budget, may_grow=self._linked.plan.stages[number].may_grow)
        ids = self._linked.ids
        changes = self._replaced(number) if number in self.fresh else self._changed(number)
        for name, change in changes.items():
            for rows, holds in ((change.removed, 0), (change.added, 1)):
                if len(rows):
                    flat = np.ascontiguousarray(rows, dtype=np.int32).reshape(-1)
                    settle_rows(arena.words, arena.cells, flat, ids[name], len(rows), holds)

    def _refuse(self, fold: Fold) -> NoReturn:
        """Raise FunctorError: the total of the group at which the kernel stopped is too large."""
        from deltafix.engine.folds.accumulators import (  # noqa: PLC0415  for programs with one
            finished,
            reducer_of,
        )

        cells = self._arena.cells
        row = int(cells[int(cells[at.FOLDED]) + int(cells[at.S_ROW])]) & 0xFFFFFFFF
        _, total = total_of(self._arena, self._linked.groups(fold), row)
        types = next(
            relation.types
            for relation in self._linked.plan.relations
            if relation.name == fold.source
        )
        kind = "number" if fold.value is None else types[fold.value]
        reducer = reducer_of(fold, kind, self._reducers)
        value = (total,) if kind in OPTIONAL else total
        finished(fold.op, reducer, reducer.add(reducer.initial, value))
        message = f"{fold.op} is {total}, beyond the {fold.most} of its declaration; rolled back"
        raise FunctorError(message)

    def _changed(self, number: int) -> Mapping[str, Changed]:
        """What a stratum makes of the changes in the running epoch."""
        below = {name: self._below(name, None) for name in self._linked.outside[number].reads}
        stratum = self._strata[number]
        self.ran.append(stratum)
        return stratum.run(below)

    def _replaced(self, number: int) -> Mapping[str, Changed]:
        """What a stratum that has seen no rows yet makes of all, in place of all that hold.

        Rows that stay are among them: what held them up until now was not this stratum.
        """
        self.ran.append(self._strata[number])
        return {
            name: Changed(rows, codes_where(self._arena, self._linked.ids[name], at.NOW))
            for name, (rows, _) in self._from_nothing(number, at.NOW).items()
        }

    def _from_nothing(self, number: int, mask: int) -> dict[str, tuple[Words, Words]]:
        """The rows a new stratum makes of those below with these flags, and those that held."""
        arena, ids, stratum = self._arena, self._linked.ids, self._strata[number]
        held = {
            name: codes_where(arena, ids[name], at.WAS)
            for name in self._linked.plan.stages[number].relations
        }
        if isinstance(stratum, Choosing):
            stratum.prefer(lambda name: stratum.shown(name, held[name]))
        below = {name: self._below(name, mask) for name in self._linked.outside[number].reads}
        changes = stratum.run(below)
        return {
            name: (changes[name].added if name in changes else rows[:0], rows)
            for name, rows in held.items()
        }

    def _below(self, name: str, mask: int | None) -> Changed:
        """What an epoch changed in a lower relation, or its rows with these flags as if they came.

        It is kept for the next stratum: SQL asks for six aggregates of the same groups.
        """
        if self._read is None or self._read[:2] != (name, mask):
            arena, number = self._arena, self._linked.ids[name]
            if mask is None:
                changed = Changed(*changed_in_epoch(arena, number))
            else:
                rows = codes_where(arena, number, mask)
                changed = Changed(rows, rows[:0])
            self._read = name, mask, changed
        return self._read[2]

    def prefer(self, rows: Callable[[str], Iterable[Row]]) -> None:
        """Let the next epoch, a rebuild, choose these rows of each relation where it may."""
        for number, stratum in self._strata.items():
            if isinstance(stratum, Choosing):
                self._warm(number)
                stratum.prefer(rows)

    def check_invariants(self) -> None:
        """Check the strata that have state of their own. For tests; O(state)."""
        for number in self._strata:
            if isinstance(stratum := self.of(number), Checked):
                stratum.check_invariants()

    def taken_over(self, linked: Linked) -> Strata:
        """These strata under a plan with the same ones under the same numbers."""
        return Strata(
            self._arena, linked, self._strata, self.bounds, cold=self.cold, reducers=self._reducers
        )

    def held(self, number: int) -> Stratum:
        """The stratum of a number as it is, its state computed or not (`cold`)."""
        return self._strata[number]

    def of(self, number: int) -> Stratum:
        """The stratum of a number, to read its state between epochs."""
        self._warm(number)
        return self._strata[number]

    def cool(self) -> None:
        """The kernel's rows came from an image: each stratum computes its state when it is needed.

        It does so from the rows of the last committed epoch that it reads, as in a first epoch.
        """
        self.cold.update(self._strata.values())

    def _warm(self, number: int) -> None:
        """Let a stratum compute its state. Raises CancelledError, and InternalError for a bug."""
        arena, stratum = self._arena, self._strata[number]
        if stratum not in self.cold:
            return
        spent = arena.cells[at.C_DERIVATIONS : at.C_ABANDONED + 1].copy()
        self.bounds.begin(time.perf_counter(), Budget(), may_grow=False)
        try:
            for name, (computed, held) in self._from_nothing(number, at.WAS).items():
                if not np.array_equal(_ordered(computed), _ordered(held)):
                    raise InternalError(f"image: {name} differs from what its stratum computes")

            def kept() -> None:
                stratum.keep()
                self.cold.discard(stratum)

            whole(kept)
        except BaseException:
            if stratum in self.cold:
                stratum.undo()
            raise
        finally:
            arena.cells[at.C_DERIVATIONS : at.C_ABANDONED + 1] = spent
            self._read = None

    def keep(self) -> None:
        """The epoch was committed. An interrupt has it done again while `ran` is not empty."""
        self._read = None
        for stratum in self.ran:
            stratum.keep()
        self.ran.clear()

    def undo(self) -> None:
        """The epoch was rolled back."""
        for stratum in reversed(self.ran):
            stratum.undo()
        self.ran.clear()
        self._read = None


def _ordered(rows: Words) -> Words:
    """Rows of codes in one order."""
    ordered: Words = rows[np.lexsort(rows.T)] if rows.shape[1] else rows
    return ordered
