"""`deltafix shell`: what lines do, what errors leave alone, and how a session ends."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest

from deltafix.cli.shell import HELP

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl lonely(x: symbol)
lonely(x) :- edge(x, _), !edge(_, x).
"""


@pytest.fixture
def shell(deltafix, tmp_path, monkeypatch):
    (tmp_path / "p.dl").write_text(PROGRAM)

    def run(script, *arguments):
        monkeypatch.setattr("sys.stdin", StringIO(script))
        return deltafix("shell", tmp_path / "p.dl", "-q", *arguments)

    return run


def test_what_the_readme_types_works(shell):
    readme = Path(__file__).parents[3] / "README.md"
    (line,) = re.findall(r"^    deltafix shell \S+ +# (.+)$", readme.read_text(), re.MULTILINE)
    typed = re.split(r"  +", line)
    told = shell("\n".join([*typed, "commit", ""]))
    assert len(typed) > 3
    assert (told.code, told.err) == (0, "")
    assert 'path("a", "b")' in told.out.splitlines()


def test_a_story_of_edits_commits_and_questions(shell):
    told = shell(
        '+edge("a", "b"), edge("b", "c")\n'
        "commit\n"
        '? path("a", X)\n'
        '-edge("a", "b")\n'
        '+edge("c", "b").\n'
        "commit\n"
        "? path(X, X)\n"
        ".rows lonely\n"
    )
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines() == [
        '+edge("a", "b")',
        '+edge("b", "c")',
        '+path("a", "b")',
        '+path("a", "c")',
        '+path("b", "c")',
        '+lonely("a")',
        "6 rows changed",
        'path("a", "b")',
        'path("a", "c")',
        "2 rows",
        '-edge("a", "b")',
        '+edge("c", "b")',
        '-path("a", "b")',
        '-path("a", "c")',
        '+path("b", "b")',
        '+path("c", "b")',
        '+path("c", "c")',
        '-lonely("a")',
        "8 rows changed",
        'path("b", "b")',
        'path("c", "c")',
        "2 rows",
        "0 rows",
    ]


def test_derivations_are_counted_and_followed(shell):
    told = shell(
        '+edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "d")\n'
        "commit\n"
        'count path("a", "c")\n'
        'count edge("a", "c")\n'
        'step path("a", "b"), path("b", "c")\n'
        'step path("a", "d")\n'
        'count path("d", "a")\n'
        'count path("a", X)\n'
        'step path("d", "a")\n'
    )
    assert told.out.splitlines()[-7:] == [
        "11 rows changed", "2", "0", 'path("a", "c")', 'path("b", "d")', "2 rows", "0 rows"
    ]  # fmt: skip
    assert told.err.count('path("d", "a") does not hold') == 2
    assert "one row is asked about, not several" in told.err


def test_rollback_drops_the_transaction(shell):
    told = shell('+edge("a", "b")\nrollback\ncommit\nrollback\n.rows path\n')
    assert told.out.splitlines() == [
        "1 edit dropped",
        "nothing to commit",
        "nothing to roll back",
        "0 rows",
    ]


def test_a_commit_that_changes_nothing_says_so(shell):
    told = shell('+edge("a", "b")\ncommit\n+edge("a", "b")\ncommit\n')
    assert told.out.splitlines()[-1] == "no row changed"


def test_errors_are_told_and_the_session_goes_on(shell):
    told = shell('+edge("a" "b")\n+edgy("a")\n.rowz path\n+edge("a", 1)\n.rows path\n')
    assert (told.code, told.out) == (0, "0 rows\n")
    assert [line for line in told.err.splitlines() if "error" in line] == [
        '<text>:1:11: error[DF103]: expected `,` or `)`, found `"b"`',
        "error: no relation 'edgy'; did you mean 'edge'?",
        "error: unknown command '.rowz'; did you mean '.rows'?",
        "error: edge: column 'y' is 1, but symbol takes values like \"abc\"",
    ]
    caret = told.err.splitlines()[2]
    assert caret.index("^") == told.err.splitlines()[1].index('"b"')


