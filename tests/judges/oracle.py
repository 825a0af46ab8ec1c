"""The judge of everything: a naive evaluator in plain Python, slow and readable.

`evaluate(program, inputs)` recomputes all relations from nothing. It shares with deltafix the
program as data and nothing else: its own strata, its own typing, its own meaning of functors.
`functors` are the Python functions behind `@name`, `reducers` functions from a list of values
behind `@@name`.

Meaning: a body is a set of bindings. `!` and aggregates look at completed relations only; the
variables that no enclosing body mentions are theirs (existential under `!`, ranged over in an
aggregate, `_` included). Integers wrap at 64 bits; what has no value (division by zero, the
minimum of nothing, a number read from "abc") makes the binding not hold. A record is a pattern
where its variables are free, and a value where they are known.

A relation that joins, drops or closes rows (`oracle_keep`) does so over everything derived for it,
again in every round. Where a stratum negates itself, relations an odd number of negations away
from the first one are recomputed from nothing in every round of the others. Where it aggregates
over itself, every round derives all of it anew from the round before: what is right for a group
stays so, and data that are well founded settle, one group after those it needs.
"""

from __future__ import annotations

import operator
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.judges.oracle_keep import choice, equivalence, lattice
from tests.judges.oracle_rules import Case, Facts, World
from tests.judges.oracle_scopes import cases_of, hoisted
from tests.judges.oracle_strata import levels, loops, uses_of
from tests.judges.oracle_values import Undefined, order

from deltafix.rules.ast import Dominates, Program
from deltafix.rules.terms import constant

__all__ = ["Undefined", "evaluate"]


def evaluate(
    program: Program,
    inputs: Facts,
    max_rounds: int = 10_000,
    functors: Mapping[str, Callable] = MappingProxyType({}),
    reducers: Mapping[str, Callable] = MappingProxyType({}),
) -> Facts:
    """All relations of `program` over the given facts, recomputed from scratch."""
    ready = Ready.of(program, functors, reducers)
    given = {r.name: set(map(tuple, inputs.get(r.name, ()))) for r in program.relations}
    facts: Facts = {name: set() for name in given}

    def settle(names: list[str]) -> bool:
        """Rounds over some relations until nothing changes; whether anything did.

        A case whose relations are as they were derives what it did.
        """
        keepers = {name: Keeper(ready.world, name) for name in names}
        mine = [case for case in ready.cases if not ready.heads[case].isdisjoint(names)]
        last: dict[Case, tuple[list[set], list[tuple[str, tuple]]]] = {}
        changed = False
        for _ in range(max_rounds):
            derived: Facts = {name: set(given[name]) for name in names}
            for case in mine:
                now = [facts[name] for name in ready.read[case]]
                if case not in last or last[case][0] != now:
                    last[case] = now, list(case.derive(facts))
                for name, row in last[case][1]:
                    if name in derived:
                        derived[name].add(row)
            moved = False
            for name in names:
                before = set() if name in ready.founded else facts[name]
                rows = keepers[name].keep(before, derived[name], facts)
                moved = moved or rows != facts[name]
                facts[name] = rows
            if not moved:
                return changed
            changed = True
            if len(names) == 1 and names[0] not in ready.looping:
                return changed
        raise RuntimeError(f"no fixpoint after {max_rounds} rounds")

    for here in ready.strata:
        rising = [name for name in here if name not in ready.falling]
        rest = [name for name in here if name in ready.falling]
        while True:
            for name in rest:
                facts[name] = set()
            settle(rest)
            if not settle(rising) or not rest:
                break
    return facts


class Ready:
    """What does not depend on rows: the strata of a program, and the cases of its rules.

    The last programs are kept, since most are evaluated again and again, over other rows.
    """

    def __init__(
        self, program: Program, functors: Mapping[str, Callable], reducers: Mapping[str, Callable]
    ) -> None:
        self.world = World(program, functors, reducers)
        level, self.falling, self.founded = levels(program)
        self.strata: list[list[str]] = [[] for _ in {*level.values()}]
        places = {number: place for place, number in enumerate(sorted({*level.values()}))}
        for relation in program.relations:
            self.strata[places[level[relation.name]]].append(relation.name)
        self.cases = [
            Case(self.world, rule, parts)
            for rule in map(hoisted, program.rules)
            for parts in cases_of(rule.body)
        ]
        self.heads = {case: {head.relation for head in case.rule.heads} for case in self.cases}
        self.read = {case: uses_of(case.rule) for case in self.cases}
        self.looping = {one.name for one in program.relations if loops(one.name, program)}

    @classmethod
    def of(
        cls, program: Program, functors: Mapping[str, Callable], reducers: Mapping[str, Callable]
    ) -> Ready:
        """It, made now or for an evaluation before; of this very thread, since cases hold facts."""
        given = (program, functors, reducers)
        for one in _KEPT.last:
            world = (one.world.program, one.world.functors, one.world.reducers)
            if all(map(operator.is_, world, given)):
                return one
        _KEPT.last.append(cls(*given))
        return _KEPT.last[-1]


class _Kept(threading.local):
    def __init__(self) -> None:
        self.last: deque[Ready] = deque(maxlen=4)


_KEPT = _Kept()


class Keeper:
    """What one relation keeps of the rows derived for it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.declared = world.program.relation(name)
        self.orders = [o for o in world.program.orders if o.less.relation == name]

    def keep(self, before: set, derived: set, facts: Facts) -> set:
        names = [a.name for a in self.declared.attributes]
        if "eqrel" in self.declared.qualifiers:
            return equivalence(before | derived)
        if self.declared.choices:
            keys = [tuple(names.index(n) for n in c) for c in self.declared.choices]
            return choice(before, derived, keys)
        if self.declared.joined:
            joins = {i: self.join(i) for i in self.declared.joined}
            least = {i: self.least(i) for i in joins}
            return lattice(before | derived, joins, least)
        rows = before | derived
        if self.orders:
            return {
                row
                for row in rows
                if not any(self.dominated(row, o, rows, facts) for o in self.orders)
            }
        return rows

    def join(self, column: int) -> Callable:
        kind = self.declared.attributes[column].join
        if kind != "<>":
            return lambda one, two: {"min": min, "max": max}[kind](one, two, key=order)
        found = self.lattice(column).operation("Lub")
        return self.world.functors[found.functor[1:]]

    def least(self, column: int) -> object:
        """The bottom of a user lattice, in a tuple; nothing for `min` and `max`."""
        if self.declared.attributes[column].join != "<>":
            return ()
        return (constant(self.lattice(column).operation("Bottom")),)

    def lattice(self, column: int) -> object:
        kind = self.world.program.kind(self.declared.attributes[column].type)
        return next(
            x for x in self.world.program.lattices if self.world.program.kind(x.type) == kind
        )

    def dominated(self, row: tuple, order: Dominates, rows: set, facts: Facts) -> bool:
        case = Case(self.world, order.rule, ())
        case.facts = facts = {**facts, self.name: rows}
        env = case.match(order.less.args, row, {})
        for other in rows if env is not None else ():
            both = case.match(order.more.args, other, env)
            if both is None or other == row:
                continue
            for parts in cases_of(order.body):
                test = Case(self.world, order.rule, (order.less, order.more, *parts))
                test.facts = facts
                if any(True for _ in test.solve(parts, both)):
                    return True
        return False
