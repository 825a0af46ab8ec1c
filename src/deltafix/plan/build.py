"""From a program to its plan: the passes in one tuple, `PASSES`, and the last of them.

Each pass takes what the one before it gave; `forms` prints what each gives, and so does
`deltafix plan --stage`. Invariant: deterministic; the same program gives the same plan, text and
all.

What is given to a relation that keeps only some of its rows, or that even negation decides, lies in
a hidden input relation of its own, and a clause proposes it (`dist(x, d) :- ~given dist(x, d).`): a
stratum outside the kernel only ever hears of lower relations.

A program is bounded by inputs that a negation, an aggregate or a merge reads: without rows in
`lim`, `n(x + 1) :- n(x), !lim(x)` never ends, so it must not be evaluated before they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from deltafix.diagnostics import Diagnostic
from deltafix.errors import ProgramError
from deltafix.plan.best import best_of
from deltafix.plan.cache import Cache, identity
from deltafix.plan.clause import Absent, Clause, Literal, Match, Subsumption, given_apart
from deltafix.plan.depend import Layer, layers
from deltafix.plan.derive import triggers_below, triggers_within
from deltafix.plan.explain import explain
from deltafix.plan.ir import HEAD, KEY, Outside, Plan, Stage, Variant
from deltafix.plan.normalize import Core, normalize
from deltafix.plan.order import Indexes, Variants, unique
from deltafix.plan.pipelined import pipelined
from deltafix.plan.share import share
from deltafix.plan.tell import tell
from deltafix.rules.ast import Program
from deltafix.rules.check import CheckedProgram, typed
from deltafix.rules.passes.magic import executable
from deltafix.rules.show import show

if TYPE_CHECKING:
    from deltafix.datalog.load import Analysis
    from deltafix.facts.values import BaseType


def lower(checked: CheckedProgram, cache: Cache | None = None) -> Core:
    """The core of the program that is run for a checked one; what the cache has is not made."""
    return share(normalize(executable(checked), cache), cache)


def plan(checked: CheckedProgram) -> Plan:
    """The plan of a checked program. Raises ProgramError for constructs no executor runs."""
    return plan_core(lower(checked))


def plan_core(
    core: Core,
    built: Mapping[str, Sequence[tuple[int, ...]]] = MappingProxyType({}),
    before: Sequence[Stage] = (),
    cache: Cache | None = None,
) -> Plan:
    """The plan of a core, with the indexes that are built already. Raises as `plan`.

    Clauses that a stratum had `before`, by a plan whose indexes are built, are not planned again,
    nor are strata that say what they did when the cache was used for that plan.
    """
    cache = Cache() if cache is None else cache
    ordered = layers(core)
    # Asked before rows are set apart: a relation that only those lie in is no input of users.
    bounded = is_bounded(core, ordered)
    core, ordered, given = set_apart(core, ordered)
    existing = {relation.name: list(built.get(relation.name, ())) for relation in core.relations}
    indexes = Indexes(existing, unique(core.relations, core.folds))
    for name, wanted in core.indexes.items():
        for index in wanted:
            indexes.add(name, index)
    known = {stage.relations: stage for stage in before}
    stages: list[Stage | None] = [
        _as_before(layer, cache.strata.get(layer.relations)) for layer in ordered
    ]
    anew = [number for number, stage in enumerate(stages) if stage is None]
    cache.misses += len(anew)
    planners = [
        _Planner(ordered[number], indexes, known.get(ordered[number].relations)) for number in anew
    ]
    # Delta rules first: re-derivation makes do with the indexes they need.
    forward = [planner.forward() for planner in planners]
    types = {relation.name: relation.types for relation in core.relations}
    for number in anew:
        _refuse_falling_recursion(core, ordered[number])
    for number, planner, (const, lower, same) in zip(anew, planners, forward, strict=True):
        layer = ordered[number]
        best = dict(best_of(layer))
        if not layer.plain and not best:
            outside = _outside(layer, indexes, types)
            stages[number] = Stage(layer.relations, layer.recursive, (), (), (), (), (), outside)
            continue
        derived = layer.clauses if layer.recursive else ()
        rederive = tuple(planner.variant(clause, HEAD) for clause in derived)
        by_key = tuple(planner.variant(clause, KEY) for clause in derived if clause.head in best)
        for name, kept in best.items():
            width = len(next(r.types for r in core.relations if r.name == name))
            indexes.add(name, tuple(c for c in range(width) if c != kept.column))
        full = _full(lower, layer)
        stages[number] = Stage(
            layer.relations, layer.recursive, lower, same, rederive, full, const,
            best=best, by_key=by_key,
        )  # fmt: skip
    index_columns = {name: tuple(columns) for name, columns in indexes.columns.items()}
    # Of a core that is no program's other parts of it may be elsewhere: all is kept.
    passed = frozenset[str]() if core.program is None else pipelined(core)
    passed -= {fold.source for layer in ordered for fold in layer.folds}
    planned = tuple(
        _piped(layer, stage, passed)
        for layer, stage in zip(ordered, stages, strict=True)
        if stage is not None
    )
    cache.strata = {
        layer.relations: (layer, stage) for layer, stage in zip(ordered, planned, strict=True)
    }
    return Plan(core.relations, planned, index_columns, given, bounded)


def _piped(layer: Layer, stage: Stage, pipelined: AbstractSet[str]) -> Stage:
    """The stage, and whether its relation is kept: of a recursion it is."""
    is_pipelined = layer.plain and not layer.recursive and layer.relations[0] in pipelined
    same = stage.is_pipelined == is_pipelined
    return stage if same else replace(stage, is_pipelined=is_pipelined)


def _as_before(layer: Layer, was: tuple[Layer, Stage] | None) -> Stage | None:
    """What a stratum was planned as, if it says the same, with the numbers that its rules have."""
    if was is None:
        return None
    before, stage = was
    if layer.fold is not None:
        return stage if layer.fold == before.fold else None
    if [*map(identity, layer.clauses)] != [*map(identity, before.clauses)]:
        return None
    if _kind(layer) != _kind(before):
        return None
    pairs = [*zip(before.clauses, layer.clauses, strict=True)]
    if all((old.rule, old.name) == (new.rule, new.name) for old, new in pairs):
        return stage
    now = {identity(clause): clause for clause in layer.clauses}
    if stage.outside is not None or len(now) < len(layer.clauses):
        return None
    return _renumbered(stage, now)


def _kind(layer: Layer) -> tuple[object, ...]:
    """What a stratum is but for its clauses."""
    return layer.relations, layer.recursive, layer.falling, layer.merges, layer.fold, layer.folds


def _renumbered(stage: Stage, now: Mapping[tuple[str, int, int], Clause]) -> Stage:
    """The stage with other clauses, by the identity of its own: those by other numbers."""
    renumbered = dict[int, Variant]()

    def variants(some: Iterable[Variant]) -> tuple[Variant, ...]:
        return tuple(map(renumber, some))

    def renumber(variant: Variant) -> Variant:
        if id(variant) not in renumbered:
            renumbered[id(variant)] = replace(variant, clause=now[identity(variant.clause)])
        return renumbered[id(variant)]

    return replace(
        stage,
        lower=variants(stage.lower),
        same=variants(stage.same),
        rederive=variants(stage.rederive),
        full=tuple(map(variants, stage.full)),
        const=variants(stage.const),
        by_key=variants(stage.by_key),
    )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Prepared:
    """What running a program begins with; None: it was given as a core."""

    program: Program
    checked: CheckedProgram | None
    core: Core
    plan: Plan


def prepared(program: Program, core: Core | None = None) -> Prepared:
    """A program, or its core if that is given, as far as it is the same for all who run it.

    Made once for as long as somebody holds it, or it is one of the last: planning is most of the
    time in which a small database is opened, and shards of one process have one core. Raises
    ProgramError.
    """
    if program.is_open:
        raise ProgramError("the program is not complete: its `with` block has not ended")
    key = id(program if core is None else core)
    entry = _PREPARED.get(key)
    if entry is None:  # what is found holds what the key is of
        checked = None
        if core is None:
            checked = typed(program)
            core = lower(checked)
        entry = _PREPARED[key] = Prepared(program, checked, core, plan_core(core))
        _LAST.append(entry)
    return entry


_PREPARED: WeakValueDictionary[int, Prepared] = WeakValueDictionary()
_LAST: deque[Prepared] = deque(maxlen=4)
"""Held for whoever opens one database of a program after another."""


class Pass(NamedTuple):
    """One step on the way to a plan, and how what it gives is printed."""

    name: str
    run: Callable[[Any], Any]
    show: Callable[[Any], str]


def _show_checked(checked: CheckedProgram) -> str:
    rules = tuple(rule.rule for rule in checked.rules)
    return show(replace(checked.program, rules=rules))


PASSES = (
    Pass("typed", typed, _show_checked),  # names, types, groundedness, strata
    Pass("executable", executable, _show_checked),  # inline relations written out, magic sets
    Pass("core", normalize, lambda core: f"{core}\n"),  # flat clauses and aggregates
    Pass("shared", share, lambda core: f"{core}\n"),  # what hidden relations say stands once
    Pass("plan", plan_core, lambda planned: tell(explain(planned))),  # strata, delta rules, indexes
)


def forms(program: Program) -> Iterator[tuple[str, str]]:
    """The name of each pass with what it makes of the program, as text. Raises ProgramError."""
    form: Any = program
    for step in PASSES:
        form = step.run(form)
        yield step.name, step.show(form)


def analysed(analysis: Analysis) -> Analysis:
    """What the text door says of a program, and what the planner says if that let it through."""
    if analysis.errors:
        return analysis
    try:
        plan(typed(analysis.program))
    except ProgramError as refused:
        return replace(analysis, diagnostics=(*analysis.diagnostics, *refused.diagnostics))
    return analysis


def _refuse_falling_recursion(core: Core, layer: Layer) -> None:
    """Refuse a falling relation that is read positively within its stratum (DF172)."""
    for clause in layer.clauses:
        for literal in clause.body:
            if not isinstance(literal, Match) or literal.relation not in layer.falling:
                continue
            grows = next(n for n in layer.relations if n not in layer.falling)
            shown = f"`{literal.relation}` shrinks while `{grows}` grows"
            message = f"{shown}, and this rule of the same recursion reads it"
            alone = f"as `!{literal.relation}(..)`, by itself and in no group"
            hint = f"read `{literal.relation}` {alone}, or in rules above the recursion"
            program = core.program
            span = None if program is None else program.rules[clause.rule].span
            raise core.refusal(Diagnostic("DF172", message, span, hint))


class _Planner:
    """The variants of a stratum; those of clauses that it had before are as they were.

    Clauses are held against each other as they are spelled, but for numbers and names of rules,
    which change when others come and go.
    """

    def __init__(self, layer: Layer, indexes: Indexes, was: Stage | None) -> None:
        self.layer = layer
        self.indexes = indexes
        self.runs = layer.plain or bool(best_of(layer))
        self._known: dict[tuple[str, int | None], Variant] = {}
        self._variants: dict[int, Variants] = {}
        self._spelled: dict[int, str] = {}
        if was is not None and self.runs and was.outside is None:
            alike = (was.recursive, was.best) == (layer.recursive, dict(best_of(layer)))
            planned = (*was.const, *was.lower, *was.same, *was.rederive, *was.by_key)
            for known in planned if alike else ():
                self._known[self._spelling(known.clause), known.trigger] = known

    def variant(self, clause: Clause, trigger: int | None) -> Variant:
        """The variant of a clause that a literal starts (see `ir.Variant`)."""
        known = self._known.get((self._spelling(clause), trigger)) if self._known else None
        if known is not None:
            return replace(known, clause=clause)
        if id(clause) not in self._variants:
            self._variants[id(clause)] = Variants(self.layer, clause, self.indexes)
        return self._variants[id(clause)].of(trigger)

    def forward(self) -> tuple[tuple[Variant, ...], tuple[Variant, ...], tuple[Variant, ...]]:
        """The variants without positive literal, on changes below, and on the stratum's own."""
        layer = self.layer
        const: list[Variant] = []
        lower: list[Variant] = []
        same: list[Variant] = []
        for clause in layer.clauses if self.runs else ():
            if not any(isinstance(literal, Match) for literal in clause.body):
                const.append(self.variant(clause, None))
            lower.extend(self.variant(clause, p) for p in triggers_below(layer, clause))
            same.extend(self.variant(clause, p) for p in triggers_within(layer, clause))
        return tuple(const), tuple(lower), tuple(same)

    def _spelling(self, clause: Clause) -> str:
        """How a clause is spelled; looked up by what it is, both plans are there meanwhile."""
        spelling = self._spelled.get(id(clause))
        if spelling is None:
            spelling = self._spelled[id(clause)] = repr((clause.head, clause.args, clause.body))
        return spelling