def test_a_refused_line_leaves_nothing_to_commit(shell):
    told = shell('+edge("a", 1)\nrule +path(x, y) :- edge(x, z).\n-edge("x", "y")\ncommit\n')
    assert (told.code, told.out) == (0, "nothing to commit\n")


def test_rows_say_that_open_edits_are_not_in_them(shell):
    first = '+edge("a", "b")\ncommit\n+edge("b", "c")\n'
    told = shell(first + '? path("a", X)\n-edge("a", "b")\n.rows edge\ncommit\n.rows path\n')
    assert told.err == ""
    counts = [line for line in told.out.splitlines() if line[:5] == "1 row"]
    assert counts == ["1 row (1 edit not committed)", "1 row (2 edits not committed)", "1 row"]


def test_deleting_what_is_not_there_leaves_the_database_usable(shell):
    told = shell('-edge("x", "y")\ncommit\n+edge("a", "b")\ncommit\n.rows edge\n')
    assert told.code == 0
    assert 'edge("x", "y")' in told.err
    assert told.out.splitlines()[-2:] == ['edge("a", "b")', "1 row"]


def test_strict_ends_a_script_at_its_first_error_with_code_2(shell):
    told = shell('nonsense\n+edge("a", "b")\ncommit\n', "--strict")
    assert (told.code, told.out) == (2, "")
    assert "unknown command 'nonsense'" in told.err


def test_facts_are_loaded_at_the_start_and_by_command(shell, tmp_path):
    (tmp_path / "edge.facts").write_text("a\tb\n")
    (tmp_path / "more.facts").write_text("b\tc\nc\td\n")
    told = shell(
        f".rows edge\n.load edge {tmp_path / 'more.facts'}\ncommit\n.rows edge\n"
        f".load edge {tmp_path / 'none.facts'}\n.load edge\n",
        "-F",
        tmp_path,
    )
    lines = told.out.splitlines()
    assert lines[:3] == ['edge("a", "b")', "1 row", "2 rows read, not committed yet"]
    assert lines[-1] == "3 rows"
    assert [line.split(":")[0] for line in told.err.splitlines()] == ["error", "error"]
    assert "no such fact file" in told.err


def test_the_shell_describes_itself(shell):
    told = shell(".help\n.strata\n.relations\n// a comment\n\n.quit\n.rows path\n")
    assert told.out == (
        f"{HELP}\n0: edge\n1: path (recursive)\n2: lonely\n"
        "edge(x: symbol, y: symbol): 0 rows\n"
        "path(x: symbol, y: symbol): 0 rows\n"
        "lonely(x: symbol): 0 rows\n"
    )


def test_an_open_transaction_at_the_end_is_dropped_and_said(deltafix, tmp_path, monkeypatch):
    (tmp_path / "p.dl").write_text(PROGRAM)
    monkeypatch.setattr("sys.stdin", StringIO('+edge("a", "b")\n'))
    told = deltafix("shell", tmp_path / "p.dl")
    assert (told.code, told.out) == (0, "")
    assert "1 uncommitted edit dropped" in told.err


