"""The long random run: repeatable, sees a wrong engine, and shrinks what it sees into a story."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import fuzz
from tests.support import stories

FEATURES = fuzz.strategies.FEATURES - {"aggregates", "groups"}


def _forgets_deletes(program: object, script: object, strategy: str) -> list:
    """An engine with a fault: it never takes anything away."""
    kept = [[edit for edit in epoch if edit[0] == "+"] for epoch in script]
    return stories.judged(program, kept)


def test_a_seed_decides_program_and_script() -> None:
    assert fuzz.case_of(7) == fuzz.case_of(7)
    assert fuzz.case_of(7) != fuzz.case_of(8)


def test_no_difference_on_a_few_seeds() -> None:
    played = 0
    for seed in range(100, 104):
        case = fuzz.case_of(seed, FEATURES)
        assert fuzz.trial(case, "wavefront") is None
        played += len(case.script)
    assert played >= 20


def test_a_wrong_engine_is_seen_shrunk_and_saved_as_a_story(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stories, "told", _forgets_deletes)
    monkeypatch.setattr(stories, "FOLDER", tmp_path)
    features = ("--without", *sorted(fuzz.strategies.FEATURES - fuzz.strategies.CORE), "groups")
    limits = ("--failures", "1", "--strategies", "wavefront")
    code = fuzz.main(["--seed", "100", *limits, *features])
    assert code == 1
    assert "difference" in capsys.readouterr().out
    (saved,) = tmp_path.iterdir()
    story = stories.Story.read(saved)
    # What is left is a row put in and taken out again, and the rule that showed it.
    assert sum(map(len, story.script)) <= 3
    assert len([line for line in story.program.splitlines() if ":-" in line]) <= 2
    assert any(sign == "-" for epoch in story.script for sign, _, _ in epoch)


def test_a_script_stays_valid_when_its_first_edits_are_dropped() -> None:
    script = ((("-", "e", (1,)),), (("+", "e", (1,)), ("+", "e", (1,))), (("-", "e", (1,)),))
    assert fuzz._valid(script) == ((), (("+", "e", (1,)),), (("-", "e", (1,)),))


def test_an_unknown_strategy_is_a_wrong_command_line() -> None:
    with pytest.raises(SystemExit) as stopped:
        fuzz.main(["--strategies", "magic"])
    assert stopped.value.code == 2


def test_the_net_change_of_a_row_that_went_and_came_back_is_nothing() -> None:
    row, other = ("a", (1,)), ("a", (2,))
    changes = [frozenset({("-", *row), ("+", *other)}), frozenset({("+", *row)})]
    assert fuzz._sum(changes) == {other: 1}


def test_an_oracle_that_raises_is_a_failure_with_its_seed_and_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(*_: object) -> list:
        raise ValueError("no order for this")

    monkeypatch.setattr(stories, "judged", raises)
    assert fuzz.main(["--seed", "100", "--failures", "2", "--minutes", "1"]) == 1
    said = capsys.readouterr().out
    assert "seed 101: the oracle raised ValueError: no order for this" in said
    assert fuzz.case_of(100).program in said
