"""A shard whose epoch derives everything: its engine keeps no account of what holds a row up.

A load begins with nothing derived and takes nothing away: a vote that has come stays, and a row
that has one holds. So of the local program (`localize`) only the rules run that find votes. What
decides what holds is a set of rows for each derived relation, and of the votes no more is looked at
than what they are for; they are kept as they came. Invariant: the steps, messages, ranks and
changes are those of a `Shard` that is given the same (tests/agree/test_shards_load.py holds them
side by side), and `given` is the journal from which that shard is made, when the first change
comes. Not here: who loads, and when (`rest`, `database`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from deltafix.engine.outside import Users
from deltafix.engine.transaction import Transaction
from deltafix.errors import InternalError
from deltafix.plan.normalize import Core
from deltafix.spark.shards.layout import Derived, Layout
from deltafix.spark.shards.shard import Shard
from deltafix.spark.shards.step import Entry
from deltafix.spark.wire import Batch, signed

_JUDGES = ("any", "has", "new", "sup", "lost")
"""The parts of a recursive relation that say which of its rows are to come and to go."""


class Load(Shard):
    """Shard `number` of `shards`, which begins with the entries of `begin` (`Shard.restart`)."""

    def __init__(
        self, layout: Layout, number: int, shards: int, users: Users, begin: Sequence[Entry]
    ) -> None:
        super().__init__(layout, number, shards, users)
        self._waiting = [*begin]
        self._sets = {_set_of(derived): derived for derived in layout.derived.values()}
        self._heads = {
            derived.part(role): derived
            for derived in layout.derived.values()
            for role in ("vote", "given")
        }
        self._votes_of: dict[str, list[pa.Table]] = {}
        self._fresh: dict[str, list[pa.Table]] = {}

    def core(self, layout: Layout) -> Core:
        """The rules that find votes."""
        judged = {derived.part(part) for derived in layout.derived.values() for part in _JUDGES}
        judged |= {_set_of(derived) for derived in layout.derived.values()}
        clauses = tuple(clause for clause in layout.core.clauses if clause.head not in judged)
        return replace(layout.core, clauses=clauses)

    def given(self) -> Iterator[Entry]:
        """All given rows of the local program, as a journal that makes the shard from nothing."""
        for entry in super().given():
            if entry.batch.name not in self._sets:
                yield entry
        for name, tables in self._votes_of.items():
            votes = pa.concat_tables(tables).combine_chunks()
            yield Entry("edit", Batch(name, signed(votes, self.layout.types[name], 1)))

    def _enter(self, tx: Transaction, name: str, gone: pa.Table, come: pa.Table) -> None:
        derived = self._heads.get(name)
        if derived is None or name == derived.part("given"):
            super()._enter(tx, name, gone, come)
        elif gone.num_rows:
            raise InternalError(f"{name}: a load was told to take votes back")
        else:
            self._votes_of.setdefault(name, []).append(come)
        if derived is not None:
            tx.insert(_set_of(derived), come.select(range(derived.arity)))

    def _changed(self, name: str, load: Callable[[], pa.Table]) -> None:
        derived = self._sets.get(name)
        if derived is None or not derived.ranked:
            super()._changed(name, load)
        else:
            self._fresh.setdefault(derived.relation, []).append(load().drop_columns(["sign"]))

    def _new(self, derived: Derived) -> pa.Table | None:
        tables = self._fresh.pop(derived.relation, None)
        return pa.concat_tables(tables) if tables else None

    def _to_move(self, derived: Derived) -> int:
        return sum(table.num_rows for table in self._fresh.get(derived.relation, ()))


def _set_of(derived: Derived) -> str:
    """The local relation that is the set of the rows that hold, without ranks."""
    return derived.part("any") if derived.ranked else derived.relation
