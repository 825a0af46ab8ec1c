"""A program over tables: rules with the functions that they call, and what its columns hold.

Made from SQL (`deltafix.sql.program`); whatever keeps a program's rows takes it like any other.
Invariant: the functions and reducers can be pickled, and are told by their names: what a name
computes changes only with the name, so rules that read the same do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltafix.facts.logical import Logical
from deltafix.rules.ast import Program

if TYPE_CHECKING:
    from deltafix.reducers.aggregate import UserReducer


@dataclass(frozen=True, slots=True)
class TableKey:
    """A PRIMARY KEY or UNIQUE: columns of a table of which no two rows have the same values."""

    table: str
    kind: str
    columns: tuple[str, ...]

    def show(self) -> str:
        """As it is declared."""
        return f"{self.kind} ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class TableProgram(Program):
    """Tables, views, and the rules between them.

    Attributes:
        functions, reducers: what the rules call, by name.
        tables: of each table, its columns' logical types.
        views: of each view whose rows are a set, likewise.
        bags: views whose rows may be equal.
        keys: what rows of tables must be told apart by.
    """

    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, compare=False)
    reducers: Mapping[str, UserReducer] = field(default_factory=dict, compare=False)
    tables: Mapping[str, tuple[Logical, ...]] = field(default_factory=dict)
    views: Mapping[str, tuple[Logical, ...]] = field(default_factory=dict)
    bags: frozenset[str] = frozenset()
    keys: tuple[TableKey, ...] = ()


def users_of(program: Program) -> dict[str, Any]:
    """The arguments `functors` and `reducers` of `deltafix.connect` for a program."""
    if not isinstance(program, TableProgram):
        return {}
    return {"functors": program.functions, "reducers": program.reducers}


def logical_of(program: Program, relation: str) -> tuple[Logical, ...]:
    """The logical types of a relation's columns; none where the engine's are all there is."""
    if not isinstance(program, TableProgram):
        return ()
    return {**program.views, **program.tables}.get(relation, ())
