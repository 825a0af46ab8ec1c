"""A program as clauses that shards can share out: seeds for facts, a guard for bodiless clauses.

A fact of the text and a clause without positive literal hold once, not once a shard. So a fact
becomes a row of a hidden seed relation, given at epoch 0 and placed like any given row, and every
other clause without positive literal gets the literal `~here(_)`, a seed relation of one row.
Invariant: the prepared core derives what the program's own core does. Programs that need one place
for a whole stratum (lattices, choice, subsumption, eqrel, user functors and reducers), or values
that are numbers in one engine's own tables (records, `ord`), are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deltafix.diagnostics import Diagnostic
from deltafix.errors import ProgramError
from deltafix.facts.arrow import ARROW_TYPES
from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Apply, Clause, Code, Literal, Match, Relation, Slot
from deltafix.plan.depend import Layer, layers
from deltafix.plan.normalize import Core, normalize
from deltafix.rules.ast import Program
from deltafix.rules.check import typed
from deltafix.rules.functors import CONSTRAINTS, SIGNATURES
from deltafix.rules.passes.hints import inline_names, magic_names

__all__ = ["Prepared", "prepare"]

_HERE = "~here"
# `ord` is a symbol's number in one engine's table: each shard has its own.
_FUNCTORS = frozenset((*SIGNATURES, *CONSTRAINTS, "as")) - {"ord"}
_FOLDS = frozenset(("count", "sum", "min", "max", "mean"))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A core whose every clause has a positive literal, and the rows its seed relations begin with.

    Nullary relations have one column here, always 0, so that every row has a value to hash.
    """

    core: Core
    seeds: dict[str, list[Row]]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its strata, in the order they are computed."""
        return layers(self.core)


def prepare(program: Program) -> Prepared:
    """The prepared core of a program.

    Raises ProgramError: the program is not valid, or (DF190) not for shards.
    """
    core = normalize(typed(program))
    _refuse(program, core)
    core = _renamed(core)
    relations = {r.name: replace(r, types=r.types or ("number",)) for r in core.relations}
    seeds: dict[str, list[Row]] = {}
    clauses: list[Clause] = []
    for clause in map(_padded, core.clauses):
        if any(isinstance(literal, Match) for literal in clause.body):
            clauses.append(clause)
        elif clause.body:
            relations.setdefault(_HERE, Relation(_HERE, ("number",), hidden=True))
            seeds[_HERE] = [(0,)]
            clauses.append(replace(clause, body=(Match(_HERE, (None,)), *clause.body)))
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
    if any(not fold.group for fold in core.folds):
        relations.setdefault(_HERE, Relation(_HERE, ("number",), hidden=True))
        seeds[_HERE] = [(0,)]
    return Prepared(Core(tuple(relations.values()), tuple(clauses), core.folds), seeds)


def _renamed(core: Core) -> Core:
    """The core with other names for hidden relations: a shard's own program makes `~1` again."""
    names = {r.name: f"~hidden {r.name[1:]}" if r.hidden else r.name for r in core.relations}

    def literal(one: Literal) -> Literal:
        if isinstance(one, Match | Absent):
            return replace(one, relation=names[one.relation])
        return one

    return Core(
        tuple(replace(r, name=names[r.name]) for r in core.relations),
        tuple(
            replace(c, head=names[c.head], body=tuple(map(literal, c.body))) for c in core.clauses
        ),
        tuple(
            replace(
                f, relation=names[f.relation], source=names[f.source],
                present=f.present and names[f.present],
            )
            for f in core.folds
        ),
    )  # fmt: skip


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


def _unfit(program: Program, core: Core) -> Iterator[str]:
    """What of a program cannot be shared out, in words."""
    if inline_names(program) or magic_names(program):
        yield "inline relations and magic sets"
    for relation in core.relations:
        if not relation.hidden and (way := program.keeps(relation.name)):
            yield f"`{relation.name}` ({way})"
        other = [kind for kind in relation.types if kind not in ARROW_TYPES or kind == "record"]
        if other:
            yield f"columns of type {other[0]}"
    for layer in layers(core):
        shown = ", ".join(f"`{name}`" for name in layer.relations if not name.startswith("~"))
        if not layer.plain and layer.fold is None:
            yield f"the recursion of {shown}"
        if layer.fold is not None and layer.fold.op not in _FOLDS:
            yield f"the user aggregate {layer.fold.op}"
        for clause in layer.clauses:
            for literal in clause.body:
                if isinstance(literal, Apply) and literal.functor not in _FUNCTORS:
                    yield f"the functor {literal.functor} in the rules of {shown}"


def _refuse(program: Program, core: Core) -> None:
    """Raise ProgramError for a program that cannot be shared out."""
    for what in _unfit(program, core):
        message = f"{what}: not supported on shards; use deltafix.connect"
        raise ProgramError(f"error[DF190]: {message}", [Diagnostic("DF190", message, None)])
