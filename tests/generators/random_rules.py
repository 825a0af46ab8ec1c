"""Rules of random programs: bodies over relations of lower strata, literal by literal.

Invariant: every program passes the checks, stratifies and terminates: values that grow do so
outside recursion, or under a guard. Plain relations live in even strata; `random_extended` puts
groups of relations that merge, drop or construct values into odd ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from random import Random

from tests.generators.random_extended import extended

__all__ = ["CORNERS", "FAR", "NUMBERS", "SYMBOLS", "Body", "Generator", "Relation", "asked"]

SYMBOLS = ("a", "b", "c", "d")
NUMBERS = range(5)
FAR = (-1, -2, 2**30, 2**30 + 1)
"""Numbers that the engine writes in other ways than small ones; rules compute some of them too.

None is far below zero: rules that count up to 6 start from them. agree/test_numbers.py has those.
"""
PATTERNS = ("[ab].*", "[[:alpha:]]", "[^a-b]+", "(a|b)?[[:lower:]]", "[]", "(?i)a")
CORNERS = {
    "number": (
        0,
        -1,
        2**30 - 1,
        2**30,
        2**53 + 1,
        2**62,
        2**63 - 1,
        -(2**31),
        -(2**31) - 1,
        -(2**63),
    ),
    "unsigned": (0, 2**30, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    "float": (
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308),
        *(0.1, 2.0**53, 2.0**53 + 2, -1.5, 2.0**63, 2.0**64),
    ),
}
"""Values by type where arithmetic and order have their corners."""


MOST_CHOICES = 6
"""Conjunctions that the choices of one rule amount to: recursion may have them written out, and a
rule that is two thousand takes more than a minute to plan."""


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
    bound: dict[str, list[str]] = field(
        default_factory=lambda: {"number": [], "symbol": [], "float": []}
    )
    witnesses: list[tuple[str, str]] = field(default_factory=list)
    """The type and name of what only places of least and greatest values bind."""
    fresh: int = 0
    choices: int = 1
    """Conjunctions that the choices so far amount to."""

    def new(self, kind: str) -> str:
        self.fresh += 1
        name = f"{ {'symbol': 's', 'float': 'f'}.get(kind, 'x') }{self.fresh}"
        self.bound[kind].append(name)
        return name


def asked(rng: Random) -> str:
    """Rules of one relation whose heads Python computes: a load stops for values in each.

    What it looks at ahead of a stop is up to the next rule, whose tests are not this one's.
    """
    inputs = {"word": 1, "pair": 2, "other": 2}
    lines = [
        f".decl {name}({', '.join(f'c{n}: symbol' for n in range(width))})\n.input {name}"
        for name, width in inputs.items()
    ]
    lines.append(".decl asked(t: symbol)\n.output asked")
    for _ in range(rng.randint(2, 4)):
        atoms, names = [], []
        for number in range(rng.choice((1, 2, 2))):
            name = rng.choice([*inputs])
            args = [f"t{number}{place}" for place in range(inputs[name])]
            names += args
            atoms.append(f"{name}({', '.join(args)})")
        op = rng.choice(("=", "!=", "!="))
        tests = [f'{rng.choice(names)} {op} "{text}"' for text in rng.sample(SYMBOLS, 2)]
        body = ", ".join([*atoms, *rng.sample(tests, rng.choice((0, 0, 1, 2)))])
        other = rng.choice([*names, '"-"'])
        lines.append(f"asked(cat({rng.choice(names)}, {other})) :- {body}.")
    return "\n".join(lines) + "\n"


class Generator:
    def __init__(self, rng: Random, size: int, features: frozenset[str]) -> None:
        self.rng, self.size, self.features = rng, size, features

    def may(self, feature: str, chance: float) -> bool:
        return feature in self.features and self.rng.random() < chance

    def constant(self, kind: str) -> str:
        if kind == "symbol":
            return f'"{self.rng.choice(SYMBOLS)}"'
        number = self.rng.choice(NUMBERS)
        return str(number / 2 if kind == "float" else number)

    def relations(self) -> list[Relation]:
        rng, found = self.rng, []

        def columns() -> tuple[str, ...]:
            weights = {
                "number": 3,
                "symbol": "symbols" in self.features,
                "float": "floats" in self.features,
            }
            width = rng.choice((1, 2, 2, 2, 3))
            return tuple(rng.choices(list(weights), list(weights.values()), k=width))

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

    def computed(self, atom: str, body: Body) -> str:
        """An atom with one of its number variables computed from a bound one, now and then."""
        numbers = body.bound["number"]
        if not numbers or not self.may("arithmetic", 0.2):
            return atom
        name = self.rng.choice(numbers)
        step = self.rng.choice(("{} + 1", "{} - 1", "({} + 1) % 3", "{} * 2"))
        return re.sub(rf"(?<=[( ]){name}(?=[,)])", step.format(name), atom, count=1)

    def negated(self, body: Body, lower: list[Relation]) -> str:
        """A negation of atoms whose variables are bound: once, thrice, or of a choice of two."""
        one, two = (
            self.computed(self.arguments(body, self.rng.choice(lower), False), body)
            for _ in range(2)
        )
        shape = self.rng.random()
        if shape < 0.7 or "groups" not in self.features:
            return f"!{one}"
        if shape < 0.8:
            return f"!!!{one}"
        return self.rng.choice((f"!({one} ; {two})", f"!(!(!{one}, !{two}))", f"!(!{one} ; {two})"))

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
        if body.bound["float"] and self.rng.random() < 0.4:
            left, right = (self.rng.choice(body.bound["float"]) for _ in range(2))
            # Differences and quotients are NaN for infinities and NaN, 0.0 / 0.0 too.
            shapes = ("min({0}, {1})", "max({0}, {1})", "{0} - {0}", "{0} / {0}", "{0} * 0.0")
            shape = self.rng.choice(shapes).format(left, right)
            return f"{body.new('float')} = {shape}"
        left, right = self.term(body), self.term(body)
        shape = self.rng.choice(("up", "down", "modulo", "functor", "divide", "wide"))
        name = body.new("number")
        if shape == "up":
            return f"{name} = {left} + 1, {name} < 7"
        if shape == "down":
            return f"{name} = {left} - 1, {name} >= 0, {name} < 7"
        if shape == "modulo":
            operator = self.rng.choice("+-*")
            return f"{name} = ({left} {operator} {right}) % {self.rng.randint(2, 5)}"
        if shape == "wide":
            by = self.rng.choice((1_500_000_000, 2_147_483_647, 65_537 * 40_000))
            shift = self.rng.choice(("bshr", "bshru", "bshl"))
            return f"{name} = ({left} * {by % 2**31} {shift} {right}) % 7"
        if shape == "divide":
            return f"{name} = {left} {self.rng.choice('/%')} {right}"
        return f"{name} = {self.rng.choice(('min', 'max'))}({left}, {right})"

    def same_terms(self, body: Body) -> list[str]:
        """Variables that are the same few terms, some of them two of these at once."""
        terms = [f"({self.term(body)} + {step}) % 3" for step in self.rng.sample(range(3), 2)]
        names = [body.new("number") for _ in range(self.rng.choice((2, 3, 3)))]
        return [
            f"{name} = {term}"
            for name in names
            for term in self.rng.sample(terms, self.rng.choice((1, 1, 2)))
        ]

    def text_functor(self, body: Body) -> str | None:
        """A string functor or test; new symbols have at most two characters."""
        if not body.bound["symbol"]:
            return None
        one, two = (self.rng.choice(body.bound["symbol"]) for _ in range(2))
        shape = self.rng.choice(
            ("cat", "strlen", "to_string", "to_number", "contains", "match", "ord", "plus")
        )
        if shape == "contains":
            return f'{self.rng.choice(("", "!"))}contains("{self.rng.choice(SYMBOLS)}", {one})'
        if shape == "match":
            return f'{self.rng.choice(("", "!"))}match("{self.rng.choice(PATTERNS)}", {one})'
        if shape == "ord":
            apart = self.may("comparisons", 0.5)
            return f"ord({one}) {'!=' if apart else '='} ord({two})"
        if shape == "strlen":
            return f"{body.new('number')} = strlen({one})"
        if shape == "to_number":
            text = self.rng.choice((one, f'cat("0x", {one})', f'"0b1" + to_string(strlen({one}))'))
            return f"{body.new('number')} = to_number({text}) % 5"
        number = self.term(body)
        name = body.new("symbol")
        if shape == "plus":
            return f"{name} = substr({one} + {two}, {self.rng.randint(0, 1)}, 2)"
        if shape == "to_string":
            return f"{name} = to_string({number} % 3)"
        return f"{name} = cat(substr({one}, 0, 1), substr({two}, {self.rng.randint(0, 1)}, 1))"

    def group(self, body: Body, lower: list[Relation], depth: int = 0) -> str:
        """`!( … )` over completed relations with variables of its own; it may nest."""
        rng, inner = self.rng, Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh + 50
        # Two literals at least: the variables of a lone negated atom must be bound outside.
        either = rng.random() < 0.25
        literals = [
            self.disjunction(inner, lower)
            if either
            else self.arguments(inner, rng.choice(lower), True)
        ]
        for _ in range(rng.choice((1, 1, 2))):
            shape = rng.choice(("test", "negated", "nested", "atom", "either", "computed"))
            extra = self.test(inner) if shape == "test" else None
            if shape == "computed" and self.may("arithmetic", 0.8):
                extra = self.compute(inner)
            elif shape == "either":
                left, right = (self.arguments(inner, rng.choice(lower), False) for _ in range(2))
                extra = f"({rng.choice(('', '!'))}{left} ; {rng.choice(('', '!'))}{right})"
            elif shape == "nested" and depth < 3:
                extra = self.group(inner, lower, depth + 1)
            elif shape == "negated" and "negation" in self.features:
                extra = f"!{self.arguments(inner, rng.choice(lower), False)}"
            literals.append(extra or self.arguments(inner, rng.choice(lower), True))
        rng.shuffle(literals)
        return f"{rng.choice(('!', '!', '!!', '!!!'))}({', '.join(literals)})"

    def aggregate(self, body: Body, lower: list[Relation], *, witnesses: bool = True) -> str | None:
        relation = self.rng.choice(lower)
        of = self.rng.choice(relation.columns)
        inner = Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh + 70
        target = inner.new(of)
        at = self.rng.choice([i for i, k in enumerate(relation.columns) if k == of])
        op = self.rng.choice(("min", "max", *(("count", "sum") if of != "symbol" else ())))
        if of == "number" and self.may("reducers", 0.25):
            op = "@@xor"
        witness = witnesses and op in ("min", "max") and self.may("witnesses", 0.5)
        for kind, name in body.witnesses if witness else ():
            inner.bound[kind].remove(name)  # what one witness binds is not given to another
        args, found = [], []
        for i, kind in enumerate(relation.columns):
            known = body.bound[kind]
            same = [name for other, name in body.witnesses if other == kind]
            if i == at:
                args.append(target)
            elif witness and same and self.rng.random() < 0.7:
                args.append(self.rng.choice(same))
            elif witness and self.rng.random() < 0.6:
                args.append(inner.new(kind))
                found.append((kind, args[-1]))
            else:
                args.append(self.rng.choice(known) if known and self.rng.random() < 0.6 else "_")
        equations = [] if witness else self.equated(args, relation, inner)
        atom = f"{relation.name}({', '.join(args)})"
        if not (witness or equations) and self.may("disjunction", 0.3):
            atom = f"({atom} ; {self.other(inner, lower, target, of)})"
        known = [name for name in body.bound[of] if name in inner.bound[of]]
        inside = self.narrowed(atom, target, known, inner, lower)
        inside = ", ".join((inside, *equations))
        body.fresh = inner.fresh
        body.witnesses += found
        for kind, name in found:
            body.bound[kind].append(name)
            # The rule itself mentions a witness: two aggregates alone would not share it.
            body.literals.append(f"{name} >= {name}")
        result = body.new("number" if op == "count" else of)
        if not found and op != "count" and self.rng.random() < 0.2:
            # The result's own name inside: there it is another variable.
            inside = re.sub(rf"\b{target}\b", result, inside)
            target = result
        # A witness is one where the rule's own body mentions it.
        tests = "".join(f", {name} != {self.constant(kind)}" for kind, name in found)
        if op == "count":
            return f"{result} = count : {{ {inside} }}"
        if of == "symbol":
            if self.may("strings", 0.3):
                target = self.rng.choice((f'cat("b", {target})', f'substr({target} + "a", 1, 1)'))
        elif op in ("sum", "min", "max") and self.may("arithmetic", 0.3):
            one, two = ("1.0", "2.0") if of == "float" else ("1", "2")
            terms = (f"{target} + {one}", f"{target} * {two}", f"{target} - {target}")
            target = self.rng.choice(terms)
        if op == "sum" and self.rng.random() < 0.3:
            target = f"({target}) * {'1.0e308' if of == 'float' else '1500000000'}"
        return f"{result} = {op} {target} : {{ {inside} }}{tests}"

    def untrue(self, body: Body, lower: list[Relation]) -> str:
        """A negated comparison with an aggregate, which may have no value, or a constant for one.

        The term of the aggregate may be another variable than those of its body; what it is
        compared with, one that its body reads, often.
        """
        inner = Body(bound={kind: list(names) for kind, names in body.bound.items()})
        inner.fresh = body.fresh
        found = self.aggregate(inner, lower, witnesses=False)
        body.fresh = inner.fresh
        result, _, folded = found.partition(" = ")
        kind = next(kind for kind, names in inner.bound.items() if result in names)
        read = [name for name in body.bound[kind] if re.search(rf"\b{name}\b", folded)]
        one, two = (self.rng.choice([*body.bound[kind], self.constant(kind)]) for _ in range(2))
        one = self.rng.choice([one, *read])
        if folded.startswith(("min", "max")) and self.rng.random() < 0.4:
            folded = f"{folded[:3]} {two} : {folded.partition(' : ')[2]}"
        operator = self.rng.choice(("=", "!=", "<", "<=", ">", ">="))
        return f"!({' '.join(self.rng.choice(((one, operator, folded), (folded, operator, one))))})"

    def other(self, inner: Body, lower: list[Relation], target: str, of: str) -> str:
        """Another atom that binds an aggregate's target, and reads others of the rule, or none."""
        relation = self.rng.choice([one for one in lower if of in one.columns])
        at = self.rng.choice([i for i, kind in enumerate(relation.columns) if kind == of])
        known = {k: [n for n in names if n != target] for k, names in inner.bound.items()}
        args = [
            target
            if i == at
            else self.rng.choice(known[kind])
            if known[kind] and self.rng.random() < 0.5
            else self.rng.choice((self.constant(kind), self.constant(kind), "_"))
            for i, kind in enumerate(relation.columns)
        ]
        return f"{relation.name}({', '.join(args)})"

    def either(self, inner: Body, lower: list[Relation]) -> str:
        """Alternatives in an aggregate: what one binds or reads of the rule, the other need not."""
        sides = []
        for _ in range(self.rng.choice((2, 2, 3))):
            side = Body(bound={kind: list(names) for kind, names in inner.bound.items()})
            side.fresh = inner.fresh
            test = self.test(side) if self.may("comparisons", 0.5) else None
            binds = self.rng.random() < 0.25
            sides.append(test or self.arguments(side, self.rng.choice(lower), binds))
            inner.fresh = side.fresh
        return f"({' ; '.join(sides)})"

    def equated(self, args: list[str], relation: Relation, inner: Body) -> list[str]:
        """Columns of an atom under names of their own, and equations that say what they are."""
        found = []
        for place, kind in enumerate(relation.columns):
            if args[place] != "_" and self.may("comparisons", 0.2):
                name, args[place] = args[place], inner.new(kind)
                found.append(" = ".join(self.rng.sample((name, args[place]), 2)))
        return found

    def narrowed(
        self, atom: str, target: str, numbers: list[str], inner: Body, lower: list[Relation]
    ) -> str:
        """The body of an aggregate: an atom, a second one, tests against `numbers` outside."""
        parts = [atom]
        if numbers and self.may("comparisons", 0.25):
            operator = self.rng.choice(("<", "<=", "!=", ">"))
            parts.append(f"{target} {operator} {self.rng.choice((numbers[-1], *numbers))}")
        if self.rng.random() < 0.2:
            parts.append(self.arguments(inner, self.rng.choice(lower), True))
        if self.may("disjunction", 0.25):
            parts.append(self.either(inner, lower))
        if self.may("groups", 0.15):
            parts.append(self.group(inner, lower, 2))
        return ", ".join(parts)

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

    def choice(self, body: Body, lower: list[Relation], usable: list[Relation]) -> str:
        """Alternatives that test, or give one variable a value, with what else the rule binds."""
        rng = self.rng
        gives = rng.random() < 0.6
        name = body.new("number") if gives else ""
        known = {kind: [n for n in names if n != name] for kind, names in body.bound.items()}
        branches, counts = [], []
        for _ in range(rng.choice((2, 2, 3))):
            inner = Body(bound={kind: list(names) for kind, names in known.items()})
            inner.fresh = body.fresh
            literals = []
            for _ in range(rng.choice((1, 1, 2))):
                shape = rng.choice(("atom", "atom", "tested", "negated", "test", "group", "fold"))
                extra = None
                if shape == "atom":
                    extra = self.arguments(inner, rng.choice(usable), True)
                elif shape == "negated" and "negation" in self.features:
                    extra = self.negated(inner, lower)
                elif shape == "test" and "comparisons" in self.features:
                    extra = self.test(inner)
                elif shape == "group" and self.may("groups", 0.5):
                    extra = self.group(inner, lower, 2)
                elif shape == "fold" and self.may("aggregates", 0.5):
                    extra = self.aggregate(inner, lower, witnesses=False)
                literals.append(extra or self.arguments(inner, rng.choice(usable), False))
            if 0 < rng.random() < 0.2:  # the least draw of all would have no end
                literals.append(self.choice(inner, lower, usable))
            if gives:
                terms = ("{}", "({} + 1) % 4", "{} - {}")
                kept = len(terms) if "arithmetic" in self.features else 1
                term = rng.choice(terms[:kept]).replace("{}", self.term(inner))
                literals.append(f"{name} = {term}")
            body.fresh = inner.fresh
            rng.shuffle(literals)
            branches.append(", ".join(literals))
            counts.append(inner.choices)
        if body.choices * sum(counts) > MOST_CHOICES:
            branches, counts = branches[:1], counts[:1]
        body.choices *= sum(counts)
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
        several = "disjunction" in self.features and 0 < rng.random() < 0.15
        for _ in range(rng.choice((1, 2, 2, 3)) if several else 0):
            usable = [*lower, *same] if recursive and rng.random() < 0.3 else lower
            body.literals.append(self.choice(body, lower, usable))
        if self.may("arithmetic", 0.2):
            body.literals.append(self.compute(body))
        if "arithmetic" in self.features and self.may("repeats", 0.1):
            body.literals.extend(self.same_terms(body))
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
            body.literals.append(self.negated(body, lower))
        if self.may("groups", 0.12):
            body.literals.append(self.group(body, lower))
        for _ in range(rng.choice((1, 1, 2))):
            if self.may("aggregates", 0.1 if recursive else 0.15):
                extra = self.aggregate(body, lower)
                body.literals.extend([extra] if extra else [])
                if extra and self.may("repeats", 0.3):
                    body.literals.extend(self.again(body, extra))
                if extra and self.may("repeats", 0.4):
                    body.literals.append(self.rows_of(body, extra))
        if "untrue" in self.features and self.may("negation", 0.15) and self.may("aggregates", 0.5):
            body.literals.append(self.untrue(body, lower))
        if self.may("repeats", 0.1):
            body.literals.append(rng.choice(body.literals))
        if self.may("repeats", 0.1):
            body.literals.append(self.apart(lower))
        rng.shuffle(body.literals)
        heads = [head]
        if self.may("heads", 0.1):
            heads.append(rng.choice(same))
        shown = ", ".join(self.head(body, relation) for relation in heads)
        if self.may("arithmetic", 0.15):
            shown, guard = self.grown(shown, body)
            body.literals.extend(guard)
        return f"{shown} :- {', '.join(body.literals)}."

    def again(self, body: Body, aggregate: str) -> list[str]:
        """The same aggregate under other names, or in two alternatives of the rule."""
        result, _ = aggregate.split(" = ", 1)
        if body.witnesses:
            return []
        if not self.may("disjunction", 0.5):
            return [re.sub(rf"\b{result}\b", result + name, aggregate) for name in "tu"]
        twin = re.sub(rf"\b{result}\b", f"{result}t", aggregate)
        return [f"({result} = {result} ; {twin})"]

    def rows_of(self, body: Body, aggregate: str) -> str:
        """The atom of an aggregate outside of it: its group, and any row of that."""
        _, atom = aggregate.split("{ ", 1)
        name, args = re.search(r"(\w+)\(([^()]*)\)", atom).groups()
        known = {one for names in body.bound.values() for one in names}
        said = (one if one in known or not one[:1].isalpha() else "_" for one in args.split(", "))
        return f"{name}({', '.join(said)})"

    def grown(self, heads: str, body: Body) -> tuple[str, list[str]]:
        """Heads that compute a column, and the guard under which that ends in recursion too."""
        name = self.rng.choice(body.bound["number"] or [""])
        if not name or not re.search(rf"[( ]{name}[,)]", heads):
            return heads, []
        guard = f"{name} < 6" if self.rng.random() < 0.7 else f"{name} >= 0, {name} <= 3"
        return re.sub(rf"(?<=[( ]){name}(?=[,)])", f"{name} + 1", heads), [guard]

    def apart(self, lower: list[Relation]) -> str:
        """Atoms that share nothing with the rest of the body: it holds where they have rows."""
        relation, other = (self.rng.choice(lower) for _ in range(2))
        if self.rng.random() < 0.5:
            return f"{relation.name}({', '.join('_' * len(relation.columns))})"
        kind = relation.columns[0]
        first = ", ".join(["far", *"_" * (len(relation.columns) - 1)])
        if kind not in other.columns:
            return f"{relation.name}({first}), far != {self.constant(kind)}"
        at = other.columns.index(kind)
        args = ["far" if i == at else "_" for i in range(len(other.columns))]
        return f"{relation.name}({first}), {other.name}({', '.join(args)})"

    def head(self, body: Body, relation: Relation) -> str:
        args = [
            self.rng.choice(body.bound[kind]) if body.bound[kind] else self.constant(kind)
            for kind in relation.columns
        ]
        return f"{relation.name}({', '.join(args)})"

    def stated(self, kind: str, relation: Relation, relations: list[Relation]) -> str:
        """A column of a fact: a constant, or an aggregate over a lower relation."""
        lower = [one for one in relations if one.stratum < relation.stratum]
        if kind != "number" or not lower or not self.may("aggregates", 0.3):
            return self.constant(kind)
        other = self.rng.choice(lower)
        return f"count : {{ {other.name}({', '.join('_' * len(other.columns))}) }}"

    def text(self) -> str:
        relations = self.relations()
        lines = [".functor xor(x: number): number"] if "reducers" in self.features else []
        if self.may("words", 0.4):
            lines.append('.pragma "word-size" "32"')
        lines += extended(self, relations)
        for relation in relations:
            if relation.special:
                continue
            columns = ", ".join(f"c{i}:{kind}" for i, kind in enumerate(relation.columns))
            own = Random(f"{relation.name} {columns}")  # other draws are as they were
            indexed = [f"c{i}" for i in range(len(relation.columns)) if own.random() < 0.5]
            hint = f" index-on ({', '.join(indexed)})" if indexed and own.random() < 0.3 else ""
            lines.append(f".decl {relation.name}({columns}){hint}")
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
                args = ", ".join(
                    self.stated(kind, relation, relations) for kind in relation.columns
                )
                lines.append(f"{relation.name}({args}).")
        return "\n".join(lines) + "\n"
