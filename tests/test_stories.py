"""Every story in `fixtures/incremental`, on every strategy, and before the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.stories import Story, judged, read_stories, show, told

from deltafix import Program

STORIES = read_stories()
STRATEGIES = ("wavefront", "local", "deletes_first", "inserts_first", "dred", "recompute", "auto")


def _lines(changes: list) -> list[list[str]]:
    return [sorted(map(show, change)) for change in changes]


def test_there_are_stories_and_each_says_what_it_is_about() -> None:
    assert len(STORIES) >= 12
    assert [story.name for story in STORIES if not story.about] == []


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_oracle_agrees_with_what_was_derived_by_hand(story: Story) -> None:
    program = Program.parse(story.program)
    assert _lines(judged(program, story.script)) == _lines(list(story.expected))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_epoch_hands_out_the_expected_signed_rows(story: Story, strategy: str) -> None:
    program = Program.parse(story.program)
    assert _lines(told(program, story.script, strategy)) == _lines(list(story.expected))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_split_into_single_edits_ends_in_the_same_place(story: Story) -> None:
    program = Program.parse(story.program)
    single = [[edit] for epoch in story.script for edit in epoch]
    present: set = set()
    for change in told(program, single):
        gone = {edit[1:] for edit in change if edit[0] == "-"}
        present = (present - gone) | {edit[1:] for edit in change if edit[0] == "+"}
    expected: set = set()
    for change in story.expected:
        gone = {edit[1:] for edit in change if edit[0] == "-"}
        expected = (expected - gone) | {edit[1:] for edit in change if edit[0] == "+"}
    assert present == expected


def test_a_story_survives_being_written_and_read(tmp_path: Path) -> None:
    for story in STORIES:
        story.save(tmp_path / story.name)
        assert Story.read(tmp_path / story.name) == story
