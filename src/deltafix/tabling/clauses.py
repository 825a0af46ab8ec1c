"""Clauses as data the solver runs on: literals, rules, and how a read clause becomes them.

Three nouns. A *clause* is what the user inserts and deletes; each of its alternatives (a body may
hold `;`) is a *rule*; a rule with an empty body is a *fact*. A *literal* is one goal of a body.
Invariant: everything here is fixed after compilation except `Rule.affects`, the consumers that
stand on the rule. Declarations and consulting live in `program`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from deltafix.diagnostics import Diagnostic, Span, render
from deltafix.errors import LimitError, PrologError, RefusedPredicateError
from deltafix.tabling.builtins import BUILTINS, refused
from deltafix.tabling.reader import Extent, ReadClause
from deltafix.tabling.terms import Atom, Struct, Term, Var
from deltafix.tabling.writer import show

if TYPE_CHECKING:
    from deltafix.tabling.table import Consumer

Key: TypeAlias = tuple[str, int]
"""Name and number of arguments of a predicate."""

Shape: TypeAlias = "Term | tuple[str, int]"
"""What a first argument looks like from outside: a constant, or a compound's name and width."""

MAX_ALTERNATIVES = 4096
"""Bodies are brought into disjunctive form; nested `;` multiply. Documented in tabling.md."""

NEGATIONS = ("\\+", "tnot", "not")


class Kind(Enum):
    """What a literal asks for."""

    CALL = "call"
    NOT = "not"
    BUILTIN = "builtin"
    UNIFY = "unify"
    DIFFER = "differ"


@dataclass(eq=False, slots=True)
class Literal:
    """One goal: predicate, argument patterns over the rule's variables, and its place."""

    kind: Kind
    key: Key
    args: tuple[Term, ...]
    term: Term
    span: Span | None = None


def shape_of(args: Sequence[Term]) -> Shape | None:
    """The shape of the first of some arguments; None fits all: none there, or a variable."""
    first = args[0] if args else None
    if isinstance(first, Struct):
        return first.name, len(first.args)
    return None if isinstance(first, Var) else first


@dataclass(eq=False, slots=True)
class Rule:
    """One alternative of a clause. `args` are the head's; a row has `slots` entries.

    `shape` is its first argument's: calls of another shape are not shown the rule.
    `affects` holds, in order, the consumers whose premise this rule is.
    """

    clause: Clause
    key: Key
    args: tuple[Term, ...]
    body: tuple[Literal, ...]
    slots: int
    ground: bool
    shape: Shape | None
    affects: dict[Consumer, None] = field(default_factory=dict, repr=False)

    @property
    def is_fact(self) -> bool:
        """Whether the body is empty."""
        return not self.body


@dataclass(eq=False, slots=True)
class Clause:
    """A clause of the program; `term` identifies it: variants are the same clause."""

    term: Term
    names: tuple[str, ...]
    read: ReadClause = field(repr=False)
    rules: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        return show(self.term, self.names) + "."

    def problem(self, code: str, message: str, literal: Literal | None, fix: str) -> Diagnostic:
        """A diagnostic that names this clause and one of its literals."""
        where = f" in `{show(literal.term, self.names)}`" if literal is not None else ""
        span = literal.span if literal is not None and literal.span else self.read.span()
        return Diagnostic(code, f"{message}{where} of `{self}`", span, fix)

    def render(self, diagnostic: Diagnostic) -> str:
        """The diagnostic with the line of text it speaks of."""
        return render(diagnostic, self.read.source.text)


def _split(term: Term) -> tuple[Term, Term | None]:
    if isinstance(term, Struct) and term.name == ":-" and len(term.args) == 2:
        return term.args[0], term.args[1]
    return term, None


def _refuse(read: ReadClause, name: str, extent: Extent, advice: str) -> PrologError:
    message = f"{name} is not part of pure tabled programs"
    return read.problem(message, advice, extent, RefusedPredicateError)


