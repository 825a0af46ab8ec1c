"""A plain relation of the stratum: a row is live while a well-founded derivation holds it up.

Rows gain and lose derivations one at a time (`gain`, `lose`); what may follow waits in the epoch
and is decided by `fall` (a suspect: does it still hold?) and `rise` (a candidate: may it become
live?). Invariant, between epochs: a fact is live iff its support is at least one, `support` counts
the derivations whose body facts have lower ranks, and `total` counts all that hold.
Other kinds of relation change what is live or seen, and inherit the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Change, Fact, Facts
from deltafix.errors import InternalError
from deltafix.facts.schema import Row, show_row


class Rows:
    """The facts of one relation, and the variants that its facts start.

    Attributes:
        ups: variants to run when a fact has become live.
        downs: variants to run before a fact stops being live.
        given: the rows that are given, derived or not.
    """

    def __init__(self, name: str, epoch: Epoch) -> None:
        self.name = name
        self.epoch = epoch
        self.facts = Facts()
        self.ups: list[Callable[[Row, int], None]] = []
        self.downs: list[Callable[[Row, int], None]] = []
        self.given: dict[Row, None] = {}

    def gain(self, row: Row, rank: int) -> None:
        """A derivation of `row` began to hold; `rank` is the highest rank in its body."""
        fact = self._count(row)
        fact.total += 1
        if fact.rank:
            if rank < fact.rank:
                fact.support += 1
        elif fact.total == 1:
            self.epoch.ready.append(fact)

    def lose(self, row: Row, rank: int) -> None:
        """A derivation of `row` stopped holding."""
        fact = self._count(row)
        fact.total -= 1
        if fact.rank and rank < fact.rank:
            fact.support -= 1
            if fact.support == 0:
                self.epoch.suspects.append(fact)

    def fall(self, fact: Fact) -> None:
        """Take a suspect down if nothing well-founded holds it up."""
        if fact.rank and fact.support == 0:
            self._take_down(fact)
            self.epoch.ready.append(fact)

    def rise(self, fact: Fact) -> None:
        """Make a candidate live if it has a derivation."""
        if fact.rank == 0 and fact.total > 0:
            self.epoch.note(fact)
            fact.visible = True
            self._put_up(fact)

    def begin(self) -> None:
        """A run begins."""

    def reconsider(self, *, reordered: bool) -> None:
        """Before retraction: take back what this run should decide anew."""

    def settle(self) -> None:
        """Between retraction and derivation: choose what takes the place of what was lost."""

    def holds(self, fact: Fact) -> bool:
        """Whether a live fact is held up by what is below it."""
        return bool(fact.support)

    def drop(self, fact: Fact) -> None:
        """Take a live fact that nobody sees down, unless some other rests on it alone.

        Facts above it have been looked at before, so what rests on it is there to stay.
        """
        suspects = self.epoch.suspects
        for start in self.downs:
            start(fact.row, fact.rank)
        needed = any(suspect.rank and not suspect.home.holds(suspect) for suspect in suspects)
        suspects.clear()
        if needed:
            for start in self.ups:
                start(fact.row, fact.rank)
            return
        self.epoch.note(fact)
        self.facts.discard(fact)
        fact.rank = fact.support = 0

    def change(self, before: dict[Fact, bool]) -> Change | None:
        """The net change of what readers see, given what they saw of the touched facts."""
        added = [fact.row for fact, seen in before.items() if fact.visible and not seen]
        removed = [fact.row for fact, seen in before.items() if seen and not fact.visible]
        return Change(added, removed) if added or removed else None

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back as it was: total, support, rank, visible, by."""
        self.facts.discard(fact)
        fact.total, fact.support, fact.rank, fact.visible, fact.by = saved
        if fact.rank:
            self.facts.add(fact)

    def forget(self, fact: Fact) -> None:
        """Drop the record of a row that is neither live nor proposed."""
        if fact.rank == 0 and fact.total == 0:
            self.facts.by_row.pop(fact.row, None)

    def ungive(self, row: Row) -> None:
        """Undo of a given row."""
        self.given.pop(row, None)

    def check(self, derived: dict[Row, list[int]]) -> None:
        """Raise InternalError unless the invariants hold. `derived`: body ranks of derivations."""
        known = self.facts.by_row
        self.require(set(derived) <= set(known), "a derived row has no record", ())
        for row, fact in known.items():
            ranks = derived.get(row, [])
            self.require(fact.total == len(ranks), f"total is not {len(ranks)}", fact)
            self.require(
                (fact in self.facts.members) == (fact.rank > 0), "live is not ranked", fact
            )
            self.check_fact(fact, ranks)
        for columns, index in self.facts.indexes.items():
            held = {fact: None for bucket in index.buckets.values() for fact in bucket}
            self.require(held.keys() == self.facts.members.keys(), f"index {columns} differs", ())

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """The part of `check` about one fact."""
        below = sum(rank < fact.rank for rank in ranks)
        self.require(fact.support == below, f"support is not {below}", fact)
        self.require(fact.rank > 0 and below > 0, "is not held up", fact)
        self.require(fact.visible, "is live and not seen", fact)

    def require(self, holds: bool, message: str, about: Fact | tuple[()]) -> None:
        """Raise InternalError unless `holds`."""
        if not holds:
            where = show_row(self.name, about.row) if isinstance(about, Fact) else self.name
            raise InternalError(f"beyond: {where}: {message}: {about!r}")

    def _count(self, row: Row) -> Fact:
        """The record of a row, made if new, noted, with one more derivation on the bill."""
        epoch = self.epoch
        epoch.work.derivations += 1
        fact = self.facts.by_row.get(row)
        if fact is None:
            return self._new(row)
        if fact.stamp != epoch.number:
            epoch.note(fact)
        return fact

    def _new(self, row: Row) -> Fact:
        """A record for a row that has none; noted before it is entered, for undo."""
        fact = Fact(self, row)
        self.epoch.note(fact)
        self.facts.by_row[row] = fact
        return fact

    def _put_up(self, fact: Fact) -> None:
        """Make a fact live, supported by all the derivations it has."""
        self.epoch.note(fact)
        fact.rank = self.epoch.rank()
        self.epoch.work.taken += 1
        fact.support = self._supports(fact)
        self.facts.add(fact)
        for start in self.ups:
            start(fact.row, fact.rank)

    def _supports(self, fact: Fact) -> Any:
        """What holds a fact up that becomes live, after all the rest: each derivation it has."""
        return fact.total

    def _take_down(self, fact: Fact) -> None:
        """Make a fact not live: what it derives is lost first, at the ranks it was counted at."""
        self.epoch.note(fact)
        self.epoch.work.retracted += 1
        for start in self.downs:
            start(fact.row, fact.rank)
        self.facts.discard(fact)
        fact.rank = fact.support = 0
        fact.visible = False