def test_on_a_terminal_errors_and_interrupts_never_end_the_session(deltafix, tmp_path, monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    typed = iter(["nonsense", KeyboardInterrupt(), ".rows path", EOFError()])
    prompts = []

    def answer(prompt):
        prompts.append(prompt)
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    (tmp_path / "p.dl").write_text(PROGRAM)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", answer)
    told = deltafix("shell", tmp_path / "p.dl", "--strict")
    assert (told.code, told.out) == (0, "\n0 rows\n\n")
    assert "unknown command 'nonsense'" in told.err
    assert prompts == ["deltafix> "] * 4


def test_a_state_folder_keeps_rows_from_one_session_to_the_next(shell, tmp_path):
    first = shell('+edge("a", "b")\ncommit\n', "--state", tmp_path / "state")
    assert first.code == 0
    second = shell('? path("a", X)\n', "--state", tmp_path / "state")
    assert (second.code, '"b"' in second.out or "b" in second.out) == (0, True)


def test_a_state_that_is_in_use_is_refused_with_its_owner(shell, tmp_path):
    import os

    from deltafix import Program, connect

    with connect(Program.parse(PROGRAM), tmp_path / "state"):
        told = shell("commit\n", "--state", tmp_path / "state")
    assert told.code == 2
    assert str(os.getpid()) in told.err
    assert "Traceback" not in told.err


def test_rules_are_edited_among_facts(shell):
    told = shell(
        '+edge("a", "b")\n'
        "commit\n"
        "rule +.decl twin(x: symbol) twin(y) :- edge(x, y), edge(y, x).\n"
        '+edge("b", "a")\n'
        "commit\n"
        "rule -path(a, c) :- edge(b, c), path(a, b).\n"
        "commit\n"
        ".rows twin\n"
        "rule path(x, x) :- edge(x, _).\n"
        "rule +path(x, y) :- edg(x, y).\n"
        "rule +.rule self path(x, x) :- edge(x, _).\n"
        "commit\n"
        "rule -elf\n"
        "rule -self\n"
        "commit\n"
    )
    assert told.code == 0
    assert told.out.splitlines()[4:] == [
        '+edge("b", "a")', '+path("a", "a")', '+path("b", "a")', '+path("b", "b")',
        '-lonely("a")', '+twin("a")', '+twin("b")', "7 rows changed",
        '-path("a", "a")', '-path("b", "b")', "2 rows changed",
        'twin("a")', 'twin("b")', "2 rows",
        '+path("a", "a")', '+path("b", "b")', "2 rows changed",
        '-path("a", "a")', '-path("b", "b")', "2 rows changed",
    ]  # fmt: skip
    assert "<rule>:1:7: error[DF110]: there is no rule `elf`" in told.err
    assert "use: rule +RULE or rule -RULE" in told.err
    assert "<rule>:1:21: error[DF110]" in told.err  # under what was typed


def test_of_many_changed_rows_a_terminal_is_shown_some_and_how_many(shell, monkeypatch):
    script = "".join(f'+edge("a{n}", "b")\n' for n in range(150)) + "commit\n"
    whole = shell(script).out.splitlines()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    part = shell(script).out.splitlines()
    assert [line for line in part if line not in whole] == [
        f"... and 50 more changed rows of {name}; all are listed where the output is no terminal, "
        "as by | less" for name in ("edge", "path", "lonely")
    ]  # fmt: skip
    assert len([line for line in whole if line.startswith("+path")]) == 150
    assert len([line for line in part if line.startswith("+path")]) == 100
    assert part[-1] == whole[-1] == "450 rows changed"


def test_words_of_other_prompts_are_understood(shell):
    told = shell("help\nEXIT\nexit\n? path(X, Y)\n")
    assert told.out == f"{HELP}\n"
    assert "unknown command 'EXIT'" in told.err


def test_the_lines_of_a_file_are_done_up_to_the_first_that_is_wrong(shell, tmp_path):
    file = tmp_path / "lines of edits"
    file.write_text('// two edges\n+edge("a", "b")\n+edge("b", "c")\ncommit\n')
    told = shell(f'.read {file}\ncount path("a", "c")\n.read\n')
    assert told.err == "error: use: .read FILE\n"
    assert told.out.splitlines()[0] == '+edge("a", "b")'
    assert told.out.splitlines()[-1] == "1"
    file.write_text('? path(X, Y)\n+edge("b", "c")\ncomit\ncommit\n')
    told = shell(f".read {file}\n")
    assert told.err == f"error: {file}:3: unknown command 'comit'; did you mean 'commit'?\n"
