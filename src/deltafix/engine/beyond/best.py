"""A relation with one `min` or `max` column: per key, the best value proposed is the row.

Every proposed value of a key has a record; the best is live and seen. A better one takes its
place first, and only after all that follows is derived does the old one go, unless something
still rests on it alone (a value may follow from its key's own former value): it then stays live,
unseen. A lost best value is replaced by the best of what is still proposed, when everything that
rested on it is down. Candidates wait in the order of their values, so with costs that do not fall
along a path every key is settled once, as in Dijkstra's algorithm.
Invariant: the seen fact of a key is at least as good as all its proposals and live facts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.keyed import KeyedRows, leave
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType, float_order
from deltafix.plan.clause import LatticeColumn
from deltafix.rules.values import comparison

OFTEN = 16
"""So often the values of all keys get better, on the average, before somebody asks why: with the
best ones first a key is settled once, or a few times where some weights are below zero."""
SCAN = 16
"""Up to this many proposals the best is found by looking at each; beyond, in a heap."""


class BestRows(KeyedRows):
    """The rows of a relation with one lattice column, `min` or `max`."""

    def __init__(
        self,
        name: str,
        epoch: Epoch,
        types: tuple[BaseType, ...],
        column: LatticeColumn,
        *,
        shifts: bool = False,
    ) -> None:
        super().__init__(name, epoch)
        self.shifts = shifts
        self.improved, self.allowed = 0, OFTEN
        self.column = column.column
        rest = [c for c in range(len(types)) if c != column.column]
        self.key: Callable[[Row], Any] = itemgetter(*rest) if rest else lambda _: ()
        self.priority = _priority(types[column.column], column.join)
        self.beats = comparison(">" if column.join == "max" else "<", types[column.column])
        self.heaps: dict[Any, list[tuple[Any, int, Fact]]] = {}
        self.lost: dict[Any, None] = {}
        self.numeric = types[column.column] != "symbol"

    def begin(self) -> None:
        """A run begins."""
        self.improved, self.allowed = 0, OFTEN

    def better(self, fact: Fact, other: Fact) -> bool:
        """Whether `fact` has the better value."""
        return self.beats(fact.row[self.column], other.row[self.column])

    def gain(self, row: Row, rank: int) -> None:
        """A value is proposed for a key."""
        fact = self._count(row)
        fact.total += 1
        if fact.rank:
            if rank < fact.rank:
                fact.support += 1
            return
        key = self.key(row)
        if fact.total == 1:
            self._enter(key, fact)
        top = self.tops.get(key)
        if top is None or self.better(fact, top):
            self._wait(fact)

    def lose(self, row: Row, rank: int) -> None:
        """A proposal is withdrawn."""
        super().lose(row, rank)
        fact = self.facts.by_row[row]
        if fact.total == 0 and fact.rank == 0:
            self._leave(self.key(row), fact)

    def fall(self, fact: Fact) -> None:
        """Take a value down that lost its support; its key chooses again in `settle`."""
        if fact.rank == 0 or fact.support:
            return
        self._take_down(fact)
        key = self.key(fact.row)
        if fact.total == 0:
            self._leave(key, fact)
        if self.unshow(key, fact):
            self.lost[key] = None

    def settle(self) -> None:
        """For each key that lost its value, the best of what is still proposed or live."""
        for key in self.lost:
            best = self._best(key)
            if best is None:
                continue
            if best.rank:
                self.epoch.note(best)
                best.visible = True
                self.tops[key] = best
            else:
                self._wait(best)
        self.lost.clear()

    def rise(self, fact: Fact) -> None:
        """Take the key's place if the value is better than what is there."""
        if fact.rank or fact.total <= 0:
            return
        key = self.key(fact.row)
        top = self.tops.get(key)
        if top is None or self.better(fact, top):
            self.show(key, fact)
            self._put_up(fact)
            if self.shifts and top is not None:
                self._doubt(fact)

    def _doubt(self, fact: Fact) -> None:
        """Values got better so often that one may rest on a worse one of its own key."""
        self.improved += 1
        if self.improved > max(self.allowed, OFTEN * len(self.tops)):
            self.allowed = 2 * self.improved
            self.epoch.doubted = fact

    def drop(self, fact: Fact) -> None:
        """Let a passed value go, if nothing rests on it alone."""
        super().drop(fact)
        if fact.rank == 0 and fact.total == 0:
            self._leave(self.key(fact.row), fact)

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back, and its place among its key's."""
        super().restore(fact, saved)
        key = self.key(fact.row)
        if fact.total or fact.rank:
            self._enter(key, fact)
        else:
            self._leave(key, fact)
        self.restore_shown(key, fact)
        self.heaps.pop(key, None)
        self.lost.clear()

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """A live value is held up, the seen one is the best."""
        top = self.tops.get(self.key(fact.row))
        self.require(top is not None, "has no value at its key", fact)
        assert top is not None  # noqa: S101  just required
        self.require(fact.visible == (fact is top), "is seen and not chosen, or not", fact)
        self.require(not self.better(fact, top), "is better than the chosen one", fact)
        self.require(top.rank > 0, "is chosen and not live", top)
        below = sum(rank < fact.rank for rank in ranks)
        self.require(fact.support == below, f"support is not {below}", fact)
        self.require(fact.rank == 0 or below > 0, "is not held up", fact)
        self.require(fact in self.proposed[self.key(fact.row)], "is not listed", fact)

    def _wait(self, fact: Fact) -> None:
        if self.numeric:
            self.epoch.wait_by_value(self.priority(fact.row[self.column]), fact)
        else:
            self.epoch.ready.append(fact)

    def _enter(self, key: Any, fact: Fact) -> None:
        members = self.proposed.get(key)
        if members is None:
            self.proposed[key] = {fact: None}
            return
        members[fact] = None
        heap = self.heaps.get(key)
        if heap is not None:
            heapq.heappush(heap, self._entry(fact))

    def _leave(self, key: Any, fact: Fact) -> None:
        if leave(self.proposed, key, fact):
            self.heaps.pop(key, None)

    def _entry(self, fact: Fact) -> tuple[Any, int, Fact]:
        return (self.priority(fact.row[self.column]), id(fact), fact)

    def _best(self, key: Any) -> Fact | None:
        members = self.proposed.get(key)
        if members is None:
            return None
        if len(members) <= SCAN or not self.numeric:
            best = None
            for fact in members:
                if best is None or self.better(fact, best):
                    best = fact
            return best
        heap = self.heaps.get(key)
        if heap is None:
            heap = self.heaps[key] = [self._entry(fact) for fact in members]
            heapq.heapify(heap)
        while heap[0][2] not in members:
            heapq.heappop(heap)
        return heap[0][2]


def _priority(kind: BaseType, join: str) -> Callable[[Any], Any]:
    """What orders values best first: smaller is better."""
    if kind == "float":
        return (lambda x: -float_order(x)) if join == "max" else float_order
    return (lambda x: -x) if join == "max" else (lambda x: x)
