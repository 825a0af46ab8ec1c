"""Ranks and supports of a level-1 fixpoint, and how they are repaired after a change.

One noun, `Ledger`, and the life of an element in it: it *stands* (has a rank and at least one
support), it is *suspended* (its supports at its rank are gone), and then it is *revived* at a
higher rank or *retracted*. Invariant between updates: an element is in `rank` iff
`support >= 1`, and `support` is the number of elements x with y in step(x) and
`rank[x] < rank[y]`, plus one if y is in the base. By induction on rank that is the least
fixpoint; a cycle cannot keep itself alive, because somewhere along it the rank does not rise.

Ranks come from a counter, not from BFS levels (which tie, and ties support nothing), with gaps,
so that a revived element can be put just above what revived it and its dependents keep theirs.
Repair is a wavefront in rank order: suspects of one rank are suspended before anything is revived
at it. An update writes through `put`, which logs the old entry, so that any error undoes it.

Source: Incremental fixpoint computation, section 3.2.2, with its re-derivation corrected: it
restarts ranks at 0, which lets an unreachable cycle stay (the counter-example is a test).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

from deltafix.errors import BudgetError
from deltafix.fixpoint.view import FixpointReport

_MISSING = object()


class Journal:
    """A log of writes to any number of dictionaries."""

    __slots__ = ("_log", "_logs")

    def __init__(self) -> None:
        self._log: list[tuple[dict[Any, Any], Any, Any]] = []
        self._logs = True

    def begin(self, *, undoable: bool = True) -> None:
        """Start an update, forgetting the last one.

        Args:
            undoable: Keep a log; a first build needs none, and its log would outweigh the tables.
        """
        self._log.clear()
        self._logs = undoable

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """`table[key] = value`, undone by `undo`."""
        if self._logs:
            self._log.append((table, key, table.get(key, _MISSING)))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        """`table.pop(key, None)`, undone by `undo`."""
        old = table.pop(key, _MISSING)
        if self._logs:
            self._log.append((table, key, old))

    def undo(self) -> None:
        """Put every entry back that this update changed; O(writes)."""
        for table, key, old in reversed(self._log):
            if old is _MISSING:
                table.pop(key, None)
            else:
                table[key] = old
        self._log.clear()


A = TypeVar("A", bound=Hashable)

# Room between two counter ranks. Python's integers do not overflow, so a chain of revivals longer
# than the gap costs precision (a tie or an inversion is one more suspect later), never correctness.
_GAP = 1 << 20
_SUSPECT, _REVIVE = 0, 1  # order at equal rank


class Ledger(Journal, Generic[A]):
    """Ranks and supports of the elements that stand, under one update at a time.

    Args:
        forward: step(x), each element once.
        backward: Elements x with y in step(x); may name elements that do not stand.
        max_elements: Bound on the number of elements, or None.
    """

    __slots__ = (
        "_backward",
        "_forward",
        "_heap",
        "_max_elements",
        "_next_rank",
        "_order",
        "_waiting",
        "base",
        "joined",
        "rank",
        "report",
        "support",
        "suspended",
    )

    def __init__(
        self,
        forward: Callable[[A], tuple[A, ...]],
        backward: Callable[[A], Iterable[A]],
        max_elements: int | None,
    ) -> None:
        super().__init__()
        self._forward = forward
        self._backward = backward
        self._max_elements = max_elements
        self.rank: dict[A, int] = {}
        self.support: dict[A, int] = {}
        self.base: dict[A, None] = {}
        self._next_rank = 0
        self.begin()

    # --- one update ---------------------------------------------------------------------------

    def begin(self, *, undoable: bool = True) -> None:
        """Start an update: forget the log and the scratch state of the last one."""
        super().begin(undoable=undoable)
        self._heap: list[tuple[int, int, int, A, A | None]] = []
        self._order = count()
        self._waiting: dict[A, list[tuple[int, int, A]]] = {}
        self.suspended: dict[A, None] = {}
        self.joined: list[A] = []
        self.report = FixpointReport()

    # --- supports -----------------------------------------------------------------------------

    def stands(self, element: A) -> bool:
        """Whether the element has a rank and is not suspended."""
        return element in self.rank and element not in self.suspended

    def supports(self, x: A, y: A) -> bool:
        """Whether x, y stand and x is below y, so that the pair (x, y) is a support."""
        return self.stands(x) and self.stands(y) and self.rank[x] < self.rank[y]

    def gain(self, y: A) -> None:
        """One more support for y."""
        self.put(self.support, y, self.support[y] + 1)

    def lose(self, y: A) -> None:
        """One support of y less; at none left it becomes a suspect."""
        left = self.support[y] - 1
        self.put(self.support, y, left)
        if left == 0:
            self._push(self.rank[y], _SUSPECT, y, None)

    # --- contraction --------------------------------------------------------------------------

    def repair(self) -> None:
        """Settle all suspects in rank order; what is suspended afterwards is retracted."""
        while self._heap:
            at, kind, _, y, x = heappop(self._heap)
            if kind == _SUSPECT:
                if self.stands(y) and self.support[y] == 0:
                    self._suspend(y)
            elif y in self.suspended and x is not None:
                if self.stands(x) and self.rank[x] == at:
                    self._revive(y, at + 1)
                else:
                    self._await_next(y)
        for y in self.suspended:
            self.drop(self.rank, y)
            self.drop(self.support, y)

    def _suspend(self, y: A) -> None:
        self.suspended[y] = None
        self.report.retracted += 1
        at = self.rank[y]
        for z in self._forward(y):
            self.report.derivations += 1
            if self.stands(z) and at < self.rank[z]:
                self.lose(z)
        # Nothing below y stands and derives it, or it would have a support; so all others come
        # later, and the wavefront will meet them lowest first.
        others = []
        for x in self._backward(y):
            self.report.derivations += 1
            if self.stands(x):
                others.append((self.rank[x], next(self._order), x))
        others.sort(reverse=True)
        self._waiting[y] = others
        self._await_next(y)

    def _await_next(self, y: A) -> None:
        """Let y wait for the lowest other element that derives it and stands as it did."""
        others = self._waiting[y]
        while others:
            at, _, x = others.pop()
            if self.stands(x) and self.rank[x] == at:
                self._push(at, _REVIVE, y, x)
                return

    def _revive(self, y: A, rank: int) -> None:
        del self.suspended[y]
        self.report.revived += 1
        self.report.reranked += 1
        self.put(self.rank, y, rank)
        below = 0
        for x in self._backward(y):
            self.report.derivations += 1
            below += self.stands(x) and self.rank[x] < rank
        self.put(self.support, y, below + (y in self.base))
        for z in self._forward(y):
            self.report.derivations += 1
            if z in self.suspended:
                self._push(rank, _REVIVE, z, y)
            elif self.supports(y, z):
                self.gain(z)

    # --- expansion ----------------------------------------------------------------------------

    def derive(self, x: A, y: A) -> None:
        """Count the new pair (x, y) of a standing x: a support, or a new element."""
        self.report.derivations += 1
        if y not in self.rank:
            self.join(y)
        elif self.rank[x] < self.rank[y]:
            self.gain(y)

    def join(self, y: A) -> None:
        """Give y the next rank, with one support, and queue it for `expand`."""
        if self._max_elements is not None and len(self.rank) >= self._max_elements:
            raise BudgetError(
                f"the fixpoint would grow beyond max_elements={self._max_elements}; raise the "
                "bound, or check that step is meant to reach so far"
            )
        self._next_rank += _GAP
        self.put(self.rank, y, self._next_rank)
        self.put(self.support, y, 1)
        self.joined.append(y)

    def expand(self) -> None:
        """Derive everything from the elements that joined, and from those that join thereby."""
        for x in self.joined:  # grows while it is walked: a queue
            for y in self._forward(x):
                self.derive(x, y)

    def _push(self, at: int, kind: int, y: A, x: A | None) -> None:
        heappush(self._heap, (at, kind, next(self._order), y, x))
