"""Candidates that a live fact keeps out, and that get their turn when it goes.

What subsumption and choice share: a candidate that has derivations and may not be live *waits* at
the live fact that keeps it out (`Fact.by`). Invariant: every proposed fact is live or waits at a
live one.

Subsumption: a new row makes the live rows it dominates invisible; when all that follows is derived
they go too, unless something rests on one of them alone (then it stays live, unseen). The orders
must be transitive; where two rows dominate each other, the first one stays.

Choice: at most one row for each value of each key, the first one derived. A chosen row stays while
it is held up; when it goes, the least of the rows that it kept out takes its place. Candidates wait
until nothing else is left to do, and then take their turn by columns: a *round*. A row taken down
that still has derivations goes before the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.rows import Rows
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType, row_order
from deltafix.plan.clause import Choice


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
        self.matches: list[Row] = []

    def collect(self, row: Row, rank: int) -> None:
        """Where the variants of orders put what they find."""
        del rank
        self.matches.append(row)

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

    def reconsider(self, *, reordered: bool) -> None:
        """Compare all rows anew where they compare in other ways: no derivation says which do."""
        if reordered:
            for fact in list(self.facts.members):
                self.take_back(fact)

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
        self.matches.clear()
        for start in variants:
            start(fact.row, 0)
        by_row = self.facts.by_row
        rows = dict.fromkeys(row for row in self.matches if row != fact.row)
        self.matches.clear()
        return [other for row in rows if (other := by_row[row]).rank]


class ChosenRows(BlockedRows):
    """The rows of a relation with `choice-domain`."""

    def __init__(
        self, name: str, epoch: Epoch, types: tuple[BaseType, ...], choice: Choice
    ) -> None:
        super().__init__(name, epoch)
        self.order = row_order(types) or _itself
        self.keys: tuple[Callable[[Row], Any], ...] = tuple(
            itemgetter(*key) if key else _nothing for key in choice.keys
        )
        self.chosen: tuple[dict[Any, Fact], ...] = tuple({} for _ in choice.keys)
        self.former: dict[Row, None] = {}
        self.wished: dict[Row, None] = {}
        self.preferring = False

    def begin(self) -> None:
        """A run begins: no choice is taken back yet."""
        self.former, self.wished = self.wished, {}
        self.preferring = bool(self.former)

    def prefer(self, rows: Iterable[Row]) -> None:
        """Let the next run treat these rows as former choices, as a rebuild must."""
        self.wished = dict.fromkeys(rows)

    def reconsider(self, *, reordered: bool) -> None:
        """In a run with preferences, take every other choice back first."""
        del reordered
        if not self.preferring:
            return
        self.preferring = False
        for fact in list(self.facts.members):
            if fact.row not in self.former:
                self.take_back(fact)

    def queue(self, fact: Fact) -> None:
        """Wait for the next round; former choices have rounds of their own, before others."""
        self.epoch.choices.append((fact.row not in self.former, self.order(fact.row), fact))

    def fall(self, fact: Fact) -> None:
        """Take a choice back that lost its support; it is the first to try again."""
        if fact.rank and not fact.support:
            self.former[fact.row] = None
        super().fall(fact)

    def take_back(self, fact: Fact) -> None:
        """Take a choice back: its keys are free."""
        self._unchoose(fact)
        super().take_back(fact)

    def rise(self, fact: Fact) -> None:
        """Choose a row, unless a row chosen before has one of its keys."""
        if fact.rank or fact.total <= 0:
            return
        row = fact.row
        for key, chosen in zip(self.keys, self.chosen, strict=True):
            other = chosen.get(key(row))
            if other is not None:
                self.keep_out(fact, other)
                return
        self.free(fact)
        self.epoch.note(fact)
        fact.visible = True
        self._choose(fact)
        self._put_up(fact)

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back, and the choices it was."""
        self._unchoose(fact)
        super().restore(fact, saved)
        if fact.rank:
            self._choose(fact)

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """Live rows are the chosen ones; what waits shares a key with what it waits at."""
        super().check_fact(fact, ranks)
        for key, chosen in zip(self.keys, self.chosen, strict=True):
            mine = chosen.get(key(fact.row)) is fact
            self.require(mine == (fact.rank > 0), "is live and not chosen, or not", fact)
        if fact.by is not None:
            shared = any(key(fact.row) == key(fact.by.row) for key in self.keys)
            self.require(shared, f"waits at {fact.by}, which shares no key", fact)

    def _choose(self, fact: Fact) -> None:
        for key, chosen in zip(self.keys, self.chosen, strict=True):
            chosen[key(fact.row)] = fact

    def _unchoose(self, fact: Fact) -> None:
        for key, chosen in zip(self.keys, self.chosen, strict=True):
            value = key(fact.row)
            if chosen.get(value) is fact:
                del chosen[value]


def _itself(row: Row) -> Any:
    return row


def _nothing(_: Row) -> Any:
    return ()
