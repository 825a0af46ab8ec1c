"""A goal as text: `path("a", X)` to a relation and a pattern.

Invariant: the text goes through the language's own parser and checks, so a goal's errors read
like a program's. Repeated variables are refused: a goal is one lookup, not a rule.
"""

from __future__ import annotations

from deltafix.datalog.cursor import SyntaxFault
from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.source import decode
from deltafix.diagnostics import render_all, suggest
from deltafix.errors import FactError, ProgramError, UnknownRelationError
from deltafix.facts.schema import Value
from deltafix.rules.ast import Atom, Program
from deltafix.rules.terms import Call, Const, Var, Wildcard

__all__ = ["read_goal"]


def read_goal(program: Program, text: str) -> tuple[str, tuple[Value | None, ...]]:
    """The relation and pattern of a goal (None: a variable or `_`).

    Raises ProgramError for a syntax error, UnknownRelationError, FactError for other terms.
    """
    atom = _parse(text)
    names = [declared.name for declared in program.relations]
    if atom.relation not in names:
        hint = suggest(atom.relation, names)
        message = f"unknown relation {atom.relation!r}; the program declares {', '.join(names)}"
        raise UnknownRelationError(message + (f" (did you mean {hint!r}?)" if hint else ""))
    pattern: list[Value | None] = []
    seen: set[str] = set()
    for arg in atom.args:
        if isinstance(arg, Wildcard):
            pattern.append(None)
        elif isinstance(arg, Var):
            if arg.name in seen:
                raise FactError(f"variable {arg.name} stands twice in the goal {text}")
            seen.add(arg.name)
            pattern.append(None)
        elif isinstance(arg, Const):
            pattern.append(arg.value)
        elif isinstance(arg, Call) and arg.functor == "neg" and isinstance(arg.args[0], Const):
            value = arg.args[0].value
            pattern.append(-value if not isinstance(value, str) else value)
        else:
            raise FactError(f"a goal takes constants, variables and `_`, not {arg}")
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
