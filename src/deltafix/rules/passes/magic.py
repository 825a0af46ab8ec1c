"""Magic sets: relations that nobody reads as a whole are computed only where they are asked for.

`out(y) :- path(1, y).` asks for paths from 1. The relation is copied per pattern of bound columns,
and a demand relation guards each copy's rules (Bancilhon, Maier, Sagiv, Ullman 1986):

    ?path{bf}(1).
    path{bf}(x, z) :- ?path{bf}(x), edge(x, y), path{bf}(y, z).
    ?path{bf}(y)   :- ?path{bf}(x), edge(x, y).

Invariants: relations outside the pass have the same rows; a demand holds constants and values of
existing columns only, so whatever ended before ends now; the result is stratified. A relation that
is negated, aggregated, asked for as a whole, or named by a directive is computed in full.
`executable` is the program that is run for the one that was written; what is wrong with a hint was
reported by `check`, here nothing is refused any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from deltafix.rules import ast
from deltafix.rules.autoinc import counts
from deltafix.rules.check import CheckedProgram, typed
from deltafix.rules.passes.hints import inline_names, magic_names
from deltafix.rules.passes.inline import inlined
from deltafix.rules.strata import dependencies, unstratified
from deltafix.rules.terms import Aggregate, Const, Term, Var, Wildcard
from deltafix.rules.walk import alternatives, subterms, terms_of, uses
from deltafix.rules.whole import looks_around

MAX_COPIES: Final = 1_000
"""Patterns of demand in one program; beyond that it is run as it is written."""

_MAX_GROWTH: Final = 10
"""How many times more rules than were written demand may make, patterns aside."""


def magic(program: ast.Program) -> ast.Program:
    """The program with demand; the same program where there is none to follow.

    `program` is inlined, its constants typed. Linear in the rules times the patterns of demand.
    """
    wanted = _candidates(program)
    if not wanted:
        return program
    joins = any(program.keeps(declared.name) for declared in program.relations)
    # What a negated group or an aggregate is made of depends on the rule's other atoms, on demand
    # too, so demand must not depend on the rule's head then.
    plain = (Var, Const, Wildcard)
    eager = not joins and not any(looks_around(rule, plain) for rule in program.rules)
    if eager:
        on_demand = _Demand(program, wanted, eager=True).program()
        if not unstratified(on_demand, dependencies(on_demand), aggregates=True):
            return on_demand
    return _Demand(program, wanted, eager=False).program()


def _candidates(program: ast.Program) -> frozenset[str]:
    """The relations that may be computed on demand."""
    if not program.names("output") and not program.names("printsize"):
        return frozenset()
    ruled = {head.relation for rule in program.rules for head in rule.heads}
    whole = {directive.relation for directive in program.directives}
    whole |= {atom.relation for order in program.orders for atom, _ in uses(order.body)}
    for rule in program.rules:
        counted = counts(rule)  # a copy for each way of asking would count anew
        for head in rule.heads:
            if counted or any(
                isinstance(part, Aggregate) for arg in head.args for part in subterms(arg)
            ):
                whole.add(head.relation)
    return frozenset((magic_names(program) & ruled) - whole)


class _Demand:
    """One attempt: `eager` lets demand follow every atom, else only those that need no demand."""

    def __init__(self, program: ast.Program, wanted: frozenset[str], *, eager: bool) -> None:
        self.source = program
        self.wanted = set(wanted)
        self.eager = eager
        self.steady = _independent(program, wanted)
        self.asked: dict[tuple[str, str], None] = {}
        self.rules: dict[ast.Rule, None] = {}

    def program(self) -> ast.Program:
        """The program; starts again whenever a relation turns out to be wanted as a whole."""
        while not self.attempt():
            pass
        if self.overflows():
            return self.source
        relations: list[ast.RelationDecl] = []
        for declared in self.source.relations:
            if declared.name not in self.wanted:
                relations.append(declared)
            for name, pattern in self.asked:
                if name == declared.name:
                    relations.append(replace(declared, name=_copy_name(name, pattern)))
                    bound = _bound(declared.attributes, pattern)
                    relations.append(ast.RelationDecl(_demand_name(name, pattern), bound))
        return replace(self.source, relations=tuple(relations), rules=tuple(self.rules))

    def attempt(self) -> bool:
        before = len(self.wanted)
        self.asked.clear()
        self.rules.clear()
        for rule in self.source.rules:
            self.whole(rule)
        position = 0
        while position < len(self.asked) and not self.overflows():
            name, pattern = list(self.asked)[position]
            position += 1
            for rule in self.source.rules:
                for head in rule.heads:
                    if head.relation == name:
                        for case in alternatives(rule.body):
                            self.clause(replace(rule, heads=(head,)), case, pattern)
        return len(self.wanted) == before

    def overflows(self) -> bool:
        """Whether demand costs more than it may."""
        most = MAX_COPIES + _MAX_GROWTH * len(self.source.rules)
        return len(self.asked) > MAX_COPIES or len(self.rules) > most

    def whole(self, rule: ast.Rule) -> None:
        """A rule for relations that are computed in full."""
        heads = tuple(head for head in rule.heads if head.relation not in self.wanted)
        if not heads:
            return
        read = (atom for part in (*heads, rule.body) for atom, _ in uses(part))
        if any(atom.relation in self.wanted for atom in read):
            for case in alternatives(rule.body):
                self.clause(replace(rule, heads=heads), case, None)
        else:
            self.rules[replace(rule, heads=heads)] = None

    def clause(self, rule: ast.Rule, case: tuple[ast.Formula, ...], pattern: str | None) -> None:
        """One alternative of a rule, guarded by the demand for its head's pattern."""
        for formula in (*rule.heads, *case):
            for atom, through in uses(formula):
                if through or isinstance(formula, ast.Or):  # one that stays whole
                    self.wanted.discard(atom.relation)
        prefix: list[ast.Formula] = []
        heads = rule.heads
        if pattern is not None:
            head, computed = _asked(heads[0], pattern)
            case = (*case, *computed)
            prefix.append(_demand(head, pattern))
            heads = (replace(head, relation=_copy_name(head.relation, pattern)),)
        body = self.body(case, prefix)
        self.rules[replace(rule, heads=heads, body=ast.conjunction((*prefix[:1], *body)))] = None

    def body(
        self, case: tuple[ast.Formula, ...], guard: Sequence[ast.Formula]
    ) -> list[ast.Formula]:
        """The literals with copies for the relations on demand; adds the rules of that demand."""
        followed: list[ast.Formula] = list(guard)
        bound = {arg.name for part in guard for arg in terms_of(part) if isinstance(arg, Var)}
        left = [i for i, part in enumerate(case) if isinstance(part, ast.Atom)]
        out = list(case)
        while left:
            _propagate(case, bound)
            at = min(left, key=lambda i: (self.cost(case[i], bound), i))
            left.remove(at)
            atom = case[at]
            assert isinstance(atom, ast.Atom)  # noqa: S101  only atoms are left
            if atom.relation in self.wanted:
                pattern = "".join("b" if _is_bound(arg, bound) else "f" for arg in atom.args)
                if "b" not in pattern:
                    self.wanted.discard(atom.relation)
                    continue
                self.ask(atom, pattern, [*followed, *_tests(case, bound)])
                atom = replace(atom, relation=_copy_name(atom.relation, pattern))
                out[at] = atom
                if not self.eager:
                    continue
            elif not self.eager and atom.relation not in self.steady:
                continue
            followed.append(atom)
            bound |= {arg.name for arg in atom.args if isinstance(arg, Var)}
        return out

    def cost(self, part: ast.Formula, bound: set[str]) -> tuple[bool, bool, int]:
        """Atoms with bound columns first, of those the ones that need no demand."""
        assert isinstance(part, ast.Atom)  # noqa: S101  only atoms are ordered
        known = sum(_is_bound(arg, bound) for arg in part.args)
        return (known == 0 and bool(part.args), part.relation in self.wanted, -known)

    def ask(self, atom: ast.Atom, pattern: str, because: list[ast.Formula]) -> None:
        """Demand an atom's bound columns wherever `because` holds."""
        self.asked.setdefault((atom.relation, pattern))
        demand = _demand(atom, pattern)
        if demand not in because:
            self.rules[ast.Rule((demand,), ast.conjunction(because), atom.span)] = None


