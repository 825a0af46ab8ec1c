"""Relations that need not be kept: only aggregates that add up read them, each row as it comes.

    total(g, s) :- s = sum a * b : { sale(g, k, a), price(k, b) }.

A hidden relation has a row for each binding of the aggregate's body, and the sum follows from what
comes and goes there: a derivation more adds its value, one less takes it away. So the rows are not
kept, if each has one derivation. That is so where a row tells which rows its body matched: they are
named by their columns, or by a key of them (`Relation.key`), and two clauses never derive one row.

Invariant: nobody but totals (`Fold.is_total`) reads a relation of `pipelined`, no row is given to
it, and no program says its name. (GROUP BY over a table of facts copied the table: TPC-H's query 1
had 590,000 rows behind its four.) Not here: what is done with such rows (`kernel.fold`), and how a
proof finds them again (`provenance.rows`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING

from deltafix.plan.clause import (
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Match,
    Slot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deltafix.plan.clause import Relation
    from deltafix.plan.normalize import Core


def pipelined(core: Core) -> frozenset[str]:
    """The relations of a core that are not kept. O(literals of the core and of these relations)."""
    types = {relation.name: relation.types for relation in core.relations}
    folds = defaultdict[str, list[Fold]](list)
    for fold in core.folds:
        folds[fold.source].append(fold)
    named = {*core.demands, *core.apart, *core.apart.values(), *core.indexes}
    candidates = {
        relation.name
        for relation in core.relations
        if relation.name in folds
        and all(fold.is_total(types) for fold in folds[relation.name])
        and (relation.hidden or relation.of)
        and not (relation.merge or relation.entry or relation.is_range or relation.is_domain)
        and relation.name not in named
    }
    candidates -= {relation.entry for relation in core.relations}
    candidates -= {name for fold in core.folds for name in fold.outputs}
    clauses = defaultdict[str, list[Clause]](list)
    for clause in core.clauses if candidates else ():
        if clause.head in candidates:
            clauses[clause.head].append(clause)
        candidates.difference_update([atom.relation for atom in clause.atoms])
    keys = _keys(core.relations, core.folds) if candidates else {}
    return frozenset(name for name in candidates if _has_one_derivation(clauses[name], keys))


def _keys(relations: Iterable[Relation], folds: Iterable[Fold]) -> dict[str, tuple[int, ...]]:
    """By relation the columns that tell its rows apart, where not all are needed."""
    keys = {relation.name: relation.key for relation in relations if relation.key}
    for fold in folds:
        if fold.has_value:
            keys[fold.relation] = tuple(range(len(fold.group)))
    return keys


def _has_one_derivation(clauses: Sequence[Clause], keys: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether no two derivations, by one clause or by two, have the same row."""
    return (
        bool(clauses)
        and all(_names_its_rows(clause, keys) for clause in clauses)
        and all(_differ(first, second) for first, second in combinations(clauses, 2))
    )


def _names_its_rows(clause: Clause, keys: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the head's columns say which row each literal of the body has matched."""
    known = {arg for arg in clause.args if isinstance(arg, Slot)}
    left = list(clause.body)
    while True:
        rest = []
        for literal in left:
            if isinstance(literal, Match):
                width = range(len(literal.args))
                key = keys.get(literal.relation) or tuple(width)
                if all(_is_known(literal.args[column], known) for column in key):
                    known.update(arg for arg in literal.args if isinstance(arg, Slot))
                    continue
            elif isinstance(literal, Apply):
                if all(_is_known(arg, known) for arg in literal.args):
                    known.add(literal.target)
                    continue
                if literal.is_making and literal.target in known:
                    known.update(arg for arg in literal.args if isinstance(arg, Slot))
                    continue
            elif isinstance(literal, Compare) and literal.op == "=":
                sides = literal.left, literal.right
                if any(_is_known(side, known) for side in sides):
                    known.update(side for side in sides if isinstance(side, Slot))
                    continue
            rest.append(literal)
        if len(rest) == len(left):
            return not any(isinstance(literal, Match) for literal in rest)
        left = rest


def _is_known(arg: Argument | None, known: set[Slot]) -> bool:
    return isinstance(arg, Code) or arg in known


def _differ(clause: Clause, other: Clause) -> bool:
    """Whether some column is one constant by one clause, and another by the other."""
    pairs = zip(clause.args, other.args, strict=True)
    return any(
        isinstance(mine, Code) and isinstance(yours, Code) and mine != yours
        for mine, yours in pairs
    )
