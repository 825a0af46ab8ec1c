"""The judge of everything: a naive evaluator in plain Python, slow and readable.

`evaluate(program, inputs)` recomputes all relations from nothing. It shares with deltafix the
program as data and nothing else: its own strata, its own typing, its own meaning of functors.
`functors` are the Python functions behind `@name`, `reducers` functions from a list of values
behind `@@name`.

Meaning: a body is a set of bindings. `!` and aggregates look at completed relations only; the
variables that no enclosing body mentions are theirs (existential under `!`, ranged over in an
aggregate, `_` included). Integers wrap at 64 bits; what has no value (division by zero, the
minimum of nothing, a number read from "abc") makes the binding not hold. A record is a pattern
where its variables are free, and a value where they are known.

A relation that joins, drops or closes rows (`oracle_keep`) does so over everything derived for it,
again in every round. Where a stratum negates itself, relations an odd number of negations away
from the first one are recomputed from nothing in every round of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deltafix.facts.schema import Branch
from deltafix.rules.ast import (
    BASES,
    And,
    Atom,
    Comparison,
    Dominates,
    Formula,
    Not,
    Or,
    Program,
    Rule,
    TypeDecl,
)
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard, constant
from oracle_keep import choice, equivalence, lattice
from oracle_values import Undefined, apply, compare, numbers, reinterpret, wrap

__all__ = ["Undefined", "evaluate"]

Facts = dict[str, set[tuple]]
Bindings = dict[str, object]


def evaluate(
    program: Program,
    inputs: Facts,
    max_rounds: int = 10_000,
    functors: Mapping[str, Callable] = MappingProxyType({}),
    reducers: Mapping[str, Callable] = MappingProxyType({}),
) -> Facts:
    """All relations of `program` over the given facts, recomputed from scratch."""
    given = {r.name: set(map(tuple, inputs.get(r.name, ()))) for r in program.relations}
    world = World(program, functors, reducers)
    facts: Facts = {name: set() for name in given}
    level, falling = levels(program)
    cases = [
        Case(world, rule, parts)
        for rule in map(hoisted, program.rules)
        for parts in cases_of(rule.body)
    ]
    for stratum in sorted(set(level.values())):
        here = [name for name in given if level[name] == stratum]
        rising = [name for name in here if name not in falling]
        rest = [name for name in here if name in falling]

        def settle(names: list[str]) -> bool:
            """Rounds over some relations until nothing changes; whether anything did."""
            keepers = {name: Keeper(world, name) for name in names}
            mine = [c for c in cases if any(h.relation in names for h in c.rule.heads)]
            changed = False
            for _ in range(max_rounds):
                derived: Facts = {name: set(given[name]) for name in names}
                for case in mine:
                    for name, row in case.derive(facts):
                        if name in derived:
                            derived[name].add(row)
                moved = False
                for name in names:
                    rows = keepers[name].keep(facts[name], derived[name], facts)
                    moved = moved or rows != facts[name]
                    facts[name] = rows
                if not moved:
                    return changed
                changed = True
                if len(names) == 1 and not loops(names[0], program):
                    return changed
            raise RuntimeError(f"no fixpoint after {max_rounds} rounds")

        while True:
            for name in rest:
                facts[name] = set()
            settle(rest)
            if not settle(rising) or not rest:
                break
    return facts


@dataclass(frozen=True)
class World:
    """A program and what its user brings."""

    program: Program
    functors: Mapping[str, Callable]
    reducers: Mapping[str, Callable]


class Keeper:
    """What one relation keeps of the rows derived for it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.declared = world.program.relation(name)
        self.orders = [o for o in world.program.orders if o.less.relation == name]

    def keep(self, before: set, derived: set, facts: Facts) -> set:
        names = [a.name for a in self.declared.attributes]
        if "eqrel" in self.declared.qualifiers:
            return equivalence(before | derived)
        if self.declared.choices:
            keys = [tuple(names.index(n) for n in c) for c in self.declared.choices]
            return choice(before, derived, keys)
        if self.declared.joined:
            joins = {i: self.join(i) for i in self.declared.joined}
            least = {i: self.least(i) for i in joins}
            return lattice(before | derived, joins, least)
        rows = before | derived
        if self.orders:
            return {
                row
                for row in rows
                if not any(self.dominated(row, o, rows, facts) for o in self.orders)
            }
        return rows

    def join(self, column: int) -> Callable:
        kind = self.declared.attributes[column].join
        if kind != "<>":
            return {"min": min, "max": max}[kind]
        found = self.lattice(column).operation("Lub")
        return self.world.functors[found.functor[1:]]

    def least(self, column: int) -> object:
        """The bottom of a user lattice, in a tuple; nothing for `min` and `max`."""
        if self.declared.attributes[column].join != "<>":
            return ()
        return (constant(self.lattice(column).operation("Bottom")),)

    def lattice(self, column: int) -> object:
        kind = self.world.program.kind(self.declared.attributes[column].type)
        return next(
            x for x in self.world.program.lattices if self.world.program.kind(x.type) == kind
        )

    def dominated(self, row: tuple, order: Dominates, rows: set, facts: Facts) -> bool:
        case = Case(self.world, order.rule, ())
        case.facts = facts
        env = case.match(order.less.args, row, {})
        for other in rows if env is not None else ():
            both = case.match(order.more.args, other, env)
            if both is None or other == row:
                continue
            for parts in cases_of(order.body):
                test = Case(self.world, order.rule, (order.less, order.more, *parts))
                test.facts = facts
                if any(True for _ in test.solve(parts, both)):
                    return True
        return False