def _independent(program: ast.Program, wanted: frozenset[str]) -> frozenset[str]:
    """The relations that no wanted one is needed for, directly or not."""
    users: dict[str, list[str]] = {}
    for edge in dependencies(program):
        users.setdefault(edge.body, []).append(edge.head)
    reached = set(wanted)
    queue = list(wanted)
    while queue:
        for user in users.get(queue.pop(), ()):
            if user not in reached:
                reached.add(user)
                queue.append(user)
    return frozenset(declared.name for declared in program.relations) - reached


def _copy_name(relation: str, pattern: str) -> str:
    return f"{relation}{{{pattern}}}"


def _demand_name(relation: str, pattern: str) -> str:
    return f"?{relation}{{{pattern}}}"


def _demand(atom: ast.Atom, pattern: str) -> ast.Atom:
    """The demand atom of an atom: its bound columns."""
    name = _demand_name(atom.relation, pattern)
    kept = tuple(arg for arg, mark in zip(atom.args, pattern, strict=True) if mark == "b")
    return ast.Atom(name, kept, atom.span)


def _asked(head: ast.Atom, pattern: str) -> tuple[ast.Atom, tuple[ast.Comparison, ...]]:
    """A head whose demanded columns can be read from the demand, and what they must equal."""
    args: list[Term] = []
    computed: list[ast.Comparison] = []
    for column, (arg, mark) in enumerate(zip(head.args, pattern, strict=True)):
        if mark == "b" and not isinstance(arg, (Var, Const)):
            value = Var(f"asked'{column}", arg.span)
            computed.append(ast.Comparison("=", value, arg, head.span))
            arg = value  # noqa: PLW2901  the column by another name
        args.append(arg)
    return replace(head, args=tuple(args)), tuple(computed)


