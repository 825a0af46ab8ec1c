"""A relation with subsumption: a row that another one dominates is dropped and derives nothing.

A candidate that a live row dominates waits there. A new row makes the live rows it dominates
invisible; when all that follows is derived they go too, unless something rests on one of them
alone (then it stays live, unseen). The orders must be transitive; where two rows dominate each
other, the first one stays. Invariant: no seen row dominates another, and what is not seen is
dominated by a live row.
"""

from __future__ import annotations

from collections.abc import Callable

from deltafix.engine.beyond.blocked import BlockedRows
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.facts.schema import Row


class UndominatedRows(BlockedRows):
    """The rows of a relation with subsumption.

    Attributes:
        above: variants from a row to the live rows that dominate it.
        below: variants from a row to the live rows that it dominates.
    """

    def __init__(self, name: str, epoch: Epoch) -> None:
        super().__init__(name, epoch)
        self.above: list[Callable[[Row, int], None]] = []
        self.below: list[Callable[[Row, int], None]] = []
        self.found: list[Row] = []

    def collect(self, row: Row, rank: int) -> None:
        """Where the variants of orders put what they find."""
        del rank
        self.found.append(row)

    def rise(self, fact: Fact) -> None:
        """Make a candidate live, or a live fact seen again, unless a live row dominates it."""
        if fact.visible or (fact.rank == 0 and fact.total <= 0):
            return
        others = self._search(self.above, fact)
        if others:
            self.keep_out(fact, next((f for f in others if f.visible), others[0]))
            return
        self.free(fact)
        self.epoch.note(fact)
        fact.visible = True
        if fact.rank:
            return
        passed = self._search(self.below, fact)
        for other in passed:
            self.epoch.note(other)
            other.visible = False
            self.keep_out(other, fact)
            self.epoch.passed.append(other)
        self._put_up(fact)

    def drop(self, fact: Fact) -> None:
        """Let a dominated row go; what waited at it waits at its dominator."""
        super().drop(fact)
        if fact.rank == 0:
            by = fact.by
            assert by is not None  # noqa: S101  it was passed
            for waiting in list(self.waiting.get(fact, ())):
                self.keep_out(waiting, by)
            if fact.total == 0:
                self.free(fact)

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """A seen row has no dominator, an unseen one has the one it waits at."""
        super().check_fact(fact, ranks)
        others = self._search(self.above, fact)
        self.require(bool(others) != fact.visible, f"is dominated by {others}", fact)

    def _search(self, variants: list[Callable[[Row, int], None]], fact: Fact) -> list[Fact]:
        self.found.clear()
        for start in variants:
            start(fact.row, 0)
        by_row = self.facts.by_row
        rows = dict.fromkeys(row for row in self.found if row != fact.row)
        self.found.clear()
        return [other for row in rows if (other := by_row[row]).rank]
