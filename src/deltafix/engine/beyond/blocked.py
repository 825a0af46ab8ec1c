"""Candidates that a live fact keeps out, and that get their turn when it goes.

What subsumption and choice share: a candidate that has derivations and may not be live *waits* at
the live fact that keeps it out (`Fact.by`). Invariant: every proposed fact is live or waits at a
live one.
"""

from __future__ import annotations

from typing import Any

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.rows import Rows
from deltafix.facts.schema import Row


class BlockedRows(Rows):
    """A relation some of whose derived rows are kept out by others."""

    def __init__(self, name: str, epoch: Epoch) -> None:
        super().__init__(name, epoch)
        self.waiting: dict[Fact, dict[Fact, None]] = {}

    def gain(self, row: Row, rank: int) -> None:
        """A derivation of `row` began to hold."""
        fact = self._count(row)
        fact.total += 1
        if fact.rank:
            if rank < fact.rank:
                fact.support += 1
        elif fact.by is None:
            self.queue(fact)

    def lose(self, row: Row, rank: int) -> None:
        """A derivation of `row` stopped holding."""
        super().lose(row, rank)
        fact = self.facts.by_row[row]
        if fact.total == 0 and fact.rank == 0:
            self.free(fact)

    def queue(self, fact: Fact) -> None:
        """Let a candidate try to become live."""
        self.epoch.ready.append(fact)

    def fall(self, fact: Fact) -> None:
        """Take down what lost its support, and let those in that it kept out."""
        if fact.rank and not fact.support:
            self.take_back(fact)

    def take_back(self, fact: Fact) -> None:
        """Take a live fact down; it and what it kept out may try again."""
        self._take_down(fact)
        self.free(fact)
        self.queue(fact)
        self.release(fact)

    def release(self, fact: Fact) -> None:
        """Let all that waits at a fact try again."""
        for waiting in list(self.waiting.get(fact, ())):
            self.free(waiting)
            self.queue(waiting)

    def keep_out(self, fact: Fact, by: Fact) -> None:
        """Let a fact wait at a live one."""
        self.free(fact)
        self.epoch.note(fact)
        fact.by = by
        self.waiting.setdefault(by, {})[fact] = None

    def free(self, fact: Fact) -> None:
        """Let a fact no longer wait."""
        if fact.by is not None:
            self.epoch.note(fact)
            self._unlist(fact)
            fact.by = None

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back, and where it waits."""
        self._unlist(fact)
        super().restore(fact, saved)
        if fact.by is not None:
            self.waiting.setdefault(fact.by, {})[fact] = None

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """A fact is held up, or waits at one that is live."""
        below = sum(rank < fact.rank for rank in ranks)
        self.require(fact.support == below, f"support is not {below}", fact)
        self.require(fact.rank == 0 or below > 0, "is not held up", fact)
        self.require(fact.visible == (fact.rank > 0 and fact.by is None), "is seen wrongly", fact)
        if fact.by is None:
            self.require(fact.rank > 0, "is proposed and neither live nor kept out", fact)
            return
        self.require(fact.by.rank > 0, f"waits at {fact.by}, which is not live", fact)
        self.require(fact in self.waiting[fact.by], "is not listed where it waits", fact)

    def _unlist(self, fact: Fact) -> None:
        if fact.by is not None:
            others = self.waiting.get(fact.by)
            if others is not None:
                others.pop(fact, None)
                if not others:
                    del self.waiting[fact.by]
