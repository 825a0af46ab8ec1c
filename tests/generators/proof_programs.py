"""Databases to ask about: random programs with every kind of relation, after random edits.

To the programs of `strategies` come given rows in relations that merge or drop rows, demand,
inlining and components. Invariant: a program that the checks
refuse is drawn again; the rest is connected and edited, and comes with its input rows.
"""

from __future__ import annotations

import re
from random import Random

from tests.generators.random_extended import BEYOND
from tests.generators.strategies import (
    CORE,
    FEATURES,
    FOLDS,
    REDUCERS,
    random_program,
    random_script,
    replay,
)

import deltafix
from deltafix.errors import CyclicDataError, ProgramError
from deltafix.plan.build import lower
from deltafix.rules.check import typed

__all__ = [
    "ALL",
    "FOLDS",
    "FUNCTORS",
    "KINDS",
    "KINDS_ABSENT",
    "KINDS_FACTS",
    "KINDS_PRESENT",
    "POSITIVE",
    "copy_of",
    "edited",
    "joining",
    "loaded",
    "random_values",
    "tall",
]

POSITIVE = CORE - {"aggregates", "negation", "groups"}
ALL = FEATURES | set(BEYOND) | {"functors", "given", "demand", "inline", "instances"}

FUNCTORS = {
    **{f"g{n}lub": lambda x, y: x | y for n in range(4)},
    "half": lambda x: None if x % 2 else x // 2,
}
"""What the lattices of random programs join with, and a function that has no value of some."""

KINDS = """
.type Pair = [a: number, b: number]
.type Term = Leaf { v: number } | Node { t: Term }
.decl e(x: number, y: number)
.input e
.decl pair(p: Pair)
.decl term(t: Term)
.decl same(x: number, y: number) eqrel
.decl least(k: number, v: number <min>)
.decl span(k: number, lo: number <min>, hi: number <max>)
.decl dist(k: number, v: number <min>)
.decl high(k: number, v: number <max>)
.decl one(k: number, v: number) choice-domain k
.decl parent(x: number, y: number) choice-domain y
.decl top(k: number, v: number)
.decl near(k: number, v: number)
.decl sum_of(k: number, n: number)
.decl ok(x: number)
.decl path(x: number, y: number) magic
.decl hop(x: number, y: number) inline
.decl out(y: number)
.output out, pair, term, same, least, span, dist, high, one, parent, top, near, sum_of, ok
pair([x, y]) :- e(x, y).
term($Node($Leaf(x))) :- e(x, _).
same(x, y) :- e(x, y).
least(k, v) :- e(k, v).
span(k, v, v) :- e(k, v).
dist(1, 0).
dist(y, d + y) :- dist(x, d), e(x, y).
high(x, 0) :- e(x, _).
high(y, min(h + 1, 3)) :- high(x, h), e(x, y).
one(k, v) :- e(k, v).
parent(1, 1).
parent(x, y) :- parent(_, x), e(x, y).
top(k, v) :- e(k, v).
top(k, v) <= top(k, w) :- v < w.
near(1, 0).
near(y, v + 1) :- near(x, v), v < 5, e(x, y).
near(k, v) <= near(k, w) :- w < v.
sum_of(k, n) :- e(k, _), n = sum v + w : { e(k, v), w = range(0, 2) }.
ok(x) :- e(x, _), !(e(x, y), e(y, _), !ok(y)).
hop(x, z) :- e(x, y), e(y, z).
path(x, y) :- e(x, y).
path(x, z) :- e(x, y), path(y, z).
out(y) :- hop(1, y), path(y, z), z != 1.
"""
"""Every kind of relation in one program: what doors are tried with."""

KINDS_FACTS = [(1, 2), (2, 1), (1, 3), (3, 4), (4, 4), (5, 6)]
KINDS_PRESENT = [
    "pair([1, 2])", "term($Node($Leaf(1)))", "same(4, 1)", "same(6, 6)", "least(1, 2)",
    "span(1, 2, 3)", "dist(3, 3)", "high(2, 3)", "one(1, 2)", "parent(1, 2)", "top(1, 3)",
    "near(4, 2)", "sum_of(1, 12)", "ok(5)", "out(1)",
]  # fmt: skip
KINDS_ABSENT = [
    "pair([1, 9])", "pair(nil)", "term($Leaf(1))", "term($Node($Leaf(9)))", "same(1, 5)",
    "least(1, 3)", "span(1, 2, 2)", "dist(3, 9)", "high(2, 1)", "one(1, 3)", "parent(2, 1)",
    "top(1, 2)", "near(4, 5)", "sum_of(1, 7)", "ok(4)", "out(5)",
]  # fmt: skip


