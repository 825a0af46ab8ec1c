"""`deltafix fmt`: in place, as a filter, as a check; broken programs stay as they are."""

from __future__ import annotations

from io import StringIO

import pytest

UGLY = ".decl a( x:number )\n// kept\na( 1 ).a(2).\n"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "p.dl"
    path.write_text(UGLY)
    return path


def test_a_program_is_laid_out_in_place_and_then_stays(deltafix, program):
    first = deltafix("fmt", program)
    laid_out = program.read_text()
    second = deltafix("fmt", program)
    assert (first.code, second.code, second.err) == (0, 0, "")
    assert "p.dl: laid out anew" in first.err
    assert laid_out != UGLY
    assert "// kept" in laid_out
    assert program.read_text() == laid_out


def test_check_changes_nothing_and_answers_by_exit_code(deltafix, program):
    assert deltafix("fmt", "--check", program).code == 1
    assert program.read_text() == UGLY
    deltafix("fmt", program, "-q")
    assert deltafix("fmt", "--check", program) == (0, "", "")


def test_standard_input_to_standard_output(deltafix, program, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO(UGLY))
    shown = deltafix("fmt", "-")
    deltafix("fmt", program, "-q")
    assert shown == (0, program.read_text(), "")


@pytest.mark.parametrize("broken", [b"a(x.\n", b'a("\xff").\n'])
def test_a_program_with_errors_is_left_alone(deltafix, program, broken):
    program.write_bytes(broken)
    ended = deltafix("fmt", program)
    assert (ended.code, ended.out) == (2, "")
    assert "p.dl:1:" in ended.err
    assert program.read_bytes() == broken
