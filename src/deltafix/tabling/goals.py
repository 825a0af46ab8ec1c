"""Goals and answers as the user sees them: one atom to ask for, solutions to read off.

Invariant: a goal's variables keep the names of its text; a solution maps them to terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from deltafix.errors import UnknownPredicateError
from deltafix.tabling.builtins import BUILTINS
from deltafix.tabling.clauses import Key
from deltafix.tabling.program import Program
from deltafix.tabling.reader import read_term
from deltafix.tabling.table import UNDEFINED, Answer
from deltafix.tabling.terms import Atom, Struct, Term, to_python, var
from deltafix.tabling.trace import goal_term
from deltafix.tabling.unify import Row, instantiate, match, unify
from deltafix.tabling.writer import show


@dataclass(frozen=True, slots=True)
class Goal:
    """One atom to ask for. `args` are the call's arguments, `names` its variables' names."""

    key: Key
    args: tuple[Term, ...]
    names: tuple[str, ...]

    @property
    def term(self) -> Term:
        """The goal as a term."""
        return goal_term(self.key[0], self.args)

    def __str__(self) -> str:
        return show(self.term, self.names)


class Solution(Mapping[str, object]):
    """One answer: `solution["X"]` is a Python value (int, float, str) or a term.

    `term` is the whole answer; `truth` is `"true"` or, in programs that are not stratified,
    `"undefined"`.
    """

    __slots__ = ("_row", "goal", "term", "truth")

    def __init__(self, goal: Goal, term: Term, truth: str, row: Row) -> None:
        self.goal = goal
        self.term = term
        self.truth = truth
        self._row = row

    @classmethod
    def of(cls, goal: Goal, args: tuple[Term, ...], truth: str = "true") -> Solution:
        """The solution that an answer's arguments are of a goal."""
        empty: Row = (None,) * len(goal.names)
        bind = match if all(a.ground for a in args) else unify
        row = cast("Row", bind(goal.args, empty, args))  # an answer fits its goal
        return cls(goal, goal_term(goal.key[0], args), truth, row)

    def __getitem__(self, name: str) -> object:
        at = self.goal.names.index(name) if name in self.goal.names else -1
        if at < 0 or name == "_":
            raise KeyError(name)
        return to_python(instantiate((var(at),), self._row)[0])

    def __iter__(self) -> Iterator[str]:
        return iter(name for name in self.goal.names if name != "_")

    def __len__(self) -> int:
        return sum(name != "_" for name in self.goal.names)

    def __repr__(self) -> str:
        mark = "" if self.truth == "true" else f" ({self.truth})"
        return f"<{show(self.term)}{mark}>"

    def __str__(self) -> str:
        return show(self.term)


def visible(answer: Answer) -> bool:
    """Whether an answer is true or undefined."""
    return answer.truth >= UNDEFINED


def read_goal(program: Program, text: str) -> Goal:
    """Read a goal: one atom of a predicate of the program.

    Raises:
        PrologSyntaxError: no term.
        PrologError: not an atom of a user predicate (a conjunction needs a rule of its own).
        UnknownPredicateError: the program has no such predicate.
    """
    read = read_term(text, program.operators)
    term = read.term
    if not isinstance(term, Atom | Struct):
        raise read.problem("a goal is an atom of a predicate", "for example r(1, X)")
    args = term.args if isinstance(term, Struct) else ()
    key: Key = (term.name, len(args))
    if key in BUILTINS or term.name in (",", ";", "\\+", "tnot", "not", ":-", "\\="):
        message = f"{term.name}/{len(args)} cannot be asked for by itself"
        raise read.problem(message, "give the query a rule of its own and ask for its head")
    if key not in program.predicates:
        message, close = f"unknown predicate {key[0]}/{key[1]}", program.known_like(key)
        raise read.problem(message, close, kind=UnknownPredicateError)
    return Goal(key, args, read.names)
