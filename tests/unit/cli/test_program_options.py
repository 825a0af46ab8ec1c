"""`--functors` and `--word-size`, on every command that opens a program.

Sees: a function that is not called, a name taken that the program does not declare, a traceback
for a bad file, and a command that forgets either option.
"""

from __future__ import annotations

import json
from io import StringIO

import pytest

PROGRAM = """\
.functor half(x: number): number
.functor spread(x: number): number
.decl n(x: number)
.input n
.decl out(x: number)
.output out
.decl wide(x: number)
.output wide
out(@half(x)) :- n(x).
wide(d) :- d = @@spread x : { n(x) }.
"""
FUNCTIONS = """\
from deltafix.reactive import Max, Min, enriched, product

def half(x):
    return x // 2

spread = enriched(product(Min(), Max()), lambda ends: ends[1] - ends[0])
"""
WRAPS = ".decl n(x: number)\n.output n\nn(2147483647 + 1).\n"
BAD = {
    "missing": (None, "error[DF300]", "no such file; name a Python file"),
    "another name": ("def halve(x): return x", "error[DF430]", "did you mean 'halve'?"),
    "nothing": ("", "error[DF430]", "calls as @half(x: number); it defines: nothing"),
    "arity": (FUNCTIONS.replace("(x)", "(x, y)"), "error[DF430]", "does not fit"),
    "no function": (FUNCTIONS + "half = 3\n", "error[DF430]", "wants a function, not 3"),
    "fails": ("1 / 0\n", "error[DF430]", "failed when it was run: ZeroDivisionError"),
    "leaves": ("raise SystemExit(0)\n", "error[DF430]", "failed when it was run: SystemExit"),
    "a function": (
        "def half(x): return x\nspread = lambda v: 3\n",
        "error[DF602]",
        "'spread' is a function, not a reducer; deltafix.reactive.reducer(initial, add",
    ),
    "no reducer": ("def half(x): return x\nspread = 3\n", "error[DF602]", "is int, not a reducer"),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "wraps.dl").write_text(WRAPS)
    (tmp_path / "udf.py").write_text(FUNCTIONS)
    (tmp_path / "n.facts").write_text("3\n8\n")
    return tmp_path


def test_run_calls_the_functions_and_folds_with_the_reducers_of_the_file(deltafix, folder):
    ended = deltafix(
        "run", folder / "p.dl", "-F", folder, "-D", folder, "--functors", folder / "udf.py", "-q"
    )
    assert ended == (0, "", "")
    assert (folder / "out.csv").read_text() == "1\n4\n"
    assert (folder / "wide.csv").read_text() == "5\n"


def test_without_the_option_no_file_is_run(deltafix, folder):
    ended = deltafix("run", folder / "p.dl", "-F", folder, "-D", folder / "out", "-q")
    assert (ended.code, ended.out) == (2, "")
    assert "the program calls @half" in ended.err
    assert "--functors FILE.py" in ended.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_message_and_exit_code_two(deltafix, folder, name):
    text, code, wanted = BAD[name]
    file = folder / "bad.py"
    if text is not None:
        file.write_text(text)
    ended = deltafix("check", folder / "p.dl", "--functors", file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(code)
    assert wanted in ended.err
    assert len(ended.err.splitlines()) == 1


def test_every_command_that_opens_a_program_takes_the_file(deltafix, folder, monkeypatch):
    program, given = folder / "p.dl", ("-F", folder, "--functors", folder / "udf.py", "-q")
    assert "ok:" in deltafix("check", program, "--functors", folder / "udf.py").out
    assert "@half(3) = 1" in deltafix("why", program, "out(1)", *given).out
    assert "out(7)" in deltafix("why-not", program, "out(7)", *given).out
    shown = deltafix("plan", program, *given, "--format", "json")
    assert shown.code == 0
    assert "out" in json.dumps(json.loads(shown.out))
    monkeypatch.setattr("sys.stdin", StringIO("+n(100)\ncommit\n? out(x)\n"))
    assert "out(50)" in deltafix("shell", program, *given).out


@pytest.mark.parametrize(("size", "row"), [("32", "-2147483648"), ("64", "2147483648")])
def test_word_size_says_where_arithmetic_wraps_around(deltafix, folder, monkeypatch, size, row):
    program, option = folder / "wraps.dl", ("--word-size", size)
    assert deltafix("run", program, "-D", folder, "-q", *option).code == 0
    assert (folder / "n.csv").read_text() == f"{row}\n"
    assert deltafix("check", program, *option).code == 0
    assert deltafix("plan", program, *option).code == 0
    assert f"n({row})" in deltafix("why", program, f"n({row})", *option, "-q").out
    monkeypatch.setattr("sys.stdin", StringIO(".rows n\n"))
    assert f"n({row})" in deltafix("shell", program, *option, "-q").out


def test_word_size_goes_before_the_pragma_and_takes_two_values(deltafix, folder):
    (folder / "wraps.dl").write_text('.pragma "word-size" "32"\n' + WRAPS)
    assert deltafix("run", folder / "wraps.dl", "-D", folder, "--word-size", "64").code == 0
    assert (folder / "n.csv").read_text() == "2147483648\n"
    ended = deltafix("run", folder / "wraps.dl", "--word-size", "16")
    assert (ended.code, ended.out) == (2, "")
    assert "'16' is not one of '32', '64'" in ended.err
