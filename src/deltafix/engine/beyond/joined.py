"""A relation with columns of a user lattice (or several columns): per key, the join of proposals.

The rows that clauses derive are *proposals*; the key's value is the join of all of them, a live
fact of its own, which need not equal any proposal. Its support is kept by proposal: how many
derivations of lower rank each has; the value holds while their join is still the value. As with
one best value, a passed value stays live, unseen, while something rests on it alone: in a loop
`x := x + 1` the joined value follows from the value it replaced.
Invariant: the seen value of a key is the join of its proposals. The lattice's join must be
associative, commutative and idempotent, and the rules monotone in it; neither is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from deltafix.engine.beyond.checks import Meaning
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.keyed import KeyedRows, leave
from deltafix.errors import FunctorError
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType
from deltafix.plan.clause import Lattice
from deltafix.rules.values import NO_VALUE


class JoinedRows(KeyedRows):
    """The rows of a relation with lattice columns."""

    def __init__(
        self,
        name: str,
        epoch: Epoch,
        types: tuple[BaseType, ...],
        lattice: Lattice,
        meaning: Meaning,
    ) -> None:
        super().__init__(name, epoch)
        self.columns = tuple(column.column for column in lattice.columns)
        self.keys = lattice.key(len(types))
        kinds = [types[column] for column in self.columns]
        self.joins = tuple(
            meaning(column.join, (kind, kind), kind)
            for column, kind in zip(lattice.columns, kinds, strict=True)
        )
        self.least = tuple(column.least for column in lattice.columns)
        self.has_least = any(least is not None for least in self.least)
        self.lives: dict[Any, dict[Fact, None]] = {}
        self.stale: dict[Any, None] = {}
        self.wanted: dict[Any, Row] = {}
        self.settled = False

    def key(self, row: Row) -> Row:
        """The key columns of a row."""
        return tuple(row[column] for column in self.keys)

    def value(self, row: Row) -> Row:
        """The lattice columns of a row."""
        return tuple(row[column] for column in self.columns)

    def join(self, rows: Iterable[Row], start: Row | None = None) -> Row | None:
        """The join of lattice values, column by column; None of nothing."""
        value = start
        for row in rows:
            if value is None:
                value = row
            elif value != row:
                pairs = zip(self.joins, value, row, strict=True)
                value = tuple(joined(x, y) for joined, x, y in pairs)
                values: tuple[object, ...] = value
                if NO_VALUE in values:
                    message = f"a lattice of {self.name} has no join of its values; rolled back"
                    raise FunctorError(message)
        return value

    def gain(self, row: Row, rank: int) -> None:
        """A value is proposed for a key; a row with a bottom in it proposes nothing."""
        if self.says_nothing(row):
            return
        fact = self._count(row)
        fact.total += 1
        key = self.key(row)
        if fact.total == 1:
            self.proposed.setdefault(key, {})[fact] = None
        for live in self.lives.get(key, ()):
            if rank < live.rank:
                self.epoch.note(live)
                live.support[fact] = live.support.get(fact, 0) + 1
        if not self.settled:
            self.stale[key] = None
            return
        top = self.tops.get(key)
        before = self.wanted.get(key) or (None if top is None else self.value(top.row))
        after = self.join([self.value(row)], before)
        if after is not None and after != before:
            self._want(key, after)

    def lose(self, row: Row, rank: int) -> None:
        """A proposal is withdrawn."""
        if self.says_nothing(row):
            return
        fact = self._count(row)
        fact.total -= 1
        key = self.key(row)
        if fact.total == 0:
            leave(self.proposed, key, fact)
        for live in self.lives.get(key, ()):
            if rank < live.rank:
                self.epoch.note(live)
                live.support[fact] -= 1
                if live.support[fact] == 0:
                    del live.support[fact]
                    self.epoch.suspects.append(live)

    def holds(self, fact: Fact) -> bool:
        """Whether the supporting proposals still join to the value, or to more."""
        if not fact.support:
            return False
        if fact in fact.support:
            return True
        value = self.value(fact.row)
        joined = self.join(self.value(proposal.row) for proposal in fact.support)
        return self.join([value], joined) == joined

    def fall(self, fact: Fact) -> None:
        """Take a value down that its proposals no longer join to."""
        if fact.rank == 0 or self.holds(fact):
            return
        key = self.key(fact.row)
        self._take_down(fact)
        leave(self.lives, key, fact)
        self.unshow(key, fact)
        self.stale[key] = None

    def settle(self) -> None:
        """Join anew where proposals came before or values were lost."""
        self.settled = True
        for key in self.stale:
            after = self.join(self.value(fact.row) for fact in self.proposed.get(key, ()))
            top = self.tops.get(key)
            if after is not None and (top is None or after != self.value(top.row)):
                self._want(key, after)
        self.stale.clear()

    def rise(self, fact: Fact) -> None:
        """Give a key the joined value it waits for."""
        key = self.key(fact.row)
        if self.wanted.get(key) != self.value(fact.row):
            return
        del self.wanted[key]
        self.show(key, fact)
        if fact.rank == 0:
            self.lives.setdefault(key, {})[fact] = None
            self._put_up(fact)

    def drop(self, fact: Fact) -> None:
        """Let a passed value go, if nothing rests on it alone."""
        super().drop(fact)
        if fact.rank == 0:
            leave(self.lives, self.key(fact.row), fact)

    def begin(self) -> None:
        """A new run: proposals wait until `settle`."""
        self.settled = False

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back, and its places among its key's."""
        super().restore(fact, saved)
        key = self.key(fact.row)
        if fact.total:
            self.proposed.setdefault(key, {})[fact] = None
        else:
            leave(self.proposed, key, fact)
        if fact.rank:
            self.lives.setdefault(key, {})[fact] = None
        else:
            leave(self.lives, key, fact)
        self.restore_shown(key, fact)
        self.stale.clear()
        self.wanted.clear()

    def says_nothing(self, row: Row) -> bool:
        """Whether some lattice column of a row has its bottom."""
        return self.has_least and any(
            least is not None and least == row[column]
            for column, least in zip(self.columns, self.least, strict=True)
        )

    def check(self, derived: dict[Row, list[int]]) -> None:
        """As for plain rows, for the rows that say something."""
        super().check({r: ranks for r, ranks in derived.items() if not self.says_nothing(r)})

    def check_fact(self, fact: Fact, ranks: list[int]) -> None:
        """A live value is the join of what supports it; the seen one of all proposals."""
        key = self.key(fact.row)
        self.require((fact in self.proposed.get(key, ())) == (fact.total > 0), "misplaced", fact)
        self.require((fact in self.lives.get(key, ())) == (fact.rank > 0), "misplaced", fact)
        self.require(fact.visible == (self.tops.get(key) is fact), "is seen wrongly", fact)
        if fact.rank:
            self.require(self.holds(fact), "is not the join of its support", fact)
        if fact.visible:
            value = self.join(self.value(proposal.row) for proposal in self.proposed.get(key, ()))
            self.require(value == self.value(fact.row), f"is not the join {value}", fact)
        for live in self.lives.get(key, ()):
            below = sum(rank < live.rank for rank in ranks)
            self.require(live.support.get(fact, 0) == below, f"support is not {below}", live)

    def _supports(self, fact: Fact) -> Any:
        return {proposal: proposal.total for proposal in self.proposed[self.key(fact.row)]}

    def _want(self, key: Row, value: Row) -> None:
        self.wanted[key] = value
        row = self._row(key, value)
        fact = self.facts.by_row.get(row)
        self.epoch.ready.append(self._new(row) if fact is None else fact)

    def _row(self, key: Sequence[Any], value: Sequence[Any]) -> Row:
        placed = dict(zip((*self.keys, *self.columns), (*key, *value), strict=True))
        return tuple(placed[column] for column in range(len(placed)))
