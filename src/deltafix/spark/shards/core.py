"""A program as clauses that shards can share out: seeds, guards, strata in one place, types.

Two things are changed in a program's core:

- A fact of the text and a clause without positive literal hold once, not once a shard. So a fact
  becomes a row of a hidden seed relation, given before all others and placed like them, and every
  other clause without positive literal gets the literal `~here(_)`, a seed relation of one row.
- A stratum that is no least fixpoint of rows (lattices of user functors; subsumption, best rows
  and even negation in recursion) is *pinned*: its relations `R` become `~one R`, derived
  where all that they read is together, and `R(x) :- ~one R(x)` is a relation like any other. One
  without recursion is together by its key, any other in one shard. Rows given to `R` go there too.

A record needs its type to be read, so `column_kinds` finds that of hidden relations' columns.
Invariant: the prepared core derives what the program's own core does. Refused by name: `ord`,
since a symbol's number is one engine's own, and choice in recursion, where what stays depends on
the history of an engine, and a shard may be made anew from its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from deltafix.diagnostics import Diagnostic
from deltafix.errors import ProgramError
from deltafix.facts.schema import Row
from deltafix.facts.values import CONSTRUCTED
from deltafix.plan.build import is_bounded, lower
from deltafix.plan.clause import (
    Absent,
    Apply,
    Choice,
    Clause,
    Code,
    Compare,
    Lattice,
    Match,
    Relation,
    Slot,
)
from deltafix.plan.depend import Layer, layers
from deltafix.plan.normalize import Core
from deltafix.plan.recognise import with_names
from deltafix.rules.ast import Program
from deltafix.rules.autoinc import AUTOINC
from deltafix.rules.check import typed
from deltafix.rules.schemas import Schemas, schemas_of

HERE = "~here"
"""A relation of one row, which is in one shard."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A core whose every clause has a positive literal, and the rows its seed relations begin with.

    Attributes:
        program: the user's.
        core: the clauses. Nullary relations have one column, always 0, so that every row has a
            value to hash.
        seeds: rows that are given before all others: at epoch 0, or (bounded) with the first.
        entries: where rows given to a declared relation go, if not to itself.
        pinned: relations derived where all that they read is together, and by which columns.
        bounded: nothing is to be derived before inputs are there (`plan.build`).
    """

    program: Program
    core: Core
    seeds: dict[str, list[Row]]
    entries: dict[str, str]
    pinned: dict[str, tuple[int, ...]]
    bounded: bool = False

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its strata, in the order they are computed."""
        return layers(self.core)


def prepare(program: Program) -> Prepared:
    """The prepared core of a program.

    Raises ProgramError: the program is not valid, or (DF190) not for shards.
    """
    checked = typed(program)
    core = lower(checked)
    _refuse(core)
    bounded = is_bounded(core, layers(core))
    renamed = {r.name: f"~hidden {r.name[1:]}" for r in core.relations if r.hidden}
    # Where a domain must know the rows that are given, too: they go there, and on from there.
    apart = {name: renamed[home] for name, home in core.apart.items()}
    core = with_names(replace(core, demands={}), lambda name: renamed.get(name, name))
    declared = {relation.name for relation in program.relations}  # not what magic sets add
    shown = tuple(replace(r, hidden=r.name not in declared) for r in core.relations)
    core, pinned = _pinned(replace(core, relations=shown))
    relations = {r.name: replace(r, types=r.types or ("number",)) for r in core.relations}
    seeds: dict[str, list[Row]] = {}
    clauses: list[Clause] = []
    for clause in map(_padded, core.clauses):
        if any(isinstance(literal, Match) for literal in clause.body):
            clauses.append(clause)
        elif clause.body:
            seeds[HERE] = [(0,)]
            clauses.append(replace(clause, body=(Match(HERE, (None,)), *clause.body)))
        else:
            name = f"~seed {clause.head}"
            types = relations[clause.head].types
            if name not in relations:
                relations[name] = Relation(name, types, hidden=True)
                slots = tuple(Slot(f"c{n}") for n in range(len(types)))
                clauses.append(Clause(clause.head, slots, (Match(name, slots),), clause.rule))
            row = tuple(arg.value for arg in clause.args if isinstance(arg, Code))
            if row not in seeds.setdefault(name, []):
                seeds[name].append(row)
    if HERE in seeds or any(not fold.group for fold in core.folds):
        relations[HERE] = Relation(HERE, ("number",), hidden=True)
        seeds[HERE] = [(0,)]
    entries = {r.name: r.entry for r in core.relations if r.entry} | apart
    whole = Core(tuple(relations.values()), tuple(clauses), core.folds)
    return Prepared(checked.program, whole, seeds, entries, pinned, bounded)


