"""The layout of a program that decomposes: every shard runs all of it, on its part of the rows."""

from __future__ import annotations

from dataclasses import replace

from deltafix.plan.clause import Absent, Clause, Literal, Match, Relation, Slot
from deltafix.plan.normalize import Core
from deltafix.spark.hashing import Key
from deltafix.spark.shards.core import Prepared, column_kinds
from deltafix.spark.shards.decompose import Placement, kept
from deltafix.spark.shards.layout import Copy, Layout, Report, declarations


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
        self.copies: dict[str, dict[str, Copy]] = {r.name: {} for r in prepared.core.relations}

    def layout(self) -> Layout:
        core = self.prepared.core
        kinds = column_kinds(core, self.prepared.program)
        clauses = list(map(self.local, core.clauses))
        folds = []
        for fold in core.folds:
            source = fold.source
            if source not in self.placement:
                source = self.copy(source, fold.group[self.placement[fold.relation]])
            folds.append(replace(fold, source=source))
        folded = {fold.relation for fold in core.folds} | {fold.present for fold in core.folds}
        relations: list[Relation] = []
        columns: dict[str, tuple[str, ...]] = {}
        given: dict[str, tuple[Copy, ...]] = {}
        reports: dict[str, Report] = {}
        for relation in core.relations:
            name = relation.name
            if name in self.placement:
                copies = [Copy(name, Key((self.placement[name],)))]
            else:
                if not self.copies[name]:
                    self.copy(name, 0)
                copies = [*self.copies[name].values()]
            relations += [Relation(copy.name, relation.types) for copy in copies]
            columns.update({copy.name: kinds[name] for copy in copies})
            given[name] = tuple(copies)
            if name in self.placement and name not in folded:
                # Apart from what is derived, so that a shard knows what it was given.
                apart = f"{name} given"
                row = tuple(Slot(f"c{n}") for n in range(len(relation.types)))
                clauses.append(Clause(name, row, (Match(apart, row),), -1))
                relations.append(Relation(apart, relation.types))
                columns[apart] = kinds[name]
                given[name] = (Copy(apart, Key((self.placement[name],))),)
            if not relation.hidden:
                shown = next((c for c in copies if c.key.places), copies[0])
                reports[shown.name] = Report(name, shown.key)
        entries = self.prepared.entries
        return Layout(
            Core(tuple(relations), tuple(clauses), tuple(folds)),
            declarations(self.prepared.program, columns),
            {relation.name: relation.types for relation in relations},
            {name: given[entries.get(name, name)] for name in given if name not in folded},
            reports,
            seeds=self.prepared.seeds,
            bounded=self.prepared.bounded,
        )

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
        key = Key(None if column is None else (column,))
        self.copies[relation].setdefault(name, Copy(name, key))
        return name
