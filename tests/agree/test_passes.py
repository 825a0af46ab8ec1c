"""Hinted programs under edits: what runs after inlining and magic sets against the oracle.

The oracle evaluates the program as it is written; it knows nothing of the hints.
"""

from __future__ import annotations

import re
from random import Random

import pytest
from tests.generators.strategies import CORE, random_program, random_script, replay
from tests.judges.oracle import evaluate

import deltafix
from deltafix.errors import ProgramError
from deltafix.kernel.jit import JIT_DISABLED

POSITIVE = CORE - {"negation", "groups", "aggregates"}
PROGRAMS = 3 if JIT_DISABLED else 50


def hinted(rng: Random, word: str) -> str:
    """A random program, most of its derived relations hinted, and one question with a constant."""
    while True:
        program = random_program(rng, rng.randint(1, 6), rng.choice([CORE, POSITIVE]))
        given = program.names("input")
        derived = [r.name for r in program.relations if r.name[0] == "r" and r.name not in given]
        if derived:
            break
    hidden = [name for name in derived if rng.random() < 0.8]
    lines = []
    for line in (program.source or "").splitlines():
        about = re.match(r"\.(\w+) (\w+)", line)
        if about and about[2] in hidden and about[1] == "output":
            continue
        declares = about and about[2] in hidden and about[1] == "decl"
        lines.append(line.replace(")", f") {word}", 1) if declares else line)
    asked = program.relation(rng.choice(derived))
    kinds = program.column_types(asked.name)
    names = [f"x{i}" for i, _ in enumerate(kinds)]
    columns = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    at = rng.randrange(len(kinds))
    test = f'x{at} = "a"' if kinds[at] == "symbol" else f"x{at} = 1"
    lines.append(f".decl q({columns})\n.output q")
    lines.append(f"q({', '.join(names)}) :- {asked.name}({', '.join(names)}), {test}.")
    return "\n".join(lines)


def connect(text: str) -> deltafix.Database | None:
    """The database, or None where a hint is refused by name."""
    try:
        return deltafix.connect(text)
    except ProgramError as refused:
        assert {found.code for found in refused.diagnostics} <= {"DF184", "DF171"}
        return None


@pytest.mark.parametrize("word", ["inline", "magic"])
def test_every_epoch_equals_recomputation_of_the_unhinted_program(word: str) -> None:
    rng = Random(f"passes {word}")
    changed = 0
    for _ in range(PROGRAMS):
        db = connect(hinted(rng, word))
        if db is None:
            continue
        names = db.program.names("output")
        declared = {relation.name for relation in db.program.relations}
        changed += set(db.schemas) != declared
        script = random_script(rng, db.program, epochs=5)
        with db:
            before = {name: set(db.rows(name)) for name in names}
            for epoch, inputs in zip(script, replay(db.program, script), strict=True):
                with db.transaction() as tx:
                    for sign, name, row in epoch:
                        (tx.insert if sign == "+" else tx.delete)(name, [row])
                db.check_invariants()
                expected = evaluate(db.program, inputs)
                assert set(tx.delta) <= declared
                for name in names:
                    assert set(db.rows(name)) == expected[name], db.program.source
                    assert set(tx.delta[name].added) == expected[name] - before[name]
                    assert set(tx.delta[name].removed) == before[name] - expected[name]
                    before[name] = expected[name]
    assert changed >= PROGRAMS // 5
