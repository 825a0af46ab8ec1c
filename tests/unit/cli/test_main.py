"""Dispatch and exit codes: one message for what a user can mend, another for a bug of ours."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from deltafix.cli import main as cli
from deltafix.errors import BudgetError, InternalError


def raising(monkeypatch, error):
    def command() -> None:
        """Fail."""
        raise error

    monkeypatch.setattr("deltafix.cli.versions.show_versions", command)


def test_every_command_exists_and_says_what_it_does():
    for command in cli.COMMANDS:
        function = getattr(import_module(command.module), command.function)
        assert function.__doc__, command.name


def test_version(deltafix):
    assert deltafix("--version") == (0, f"deltafix {version('deltafix')}\n", "")


def test_no_arguments_and_help_list_the_commands(deltafix):
    for arguments in ([], ["--help"]):
        shown = deltafix(*arguments)
        assert all(command.name in shown.out + shown.err for command in cli.COMMANDS)


def test_help_names_values_by_what_they_are_and_no_types_of_python(deltafix, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def shown(command, *path):
        yield path, deltafix(*path, "--help").out
        for name, one in getattr(command, "commands", {}).items():
            yield from shown(one, *path, name)

    pages = dict(shown(cli.application()))
    assert len(pages) > len(cli.COMMANDS)
    kind = re.compile(
        r"<(?:bool|int|float|str|path)(?: range)?>|list\[|\b(?:INTEGER|FLOAT|BOOLEAN)\b"
    )
    odd = {path: kind.findall(page) for path, page in pages.items() if kind.search(page)}
    assert odd == {}
    assert "--timeout             SECONDS [x>=0]" in re.sub(" {2,}(?=SEC)", " " * 13, pages["run",])


def test_an_unknown_command_or_option_is_an_error_of_the_user(deltafix):
    assert deltafix("runn").code == 2
    assert deltafix("run", "--nope").code == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["run", "x.dl", "--max-rows", "0"],
            "'--max-rows': '0' should be greater than or equal to 1",
        ),
        (["run", "x.dl", "--max-rows", "x"], "'--max-rows': 'x' should be a valid integer"),
        (["dead-code", ".", "--confidence", "maybe"], "'maybe' is not one of 'sure', 'likely'"),
        (["pipeline", "rnu"], "No such command 'rnu'. Did you mean 'run'?"),
        (["pipeline", "run", "x.toml", "--evry", "1s"], "(Possible options: --every)"),
        (["--verison"], "(Possible options: --version)"),
        (["callers", "main"], "no command 'callers'; did you mean `deltafix ask callers`?"),
    ],
)
def test_a_refused_word_of_a_command_line_is_named_with_what_is_meant(deltafix, given, said):
    ended = deltafix(*given)
    words = " ".join(ended.err.replace("│", " ").split())
    assert (ended.code, said in words, "Value error" in words) == (2, True, False), words


ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "pyproject.toml"
OTHERS = {"history.py", "java.py"}  # these call git and java
OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])")
COMMAND = re.compile(r"\bdeltafix (?P<name>(?:(?:ask|pipeline|rights) )?[a-z-]+)(?P<rest>[^`|#]*)")


def options(command, path=""):
    """Each command by its name, with the options that it takes."""
    if path:
        own = (name for one in command.params for name in one.opts + one.secondary_opts)
        yield path, {"--help", "--debug", *own}
    for name, one in getattr(command, "commands", {}).items():
        yield from options(one, f"{path} {name}".strip())


def test_no_message_and_no_page_names_an_option_that_there_is_not():
    taken = dict(options(cli.application()))
    known = set().union(*taken.values(), {"--version"})
    texts = [
        (f"{path.name}:{node.lineno}", node.value)
        for path in (ROOT / "src").rglob("*.py")
        if path.name not in OTHERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    wrong = [(place, one) for place, text in texts for one in OPTION.findall(text)
             if one not in known and not place.startswith("dbt.py")]  # fmt: skip
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    texts += [(path.name, line) for path in pages for line in path.read_text().splitlines()]
    named = [
        (place, found["name"], one)
        for place, text in texts
        for line in text.splitlines()
        for found in COMMAND.finditer(line)
        if found["name"] in taken
        for one in OPTION.findall(found["rest"])
    ]
    assert len(named) > 50
    assert wrong + [one for one in named if one[2] not in taken[one[1]]] == []


def test_show_versions_names_what_a_bug_report_needs(deltafix):
    shown = deltafix("show-versions")
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    wanted = {re.match(r"[\w.-]+", one)[0] for some in extras.values() for one in some}
    listed = {line.split()[0] for line in shown[1].splitlines()}
    assert {"python", "platform", "java", "llvmlite", *wanted} <= listed
    assert shown.code == 0
    names = [line.split()[0] for line in shown.out.splitlines()]
    assert {"python", "platform", "deltafix", "numba", "pyarrow", "pyspark"} <= set(names)


def test_show_versions_names_the_java_that_spark_would_be_started_with(
    deltafix, monkeypatch, tmp_path
):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"' >&2\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert re.search(rf"^java +21 \({java}\)$", deltafix("show-versions").out, re.MULTILINE)
    java.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert re.search(
        r"^java +(\d+ \(|.*bin/java does not run)", deltafix("show-versions").out, re.M
    )


def test_an_error_raised_on_purpose_is_one_message_and_code_2(deltafix, monkeypatch):
    raising(monkeypatch, BudgetError("over max_rows=10"))
    assert deltafix("show-versions") == (2, "", "error[DF410]: over max_rows=10\n")


def test_a_broken_invariant_of_ours_is_code_70(deltafix, monkeypatch):
    raising(monkeypatch, InternalError("stage plan: no index"))
    assert deltafix("show-versions") == (70, "", "error[DF900]: stage plan: no index\n")


def test_an_unexpected_exception_is_short_and_says_how_to_see_more(deltafix, monkeypatch):
    raising(monkeypatch, ZeroDivisionError("oops"))
    ended = deltafix("show-versions")
    assert (ended.code, ended.out) == (70, "")
    assert ended.err.splitlines()[0] == "error: deltafix failed: ZeroDivisionError: oops"
    assert "--debug" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), BudgetError("over")])
def test_debug_lets_the_exception_through_wherever_it_stands(monkeypatch, error):
    raising(monkeypatch, error)
    for arguments in (["--debug", "show-versions"], ["show-versions", "--debug"]):
        with pytest.raises(type(error)):
            cli.main(arguments)


def test_an_interrupt_is_code_130_without_a_traceback(deltafix, monkeypatch):
    raising(monkeypatch, KeyboardInterrupt())
    ended = deltafix("show-versions")
    assert (ended.code, ended.out, ended.err) == (130, "", "interrupted\n")
