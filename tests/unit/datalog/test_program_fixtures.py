"""Small programs with facts and hand-derived expected rows: the oracle must agree with the hand.

Each folder of `tests/fixtures/programs` holds `program.dl`, `facts/<relation>.facts` and
`expected/<relation>.csv`, tab-separated; a nullary relation's row is `()`. Where a program needs
a transformation to have a meaning (an inline relation that only tests), `plain.dl` says the same
without it, for the oracle.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.judges.oracle import evaluate
from tests.support.fixture_rows import read_rows

from deltafix.datalog.format import format_program
from deltafix.datalog.program import Program

PROGRAMS = sorted((Path(__file__).parents[2] / "fixtures" / "programs").iterdir())


def plain_program(folder: Path) -> Program:
    """The program as the oracle reads it."""
    plain = folder / "plain.dl"
    return Program.from_file(plain if plain.exists() else folder / "program.dl")


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 40


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_oracle_agrees_with_the_hand_derived_rows(folder: Path) -> None:
    program = Program.from_file(folder / "program.dl")
    inputs, expected = (
        {file.stem: read_rows(program, file.stem, file) for file in folder.glob(files)}
        for files in ("facts/*.facts", "expected/*.csv")
    )
    assert set(expected) == set(program.names("output"))
    found = evaluate(plain_program(folder), inputs)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_a_program_survives_show_and_format(folder: Path) -> None:
    text = (folder / "program.dl").read_text(encoding="utf-8")
    program = Program.parse(text)
    assert Program.parse(program.show()) == program
    assert Program.parse(format_program(text)) == program