def loops(name: str, program: Program) -> bool:
    """Whether a relation's rules read the relation itself."""
    mine = [r for r in program.rules if any(h.relation == name for h in r.heads)]
    return any(used == name for rule in mine for used, _ in _uses(rule.body))


def levels(program: Program) -> tuple[dict[str, int], set[str]]:
    """The stratum of each relation, and those an odd number of negations from their first one."""
    edges = [
        (head.relation, name, odd)
        for rule in program.rules
        for head in rule.heads
        for name, odd in (*_uses(rule.body), *_uses_in(rule.heads))
    ]
    edges += [(o.less.relation, name, None) for o in program.orders for name, _ in _uses(o.body)]
    names = [relation.name for relation in program.relations]
    reach = {name: {name} for name in names}
    for _ in names:
        for head, used, _ in edges:
            reach[head] |= reach[used]
    together = {n: [m for m in names if m in reach[n] and n in reach[m]] for n in names}
    falling: set[str] = set()
    for head, used, odd in edges:
        if used in together[head] and odd is None:
            raise ValueError("aggregation inside recursion")
    for group in {tuple(members) for members in together.values()}:
        side = {group[0]: False}
        for _ in group:
            for head, used, odd in edges:
                if head in group and used in group:
                    for one, other in ((head, used), (used, head)):
                        if one in side and side.setdefault(other, side[one] != odd) != (
                            side[one] != odd
                        ):
                            raise ValueError("negation inside recursion")
        falling |= {name for name, odd in side.items() if odd}
    height: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in height:
            below = {m for n in together[name] for m in reach[n]} - set(together[name])
            height[name] = 1 + max((depth(m) for m in below), default=-1)
        return height[name]

    order = sorted(names, key=lambda n: (depth(n), together[n][0]))
    rank = {together[n][0]: place for place, n in reversed(list(enumerate(order)))}
    return {n: rank[together[n][0]] for n in names}, falling


def _uses(formula: Formula, odd: bool | None = False) -> Iterator[tuple[str, bool | None]]:
    """Relations with whether an odd number of negations stands between; None: an aggregate."""
    match formula:
        case Atom(relation, args):
            yield relation, odd
            yield from _uses_in(args)
        case Comparison(_, left, right):
            yield from _uses_in((left, right))
        case And(parts) | Or(parts):
            for part in parts:
                yield from _uses(part, odd)
        case Not(body):
            yield from _uses(body, None if odd is None else not odd)


def _uses_in(terms: tuple) -> Iterator[tuple[str, bool | None]]:
    for term in terms:
        if isinstance(term, Aggregate):
            yield from _uses(term.body, None)
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


def pattern(term: Term) -> bool:
    """Whether a term may take its variables' values from a value it is matched with."""
    return isinstance(term, Var | Wildcard) or (isinstance(term, Call) and term.functor[0] in "[$")


