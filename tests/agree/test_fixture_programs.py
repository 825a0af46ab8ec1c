"""Every small program with its facts, then under random edits: the engine against the oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.oracle import evaluate
from tests.strategies import random_script
from tests.unit.datalog.test_program_fixtures import PROGRAMS, rows

import deltafix
from deltafix.errors import ProgramError

EPOCHS = 6


def connect(program: deltafix.Program) -> deltafix.Database | None:
    """A database, or None where the planner names a construct that nothing runs yet."""
    try:
        return deltafix.connect(program)
    except ProgramError as refused:
        assert {found.code for found in refused.diagnostics} == {"DF170"}
        return None


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_every_epoch_equals_recomputation(folder: Path) -> None:
    program = deltafix.Program.from_file(folder / "program.dl")
    db = connect(program)
    if db is None:
        return
    given: dict[str, set[tuple]] = {
        file.stem: rows(program, file.stem, file) for file in (folder / "facts").glob("*.facts")
    }
    rng = Random(folder.name)
    script = random_script(rng, program, EPOCHS) if program.names("input") else []
    outputs = program.names("output")
    with db:
        first = [("+", name, row) for name, found in given.items() for row in found]
        given = {name: set() for name in given}
        before = {name: set(db.rows(name)) for name in outputs}
        for epoch in [first, *script]:
            with db.transaction(missing="ignore") as tx:
                for sign, name, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
                    held = given.setdefault(name, set())
                    (held.add if sign == "+" else held.discard)(row)
            db.check_invariants()
            expected = evaluate(program, given)
            for name in outputs:
                assert set(db.rows(name)) == expected[name]
                assert set(tx.delta[name].added) == expected[name] - before[name]
                assert set(tx.delta[name].removed) == before[name] - expected[name]
                before[name] = expected[name]
