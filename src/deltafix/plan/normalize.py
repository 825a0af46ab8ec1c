"""Checked rules to core clauses: alternatives split, terms flattened, negations made ground.

One rule becomes a clause per head and alternative. A term inside an argument or comparison
becomes an intermediate variable with an `Apply`. A negation that ranges over more than one row
(`!p(x, _)`, or a group) becomes a hidden relation of the values it is asked for:

    r(x) :- p(x), !q(x, _).     =>    ~1(x) :- q(x, _).    r(x) :- p(x), !~1(x).

so that the kernel only ever looks up whole rows, and counting makes the hidden relation exact. An
aggregate becomes a `Fold` into a hidden relation (`plan.folds`). Invariant: the clauses have the
rules' meaning. The work on one clause is `plan.flatten`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltafix.diagnostics import Diagnostic, render_all
from deltafix.errors import ProgramError
from deltafix.plan.clause import Clause, Fold, Relation
from deltafix.plan.flatten import Flattening, Made
from deltafix.rules.ast import Program
from deltafix.rules.check import CheckedProgram
from deltafix.rules.walk import alternatives

__all__ = ["Core", "normalize"]


@dataclass(frozen=True, slots=True)
class Core:
    """A program as relations, clauses and folds; a fact of the text is a clause without a body."""

    relations: tuple[Relation, ...]
    clauses: tuple[Clause, ...]
    folds: tuple[Fold, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.clauses, *self.folds)))


def normalize(checked: CheckedProgram) -> Core:
    """The core of a checked program. Raises ProgramError (DF170) for what no executor runs."""
    program = checked.program
    _refuse_unrunnable(program)
    made = Made([Relation(r.name, program.column_types(r.name)) for r in program.relations])
    for number, typed in enumerate(checked.rules):
        rule = typed.rule
        for head in rule.heads:
            for case in alternatives(rule.body):
                Flattening(program, typed, number, made, (*rule.heads, *case)).clause(head, case)
    return Core(tuple(made.relations), tuple(made.clauses), tuple(made.folds))


def _refuse_unrunnable(program: Program) -> None:
    """Refuse the declarations that no executor runs yet."""
    found: list[Diagnostic] = []
    for relation in program.relations:
        if program.keeps(relation.name):
            message = f"what `{relation.name}` keeps of its rows is not supported yet"
            found.append(Diagnostic("DF170", message, relation.span))
        if "record" in program.column_types(relation.name):
            message = (
                f"columns of constructed types, as in `{relation.name}`, are not supported yet"
            )
            found.append(Diagnostic("DF170", message, relation.span))
    if program.word_size != 64:
        found.append(Diagnostic("DF170", "words of 32 bits are not supported yet", None))
    if found:
        sources = {} if program.source is None else {program.path: program.source}
        raise ProgramError(render_all(found, sources), found)
