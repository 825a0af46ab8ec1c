"""Deltas: the relations that changed in one epoch, and how.

A `Delta` maps relations to their `RelationDelta` (`facts.relation_delta`), which has two sides
(`facts.side`). Invariant: a delta is net and disjoint, in every relation. Nothing here knows the
engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltafix.errors import FactError
from deltafix.facts.relation_delta import Ask, RelationDelta, nobody_to_ask
from deltafix.facts.schema import Row, Schema, show_row, unknown_relation
from deltafix.facts.side import Side

if TYPE_CHECKING:
    from deltafix.provenance.cause import Cause

__all__ = ["Delta", "RelationDelta"]


class Delta(Mapping[str, RelationDelta]):
    """What one epoch changed, by relation.

    As a mapping it holds the relations that changed, in declaration order. Asking for a known
    relation that did not change gives its empty `RelationDelta`, so `delta["path"].added` is
    always safe; an unknown name raises UnknownRelationError (a KeyError).

    Args:
        changes: one RelationDelta per changed relation; empty ones are dropped.
        schemas: every relation the program declares, in declaration order; those of `changes`
            when omitted.
        epoch: the number of the transaction that made it, if it was one.
    """

    __slots__ = ("_ask", "_changes", "epoch", "schemas")

    def __init__(
        self,
        changes: Iterable[RelationDelta] = (),
        schemas: Iterable[Schema] | None = None,
        *,
        epoch: int | None = None,
    ) -> None:
        given = {change.schema.relation: change for change in changes}
        known = [change.schema for change in given.values()] if schemas is None else schemas
        self.schemas: Mapping[str, Schema] = MappingProxyType(
            {schema.relation: schema for schema in known}
        )
        self._changes = {name: given[name] for name in self.schemas if given.get(name)}
        self.epoch = epoch
        self._ask: Ask | None = None

    @classmethod
    def net(
        cls,
        changes: dict[str, RelationDelta],
        schemas: Mapping[str, Schema],
        epoch: int,
        ask: Ask,
    ) -> Delta:
        """Of parts that are not empty, in the order of `schemas`; both are kept. O(1).

        `ask` answers `why`: it is called with the delta and the arguments.
        """
        delta = cls.__new__(cls)
        delta._changes, delta.schemas, delta.epoch, delta._ask = changes, schemas, epoch, ask
        return delta

    @classmethod
    def of(
        cls,
        changes: Mapping[str, tuple[Iterable[Row], Iterable[Row]]],
        schemas: Iterable[Schema] | None = None,
    ) -> Delta:
        """Write a delta down: `Delta.of({"edge": (added, removed)})`.

        Schemas are inferred from the rows when not given (see `Schema.infer`); rows listed
        twice count once.

        Raises:
            FactError: a row both added and removed, or one that does not fit its schema.
        """
        declared = None if schemas is None else {schema.relation: schema for schema in schemas}
        parts = []
        for name, (added, removed) in changes.items():
            sides = [list(added), list(removed)]
            if declared is None:
                schema = Schema.infer(name, sides[0] + sides[1])
            elif name in declared:
                schema = declared[name]
            else:
                raise unknown_relation(name, declared)
            gained, lost = (set(schema.check_rows(side)) for side in sides)
            if gained & lost:
                row = min(gained & lost)
                message = f"{show_row(name, row)} is both added and removed; a delta is net"
                raise FactError(message, relation=name, value=row)
            parts.append(RelationDelta(schema, gained, lost))
        return cls(parts, None if declared is None else declared.values())

    def compose(self, then: Delta) -> Delta:
        """The net delta of this one followed by `then`. O(rows of both)."""
        schemas = {**self.schemas, **then.schemas}
        parts: list[RelationDelta] = []
        for name in schemas:
            first, second = self._changes.get(name), then._changes.get(name)
            if first is None or second is None:
                parts.extend(part for part in (first, second) if part is not None)
            else:
                parts.append(first.compose(second))
        return Delta(parts, schemas.values())

    def inverse(self) -> Delta:
        """The delta that undoes this one: `d.compose(d.inverse())` is empty."""
        return Delta((part.inverse() for part in self.values()), self.schemas.values())

    def only(self, *relations: str) -> Delta:
        """What changed in these relations: `db.apply(d.inverse().only("edge"))` undoes an epoch.

        Raises UnknownRelationError.
        """
        return Delta((self[name] for name in relations), self.schemas.values())

    def why(self, fact: str, row: Row | None = None, *, max_trials: int = 200) -> Cause:
        """Which changes of input or of rules made a row appear or vanish, and by which proof.

        `delta.why('path("a", "c")')` or `delta.why("path", ("a", "c"))`. The changes alone, on the
        state before the epoch, have this effect, and no part of them has; found by undoing parts
        of the epoch on trial, each at the cost of an epoch. Where the epoch edited rules, those
        that came and went are among the changes, and the old state is evaluated anew: O(state).

        Args:
            fact: one row as program text, or the name of its relation.
            row: its values, where `fact` is a name.
            max_trials: bound on the trials; beyond, the answer's `is_smallest` is False.

        Raises:
            NoSuchFactError: the row did not change.
            ExplanationError: the delta is not that of a database's last epoch, or declarations
                changed in it.
            TransactionError: this thread has a transaction open.
        """
        if self._ask is None:
            raise nobody_to_ask()
        return self._ask(self, fact, row, max_trials=max_trials)

    def show(self) -> str:
        """Every change on its own line, in a stable order: `-edge("a", "b")`, `+path("a", "c")`.

        Relations in declaration order; inside one, removed rows before added ones, each sorted.
        """
        return "\n".join(
            f"{'+' if sign > 0 else '-'}{show_row(name, row)}"
            for name, part in self._changes.items()
            for sign, row in part.signed()
        )

    def __getitem__(self, relation: str) -> RelationDelta:
        change = self._changes.get(relation)
        if change is not None:
            # Not kept: a cycle would leave every delta that is read to the collector, whose
            # rounds then cost more than the edits.
            return change if self._ask is None else change.asking(self.why)
        if relation in self.schemas:
            schema = self.schemas[relation]
            nothing = Side(schema, (), 0)
            return RelationDelta.of_sides(schema, nothing, nothing)
        raise unknown_relation(relation, self.schemas)

    def __contains__(self, relation: object) -> bool:
        return relation in self._changes

    def __iter__(self) -> Iterator[str]:
        return iter(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Delta):
            return NotImplemented
        return self._changes == other._changes

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is made lazily

    def __repr__(self) -> str:
        if not self._changes:
            return "Delta: no change"
        return "\n".join(map(repr, self._changes.values()))

    def _repr_html_(self) -> str:
        parts = [part._repr_html_() for part in self._changes.values()]
        return "".join(parts) or "<p>Delta: no change</p>"
