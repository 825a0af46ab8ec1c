"""The judge of strata beyond plain recursion: Kleene iteration from nothing, slow and readable.

A program is text of the core (`clauses`): `dist(y, e) :- dist(x, d), edge(x, y, w), e = d + w.`
It shares with the executor the clauses as data, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from deltafix.plan.clause import (
    Absent,
    Apply,
    Choice,
    Clause,
    Code,
    Compare,
    Lattice,
    Match,
    Merge,
    Relation,
    Slot,
    Subsumption,
)
from deltafix.plan.depend import Layer, falling_side

Facts = dict[str, set[tuple]]
TESTS: dict[str, Callable] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
FUNCTORS: dict[str, Callable] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "min": min,
    "max": max,
}


def argument(text: str) -> Slot | Code | None:
    text = text.strip()
    if text == "_":
        return None
    return Code(int(text), "number") if re.fullmatch(r"-?\d+", text) else Slot(text)


def arguments(text: str) -> tuple:
    return tuple(argument(part) for part in text.split(",") if part.strip())


def literal(text: str) -> Match | Absent | Compare | Apply:
    text = text.strip()
    if found := re.fullmatch(r"(!?)([~\w]+)\((.*)\)", text):
        negated, name, args = found.groups()
        return (Absent if negated else Match)(name, arguments(args))
    if found := re.fullmatch(r"(\w+) = (\S+) ([-+]) (\S+)", text):
        target, left, functor, right = found.groups()
        return apply(target, functor, argument(left), argument(right))
    if found := re.fullmatch(r"(\w+) = (min|max|@\w+)\((.*)\)", text):
        target, functor, args = found.groups()
        return apply(target, functor, *arguments(args))
    left, op, right = text.split()
    return Compare(op, "number", argument(left), argument(right))


def apply(target: str, functor: str, *args: Slot | Code) -> Apply:
    return Apply(Slot(target), functor, args, ("number",) * len(args), "number")


def body(text: str) -> tuple:
    return tuple(literal(part) for part in re.split(r",\s+(?![^(]*\))", text) if part.strip())


def clauses(text: str) -> tuple[Clause, ...]:
    found = []
    for number, line in enumerate(filter(None, (line.strip() for line in text.splitlines()))):
        head, _, rest = line.rstrip(".").partition(":-")
        head_literal = literal(head)
        assert isinstance(head_literal, Match)
        found.append(Clause(head_literal.relation, head_literal.args, body(rest), number))
    return tuple(found)


def layer(text: str, merges: dict[str, Merge] | None = None) -> tuple[Layer, list[Relation]]:
    """The stratum of all heads, and relations of numbers for all that is read."""
    rules = clauses(text)
    arity: dict[str, int] = {}
    for clause in rules:
        arity.setdefault(clause.head, len(clause.args))
        for found in clause.body:
            if isinstance(found, Match | Absent):
                arity.setdefault(found.relation, len(found.args))
    merges = merges or {}
    for merge in merges.values():
        for order in merge.orders if isinstance(merge, Subsumption) else ():
            for found in order.body:
                if isinstance(found, Match | Absent):
                    arity.setdefault(found.relation, len(found.args))
    relations = [
        Relation(name, ("number",) * width, name.startswith("~"), merges.get(name))
        for name, width in arity.items()
    ]
    heads = dict.fromkeys(clause.head for clause in rules)
    ordered = tuple(relation for relation in relations if relation.name in heads)
    names = tuple(relation.name for relation in ordered)
    return Layer(
        names, rules, True, falling_side(ordered, rules) or frozenset(), tuple(merges.items())
    ), relations


def value(arg: Slot | Code, env: dict[Slot, object]) -> object:
    return arg.value if isinstance(arg, Code) else env[arg]


class Judge:
    """Evaluates one layer. `functors`: what `@f` and user joins mean."""

    def __init__(self, stratum: Layer, functors: dict[str, Callable] | None = None) -> None:
        self.layer = stratum
        self.functors = {**FUNCTORS, **(functors or {})}
        self.merges = dict(stratum.merges)

    def solve(self, parts: tuple, facts: Facts, env: dict) -> Iterator[dict]:
        """Every extension of `env` under which all literals hold; what is ready goes first."""
        if not parts:
            yield env
            return
        chosen = next(i for i, part in enumerate(parts) if self.ready(part, env))
        rest = parts[:chosen] + parts[chosen + 1 :]
        for extended in self.holds(parts[chosen], facts, env):
            yield from self.solve(rest, facts, extended)

    def ready(self, part: object, env: dict) -> bool:
        def known(args: tuple) -> bool:
            return all(isinstance(arg, Code) or arg in env for arg in args)

        match part:
            case Absent(_, args) | Apply(_, _, args):
                return known(args)
            case Compare("=", _, left, right):
                return known((left,)) or known((right,))
            case Compare(_, _, left, right):
                return known((left, right))
        return True

    def holds(self, part: object, facts: Facts, env: dict) -> Iterator[dict]:
        match part:
            case Match(relation, args):
                for row in facts.get(relation, ()):
                    extended = dict(env)
                    for arg, found in zip(args, row, strict=True):
                        if arg is None:
                            continue
                        if isinstance(arg, Code) and arg.value != found:
                            break
                        if isinstance(arg, Slot) and extended.setdefault(arg, found) != found:
                            break
                    else:
                        yield extended
            case Absent(relation, args):
                if tuple(value(arg, env) for arg in args) not in facts.get(relation, ()):
                    yield env
            case Apply(target, functor, args):
                found = self.functors[functor](*(value(arg, env) for arg in args))
                if env.get(target, found) == found:
                    yield {**env, target: found}
            case Compare("=", _, Slot() as left, right) if left not in env:
                yield {**env, left: value(right, env)}
            case Compare("=", _, left, Slot() as right) if right not in env:
                yield {**env, right: value(left, env)}
            case Compare(op, _, left, right):
                if TESTS[op](value(left, env), value(right, env)):
                    yield env

    def derive(self, facts: Facts, given: Facts) -> Facts:
        """One step: all heads of clauses whose bodies hold, and the given rows."""
        found: Facts = {name: set(given.get(name, ())) for name in self.layer.relations}
        for clause in self.layer.clauses:
            for env in self.solve(clause.body, facts, {}):
                found[clause.head].add(tuple(value(arg, env) for arg in clause.args))
        return found

    def evaluate(self, below: Facts, given: Facts, rounds: int = 1000) -> Facts:
        """The least fixpoint; a choice relation is not evaluated but judged (`is_choice`)."""
        falling = self.layer.falling
        state: Facts = {name: set() for name in self.layer.relations}
        for _ in range(rounds):
            before = {name: set(rows) for name, rows in state.items()}
            for name in falling:
                state[name] = set()
            fallen = self.derive({**below, **state}, given)
            for name in falling:
                state[name] = fallen[name]
            risen = self.derive({**below, **state}, given)
            for name in self.layer.relations:
                if name not in falling:
                    state[name] = self.merge(name, state[name] | risen[name], below)
            if state == before:
                return state
        raise RuntimeError("no fixpoint")

    def merge(self, name: str, rows: set[tuple], below: Facts) -> set[tuple]:
        merge = self.merges.get(name)
        if isinstance(merge, Lattice):
            return self.join(rows, merge)
        if isinstance(merge, Subsumption):
            return {
                row
                for row in rows
                if not any(
                    other != row and self.gives_way(row, other, merge, below) for other in rows
                )
            }
        return rows

    def join(self, rows: set[tuple], lattice: Lattice) -> set[tuple]:
        joined: dict[tuple, dict[int, object]] = {}
        names = {column.column: column.join for column in lattice.columns}
        least = {column.column: column.least for column in lattice.columns}
        for row in rows:
            if any(bottom is not None and row[c] == bottom for c, bottom in least.items()):
                continue
            key = tuple((c, v) for c, v in enumerate(row) if c not in names)
            place = joined.setdefault(key, {c: row[c] for c in names})
            for column, name in names.items():
                place[column] = self.functors[name](place[column], row[column])
        return {
            tuple(found for _, found in sorted((*key, *place.items())))
            for key, place in joined.items()
        }

    def gives_way(self, less: tuple, more: tuple, merge: Subsumption, below: Facts) -> bool:
        for order in merge.orders:
            facts = {**below, "<": {less}, ">": {more}}
            parts = (Match("<", order.less), Match(">", order.more), *order.body)
            if any(True for _ in self.solve(parts, facts, {})):
                return True
        return False

    def is_choice(self, name: str, rows: Facts, below: Facts, given: Facts) -> str | None:
        """Why `rows` is no well-founded, maximal choice, or None."""
        merge = self.merges[name]
        assert isinstance(merge, Choice)
        everything = self.derive({**below, **rows}, given)
        grown: Facts = {relation: set() for relation in rows}
        while True:
            step = self.derive({**below, **grown}, given)
            after = {relation: found & rows[relation] for relation, found in step.items()}
            if after == grown:
                break
            grown = after
        if grown != rows:
            return f"not well-founded: {rows} against {grown}"
        for relation, found in everything.items():
            if relation != name and found != rows[relation]:
                return f"{relation}: {found} derived"
        for key in merge.keys:
            seen = [tuple(row[c] for c in key) for row in rows[name]]
            if len(set(seen)) != len(seen):
                return f"key {key} twice: {rows[name]}"
        for row in everything[name] - rows[name]:
            free = all(
                all(any(row[c] != other[c] for c in key) for other in rows[name])
                for key in merge.keys
            )
            if free:
                return f"{row} could join {rows[name]}"
        return None
