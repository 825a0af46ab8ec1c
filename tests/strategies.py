"""Random programs and random edit scripts, for hypothesis and for long seeded runs.

One generator serves both: it draws from a `random.Random`, which hypothesis can play (and shrink).
Every program passes the checks, stratifies and terminates: values that grow do so outside
recursion, or under a guard.

A script is a list of epochs; an epoch is a list of `(sign, relation, row)`, sign `+` or `-`. Every
`-` names a row that is there at that moment and every `+` one that is not, so scripts also run
with `missing="error"`. `replay` gives the input facts after each epoch, for the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from deltafix.datalog.program import Program

__all__ = [
    "FEATURES",
    "programs",
    "programs_with_scripts",
    "random_program",
    "random_row",
    "random_script",
    "replay",
]

Edit = tuple[str, str, tuple]
Script = list[list[Edit]]

FEATURES = frozenset(
    [
        "aggregates",
        "arithmetic",
        "comparisons",
        "constants",
        "disjunction",
        "facts",
        "groups",
        "heads",
        "negation",
        "symbols",
        "wildcards",
    ]
)
"""What a random program may contain besides positive rules over number columns."""

SYMBOLS = ("a", "b", "c", "d")
NUMBERS = range(5)


@dataclass
class _Relation:
    name: str
    columns: tuple[str, ...]
    stratum: int
    given: bool


@dataclass
class _Body:
    """Literals so far and the variables they bind, by type."""

    literals: list[str] = field(default_factory=list)
    bound: dict[str, list[str]] = field(default_factory=lambda: {"number": [], "symbol": []})
    fresh: int = 0

    def new(self, kind: str) -> str:
        self.fresh += 1
        name = f"{'s' if kind == 'symbol' else 'x'}{self.fresh}"
        self.bound[kind].append(name)
        return name


class _Generator:
    def __init__(self, rng: Random, size: int, features: frozenset[str]) -> None:
        self.rng, self.size, self.features = rng, size, features

    def may(self, feature: str, chance: float) -> bool:
        return feature in self.features and self.rng.random() < chance

    def constant(self, kind: str) -> str:
        if kind == "symbol":
            return f'"{self.rng.choice(SYMBOLS)}"'
        return str(self.rng.choice(NUMBERS))

    def relations(self) -> list[_Relation]:
        rng, found = self.rng, []

        def columns() -> tuple[str, ...]:
            kinds = ("number", "symbol") if "symbols" in self.features else ("number",)
            weights = (3, 1)[: len(kinds)]
            width = rng.choice((1, 2, 2, 2, 3))
            return tuple(rng.choices(kinds, weights)[0] for _ in range(width))

        for i in range(rng.randint(1, 2 + self.size // 3)):
            found.append(_Relation(f"in{i}", columns(), 0, True))
        for stratum in range(1, rng.randint(1, 1 + min(3, self.size)) + 1):
            shape = columns()
            for i in range(rng.randint(1, 2)):
                # Mutually recursive relations of one shape call each other more fruitfully.
                mine = shape if rng.random() < 0.7 else columns()
                given = rng.random() < 0.3
                found.append(_Relation(f"r{stratum}{'ab'[i]}", mine, stratum, given))
        return found

    def arguments(self, body: _Body, relation: _Relation, binds: bool) -> str:
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

    def term(self, body: _Body) -> str:
        numbers = body.bound["number"]
        if numbers and self.rng.random() < 0.8:
            return self.rng.choice(numbers)
        return self.constant("number")

    def test(self, body: _Body) -> str | None:
        kinds = [kind for kind, names in body.bound.items() if names]
        if not kinds:
            return None
        kind = self.rng.choice(kinds)
        left = self.rng.choice(body.bound[kind])
        right = self.rng.choice([*body.bound[kind], self.constant(kind)])
        return f"{left} {self.rng.choice(('=', '!=', '!=', '<', '<=', '>', '>='))} {right}"

    def compute(self, body: _Body) -> str:
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

    def group(self, body: _Body, lower: list[_Relation]) -> str:
        """`!( … )` over completed relations with variables of its own."""
        inner = _Body(bound={kind: list(names) for kind, names in body.bound.items()})
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

    def aggregate(self, body: _Body, lower: list[_Relation]) -> str | None:
        usable = [relation for relation in lower if "number" in relation.columns]
        if not usable:
            return None
        relation = self.rng.choice(usable)
        inner = _Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh + 70
        target = inner.new("number")
        at = self.rng.choice([i for i, k in enumerate(relation.columns) if k == "number"])
        args = []
        for i, kind in enumerate(relation.columns):
            known = body.bound[kind]
            if i == at:
                args.append(target)
            else:
                args.append(self.rng.choice(known) if known and self.rng.random() < 0.6 else "_")
        op = self.rng.choice(("count", "sum", "min", "max"))
        atom = f"{relation.name}({', '.join(args)})"
        body.fresh = inner.fresh
        result = body.new("number")
        if op == "count":
            return f"{result} = count : {{ {atom} }}"
        return f"{result} = {op} {target} : {{ {atom} }}"

    def disjunction(self, body: _Body, usable: list[_Relation]) -> str:
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

    def rule(self, head: _Relation, relations: list[_Relation], recursive: bool) -> str:
        rng, body = self.rng, _Body()
        lower = [relation for relation in relations if relation.stratum < head.stratum]
        same = [relation for relation in relations if relation.stratum == head.stratum]
        for i in range(rng.choice((1, 1, 2, 2, 3))):
            pool = same if recursive and (i == 0 or rng.random() < 0.2) else lower
            body.literals.append(self.arguments(body, rng.choice(pool), True))
        if self.may("disjunction", 0.15):
            body.literals.append(self.disjunction(body, lower))
        if self.may("arithmetic", 0.2):
            body.literals.append(self.compute(body))
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

    def head(self, body: _Body, relation: _Relation) -> str:
        args = [
            self.rng.choice(body.bound[kind]) if body.bound[kind] else self.constant(kind)
            for kind in relation.columns
        ]
        return f"{relation.name}({', '.join(args)})"

    def text(self) -> str:
        relations = self.relations()
        lines = []
        for relation in relations:
            columns = ", ".join(f"c{i}:{kind}" for i, kind in enumerate(relation.columns))
            lines.append(f".decl {relation.name}({columns})")
            if relation.given:
                lines.append(f".input {relation.name}")
            if relation.stratum:
                lines.append(f".output {relation.name}")
        for relation in relations:
            if relation.stratum:
                lines.append(self.rule(relation, relations, False))
                for _ in range(self.rng.randint(0, 1 + self.size // 3)):
                    lines.append(self.rule(relation, relations, self.rng.random() < 0.6))
            if self.may("facts", 0.15):
                args = ", ".join(map(self.constant, relation.columns))
                lines.append(f"{relation.name}({args}).")
        return "\n".join(lines) + "\n"


def random_program(rng: Random, size: int = 3, features: frozenset[str] = FEATURES) -> Program:
    """A checked program; `size` (1 to about 8) grows relations, strata and rules."""
    return Program.parse(_Generator(rng, size, features).text())


def random_row(rng: Random, program: Program, relation: str) -> tuple:
    """A row that fits the relation, from a domain of five values a type."""
    values = {
        "number": lambda: rng.choice(NUMBERS),
        "unsigned": lambda: rng.choice(NUMBERS),
        "float": lambda: rng.choice(NUMBERS) / 2,
        "symbol": lambda: rng.choice(SYMBOLS),
    }
    return tuple(values[kind]() for kind in program.column_types(relation))


def random_script(rng: Random, program: Program, epochs: int = 6, edits: int = 6) -> Script:
    """Edits on every `.input` relation: a bulk load, then changes, trickles, and reinsertions."""
    names = program.names("input")
    present: dict[str, set[tuple]] = {name: set() for name in names}
    script: Script = []

    def put(epoch: list[Edit], sign: str, name: str, row: tuple) -> None:
        if (row in present[name]) == (sign == "-"):
            epoch.append((sign, name, row))
            (present[name].discard if sign == "-" else present[name].add)(row)

    for number in range(epochs):
        epoch: list[Edit] = []
        style = "load" if number == 0 else rng.choice(("mixed", "mixed", "trickle", "clear"))
        count = rng.randint(0, 3 * edits) if style == "load" else rng.randint(1, edits)
        for _ in range(count):
            name = rng.choice(names)
            gone = sorted(present[name])
            if style == "trickle" and gone:
                # Delete, put back, sometimes delete again: the net change is nothing or one row.
                row = rng.choice(gone)
                put(epoch, "-", name, row)
                put(epoch, "+", name, row)
                if rng.random() < 0.4:
                    put(epoch, "-", name, row)
            elif (style == "clear" and gone) or (gone and style != "load" and rng.random() < 0.5):
                put(epoch, "-", name, rng.choice(gone))
            else:
                put(epoch, "+", name, random_row(rng, program, name))
        script.append(epoch)
    return script


def replay(program: Program, script: Script) -> Iterator[dict[str, set[tuple]]]:
    """The input facts after each epoch (a fresh copy each time)."""
    present: dict[str, set[tuple]] = {name: set() for name in program.names("input")}
    for epoch in script:
        for sign, name, row in epoch:
            (present[name].add if sign == "+" else present[name].discard)(row)
        yield {name: set(rows) for name, rows in present.items()}


def programs(size: int = 3, features: frozenset[str] = FEATURES) -> st.SearchStrategy[Program]:
    """Random checked programs; `.source` is their text."""
    randoms = st.randoms(use_true_random=False)
    return randoms.map(lambda rng: random_program(rng, size, features))


@st.composite
def programs_with_scripts(
    draw: st.DrawFn, size: int = 3, epochs: int = 6, features: frozenset[str] = FEATURES
) -> tuple[Program, Script]:
    """A random program and a random script over its input relations."""
    rng = draw(st.randoms(use_true_random=False))
    program = random_program(rng, size, features)
    return program, random_script(rng, program, epochs)
