"""One stratum beyond plain recursion, kept up to date: the order in which a run does its work.

1. Changes below and of given rows are taken in one row at a time: derivations are counted and
   uncounted while the stratum's own facts stand still, so an insert can save what a delete hits.
2. Facts that lost what held them up are taken down, and all that rested on them alone.
3. What lost its place to nothing else is chosen anew (`settle`), and candidates become live.
4. Facts that something better has passed are dropped, unless others rest on them alone.

Every fact that stays has a derivation from facts of lower rank (given rows and lower relations
have rank 0), so nothing holds itself up; and nothing that is proposed is left undecided.
Invariant: between runs `check_invariants` holds; `undo` restores every record as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from deltafix.collector import held_back
from deltafix.engine.beyond.best import BestRows
from deltafix.engine.beyond.blocked import ChosenRows, UndominatedRows
from deltafix.engine.beyond.checks import Meaning, intrinsic
from deltafix.engine.beyond.endless import require_end
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Change, Fact, Work
from deltafix.engine.beyond.falling import FallingRows
from deltafix.engine.beyond.joined import JoinedRows
from deltafix.engine.beyond.rows import Rows
from deltafix.engine.beyond.wiring import Lower, Wiring, derivations
from deltafix.errors import InternalError
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType
from deltafix.plan.clause import Absent, Choice, Lattice, Match, Merge, Relation, Subsumption
from deltafix.plan.depend import Layer

_NONE: Mapping[str, Change] = MappingProxyType({})


class Stratum:
    """The executor of one `Layer` that is not plain. `run`, then `keep` or `undo`, and so on.

    Args:
        layer: the stratum; `plan.depend` has refused what has no meaning.
        relations: of the program; for the types of columns.
        meaning: what functors are on values, also the joins of lattices.
        watch: called with the work so far every few hundred facts; may raise to stop the run.

    Attributes:
        reads: relations of lower strata whose changes it needs.
        writes: the relations of the stratum.
        started: whether it has run.
    """

    def __init__(
        self,
        layer: Layer,
        relations: Sequence[Relation],
        meaning: Meaning = intrinsic,
        watch: Callable[[Work], None] | None = None,
    ) -> None:
        types = {relation.name: relation.types for relation in relations}
        self._shifts = {relation.name for relation in relations if relation.shifts}
        self._widths = {name: len(columns) for name, columns in types.items()}
        self._epoch = Epoch(watch)
        self._relations = self._kinds(layer, types, meaning)
        orders = {
            name: merge.orders for name, merge in layer.merges if isinstance(merge, Subsumption)
        }
        bodies = [clause.body for clause in layer.clauses]
        order_bodies = [order.body for listed in orders.values() for order in listed]
        self.reads = lower_relations([*bodies, *order_bodies], self._relations)
        self.writes = layer.relations
        self._lower = {name: Lower() for name in self.reads}
        self._clauses = layer.clauses
        self._order_reads = frozenset(lower_relations(order_bodies, self._relations))
        self._wiring = Wiring(self._relations, self._lower, meaning)
        for clause in layer.clauses:
            self._wiring.clause(clause)
        for name, listed in orders.items():
            rows = self._relations[name]
            assert isinstance(rows, UndominatedRows)  # noqa: S101  made for this merge
            for order in listed:
                self._wiring.order(rows, order)
        self.started = False
        self._before: list[tuple[Callable[[Row], object], Row]] = []

    @property
    def work(self) -> Work:
        """The cost of the last run."""
        return self._epoch.work

    def run(
        self, below: Mapping[str, Change] = _NONE, given: Mapping[str, Change] = _NONE
    ) -> dict[str, Change]:
        """Bring the stratum up to date. O(work), as `work` counts it.

        The first run also derives what needs nothing below.

        Args:
            below: net changes of `reads`; a relation without change may be missing.
            given: net changes of the rows given to relations of `writes`.

        Returns:
            The net changes of `writes`, relations without change left out. An exception leaves
            the stratum to `undo`.
        """
        with held_back():  # records that stay, no cycles: collecting doubled the time of bulk runs
            return self._run(below, given)

    def _run(self, below: Mapping[str, Change], given: Mapping[str, Change]) -> dict[str, Change]:
        epoch = self._epoch
        epoch.begin()
        for rows in self._relations.values():
            rows.begin()
        if not self.started:
            self._before.append((self._unstart, ()))
            self.started = True
            for start in self._wiring.constants:
                start((), 0)
        for name, change in below.items():
            self._take_in(name, change)
        for name, change in given.items():
            self._give(name, change)
        reordered = any(name in self._order_reads and any(below[name]) for name in below)
        self._retract(reordered=reordered)
        self._derive()
        epoch.look()
        return self._finish()

    def keep(self) -> None:
        """The epoch was committed: forget how it was before."""
        for saved in self._epoch.log:
            saved[0].home.forget(saved[0])
        self._epoch.end()
        self._before = []

    def undo(self) -> None:
        """The epoch was rolled back: put every record, row and rank back."""
        epoch = self._epoch
        epoch.drop()
        for fact, *saved in reversed(epoch.log):
            fact.home.restore(fact, tuple(saved))
            fact.home.forget(fact)
        for back, row in reversed(self._before):
            back(row)
        epoch.end()
        self._before = []

    def rows(self, relation: str) -> list[Row]:
        """The rows that readers of a relation of the stratum see, in no order."""
        return [f.row for f in self._relations[relation].facts.by_row.values() if f.visible]

    def lower(self, relation: str, below: Mapping[str, Change]) -> list[Row]:
        """The rows of a lower relation once these changes are in."""
        rows = dict.fromkeys(self._lower[relation].members)
        if relation in below:
            for row in below[relation].removed:
                del rows[row]
            rows.update(dict.fromkeys(below[relation].added))
        return [*rows]

    def facts(self, relation: str) -> Mapping[Row, Fact]:
        """The records of a relation of the stratum, live or not, seen or not. To read only."""
        return self._relations[relation].facts.by_row

    def prefer(self, rows: Callable[[str], Iterable[Row]]) -> None:
        """Let the next run choose these rows of choice relations, where it may."""
        for name, relation in self._relations.items():
            if isinstance(relation, ChosenRows):
                relation.prefer(rows(name))

    def check_invariants(self) -> None:
        """Recompute all derivations and compare. Raises InternalError. O(state), for tests."""
        epoch = self._epoch
        waits = (epoch.suspects, epoch.ready, epoch.best, epoch.choices, epoch.passed)
        if any(waits):
            raise InternalError("beyond: something still waits between epochs")
        derived = self._derived()
        for name, rows in self._relations.items():
            rows.check(derived[name])

    def _kinds(
        self, layer: Layer, types: Mapping[str, tuple[BaseType, ...]], meaning: Meaning
    ) -> dict[str, Rows]:
        """The relations of the stratum."""
        merges = dict(layer.merges)
        return {
            name: FallingRows(name, self._epoch)
            if name in layer.falling
            else BestRows(name, self._epoch, types[name], merge.columns[0], shifts=True)
            if isinstance(merge := merges.get(name), Lattice) and name in self._shifts
            else rows_of(name, self._epoch, types[name], merge, meaning)
            for name in layer.relations
        }

    def _derived(self) -> dict[str, dict[Row, list[int]]]:
        """All derivations as they stand: by row, the ranks of their bodies."""
        derived: dict[str, dict[Row, list[int]]] = {name: {} for name in self._relations}
        for name, rows in self._relations.items():
            base = -1 if isinstance(rows, FallingRows) else 0
            for row in rows.given:
                derived[name].setdefault(row, []).append(base)
        for clause in self._clauses if self.started else ():
            for row, rank in derivations(self._wiring, clause):
                derived[clause.head].setdefault(row, []).append(rank)
        return derived

    def _take_in(self, name: str, change: Change) -> None:
        """Take in the changes of a lower relation, row by row."""
        table = self._lower[name]
        look = self._epoch.look
        for row in change.removed:
            self._before.append((table.add, row))
            table.delete(row)
            if not len(self._before) & 1023:
                look()
        for row in change.added:
            self._before.append((table.discard, row))
            table.insert(row)
            if not len(self._before) & 1023:
                look()

    def _give(self, name: str, change: Change) -> None:
        rows = self._relations[name]
        for row in change.removed:
            self._before.append((rows.given.setdefault, row))
            del rows.given[row]
            rows.lose(row, 0)
        for row in change.added:
            self._before.append((rows.ungive, row))
            rows.given[row] = None
            rows.gain(row, 0)

    def _retract(self, *, reordered: bool) -> None:
        """Take suspects down; nothing rises meanwhile, so the order does not matter.

        `reordered`: what the orders of subsumption read has changed.
        """
        for rows in self._relations.values():
            rows.reconsider(reordered=reordered)
        suspects = self._epoch.suspects
        count = 0
        while suspects:
            fact = suspects.pop()
            fact.home.fall(fact)
            count += 1
            if not count & 255:
                self._epoch.look()
        for rows in self._relations.values():
            rows.settle()

    def _derive(self) -> None:
        """Let candidates rise until none is left, then drop what was passed."""
        epoch = self._epoch
        while True:
            while (fact := epoch.next_ready()) is not None:
                fact.home.rise(fact)
                if epoch.doubted is not None:
                    require_end(self._wiring, self._clauses, epoch.doubted)
                    epoch.doubted = None
            if not epoch.passed:
                return
            passed = sorted(set(epoch.passed), key=lambda fact: -fact.rank)
            epoch.passed.clear()
            for fact in passed:
                if fact.rank and not fact.visible:
                    fact.home.drop(fact)

    def _finish(self) -> dict[str, Change]:
        """The net changes, from the log."""
        before: dict[str, dict[Fact, bool]] = {name: {} for name in self._relations}
        work = self._epoch.work
        for fact, _, _, rank, visible, _ in self._epoch.log:
            before[fact.home.name][fact] = visible
            work.revived += bool(rank and fact.rank and rank != fact.rank)
        work.touched = len(self._epoch.log)
        changes = {name: self._relations[name].change(seen) for name, seen in before.items()}
        return {name: change for name, change in changes.items() if change is not None}

    def _unstart(self, _: Row) -> None:
        self.started = False


def lower_relations(
    bodies: Iterable[Iterable[object]], relations: Mapping[str, Rows]
) -> tuple[str, ...]:
    """The lower relations that bodies read, in order."""
    names = dict.fromkeys(
        literal.relation
        for body in bodies
        for literal in body
        if isinstance(literal, Match | Absent)
    )
    return tuple(name for name in names if name not in relations)


def rows_of(
    name: str,
    epoch: Epoch,
    types: tuple[BaseType, ...],
    merge: Merge | None,
    meaning: Meaning,
) -> Rows:
    """The kind of relation that a merge asks for."""
    if isinstance(merge, Choice):
        return ChosenRows(name, epoch, types, merge)
    if isinstance(merge, Subsumption):
        return UndominatedRows(name, epoch)
    if isinstance(merge, Lattice):
        if len(merge.columns) == 1 and merge.columns[0].join in ("min", "max"):
            return BestRows(name, epoch, types, merge.columns[0])
        return JoinedRows(name, epoch, types, merge, meaning)
    return Rows(name, epoch)
