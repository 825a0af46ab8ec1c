"""One alternative of one rule: every binding under which its body holds, and the rows it derives.

A body is a set of bindings, found literal by literal with tests before atoms. `!` and aggregates
look at completed relations only. What has no value makes the binding not hold. A record is a
pattern where its variables are free, and a value where they are known.

What does not depend on rows (in what order the parts of a body are taken) is found once a case;
rows by the values of some columns, and what an aggregate ranges over, once for the facts they are
of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tests.judges.oracle_scopes import (
    bindable,
    cases_of,
    extreme,
    given,
    named,
    names_in,
    own,
    pattern,
)
from tests.judges.oracle_types import Kinds
from tests.judges.oracle_values import (
    Undefined,
    apply,
    compare,
    mean,
    numbers,
    order,
    reinterpret,
    same,
    total,
    wrap,
)

from deltafix.facts.values import Branch
from deltafix.rules.ast import BASES, Atom, Comparison, Formula, Not, Program, Rule
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

__all__ = ["Bindings", "Case", "Facts", "World"]

Facts = dict[str, set[tuple]]
Bindings = dict[str, object]


@dataclass(frozen=True)
class World:
    """A program and what its user brings."""

    program: Program
    functors: Mapping[str, Callable]
    reducers: Mapping[str, Callable]


class Case:
    """One alternative of one rule."""

    def __init__(self, world: World, rule: Rule, parts: tuple[Formula, ...]) -> None:
        self.world, self.program = world, world.program
        self.rule, self.parts = rule, parts
        self.outer: dict[int, set[str]] = {}
        self.steps: dict[tuple, tuple] = {}
        self.bodies: dict[int, list[tuple[Formula, ...]]] = {}
        self.known: dict[tuple, object] = {}
        for nodes in (rule.heads, parts):
            self.scan(nodes, own(rule.heads) | own(parts))
        self.kinds = Kinds(self.program, (*rule.heads, *parts))

    def derive(self, facts: Facts) -> Iterator[tuple[str, tuple]]:
        self.facts = facts
        self.known.clear()
        for env in self.solve(self.parts, {}):
            for head in self.rule.heads:
                try:
                    yield head.relation, tuple(self.value(term, env) for term in head.args)
                except Undefined:
                    continue

    def scan(self, nodes: tuple, enclosing: set[str], around: frozenset[str] = frozenset()) -> None:
        """Note which variables of each negated group and aggregate come from outside.

        `around` are the variables of the bodies around the one that `nodes` are the parts of.
        """
        for node in nodes:
            match node:
                case Aggregate(_, target, body):
                    self.outer[id(node)] = names_in((target, body)) & enclosing
                    for case in cases_of(body):
                        inside = enclosing | own((target, case))
                        self.scan((target, *case), inside, frozenset(enclosing))
                case Not(body):
                    # All names around a lone negated equation are around it: it gives no result.
                    self.outer[id(body)] = names_in(body) & enclosing
                    for case in cases_of(body):
                        self.scan(case, enclosing | own(case), frozenset(enclosing))
                case Atom(_, args) | Call(_, args):
                    self.scan(args, enclosing, around)
                case Comparison(op, left, right):
                    for side, across in ((left, right), (right, left)):
                        # The result of an aggregate that nothing else binds is not what the
                        # aggregate itself calls so.
                        rest = [other for other in nodes if other != node]
                        result = op == "=" and own(across) - around - given(rest)
                        mine = isinstance(across, Var) and result
                        self.scan((side,), enclosing - mine if mine else enclosing, around)

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

    def ready(self, part: Formula, known: Set[str]) -> bool:
        match part:
            case Atom(_, args):
                bound = known | {"_"} | {name for arg in args for name in bindable(arg)}
                return all(self.needs(arg) <= bound for arg in args)
            case Comparison("=", left, right):
                one, two = self.needs(left) <= known, self.needs(right) <= known
                return (one and two) or (pattern(left) and two) or (pattern(right) and one)
            case Comparison(_, left, right):
                return self.needs(left) | self.needs(right) <= known
            case Not(body):
                return self.shared(body) <= known
        return True

    def solve(
        self, parts: tuple[Formula, ...], env: Bindings, witnesses: frozenset[str] = frozenset()
    ) -> Iterator[Bindings]:
        """Every extension of `env` under which all parts hold; tests before atoms."""
        if not parts:
            yield env
            return
        key = (*map(id, parts), frozenset(env), witnesses)
        if key not in self.steps:
            self.steps[key] = self.step(parts, set(env), witnesses)
        taken, rest, witnesses, is_one = self.steps[key]
        found = self.holds(taken[0], env) if is_one else self.together(taken, env, witnesses)
        for extended in found:
            yield from self.solve(rest, extended, witnesses)

    def step(
        self, parts: tuple[Formula, ...], known: set[str], witnesses: frozenset[str]
    ) -> tuple[list[Formula], tuple[Formula, ...], frozenset[str], bool]:
        """The parts of a body to take now, the rest, the witnesses, and whether it is a plain one.

        Parts are of the rule, or of a body that `bodies` holds: none ends before the case does.
        """
        order = sorted(range(len(parts)), key=lambda i: isinstance(parts[i], Atom))
        chosen = next((i for i in order if self.ready(parts[i], known)), None)
        is_one = chosen is not None and not self.witness(parts[chosen], known, witnesses)
        places = [] if chosen is None else [chosen]
        if not is_one:
            # What nothing else gives a value, least and greatest rows give: a witness. Those that
            # can do so now do it together: what is a witness of one is given to none.
            new = {i: self.witness(part, known, witnesses) for i, part in enumerate(parts)}
            places = places or [i for i in order if new[i]]
            if not places:
                raise ValueError(f"ungrounded: {parts}")
            witnesses = witnesses.union(*(new[i] for i in places))
        rest = tuple(part for i, part in enumerate(parts) if i not in places)
        return [parts[i] for i in places], rest, witnesses, is_one

    def witness(self, part: Formula, known: Set[str], witnesses: frozenset[str]) -> set[str]:
        """The variables that a least or greatest row gives values to."""
        if not extreme(part):
            return set()
        _, term = extreme(part)
        before = known - witnesses
        free = self.shared(term) - before
        cases = self.ranges(term)
        return free if all(free <= given(list(case), before) for case in cases) else set()

    def ranges(self, term: Aggregate) -> list[tuple[Formula, ...]]:
        """The alternatives of an aggregate's body, with names for its wildcards."""
        if id(term) not in self.bodies:
            self.bodies[id(term)] = cases_of(named(term.body))
        return self.bodies[id(term)]

    def together(
        self, parts: list[Formula], env: Bindings, witnesses: frozenset[str]
    ) -> Iterator[Bindings]:
        """The bindings under which the values of all these `min` and `max` are found."""
        if not parts:
            yield env
            return
        for found in self.witnessed(*extreme(parts[0]), env, witnesses):
            yield from self.together(parts[1:], found, witnesses)

    def holds(self, part: Formula, env: Bindings) -> Iterator[Bindings]:
        try:
            match part:
                case Atom(relation, args):
                    for row in self.rows(relation, args, env):
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
                    if isinstance(body, Atom | Comparison):
                        self.evaluated(body, env)
                    if not any(True for case in cases_of(body) for _ in self.solve(case, env)):
                        yield env
        except Undefined:
            return

    def rows(self, relation: str, args: tuple[Term, ...], env: Bindings) -> Sequence[tuple]:
        """The rows that have, in their columns, the constants and the values known by name."""
        at = [
            i
            for i, arg in enumerate(args)
            if isinstance(arg, Const) or (isinstance(arg, Var) and arg.name in env)
        ]
        key = (id(self.facts), relation, *at)
        if key not in self.known:
            found: dict[tuple, list[tuple]] = {}
            for row in self.facts[relation]:
                found.setdefault(tuple(row[i] for i in at), []).append(row)
            self.known[key] = found
        return self.known[key].get(tuple(self.value(args[i], env) for i in at), ())

    def evaluated(self, body: Atom | Comparison, env: Bindings) -> None:
        """Raise Undefined where a term of a lone negated literal has no value: it does not hold."""
        terms = list(body.args) if isinstance(body, Atom) else [body.left, body.right]
        while terms:
            term = terms.pop()
            if isinstance(term, Call) and pattern(term) and "_" in self.needs(term):
                terms.extend(term.args)
            elif not isinstance(term, Wildcard):
                self.value(term, env)

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
                fits = isinstance(value, Branch) and value.name == functor[1:]
                return self.match(args, value.fields, env) if fits else None
        try:
            return env if same(self.value(term, env), value) else None
        except Undefined:
            return None

    def values(self, term: Term, env: Bindings) -> Iterator[object]:
        """The values of a term: many for `range`."""
        match term:
            case Call("range", args):
                kind = self.kinds.of(term) or "number"
                yield from numbers(
                    kind, self.program.word_size, *(self.value(arg, env) for arg in args)
                )
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
                value, kind = self.value(inner, env), self.kinds.of(inner)
                if to not in BASES:  # a record, or a value of a data type, is cast to what it is
                    return value
                # What nothing gives a type, a `2`, has the one it is cast to.
                bits = self.program.word_size
                return reinterpret(value, kind, to, bits) if kind else wrap(value, to, bits)
            case Call(functor, args):
                kind = self.kinds.of(term) or "number"
                of = self.kinds.of(args[0]) or "number"
                values = [self.value(arg, env) for arg in args]
                return apply(functor, values, kind, of, self.program.word_size)
            case Aggregate():
                return self.aggregate(term, env)
        raise ValueError(f"no value for {term}")

    def ranged(self, term: Aggregate, env: Bindings) -> list[Bindings]:
        """What an aggregate ranges over. Each row counts, so wildcards range like variables."""
        outer = {name: env[name] for name in self.shared(term) if name in env}
        key = (id(self.facts), id(term), frozenset(outer.items()))
        if key not in self.known:
            found = {}
            for case in self.ranges(term):
                for one in self.solve(case, outer):
                    found[frozenset(one.items())] = one
            self.known[key] = list(found.values())
        return self.known[key]

    def witnessed(
        self, value: Term, term: Aggregate, env: Bindings, witnesses: frozenset[str]
    ) -> Iterator[Bindings]:
        """The bindings of `value = min …` or `max …` together with each row where it is found."""
        outer = {name: found for name, found in env.items() if name not in witnesses}
        rows = []
        for one in self.ranged(term, outer):
            try:
                rows.append((self.value(term.target, one), one))
            except Undefined:
                continue
        if not rows:
            return
        best = (min if term.op == "min" else max)((target for target, _ in rows), key=order)
        free = self.shared(term) - set(outer)
        for target, one in rows:
            agrees = all(same(one[name], env.get(name, one[name])) for name in free)
            if agrees and same(target, best):
                extended = self.fit(value, best, {**env, **{name: one[name] for name in free}})
                if extended is not None:
                    yield extended

    def aggregate(self, term: Aggregate, env: Bindings) -> object:
        ranged = self.ranged(term, env)
        if term.op == "count":
            return len(ranged)
        if term.op.startswith("@@"):
            found = [self.value(term.target, one) for one in ranged]
            if not found:
                raise Undefined
            value = self.world.reducers[term.op[2:]](found)
            return wrap(value, self.kinds.of(term) or "number", self.program.word_size)
        kind = self.kinds.of(term.target) or "number"
        values = []
        for found in ranged:
            try:
                values.append(self.value(term.target, found))
            except Undefined:
                continue
        if term.op == "sum":
            return wrap(total(values, kind), kind, self.program.word_size)
        if not values:
            raise Undefined
        if term.op == "mean":
            return mean(values, len(values))
        return (min if term.op == "min" else max)(values, key=order)
