"""Function-free programs as programs of the rules engine, with demand.

A goal `r(1, X)` asks for a part of r. The demand transformation (magic sets) adds, per predicate
and pattern of bound arguments, a relation of the calls that are needed, and guards each rule by
it; the demand relations play the call table, the guarded ones the answer tables. Invariant: over
the calls asked, the guarded relation holds exactly the goal's answers.

Not translated, with the reason in `Untranslatable`: compound terms, arithmetic, order and type
tests, facts with variables, unsafe rules, negation inside recursion (its well-founded model may
leave answers undefined, where the engine takes a least fixpoint of an even number of negations).
Programs with negation are translated without demand: guards could put a stratified program's
negation into a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from deltafix.rules.strata import components
from deltafix.tabling.clauses import Clause, Key, Kind, Literal, Rule
from deltafix.tabling.factbase import Predicate
from deltafix.tabling.goals import Goal
from deltafix.tabling.terms import Struct, Term, Var

Pattern: TypeAlias = str
"""One letter per argument: b (bound in the call) or f (free)."""


class Untranslatable(Exception):  # noqa: N818  an outcome, not a fault
    """The program has something the rules engine has not; the message says what."""


class Symbols:
    """Constants as whole numbers, both ways, and predicates as the numbers in relations' names.

    Translations with the same symbols have the same names for the same.
    """

    def __init__(self) -> None:
        self.codes: dict[Term, int] = {}
        self.terms: list[Term] = []
        self._predicates: dict[Key, int] = {}

    def number(self, key: Key) -> int:
        """The number of a predicate."""
        return self._predicates.setdefault(key, len(self._predicates))

    def code(self, term: Term) -> int:
        """The number of a constant. Raises Untranslatable for anything else."""
        code = self.codes.get(term)
        if code is None:
            if isinstance(term, Struct | Var):
                raise Untranslatable(f"the term {term!r} is no constant")
            code = self.codes[term] = len(self.terms)
            self.terms.append(term)
        return code


@dataclass(slots=True)
class Translation:
    """The text of a program, and which relation plays what.

    `facts[key]` takes a predicate's facts, `demands[key, pattern]` its calls (bound arguments,
    then one 0), `answers[key, pattern]` holds its answers. Without `demand`, every pattern is free
    and a relation holds all answers of its predicate.
    """

    demand: bool = True
    lines: list[str] = field(default_factory=list)
    facts: dict[Key, str] = field(default_factory=dict)
    answers: dict[tuple[Key, Pattern], str] = field(default_factory=dict)
    demands: dict[tuple[Key, Pattern], str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The program in the dialect `deltafix.Program.parse` reads."""
        return "\n".join(self.lines) + "\n"


def pattern_of(goal: Goal) -> Pattern:
    """The pattern of a goal."""
    return "".join("b" if a.ground else "f" for a in goal.args)


def translate(
    predicates: dict[Key, Predicate],
    clauses: Iterable[Clause],
    goals: Sequence[Goal],
    symbols: Symbols,
) -> Translation:
    """Translate the rules a set of goals needs; facts go in as rows.

    Raises:
        Untranslatable: see the module.
    """
    rules = [rule for clause in clauses for rule in clause.rules if rule.body]
    demand = not any(lit.kind is Kind.NOT for rule in rules for lit in rule.body)
    work = _Work(predicates, symbols, demand)
    for rule in rules:
        work.rules.setdefault(rule.key, []).append(rule)
    for key in predicates:
        work.base(key)
    for goal in goals:
        work.relation(goal.key, pattern_of(goal))
    work.drain()
    if not demand:
        work.check_negation()
    return work.out


