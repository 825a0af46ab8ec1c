"""Clauses as the user gives them: text, terms, tuples; brought to one form.

Invariant: reading changes the program by its declarations alone (and `op/3`), and inside an
update those are taken back with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.errors import MissingRowError
from deltafix.tabling.clauses import Clause, compile_clause
from deltafix.tabling.goals import Goal, read_goal
from deltafix.tabling.lexer import Source
from deltafix.tabling.program import Declaration, Program
from deltafix.tabling.reader import Extent, ReadClause
from deltafix.tabling.table import Forest
from deltafix.tabling.terms import Term, atom, from_python, struct
from deltafix.tabling.unify import instantiate, unify
from deltafix.tabling.update import declare
from deltafix.tabling.writer import variable_name

ClauseLike: TypeAlias = "str | Term | tuple[object, ...]"
"""A text of clauses, a clause as a term, or a fact as a tuple: name first, then values."""

_NO_TEXT = Source("")


def read_given(
    forest: Forest, items: Iterable[ClauseLike | Source]
) -> Iterator[tuple[Term, Clause]]:
    """The clauses of what was given, by their terms; declarations take effect on the way.

    Raises:
        PrologError: the first thing that cannot be accepted.
        TypeError: a tuple that is no fact.
    """
    for item in items:
        if isinstance(item, str | Source):
            source = Source(_ended(item)) if isinstance(item, str) else item
            for read in forest.program.read(source):
                if isinstance(read, Declaration):
                    predicate = forest.program.predicate(read.key)
                    if read.tabled:
                        declare(forest, predicate, tabled=True)
                    else:
                        forest.set(predicate, "dynamic", True)
                else:
                    yield read.term, read
            continue
        term = item if isinstance(item, Term) else _fact(item)
        term = instantiate((term,), (None,) * term.nvars)[0]
        names = tuple(variable_name(i) for i in range(term.nvars))
        yield term, compile_clause(ReadClause(term, names, Extent(0, 0), _NO_TEXT))


@dataclass(frozen=True, slots=True)
class Given:
    """What one update was given: clauses to insert and to delete, heads to delete by."""

    insert: Iterable[ClauseLike | Source]
    delete: Iterable[ClauseLike] = ()
    retractall: Iterable[str] = ()
    missing: str = "error"


def changes_of(forest: Forest, given: Given) -> tuple[list[Clause], list[Clause]]:
    """The clauses that really arrive and leave: one that does both, or is there, does neither.

    Raises:
        MissingRowError: a deleted clause is not there (unless `missing` is `ignore`).
        UnknownPredicateError: a head to delete by is of no predicate.
        PrologError, TypeError: as `read_given`.
    """
    program = forest.program
    heads = [read_goal(program, head) for head in given.retractall]
    arriving = dict(read_given(forest, given.insert))
    leaving = {clause.term: clause for head in heads for clause in headed(program, head)}
    for term in leaving.keys() & arriving.keys():
        del leaving[term]
    for term, clause in read_given(forest, given.delete):
        present = program.clauses.get(term)
        if term in arriving and present is not None:
            del arriving[term]
        elif present is not None:
            leaving[term] = present
        elif given.missing == "error":
            msg = f"cannot delete `{clause}`: the program has no such clause"
            raise MissingRowError(msg, clause=str(clause))
    inserts = [clause for term, clause in arriving.items() if term not in program.clauses]
    return inserts, list(leaving.values())


def headed(program: Program, head: Goal) -> Iterator[Clause]:
    """The clauses whose head unifies with a goal. O(clauses of its predicate)."""
    args = instantiate(head.args, (None,) * len(head.names))
    for rule in program.predicates[head.key].clauses:
        if unify(rule.args, (None,) * rule.slots, args) is not None:
            yield rule.clause


def _ended(text: str) -> str:
    """A single clause may come without its closing point."""
    bare = text.rstrip()
    return text if bare.endswith(".") or not bare else bare + "."


def _fact(values: tuple[object, ...]) -> Term:
    name, args = values[0], [from_python(v) for v in values[1:]]
    if not isinstance(name, str):
        msg = f"a fact as a tuple starts with its predicate's name, not {name!r}"
        raise TypeError(msg)
    return struct(name, args) if args else atom(name)