def _one_place(relation: str) -> str:
    """The name of a pinned relation."""
    return f"~one {relation}"


def _pinned(core: Core) -> tuple[Core, dict[str, tuple[int, ...]]]:
    """The core with strata that are no least fixpoint of rows set apart, and by which columns."""
    pinned: dict[str, tuple[int, ...]] = {}
    for layer in layers(core):
        if layer.plain or layer.fold is not None:
            continue
        core, columns = _set_apart(core, layer)
        pinned.update(columns)
    return core, pinned


def _set_apart(core: Core, layer: Layer) -> tuple[Core, dict[str, tuple[int, ...]]]:
    """One stratum: `~one R` in its place, `R` its copy, rows given to `R` before it."""
    names = frozenset(layer.relations)
    inside = with_names(
        Core(
            tuple(r for r in core.relations if r.name in names),
            tuple(c for c in core.clauses if c.head in names),
            layer.folds,
        ),
        lambda name: _one_place(name) if name in names else name,
    )
    read = {
        literal.relation
        for clause in core.clauses
        if clause.head not in names
        for literal in clause.body
        if isinstance(literal, Match | Absent)
    } | {fold.source for fold in core.folds if fold not in layer.folds}
    relations: list[Relation] = []
    clauses: list[Clause] = []
    own = list(inside.clauses)
    pinned: dict[str, tuple[int, ...]] = {}
    for relation in inside.relations:
        name = relation.name.removeprefix(_one_place(""))
        slots = tuple(Slot(f"c{n}") for n in range(len(relation.types)))
        relations.append(replace(relation, entry=""))
        pinned[relation.name] = ()
        if not relation.hidden or name in read:
            clauses.append(Clause(name, slots, (Match(relation.name, slots),), -1))
            relations.append(Relation(name, relation.types, relation.hidden))
        if relation.hidden:
            continue
        # Proposals: given rows and, outside recursion, all that the clauses derive.
        proposed = f"~in {name}"
        relations.append(Relation(proposed, relation.types, hidden=True))
        relations[-2] = replace(relations[-2], entry=proposed)
        if not layer.recursive and isinstance(relation.merge, Lattice):
            pinned[relation.name] = relation.merge.key(len(relation.types))
            clauses += [replace(c, head=proposed) for c in own if c.head == relation.name]
            own = [c for c in own if c.head != relation.name]
        own.append(Clause(relation.name, slots, (Match(proposed, slots),), -1))
    rest = [r for r in core.relations if r.name not in names]
    kept = [c for c in core.clauses if c.head not in names]
    folds = (*(fold for fold in core.folds if fold not in layer.folds), *inside.folds)
    return Core((*rest, *relations), (*kept, *own, *clauses), folds), pinned


def _padded(clause: Clause) -> Clause:
    """The clause with a 0 where a relation has no columns."""
    zero = (Code(0, "number"),)
    body = tuple(
        replace(literal, args=zero)
        if isinstance(literal, Match | Absent) and not literal.args
        else literal
        for literal in clause.body
    )
    return replace(clause, args=clause.args or zero, body=body)


def _refuse(core: Core) -> None:
    """Raise ProgramError for a program that cannot be shared out."""
    for what in _unfit(core):
        message = f"{what}: not supported on shards; use deltafix.connect"
        raise ProgramError(f"error[DF190]: {message}", [Diagnostic("DF190", message, None)])


