"""The demo on a small installed package: it checks itself, this checks that it does."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[3] / "examples" / "dead-code" / "demo.py"


def test_the_demo_ends_with_views_that_equal_a_recomputation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["demo.py", "--local", "--package", "typer"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(DEMO), run_name="__main__")
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert "its call in" in printed
    assert "became dead" in printed
    assert printed.count(" touched, ") == 2
    assert "The updated views equal the recomputation, row for row: live, dead, sure." in printed


def test_the_demo_says_when_the_package_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["demo.py", "--local", "--package", "no_such_package_here"])
    with pytest.raises(SystemExit, match="no_such_package_here is not an installed package"):
        runpy.run_path(str(DEMO), run_name="__main__")
