"""The state a question is about: the committed one, or the working one of an epoch on trial.

A trial runs an epoch and takes it back: what would hold if these rows came and went. Invariant:
a state is used under the writer's lock; after a trial the database is as before, and no epoch was
counted, logged or seen by readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from deltafix.errors import TransactionError
from deltafix.facts.schema import Row
from deltafix.kernel import layout as at
from deltafix.kernel.entries import lookup
from deltafix.provenance.nodes import Fact
from deltafix.provenance.search import Derivation, Found, Searcher, searcher_of

if TYPE_CHECKING:
    from deltafix.engine.database import Database

Edit = tuple[int, str, Row]
"""(sign, relation, row); sign is +1 or -1."""

_COUNTERS = slice(at.C_DERIVATIONS, at.C_ABANDONED + 1)
_trials = count()


@dataclass(frozen=True, slots=True)
class State:
    """A state of a database while its writer's lock is held.

    Attributes:
        db: the database.
        mask: the flags of rows that hold in it.
        stamp: what distinguishes it from every other state of the database.
    """

    db: Database
    mask: int
    stamp: object

    @property
    def searcher(self) -> Searcher:
        """The search over this database."""
        return searcher_of(self.db)

    def fact(self, relation: str, row: Row) -> Fact | None:
        """The fact, if it holds in this state. The row has been checked. O(1)."""
        instance = self.db.instance
        codes = []
        for kind, value in zip(self.searcher.types[relation], row, strict=True):
            code = instance.codes.known(kind, value)
            if code is None:
                return None
            codes.append(code)
        arena, number = instance.arena, instance.linked.ids[relation]
        key = np.array(codes, dtype=np.int32)
        row_index = lookup(arena.words, arena.cells, key, number, 0, self.mask)
        return None if row_index < 0 else (number << 32) | int(row_index)

    def smallest(self, fact: Fact, work: int, steps: int) -> Found | None:
        """See `Searcher.smallest`."""
        return self.searcher.smallest(fact, self.stamp, self.mask, work, steps)

    def derivations(self, fact: Fact, *, ranked: bool = False) -> list[Derivation]:
        """See `Searcher.derivations`."""
        return self.searcher.derivations(fact, self.stamp, self.mask, ranked=ranked)


@contextmanager
def committed(db: Database) -> Iterator[State]:
    """The state of the last committed epoch. Waits for a transaction of another thread."""
    if db.closed:
        raise TransactionError("the database is closed")
    db.settle()
    with db.writer:
        yield State(db, at.WAS, db.epoch)


@contextmanager
def trial(
    db: Database, edits: list[Edit], chosen: Callable[[str], Iterable[Row]] | None = None
) -> Iterator[State]:
    """The state that these edits of given rows would make. Costs their epoch, and takes it back.

    Edits that change nothing (a row given already, one that is not given) are skipped. `chosen`
    names the rows that choices within recursion are to fall on, where they may; without it they
    stay as they are, where they may.
    Raises what a commit raises: TransactionError if this thread has a transaction open, and
    BudgetError.
    """
    transaction = db.transaction(missing="ignore")
    instance = db.instance
    cells = instance.arena.cells
    first = int(cells[at.RULE_COUNTS])
    rules = slice(first, first + instance.linked.rule_counts)
    # The report of the last epoch is read from counters that the trial's epoch counts on.
    counters, counts = cells[_COUNTERS].copy(), cells[rules].copy()
    listed, changed = int(cells[at.DELTA + 1]), int(cells[at.N_CHANGED])
    try:
        grouped: dict[tuple[int, str], list[Row]] = {}
        for sign, relation, row in edits:
            grouped.setdefault((sign, relation), []).append(row)
        for (sign, relation), rows in sorted(grouped.items()):
            (transaction.insert if sign > 0 else transaction.delete)(relation, rows)
        if chosen is not None:
            instance.strata.prefer(chosen)
        instance.run.epoch(db.budget)
        yield State(db, at.NOW, ("trial", next(_trials)))
    finally:
        transaction.rollback()
        if chosen is not None:  # a stratum that did not run would still wish for them
            instance.strata.prefer(lambda _: ())
        cells[_COUNTERS], cells[rules] = counters, counts
        cells[at.DELTA + 1], cells[at.N_CHANGED] = listed, changed