MOST_CLAUSES = 300
"""Choices that a recursion writes out can be 22,000 clauses: 100 s to plan, each time."""


def loaded(rng: Random, features: frozenset[str]) -> tuple[deltafix.Database, dict]:
    """A database over a random program, after a random script, and its input facts.

    Some were asked for proofs before and compacted: what questions remember must not outlive that.
    """
    while True:
        try:
            program = random_program(rng, rng.choice([2, 3, 4]), features)
            text = dressed(rng, program, features)
            if len(lower(typed(deltafix.Program.parse(text))).clauses) > MOST_CLAUSES:
                continue
            db = connect(text)
        except ProgramError:
            continue
        script = random_script(rng, db.program, epochs=3, edits=5)
        *_, inputs = replay(db.program, script)
        past = Random(text)
        try:
            for epoch in script:
                with db.transaction() as tx:
                    for sign, name, row in epoch:
                        (tx.insert if sign == "+" else tx.delete)(name, [row])
                if past.random() < 0.3:
                    asked = [(name, db.rows(name)) for name in db.schemas if db.count(name)]
                    for name, rows in asked[:3]:
                        db.why(name, rows[0])
                    db.compact()
        except CyclicDataError:  # an aggregate of a recursion, behind a relation that is inlined
            db.close()
            continue
        return db, inputs


