"""A falling relation: one that is read under negation only, and shrinks while the others grow.

Its clauses read the stratum's rising relations under negation. An *instance* is a way to satisfy
the rest of a clause's body, which lower relations decide; it is open while none of its negated
rows is live, and refuted otherwise. A row is in the relation while some instance is open. What
the stratum reads is the absence of the row; that is a fact with a rank, and it must not rest on
itself: every instance needs a refuting row of lower rank than the absence.
`total` counts open instances, `visible` says that the row is in, `rank` is the absence's while it
is not (0: no instance was ever refuted), and `support` is 1 while the absence is in doubt.

The counts of missing witnesses are those of "Fixing incremental computation", section 6:
`treeP(x)` derives when no child is left that is not in `treeP`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.join import Frame, Next
from deltafix.engine.beyond.rows import Rows
from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Clause
from deltafix.plan.derive import is_before


class FallingRows(Rows):
    """The rows of a falling relation; `ups` run when a row leaves, `downs` before it enters."""

    def opened(self, row: Row, lowest: int | None) -> None:
        """An instance of `row` appeared or lost a refuter; `lowest` rank of those left, or None."""
        fact = self._count(row)
        if lowest is None:
            fact.total += 1
            if not fact.visible:
                self.epoch.suspects.append(fact)
        elif not fact.visible and lowest >= fact.rank:
            fact.support = 1
            self.epoch.suspects.append(fact)

    def closed(self, row: Row, lowest: int | None) -> None:
        """An instance of `row` went away or found a refuter; it was open if `lowest` is None."""
        if lowest is None:
            fact = self._count(row)
            fact.total -= 1
            if fact.total == 0 and fact.visible:
                self.epoch.ready.append(fact)

    def gain(self, row: Row, rank: int) -> None:
        """A given row: an instance without a refuter."""
        del rank
        self.opened(row, None)

    def lose(self, row: Row, rank: int) -> None:
        """A row given no longer."""
        del rank
        self.closed(row, None)

    def fall(self, fact: Fact) -> None:
        """The absence no longer holds, or rests on what is above it: the row enters."""
        if fact.visible or not (fact.total or fact.support):
            return
        self.epoch.note(fact)
        self.epoch.work.retracted += 1
        for start in self.downs:
            start(fact.row, fact.rank)
        fact.rank = fact.support = 0
        fact.visible = True
        if fact.total == 0:
            self.epoch.ready.append(fact)

    def rise(self, fact: Fact) -> None:
        """No instance is open: the row leaves, its absence has a rank above all refuters."""
        if fact.visible and fact.total == 0:
            self.epoch.note(fact)
            fact.visible = False
            fact.rank = self.epoch.rank()
            for start in self.ups:
                start(fact.row, fact.rank)

    def restore(self, fact: Fact, saved: tuple[Any, ...]) -> None:
        """Put a record back as it was."""
        fact.total, fact.support, fact.rank, fact.visible, fact.by = saved

    def forget(self, fact: Fact) -> None:
        """Drop a record without instance; an absence that was ranked keeps its rank."""
        if not fact.visible:
            super().forget(fact)

    def check(self, derived: dict[Row, list[int]]) -> None:
        """`derived`: per row, for each instance the lowest rank that refutes it, -1 if none."""
        self.require(derived.keys() <= self.facts.by_row.keys(), "an unknown instance", ())
        for row, fact in self.facts.by_row.items():
            lowest = derived.get(row, [])
            count = lowest.count(-1)
            self.require(fact.total == count, f"{count} instances are open", fact)
            self.require(fact.visible == (count > 0), "is in though refuted, or out", fact)
            if not fact.visible:
                founded = all(rank < fact.rank for rank in lowest)
                self.require(founded, "is absent by what rests on its absence", fact)


def refuted_by(
    clause: Clause,
    trigger: int | None,
    relations: dict[str, Rows],
    sink: Callable[[Row, int | None], None],
) -> tuple[Callable[[Frame], Next], frozenset[int]]:
    """The end of a falling clause's variants, and the literals that it looks at itself.

    The end hands `sink` the head and the lowest rank of the live rows that refute the instance.
    The trigger's own row is no refuter; an instance that holds it twice is found at its first.
    """
    negated = [
        (position, literal)
        for position, literal in enumerate(clause.body)
        if isinstance(literal, Absent) and literal.relation in relations
    ]
    changed = clause.body[trigger] if trigger is not None else None
    changed_relation = getattr(changed, "relation", None)

    def finish(frame: Frame) -> Next:
        make = frame.maker(clause.args)
        refuters = [
            (
                frame.maker(literal.args),
                relations[literal.relation].facts.by_row,
                0 if literal.relation != changed_relation else _side(position, trigger),
            )
            for position, literal in negated
            if position != trigger
        ]
        return _end(frame.cells, make, refuters, sink)

    return finish, frozenset(position for position, _ in negated)


def _side(position: int, trigger: int | None) -> int:
    return 0 if trigger is None else -1 if is_before(trigger, position) else 1


def _end(
    cells: list[Any],
    make: Callable[[list[Any]], Row],
    refuters: Sequence[tuple[Callable[[list[Any]], Row], dict[Row, Fact], int]],
    sink: Callable[[Row, int | None], None],
) -> Next:
    def end(_: int) -> None:
        lowest: int | None = None
        for of, by_row, side in refuters:
            row = of(cells)
            if side and row == cells[0]:
                if side < 0:
                    return
                continue
            fact = by_row.get(row)
            if fact is not None and fact.rank and (lowest is None or fact.rank < lowest):
                lowest = fact.rank
        sink(make(cells), lowest)

    return end
