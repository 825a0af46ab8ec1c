"""Which kind of relation a merge asks for, and what a stratum's bodies read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltafix.engine.beyond.best import BestRows
from deltafix.engine.beyond.checks import Meaning
from deltafix.engine.beyond.chosen import ChosenRows
from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.joined import JoinedRows
from deltafix.engine.beyond.rows import Rows
from deltafix.engine.beyond.undominated import UndominatedRows
from deltafix.facts.values import BaseType
from deltafix.plan.clause import Absent, Choice, Lattice, Match, Merge, Subsumption


def lower_relations(
    bodies: Iterable[Iterable[object]], relations: Mapping[str, Rows]
) -> tuple[str, ...]:
    """The lower relations that bodies read, in order."""
    found = dict.fromkeys(
        literal.relation
        for body in bodies
        for literal in body
        if isinstance(literal, Match | Absent)
    )
    return tuple(name for name in found if name not in relations)


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