def bindable(term: Term) -> set[str]:
    """The variables that matching a value against a term gives values to."""
    if isinstance(term, Call) and term.functor[0] in "[$":
        return set().union(*map(bindable, term.args))
    return {term.name} if isinstance(term, Var) else set()


def branch_type(program: Program, name: str) -> TypeDecl:
    """The type that declares a branch."""
    return next(t for t in program.types if any(b.name == name for b in t.branches))


def hoisted(rule: Rule) -> Rule:
    """The rule with every `range` of its own body and heads in an equation of its own."""
    found: list[Formula] = []

    def term(node: Term) -> Term:
        if not isinstance(node, Call):
            return node
        inner = Call(node.functor, tuple(map(term, node.args)))
        if node.functor != "range":
            return inner
        found.append(Comparison("=", Var(f"range.{len(found)}"), inner))
        return Var(f"range.{len(found) - 1}")

    def formula(node: Formula) -> Formula:
        if isinstance(node, Atom):
            return Atom(node.relation, tuple(map(term, node.args)))
        if isinstance(node, Comparison):
            return Comparison(node.op, term(node.left), term(node.right))
        if isinstance(node, And | Or):
            return type(node)(tuple(map(formula, node.parts)))
        return node

    heads = tuple(map(formula, rule.heads))
    body = formula(rule.body)
    return Rule(heads, And((body, *found))) if found else rule


def own(node: object) -> set[str]:
    """The variables that belong to this scope itself."""
    return names_in(node, inner=False)


class Case:
    """One alternative of one rule."""

    def __init__(self, world: World, rule: Rule, parts: tuple[Formula, ...]) -> None:
        self.world, self.program = world, world.program
        self.rule, self.parts = rule, parts
        self.outer: dict[int, set[str]] = {}
        self.scan((*rule.heads, *parts), own(rule.heads) | own(parts))
        self.kinds = Kinds(self.program, (*rule.heads, *parts))

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
            case Wildcard():
                return {"_"}
        return set()

    def ready(self, part: Formula, env: Bindings) -> bool:
        known = set(env)
        match part:
            case Atom(_, args):
                known |= {name for arg in args for name in bindable(arg)}
                return all(self.needs(arg) <= known | {"_"} for arg in args)
            case Comparison("=", left, right):
                one, two = self.needs(left) <= known, self.needs(right) <= known
                return (one and two) or (pattern(left) and two) or (pattern(right) and one)
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
                case Comparison("=", left, right):
                    if not self.needs(right) <= set(env):
                        left, right = right, left
                    for value in self.values(right, env):
                        extended = self.fit(left, value, env)
                        if extended is not None:
                            yield extended
                case Comparison(op, left, right):
                    if compare(op, self.value(left, env), self.value(right, env)):
                        yield env
                case Not(body):
                    if not any(True for case in cases_of(body) for _ in self.solve(case, env)):
                        yield env
        except Undefined:
            return

    def match(self, args: tuple[Term, ...], row: tuple, env: Bindings) -> Bindings | None:
        # Patterns first: in r(x, x + 1) the first column gives x its value.
        order = sorted(range(len(args)), key=lambda i: not pattern(args[i]))
        for i in order:
            extended = self.fit(args[i], row[i], env)
            if extended is None:
                return None
            env = extended
        return env

    def fit(self, term: Term, value: object, env: Bindings) -> Bindings | None:
        """The bindings under which a term has a value, if there are any."""
        match term:
            case Wildcard():
                return env
            case Var(name) if name not in env:
                return {**env, name: value}
            case Call(functor, args) if functor[0] == "[":
                return self.match(args, value, env) if isinstance(value, tuple) else None
            case Call(functor, args) if functor[0] == "$":
                same = isinstance(value, Branch) and value.name == functor[1:]
                return self.match(args, value.fields, env) if same else None
        try:
            return env if self.value(term, env) == value else None
        except Undefined:
            return None

    def values(self, term: Term, env: Bindings) -> Iterator[object]:
        """The values of a term: many for `range`."""
        match term:
            case Call("range", args):
                kind = self.kinds.of(term) or "number"
                yield from numbers(kind, *(self.value(arg, env) for arg in args))
            case _:
                yield self.value(term, env)

    def value(self, term: Term, env: Bindings) -> object:
        match term:
            case Var(name):
                return env[name]
            case Const(value):
                return value
            case Call(functor, args) if functor[0] == "[":
                return tuple(self.value(arg, env) for arg in args)
            case Call(functor, args) if functor[0] == "$":
                return Branch(functor[1:], tuple(self.value(arg, env) for arg in args))
            case Call(functor, args) if functor[0] == "@":
                found = self.world.functors[functor[1:]](*(self.value(a, env) for a in args))
                if found is None and self.kinds.of(term) in BASES:
                    raise Undefined
                return found
            case Call("as", (inner, Const(name))):
                to = self.program.base_type(name)
                return reinterpret(self.value(inner, env), self.kinds.of(inner) or to, to)
            case Call(functor, args):
                kind = self.kinds.of(term) or "number"
                of = self.kinds.of(args[0]) or "number"
                values = [self.value(arg, env) for arg in args]
                narrow = self.program.word_size == 32 and kind in ("number", "unsigned")
                if narrow and functor in ("bshl", "bshr", "bshru"):
                    values[1] &= 31
                    values[0] &= 2**32 - 1 if functor == "bshru" else -1
                found = apply(functor, values, kind, of)
                return wrap(found, kind, 32) if narrow and functor not in ("min", "max") else found
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
        if term.op.startswith("@@"):
            found = [self.value(term.target, one) for one in ranged.values()]
            return self.world.reducers[term.op[2:]](found)
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
            named = (_named_term(arg, f"{path}.{i}") for i, arg in enumerate(args))
            return Atom(relation, tuple(named))
        case And(parts):
            return And(tuple(_named(part, f"{path}.{i}") for i, part in enumerate(parts)))
        case Or(parts):
            return Or(tuple(_named(part, f"{path}.{i}") for i, part in enumerate(parts)))
    return formula