TALL = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.input e, f
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.decl same(x: number, y: number) eqrel
.decl near(x: number, d: number)
.decl dist(x: number, d: number <min>)
.output p, q, same, near, dist
p(x, y) :- e(x, y).
same(x, y) :- f(x, y), x < 3.
near(0, 0).
near(y, d + 1) :- near(x, d), e(x, y).
near(x, d) <= near(x, c) :- c < d.
dist(0, 0).
dist(y, d + 1) :- dist(x, d), q(x, y).
"""
TALL_RULES = [
    "p(x, z) :- p(x, y), e(y, z).", "p(x, z) :- e(x, y), p(y, z).", "p(x, z) :- p(x, y), p(y, z).",
    "p(x, z) :- p(x, y), f(y, z), y != z.", "p(x, z) :- p(x, y), same(y, z).",
    "p(x, y) :- q(y, x).", "q(x, y) :- p(x, y), x <= y.", "q(x, z) :- q(x, y), e(y, z).",
    "q(x, z) :- q(x, y), p(y, z).", "q(x, y) :- f(x, y).", "q(y, x) :- near(x, d), near(y, d).",
]  # fmt: skip


def tall(rng: Random) -> tuple[deltafix.Database, dict]:
    """A database over closures of a long chain with short cuts: proofs are many rules high."""
    db = connect(TALL + "\n".join(rng.sample(TALL_RULES, rng.randint(3, 7))))
    size = rng.randint(8, 14)
    chain = {(x, x + 1) for x in range(size) if rng.random() < 0.97}
    some = {(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randint(1, 4))}
    inputs = {"e": chain | {(x, y) for x, y in some if y <= x + 2}, "f": some}
    with db.transaction() as tx:
        for name, rows in inputs.items():
            tx.insert(name, sorted(rows))
    return db, inputs


JOINING = """
.type Set <: number
.functor g0lub(x: number, y: number): number
.lattice Set<> { Bottom -> 0, Lub -> @g0lub(_, _) }
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.input e, f
.decl p(x: number, y: number)
.decl bits(k: number, v: Set<>)
.decl both(k: number, v: Set<>, w: Set<>)
.decl span(k: number, lo: number <min>, hi: number <max>)
.decl r(x: number, y: number)
.output p, bits, both, span, r
"""
JOINING_GIVEN = ("p", "bits", "both", "span", "r")
JOINING_RULES = [
    "p(x, y) :- e(x, y).", "p(x, z) :- p(x, y), f(y, z).", "p(x, y) :- f(y, x), bits(x, _).",
    "bits(k, as(v, Set)) :- e(k, v).", "bits(k, as(v, Set)) :- p(k, v).",
    "bits(k, as(v, Set)) :- f(k, v), e(v, _).", "bits(l, v) :- bits(k, v), f(k, l).",
    "bits(l, v) :- both(k, v, _), f(k, l).", "both(k, v, as(1, Set)) :- bits(k, v).",
    "both(k, as(v, Set), as(w, Set)) :- e(k, v), f(k, w).",
    "both(l, w, v) :- both(k, v, w), f(k, l).",
    "span(k, v, v) :- e(k, v).", "span(k, v, w) :- p(k, v), p(k, w).",
    "span(l, v, w) :- span(k, v, w), f(k, l).", "span(k, v, v) :- bits(k, v).",
    "r(k, v) :- bits(k, v).", "r(v, w) :- both(_, v, w).", "r(v, w) :- span(_, v, w).",
    "r(x, z) :- r(x, y), f(y, z).",
]  # fmt: skip
"""Every rule is monotone, so what some given rows derive, more of them do too."""


def joining(rng: Random) -> tuple[deltafix.Database, dict]:
    """A database over relations that join given rows and those of rules, low and high."""
    given = [name for name in JOINING_GIVEN if rng.random() < 0.5]
    rules = rng.sample(JOINING_RULES, rng.randint(5, len(JOINING_RULES)))
    inputs = "".join(f".input {name}\n" for name in given)
    db = connect(JOINING + inputs + "\n".join(rules))
    present: dict = {"e": set(), "f": set(), **{name: set() for name in given}}
    for _ in range(3):
        with db.transaction() as tx:
            for name, rows in present.items():
                for row in rng.sample(sorted(rows), len(rows) // 3):
                    tx.delete(name, [row])
                    rows.remove(row)
                for _ in range(rng.randint(1, 3)):
                    row = tuple(rng.randrange(5) for _ in db.schemas[name].types)
                    if row not in rows:
                        tx.insert(name, [row])
                        rows.add(row)
    return db, present


def connect(program: str | deltafix.Program) -> deltafix.Database:
    """A database over a program, with the functors and reducers that it may use."""
    text = program if isinstance(program, str) else program.source or ""
    names = re.findall(r"\.functor (\w+lub|half)\b", text)
    reducers = REDUCERS if "@@xor" in text or ".functor xor" in text else {}
    return deltafix.connect(program, functors={n: FUNCTORS[n] for n in names}, reducers=reducers)


def copy_of(db: deltafix.Database, inputs: dict) -> deltafix.Database:
    """A second database over the same program and input facts."""
    again = connect(db.program)
    with again.transaction() as tx:
        for name, rows in inputs.items():
            tx.insert(name, sorted(rows))
    return again


def dressed(rng: Random, program: deltafix.Program, features: frozenset[str]) -> str:
    """The program's text with what `features` adds to it."""
    text = program.source
    assert text is not None
    plain = [r.name for r in program.relations if re.fullmatch(r"r\d[ab]", r.name)]
    if "given" in features:
        for declared in program.relations:
            simple = set(program.column_types(declared.name)) <= {"number", "symbol"}
            if declared.name.startswith("g") and simple and rng.random() < 0.5:
                text += f".input {declared.name}\n"
    if "demand" in features and rng.random() < 0.2:
        # Demand follows outputs: all but some of the highest relations are on demand.
        for name in rng.sample(plain, len(plain) // 2):
            text = text.replace(f".output {name}\n", "")
        text = '.pragma "magic-transform" "*"\n' + text
    if "functors" in features and plain and rng.random() < 0.4:
        name = rng.choice(plain)
        kinds = program.column_types(name)
        if "number" in kinds:
            at = rng.choice([place for place, kind in enumerate(kinds) if kind == "number"])
            atom = f"{name}({', '.join('x' if n == at else '_' for n in range(len(kinds)))})"
            text += ".functor half(x: number): number\n.decl halves(x: number)\n.output halves\n"
            text += f"halves(@half(x) + 1) :- {atom}.\nhalves(y) :- {atom}, y = @half(x), y < 2.\n"
    if "inline" in features and plain and rng.random() < 0.2:
        name = rng.choice(plain)
        text = text.replace(f".output {name}\n", "")
        text = re.sub(rf"(\.decl {name}\([^)]*\))", r"\1 inline", text)
    if "instances" in features and rng.random() < 0.15:
        text = ".comp Part {\n" + text + "}\n.init part = Part\n"
        lifted = re.findall(r"^(?:\.pragma|\.functor|\.lattice) .*\n", text, re.MULTILINE)
        for line in lifted:
            text = text.replace(line, "")
        text = "".join(lifted) + text
    return text


def random_values(rng: Random, types: tuple[str, ...]) -> tuple | None:
    """A row of plain columns; None where a column is a record or a branch."""
    if not set(types) <= {"number", "symbol", "unsigned", "float"}:
        return None
    return tuple(rng.choice("abcd") if kind == "symbol" else rng.randrange(5) for kind in types)


def edited(rng: Random, program: deltafix.Program, present: dict) -> list[tuple[int, str, tuple]]:
    """Some edits of each input relation, made in `present` too."""
    found = []
    for name, rows in present.items():
        for row in rng.sample(sorted(rows), min(2, len(rows))):
            found.append((-1, name, row))
        new = random_values(rng, program.column_types(name))
        if new is not None and new not in rows:
            found.append((1, name, new))
    for sign, name, row in found:
        (present[name].add if sign > 0 else present[name].discard)(row)
    return found
