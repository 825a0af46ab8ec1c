"""The catalog of an arena that plans were linked to one after another: which table is whose.

A plan that is linked to an arena without tables says all about them. After edits of rules it does
not: tables stand in the order in which they came, hidden relations have the names of earlier plans,
and there are tables and indexes that no rule needs any more. The catalog says so much that the
program, planned anew, can be linked to the arena as it stands. Invariant: the plan that it gives
has the strata of the plan that has run, so rows, supports and ranks in the arena are those of it;
where that cannot be seen, there is no catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from deltafix.engine.link import Linked
from deltafix.engine.tables import Groups, Memo, Table, Tables
from deltafix.facts.values import BaseType
from deltafix.kernel.arena import Arena
from deltafix.plan.build import lower, plan_core
from deltafix.plan.explain import explain
from deltafix.plan.ir import Plan
from deltafix.plan.normalize import Core
from deltafix.plan.recognise import named_alike, with_names
from deltafix.plan.tell import tell
from deltafix.plan.transition import SIGNALS, is_same
from deltafix.rules.ast import Program
from deltafix.rules.check import typed


@dataclass(frozen=True, slots=True)
class Catalog:
    """What tells the tables of an arena apart, beside the program.

    Attributes:
        tables: relations by name, memos and groups of folds, in the order of their numbers; those
            of relations that are no more lose their names.
        types: the columns of relations.
        indexes: the keys of the indexes of a relation, in their order.
        room: as `Tables` has it.
        names: relations of the program as it is planned alone, and their names here.
        plan: digest of the plan that this gives.
    """

    tables: tuple[Table, ...]
    types: Mapping[str, tuple[BaseType, ...]]
    indexes: Mapping[str, tuple[tuple[int, ...], ...]]
    room: tuple[int, int, int]
    names: Mapping[str, str]
    plan: str = ""

    @classmethod
    def of(cls, program: Program, core: Core, linked: Linked) -> Catalog | None:
        """The catalog behind a plan and its core; None if planning anew gives another one.

        Plans the program: O(program).
        """
        alone, tables = lower(typed(program)), linked.tables
        used: set[Table] = {*linked.ids, *SIGNALS, *map(Groups.of, linked.folds.values())}
        numbers = [
            table if isinstance(table, Memo) or table in used else f"~{number} unused"
            for table, number in tables.numbers.items()
        ]
        types = {name: types for name, types in tables.types.items() if name in used}
        built = {name: tuple(keys) for name, keys in tables.indexes().items() if name in used}
        names = named_alike(alone, core)
        catalog = cls(tuple(numbers), types, built, tables.room, names)
        _, plan = catalog.planned(alone)
        return replace(catalog, plan=_digest_of(plan)) if is_same(linked.plan, plan) else None

    def fits(self, alone: Core) -> bool:
        """Whether this deltafix gives the plan that the one behind the catalog gave. O(program)."""
        return self.names.keys() == {relation.name for relation in alone.relations} and (
            _digest_of(self.planned(alone)[1]) == self.plan
        )

    def planned(self, alone: Core) -> tuple[Core, Plan]:
        """The core and plan of a program's own core for this arena. O(program)."""
        core = with_names(alone, self.names.__getitem__)
        return core, plan_core(core, self.indexes)

    def laid_out(self, arena: Arena) -> Tables:
        """The tables of the arena."""
        numbers = {table: number for number, table in enumerate(self.tables)}
        return Tables(arena, numbers, dict(self.types), self.room)

    def to_json(self) -> dict[str, Any]:
        """For the head of an image."""
        tables = [table if isinstance(table, str) else astuple(table) for table in self.tables]
        return {
            "tables": tables, "types": dict(self.types), "indexes": dict(self.indexes),
            "room": self.room, "names": dict(self.names), "plan": self.plan,
        }  # fmt: skip

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Catalog:
        """Read what `to_json` gave; an image's seal says that it did."""
        slots, depth, rules = saved["room"]
        return cls(
            tuple(map(_table, saved["tables"])),
            {name: tuple(types) for name, types in saved["types"].items()},
            {name: tuple(map(tuple, columns)) for name, columns in saved["indexes"].items()},
            (slots, depth, rules),
            saved["names"],
            saved["plan"],
        )


def _table(saved: Any) -> Table:
    """What `to_json` made a name or a triple of."""
    match saved:
        case [relation, columns, int(keeps)]:
            return Groups(relation, columns, keeps)
        case [functor, types, result]:
            return Memo(functor, tuple(types), result)
    return str(saved)


def _digest_of(plan: Plan) -> str:
    return hashlib.sha256(tell(explain(plan)).encode()).hexdigest()
