"""Checked rules to core clauses: alternatives split, terms flattened, negations made ground.

One rule becomes a clause per head and alternative. A term inside an argument or comparison
becomes an intermediate variable with an `Apply`. A negation that ranges over more than one row
(`!p(x, _)`, or a group) becomes a hidden relation of the values it is asked for:

    r(x) :- p(x), !q(x, _).     =>    ~1(x) :- q(x, _).    r(x) :- p(x), !~1(x).

so that the kernel only ever looks up whole rows, and counting makes the hidden relation exact.
Invariant: the clauses have the rules' meaning. What no executor runs is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltafix.diagnostics import Diagnostic, Span, render_all
from deltafix.errors import ProgramError
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Literal,
    Match,
    Relation,
    Slot,
)
from deltafix.rules.ast import Atom, Comparison, Formula, Not, Program
from deltafix.rules.check import CheckedProgram
from deltafix.rules.functors import SIGNATURES
from deltafix.rules.infer import Typed, term_type
from deltafix.rules.terms import Aggregate, BaseType, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import alternatives, occurrences

__all__ = ["Core", "normalize"]

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_RUNS = frozenset(
    [
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "neg",
        "min",
        "max",
        "band",
        "bor",
        "bxor",
        "bnot",
        "bshl",
        "bshr",
        "bshru",
        "land",
        "lor",
        "lxor",
        "lnot",
        "to_number",
        "to_unsigned",
        "to_float",
    ]
)


@dataclass(frozen=True, slots=True)
class Core:
    """A program as relations and clauses; a fact of the text is a clause without a body."""

    relations: tuple[Relation, ...]
    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.clauses))


def normalize(checked: CheckedProgram) -> Core:
    """The core of a checked program. Raises ProgramError (DF170) for what no executor runs."""
    program = checked.program
    relations = [Relation(r.name, program.column_types(r.name)) for r in program.relations]
    clauses: list[Clause] = []
    for number, typed in enumerate(checked.rules):
        rule = typed.rule
        for head in rule.heads:
            for case in alternatives(rule.body):
                work = _Flattening(program, typed, number, relations, clauses)
                work.clause(head, case)
    return Core(tuple(relations), tuple(clauses))


class _Flattening:
    """The literals of one clause as they are made."""

    def __init__(
        self,
        program: Program,
        typed: Typed,
        number: int,
        relations: list[Relation],
        clauses: list[Clause],
    ) -> None:
        self.program = program
        self.typed = typed
        self.number = number
        self.relations = relations
        self.clauses = clauses
        self.body: list[Literal] = []
        self.types: dict[str, BaseType] = dict(typed.variables)
        self.values = 0

    def clause(self, head: Atom, case: tuple[Formula, ...]) -> None:
        """Flatten one alternative for one head and append the clause."""
        for part in sorted(case, key=lambda part: isinstance(part, Not)):
            rest = [other for other in case if other is not part]
            self.literal(part, _names((head, *rest)))
        args = tuple(
            self.argument(arg, kind)
            for arg, kind in zip(head.args, self.program.column_types(head.relation), strict=True)
        )
        self.clauses.append(Clause(head.relation, args, tuple(self.body), self.number))

    def literal(self, part: Formula, outside: frozenset[str]) -> None:
        """Flatten one conjunct; `outside` are the variables the rest of the clause knows."""
        if isinstance(part, Atom):
            self.body.append(Match(part.relation, self.columns(part)))
        elif isinstance(part, Comparison):
            self.comparison(part.op, part.left, part.right, part.span)
        elif isinstance(part, Not):
            self.negation(part, outside)
        else:  # `alternatives` leaves no conjunction or disjunction at the top
            raise TypeError(part)

    def columns(self, atom: Atom) -> tuple[Argument | None, ...]:
        """The columns of a positive atom."""
        return tuple(
            None if isinstance(arg, Wildcard) else self.argument(arg, kind)
            for arg, kind in zip(atom.args, self.program.column_types(atom.relation), strict=True)
        )

    def comparison(self, op: str, left: Term, right: Term, span: Span | None) -> None:
        """Flatten a comparison; `x = functor(…)` becomes one Apply."""
        if op not in _NEGATED:
            self.refuse(f"`{op}`", span)
        kind = term_type(left, self.types, self.program)
        if op == "=":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Var) and isinstance(other, Call):
                    self.call(other, kind, Slot(one.name))
                    return
        self.body.append(Compare(op, kind, self.argument(left, kind), self.argument(right, kind)))

    def negation(self, part: Not, outside: frozenset[str]) -> None:
        """Flatten `!…`: a ground row directly, anything else through a hidden relation."""
        body = part.body
        if isinstance(body, Comparison) and body.op in _NEGATED:
            self.comparison(_NEGATED[body.op], body.left, body.right, body.span)
            return
        inside = _names((body,))
        if isinstance(body, Atom) and inside <= outside and not _has_wildcard(body):
            types = self.program.column_types(body.relation)
            args = tuple(
                self.argument(arg, kind) for arg, kind in zip(body.args, types, strict=True)
            )
            self.body.append(Absent(body.relation, args))
            return
        shared = tuple(sorted(inside & outside))
        kinds = tuple(self.types[name] for name in shared)
        name = f"~{1 + sum(r.hidden for r in self.relations)}"
        self.relations.append(Relation(name, kinds, hidden=True))
        slots = tuple(Slot(variable) for variable in shared)
        for case in alternatives(body):
            inner = _Flattening(self.program, self.typed, self.number, self.relations, self.clauses)
            inner.values = self.values
            for piece in sorted(case, key=lambda piece: isinstance(piece, Not)):
                rest = [other for other in case if other is not piece]
                inner.literal(piece, _names(rest) | frozenset(shared))
            if _unbound(slots, inner.body):
                # The group only tests a shared variable: range over what the clause binds.
                inner.body[:0] = [lit for lit in self.body if not isinstance(lit, Absent)]
            self.values = inner.values
            self.clauses.append(Clause(name, slots, tuple(inner.body), self.number))
        self.body.append(Absent(name, slots))

    def argument(self, term: Term, kind: BaseType) -> Argument:
        """A term as a variable or constant; anything nested becomes an intermediate variable."""
        if isinstance(term, Var):
            return Slot(term.name)
        if isinstance(term, Const):
            return Code(term.value, term.type or kind)
        if isinstance(term, Call):
            self.values += 1
            slot = Slot(f"${self.values}")
            self.call(term, kind, slot)
            return slot
        if isinstance(term, Aggregate):
            self.refuse(f"the aggregate `{term.op}`", term.span)
        raise TypeError(term)

    def call(self, term: Call, kind: BaseType, target: Slot) -> None:
        """Append `target = term`. Variadic functors become a chain of two-argument ones."""
        if term.functor not in _RUNS:
            self.refuse(f"the functor `{term.functor}`", term.span)
        arguments = SIGNATURES[term.functor].arguments
        of = term_type(term.args[0], self.types, self.program)
        if arguments == ("any",) and of == "symbol":
            self.refuse(f"`{term.functor}` of a symbol", term.span)
        if kind == "symbol":
            self.refuse(f"`{term.functor}` of symbols", term.span)
        args = [self.argument(arg, of) for arg in term.args]
        while len(args) > 2:
            self.values += 1
            step = Slot(f"${self.values}")
            self.body.append(Apply(step, term.functor, of, (args[0], args[1])))
            args[:2] = [step]
        self.types[target.name] = kind
        self.body.append(Apply(target, term.functor, of, tuple(args)))

    def refuse(self, what: str, span: Span | None) -> None:
        """Raise the one error for what parses and types but has no executor yet."""
        found = Diagnostic("DF170", f"{what} is not supported yet", span)
        sources = {} if self.program.source is None else {self.program.path: self.program.source}
        raise ProgramError(render_all([found], sources), [found])


def _names(parts: Iterable[Formula]) -> frozenset[str]:
    found: set[str] = set()
    for part in parts:
        found |= set(occurrences(part))
    return frozenset(found)


def _has_wildcard(atom: Atom) -> bool:
    return any(isinstance(arg, Wildcard) for arg in atom.args)


def _unbound(slots: Iterable[Slot], body: list[Literal]) -> tuple[Slot, ...]:
    """The slots that a hidden relation's body would not bind by itself."""
    bound: set[Argument | None] = set()
    for _ in range(len(body) + 1):
        for literal in body:
            if isinstance(literal, Match):
                bound |= set(literal.args)
            elif isinstance(literal, Apply) and all(
                isinstance(a, Code) or a in bound for a in literal.args
            ):
                bound.add(literal.target)
            elif isinstance(literal, Compare) and literal.op == "=":
                for one, other in (
                    (literal.left, literal.right),
                    (literal.right, literal.left),
                ):
                    if isinstance(one, Code) or one in bound:
                        bound.add(other)
    return tuple(slot for slot in slots if slot not in bound)
