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
    Absent,
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
    types = {one.name: one.types for one in core.relations}
    folds = defaultdict[str, list[Fold]](list)
    for fold in core.folds:
        folds[fold.source].append(fold)
    named = {*core.demands, *core.apart, *core.apart.values(), *core.indexes}
    found = {
        one.name
        for one in core.relations
        if one.name in folds
        and all(fold.is_total(types) for fold in folds[one.name])
        and (one.hidden or one.of)
        and not (one.merge or one.entry or one.is_range or one.is_domain)
        and one.name not in named
    }
    found -= {one.entry for one in core.relations}
    found -= {name for fold in core.folds for name in fold.made}
    clauses = defaultdict[str, list[Clause]](list)
    for clause in core.clauses if found else ():
        if clause.head in found:
            clauses[clause.head].append(clause)
        found.difference_update(
            one.relation for one in clause.body if isinstance(one, Match | Absent)
        )
    keys = _keys(core.relations, core.folds) if found else {}
    return frozenset(name for name in found if _has_one_derivation(clauses[name], keys))


def _keys(relations: Iterable[Relation], folds: Iterable[Fold]) -> dict[str, tuple[int, ...]]:
    """By relation the columns that tell its rows apart, where not all are needed."""
    found = {one.name: one.key for one in relations if one.key}
    for fold in folds:
        if fold.has_value:
            found[fold.relation] = tuple(range(len(fold.group)))
    return found


def _has_one_derivation(clauses: Sequence[Clause], keys: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether no two derivations, by one clause or by two, have the same row."""
    return (
        bool(clauses)
        and all(_names_its_rows(one, keys) for one in clauses)
        and all(_differ(one, other) for one, other in combinations(clauses, 2))
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


def _differ(one: Clause, other: Clause) -> bool:
    """Whether some column is one constant by one clause, and another by the other."""
    pairs = zip(one.args, other.args, strict=True)
    return any(
        isinstance(mine, Code) and isinstance(yours, Code) and mine != yours
        for mine, yours in pairs
    )
