"""One alternative of one rule as core clauses: literals flattened, hidden relations made.

One noun, `Flattening`: the literals of a clause while they are made. Atoms and comparisons come
first, then the aggregates they mention, then negations, then the head; an aggregate with a value
for the empty group splits the clause in two, so everything after it runs once per choice.
Invariant: variables keep their names (`rules.apart` made them unique), so shared variables are
those whose occurrences are not all inside. Which literals can run when is `plan.order`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, product

from deltafix.errors import InternalError
from deltafix.facts.values import BaseType
from deltafix.plan import folds
from deltafix.plan.binding import binders, evaluable, tests_of, unbound
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
    given_apart,
    slots_of,
)
from deltafix.plan.constructed import as_constant, field_types, has_wildcard, patterns, unpack
from deltafix.plan.narrow import NARROW, narrow_call
from deltafix.rules.ast import Atom, Comparison, Formula, Not, Or, Program
from deltafix.rules.autoinc import AUTOINC, numbered_by
from deltafix.rules.functors import CONSTRAINTS
from deltafix.rules.infer import Typed, term_type
from deltafix.rules.schemas import Schemas
from deltafix.rules.scope import grounded_by, shared
from deltafix.rules.show import show_formula
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import alternatives, body_of, inside, is_constructor, occurrences
from deltafix.rules.whole import asked

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TWO = frozenset(("+", "*", "min", "max", "cat"))  # longer calls are chains of two arguments


@dataclass(frozen=True, slots=True)
class Demand:
    """A negated group or aggregate, and the variable it tests that only a recursion binds."""

    inside: Not | Aggregate
    variable: str


@dataclass
class Draft:
    """What the clauses of a program add up to."""

    schemas: Schemas
    relations: list[Relation]
    clauses: list[Clause] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    demands: dict[str, Demand] = field(default_factory=dict)
    """By hidden relation: what it can only be asked by the recursion it is part of."""
    calls: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """The calls of `autoinc`, numbered: by rule, alternative and term."""
    apart: dict[str, str] = field(default_factory=dict)
    """By relation, the hidden one in which the rows given to it lie (see `plan.build`)."""
    asking: dict[int, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Clauses of `demands`, by number: how many of their literals only say what is asked for, and
    the relations of the recursion."""

    wholes: dict[object, str] = field(default_factory=dict)
    """The hidden relations of disjunctions, by the disjunction and what is around it."""
    hidden: int = 0
    """How many hidden relations are numbered."""

    def next_name(self) -> str:
        """A name for a hidden relation that no other one has."""
        self.hidden += 1
        return f"~{self.hidden}"

    def hide(self, types: Iterable[BaseType], *, is_range: bool = False) -> str:
        """A new hidden relation; returns its name."""
        name = self.next_name()
        self.relations.append(Relation(name, tuple(types), hidden=True, is_range=is_range))
        return name

    def set_apart(self, relation: Relation) -> str:
        """The hidden relation of the rows given to a relation; returns its name."""
        if relation.name not in self.apart:
            hidden, clause = given_apart(relation)
            self.apart[relation.name] = hidden.name
            self.relations.append(hidden)
            self.clauses.append(clause)
        return self.apart[relation.name]