def compile_clause(read: ReadClause) -> Clause:
    """A read clause as rules, one per alternative of its body.

    Raises:
        RefusedPredicateError: the body uses a predicate outside the subset.
        PrologError: the head is no callable term, or is a built-in.
        LimitError: more than `MAX_ALTERNATIVES` alternatives.
    """
    head, body = _split(read.term)
    known = body is not None and len(read.extent.parts) == 2  # a clause given as a term has none
    extents = read.extent.parts if known else (read.extent, read.extent)
    if not isinstance(head, Atom | Struct):
        raise read.problem(f"{show(head, read.names)} cannot be a head", "name(args)", extents[0])
    key: Key = (head.name, len(head.args) if isinstance(head, Struct) else 0)
    if key in BUILTINS or key == ("\\=", 2) or key in ((",", 2), (";", 2), ("|", 2)):
        raise read.problem(f"{key[0]}/{key[1]} is built in", "choose another name", extents[0])
    advice = refused(*key)
    if advice is not None:
        raise _refuse(read, head.name, extents[0], advice)
    clause = Clause(read.term, read.names, read)
    args = head.args if isinstance(head, Struct) else ()
    alternatives = _alternatives(read, body, extents[1] if body is not None else None)
    slots = len(read.names)
    ground, shape = all(a.ground for a in args), shape_of(args)
    clause.rules = tuple(
        Rule(clause, key, args, alternative, slots, ground, shape) for alternative in alternatives
    )
    return clause


def _alternatives(
    read: ReadClause, body: Term | None, extent: Extent | None
) -> list[tuple[Literal, ...]]:
    """The body in disjunctive form, left to right, without recursion."""
    if body is None or extent is None:
        return [()]
    done: list[tuple[Literal, ...]] = []
    work: list[tuple[list[tuple[Term, Extent]], list[Literal]]] = [([(body, extent)], [])]
    while work:
        pending, literals = work.pop()
        while pending:
            term, at = pending.pop()
            operands = term.args if isinstance(term, Struct) and len(term.args) == 2 else ()
            parts = at.parts if len(at.parts) == 2 else (at, at)
            if operands and isinstance(term, Struct) and term.name == ",":
                pending.append((operands[1], parts[1]))
                pending.append((operands[0], parts[0]))
            elif operands and isinstance(term, Struct) and term.name in (";", "|"):
                work.append(([*pending, (operands[1], parts[1])], list(literals)))
                pending.append((operands[0], parts[0]))
            elif isinstance(term, Atom) and term.name == "true":
                continue
            else:
                literals.append(_literal(read, term, at))
        done.append(tuple(literals))
        if len(done) + len(work) > MAX_ALTERNATIVES:
            msg = f"more than {MAX_ALTERNATIVES} alternatives in {show(read.term, read.names)}"
            raise LimitError(msg)
    return done


def _literal(read: ReadClause, term: Term, at: Extent) -> Literal:
    if isinstance(term, Var):
        raise read.problem(f"{read.names[term.index]} as a goal", refused("call", 1), at)
    if not isinstance(term, Atom | Struct):
        raise read.problem(f"{show(term, read.names)} as a goal", "a predicate", at)
    args: tuple[Term, ...] = term.args if isinstance(term, Struct) else ()
    key: Key = (term.name, len(args))
    span = read.span(at)
    if len(args) == 1 and term.name in NEGATIONS:
        inner = _literal(read, args[0], at.parts[0] if at.parts else at)
        if inner.kind is Kind.UNIFY:
            return Literal(Kind.DIFFER, ("\\=", 2), inner.args, term, span)
        if inner.kind is not Kind.CALL:
            message = f"\\+ over {show(args[0], read.names)}"
            opposite = "negate a predicate of the program; for a test use its opposite"
            raise read.problem(message, opposite, at)
        return Literal(Kind.NOT, inner.key, inner.args, term, span)
    if key == ("=", 2):
        return Literal(Kind.UNIFY, key, args, term, span)
    if key == ("\\=", 2):
        return Literal(Kind.DIFFER, key, args, term, span)
    if key in BUILTINS:
        return Literal(Kind.BUILTIN, key, args, term, span)
    if term.name in (",", ";", "|") and len(args) == 2:
        own = "give it a predicate of its own and negate that"
        raise read.problem("a conjunction under \\+", own, at)
    advice = refused(*key)
    if advice is not None:
        raise _refuse(read, term.name, at, advice)
    return Literal(Kind.CALL, key, args, term, span)