def _named_term(term: Term, path: str) -> Term:
    if isinstance(term, Wildcard):
        return Var(path)
    if isinstance(term, Call) and term.functor[0] in "[$":
        named = (_named_term(arg, f"{path}.{i}") for i, arg in enumerate(term.args))
        return Call(term.functor, tuple(named))
    return term


RESULT = {
    "strlen": "number",
    "ord": "number",
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
                columns = self.program.relation(relation).attributes
                for arg, column in zip(args, columns, strict=True):
                    self.push(arg, self.program.kind(column.type))
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
            case Call(functor, _) if functor[0] in "[$@":
                self.fields(term, kind)
            case Call(functor, args):
                inner = None if functor == "as" or functor in RESULT else kind or self.of(term)
                for arg in args:
                    self.push(arg, inner)
            case Aggregate(op, target, body):
                self.visit(body)
                if target is not None:
                    self.push(target, kind if op != "mean" else None)

    def fields(self, term: Call, kind: str | None) -> None:
        """The types of a constructor's fields, or of a user functor's arguments."""
        if term.functor[0] == "@":
            wanted = self.program.declared_functor(term.functor[1:]).arguments
        elif term.functor[0] == "$":
            declared = branch_type(self.program, term.functor[1:])
            wanted = next(b.fields for b in declared.branches if b.name == term.functor[1:])
        elif kind:
            wanted = self.program.declared_type(kind).branches[0].fields
        else:
            wanted = ()
        for arg, field in zip(term.args, wanted, strict=False):
            self.push(arg, self.program.kind(field.type))

    def of(self, term: Term | None) -> str | None:
        match term:
            case Var(name):
                return self.types.get(name)
            case Const(_, kind):
                return kind
            case Call("as", (_, Const(name))):
                return self.program.kind(name)
            case Call(functor, _) if functor[0] == "$":
                return branch_type(self.program, functor[1:]).name
            case Call(functor, _) if functor[0] == "[":
                return None
            case Call(functor, _) if functor[0] == "@":
                return self.program.kind(self.program.declared_functor(functor[1:]).result)
            case Aggregate(op) if op.startswith("@@"):
                return self.program.kind(self.program.declared_functor(op[2:]).result)
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
