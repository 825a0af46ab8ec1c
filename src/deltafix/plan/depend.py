"""Strata of the core: which relations are computed together, dependencies first.

Negation inside a stratum is taken when it comes in even numbers on every cycle: the stratum then
has two sides. Rising relations (the first one declared, and all that an even number of negations
away from it) are least; falling ones, an odd number away, are what their clauses derive from the
rising ones as they stand, so they shrink while those grow. Invariant: every relation is in exactly
one stratum, input relations in one of their own. Checked programs have no odd cycle; hidden
relations can make one in a single case, which is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import NoReturn

from deltafix.diagnostics import Diagnostic
from deltafix.plan.clause import (
    Absent,
    Clause,
    Fold,
    Match,
    Merge,
    Relation,
    Subsumption,
)
from deltafix.plan.founded import Calls, calls
from deltafix.plan.normalize import Core
from deltafix.rules.apart import plain_name
from deltafix.rules.scope import first_place
from deltafix.rules.strata import aggregating, components, odd_side
from deltafix.rules.terms import Aggregate


@dataclass(frozen=True, slots=True)
class Layer:
    """One stratum: its relations, its clauses, and whether a relation needs itself.

    `falling` are the relations on the other side of an even negation; `merges` what its relations
    keep of what is derived for them. A stratum with either is not a plain least fixpoint of rows.
    One with a `fold` has no clauses: it is that aggregate. One with `folds` aggregates over itself,
    in the order of its `calls`.
    """

    relations: tuple[str, ...]
    clauses: tuple[Clause, ...]
    recursive: bool
    falling: frozenset[str] = frozenset()
    merges: tuple[tuple[str, Merge], ...] = ()
    fold: Fold | None = None
    folds: tuple[Fold, ...] = ()
    calls: Calls | None = field(default=None, compare=False, repr=False)

    @property
    def plain(self) -> bool:
        """Whether the stratum is the least fixpoint of its clauses, by rows and support."""
        return not (self.falling or self.merges or self.folds) and self.fold is None


def layers(core: Core) -> tuple[Layer, ...]:
    """The strata of a core, in the order they are computed. Linear in its size.

    Raises ProgramError (DF171) where a negated group needs, through the variables it only tests,
    the relation that is being defined, and no domain bounds what that computes.
    """
    folds = {name: fold for fold in core.folds for name in fold.outputs}
    needed = needs(core)
    number_of = {relation.name: number for number, relation in enumerate(core.relations)}
    derives: dict[str, list[tuple[int, Clause]]] = {name: [] for name in number_of}
    for number, clause in enumerate(core.clauses):
        derives[clause.head].append((number, clause))
    strata = []
    for members in components(needed):
        ordered = tuple(
            [core.relations[number] for number in sorted(map(number_of.__getitem__, members))]
        )
        mine = chain.from_iterable(map(derives.__getitem__, members))
        clauses = tuple([clause for _, clause in sorted(mine, key=itemgetter(0))])
        relations = tuple([relation.name for relation in ordered])
        within = tuple({id(f): f for name in relations if (f := folds.get(name))}.values())
        if within and set(relations) == set(within[0].outputs):
            strata.append(Layer(relations, (), False, fold=within[0]))
            continue
        if within:
            strata.append(_founded(core, relations, clauses, within))
            continue
        recursive = len(ordered) > 1 or ordered[0].name in needed[ordered[0].name]
        falling = falling_side(ordered, clauses)
        if falling is None:
            _refuse(core, members)
        merges = tuple([(r.name, r.merge) for r in ordered if r.merge is not None])
        if merges and any(literal.relation in relations for _, literal in _ordering(ordered)):
            _refuse(core, members)
        strata.append(Layer(relations, clauses, recursive, falling, merges))
    return tuple(strata)


def _founded(
    core: Core, relations: tuple[str, ...], clauses: tuple[Clause, ...], folds: tuple[Fold, ...]
) -> Layer:
    """A stratum that aggregates over itself. Raises ProgramError (DF140, DF171)."""
    names = frozenset(relations)
    founded = calls(clauses, folds) if names.isdisjoint(core.demands) else None
    if founded is None:
        program = core.program
        for first in () if program is None else aggregating(program, names):
            raise core.refusal(first)
        _refuse(core, names)
    return Layer(relations, clauses, True, folds=folds, calls=founded)


def needs(core: Core) -> dict[str, dict[str, None]]:
    """The relations that each relation needs: through clauses, orders and folds."""
    needed: dict[str, dict[str, None]] = {r.name: {} for r in core.relations}
    for head, literal in _uses(core):
        needed[head][literal.relation] = None
    for fold in core.folds:
        for name in fold.outputs:  # each needs the other: one stratum
            needed[name].update(dict.fromkeys((fold.source, *fold.outputs)))
    return needed


def _uses(core: Core) -> Iterator[tuple[str, Match | Absent]]:
    """Every relation that a relation needs, through its clauses and its orders."""
    for clause in core.clauses:
        for atom in clause.atoms:
            yield clause.head, atom
    yield from _ordering(core.relations)


def _ordering(relations: Iterable[Relation]) -> Iterator[tuple[str, Match | Absent]]:
    """What the orders of some relations look at."""
    for relation in relations:
        for order in relation.merge.orders if isinstance(relation.merge, Subsumption) else ():
            yield from (
                (relation.name, literal)
                for literal in order.body
                if isinstance(literal, (Match, Absent))
            )


def falling_side(
    relations: tuple[Relation, ...], clauses: tuple[Clause, ...]
) -> frozenset[str] | None:
    """The relations an odd number of negations away from the first one declared.

    None where there is an odd cycle.
    """
    names = {relation.name for relation in relations}
    edges: dict[str, list[tuple[str, bool]]] = {name: [] for name in names}
    negated = False
    for clause in clauses:
        for atom in clause.atoms:
            if atom.relation in names:
                odd = isinstance(atom, Absent)
                negated = negated or odd
                edges[clause.head].append((atom.relation, odd))
                edges[atom.relation].append((clause.head, odd))
    if not negated:
        return frozenset()
    first = next((r.name for r in relations if not r.hidden), relations[0].name)
    return odd_side(first, edges)


def _refuse(core: Core, members: Iterable[str]) -> NoReturn:
    """Refuse a stratum in which what a group or aggregate is asked for depends on its answer."""
    names = set(members)
    through = next(r.name for r in core.relations if r.name in names and not r.hidden)
    demand = next(demand for name, demand in core.demands.items() if name in names)
    kind = "aggregate" if isinstance(demand.inside, Aggregate) else "negated group"
    variable = demand.variable
    span = first_place(demand.inside, variable) or demand.inside.span
    message = (
        f"the {kind} tests `{plain_name(variable)}`, which only the recursion through "
        f"`{through}` binds"
    )
    hint = (
        f"bind `{plain_name(variable)}` by an atom that does not depend on `{through}`, or bound "
        f"the values that `{through}` computes (`x < 20`)"
    )
    raise core.refusal(Diagnostic("DF171", message, span, hint))
