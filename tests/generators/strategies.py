"""Random programs and random edit scripts, for hypothesis and for long seeded runs.

One generator serves both: it draws from a `random.Random`, which hypothesis can play (and shrink).
How a program is drawn is the business of `random_rules` and `random_extended`.

A script is a list of epochs; an epoch is a list of `(sign, relation, row)`, sign `+` or `-`. Every
`-` names a row that is there at that moment and every `+` one that is not, so scripts also run
with `missing="error"`. `replay` gives the input facts after each epoch, for the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import xor
from random import Random

from hypothesis import strategies as st
from tests.generators.random_extended import GROUPS
from tests.generators.random_rules import CORNERS, FAR, NUMBERS, SYMBOLS, Generator
from tests.judges.oracle_values import order
from tests.support.amount import FUZZED

from deltafix.datalog.program import Program
from deltafix.plan.ir import Plan
from deltafix.reactive import reducer
from deltafix.rules import whole
from deltafix.rules.whole import MOST

__all__ = [
    "CORE",
    "FEATURES",
    "FOLDS",
    "REDUCERS",
    "is_large",
    "programs",
    "programs_with_scripts",
    "random_program",
    "random_row",
    "random_script",
    "replay",
]

Edit = tuple[str, str, tuple]
Script = list[list[Edit]]

CORE = frozenset(
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

FEATURES = CORE | {
    "floats",
    "founded",
    "range",
    "reducers",
    "repeats",
    "strings",
    "untrue",
    "witnesses",
    "words",
    *GROUPS,
}
"""All of it: also columns and relations that merge or drop rows, constructed values, and negated
comparisons with aggregates."""

REDUCERS = {"xor": reducer(0, lambda acc, v: acc ^ v, lambda acc, v: acc ^ v, name="xor")}
"""What random programs fold with, for `deltafix.connect`."""

FOLDS = {"xor": lambda values: reduce(xor, values, 0)}
"""The same for the oracle."""


def random_program(rng: Random, size: int = 3, features: frozenset[str] = FEATURES) -> Program:
    """A checked program; `size` (1 to about 8) grows relations, strata and rules."""
    return Program.parse(random_text(rng, size, features))


def random_text(rng: Random, size: int = 3, features: frozenset[str] = FEATURES) -> str:
    """The text of one, for who looks at it first: to parse it takes ten times as long.

    In a third of the draws all disjunctions stay whole that can, until the test ends.
    """
    whole.MOST = rng.choice((1, MOST, MOST))
    return Generator(rng, size, features).text()


def is_large(plan: Plan) -> bool:
    """Whether it has more than 500 delta rules, which `make fuzz` alone plays.

    Three programs of forty have, and cost three times the others' time.
    """
    stages = plan.stages
    rules = sum(len(one.lower) + len(one.same) + len(one.rederive) for one in stages)
    return rules > 500 and not FUZZED


def random_row(rng: Random, program: Program, relation: str, far: bool = False) -> tuple:
    """A row that fits the relation: five values a type, and if `far` some numbers far from them."""
    values = {
        "number": lambda: rng.choice(FAR if far and rng.random() < 0.1 else NUMBERS),
        "unsigned": lambda: rng.choice(NUMBERS),
        "float": lambda: (
            rng.choice(NUMBERS) / 2 if rng.random() < 0.7 else rng.choice(CORNERS["float"])
        ),
        "symbol": lambda: rng.choice(SYMBOLS),
    }
    return tuple(values[kind]() for kind in program.column_types(relation))


def random_script(
    rng: Random, program: Program, epochs: int = 6, edits: int = 6, far: bool = False
) -> Script:
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
        first = ("load", "load", "load", "void")
        style = rng.choice(
            ("mixed", "mixed", "trickle", "clear", "wipe", "void") if number else first
        )
        if style == "wipe":  # a relation loses all its rows, and may get others
            name = rng.choice(names)
            for row in sorted(present[name], key=lambda row: tuple(map(order, row))):
                put(epoch, "-", name, row)
            if rng.random() < 0.3:
                put(epoch, "+", name, random_row(rng, program, name, far))
            script.append(epoch)
            continue
        count = rng.randint(0, 3 * edits) if style == "load" else rng.randint(1, edits)
        for _ in range(count):
            name = rng.choice(names)
            if style == "void":  # what comes goes again in the epoch: nothing has changed
                row = random_row(rng, program, name, far)
                if row not in present[name]:
                    put(epoch, "+", name, row)
                    put(epoch, "-", name, row)
                continue
            gone = sorted(present[name], key=lambda row: tuple(map(order, row)))
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
                put(epoch, "+", name, random_row(rng, program, name, far))
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
