"""README's moving picture shows what the command prints: the session is played again here."""

from __future__ import annotations

import importlib.util
import re
from html import unescape
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("recording", _ROOT / "scripts/recording/__main__.py")
assert _SPEC is not None
assert _SPEC.loader is not None
recording = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(recording)


@pytest.fixture(scope="module")
def steps():
    return recording.played()


def texts(picture):
    """Row by row what the picture shows when it rests."""
    return [unescape(text) for text in re.findall(r"<text [^>]*>([^<]*)</text>", picture)]


def test_the_picture_is_what_the_commands_print_now(steps):
    picture, _ = recording.drawn(steps)
    assert recording.PICTURE.read_text(encoding="utf-8") == picture, "make recording draws it again"


def test_it_shows_every_line_that_was_printed_and_no_other(steps):
    printed = []
    for command, shown in steps:
        printed += [f"$ {command}", *filter(None, shown)]
    assert texts(recording.PICTURE.read_text(encoding="utf-8")) == printed


def test_it_begins_with_something_to_see_and_rests_within_half_a_minute(steps):
    picture, seconds = recording.drawn(steps)
    at_once = [line for line in picture.splitlines() if "<text" in line and "--at" not in line]
    assert len(at_once) > 10
    assert 10 < seconds <= 30
    assert all(len(line) <= recording.COLUMNS for line in texts(picture))
    assert len(picture) < 20_000


def test_both_front_pages_show_it_with_the_words_of_its_title():
    title = re.search(r"<title[^>]*>([^<]*)<", recording.PICTURE.read_text(encoding="utf-8"))[1]
    for page, path in (("README.md", "docs/images"), ("docs/index.md", "images")):
        assert f"![{title}]({path}/session.svg)" in (_ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("program", ["print('\\x1b[1mbold')", "print('x' * 91)"])
def test_what_cannot_be_drawn_is_no_picture(tmp_path, program):
    command = f'python -c "{program}"'
    with pytest.raises(RuntimeError, match="not drawn here"):
        recording.drawn([recording.Step(command, recording._shown(command, tmp_path))])


def test_a_command_that_fails_is_no_picture(tmp_path):
    with pytest.raises(RuntimeError, match="failed"):
        recording._shown('python -c "raise SystemExit(3)"', tmp_path)