class _Work:
    def __init__(self, predicates: dict[Key, Predicate], symbols: Symbols, demand: bool) -> None:
        self.predicates = predicates
        self.symbols = symbols
        self.rules: dict[Key, list[Rule]] = {}
        self.out = Translation(demand)
        self.pending: list[tuple[Key, Pattern]] = []

    # -- relations ------------------------------------------------------------------------------

    def _declare(self, name: str, columns: int, *, given: bool) -> None:
        attributes = ", ".join(f"a{i}: number" for i in range(columns))
        self.out.lines.append(f".decl {name}({attributes})")
        self.out.lines.append(f".{'input' if given else 'output'} {name}")

    def base(self, key: Key) -> str:
        """The relation a predicate's facts go into; a 0 stands for no arguments."""
        if key not in self.out.facts:
            name = f"f{self.symbols.number(key)}"
            self.out.facts[key] = name
            self._declare(name, key[1] + 1, given=True)
        return self.out.facts[key]

    def relation(self, key: Key, pattern: Pattern) -> str:
        """The relation of a predicate's answers under a pattern of bound arguments."""
        if not self.out.demand:
            pattern = "f" * len(pattern)
        name = self.out.answers.get((key, pattern))
        if name is None:
            name = f"r{self.symbols.number(key)}_{pattern}"
            self.out.answers[key, pattern] = name
            self._declare(name, key[1] + 1, given=False)
            if self.out.demand:
                demand = f"d{self.symbols.number(key)}_{pattern}"
                self.out.demands[key, pattern] = demand
                self._declare(demand, pattern.count("b") + 1, given=True)
            self.pending.append((key, pattern))
        return name

    def drain(self) -> None:
        """Write the rules of every relation asked for, and of those they ask for."""
        while self.pending:
            key, pattern = self.pending.pop()
            head = self.out.answers[key, pattern]
            names = [f"V{i}" for i in range(key[1])]
            guard = self._guard(key, pattern, names)
            own = f"{self.base(key)}({', '.join([*names, '0'])})"
            self.out.lines.append(
                f"{head}({', '.join([*names, '0'])}) :- {', '.join([*guard, own])}."
            )
            for rule in self.rules.get(key, ()):
                self._rule(rule, head, pattern)

    def check_negation(self) -> None:
        """Raise Untranslatable where a rule negates a goal that may rest on its own head."""
        names = {key: name for (key, _), name in self.out.answers.items()}
        needed: dict[str, dict[str, None]] = {
            name: {
                names[literal.key]: None
                for rule in self.rules.get(key, ())
                for literal in rule.body
                if literal.key in names
            }
            for key, name in names.items()
        }
        part = {name: at for at, component in enumerate(components(needed)) for name in component}
        for key, name in names.items():
            for rule in self.rules.get(key, ()):
                for literal in rule.body:
                    below = names.get(literal.key) if literal.kind is Kind.NOT else None
                    if below is not None and part[below] == part[name]:
                        raise Untranslatable(f"negation inside recursion, in {rule.clause}")

    def _guard(self, key: Key, pattern: Pattern, args: Sequence[str]) -> list[str]:
        if not self.out.demand:
            return []
        bound = [a for a, letter in zip(args, pattern, strict=True) if letter == "b"]
        return [f"{self.out.demands[key, pattern]}({', '.join([*bound, '0'])})"]

    # -- rules ----------------------------------------------------------------------------------

    def _argument(self, term: Term) -> str:
        return f"V{term.index}" if isinstance(term, Var) else str(self.symbols.code(term))

    def _rule(self, rule: Rule, head: str, pattern: Pattern) -> None:
        args = [self._argument(a) for a in rule.args]
        body = self._guard(rule.key, pattern, args)
        bound = {
            a.index
            for a, letter in zip(rule.args, pattern, strict=True)
            if letter == "b" and isinstance(a, Var) and self.out.demand
        }
        for literal in rule.body:
            body.append(self._literal(literal, body, bound))
        if not all(a.ground or (isinstance(a, Var) and a.index in bound) for a in rule.args):
            raise Untranslatable(f"the head of {rule.clause} has a variable its body does not bind")
        self.out.lines.append(f"{head}({', '.join([*args, '0'])}) :- {', '.join(body)}.")

    def _literal(self, literal: Literal, before: list[str], bound: set[int]) -> str:
        equality = literal.key in (("==", 2), ("\\==", 2))
        if literal.kind is Kind.BUILTIN and not equality:
            raise Untranslatable(f"the built-in {literal.key[0]}/{literal.key[1]}")
        args = [self._argument(a) for a in literal.args]
        free = [a for a in literal.args if isinstance(a, Var) and a.index not in bound]
        if literal.kind is Kind.UNIFY:
            if len(free) == 2:
                raise Untranslatable("= between two unbound variables")
            bound.update(a.index for a in free)
            return f"{args[0]} = {args[1]}"
        if literal.kind is Kind.DIFFER or equality:
            if free:
                raise Untranslatable(f"{literal.key[0]} over an unbound variable")
            return f"{args[0]} {'=' if literal.key[0] == '==' else '!='} {args[1]}"
        predicate = self.predicates.get(literal.key)
        if predicate is None:
            raise Untranslatable(f"unknown predicate {literal.key[0]}/{literal.key[1]}")
        if literal.kind is Kind.NOT:
            if free:
                raise Untranslatable("negation of a goal with an unbound variable")
            name = self._called(predicate, "f" * len(args))
            return f"!{name}({', '.join([*args, '0'])})"
        pattern = "".join(
            "f" if isinstance(a, Var) and a.index not in bound else "b" for a in literal.args
        )
        name = self._called(predicate, pattern)
        if self.out.demand and predicate.derived:
            wanted = self._guard(literal.key, pattern, args)[0]
            if [wanted] != before:  # a rule that asks for what it was asked
                self.out.lines.append(f"{wanted} :- {', '.join(before)}.")
        bound.update(a.index for a in free)
        return f"{name}({', '.join([*args, '0'])})"

    def _called(self, predicate: Predicate, pattern: Pattern) -> str:
        if not predicate.derived:
            return self.base(predicate.key)
        return self.relation(predicate.key, pattern)
