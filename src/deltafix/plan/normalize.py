"""Checked rules to core clauses: alternatives split, terms flattened, negations made ground.

One rule becomes a clause per head and alternative. A term inside an argument or comparison
becomes an intermediate variable with an `Apply`. A negation that ranges over more than one row
(`!p(x, _)`, or a group) becomes a hidden relation of the values it is asked for:

    r(x) :- p(x), !q(x, _).     =>    ~1(x) :- q(x, _).    r(x) :- p(x), !~1(x).

so that the kernel only ever looks up whole rows, and counting makes the hidden relation exact. An
aggregate becomes a `Fold` into a hidden relation (`plan.folds`), a `range` a relation of its
numbers (`plan.ranges`), what a group inside recursion is asked for a relation of its own
(`plan.domains`), what a relation keeps of its rows more clauses (`plan.keep`), a disjunction that
stays whole (`rules.whole`) one of the variables that it shares with the rest, and a part of a body
that shares nothing with the rest a test. Invariant: the clauses have the rules' meaning. The work
on one clause is `plan.flatten`'s.

A part of a body that shares nothing with the rest and has no variable of the head is a test:

    o(x) :- a(x), b(_, _), c(y), d(y).     =>     o(x) :- a(x), ~1(), ~2().
                                                  ~1() :- b(_, _).    ~2() :- c(y), d(y).

so that `o` has a derivation per row of `a`, not one per row of the product. A part is left where it
is when it has at most one row, and when it reads its own recursion where that negates, joins or
drops rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from deltafix.diagnostics import Diagnostic, render_all
from deltafix.errors import ProgramError
from deltafix.plan.clause import Absent, Clause, Fold, Literal, Match, Relation, Slot, slots_of
from deltafix.plan.domains import ask_domains
from deltafix.plan.flatten import Demand, Flattening, Made
from deltafix.plan.keep import keep
from deltafix.plan.ranges import write_out_ranges
from deltafix.rules.ast import Program, RelationDecl
from deltafix.rules.check import CheckedProgram
from deltafix.rules.schemas import schemas_of
from deltafix.rules.strata import components
from deltafix.rules.walk import alternatives, occurrences
from deltafix.rules.whole import Recursions, is_marked, written_out


@dataclass(frozen=True, slots=True)
class Core:
    """A program as relations, clauses and folds; a fact of the text is a clause without a body.

    `demands` says of a hidden relation what only its own recursion can ask it for, `apart` where
    the rows given to a relation lie if not in it, `indexes` the columns by which it is to be
    indexed whatever the rules need. `program` is where all this comes from; only errors look at it.
    """

    relations: tuple[Relation, ...]
    clauses: tuple[Clause, ...]
    folds: tuple[Fold, ...] = ()
    demands: Mapping[str, Demand] = field(default_factory=dict, compare=False, repr=False)
    apart: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    indexes: Mapping[str, tuple[tuple[int, ...], ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    program: Program | None = field(default=None, compare=False, repr=False)

    def refusal(self, found: Diagnostic) -> ProgramError:
        """The error that refuses the program for a reason that only its core shows."""
        program = self.program
        text = None if program is None else program.source
        sources = {} if program is None or text is None else {program.path: text}
        return ProgramError(render_all([found], sources), [found])

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.clauses, *self.folds)))


def normalize(checked: CheckedProgram) -> Core:
    """The core of a checked program."""
    program = checked.program
    made = Made(
        schemas_of(program),
        [Relation(r.name, program.column_types(r.name), of=r.of) for r in program.relations],
    )
    recursions = Recursions(program, checked.strata)
    recursion = recursions.home
    for number, typed in enumerate(checked.rules):
        rule = typed.rule
        body = rule.body
        if is_marked(body) and recursions.multiply(rule):
            body = written_out(body)
        for head in rule.heads:
            for place, case in enumerate(alternatives(body)):
                total = occurrences((*rule.heads, *case))
                flat = Flattening(program, typed, (number, place), made, total)
                flat.recursion = recursion.get(head.relation, frozenset())
                flat.clause(head, case)
    ask_domains(made, frozenset(name for name in recursion if program.keeps(name)))
    keep(checked, made)
    separate(made)
    write_out_ranges(made, program.word_size)
    return Core(
        tuple(made.relations),
        tuple(made.clauses),
        tuple(made.folds),
        made.demands,
        made.apart,
        {one.name: tuple(_indexes(one)) for one in program.relations if one.indexes},
        program,
    )


def _indexes(declared: RelationDecl) -> Iterator[tuple[int, ...]]:
    """The positions of the columns of each index; whole rows are found without one."""
    names = [column.name for column in declared.attributes]
    for one in declared.indexes:
        places = tuple(sorted({names.index(name) for name in one}))
        if len(places) < len(names):
            yield places


def separate(made: Made) -> None:
    """Set the parts of all clauses apart. Near linear in the clauses."""
    clauses = [replace(one, body=tuple(dict.fromkeys(one.body))) for one in made.clauses]
    found = [_tests(clause) for clause in clauses]
    made.clauses[:] = clauses
    if not any(found):
        return
    closed = _closed(made)
    names: dict[tuple[Literal, ...], str] = {}
    for number, (clause, parts) in enumerate(zip(clauses, found, strict=True)):
        for part in parts:
            if closed.get(clause.head, frozenset()) & {_read(literal) for literal in part}:
                continue
            if part not in names:
                names[part] = made.hide(())
                made.clauses.append(Clause(names[part], (), part, clause.rule))
            now = made.clauses[number]
            # In the place of its first literal: proofs name premises in the order of the body.
            body = tuple(
                Match(names[part], ()) if literal == part[0] else literal
                for literal in now.body
                if literal not in part[1:]
            )
            made.clauses[number] = replace(now, body=body)


def _tests(clause: Clause) -> list[tuple[Literal, ...]]:
    """The parts of a body that share no variable with the head or each other, and multiply."""
    home: dict[Slot, Slot] = {}

    def root(slot: Slot) -> Slot:
        while (above := home.setdefault(slot, slot)) != slot:
            home[slot] = home[above]
            slot = above
        return slot

    def join(slots: Iterable[Slot]) -> None:
        first, *others = (root(slot) for slot in slots)
        for other in others:
            home[root(other)] = root(first)

    for literal in clause.body:
        if slots := slots_of(literal):
            join(slots)
    heads = {root(arg) for arg in clause.args if isinstance(arg, Slot)}
    parts: dict[object, list[Literal]] = {}
    for place, literal in enumerate(clause.body):
        slots = slots_of(literal)
        key: object = root(slots[0]) if slots else place
        if key not in heads:
            parts.setdefault(key, []).append(literal)
    found = [tuple(part) for part in parts.values() if any(map(_multiplies, part))]
    near = any(_multiplies(one) for one in clause.body if not any(one in part for part in found))
    return found if len(found) + near > 1 else []


def _multiplies(literal: Literal) -> bool:
    """Whether more than one row may fit, before anything is known."""
    return isinstance(literal, Match) and any(
        arg is None or isinstance(arg, Slot) for arg in literal.args
    )


def _read(literal: Literal) -> str:
    return literal.relation if isinstance(literal, Match | Absent) else ""


def _closed(made: Made) -> dict[str, frozenset[str]]:
    """By relation, its stratum, where that negates, joins or drops rows of its own."""
    needed: dict[str, dict[str, None]] = {relation.name: {} for relation in made.relations}
    for clause in made.clauses:
        for literal in clause.body:
            if isinstance(literal, Match | Absent):
                needed[clause.head][literal.relation] = None
    for fold in made.folds:
        for name in fold.made:
            needed[name][fold.source] = None
    home = {name: frozenset(members) for members in components(needed) for name in members}
    special = {relation.name for relation in made.relations if relation.merge is not None}
    for clause in made.clauses:
        if home[clause.head] & {one.relation for one in clause.body if isinstance(one, Absent)}:
            special.add(clause.head)
    special.update(fold.relation for fold in made.folds if fold.source in home[fold.relation])
    return {name: home[one] for one in special for name in home[one]}
