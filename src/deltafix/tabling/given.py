"""Clauses as the user gives them: text, terms, tuples; brought to one form.

Invariant: reading changes the program by its declarations alone (and `op/3`), and inside an
update those are taken back with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from deltafix.errors import MissingRowError
from deltafix.tabling.clauses import Clause, compile_clause
from deltafix.tabling.lexer import Source
from deltafix.tabling.program import Declaration
from deltafix.tabling.reader import Place, ReadClause
from deltafix.tabling.table import Forest
from deltafix.tabling.terms import Term, atom, from_python, struct
from deltafix.tabling.unify import instantiate
from deltafix.tabling.update import declare
from deltafix.tabling.writer import variable_name

__all__ = ["ClauseLike", "changes_of", "read_given"]

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
                    yield read.term, read
            continue
        term = item if isinstance(item, Term) else _fact(item)
        term = instantiate((term,), (None,) * term.nvars)[0]
        names = tuple(variable_name(i) for i in range(term.nvars))
        yield term, compile_clause(ReadClause(term, names, Place(0, 0), _NO_TEXT))


def changes_of(
    forest: Forest, insert: Iterable[ClauseLike | Source], delete: Iterable[ClauseLike],
    missing: str,
) -> tuple[list[Clause], list[Clause]]:  # fmt: skip
    """The clauses that really arrive and leave: one that does both, or is there, does neither.

    Raises:
        MissingRowError: a deleted clause is not there (unless `missing` is `ignore`).
        PrologError, TypeError: as `read_given`.
    """
    program = forest.program
    arriving = dict(read_given(forest, insert))
    leaving: dict[Term, Clause] = {}
    for term, clause in read_given(forest, delete):
        present = program.clauses.get(term)
        if term in arriving and present is not None:
            del arriving[term]
        elif present is not None:
            leaving[term] = present
        elif missing == "error":
            msg = f"cannot delete `{clause}`: the program has no such clause"
            raise MissingRowError(msg, clause=str(clause))
    inserts = [clause for term, clause in arriving.items() if term not in program.clauses]
    return inserts, list(leaving.values())


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
