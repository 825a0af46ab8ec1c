"""From one program's plan to another's in one epoch: what runs between the two.

Think of every clause as guarded by an atom that nobody writes: a clause that comes has its guard's
row inserted, one that goes has it deleted, and the delta rules of the guards do the rest:

    Δpath(x, z) :- Δ~gone(), old path(x, y), old edge(y, z).     derivations that break
    Δpath(x, z) :- Δ~come(), new path(x, y), new edge(y, z).     derivations that begin to hold

The guard stands first, so every other literal of its clause sees it as it was before: a clause that
goes has no other delta rule, one that comes has those on facts of its own stratum, which change one
at a time. So much is a change of rows like any other, in a stratum with the same relations before
and after. Invariant: after the epoch supports and ranks are exact for the new plan. They are not
where strata merge or split, nor where a stratum is no plain fixpoint, or is not kept: these are
evaluated anew (`fresh`), and what that changes is their delta. `rule_changes` is what one program
has and another has not, as text; a rule that is only renamed or reordered is in both.

The states of the two signals are those of schedules that see what is deleted and what is inserted
in one wave (`wavefront`, `local`) or that start from nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from deltafix.plan.clause import Clause, Match, Relation
from deltafix.plan.depend import Layer
from deltafix.plan.ir import HEAD, Plan, Stage, Variant
from deltafix.plan.order import Indexes, unique, variant
from deltafix.plan.recognise import edits, same_layer, same_rule
from deltafix.rules.ast import Dominates, Program, Rule
from deltafix.rules.show import show_order, show_rule

GONE, COME = "~gone", "~come"
SIGNALS = (GONE, COME)
"""Relations of one row, which has just gone, and has just come."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What runs for one epoch, and the plan from then on.

    `during` has the strata of `after`, under the same numbers, and behind them one for each
    relation that is no more. `fresh` are the strata that are evaluated anew, `kept` the earlier
    numbers of those outside the kernel that go on.
    """

    during: Plan
    after: Plan
    fresh: frozenset[int]
    kept: Mapping[int, int]


def transition(old: Plan, new: Plan, moved: AbstractSet[str], *, first: bool) -> Transition:
    """What leads from `old` to `new`, which has the indexes of `old` and more.

    Args:
        old: the plan that has run.
        new: the plan from now on.
        moved: relations whose given rows lie elsewhere in the new plan.
        first: nothing was evaluated yet: all strata are fresh.
    """
    built = {**old.indexes, **new.indexes}
    existing = {name: list(columns) for name, columns in built.items()}
    indexes = Indexes(existing, unique(new.relations, new.folds.values()))
    before = {} if first else {frozenset(s.relations): n for n, s in enumerate(old.stages)}
    stages: list[Stage] = []
    fresh: set[int] = set()
    kept: dict[int, int] = {}
    for number, stage in enumerate(new.stages):
        old_number = before.get(frozenset(stage.relations))
        was = None if old_number is None or moved & set(stage.relations) else old.stages[old_number]
        if was is not None and _goes_on(was, stage):
            stages.append(stage)
            if stage.outside is not None and old_number is not None:
                kept[number] = old_number
        elif was is None or not (_is_plain(was) and _is_plain(stage)):
            fresh.add(number)
            # The kernel skips a stratum without rules and recursion: it has nothing to forget.
            bare = not (stage.lower or stage.const or stage.outside)
            stages.append(replace(stage, recursive=True) if bare else stage)
        else:
            stages.append(_edited(was, stage, indexes))
    fresh |= _with_their_folds(old, new, fresh)
    kept = {number: old_number for number, old_number in kept.items() if number not in fresh}
    names = {relation.name for relation in new.relations}
    retired = (
        [] if first else [relation for relation in old.relations if relation.name not in names]
    )
    for relation in retired:
        fresh.add(len(stages))
        stages.append(Stage((relation.name,), True, (), (), (), (), ()))
    columns = {name: tuple(sets) for name, sets in indexes.columns.items()}
    after = replace(new, indexes={name: columns[name] for name in names})
    signals = tuple(Relation(name, (), hidden=True) for name in SIGNALS)
    during = Plan(
        (*new.relations, *retired, *signals),
        tuple(stages),
        {**columns, **dict.fromkeys(SIGNALS, ())},
        new.given,
        new.bounded,
    )
    return Transition(during, after, frozenset(fresh), kept)


def _with_their_folds(old: Plan, new: Plan, fresh: AbstractSet[int]) -> set[int]:
    """The strata to evaluate anew so that totals and what goes into them begin together.

    A fold that is fresh asks for all rows of its source, which are not there if it is not kept; one
    that was kept and is no more, or the other way round, would go into it a second time.
    """
    turned = old.pipelined ^ new.pipelined
    anew: set[int] = set()
    sources = {stage.relations[0]: n for n, stage in enumerate(new.stages) if stage.is_pipelined}
    for number, fold in new.folds.items():
        if fold.source in turned:
            anew.add(number)
        if fold.source in sources and (number in fresh or number in anew):
            anew.add(sources[fold.source])
    return anew


def is_same(old: Plan, new: Plan) -> bool:
    """Whether what holds by one plan does by the other, support for support, where it lies."""
    before = {frozenset(stage.relations): stage for stage in old.stages}
    return (
        {*old.relations} == {*new.relations}
        and old.given == new.given
        and before.keys() == {frozenset(stage.relations) for stage in new.stages}
        and all(_goes_on(before[frozenset(stage.relations)], stage) for stage in new.stages)
    )


def _is_plain(stage: Stage) -> bool:
    return stage.outside is None and not stage.best and not stage.is_pipelined


def _goes_on(was: Stage, stage: Stage) -> bool:
    """Whether a stratum has the same rules as before."""
    if was is stage:
        return True
    if was.recursive != stage.recursive or was.best != stage.best:
        return False
    if was.is_pipelined != stage.is_pipelined:
        return False
    if was.outside is None or stage.outside is None:
        same = edits(was.clauses, stage.clauses) == ((), ())
        return same and (was.outside, stage.outside) == (None, None)
    return same_layer(was.outside.layer, stage.outside.layer)


def _edited(was: Stage, stage: Stage, indexes: Indexes) -> Stage:
    """The stratum in the epoch of its edit.

    With one relation that begins or ceases to need itself, what holds it up is the same either
    way: it is recursive in between.
    """
    gone, came = edits(was.clauses, stage.clauses)
    layer = Layer(stage.relations, stage.clauses, was.recursive or stage.recursive)
    new = set(map(id, came))
    lower = (
        *(variant for variant in stage.lower if id(variant.clause) not in new),
        *(_guarded(layer, replace(clause, rule=-1), GONE, indexes) for clause in gone),
        *(_guarded(layer, clause, COME, indexes) for clause in came),
    )
    rederive = stage.rederive
    if layer.recursive and not stage.recursive:
        rederive = tuple(variant(layer, clause, HEAD, indexes) for clause in stage.clauses)
    return replace(stage, recursive=layer.recursive, lower=lower, rederive=rederive)


def _guarded(layer: Layer, clause: Clause, signal: str, indexes: Indexes) -> Variant:
    return variant(layer, replace(clause, body=(Match(signal, ()), *clause.body)), 0, indexes)


Said: TypeAlias = Rule | Dominates
"""A rule or a subsumption."""


class RuleChange(NamedTuple):
    """A rule or subsumption, as text, that came (`sign` 1) or went (-1)."""

    sign: int
    rule: str

    def __str__(self) -> str:
        return f"rule {'+' if self.sign > 0 else '-'}{self.rule}"


def rule_changes(old: Program, new: Program) -> dict[RuleChange, Said]:
    """The rules of only one of two programs, without their names, by what became of them.

    Linear in the programs, and quadratic in the rules that differ.
    """
    changes: dict[RuleChange, Said] = {}
    for sign, program, other in ((-1, old, new), (1, new, old)):
        shown, others = _shown(program), _shown(other)
        rest = [rule for text, rule in others.items() if text not in shown]
        for text, rule in shown.items():
            if text not in others and not any(same_rule(rule, like) for like in rest):
                changes[RuleChange(sign, text)] = rule
    return changes


def _shown(program: Program) -> dict[str, Said]:
    rules: dict[str, Said] = {}
    for rule in program.rules:
        bare = replace(rule, name="")
        rules[show_rule(bare)] = bare
    for order in program.orders:
        plain = replace(order, name="")
        rules[show_order(plain)] = plain
    return rules
