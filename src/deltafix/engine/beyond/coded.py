"""A stratum beyond plain recursion as the database runs it: column codes in, column codes out.

Invariant: the rows of the stratum's relations that the kernel holds are those that are seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from deltafix.engine.beyond.checks import intrinsic
from deltafix.engine.beyond.facts import Change, Fact, Work
from deltafix.engine.beyond.founded import FoundedStratum
from deltafix.engine.beyond.stratum import Stratum
from deltafix.engine.codes import Codes
from deltafix.engine.folds.accumulators import Accumulators
from deltafix.engine.functors import functor
from deltafix.engine.link import Linked
from deltafix.engine.stages import Bounds, Changed
from deltafix.engine.store import codes_where
from deltafix.engine.tables import Memo
from deltafix.errors import FunctorError, InternalError
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import BaseType, Value
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.plan.clause import Fold
from deltafix.plan.depend import Layer
from deltafix.rules.autoinc import AUTOINC

if TYPE_CHECKING:
    from deltafix.engine.outside import Users

_IN_PYTHON = frozenset(["match", "contains", "ord", "as", "as32"])
"""Functors whose meaning `engine.functors` knows, beside the users' own."""


class BeyondStratum:
    """Implements `engine.stages.Stratum` by a `beyond.Stratum`."""

    def __init__(
        self,
        arena: Arena,
        linked: Linked,
        codes: Codes,
        layer: Layer,
        *,
        users: Users,
        bounds: Bounds,
    ) -> None:
        def meaning(name: str, types: tuple[BaseType, ...], result: BaseType) -> Callable[..., Any]:
            if name.startswith("@"):  # asked once: a functor is a function, also under deletes
                return cache(functor(Memo(name, types, result), codes, users.functors))
            if name in _IN_PYTHON or name[0] in "[$" or name.startswith(AUTOINC):
                return functor(Memo(name, types, result), codes, users.functors)
            return intrinsic(name, types, result)

        def watch(work: Work) -> None:
            bounds.check(work.taken)

        def make(fold: Fold, look: Callable[[Row], list[Value]]) -> Accumulators:
            return Accumulators(fold, types, users.reducers, look)

        types = {relation.name: relation.types for relation in linked.plan.relations}
        self._arena = arena
        self._ids = linked.ids
        self._codes = codes
        relations = linked.plan.relations

        def empty() -> Stratum:
            if layer.calls is None:
                return Stratum(layer, relations, meaning, watch)
            return FoundedStratum(layer, relations, meaning, make, watch)

        self._empty = empty
        self._stratum = empty()
        self._former: Stratum | None = None
        names = {*self._stratum.reads, *self._stratum.writes}
        self._schemas = {
            relation.name: Schema.of(
                relation.name, [f"c{n}" for n in range(len(relation.types))], relation.types
            )
            for relation in linked.plan.relations
            if relation.name in names
        }

    def run(self, below: Mapping[str, Changed]) -> Mapping[str, Changed]:
        """The changes of its relations, for the changes of those it reads."""
        rows = {
            name: Change(self.shown(name, changed.added), self.shown(name, changed.removed))
            for name, changed in below.items()
            if len(changed.added) or len(changed.removed)
        }
        cells = self._arena.cells
        try:
            changes = self._stratum.run(rows)
        except FunctorError:
            # Changes below are joined with all that held, also with what goes.
            if not self._stratum.started:
                raise
            cells[at.C_ABANDONED] += 1
            changes = self._run_anew(rows)
        work = self._stratum.work
        cells[at.C_DERIVATIONS] += work.derivations
        cells[at.C_RETRACTED] += work.retracted
        cells[at.C_REVIVED] += work.revived
        cells[at.C_TAKEN] += work.taken
        return {
            name: Changed(self._encoded(name, added), self._encoded(name, removed))
            for name, (added, removed) in changes.items()
        }

    def _run_anew(self, below: Mapping[str, Change]) -> dict[str, Change]:
        """What changes, found from nothing: then what is joined holds, but for what is passed."""
        before = self._stratum
        before.undo()
        stratum = self._empty()
        stratum.prefer(before.rows)
        stratum.run({name: Change(before.lower(name, below), []) for name in before.reads})
        self._former, self._stratum = before, stratum
        changes = {}
        for name in stratum.writes:
            old, new = dict.fromkeys(before.rows(name)), dict.fromkeys(stratum.rows(name))
            added = [row for row in new if row not in old]
            changes[name] = Change(added, [row for row in old if row not in new])
        return changes

    def keep(self) -> None:
        """The epoch was committed."""
        self._former = None
        self._stratum.keep()

    def undo(self) -> None:
        """The epoch was rolled back."""
        if self._former is not None:
            self._stratum, self._former = self._former, None
        self._stratum.undo()

    def facts(self, relation: str) -> Mapping[Row, Fact]:
        """See `Stratum.facts`."""
        return self._stratum.facts(relation)

    def prefer(self, rows: Callable[[str], Iterable[Row]]) -> None:
        """Let the next run choose these rows of choice relations, where it may."""
        self._stratum.prefer(rows)

    def shown(self, relation: str, codes: Any) -> list[Row]:
        """The rows behind codes (n, arity) of a relation that it reads or writes."""
        return self._codes.rows(self._schemas[relation], codes)

    def check_invariants(self) -> None:
        """Check the stratum, and that the kernel holds its rows. Raises InternalError."""
        self._stratum.check_invariants()
        for name in self._stratum.writes:
            held = self.shown(name, codes_where(self._arena, self._ids[name], at.WAS))
            if set(held) != set(self._stratum.rows(name)):
                raise InternalError(f"beyond: the kernel holds other rows of {name}")

    def _encoded(self, name: str, rows: list[Row]) -> Any:
        schema = self._schemas[name]
        return self._codes.encode_rows(schema, rows).reshape(len(rows), schema.arity)
