"""Broken programs with the whole text of what deltafix says about them.

Each `tests/fixtures/errors/<name>.dl` has a sibling `<name>.expected`: position, message, source
line, caret, and what would be valid.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError
from deltafix.plan.build import analysed

FOLDER = Path(__file__).parents[2] / "fixtures" / "errors"
BROKEN = sorted(FOLDER.glob("*.dl"))


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_a_broken_program_is_explained(file: Path) -> None:
    shown = analysed(analyse(file.read_bytes(), str(file))).render().replace(f"{FOLDER}/", "")
    assert f"{shown}\n" == file.with_suffix(".expected").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_every_finding_has_a_code_and_a_place_inside_its_text(file: Path) -> None:
    found = analysed(analyse(file.read_bytes(), str(file)))
    assert found.diagnostics
    for item in found.diagnostics:
        assert re.fullmatch(r"DF1\d\d", item.code)
        assert item.span is not None
        text = found.sources[item.span.path]
        assert 1 <= item.span.line <= text.count("\n") + 1
        assert 0 <= item.span.start <= item.span.end <= len(text) + 1


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_errors_refuse_the_program_and_warnings_do_not(file: Path) -> None:
    found = analyse(file.read_bytes(), str(file))
    if found.errors:
        with pytest.raises(ProgramError) as caught:
            Program.from_file(file)
        assert caught.value.diagnostics == found.errors
        assert found.errors[0].message in str(caught.value)
    else:
        assert Program.from_file(file).warnings == found.warnings


def test_the_corpus_covers_every_code_of_a_program_text() -> None:
    codes = {
        code
        for file in BROKEN
        for code in re.findall(
            r"\[(DF\d+)\]", file.with_suffix(".expected").read_text(encoding="utf-8")
        )
    }
    expected = {101, 102, 103, 104, 106, 107, *range(110, 116), 120, 121, *range(130, 134), 140}
    expected |= {*range(150, 161), *range(180, 185)} - {152}
    assert {f"DF{n}" for n in expected} <= codes


def test_of_thousands_of_errors_twenty_are_drawn() -> None:
    found = analysed(analyse("no such clause.\n" * 50, "data.csv"))
    assert len(found.diagnostics) == 50
    assert found.render().count("error[") == 20
    assert found.render().endswith("\n\nand 30 more")