def _outside(layer: Layer, indexes: Indexes, types: Mapping[str, tuple[BaseType, ...]]) -> Outside:
    """A fold, or a stratum for Python.

    A fold that keeps more than totals has an index by group, to look at a group again.
    """
    fold = layer.fold
    if fold is not None:
        is_total = fold.is_total(types)
        if fold.group and not is_total:
            indexes.add(fold.source, fold.group)
        return Outside((fold.source,), layer, in_kernel=is_total or fold.is_extreme)
    reads = dict.fromkeys(literal.relation for literal in _reads(layer))
    return Outside(tuple(name for name in reads if name not in layer.relations), layer)


def _full(lower: tuple[Variant, ...], layer: Layer) -> tuple[tuple[Variant, ...], ...]:
    """Per clause, the variants it can be evaluated from on an empty stratum.

    Those that read the stratum's own rows find none there: what these bring, each brings as it
    comes to hold. (5 M edges without a root to reach from: 0.3 s of the processor.)
    """
    own = frozenset(layer.relations)
    wanted = [v for v in lower if not v.negated and own.isdisjoint(_matched(v.clause))]
    return tuple(_by_clause(wanted))


def _matched(clause: Clause) -> Iterator[str]:
    """The relations whose rows a clause reads."""
    return (literal.relation for literal in clause.body if isinstance(literal, Match))