def _bound(attributes: Iterable[ast.Attribute], pattern: str) -> tuple[ast.Attribute, ...]:
    return tuple(
        attribute for attribute, mark in zip(attributes, pattern, strict=True) if mark == "b"
    )


def _is_bound(term: Term, bound: set[str]) -> bool:
    """Computed arguments count as free: demand must not make values of its own."""
    return isinstance(term, Const) or (isinstance(term, Var) and term.name in bound)


def _propagate(case: Iterable[ast.Formula], bound: set[str]) -> None:
    """Bind variables that equal a bound one or a constant."""
    before = -1
    while before < len(bound):
        before = len(bound)
        for part in case:
            if isinstance(part, ast.Comparison) and part.op == "=":
                for to, source in ((part.left, part.right), (part.right, part.left)):
                    if isinstance(to, Var) and _is_bound(source, bound):
                        bound.add(to.name)


def _tests(case: Iterable[ast.Formula], bound: set[str]) -> Iterator[ast.Comparison]:
    """The comparisons whose variables are all bound: demand is narrowed by them."""
    for part in case:
        if isinstance(part, ast.Comparison):
            inside = [p for t in (part.left, part.right) for p in subterms(t)]
            names = {p.name for p in inside if isinstance(p, Var)}
            if names <= bound and not any(isinstance(p, Aggregate) for p in inside):
                yield part


def executable(checked: CheckedProgram) -> CheckedProgram:
    """Inline, then compute on demand. Raises ProgramError as `typed` does."""
    program = checked.program
    if not inline_names(program) and not magic_names(program):
        return checked
    written_out, _ = inlined(program, [typed_rule.rule for typed_rule in checked.rules])
    # The pragmas of the passes were obeyed; their names may be gone.
    pragmas = tuple(pragma for pragma in program.pragmas if pragma[0] == "word-size")
    return typed(replace(magic(written_out), pragmas=pragmas))
