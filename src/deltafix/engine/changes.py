"""The Delta of a committed epoch, read out of the arena as late as possible.

Rows that an epoch removed stay readable until the next one allocates, so a Delta that nobody
looks at costs nothing: `Changes` remembers that it belongs to the last epoch, and the database
has it copy its codes (`freeze`) only if it is still referenced when the next transaction begins.
Invariant: what a Delta shows never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deltafix.engine.codes import Codes
from deltafix.engine.state.edits import Edit
from deltafix.engine.store import Changed, changes_of
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Row, Schema
from deltafix.kernel.arena import Arena, Words

__all__ = ["Changes"]

_TABLE_ROWS = 2000
"""Sides of more rows are loaded as Arrow tables, smaller ones as tuples."""


class Changes:
    """The net changes of one epoch, by relation number. `freeze` copies them out of the arena."""

    __slots__ = (
        "__weakref__",
        "_arena",
        "_codes",
        "_found",
        "_schemas",
        "_width",
        "epoch",
        "given",
    )

    def __init__(
        self, arena: Arena, codes: Codes, schemas: Mapping[int, Schema], epoch: int, width: int
    ) -> None:
        self._arena = arena
        self._codes = codes
        self._schemas = schemas
        self._width = width
        self._found: Changed | None = None
        self.epoch = epoch
        self.given: list[Edit] | None = None
        """Changes of given rows, where the transaction edited relations with rules."""

    def freeze(self) -> None:
        """Copy the changed rows' codes out of the arena, once. O(changed)."""
        if self._found is None:
            self._found = changes_of(self._arena, self._width)

    def delta(self) -> Delta:
        """The changes as a Delta over the relations that users see."""
        self.freeze()
        found = self._found
        assert found is not None  # noqa: S101  frozen above
        parts = []
        for number in found.relations():
            schema = self._schemas.get(number)
            if schema is not None:
                added = found.side(number, schema.arity, added=True)
                removed = found.side(number, schema.arity, added=False)
                counts = (len(added), len(removed))
                sides = (self._side(schema, added), self._side(schema, removed))
                parts.append(RelationDelta(schema, *sides, counts=counts))
        return Delta(parts, self._schemas.values(), epoch=self.epoch)

    def _side(self, schema: Schema, codes: Words) -> Callable[[], Any]:
        def load() -> list[Row] | Any:
            if len(codes) > _TABLE_ROWS and schema.arity:
                return self._codes.table(schema, codes)
            return self._codes.rows(schema, codes)

        return load
