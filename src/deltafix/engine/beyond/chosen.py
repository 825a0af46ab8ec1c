"""A choice relation: at most one row for each value of each key, the first one derived.

A chosen row stays while it is held up, whatever else is derived; when it loses its support, the
least of the rows that it kept out takes its place. Candidates wait until nothing else is left to
do, and then take their turn by columns: a *round*. A row taken down that still has derivations
goes before the others. Invariant: the live rows respect every key, and no candidate could join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from deltafix.engine.beyond.blocked import BlockedRows
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType, row_order
from deltafix.plan.clause import Choice


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

    def reconsider(self) -> None:
        """In a run with preferences, take every other choice back first."""
        if not self.preferring:
            return
        self.preferring = False
        for fact in list(self.facts.live):
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
