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
that shares nothing with the rest a test (`plan.separate`).
Invariant: the clauses have the
rules' meaning. The work on one clause is `plan.flatten`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltafix.diagnostics import Diagnostic, render_all
from deltafix.errors import ProgramError
from deltafix.plan.clause import Clause, Fold, Relation
from deltafix.plan.domains import ask_domains
from deltafix.plan.flatten import Demand, Flattening, Made
from deltafix.plan.keep import keep
from deltafix.plan.ranges import write_out_ranges
from deltafix.plan.separate import separate
from deltafix.rules.ast import Program, RelationDecl
from deltafix.rules.check import CheckedProgram
from deltafix.rules.schemas import schemas_of
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
