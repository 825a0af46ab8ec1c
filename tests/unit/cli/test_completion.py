"""What Tab offers, asked as bash, zsh and fish ask: through the environment."""

from __future__ import annotations

import re

import pytest

from deltafix.analyses.registry import ANALYSES
from deltafix.cli.main import COMMANDS

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
.decl pair(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
#ifdef MORE
.decl place(x: symbol)
#endif
"""


def bash(monkeypatch, line):
    words = line.split(" ")
    monkeypatch.setenv("_DELTAFIX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return lambda out: out.split()


def zsh(monkeypatch, line):
    monkeypatch.setenv("_DELTAFIX_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    return lambda out: re.findall(r'(?:\(\(|\n)"([^"]*)"', out)


def fish(monkeypatch, line):
    monkeypatch.setenv("_DELTAFIX_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    return lambda out: [offered.partition("\t")[0] for offered in out.splitlines() if offered]


@pytest.fixture(params=[bash, zsh, fish])
def offered(request, deltafix, monkeypatch, tmp_path):
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "bad.dl").write_text(".decl (")
    monkeypatch.chdir(tmp_path)

    def ask(line):
        read = request.param(monkeypatch, line)
        ended = deltafix()
        assert (ended.code, ended.err) == (0, "")
        return read(ended.out)

    return ask


def test_commands_are_offered(offered):
    assert set(offered("deltafix ")) == {command.name for command in COMMANDS}
    assert offered("deltafix why") == ["why", "why-not"]
    assert offered("deltafix pipeline c") == ["check", "compact"]


def test_options_and_choices_are_offered(offered):
    bounds = ["--max-rows", "--max-rounds", "--max-recursion"]
    assert offered("deltafix run p.dl --max-r") == bounds
    assert offered("deltafix sql --dialect p") == ["postgres"]


def test_analyses_are_offered(offered):
    assert offered("deltafix analyse ") == list(ANALYSES)
    assert offered("deltafix churn . a..b --analysis c") == ["call-graph", "c-points-to"]


def test_relations_of_the_program_on_the_line_are_offered(offered):
    assert offered("deltafix watch p.dl -r ") == ["edge", "path", "pair"]
    assert offered("deltafix watch p.dl --relation edge -r pa") == ["path", "pair"]
    assert offered("deltafix watch -M MORE p.dl -r p") == ["path", "pair", "place"]


def test_relations_of_the_analysis_on_the_line_are_offered(offered):
    assert {"alive", "alias"} <= set(offered("deltafix analyse dead-code src --view al"))
    assert offered("deltafix analyse dead-code --view aliv") == ["alive"]


@pytest.mark.parametrize(
    "line",
    [
        "deltafix watch -r ",
        "deltafix watch absent.dl -r ",
        "deltafix watch bad.dl -r ",
        "deltafix watch . -r ",
        "deltafix analyse --view ",
        "deltafix analyse nonsense --view ",
    ],
)
def test_what_cannot_be_read_offers_nothing_and_says_nothing(offered, line):
    assert offered(line) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_for_this_command(deltafix, monkeypatch, shell):
    monkeypatch.setenv("_DELTAFIX_COMPLETE", f"source_{shell}")
    ended = deltafix()
    assert (ended.code, ended.err) == (0, "")
    assert f"_DELTAFIX_COMPLETE=complete_{shell}" in ended.out


def test_the_options_that_install_it_are_told(deltafix):
    shown = deltafix("--help").out
    assert "--install-completion" in shown
    assert "--show-completion" in shown
