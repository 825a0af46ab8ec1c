"""The judge of everything: a naive evaluator in plain Python, slow and readable.

`evaluate(program, inputs)` recomputes all relations from nothing. It shares with deltafix the
program as data and nothing else: its own strata, its own typing, its own meaning of functors.

Meaning: a body is a set of bindings. `!` and aggregates look at completed relations only; the
variables that no enclosing body mentions are theirs (existential under `!`, ranged over in an
aggregate, `_` included). Integers wrap at 64 bits; what has no value (division by zero, the
minimum of nothing, a number read from "abc") makes the binding not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Program, Rule
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from oracle_values import Undefined, apply, compare, reinterpret, wrap

__all__ = ["Undefined", "evaluate"]

Facts = dict[str, set[tuple]]
Bindings = dict[str, object]


def evaluate(program: Program, inputs: Facts, max_rounds: int = 10_000) -> Facts:
    """All relations of `program` over the given facts, recomputed from scratch."""
    facts: Facts = {r.name: set(map(tuple, inputs.get(r.name, ()))) for r in program.relations}
    level = _levels(program)
    cases = [Case(program, rule, parts) for rule in program.rules for parts in cases_of(rule.body)]
    for stratum in sorted(set(level.values())):
        here = [c for c in cases if any(level[h.relation] == stratum for h in c.rule.heads)]
        for _ in range(max_rounds):
            derived = [(name, row) for c in here for name, row in c.derive(facts)]
            derived = [(name, row) for name, row in derived if level[name] == stratum]
            if all(row in facts[name] for name, row in derived):
                break
            for name, row in derived:
                facts[name].add(row)
        else:
            raise RuntimeError(f"no fixpoint after {max_rounds} rounds")
    return facts


def _levels(program: Program) -> dict[str, int]:
    """The stratum of each relation: at least its positive, above its negative dependencies."""
    edges = [
        (head.relation, name, negative)
        for rule in program.rules
        for head in rule.heads
        for name, negative in (*_uses(rule.body), *_uses_in(rule.heads))
    ]
    level = {relation.name: 0 for relation in program.relations}
    for _ in range(len(level) + 1):
        before = dict(level)
        for head, used, negative in edges:
            level[head] = max(level[head], level[used] + negative)
        if level == before:
            return level
    raise ValueError("negation or aggregation inside recursion")


def _uses(formula: Formula, negative: bool = False) -> Iterator[tuple[str, bool]]:
    match formula:
        case Atom(relation, args):
            yield relation, negative
            yield from _uses_in(args)
        case Comparison(_, left, right):
            yield from _uses_in((left, right))
        case And(parts) | Or(parts):
            for part in parts:
                yield from _uses(part, negative)
        case Not(body):
            yield from _uses(body, True)


def _uses_in(terms: tuple) -> Iterator[tuple[str, bool]]:
    for term in terms:
        if isinstance(term, Aggregate):
            yield from _uses(term.body, True)
            if term.target is not None:
                yield from _uses_in((term.target,))
        elif isinstance(term, Call | Atom):
            yield from _uses_in(term.args)


def cases_of(formula: Formula) -> list[tuple[Formula, ...]]:
    """The alternatives of a body, each a conjunction of literals."""
    match formula:
        case And(parts):
            found: list[tuple[Formula, ...]] = [()]
            for part in parts:
                found = [left + right for left in found for right in cases_of(part)]
            return found
        case Or(parts):
            return [case for part in parts for case in cases_of(part)]
    return [(formula,)]


def names_in(node: object, inner: bool = True) -> set[str]:
    """The variables of a term or formula; without `inner`, not those of its inner scopes."""
    match node:
        case Var(name):
            return {name}
        case Call(_, args) | Atom(_, args) | And(args) | Or(args):
            return names_in(args, inner)
        case Comparison(_, left, right):
            return names_in((left, right), inner)
        case Not(body) if inner or isinstance(body, Atom | Comparison):
            return names_in(body, inner)
        case Aggregate(_, target, body) if inner:
            return names_in((target, body))
        case tuple():
            return set().union(*(names_in(part, inner) for part in node))
    return set()


def own(node: object) -> set[str]:
    """The variables that belong to this scope itself."""
    return names_in(node, inner=False)


class Case:
    """One alternative of one rule."""

    def __init__(self, program: Program, rule: Rule, parts: tuple[Formula, ...]) -> None:
        self.program, self.rule, self.parts = program, rule, parts
        self.outer: dict[int, set[str]] = {}
        self.scan((*rule.heads, *parts), own(rule.heads) | own(parts))
        self.kinds = Kinds(program, (*rule.heads, *parts))

    def derive(self, facts: Facts) -> Iterator[tuple[str, tuple]]:
        self.facts = facts
        for env in self.solve(self.parts, {}):
            for head in self.rule.heads:
                try:
                    yield head.relation, tuple(self.value(term, env) for term in head.args)
                except Undefined:
                    continue

    def scan(self, nodes: tuple, enclosing: set[str]) -> None:
        """Note which variables of each negated group and aggregate come from outside."""
        for node in nodes:
            match node:
                case Aggregate(_, target, body):
                    self.outer[id(node)] = names_in((target, body)) & enclosing
                    for case in cases_of(body):
                        self.scan((target, *case), enclosing | own((target, case)))
                case Not(body):
                    plain = isinstance(body, Atom | Comparison)
                    self.outer[id(body)] = names_in(body) if plain else names_in(body) & enclosing
                    for case in cases_of(body):
                        self.scan(case, enclosing if plain else enclosing | own(case))
                case Atom(_, args) | Call(_, args):
                    self.scan(args, enclosing)
                case Comparison(_, left, right):
                    self.scan((left, right), enclosing)

    def shared(self, node: object) -> set[str]:
        """Variables of a negation's body or of an aggregate that must be known before it."""
        return self.outer[id(node)]

    def needs(self, term: Term) -> set[str]:
        match term:
            case Var(name):
                return {name}
            case Call(_, args):
                return set().union(*map(self.needs, args))
            case Aggregate():
                return self.shared(term)
        return set()

    def ready(self, part: Formula, env: Bindings) -> bool:
        known = set(env)
        match part:
            case Atom(_, args):
                known |= {arg.name for arg in args if isinstance(arg, Var)}
                return all(self.needs(arg) <= known for arg in args)
            case Comparison("=", left, right):
                one, two = self.needs(left) <= known, self.needs(right) <= known
                free = (isinstance(left, Var) and two) or (isinstance(right, Var) and one)
                return (one and two) or free
            case Comparison(_, left, right):
                return self.needs(left) | self.needs(right) <= known
            case Not(body):
                return self.shared(body) <= known
        return True

    def solve(self, parts: tuple[Formula, ...], env: Bindings) -> Iterator[Bindings]:
        """Every extension of `env` under which all parts hold; tests before atoms."""
        if not parts:
            yield env
            return
        order = sorted(range(len(parts)), key=lambda i: isinstance(parts[i], Atom))
        chosen = next((i for i in order if self.ready(parts[i], env)), None)
        if chosen is None:
            raise ValueError(f"ungrounded: {parts}")
        for extended in self.holds(parts[chosen], env):
            yield from self.solve(parts[:chosen] + parts[chosen + 1 :], extended)

    def holds(self, part: Formula, env: Bindings) -> Iterator[Bindings]:
        try:
            match part:
                case Atom(relation, args):
                    for row in list(self.facts[relation]):
                        extended = self.match(args, row, env)
                        if extended is not None:
                            yield extended
                case Comparison("=", Var(name), right) if name not in env:
                    yield {**env, name: self.value(right, env)}
                case Comparison("=", left, Var(name)) if name not in env:
                    yield {**env, name: self.value(left, env)}
                case Comparison(op, left, right):
                    if compare(op, self.value(left, env), self.value(right, env)):
                        yield env
                case Not(body):
                    if not any(True for case in cases_of(body) for _ in self.solve(case, env)):
                        yield env
        except Undefined:
            return

    def match(self, args: tuple[Term, ...], row: tuple, env: Bindings) -> Bindings | None:
        # Variables first: in r(x, x + 1) the first column gives x its value.
        order = sorted(range(len(args)), key=lambda i: not isinstance(args[i], Var))
        try:
            for i in order:
                arg = args[i]
                if isinstance(arg, Var) and arg.name not in env:
                    env = {**env, arg.name: row[i]}
                elif not isinstance(arg, Wildcard) and self.value(arg, env) != row[i]:
                    return None
        except Undefined:
            return None
        return env

    def value(self, term: Term, env: Bindings) -> object:
        match term:
            case Var(name):
                return env[name]
            case Const(value):
                return value
            case Call("as", (inner, Const(name))):
                to = self.program.base_type(name)
                return reinterpret(self.value(inner, env), self.kinds.of(inner) or to, to)
            case Call(functor, args):
                kind = self.kinds.of(term) or "number"
                of = self.kinds.of(args[0]) or "number"
                return apply(functor, [self.value(arg, env) for arg in args], kind, of)
            case Aggregate():
                return self.aggregate(term, env)
        raise ValueError(f"no value for {term}")

    def aggregate(self, term: Aggregate, env: Bindings) -> object:
        # Wildcards range like variables: each row counts, not each projection of it.
        body = _named(term.body)
        outer = {name: env[name] for name in self.shared(term)}
        ranged = {}
        for case in cases_of(body):
            for found in self.solve(case, outer):
                ranged[frozenset(found.items())] = found
        if term.op == "count":
            return len(ranged)
        kind = self.kinds.of(term.target) or "number"
        values = []
        for found in ranged.values():
            try:
                values.append(self.value(term.target, found))
            except Undefined:
                continue
        if term.op == "sum":
            return wrap(math.fsum(values) if kind == "float" else sum(values), kind)
        if not values:
            raise Undefined
        if term.op == "mean":
            return math.fsum(values) / len(values)
        return min(values) if term.op == "min" else max(values)