def _by_clause(variants: list[Variant]) -> Iterator[tuple[Variant, ...]]:
    seen: dict[int, list[Variant]] = {}
    for planned in variants:
        seen.setdefault(id(planned.clause), []).append(planned)
    for group in seen.values():
        assert group[0].clause.atoms  # noqa: S101
        yield tuple(group)


def set_apart(
    core: Core, ordered: tuple[Layer, ...]
) -> tuple[Core, tuple[Layer, ...], dict[str, str]]:
    """A core of these strata with given rows set apart, its strata, and where given rows lie."""
    outside = {
        name
        for layer in ordered
        if not layer.plain and layer.fold is None
        for name in layer.relations
    }
    entered = {relation.name: relation.entry for relation in core.relations if relation.entry}
    entered |= core.apart
    relations = [
        r for r in core.relations if r.name in outside and not r.hidden and r.name not in entered
    ]
    if not relations:
        return core, ordered, entered
    apart = [given_apart(relation) for relation in relations]
    whole = replace(
        core,
        relations=(*core.relations, *(hidden for hidden, _ in apart)),
        clauses=(*core.clauses, *(clause for _, clause in apart)),
    )
    return whole, layers(whole), entered | {clause.head: hidden.name for hidden, clause in apart}


def is_bounded(core: Core, layers: Iterable[Layer]) -> bool:
    """Whether some stratum looks at an input other than positively. Linear in the core.

    Inputs are relations with `.input` and relations without a rule.
    """
    derived = {clause.head for clause in core.clauses}
    declared = () if core.program is None else core.program.names("input")
    inputs = [relation for relation in core.relations if relation.name in declared]
    reached = {name for relation in inputs for name in (relation.name, relation.entry)}
    for layer in layers:
        if layer.fold is not None:
            if layer.fold.source in reached:
                return True
            continue
        reached.update(name for name in layer.relations if name not in derived)
        read = list(_reads(layer))
        if reached.isdisjoint((*layer.relations, *(literal.relation for literal in read))):
            continue
        reached.update(layer.relations)
        if layer.merges or any(
            isinstance(literal, Absent) and literal.relation in reached for literal in read
        ):
            return True
    return False


def _reads(layer: Layer) -> Iterator[Match | Absent]:
    for clause in layer.clauses:
        yield from clause.atoms
    bodies = list[tuple[Literal, ...]]()
    for _, merge in layer.merges:
        if isinstance(merge, Subsumption):
            bodies.extend(order.body for order in merge.orders)
    for body in bodies:
        yield from (literal for literal in body if isinstance(literal, (Match, Absent)))
