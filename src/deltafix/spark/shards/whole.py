"""From a program to its layout: without a shuffle where it decomposes and no key is heavy.

Then every shard runs all of it, on its part of the rows.

A derived relation is *split* by a column when each of its rows lives in the shard of that column's
value. A clause then runs inside shards if its head and its derived literals have one variable at
their columns: in `tc(x, z) :- tc(x, y), edge(y, z)` tc keeps x. A given relation goes where it is
needed. If all derived relations can be split so, nothing crosses shards: their parts of a derived
relation are disjoint and their union is the program's. The search is exact up to `LIMIT` choices;
giving up is safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from deltafix.plan.clause import Absent, Clause, Fold, Literal, Match, Relation, Slot
from deltafix.plan.normalize import Core
from deltafix.rules.ast import Program
from deltafix.spark.hashing import Key
from deltafix.spark.shards.core import Prepared, column_kinds, prepare
from deltafix.spark.shards.layout import Copy, Layout, Report, declarations
from deltafix.spark.shards.localize import localize


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

        def local(literal: Literal) -> Literal:
            if not isinstance(literal, Match | Absent) or literal.relation in self.placement:
                return literal
            column = kept(literal, key) if isinstance(key, Slot) else None
            return replace(literal, relation=self.copy(literal.relation, column))

        return replace(clause, body=tuple(map(local, clause.body)))

    def copy(self, relation: str, column: int | None) -> str:
        """The name of the copy split by a column, or of the one that is everywhere."""
        name = f"{relation} everywhere" if column is None else f"{relation} by [{column}]"
        key = Key(None if column is None else (column,))
        self.copies[relation].setdefault(name, Copy(name, key))
        return name


def plan_layout(program: Program, heavy: tuple[int, ...] = ()) -> Layout:
    """The layout of a program, whose rows of `heavy` keys are shared (`Layout.heavy`).

    Raises ProgramError (see `core.prepare`).
    """
    prepared = prepare(program)
    placement = None if heavy else decompose(prepared)
    return localize(prepared, heavy) if placement is None else whole(prepared, placement)


LIMIT = 20_000
"""Choices tried before a program is taken as not decomposable."""

Placement: TypeAlias = Mapping[str, int]
"""Per derived relation the column it is split by."""


def decompose(prepared: Prepared) -> Placement | None:
    """A placement without messages, or None if there is none (or none was found)."""
    if prepared.pinned:
        return None
    core = prepared.core
    names = {clause.head for clause in core.clauses} | {n for f in core.folds for n in f.outputs}
    layer_of = {name: n for n, layer in enumerate(prepared.layers) for name in layer.relations}
    order = sorted((r for r in core.relations if r.name in names), key=lambda r: layer_of[r.name])
    return _Search(order, core.clauses, core.folds).run() if order else None


def kept(literal: Match | Absent, key: Slot) -> int | None:
    """The first column of a literal that holds the variable; None: it has none."""
    return literal.args.index(key) if key in literal.args else None


class _Search:
    def __init__(
        self, order: Sequence[Relation], clauses: Sequence[Clause], folds: Sequence[Fold]
    ) -> None:
        self.order = order
        self.left = LIMIT
        self.columns: dict[str, int] = {}
        self.checks: dict[str, list[Clause | Fold]] = {r.name: [] for r in order}
        rank_of = {relation.name: n for n, relation in enumerate(order)}
        for clause in clauses:
            names = [
                clause.head,
                *(lit.relation for lit in clause.atoms if lit.relation in rank_of),
            ]
            self.checks[max(names, key=rank_of.__getitem__)].append(clause)
        for fold in folds:
            names = [*fold.outputs, *([fold.source] if fold.source in rank_of else [])]
            self.checks[max(names, key=rank_of.__getitem__)].append(fold)

    def run(self) -> Placement | None:
        return self.columns if self.assign(0) else None

    def assign(self, number: int) -> bool:
        if number == len(self.order):
            return True
        relation = self.order[number]
        for column in range(len(relation.types)):
            self.left -= 1
            if self.left < 0:
                return False
            self.columns[relation.name] = column
            if all(map(self.fits, self.checks[relation.name])) and self.assign(number + 1):
                return True
        self.columns.pop(relation.name, None)
        return False

    def fits(self, item: Clause | Fold) -> bool:
        """Whether an item whose derived relations are all placed needs no row from elsewhere."""
        derived = {relation.name for relation in self.order}
        if isinstance(item, Fold):
            column = self.columns[item.relation]
            same = all(self.columns[name] == column for name in item.outputs)
            if not same or column >= len(item.group):
                return False
            return item.source not in derived or self.columns[item.source] == item.group[column]
        key = item.args[self.columns[item.head]]
        if not isinstance(key, Slot):
            return False
        guarded = False
        for literal in item.atoms:
            if literal.relation in derived:
                if literal.args[self.columns[literal.relation]] != key:
                    return False
                guarded = guarded or isinstance(literal, Match)
            else:
                guarded = guarded or (isinstance(literal, Match) and kept(literal, key) is not None)
        return guarded