def _unfit(core: Core) -> Iterator[str]:
    """What cannot be shared out, in words."""
    for relation in core.relations:
        if isinstance(relation.merge, Choice):
            yield f"the choice-domain of `{relation.name}`, which is recursive"
    for clause in core.clauses:
        functors = [literal.functor for literal in clause.body if isinstance(literal, Apply)]
        for name in dict.fromkeys(functor.partition(":")[0] for functor in functors):
            if name in ("ord", AUTOINC):
                yield f"the functor {name} in the rules of `{clause.head}`"


# --- the types of hidden columns -----------------------------------------------------------------


def column_kinds(core: Core, program: Program) -> dict[str, tuple[str, ...]]:
    """The declared type of every column: what relations declare, carried along the clauses.

    O(cells of the core) a round; a round tells at least one column, or is the last.
    """
    schemas = schemas_of(program)
    kinds: dict[str, list[str]] = {}
    for relation in core.relations:
        declared = schemas.columns.get(relation.name)
        known = [kind for _, kind in declared] if declared else [*relation.types]
        kinds[relation.name] = ["" if kind in CONSTRUCTED else kind for kind in known]

    def learn(name: str, column: int, kind: str) -> bool:
        if kind and not kinds[name][column]:
            kinds[name][column] = kind
            return True
        return False

    learned = True
    while learned:
        learned = False
        for clause in core.clauses:
            variables = _variables(clause, kinds, schemas)
            for name, args in _uses(clause):
                for index, arg in enumerate(args):
                    if isinstance(arg, Slot):
                        learned |= learn(name, index, variables.get(arg.name, ""))
        for fold in core.folds:
            source = kinds[fold.source]
            for index, column in enumerate(fold.group):
                learned |= learn(fold.relation, index, source[column])
                if fold.present is not None:
                    learned |= learn(fold.present, index, source[column])
            given = schemas.functors.get(fold.op.removeprefix("@@"))
            width = len(fold.group)
            if given is not None and len(kinds[fold.relation]) > width + 1:
                fields = schemas.constructed[given[1]][""]
                for index, (_, kind) in enumerate(fields, start=width):
                    learned |= learn(fold.relation, index, kind)
            elif fold.value is not None or given is not None:
                kind = source[fold.value or 0] if given is None else given[1]
                learned |= learn(fold.relation, width, kind)
    # What is never but nil reads as any record does.
    some = next(iter(schemas.constructed), "number")
    return {name: tuple(kind or some for kind in columns) for name, columns in kinds.items()}


def _uses(clause: Clause) -> Iterator[tuple[str, tuple[object, ...]]]:
    yield clause.head, clause.args
    for literal in clause.body:
        if isinstance(literal, Match | Absent):
            yield literal.relation, literal.args


def _variables(clause: Clause, kinds: Mapping[str, list[str]], schemas: Schemas) -> dict[str, str]:
    """The types of a clause's variables, as far as one look at each literal tells."""
    types: dict[str, str] = {}
    for name, args in _uses(clause):
        for arg, kind in zip(args, kinds[name], strict=True):
            if isinstance(arg, Slot) and kind:
                types[arg.name] = kind
    for literal in clause.body:
        if isinstance(literal, Apply) and (kind := _result(literal.functor, schemas)):
            types[literal.target.name] = kind
    for literal in clause.body:
        if isinstance(literal, Compare) and literal.op == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, Slot) and isinstance(other, Slot) and other.name in types:
                    types.setdefault(side.name, types[other.name])
    return types


def _result(functor: str, schemas: Schemas) -> str:
    """The declared type of what a constructor, a field or a user functor gives, if it has one."""
    if functor[:1] == "@":
        return schemas.functors[functor[1:]][1]
    if functor[:1] not in ("[", "$"):
        return ""
    constructor, _, field = functor.rpartition(".")
    if not field.isdigit():
        constructor, field = functor, ""
    branch = "" if constructor[0] == "[" else constructor[1:]
    kind = schemas.branches[branch] if branch else constructor[1:-1]
    return schemas.constructed[kind][branch][int(field)][1] if field else kind
