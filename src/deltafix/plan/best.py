"""Which strata keep the best row of each key in the kernel (`kernel.best`), and which elsewhere.

The kernel stores only the best row, so a value must not rest on a worse one that it has itself
replaced: with `height(n, min(h + 1, 9))` a cycle climbs to 9 and everything it stood on is gone.
That cannot be where every value is built from all the values of its recursive body atoms, in the
whole stratum either by sums and differences alone (going round a cycle changes nothing, makes it
worse, or improves without end), or by caps alone: `min` under `<max>`, `max` under `<min>` (going
round never improves). Invariant: what is not of this form goes to `engine.beyond`, which
remembers what others rest on.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache

from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Compare,
    Lattice,
    LatticeColumn,
    Match,
    Slot,
)
from deltafix.plan.depend import Layer

_CAP = {"min": "max", "max": "min"}
"""The functor that can only make a value worse."""


@lru_cache(maxsize=256)
def best_of(layer: Layer) -> tuple[tuple[str, LatticeColumn], ...]:
    """The relations of a stratum that the kernel keeps the best rows of; empty: it does not."""
    if layer.falling or not layer.merges or not layer.recursive:
        return ()
    columns = {}
    for name, merge in layer.merges:
        if not isinstance(merge, Lattice) or len(merge.columns) != 1:
            return ()
        columns[name] = merge.columns[0]
    if set(columns) != set(layer.relations):
        return ()
    if any(kept.join not in _CAP for kept in columns.values()):
        return ()
    if not all(len(clause.args) > 1 for clause in layer.clauses):
        return ()
    joins = {kept.join for kept in columns.values()}
    if len(joins) > 1:
        return ()
    ways = (frozenset(("+", "-")), frozenset(_CAP[join] for join in joins))
    if not any(all(_is_built_up(c, columns, way) for c in layer.clauses) for way in ways):
        return ()
    return tuple(columns.items())


def _is_built_up(clause: Clause, kept: dict[str, LatticeColumn], way: frozenset[str]) -> bool:
    """Whether the head's value is built from that of every recursive atom by functors of `way`."""
    column = kept[clause.head]
    sources: dict[Argument, frozenset[int]] = {}
    recursive = set()
    for position, literal in enumerate(clause.body):
        if isinstance(literal, Match) and literal.relation in kept:
            value = literal.args[kept[literal.relation].column]
            if not isinstance(value, Slot) or value in sources:
                return False
            sources[value] = frozenset((position,))
            recursive.add(position)
    if not recursive:
        return True
    steps = [literal for literal in clause.body if isinstance(literal, Apply)]
    computed = {step.target for step in steps}
    if computed & sources.keys():
        return False  # a recursive atom's value is compared with a computed one
    for _ in steps:
        for step in steps:
            known = [sources[arg] for arg in step.args if arg in sources]
            if known:
                sources[step.target] = frozenset().union(*known)
    if not all(_is_step(step, sources, way) for step in steps):
        return False
    if set(sources.get(clause.args[column.column], ())) != recursive:
        return False
    return not _is_tested(clause, column.column, sources, kept)


def _is_step(step: Apply, sources: Container[Argument], way: frozenset[str]) -> bool:
    """Whether a functor keeps values on their way; those of other values may do anything."""
    if step.target not in sources:
        return True
    return step.functor in way and (step.functor != "-" or step.args[1] not in sources)


def _is_tested(
    clause: Clause,
    column: int,
    sources: dict[Argument, frozenset[int]],
    kept: dict[str, LatticeColumn],
) -> bool:
    """Whether a value on its way is used for anything else."""
    if any(arg in sources for c, arg in enumerate(clause.args) if c != column):
        return True
    for literal in clause.body:
        if isinstance(literal, Apply):
            continue
        arguments = list(_arguments(literal))
        if isinstance(literal, Match) and literal.relation in kept:
            del arguments[kept[literal.relation].column]
        if any(arg in sources for arg in arguments):
            return True
    return False


def _arguments(literal: object) -> tuple[Argument | None, ...]:
    if isinstance(literal, (Match, Absent)):
        return literal.args
    assert isinstance(literal, Compare)  # noqa: S101  the remaining kind
    return (literal.left, literal.right)
