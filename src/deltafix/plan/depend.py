"""Strata of the core: which relations are computed together, dependencies first.

Negation inside a stratum is taken when it comes in even numbers on every cycle: the stratum then
has two sides. Rising relations (the first one declared, and all that an even number of negations
away from it) are least; falling ones, an odd number away, are what their clauses derive from the
rising ones as they stand, so they shrink while those grow. Invariant: every relation is in exactly
one stratum, input relations in one of their own. Checked programs have no odd cycle; hidden
relations can make one in a single case, which is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltafix.diagnostics import Diagnostic
from deltafix.errors import ProgramError
from deltafix.plan.clause import (
    Absent,
    Clause,
    Fold,
    Literal,
    Match,
    Merge,
    Relation,
    Subsumption,
)
from deltafix.plan.normalize import Core
from deltafix.rules.strata import components

__all__ = ["Layer", "layers", "made_by"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One stratum: its relations, its clauses, and whether a relation needs itself.

    `falling` are the relations on the other side of an even negation; `merges` what its relations
    keep of what is derived for them. A stratum with either is not a plain least fixpoint of rows.
    One with a `fold` has no clauses: it is that aggregate.
    """

    relations: tuple[str, ...]
    clauses: tuple[Clause, ...]
    recursive: bool
    falling: frozenset[str] = frozenset()
    merges: tuple[tuple[str, Merge], ...] = ()
    fold: Fold | None = None

    @property
    def plain(self) -> bool:
        """Whether the stratum is the least fixpoint of its clauses, by rows and support."""
        return not self.falling and not self.merges and self.fold is None


def layers(core: Core) -> tuple[Layer, ...]:
    """The strata of a core, in the order they are computed. Linear in its size.

    Raises ProgramError (DF171) where a negated group needs, through the variables it only tests,
    the relation that is being defined.
    """
    needed: dict[str, dict[str, None]] = {r.name: {} for r in core.relations}
    for head, literal in _uses(core):
        needed[head][literal.relation] = None
    folds = {name: fold for fold in core.folds for name in made_by(fold)}
    for name, made in folds.items():  # each needs the other: one stratum
        needed[name].update(dict.fromkeys((made.source, *made_by(made))))
    found = []
    for members in components(needed):
        names = frozenset(members)
        ordered = tuple(r for r in core.relations if r.name in names)
        clauses = tuple(clause for clause in core.clauses if clause.head in names)
        relations = tuple(r.name for r in ordered)
        fold = next((folds[name] for name in relations if name in folds), None)
        if fold is not None:
            if set(relations) != set(made_by(fold)):
                _refuse(clauses[0], "aggregate")
            found.append(Layer(relations, (), False, fold=fold))
            continue
        recursive = len(ordered) > 1 or ordered[0].name in needed[ordered[0].name]
        falling = _falling(ordered, clauses)
        merges = tuple((r.name, r.merge) for r in ordered if r.merge is not None)
        found.append(Layer(relations, clauses, recursive, falling, merges))
    return tuple(found)


def _uses(core: Core) -> Iterator[tuple[str, Match | Absent]]:
    """Every relation that a relation needs, through its clauses and its orders."""
    bodies: list[tuple[str, tuple[Literal, ...]]] = [(c.head, c.body) for c in core.clauses]
    for relation in core.relations:
        if isinstance(relation.merge, Subsumption):
            bodies.extend((relation.name, order.body) for order in relation.merge.orders)
    for head, body in bodies:
        yield from ((head, found) for found in body if isinstance(found, Match | Absent))


def _falling(relations: tuple[Relation, ...], clauses: tuple[Clause, ...]) -> frozenset[str]:
    """The relations an odd number of negations away from the first one declared."""
    names = {relation.name for relation in relations}
    edges: dict[str, list[tuple[str, bool, Clause]]] = {name: [] for name in names}
    negated = False
    for clause in clauses:
        for literal in clause.body:
            if isinstance(literal, Match | Absent) and literal.relation in names:
                odd = isinstance(literal, Absent)
                negated = negated or odd
                edges[clause.head].append((literal.relation, odd, clause))
                edges[literal.relation].append((clause.head, odd, clause))
    if not negated:
        return frozenset()
    first = next((r.name for r in relations if not r.hidden), relations[0].name)
    side = {first: False}
    todo = [first]
    while todo:
        name = todo.pop()
        for other, odd, clause in edges[name]:
            wanted = side[name] != odd
            if other not in side:
                side[other] = wanted
                todo.append(other)
            elif side[other] != wanted:
                _refuse(clause, "negated group")
    return frozenset(name for name, odd in side.items() if odd)


def made_by(fold: Fold) -> tuple[str, ...]:
    """The relations that a fold makes."""
    return (fold.relation,) if fold.present is None else (fold.relation, fold.present)


def _refuse(clause: Clause, what: str) -> None:
    message = (
        f"the {what} in rule {clause.rule + 1} tests a variable that only "
        f"the recursion through `{clause.head}` binds"
    )
    inside = what.rsplit(maxsplit=1)[-1]
    hint = f"bind the variable inside the {inside}, by an atom of a lower relation"
    diagnostic = Diagnostic("DF171", message, None, hint)
    raise ProgramError(f"error[DF171]: {message}\n  help: {hint}", [diagnostic])
