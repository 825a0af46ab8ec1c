"""The layout of a program that decomposes: every shard runs all of it, on its part of the rows."""

from __future__ import annotations

from dataclasses import replace

from deltafix.plan.clause import Absent, Clause, Literal, Match, Slot
from deltafix.rules.ast import Program
from deltafix.rules.terms import BaseType
from deltafix.spark.shards.core import Prepared
from deltafix.spark.shards.decompose import Placement, kept
from deltafix.spark.shards.layout import Copy, Layout, Report
from deltafix.spark.shards.syntax import declare, fold_rules, plain_rule

__all__ = ["whole"]


def whole(prepared: Prepared, placement: Placement) -> Layout:
    """The layout that a placement without messages gives.

    Derived relations keep their names. A given one has a copy for each way it is read, and rows
    of a split copy are those of its shard, which is what makes a derivation happen only there.
    """
    return _Whole(prepared, placement).layout()


class _Whole:
    def __init__(self, prepared: Prepared, placement: Placement) -> None:
        self.prepared = prepared
        self.placement = placement
        self.columns = {relation.name: relation.types for relation in prepared.core.relations}
        self.copies: dict[str, dict[str, Copy]] = {name: {} for name in self.columns}

    def layout(self) -> Layout:
        core = self.prepared.core
        rules = [plain_rule(self.local(clause)) for clause in core.clauses]
        for fold in core.folds:
            source = fold.source
            if source not in self.placement:
                source = self.copy(source, fold.group[self.placement[fold.relation]])
            arity = len(self.columns[fold.source])
            rules += fold_rules(replace(fold, source=source), arity)
        folded = {fold.relation for fold in core.folds} | {fold.present for fold in core.folds}
        types: dict[str, tuple[BaseType, ...]] = {}
        given: dict[str, tuple[Copy, ...]] = {}
        reports: dict[str, Report] = {}
        for relation in core.relations:
            name = relation.name
            if name in self.placement:
                copies = [Copy(name, (self.placement[name],))]
            else:
                if not self.copies[name]:
                    self.copy(name, 0)
                copies = [*self.copies[name].values()]
            types.update({copy.name: relation.types for copy in copies})
            if name not in folded:
                given[name] = tuple(copies)
            if not relation.hidden:
                shown = next((c for c in copies if c.columns is not None), copies[0])
                reports[shown.name] = Report(name, shown.columns is None)
        declared = tuple(declare(name, columns) for name, columns in types.items())
        program = Program(declared, tuple(rules))
        return Layout(program, types, given, reports, seeds=self.prepared.seeds)

    def local(self, clause: Clause) -> Clause:
        """The clause over the copies it reads."""
        key = clause.args[self.placement[clause.head]]

        def literal(one: Literal) -> Literal:
            if not isinstance(one, Match | Absent) or one.relation in self.placement:
                return one
            column = kept(one, key) if isinstance(key, Slot) else None
            return replace(one, relation=self.copy(one.relation, column))

        return replace(clause, body=tuple(map(literal, clause.body)))

    def copy(self, relation: str, column: int | None) -> str:
        """The name of the copy split by a column, or of the one that is everywhere."""
        name = f"{relation} everywhere" if column is None else f"{relation} by [{column}]"
        columns = None if column is None else (column,)
        self.copies[relation].setdefault(name, Copy(name, columns))
        return name