def _named(formula: Formula, path: str = "_") -> Formula:
    """A body with its wildcards (outside negations) turned into variables of their own."""
    match formula:
        case Atom(relation, args):
            named = (
                Var(f"{path}.{i}") if isinstance(a, Wildcard) else a for i, a in enumerate(args)
            )
            return Atom(relation, tuple(named))
        case And(parts):
            return And(tuple(_named(part, f"{path}.{i}") for i, part in enumerate(parts)))
        case Or(parts):
            return Or(tuple(_named(part, f"{path}.{i}") for i, part in enumerate(parts)))
    return formula


RESULT = {
    "strlen": "number",
    "to_number": "number",
    "to_unsigned": "unsigned",
    "to_float": "float",
    "to_string": "symbol",
    "cat": "symbol",
    "substr": "symbol",
}


class Kinds:
    """Base types of a rule's variables: from columns, then along equalities and operators."""

    def __init__(self, program: Program, parts: tuple[Formula, ...]) -> None:
        self.program = program
        self.types: dict[str, str] = {}
        while True:
            before = dict(self.types)
            for part in parts:
                self.visit(part)
            if self.types == before:
                return

    def visit(self, node: object) -> None:
        match node:
            case Atom(relation, args):
                for arg, kind in zip(args, self.program.column_types(relation), strict=True):
                    self.push(arg, kind)
            case Comparison(op, left, right):
                text = op in ("match", "contains")
                kind = "symbol" if text else self.of(left) or self.of(right)
                self.push(left, kind)
                self.push(right, kind)
            case And(parts) | Or(parts):
                for part in parts:
                    self.visit(part)
            case Not(body):
                self.visit(body)

    def push(self, term: Term, kind: str | None) -> None:
        match term:
            case Var(name) if kind:
                self.types.setdefault(name, kind)
            case Call(functor, args):
                inner = None if functor == "as" or functor in RESULT else kind or self.of(term)
                for arg in args:
                    self.push(arg, inner)
            case Aggregate(op, target, body):
                self.visit(body)
                if target is not None:
                    self.push(target, kind if op != "mean" else None)

    def of(self, term: Term | None) -> str | None:
        match term:
            case Var(name):
                return self.types.get(name)
            case Const(_, kind):
                return kind
            case Call("as", (_, Const(name))):
                return self.program.base_type(name)
            case Call(functor, _) if functor in RESULT:
                return RESULT[functor]
            case Call(_, args):
                return next((kind for kind in map(self.of, args) if kind), None)
            case Aggregate("count"):
                return "number"
            case Aggregate("mean"):
                return "float"
            case Aggregate(_, target):
                return self.of(target)
        return None
