"""One alternative of one rule as core clauses: literals flattened, hidden relations made.

One noun, `Flattening`: the literals of a clause while they are made. Atoms and comparisons come
first, then the aggregates they mention, then negations, then the head; an aggregate with a value
for the empty group splits the clause in two, so everything after it runs once per choice.
Invariant: variables keep their names (`rules.apart` made them unique), so shared variables are
those whose occurrences are not all inside. Which literals can run when is `plan.order`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, product

from deltafix.plan import folds
from deltafix.plan.clause import (
    Absent,
    Apply,
    Argument,
    Clause,
    Code,
    Compare,
    Fold,
    Literal,
    Match,
    Relation,
    Slot,
)
from deltafix.plan.constructed import as_constant, has_wildcard, is_value, unpack
from deltafix.plan.narrow import NARROW, narrow_call
from deltafix.rules.ast import Atom, Comparison, Formula, Not, Program
from deltafix.rules.functors import CONSTRAINTS
from deltafix.rules.infer import Typed, term_type
from deltafix.rules.schemas import Schemas
from deltafix.rules.terms import Aggregate, BaseType, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import alternatives, is_constructor, occurrences

__all__ = ["Flattening", "Made", "unbound"]

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TWO = frozenset(("+", "*", "min", "max", "cat"))  # longer calls are chains of two arguments


@dataclass
class Made:
    """What the clauses of a program add up to."""

    schemas: Schemas
    relations: list[Relation]
    clauses: list[Clause] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)

    def hide(self, types: Iterable[BaseType]) -> str:
        """A new hidden relation; returns its name."""
        name = f"~{1 + sum(r.hidden for r in self.relations)}"
        self.relations.append(Relation(name, tuple(types), hidden=True))
        return name


class Flattening:
    """The literals of one clause as they are made.

    `whole` are the atoms and formulae of the alternative, heads included: what occurs in it
    outside of a group or aggregate is shared with that.
    """

    def __init__(
        self,
        program: Program,
        typed: Typed,
        number: int,
        made: Made,
        whole: tuple[Formula, ...],
    ) -> None:
        self.program = program
        self.typed = typed
        self.number = number
        self.made = made
        self.whole = whole
        self.body: list[Literal] = []
        self.types: dict[str, BaseType] = dict(typed.variables)
        self.values = 0
        self.pending: list[tuple[Aggregate, Slot]] = []
        self.case: tuple[Formula, ...] = ()

    def inner(self) -> Flattening:
        """A flattening for the body of a group or aggregate of this clause."""
        made = Flattening(self.program, self.typed, self.number, self.made, self.whole)
        made.values = self.values
        made.types = self.types
        return made

    def clause(self, head: Atom, case: tuple[Formula, ...]) -> None:
        """Flatten one alternative for one head and append the clauses."""
        kinds = self.program.column_types(head.relation)
        for _ in self.bodies(case):
            base = self.body
            args = tuple(
                self.argument(arg, kind) for arg, kind in zip(head.args, kinds, strict=True)
            )
            for _ in self.folded():
                self.made.clauses.append(Clause(head.relation, args, tuple(self.body), self.number))
            self.body = base

    def bodies(self, case: tuple[Formula, ...]) -> Iterator[None]:
        """Flatten a conjunction; at each step `body` is one of the clauses it amounts to."""
        self.case = case
        for part in case:
            if not isinstance(part, Not):
                self.literal(part)
        for _ in self.folded():
            for part in case:
                if isinstance(part, Not):
                    self.negation(part)
            yield from self.folded()

    def folded(self) -> Iterator[None]:
        """Turn pending aggregates into literals; one step per choice of their alternatives."""
        pending, self.pending = self.pending, []
        base = self.body
        choices = [folds.literals(self, term, slot) for term, slot in pending]
        for choice in product(*choices):
            self.body = [*base, *chain.from_iterable(choice)]
            yield
        self.body = base

    def literal(self, part: Formula) -> None:
        """Flatten one positive conjunct."""
        if isinstance(part, Atom):
            self.body.append(Match(part.relation, self.columns(part)))
        elif isinstance(part, Comparison):
            if not self.matched(part):
                self.comparison(part.op, part.left, part.right)
        else:  # `alternatives` leaves no conjunction or disjunction at the top
            raise TypeError(part)

    def columns(self, atom: Atom) -> tuple[Argument | None, ...]:
        """The columns of a positive atom; a record there is a pattern."""
        found: list[Argument | None] = []
        for arg, kind in zip(atom.args, self.program.column_types(atom.relation), strict=True):
            term = as_constant(arg)
            if isinstance(term, Call) and is_constructor(term):
                slot = self.fresh(kind)
                unpack(self, slot, term)
                found.append(slot)
            else:
                found.append(None if isinstance(term, Wildcard) else self.argument(term, kind))
        return tuple(found)

    def fresh(self, kind: BaseType) -> Slot:
        """A new intermediate variable."""
        self.values += 1
        slot = Slot(f"${self.values}")
        self.types[slot.name] = kind
        return slot

    def matched(self, part: Comparison) -> bool:
        """Flatten `value = [x, y]` where the record is a pattern; False: it is a value."""
        if part.op != "=":
            return False
        for one, other in ((part.left, part.right), (part.right, part.left)):
            pattern = as_constant(one)
            if isinstance(pattern, Call) and is_constructor(pattern):
                if is_value(self, pattern, part):
                    continue
                value = self.argument(other, "record")
                slot = value if isinstance(value, Slot) else self.fresh("record")
                if slot is not value:
                    self.body.append(Compare("=", "record", slot, value))
                unpack(self, slot, pattern)
                return True
        return False

    def comparison(self, op: str, left: Term, right: Term, *, holds: bool = True) -> None:
        """Flatten a comparison; `x = functor(…)` becomes one Apply."""
        if op in CONSTRAINTS:
            self.values += 1
            slot = Slot(f"${self.values}")
            args = (self.argument(left, "symbol"), self.argument(right, "symbol"))
            self.body.append(Apply(slot, op, args, ("symbol", "symbol"), "number"))
            self.body.append(Compare("=", "number", slot, Code(int(holds), "number")))
            return
        kind = term_type(left, self.types, self.program)
        left, right = as_constant(left), as_constant(right)
        if op == "=":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Var) and isinstance(other, Call):
                    self.call(other, kind, Slot(one.name))
                    return
                if isinstance(one, Var) and isinstance(other, Aggregate):
                    self.pending.append((other, Slot(one.name)))
                    return
        self.body.append(Compare(op, kind, self.argument(left, kind), self.argument(right, kind)))

    def negation(self, part: Not) -> None:
        """Flatten `!…`: a ground row directly, anything else through a hidden relation."""
        body = part.body
        if isinstance(body, Comparison):
            if body.op in CONSTRAINTS:
                self.comparison(body.op, body.left, body.right, holds=False)
            else:
                self.comparison(_NEGATED[body.op], body.left, body.right)
            return
        shared = self.shared(body)
        if (
            isinstance(body, Atom)
            and set(occurrences(body)) <= shared
            and not has_wildcard(body.args)
        ):
            types = self.program.column_types(body.relation)
            args = tuple(
                self.argument(arg, kind) for arg, kind in zip(body.args, types, strict=True)
            )
            self.body.append(Absent(body.relation, args))
            return
        slots = tuple(Slot(variable) for variable in sorted(shared))
        name = self.made.hide(self.types[slot.name] for slot in slots)
        self.group(body, name, slots)
        self.body.append(Absent(name, slots))

    def group(self, body: Formula, name: str, args: tuple[Slot, ...]) -> None:
        """Clauses of a hidden relation: the values of `args` for which `body` holds."""
        for case in alternatives(body):
            inner = self.inner()
            for _ in inner.bodies(case):
                self.made.clauses.append(
                    Clause(name, args, self.grounded(args, inner.body), self.number)
                )
            self.values = inner.values

    def grounded(self, args: Iterable[Argument], body: list[Literal]) -> tuple[Literal, ...]:
        """A group's body; where it only tests a shared variable, what binds it goes first."""
        if unbound(args, body):
            return (*(lit for lit in self.body if not isinstance(lit, Absent)), *body)
        return tuple(body)

    def shared(self, inside: Formula | Aggregate) -> set[str]:
        """The variables of a group or aggregate that the rest of the clause uses too."""
        total = occurrences(self.whole)
        return {name for name, count in occurrences(inside).items() if total[name] > count}

    def argument(self, term: Term, kind: BaseType) -> Argument:
        """A term as a variable or constant; anything nested becomes an intermediate variable."""
        term = as_constant(term)
        if isinstance(term, Var):
            return Slot(term.name)
        if isinstance(term, Const):
            return Code(term.value, term.type or kind)
        if isinstance(term, Call | Aggregate):
            self.values += 1
            slot = Slot(f"${self.values}")
            if isinstance(term, Call):
                self.call(term, kind, slot)
            else:
                self.types[slot.name] = kind
                self.pending.append((term, slot))
            return slot
        raise TypeError(term)

    def call(self, term: Call, kind: BaseType, target: Slot) -> None:
        """Append `target = term`. Longer calls of two-argument functors become a chain."""
        terms = term.args[:1] if term.functor == "as" else term.args
        types = [term_type(arg, self.types, self.program) for arg in terms]
        args = [self.argument(arg, of) for arg, of in zip(terms, types, strict=True)]
        while len(args) > 2 and term.functor in _TWO:
            self.values += 1
            step = Slot(f"${self.values}")
            pair = (args[0], args[1])
            self.body.append(Apply(step, term.functor, pair, (types[0], types[1]), types[0]))
            args[:2] = [step]
            types[:2] = types[:1]
        self.types[target.name] = kind
        call = Apply(target, term.functor, tuple(args), tuple(types), kind)
        if self.program.word_size == NARROW and kind in ("number", "unsigned"):
            self.body.extend(narrow_call(self, call, kind))
        else:
            self.body.append(call)


def unbound(args: Iterable[Argument], body: Iterable[Literal]) -> tuple[Argument, ...]:
    """The variables among `args` that a body does not bind by itself."""
    literals = list(body)
    bound: set[Argument | None] = set()
    for _ in range(len(literals) + 1):
        for literal in literals:
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
    return tuple(arg for arg in args if isinstance(arg, Slot) and arg not in bound)