class Flattening:
    """The literals of one clause as they are made.

    `origin` is the rule's number and its alternative's. `total` are the occurrences in all of the
    alternative, heads included: what occurs outside of a group or aggregate is shared with that.
    `known` are variables that something around binds for the literals; None: all that occur
    elsewhere. `context` is what holds around a group or aggregate, all the way out: where the
    inside only tests a variable, that binds it; rather not by reading `recursion`, the relations
    of the head's own stratum.
    """

    def __init__(
        self,
        program: Program,
        typed: Typed,
        origin: tuple[int, int],
        draft: Draft,
        total: Counter[str],
    ) -> None:
        self.program = program
        self.typed = typed
        self.origin = origin
        self.number = origin[0]
        self.draft = draft
        self.total = total
        self.known: frozenset[str] | None = None
        self.body: list[Literal] = []
        self.types: dict[str, BaseType] = dict(typed.variables)
        self.values = 0
        self.pending: list[tuple[Aggregate, Slot | Call]] = []
        self.wholes: tuple[tuple[int, Or], ...] = ()
        self.context: tuple[Literal, ...] = ()
        self.recursion: frozenset[str] = frozenset()
        self.case: tuple[Formula, ...] = ()

    def inner(self) -> Flattening:
        """A flattening for the body of a group or aggregate of this clause."""
        inner = Flattening(self.program, self.typed, self.origin, self.draft, self.total)
        inner.values = self.values
        inner.types = self.types
        inner.context = self.around()
        inner.recursion = self.recursion
        return inner

    def around(self) -> tuple[Literal, ...]:
        """What holds here and further out, negations aside."""
        return (
            *self.context,
            *(literal for literal in self.body if not isinstance(literal, Absent)),
        )

    def clause(self, head: Atom, case: tuple[Formula, ...]) -> None:
        """Flatten one alternative for one head and append the clauses."""
        kinds = self.program.column_types(head.relation)
        for _ in self.bodies(case):
            base = self.body
            args = tuple(
                self.argument(arg, kind) for arg, kind in zip(head.args, kinds, strict=True)
            )
            for _ in self.folded():
                body, name = tuple(self.body), self.typed.rule.name
                self.draft.clauses.append(Clause(head.relation, args, body, self.number, name))
            self.body = base

    def bodies(self, case: tuple[Formula, ...]) -> Iterator[None]:
        """Flatten a conjunction; at each step `body` is one of the clauses it amounts to."""
        self.case = case
        known = self.known
        if known is None:
            own = occurrences(case)
            known = frozenset(name for name in own if self.total[name] > own[name])
        taken_apart = patterns(case, self.total, known)
        wholes = []
        for position, part in enumerate(case):
            if isinstance(part, Or):
                wholes.append((len(self.body), part))
            elif not isinstance(part, Not):
                self.literal(part, taken_apart.get(position))
        self.wholes = tuple(wholes)
        for _ in self.folded():
            for part in case:
                if isinstance(part, Not):
                    self.negation(part)
            for _ in self.folded():
                if self.wholes:
                    message = f"nothing binds what `{show_formula(self.wholes[0][1])}` asks for"
                    raise InternalError(f"plan: {message}")
                yield

    def folded(self) -> Iterator[None]:
        """Turn pending aggregates into literals; one step per choice of their alternatives.

        One whose value another one needs goes first. Disjunctions that stay whole go as soon as
        there is what they ask for.
        """
        base, wholes = self.body, self.wholes
        self.body = [*base]
        self.disjunctions()
        yield from self._folded()
        self.body, self.wholes = base, wholes

    def _folded(self) -> Iterator[None]:
        pending, self.pending = self.pending, []
        base = self.body
        if not pending:
            yield
            return
        first = pending
        if len(pending) > 1:
            first = [pair for pair in pending if not self.waits(pair[0])] or pending
        choices = [folds.literals(self, term, slot) for term, slot in first]
        for choice in product(*choices):
            self.body = [*base, *chain.from_iterable(choice)]
            self.pending = [pair for pair in pending if pair not in first]
            yield from self.folded()
        self.body = base

    def waits(self, term: Aggregate) -> bool:
        """Whether an aggregate looks at a variable that nothing but another one binds."""
        each = [grounded_by(case, self.total) for case in alternatives(body_of(term))]
        wanted = self.shared(term) - frozenset.intersection(*each) if each else ()
        return bool(unbound(map(Slot, wanted), self.around()))

    def disjunctions(self) -> None:
        """Insert the disjunctions that stay whole, each once the rest binds what it asks for."""
        came = 1
        while self.wholes and came:
            bound = {arg.name for arg in evaluable(self.around())[1] if isinstance(arg, Slot)}
            waiting: list[tuple[int, Or]] = []
            came = 0  # in front of those that are still looked at
            for position, part in self.wholes:
                asks = asked(part, self.total, bound)
                if asks is None:
                    waiting.append((position + came, part))
                else:
                    self.body.insert(position + came, self.disjunction(part, asks))
                    came += 1
            self.wholes = tuple(waiting)

    def disjunction(self, part: Or, asks: tuple[frozenset[str], ...]) -> Match:
        """A row of a hidden relation of what a disjunction shares with the rest.

        Each of its alternatives has a clause, behind literals from around that bind what it asks.
        """
        slots = tuple(Slot(name) for name in sorted(self.shared(part)))
        own = occurrences(part)
        around = [self.binding(tuple(map(Slot, sorted(names)))) for names in asks]
        key = (id(part), slots, tuple(around))
        name = self.draft.wholes.get(key)
        if name is None:
            name = self.draft.wholes[key] = self.draft.hide(self.types[slot.name] for slot in slots)
            for case, names, asking in zip(inside(part), asks, around, strict=True):
                inner = self.inner()
                inner.total = self.total - own + occurrences(case)
                inner.known, inner.context, inner.body = names, (), list(asking)
                for _ in inner.bodies(case):
                    rest = inner.body[len(asking) :]
                    first = [literal for literal in asking if literal not in rest]
                    clause = Clause(name, slots, (*first, *rest), self.number, asks=len(first))
                    self.draft.clauses.append(clause)
                self.values = inner.values
        return Match(name, slots)

    def binding(self, slots: tuple[Slot, ...]) -> tuple[Literal, ...]:
        """What around binds some variables: one atom and the tests of these, or all connected."""
        if not slots:
            return ()
        around = self.around()
        wanted = set(slots)
        atoms = [atom for atom in around if isinstance(atom, Match) and wanted <= {*slots_of(atom)}]
        atoms.sort(key=lambda atom: (atom.relation in self.recursion, len(slots_of(atom))))
        if not atoms:
            return binders(slots, around, self.recursion)[0]
        only = tuple(a if isinstance(a, Code) or a in wanted else None for a in atoms[0].args)
        return (Match(atoms[0].relation, only), *tests_of(wanted, around))

    def literal(self, part: Formula, pattern: Term | None) -> None:
        """Flatten one positive conjunct; an equation may have a `pattern` to take apart."""
        if isinstance(part, Atom):
            self.body.append(Match(part.relation, self.columns(part)))
        elif isinstance(part, Comparison):
            if isinstance(pattern, Call):
                left = as_constant(part.left)
                self.taken_apart(part.right if left is pattern else left, pattern)
            else:
                self.comparison(part.op, part.left, part.right)
        else:  # negations and disjunctions wait for what binds their variables
            raise TypeError(part)

    def columns(self, atom: Atom) -> tuple[Argument | None, ...]:
        """The columns of a positive atom; a record there is a pattern."""
        arguments: list[Argument | None] = []
        for arg, kind in zip(atom.args, self.program.column_types(atom.relation), strict=True):
            term = as_constant(arg)
            if isinstance(term, Call) and is_constructor(term):
                slot = self.fresh(kind)
                unpack(self, slot, term)
                arguments.append(slot)
            else:
                arguments.append(None if isinstance(term, Wildcard) else self.argument(term, kind))
        return tuple(arguments)

    def fresh(self, kind: BaseType) -> Slot:
        """A new intermediate variable."""
        self.values += 1
        slot = Slot(f"${self.values}")
        self.types[slot.name] = kind
        return slot

    def taken_apart(self, value: Term, pattern: Call) -> None:
        """Flatten `value = [x, y]` where the record is a pattern."""
        if isinstance(value, Aggregate) and folds.is_opened(self.program, value, pattern):
            self.pending.append((value, pattern))
            return
        kind = term_type(pattern, self.types, self.program)
        argument = self.argument(value, kind)
        slot = argument if isinstance(argument, Slot) else self.fresh(kind)
        if slot is not argument:
            self.body.append(Compare("=", kind, slot, argument))
        unpack(self, slot, pattern)

    def comparison(self, op: str, left: Term, right: Term, *, holds: bool = True) -> None:
        """Flatten a comparison; `x = functor(…)` becomes one Apply."""
        if op in CONSTRAINTS:
            slot = self.fresh("number")
            args = (self.argument(left, "symbol"), self.argument(right, "symbol"))
            self.body.append(Apply(slot, op, args, ("symbol", "symbol"), "number"))
            self.body.append(Compare("=", "number", slot, Code(int(holds), "number")))
            return
        kind = term_type(left, self.types, self.program)
        left, right = as_constant(left), as_constant(right)
        if op == "=":
            for side, other in ((left, right), (right, left)):
                if isinstance(side, Var) and isinstance(other, Call):
                    self.call(other, kind, Slot(side.name))
                    return
                if isinstance(side, Var) and isinstance(other, Aggregate):
                    self.pending.append((other, Slot(side.name)))
                    return
                if (
                    isinstance(side, Call)
                    and isinstance(other, Aggregate)
                    and folds.is_opened(self.program, other, side)
                ):  # a row that is asked for: its record is not made
                    self.pending.append((other, side))
                    return
        self.body.append(Compare(op, kind, self.argument(left, kind), self.argument(right, kind)))

    def negation(self, part: Not) -> None:
        """Flatten `!…`: a row or comparison of values directly, else through a hidden relation.

        The terms of an atom or comparison have their values here; `_` is any that fits them.
        """
        body = part.body
        if isinstance(body, Atom):
            types = self.program.column_types(body.relation)
            if not has_wildcard(body.args):
                pairs = zip(body.args, types, strict=True)
                args = tuple(self.argument(arg, kind) for arg, kind in pairs)
                self.body.append(Absent(body.relation, args))
                return
            columns = zip(body.args, types, strict=True)
            body = replace(body, args=tuple(self.evaluated(arg, kind) for arg, kind in columns))
        elif isinstance(body, Comparison):
            if body.op in CONSTRAINTS:
                self.comparison(body.op, body.left, body.right, holds=False)
                return
            if not has_wildcard((body.left, body.right)):
                self.comparison(_NEGATED[body.op], body.left, body.right)
                return
            kind = term_type(body.left, self.types, self.program)
            left, right = self.evaluated(body.left, kind), self.evaluated(body.right, kind)
            body = replace(body, left=left, right=right)
        variables = self.shared(body) if body is part.body else occurrences(body)
        slots = tuple(map(Slot, sorted(variables)))
        name = self.draft.hide(self.types[slot.name] for slot in slots)
        for case in alternatives(body):
            inner = self.inner()
            inner.known = frozenset(slot.name for slot in slots)
            for _ in inner.bodies(case):
                inside = self.grounded(part, name, slots, inner.body)
                self.draft.clauses.append(Clause(name, slots, inside, self.number))
            self.values = inner.values
        self.body.append(Absent(name, slots))

    def evaluated(self, term: Term, kind: BaseType) -> Term:
        """A column of a negated atom with a variable for all that it computes."""
        if isinstance(term, (Var, Const, Wildcard)):
            return term
        if isinstance(term, Call) and is_constructor(term) and has_wildcard((term,)):
            kinds = field_types(self, term)
            fields = zip(term.args, kinds, strict=True)
            return replace(term, args=tuple(self.evaluated(arg, of) for arg, of in fields))
        value = self.argument(term, kind)
        return Var(value.name) if isinstance(value, Slot) else Const(value.value, value.type)

    def grounded(
        self, inside: Not | Aggregate, name: str, args: Iterable[Argument], body: list[Literal]
    ) -> tuple[Literal, ...]:
        """A body of `inside`, for the hidden relation `name`.

        Where it only tests a variable of `args`, what binds that around it goes first.
        """
        missing = unbound(args, body)
        if not missing:
            return tuple(body)
        binding, needs_recursion = binders(missing, self.around(), self.recursion)
        if needs_recursion:
            written = occurrences(inside)
            tested = [slot.name for slot in missing if slot.name in written]
            self.draft.demands[name] = Demand(inside, next(iter((*tested, *written))))
            self.draft.asking[len(self.draft.clauses)] = (len(binding), self.recursion)
        return (*binding, *body)

    def shared(self, part: Formula | Aggregate) -> frozenset[str]:
        """The variables of a group or aggregate that the rest of the clause uses too."""
        return shared(part, self.total)

    def argument(self, term: Term, kind: BaseType) -> Argument:
        """A term as a variable or constant; anything nested becomes an intermediate variable."""
        term = as_constant(term)
        if isinstance(term, Var):
            return Slot(term.name)
        if isinstance(term, Const):
            return Code(term.value, term.type or kind)
        if isinstance(term, (Call, Aggregate)):
            slot = self.fresh(kind)
            if isinstance(term, Call):
                self.call(term, kind, slot)
            else:
                self.pending.append((term, slot))
            return slot
        raise TypeError(term)

    def call(self, term: Call, kind: BaseType, target: Slot) -> None:
        """Append `target = term`. Longer calls of two-argument functors become a chain."""
        if term.functor == AUTOINC:
            self.numbered(term, target)
            return
        terms = term.args[:1] if term.functor == "as" else term.args
        types = [term_type(arg, self.types, self.program) for arg in terms]
        args = [self.argument(arg, of) for arg, of in zip(terms, types, strict=True)]
        while len(args) > 2 and term.functor in _TWO:
            step = self.fresh(types[0])
            pair = (args[0], args[1])
            self.body.append(Apply(step, term.functor, pair, (types[0], types[1]), types[0]))
            args[:2] = [step]
            types[:2] = types[:1]
        own = term.functor[1:] if term.functor[0] == "@" else ""
        partial = self.program.declared_functor(own).partial if own else False
        call = Apply(target, term.functor, tuple(args), tuple(types), kind, partial=partial)
        if self.program.word_size == NARROW:
            self.body.extend(narrow_call(self, call, kind))
        else:
            self.body.append(call)

    def numbered(self, term: Call, target: Slot) -> None:
        """Append `target = autoinc:n(variables)`, one `n` for a call in one alternative."""
        calls = self.draft.calls
        number = calls.setdefault((*self.origin, id(term)), len(calls))
        names = numbered_by(self.case)
        args: tuple[Argument, ...] = tuple(map(Slot, names)) or (Code(0, "number"),)
        types = tuple(self.types[name] for name in names) or ("number",)
        self.body.append(Apply(target, f"{AUTOINC}:{number}", args, types, "number"))
