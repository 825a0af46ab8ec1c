"""What stands in one arena: the plan that is linked into it, and all that points into it.

A database has one instance at a time. `compact` fills another beside it, which then takes its
place, and an edit of rules has it take up another plan. Invariant: whatever holds codes, numbers or
structures of an arena (strata, what runs them, remembered keys, a probe) is kept here alone, so
that none of it outlives the arena.

Not here: transactions and epochs (`database`), and what readers are promised (`reading`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from deltafix.engine.changes import ChangedRows
from deltafix.engine.codes import Codes
from deltafix.engine.functors import Functors
from deltafix.engine.link import Linked, link
from deltafix.engine.outside import Users, outside_strata
from deltafix.engine.query import Probe
from deltafix.engine.run import Limits, Run, between
from deltafix.engine.stages import Strata
from deltafix.engine.state.edits import Edit, given_changes, given_rows
from deltafix.engine.store import relation_cell
from deltafix.engine.tables import Tables
from deltafix.errors import FactError, UnknownRelationError
from deltafix.facts.schema import Column, Schema, unknown_relation
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.plan.build import Prepared
from deltafix.plan.cache import Cache
from deltafix.plan.ir import Plan
from deltafix.plan.normalize import Core
from deltafix.rules.ast import Program
from deltafix.rules.schemas import row_schemas

_WAYS = 256
"""So many lists of columns are remembered by which rows are found before all are forgotten."""


class Input(NamedTuple):
    """A relation to edit: the number of where given rows lie, and whether it has rules."""

    schema: Schema
    number: int
    has_rules: bool


class ByKey(NamedTuple):
    """Columns of a relation by which rows are found.

    `checked` has each with its position in a key, in the order of their `positions` in the
    relation.
    """

    schema: Schema
    checked: list[tuple[Column, int]]
    positions: tuple[int, ...]


def seen_schemas(
    program: Program, linked: Linked, *, physical: bool = False, before: Instance | None = None
) -> dict[str, Schema]:
    """The relations that users see of a linked program; `physical`: as the engine has them.

    What the program that was linked `before` declared, too, has the schema that it had.
    """
    kept = linked.ids.keys() - linked.plan.pipelined
    known: dict[str, Schema] = {}
    if before is not None and before.program.types == program.types:
        was = {declared.name: declared for declared in before.program.relations}
        same = (one.name for one in program.relations if was.get(one.name) is one)
        known = {name: before.schemas[name] for name in same if name in before.schemas}
    schemas = row_schemas(program, kept - known.keys())
    if physical:
        schemas = {name: schema.physical for name, schema in schemas.items()}
    seen = known | schemas
    return {one.name: seen[one.name] for one in program.relations if one.name in kept}


class Instance:
    """An arena with a linked plan. Who reads it while another thread writes holds the `gate`.

    Attributes:
        arena: the memory.
        codes: of the values in it.
        gate: held while tables move, and by readers.
        physical: whether rows are as the engine has them (`connect`).
        users: the functions that the user gave, as given.
        cache: what planning the last edit of rules made, for the next one.
        is_unrun: whether no epoch has run: nothing is derived yet.
        ran: how many strata the program of the last epoch had.
        recomputed: those that it evaluated anew since their rules changed, by their relations.
        program, core, linked: what is linked, from the program down.
        schemas: the relations that users see, by name.
        ruled: the names of those that have rules.
        changed: reads what an epoch changed in them.
        inputs: what is edited under each name; `given` their schemas by number.
        run, limits: what runs an epoch, and the bounds that the program declares.
        strata, functors, called: what computes outside the kernel, and the functions, bound, that
            it calls.
    """

    program: Program
    core: Core
    linked: Linked
    schemas: Mapping[str, Schema]
    ruled: frozenset[str]
    changed: ChangedRows
    inputs: dict[str, Input]
    given: dict[int, Schema]
    run: Run
    limits: Limits
    strata: Strata
    functors: Functors
    called: Users

    def __init__(
        self,
        program: Program,
        begun: Prepared,
        users: Users,
        gate: threading.Lock,
        *,
        physical: bool,
    ) -> None:
        self.arena = Arena()
        self.codes = Codes(self.arena)
        self.gate = gate
        self.physical = physical
        self.users = users
        self.cache: Cache | None = None
        self.is_unrun = True
        self.ran = 0
        self.recomputed: tuple[str, ...] = ()
        linked = link(begun.plan, Tables(self.arena), self.codes, begun=begun)
        self.link(program, begun.core, linked)

    def link(self, program: Program, core: Core, linked: Linked) -> None:
        """Take up a plan that was linked to an arena without rows, or with an image's.

        Raises FunctorError for a function or reducer that the program wants and nobody gave.
        """
        users = self.users.bound_to(program)
        self.take_up(program, core, linked)
        self.run_with(program, linked, outside_strata(linked, self.codes, users), users)

    def take_up(
        self,
        program: Program,
        core: Core,
        linked: Linked,
        schemas: Mapping[str, Schema] | None = None,
    ) -> None:
        """Let readers and editors see the relations of a linked plan, of these `seen_schemas`."""
        self.program, self.core, self.linked = program, core, linked
        if schemas is None:
            schemas = seen_schemas(program, linked, physical=self.physical)
        self.schemas = MappingProxyType(schemas)
        self.ruled = frozenset(
            name for name, n in linked.ids.items() if relation_cell(self.arena, n, at.R_RULES)
        )
        by_number = {linked.ids[name]: schema for name, schema in self.schemas.items()}
        self.changed = ChangedRows(self.arena, self.codes, by_number, self.schemas, self.gate)
        self.inputs = {
            name: Input(schema, linked.given(name), name in self.ruled)
            for name, schema in self.schemas.items()
        }
        self.given = {number: schema for schema, number, _ in self.inputs.values()}
        self._probe: Probe | None = None
        self._keys: dict[tuple[str, ...], ByKey] = {}

    def run_with(self, program: Program, linked: Linked, strata: Strata, users: Users) -> None:
        """Let epochs run a linked plan."""
        self.functors = Functors(self.arena, linked, self.codes, users.functors)
        self.strata, self.called = strata, users
        self.run = Run(self.arena, linked.program, self.functors.reply, strata.run, self.gate)
        self.limits = Limits(program, self.arena, linked)
        self.run.watch = partial(between, self.arena, self.limits)

    @property
    def plan(self) -> Plan:
        """The plan that is linked."""
        return self.linked.plan

    @property
    def probe(self) -> Probe:
        """Reads rows of symbols; for who holds the writer's lock."""
        if self._probe is None:
            self._probe = Probe(self.arena, self.linked, self.codes)
        return self._probe

    def schema(self, relation: str) -> Schema:
        """Of a relation that users see. Raises UnknownRelationError."""
        schema = self.schemas.get(relation)
        if schema is None and any(declared.name == relation for declared in self.program.relations):
            raise UnknownRelationError(
                f"relation {relation!r} is not kept as a whole: it is inline, its rows go into "
                f"aggregates only, or they are computed only where outputs ask for them; "
                f"`.output {relation}` would keep it"
            )
        if schema is None:
            raise unknown_relation(relation, self.schemas)
        return schema

    def number(self, relation: str) -> int:
        """Of a relation, within the gate: an edit of rules may just have taken it away."""
        self.schema(relation)
        return self.linked.ids[relation]

    def input(self, relation: str) -> Input:
        """What is edited under a name. Raises UnknownRelationError."""
        self.schema(relation)
        return self.inputs[relation]

    def require_unruled(self, schema: Schema) -> None:
        """Raise FactError for a relation that not only inputs feed."""
        name = schema.relation
        if name in self.ruled or self.linked.given(name) != self.linked.ids[name]:
            message = f"{schema.show()} has rules; this is of relations that only inputs feed"
            raise FactError(message, relation=name)

    def by_key(self, relation: str, columns: tuple[str, ...]) -> ByKey:
        """What finding rows by some columns needs to know, remembered.

        Raises UnknownRelationError, FactError for a relation with rules or an unknown column.
        """
        by_key = self._keys.get((relation, *columns))
        if by_key is not None:
            return by_key
        schema = self.schema(relation)
        positions = schema.places(columns)
        self.require_unruled(schema)
        order = sorted(range(len(positions)), key=positions.__getitem__)
        checked = [(schema.columns[positions[n]], n) for n in order]
        by_key = ByKey(schema, checked, tuple(sorted(positions)))
        if len(self._keys) >= _WAYS:
            self._keys.clear()
        self._keys[relation, *columns] = by_key
        return by_key

    def given_changes(self) -> list[Edit]:
        """Net changes of given rows in the epoch that is open. O(touched)."""
        return given_changes(self.arena, self.given)

    def given_rows(self) -> list[Edit]:
        """All given rows; between epochs only. O(rows)."""
        return given_rows(self.arena, self.given)
