"""agree_*: the engine on every program of the fixtures, as given and under random edits.

Sees: constructs that the engine reads differently from the oracle, and derived rows that do not
follow their facts. The rows an edit makes up are mixed from the values that the facts have.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
from tests.judges.oracle import evaluate
from tests.support.fixture_rows import kinds_of, least, read_rows

import deltafix
from deltafix.datalog.program import Program
from deltafix.kernel.jit import JIT_DISABLED

PROGRAMS = sorted((Path(__file__).parents[1] / "fixtures" / "programs").iterdir())
EPOCHS = 3 if JIT_DISABLED else 12


def given(program: Program, folder: Path) -> dict[str, set[tuple]]:
    """The facts of a fixture, by relation."""
    files = (folder / "facts").glob("*.facts")
    return {file.stem: read_rows(program, file.stem, file) for file in files}


def made_up(rng: Random, program: Program, name: str, facts: dict[str, set[tuple]]) -> tuple:
    """A row of values that the facts have somewhere, or small ones."""
    pools: dict[str, list] = {
        "number": [0, 1, 2],
        "unsigned": [0, 1],
        "float": [0.5, math.nan],
        "symbol": ["z"],
    }
    for relation, rows in facts.items():
        for row in sorted(rows, key=repr):
            for kind, value in zip(kinds_of(program, relation), row, strict=True):
                pools.setdefault(kind, [value]).append(value)
    return tuple(
        rng.choice(pools.get(kind) or [least(program, kind)]) for kind in kinds_of(program, name)
    )


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_agree_fixture_program_under_edits(folder: Path) -> None:
    program = Program.from_file(folder / "program.dl")
    plain = folder / "plain.dl"  # the same for the oracle, where hints are needed for a meaning
    judge = Program.from_file(plain) if plain.exists() else program
    facts = given(program, folder)
    rng = Random(folder.name)
    inputs = [name for name in program.names("input") if name in facts]
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            for name, rows in facts.items():
                tx.insert(name, sorted(rows, key=repr))
        for _ in range(EPOCHS):
            expected = evaluate(judge, facts)
            db.check_invariants()
            for name in db.schemas:
                assert set(db.rows(name)) == expected[name], name
            if not inputs:
                break
            before = {name: set(db.rows(name)) for name in db.schemas}
            with db.transaction() as tx:
                for _ in range(rng.choice([1, 1, 2, 4])):
                    name = rng.choice(inputs)
                    if facts[name] and rng.random() < 0.5:
                        row = rng.choice(sorted(facts[name], key=repr))
                        facts[name].remove(row)
                        tx.delete(name, [row])
                    else:
                        row = made_up(rng, program, name, facts)
                        facts[name].add(row)
                        tx.insert(name, [row])
            for name in db.schemas:
                now = set(db.rows(name))
                assert set(tx.delta[name].added) == now - before[name]
                assert set(tx.delta[name].removed) == before[name] - now
