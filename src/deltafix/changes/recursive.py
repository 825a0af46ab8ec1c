"""Recursive definitions over formulae: Datalog as one instance of the fixpoint theory.

Two nouns: a `Definition` (name, schema, body) and a `System` of them over given relations.
Three runs: `solve` (least fixpoint by increments), `maintain` (its derivative: from the old
solution to the one after the given relations change) and `recompute` (naively, the judge). In
every map from names to rows a name that is absent stands for the empty relation.
Invariant: nothing but `formula_derivative` and `fixpoint` is used, there is no Datalog in here.
Evaluation is naive, so this is the theory made runnable and the table in its worked example;
the engine is what one uses for work.

Source: Fixing incremental computation, section 6 (programs, worked example).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import TypeAlias

from deltafix.changes import formula as f
from deltafix.changes.action import ChangeAction
from deltafix.changes.combined import maps
from deltafix.changes.derivative import Derivative
from deltafix.changes.evaluate import Interpretation, Rows, evaluate
from deltafix.changes.fixpoint import Run, iterate, lfp, lfp_change
from deltafix.changes.formula_derivative import STANDARD, Rules, differentiate
from deltafix.changes.sets import SetChange, sets
from deltafix.errors import ChangeError

__all__ = ["Definition", "RelationChanges", "Relations", "System"]

Row: TypeAlias = tuple[Hashable, ...]
Relations: TypeAlias = Mapping[str, Rows]
RelationChanges: TypeAlias = Mapping[str, SetChange[Row]]

_EMPTY: Rows = frozenset()


@dataclass(frozen=True, slots=True)
class Definition:
    """`name(schema) ← body`."""

    name: str
    schema: tuple[str, ...]
    body: f.Formula

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.schema)}) ← {self.body}"


@dataclass(frozen=True, slots=True)
class System:
    """Mutually recursive definitions over a finite universe.

    Args:
        definitions: One per defined relation.
        universe: The values that quantifiers and schemas range over.
        rules: The derivative rules used, `STANDARD` or `PRECISE`.
        monotone: Require that each defined relation is read under an even number of negations,
            outside aggregates. Then the least fixpoint exists and `maintain` is right. Without
            it, `solve` iterates all the same, as the source does for recursive aggregates.

    Raises:
        ChangeError: A name is defined twice, a body has a free variable outside its schema, or
            `monotone` is asked for and a definition is not.
    """

    definitions: tuple[Definition, ...]
    universe: tuple[Hashable, ...]
    rules: Rules = field(default_factory=lambda: STANDARD, repr=False)
    monotone: bool = True

    def __post_init__(self) -> None:
        names = self.names
        for definition in self.definitions:
            if sum(d.name == definition.name for d in self.definitions) > 1:
                raise ChangeError(f"{definition.name!r} is defined more than once; join with ∨")
            loose = f.free_variables(definition.body) - set(definition.schema)
            if loose:
                raise ChangeError(
                    f"in {definition}: variable {min(loose)!r} is neither in the schema nor bound"
                )
            if self.monotone:
                _check_polarity(definition, definition.body, names, positive=True)

    @property
    def names(self) -> frozenset[str]:
        """The defined relations."""
        return frozenset(definition.name for definition in self.definitions)

    @property
    def given(self) -> frozenset[str]:
        """The relations that are read and not defined."""
        read = [f.relation_names(definition.body) for definition in self.definitions]
        return frozenset[str]().union(*read) - self.names

    @property
    def action(self) -> ChangeAction[Relations, RelationChanges]:
        """Maps from relation names to sets of rows."""
        return maps(sets(), _EMPTY)

    def consequence(
        self, given: Relations
    ) -> Derivative[Relations, RelationChanges, Relations, RelationChanges]:
        """The immediate consequence operator over fixed given relations, with its derivative."""
        parts = [
            (d, differentiate(d.body, changing=self.names, rules=self.rules))
            for d in self.definitions
        ]

        def function(value: Relations) -> Relations:
            reading = self._reading(given, value)
            return _rows({d.name: evaluate(d.body, d.schema, reading) for d in self.definitions})

        def rule(value: Relations, change: RelationChanges) -> RelationChanges:
            reading = self._reading(given, value, change)
            return _changes(
                {
                    d.name: SetChange(
                        evaluate(half.up, d.schema, reading),
                        evaluate(half.down, d.schema, reading),
                    )
                    for d, half in parts
                }
            )

        return Derivative(function, rule, self.action, self.action, "consequence")

    def consequence_change(
        self, given: Relations, change: RelationChanges, value: Relations
    ) -> RelationChanges:
        """δf(value): how one application of the operator changes when the given relations do."""
        changing = frozenset(change)
        reading = self._reading(given, value, change)
        out: dict[str, SetChange[Row]] = {}
        for d in self.definitions:
            half = differentiate(d.body, changing=changing, rules=self.rules)
            out[d.name] = SetChange(
                evaluate(half.up, d.schema, reading), evaluate(half.down, d.schema, reading)
            )
        return _changes(out)

    def solve(
        self, given: Relations, *, max_rounds: int | None = None
    ) -> Run[Relations, RelationChanges]:
        """The least fixpoint, semi-naively; the run's rounds are its table of iterations."""
        return lfp(self.consequence(given), _rows({}), max_rounds=max_rounds)

    def recompute(self, given: Relations) -> Relations:
        """The least fixpoint by naive iteration from ⊥, using no derivative."""
        function = self.consequence(given).function
        value = _rows({})
        while (after := function(value)) != value:
            value = after
        return value

    def iteration(self, given: Relations, times: int) -> Relations:
        """`iter(consequence, times)`, naively."""
        return iterate(self.consequence(given).function, times, _rows({}))

    def maintain(
        self,
        given: Relations,
        change: RelationChanges,
        old: Relations,
        *,
        from_old: bool = False,
        max_rounds: int | None = None,
    ) -> Run[RelationChanges, RelationChanges]:
        """A change from `old`, the solution for `given`, to the one for `given ⊕ change`.

        It starts from the least change (remove all), which is right for every monotone system
        and as dear as recomputing.

        Args:
            given: The given relations before; one that is absent is empty.
            change: How they change.
            old: The solution for `given`.
            from_old: Start from the zero change instead. That is the source's table, and cheap,
                but **wrong** where facts that lose support support each other: it then ends at
                a fixpoint that is too large, or never; see `fixpoint.lfp_change`.
            max_rounds: Give up beyond so many rounds.

        Raises:
            BudgetError: `max_rounds` was reached.
            ChangeError: A name is not given, or not defined, in this system; or the iteration
                from the old solution never ends.
        """
        self._refuse_others(change, self.given)
        self._refuse_others(old, self.names)
        after = self.action.apply(given, change)
        start = {} if from_old else {n: SetChange(_EMPTY, self.every_row(n)) for n in self.names}
        return lfp_change(
            self.consequence(after),
            old,
            lambda value: self.consequence_change(given, change, value),
            start=_changes(start),
            max_rounds=max_rounds,
        )

    def every_row(self, name: str) -> Rows:
        """The universal relation over a definition's schema: |universe|^width rows."""
        width = next(len(d.schema) for d in self.definitions if d.name == name)
        return frozenset(product(self.universe, repeat=width))

    def _refuse_others(self, names: Iterable[str], known: frozenset[str]) -> None:
        other = next((name for name in names if name not in known), None)
        if other is not None:
            role = "defined here" if known == self.names else "read here and defined elsewhere"
            valid = ", ".join(sorted(known)) or "none"
            raise ChangeError(f"{other!r} is no relation that is {role}; those are: {valid}")

    def _reading(
        self, given: Relations, value: Relations, change: RelationChanges | None = None
    ) -> Interpretation:
        self._refuse_others(given, self.given)
        relations = {**dict.fromkeys(self.names | self.given, _EMPTY), **given, **value}
        return Interpretation(self.universe, relations, change or MappingProxyType({}))


def _rows(value: dict[str, Rows]) -> Relations:
    return MappingProxyType({name: rows for name, rows in value.items() if rows})


def _changes(value: dict[str, SetChange[Row]]) -> RelationChanges:
    return MappingProxyType({name: change for name, change in value.items() if change})


def _check_polarity(
    definition: Definition, formula: f.Formula, names: frozenset[str], *, positive: bool
) -> None:
    match formula:
        case f.Relation(name) if name in names and not positive:
            raise ChangeError(
                f"{definition.name!r} reads {name!r} under an odd number of negations, so its "
                "operator is not monotone; use an even number, or stratify"
            )
        case f.Aggregate():
            read = {n for part in f.children(formula) for n in f.relation_names(part)} & names
            if read:
                raise ChangeError(
                    f"{definition.name!r} aggregates over {min(read)!r}, which is not monotone; "
                    "stratify, or ask for monotone=False"
                )
        case _:
            for part in f.children(formula):
                _check_polarity(
                    definition, part, names, positive=positive ^ isinstance(formula, f.Not)
                )
