"""A goal as text: `path("a", X)` to a relation and a pattern.

Invariant: the text goes through the language's own parser and checks, so a goal's errors read
like a program's. Repeated variables are refused: a goal is one lookup, not a rule.
"""

from __future__ import annotations

from types import EllipsisType

from deltafix.datalog.cursor import SyntaxFault
from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.source import decode
from deltafix.diagnostics import render_all, suggest
from deltafix.errors import FactError, ProgramError, UnknownRelationError
from deltafix.facts.schema import Pattern, Value
from deltafix.rules.ast import Atom, Program
from deltafix.rules.show import show_term
from deltafix.rules.terms import Var, Wildcard, constant

__all__ = ["read_goal"]


def read_goal(program: Program, text: str) -> tuple[str, Pattern]:
    """The relation and pattern of a goal (`...`: a variable or `_`).

    Raises ProgramError for a syntax error, UnknownRelationError, FactError for other terms.
    """
    atom = _parse(text)
    names = [declared.name for declared in program.relations]
    if atom.relation not in names:
        hint = suggest(atom.relation, names)
        message = f"unknown relation {atom.relation!r}; the program declares {', '.join(names)}"
        raise UnknownRelationError(message + (f" (did you mean {hint!r}?)" if hint else ""))
    pattern: list[Value | EllipsisType] = []
    seen: set[str] = set()
    for arg in atom.args:
        if isinstance(arg, Wildcard):
            pattern.append(...)
        elif isinstance(arg, Var):
            if arg.name in seen:
                raise FactError(f"variable {arg.name} stands twice in the goal {text}")
            seen.add(arg.name)
            pattern.append(...)
        else:
            try:
                pattern.append(constant(arg))
            except ValueError:
                message = f"a goal takes constants, variables and `_`, not {show_term(arg)}"
                raise FactError(message) from None
    return atom.relation, tuple(pattern)


def _parse(text: str) -> Atom:
    """One atom, with the program parser's own errors."""
    source, found = decode(text.strip().removesuffix("."), "<goal>")
    tokens = preprocess(source, None)
    parser = Parser(tokens.tokens, source)
    problems = [*found, *tokens.found]
    atom = None
    if not problems:
        try:
            atom = parser.atom("a relation")
            if parser.token.kind != "end":
                parser.fail(f"expected the end of the goal, found {parser.token.shown}")
        except SyntaxFault as fault:
            problems.append(fault.diagnostic)
    if problems or atom is None:
        raise ProgramError(render_all(problems, {"<goal>": source.text}), problems)
    return atom
