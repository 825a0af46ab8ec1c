"""`deltafix check-reducer` and the pytest plugin: exit codes, sentences, bad input."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from deltafix.cli.main import main

pytest_plugins = ["pytester"]

MODULE = """
from deltafix.reactive import Sum, WellFormed, reducer

total = Sum()
least = reducer(10, min, lambda acc, value: acc, name="least")
least_again = reducer(
    10, min, lambda acc, value: None if value == acc else acc, partial=True, name="least_again"
)
amount = Sum("amount")
number = 3


class Longest(WellFormed):
    initial = 0
    examples = ("a", "bb")

    def add(self, acc, value):
        return acc + len(value)

    def remove(self, acc, value):
        return acc - len(value)


def needs(argument):
    return argument
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "shop_reducers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _run(capsys, *words):
    with pytest.raises(SystemExit) as exit_:
        main(["check-reducer", *words])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def test_sound_reducers_pass_with_exit_code_0(folder, capsys):
    code, out, _ = _run(
        capsys, "shop_reducers:total", "shop_reducers:least_again", "shop_reducers:Longest"
    )
    assert code == 0
    assert out.count("6 laws hold") == 3
    assert "recomputations asked for" in out


def test_a_broken_reducer_is_said_in_a_sentence_with_exit_code_1(folder, capsys):
    code, out, err = _run(capsys, "shop_reducers:least", "--values", "[3, 5]")
    assert code == 1
    assert "after adding 3, removing 3 leaves 3; recomputing gives 10" in out
    assert err == ""


def test_values_come_from_json_objects_as_named_tuples(folder, capsys):
    values = '[{"amount": 3, "tags": ["a"]}, {"amount": 5, "tags": []}]'
    assert _run(capsys, "shop_reducers:amount", "--values", values)[0] == 0
    assert _run(capsys, "shop_reducers:total", "--type", "float", "--cases", "5")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shop_reducers"], "module:name"),
        (["no_such_module:total"], "cannot import 'no_such_module'"),
        (["shop_reducers:totl"], "reducers in it: total, least"),
        (["shop_reducers:number"], "is int, not a reducer"),
        (["shop_reducers:needs"], "is a function, not a reducer; deltafix.reactive.reducer("),
        (["shop_reducers.py:total"], "is named: write shop_reducers:total"),
        (["shop/reducers.py:total"], "is named: write shop.reducers:total"),
        (["shop_reducers:total", "--values", "[3"], "not JSON"),
        (["shop_reducers:total", "--values", "3"], "JSON list of at least one value, not 3; write"),
        (
            ["shop_reducers:total", "--values", "3,5"],
            "not JSON: Extra data: line 1 column 2 (char 1); write '[3, 5]'",
        ),
        (["shop_reducers:total", "--values", '[{"a b": 1}]'], "--values"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(folder, capsys, words, says):
    code, _, err = _run(capsys, *words)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


@pytest.fixture
def installed(pytester, monkeypatch):
    """A folder with the project's entry points, as installing it writes them."""
    root = Path(__file__).parents[3]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, points in declared.items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    about = pytester.mkdir("site") / "deltafix_as_declared-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: deltafix-as-declared\nVersion: 0\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(about.parent), str(root / "src"))))


def test_once_installed_pytest_has_the_fixture_and_collects_the_ini_option(pytester, installed):
    pytester.makepyfile(shop_reducers=MODULE)
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\n"
        "deltafix_reducers =\n    shop_reducers:total\n    shop_reducers:least"
    )
    pytester.makepyfile(
        test_shop="""
        from shop_reducers import least, total

        def test_total(check_reducer):
            assert check_reducer(total, [3, 5], cases=5).cases > 0

        def test_least(check_reducer):
            check_reducer(least, [3, 5])
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*after adding 3, removing 3 leaves 3; recomputing gives 10*"])
    result.stdout.fnmatch_lines(["*after adding 0, removing 0 leaves 0; recomputing gives 10*"])


def test_a_reducer_that_is_not_there_fails_its_item_alone(pytester, installed):
    pytester.makeini("[pytest]\ndeltafix_reducers = no_such_module:total")
    pytester.makepyfile("def test_other():\n    pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*cannot import 'no_such_module'*"])


def test_the_plugin_can_be_left_out(pytester, installed):
    pytester.makepyfile("def test_it(check_reducer):\n    pass")
    result = pytester.runpytest_subprocess("-p", "no:deltafix")
    result.assert_outcomes(errors=1)
