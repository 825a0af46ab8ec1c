"""Which programs need no shuffle: a column that every derivation keeps.

A derived relation is *split* by a column when each of its rows lives in the shard of that column's
value. A clause then runs inside shards if its head and its derived literals have one variable at
their columns: in `tc(x, z) :- tc(x, y), edge(y, z)` tc keeps x. A given relation goes where it is
needed: to the shard of the kept variable where a literal has it, and to every shard elsewhere. If
all derived relations can be split so, each shard maintains its part with its own engine, recursion
and all, and nothing crosses shards.

Invariant: with a placement from here, the shards' parts of a derived relation are disjoint and
their union is the program's. The search is exact up to `LIMIT` choices; giving up is safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from deltafix.plan.clause import Absent, Clause, Fold, Match, Relation, Slot
from deltafix.spark.shards.core import Prepared

LIMIT = 20_000
"""Choices tried before a program is taken as not decomposable."""

Placement: TypeAlias = Mapping[str, int]
"""Per derived relation the column it is split by."""


def decompose(prepared: Prepared) -> Placement | None:
    """A placement without messages, or None if there is none (or none was found)."""
    if prepared.pinned:
        return None
    core = prepared.core
    names = {clause.head for clause in core.clauses} | {n for f in core.folds for n in f.made}
    place = {name: n for n, layer in enumerate(prepared.layers) for name in layer.relations}
    order = sorted((r for r in core.relations if r.name in names), key=lambda r: place[r.name])
    return _Search(order, core.clauses, core.folds).run() if order else None


def atoms(clause: Clause) -> Iterator[Match | Absent]:
    """The literals of a clause that read relations."""
    return (literal for literal in clause.body if isinstance(literal, Match | Absent))


def kept(literal: Match | Absent, key: Slot) -> int | None:
    """The first column of a literal that holds the variable; None: it has none."""
    return literal.args.index(key) if key in literal.args else None


class _Search:
    def __init__(
        self, order: Sequence[Relation], clauses: Sequence[Clause], folds: Sequence[Fold]
    ) -> None:
        self.order = order
        self.left = LIMIT
        self.found: dict[str, int] = {}
        self.checks: dict[str, list[Clause | Fold]] = {r.name: [] for r in order}
        place = {relation.name: n for n, relation in enumerate(order)}
        for clause in clauses:
            names = [clause.head, *(lit.relation for lit in atoms(clause) if lit.relation in place)]
            self.checks[max(names, key=place.__getitem__)].append(clause)
        for fold in folds:
            names = [*fold.made, *([fold.source] if fold.source in place else [])]
            self.checks[max(names, key=place.__getitem__)].append(fold)

    def run(self) -> Placement | None:
        return self.found if self.place(0) else None

    def place(self, number: int) -> bool:
        if number == len(self.order):
            return True
        relation = self.order[number]
        for column in range(len(relation.types)):
            self.left -= 1
            if self.left < 0:
                return False
            self.found[relation.name] = column
            if all(map(self.fits, self.checks[relation.name])) and self.place(number + 1):
                return True
        self.found.pop(relation.name, None)
        return False

    def fits(self, item: Clause | Fold) -> bool:
        """Whether an item whose derived relations are all placed needs no row from elsewhere."""
        derived = {relation.name for relation in self.order}
        if isinstance(item, Fold):
            column = self.found[item.relation]
            same = all(self.found[name] == column for name in item.made)
            if not same or column >= len(item.group):
                return False
            return item.source not in derived or self.found[item.source] == item.group[column]
        key = item.args[self.found[item.head]]
        if not isinstance(key, Slot):
            return False
        guarded = False
        for literal in atoms(item):
            if literal.relation in derived:
                if literal.args[self.found[literal.relation]] != key:
                    return False
                guarded = guarded or isinstance(literal, Match)
            else:
                guarded = guarded or (isinstance(literal, Match) and kept(literal, key) is not None)
        return guarded
