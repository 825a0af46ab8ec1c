"""Rules of random programs: bodies over relations of lower strata, literal by literal.

Invariant: every program passes the checks, stratifies and terminates: values that grow do so
outside recursion, or under a guard. Plain relations live in even strata; `random_extended` puts
groups of relations that merge, drop or construct values into odd ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from random_extended import extended

__all__ = ["NUMBERS", "SYMBOLS", "Body", "Generator", "Relation"]

SYMBOLS = ("a", "b", "c", "d")
NUMBERS = range(5)


@dataclass
class Relation:
    name: str
    columns: tuple[str, ...]
    stratum: float
    given: bool
    special: bool = False
    """Declared and derived by a group of relations of its own (`random_extended`)."""


@dataclass
class Body:
    """Literals so far and the variables they bind, by type."""

    literals: list[str] = field(default_factory=list)
    bound: dict[str, list[str]] = field(default_factory=lambda: {"number": [], "symbol": []})
    fresh: int = 0

    def new(self, kind: str) -> str:
        self.fresh += 1
        name = f"{'s' if kind == 'symbol' else 'x'}{self.fresh}"
        self.bound[kind].append(name)
        return name


class Generator:
    def __init__(self, rng: Random, size: int, features: frozenset[str]) -> None:
        self.rng, self.size, self.features = rng, size, features

    def may(self, feature: str, chance: float) -> bool:
        return feature in self.features and self.rng.random() < chance

    def constant(self, kind: str) -> str:
        if kind == "symbol":
            return f'"{self.rng.choice(SYMBOLS)}"'
        return str(self.rng.choice(NUMBERS))

    def relations(self) -> list[Relation]:
        rng, found = self.rng, []

        def columns() -> tuple[str, ...]:
            kinds = ("number", "symbol") if "symbols" in self.features else ("number",)
            weights = (3, 1)[: len(kinds)]
            width = rng.choice((1, 2, 2, 2, 3))
            return tuple(rng.choices(kinds, weights)[0] for _ in range(width))

        for i in range(rng.randint(1, 2 + self.size // 3)):
            found.append(Relation(f"in{i}", columns(), 0, True))
        for stratum in range(1, rng.randint(1, 1 + min(3, self.size)) + 1):
            shape = columns()
            for i in range(rng.randint(1, 2)):
                # Mutually recursive relations of one shape call each other more fruitfully.
                mine = shape if rng.random() < 0.7 else columns()
                given = rng.random() < 0.3
                found.append(Relation(f"r{stratum}{'ab'[i]}", mine, 2 * stratum, given))
        return found

    def arguments(self, body: Body, relation: Relation, binds: bool) -> str:
        """Arguments for an atom; without `binds` only bound variables, constants and `_`."""
        rng, args = self.rng, []
        for kind in relation.columns:
            bound = body.bound[kind]
            if self.may("wildcards", 0.12):
                args.append("_")
            elif self.may("constants", 0.1):
                args.append(self.constant(kind))
            elif bound and (not binds or rng.random() < 0.55):
                args.append(rng.choice(bound))
            elif binds:
                args.append(body.new(kind))
            else:
                args.append("_" if "wildcards" in self.features else self.constant(kind))
        return f"{relation.name}({', '.join(args)})"

    def term(self, body: Body) -> str:
        numbers = body.bound["number"]
        if numbers and self.rng.random() < 0.8:
            return self.rng.choice(numbers)
        return self.constant("number")

    def test(self, body: Body) -> str | None:
        kinds = [kind for kind, names in body.bound.items() if names]
        if not kinds:
            return None
        kind = self.rng.choice(kinds)
        left = self.rng.choice(body.bound[kind])
        right = self.rng.choice([*body.bound[kind], self.constant(kind)])
        return f"{left} {self.rng.choice(('=', '!=', '!=', '<', '<=', '>', '>='))} {right}"

    def compute(self, body: Body) -> str:
        """A new number from bound ones that stays in a small range, so recursion ends."""
        left, right = self.term(body), self.term(body)
        shape = self.rng.choice(("up", "down", "modulo", "functor", "divide"))
        name = body.new("number")
        if shape == "up":
            return f"{name} = {left} + 1, {name} < 7"
        if shape == "down":
            return f"{name} = {left} - 1, {name} >= 0"
        if shape == "modulo":
            operator = self.rng.choice("+-*")
            return f"{name} = ({left} {operator} {right}) % {self.rng.randint(2, 5)}"
        if shape == "divide":
            return f"{name} = {left} {self.rng.choice('/%')} {right}"
        return f"{name} = {self.rng.choice(('min', 'max'))}({left}, {right})"

    def text_functor(self, body: Body) -> str | None:
        """A string functor or test; new symbols have at most two characters."""
        if not body.bound["symbol"]:
            return None
        one, two = (self.rng.choice(body.bound["symbol"]) for _ in range(2))
        shape = self.rng.choice(("cat", "strlen", "to_string", "to_number", "contains", "match"))
        if shape == "contains":
            return f'{self.rng.choice(("", "!"))}contains("{self.rng.choice(SYMBOLS)}", {one})'
        if shape == "match":
            return f'{self.rng.choice(("", "!"))}match("[ab].*", {one})'
        if shape in ("strlen", "to_number"):
            return f"{body.new('number')} = {shape}({one})"
        number = self.term(body)
        name = body.new("symbol")
        if shape == "to_string":
            return f"{name} = to_string({number} % 3)"
        return f"{name} = cat(substr({one}, 0, 1), substr({two}, {self.rng.randint(0, 1)}, 1))"

    def group(self, body: Body, lower: list[Relation]) -> str:
        """`!( … )` over completed relations with variables of its own."""
        inner = Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh + 50
        literals = [self.arguments(inner, self.rng.choice(lower), True)]
        # Two literals at least: the variables of a lone negated atom must be bound outside.
        extra = self.test(inner)
        if extra is not None and self.rng.random() < 0.5:
            literals.append(extra)
        elif "negation" in self.features and self.rng.random() < 0.5:
            literals.append(f"!{self.arguments(inner, self.rng.choice(lower), False)}")
        else:
            literals.append(self.arguments(inner, self.rng.choice(lower), True))
        return f"!({', '.join(literals)})"

    def aggregate(self, body: Body, lower: list[Relation]) -> str | None:
        usable = [relation for relation in lower if "number" in relation.columns]
        if not usable:
            return None
        relation = self.rng.choice(usable)
        inner = Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh + 70
        target = inner.new("number")
        at = self.rng.choice([i for i, k in enumerate(relation.columns) if k == "number"])
        op = self.rng.choice(("count", "sum", "min", "max"))
        if self.may("reducers", 0.25):
            op = "@@xor"
        witness = op in ("min", "max") and self.may("witnesses", 0.5)
        args, found = [], []
        for i, kind in enumerate(relation.columns):
            known = body.bound[kind]
            if i == at:
                args.append(target)
            elif witness and self.rng.random() < 0.6:
                args.append(inner.new(kind))
                found.append((kind, args[-1]))
            else:
                args.append(self.rng.choice(known) if known and self.rng.random() < 0.6 else "_")
        atom = f"{relation.name}({', '.join(args)})"
        body.fresh = inner.fresh
        for kind, name in found:
            body.bound[kind].append(name)
        result = body.new("number")
        if op == "count":
            return f"{result} = count : {{ {atom} }}"
        return f"{result} = {op} {target} : {{ {atom} }}"

    def disjunction(self, body: Body, usable: list[Relation]) -> str:
        kind = self.rng.choice(self.rng.choice(usable).columns)
        sources = [relation for relation in usable if kind in relation.columns]
        name = body.new(kind)
        branches = []
        for _ in range(2):
            relation = self.rng.choice(sources)
            at = self.rng.choice([i for i, k in enumerate(relation.columns) if k == kind])
            args = [name if i == at else "_" for i in range(len(relation.columns))]
            branches.append(f"{relation.name}({', '.join(args)})")
        return f"({' ; '.join(branches)})"

    def rule(self, head: Relation, relations: list[Relation], recursive: bool) -> str:
        rng, body = self.rng, Body()
        lower = [relation for relation in relations if relation.stratum < head.stratum]
        same = [relation for relation in relations if relation.stratum == head.stratum]
        for i in range(rng.choice((1, 1, 2, 2, 3))):
            pool = same if recursive and (i == 0 or rng.random() < 0.2) else lower
            body.literals.append(self.arguments(body, rng.choice(pool), True))
        if self.may("disjunction", 0.15):
            body.literals.append(self.disjunction(body, lower))
        if self.may("arithmetic", 0.2):
            body.literals.append(self.compute(body))
        if self.may("range", 0.1):
            left, low = self.term(body), self.rng.randint(-1, 2)
            body.literals.append(f"{body.new('number')} = range({low}, {left} % 4)")
        if self.may("strings", 0.2):
            extra = self.text_functor(body)
            body.literals.extend([extra] if extra else [])
        if self.may("comparisons", 0.25):
            extra = self.test(body)
            body.literals.extend([extra] if extra else [])
        if self.may("negation", 0.3):
            body.literals.append(f"!{self.arguments(body, rng.choice(lower), False)}")
        if self.may("groups", 0.12):
            body.literals.append(self.group(body, lower))
        if not recursive and self.may("aggregates", 0.15):
            extra = self.aggregate(body, lower)
            body.literals.extend([extra] if extra else [])
        rng.shuffle(body.literals)
        heads = [head]
        if self.may("heads", 0.1):
            heads.append(rng.choice(same))
        shown = ", ".join(self.head(body, relation) for relation in heads)
        return f"{shown} :- {', '.join(body.literals)}."

    def head(self, body: Body, relation: Relation) -> str:
        args = [
            self.rng.choice(body.bound[kind]) if body.bound[kind] else self.constant(kind)
            for kind in relation.columns
        ]
        return f"{relation.name}({', '.join(args)})"

    def text(self) -> str:
        relations = self.relations()
        lines = [".functor xor(x: number): number"] if "reducers" in self.features else []
        lines += extended(self, relations)
        for relation in relations:
            if relation.special:
                continue
            columns = ", ".join(f"c{i}:{kind}" for i, kind in enumerate(relation.columns))
            lines.append(f".decl {relation.name}({columns})")
            if relation.given:
                lines.append(f".input {relation.name}")
            if relation.stratum:
                lines.append(f".output {relation.name}")
        for relation in relations:
            if relation.special:
                continue
            if relation.stratum:
                lines.append(self.rule(relation, relations, False))
                for _ in range(self.rng.randint(0, 1 + self.size // 3)):
                    lines.append(self.rule(relation, relations, self.rng.random() < 0.6))
            if self.may("facts", 0.15):
                args = ", ".join(map(self.constant, relation.columns))
                lines.append(f"{relation.name}({args}).")
        return "\n".join(lines) + "\n"
