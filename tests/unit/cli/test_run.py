"""`deltafix run`: facts in, results out, and a failed run leaves everything as it was."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import get_args

import pytest

from deltafix.cli.run import Strategy

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
.printsize edge
.decl far(n: number)
.output far(filename="far.txt", headers=true)
.decl any()
.output any
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
far(n + 1) :- any(), n = 2.
any() :- path(_, _).
"""
ENDLESS = ".decl n(x: number)\n.output n\nn(0).\nn(x + 1) :- n(x).\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("b\tc\na\tb\na\tb\n")
    return tmp_path


def test_results_go_to_files_in_order_and_sizes_to_standard_output(deltafix, folder):
    ended = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", folder / "out", "-q")
    assert ended == (0, "edge\t2\n", "")
    assert (folder / "out" / "path.csv").read_text() == "a\tb\na\tc\nb\tc\n"
    assert (folder / "out" / "far.txt").read_text() == "n\n3\n"
    assert (folder / "out" / "any.csv").read_text() == "()\n"


def test_results_are_printed_between_rules(deltafix, folder):
    ended = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", "-", "-q")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "---------------\npath\n===============\na\tb\na\tc\nb\tc\n===============\n"
        "edge\t2\n"
        "---------------\nfar\nn\n===============\n3\n===============\n"
        "---------------\nany\n===============\n()\n===============\n"
    )


def test_profile_says_what_was_done_on_standard_error(deltafix, folder):
    arguments = ("run", folder / "p.dl", "-F", folder / "facts", "-D", folder, "--profile")
    ended = deltafix(*arguments)
    assert (ended.code, ended.out) == (0, "edge\t2\n")
    reported = {line.split()[0] for line in ended.err.splitlines()}
    assert {"reading", "evaluating", "writing", "derivations", "seconds"} <= reported


def test_profile_numbers_rules_as_the_plan_does(deltafix, folder):
    told = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", folder, "--profile").err
    rules = [line.split(maxsplit=3)[1:] for line in told.splitlines() if line.startswith("rule ")]
    counts = {number: count for number, count, _ in rules}
    written = {number: text for number, _, text in rules}
    plan = deltafix("plan", folder / "p.dl").out.splitlines()
    planned = dict(line.split(maxsplit=1)[1].split(": ") for line in plan if "  rule " in line)
    assert written == {number: planned[number] for number in counts}
    assert {planned[number]: int(count) for number, count in counts.items()} == {
        "path(x, y) :- edge(x, y).": 2,
        "path(x, z) :- path(x, y), edge(y, z).": 1,
        "any() :- path(_, _).": 3,
        "far($1) :- any(), n = 2, $1 = +(n, 1).": 1,
    }


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ("a\tb\nc\n", "edge.facts:2: expected 2 values"),
        ("a\tb\nc\td\te\n", "edge.facts:2: expected 2 values"),
        (None, "edge.facts: no such fact file for edge(x: symbol, y: symbol)"),
    ],
)
def test_bad_facts_end_the_run_with_one_message_and_write_nothing(deltafix, folder, facts, wanted):
    (folder / "facts" / "edge.facts").unlink()
    if facts is not None:
        (folder / "facts" / "edge.facts").write_text(facts)
    out = ("-F", folder / "facts", "-D", folder / "out")
    ended = deltafix("run", folder / "p.dl", *out, "--strict", "-q")
    assert (ended.code, ended.out) == (2, "")
    assert wanted in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (folder / "out").exists()


@pytest.mark.parametrize("command", ["run", "why"])
def test_where_no_facts_are_found_the_option_is_named(deltafix, folder, monkeypatch, command):
    (folder / "facts" / "edge.facts").unlink()
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    ended = deltafix(command, folder / "p.dl", *(['path("a", "b")'] if command == "why" else []))
    assert ended.code == 2
    said = "note: no facts are read, here or beside the program; -F names their folder"
    assert ended.err.splitlines()[0] == said


@pytest.mark.parametrize("command", ["run", "diff", "why", "plan", "shell"])
def test_a_file_that_is_not_there_is_an_error_and_no_empty_relation(deltafix, folder, command):
    (folder / "facts" / "edge.facts").rename(folder / "facts" / "edge.csv")
    program = folder / "p.dl"
    more = {"diff": [program], "why": ['path("a", "b")']}.get(command, [])
    ended = deltafix(command, program, *more, "-F", folder / "facts")
    assert (ended.code, ended.out) == (2, "")
    assert "edge.facts: no such fact file for edge(x: symbol, y: symbol); there is edge.csv" in (
        ended.err
    )


@pytest.mark.parametrize("command", ["run", "check", "watch", "sql"])
def test_a_file_of_rows_in_place_of_a_program_is_told(deltafix, tmp_path, command):
    rows = tmp_path / "edge.csv"
    rows.write_text("x,y\n1,2\n")
    ended = deltafix(command, rows)
    assert ended.code == 2
    assert "-F" in ended.err
    assert "expected" not in ended.err


def test_the_file_of_another_relation_is_not_proposed_for_one_that_is_missing(deltafix, tmp_path):
    program = tmp_path / "p.dl"
    program.write_text(
        ".decl members(x: symbol)\n.input members\n.decl member(x: symbol)\n.input member\n"
        ".output members"
    )
    (tmp_path / "members.facts").write_text("a\n")
    ended = deltafix("run", program, "-F", tmp_path)
    assert "member.facts: no such fact file" in ended.err
    assert "members.facts" not in ended.err
    (tmp_path / "membr.facts").write_text("a\n")
    assert "did you mean `membr.facts`?" in deltafix("run", program, "-F", tmp_path).err


def test_facts_beside_the_program_are_named(deltafix, folder, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    ended = deltafix("run", folder / "p.dl", "-F", elsewhere)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"edge(x: symbol, y: symbol); `-F {folder / 'facts'}` has one\n")
    given = ended.err.split("`")[1].split()
    assert deltafix("run", folder / "p.dl", *given).out == "edge\t2\n"


def test_facts_beside_the_program_are_read_where_no_folder_is_named(
    deltafix, folder, monkeypatch, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    said = f"note: facts are read from {folder / 'facts'}; -F names another folder\n"
    left = "note: the outputs are here, as path.csv, far.txt, any.csv; -D - prints them\n"
    ended = deltafix("run", folder / "p.dl")
    assert (ended.code, ended.out, ended.err) == (0, "edge\t2\n", said + left)
    assert deltafix("run", folder / "p.dl", "-q").err == ""
    diff = deltafix("diff", folder / "p.dl", "--add", "edge(x, x) :- edge(x, _).")
    assert said in diff.err

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deltafix.cli.watch.sleep", stop)
    watched = deltafix("watch", folder / "p.dl")
    assert said in watched.err
    assert '+path("a", "c")\n' in watched.out
    (elsewhere / "edge.facts").write_text("one\ttwo\n")
    here = deltafix("run", folder / "p.dl")
    assert (here.out, here.err) == ("edge\t1\n", left), "the current folder comes first"
    text = PROGRAM.replace(".output path", ".output path\n.output path(IO=stdout)\n.output edge")
    (folder / "p.dl").write_text(text)
    four = deltafix("run", folder / "p.dl").err
    assert four == left.replace("far", "edge.csv, far").replace("any.csv", "...")
    assert deltafix("run", folder / "p.dl", "-D", "out").err == ""
    assert deltafix("run", folder / "p.dl", "-D", "-").err == ""


@pytest.mark.parametrize(
    "command", ["run", "diff", "watch", "serve", "why", "plan", "shell", "dbt"]
)
@pytest.mark.parametrize("name", ["none", "p.dl"])
def test_a_folder_of_facts_that_is_none_is_an_error_and_no_empty_relation(
    deltafix, folder, command, name
):
    program = folder / "p.dl"
    more = {"diff": [program], "why": ['path("a", "b")']}.get(command, [])
    ended = deltafix(command, program, *more, "-F", folder / name)
    assert (ended.code, ended.out) == (2, "")
    assert "Invalid value for '-F' / '--fact-dir'" in ended.err


@pytest.mark.parametrize(
    ("facts", "wanted", "size"),
    [
        (b"a\tb\nb\tc\td\ne\tf\tg\n", "edge.facts:2: 2 lines have more values than edge(x:", 3),
        (gzip.compress(b"a\tb\n", mtime=0), "", 1),  # without the time: test names must not change,
    ],
)
def test_what_souffle_passes_over_is_warned_of(deltafix, folder, facts, wanted, size):
    (folder / "facts" / "edge.facts").write_bytes(facts)
    out = ("-F", folder / "facts", "-D", folder / "out")
    ended = deltafix("run", folder / "p.dl", *out)
    assert (ended.code, ended.out) == (0, f"edge\t{size}\n")
    warnings = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == bool(wanted)
    assert all(wanted in line for line in warnings)
    assert deltafix("run", folder / "p.dl", *out, "-q").err == ""


def test_a_number_of_5000_digits_names_file_line_and_column(deltafix, folder):
    (folder / "n.dl").write_text(".decl n(x: symbol, y: number) .input n .output n")
    (folder / "facts" / "n.facts").write_text(f"a\t1\nb\t{'9' * 5000}\n")
    ended = deltafix("run", folder / "n.dl", "-F", folder / "facts", "-D", folder / "out", "-q")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error[DF202]: ")
    assert "n.facts:2: column 'y' is '999" in ended.err
    assert len(ended.err) < 300


@pytest.mark.parametrize("jobs", [["-j"], ["-j", "4"], ["-j4"], ["-j", "auto"], ["-j", "-q"]])
def test_jobs_are_threads_and_change_no_answer(deltafix, folder, jobs):
    ended = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", folder, *jobs)
    assert (ended.code, ended.out, ended.err) == (0, "edge\t2\n", "")


@pytest.mark.parametrize("jobs", ["-j0", "-j=two", "-j-1"])
def test_jobs_that_are_no_number_of_threads_are_refused(deltafix, folder, jobs):
    ended = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", folder, jobs)
    assert ended.code == 2
    assert "a number of threads" in ended.err


def test_macros_and_folders_of_the_command_line(deltafix, folder):
    (folder / "more").mkdir()
    (folder / "more" / "m.dl").write_text(".decl m(x: number) m(LIMIT). .output m\n")
    (folder / "i.dl").write_text('#ifdef WITH_M\n.include "m.dl"\n#endif\n')
    out = ("-D", "-", "-q", "-I", folder / "more")
    ended = deltafix("run", folder / "i.dl", *out, "-M", "LIMIT=3 WITH_M")
    assert ended.out == "---------------\nm\n===============\n3\n===============\n"
    assert deltafix("run", folder / "i.dl", *out, "-M", "LIMIT=3").out == ""
    assert deltafix("check", folder / "i.dl", "-M", "WITH_M").code == 2


def test_a_bad_program_is_shown_with_its_carets(deltafix, folder):
    (folder / "bad.dl").write_text("path(x) :- edge(x.\n")
    ended = deltafix("run", folder / "bad.dl")
    assert (ended.code, ended.out) == (2, "")
    assert "bad.dl:1:" in ended.err
    assert "^" in ended.err


@pytest.mark.parametrize("limit", ["--max-rows", "--max-rounds"])
def test_a_run_over_its_limit_names_the_setting_and_writes_nothing(deltafix, tmp_path, limit):
    (tmp_path / "p.dl").write_text(ENDLESS)
    ended = deltafix("run", tmp_path / "p.dl", "-D", tmp_path / "out", limit, 100, "-q")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error[DF410]: ")
    assert limit[2:].replace("-", "_") in ended.err
    assert not (tmp_path / "out").exists()


def test_an_unknown_strategy_is_an_error_of_the_user(deltafix, folder):
    arguments = ("run", folder / "p.dl", "-F", folder / "facts", "--strategy", "magic", "-q")
    ended = deltafix(*arguments)
    assert ended.code == 2
    assert "magic" in ended.err


def test_every_strategy_of_the_engine_can_be_asked_for():
    from deltafix.engine.run import STRATEGIES

    assert set(get_args(Strategy)) == {*STRATEGIES, "auto"}


def test_a_program_without_output_says_so(deltafix, tmp_path):
    (tmp_path / "p.dl").write_text(".decl a(x: number)\na(1).\n")
    ended = deltafix("run", tmp_path / "p.dl", "-D", tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "no .output" in ended.err


def test_warnings_go_to_standard_error_and_quiet_silences_them(deltafix, tmp_path):
    (tmp_path / "p.dl").write_text(
        ".decl a(x: number)\n.output a\na(1).\na(x) :- a(x).\n.plan 0:(1)\n"
    )
    loud = deltafix("run", tmp_path / "p.dl", "-D", "-")
    quiet = deltafix("run", tmp_path / "p.dl", "-D", "-", "--quiet")
    assert (loud.code, quiet.code) == (0, 0)
    assert "warning" in loud.err
    assert quiet.err == ""
    assert loud.out == quiet.out


def test_as_a_process_piped_output_has_no_colours_and_errors_no_traceback(folder):
    def deltafix(*arguments):
        command = [sys.executable, "-m", "deltafix", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = deltafix("run", folder / "p.dl", "-F", folder / "facts", "-D", "-")
    assert (good.returncode, good.stdout[:21]) == (0, "---------------\npath\n")
    assert "\x1b" not in good.stdout + good.stderr
    bad = deltafix("run", folder / "p.dl", "-F", folder, "-D", "-", "--strict")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error[DF300]: ")
    assert "Traceback" not in bad.stderr


def test_several_directives_with_their_own_parameters(deltafix, tmp_path):
    (tmp_path / "p.dl").write_text(
        ".decl e(x: number, s: symbol)\n"
        '.input e\n.input e(filename="more.csv", rfc4180=true)\n'
        '.input e(IO=sqlite, dbname="in.db")\n'
        ".decl o(x: number, s: symbol)\no(x, s) :- e(x, s).\n"
        '.output o(headers=true, delimiter=";")\n.output o(compress=true)\n'
        '.output o(IO=stdout)\n.output o(IO=sqlite, dbname="out.db")\n.printsize o, e\n'
    )
    (tmp_path / "e.facts").write_text("1\ta\n")
    (tmp_path / "more.csv").write_text('2,"b, c"\n')
    with closing(sqlite3.connect(tmp_path / "in.db")) as database, database:
        database.execute("CREATE TABLE e AS SELECT 3, 'd'")
    ended = deltafix("run", tmp_path / "p.dl", "-F", tmp_path, "-D", tmp_path / "out", "-q")
    framed = "---------------\no\n===============\n1\ta\n2\tb, c\n3\td\n===============\n"
    assert ended == (0, f"{framed}o\t3\ne\t3\n", "")
    assert (tmp_path / "out" / "o.csv").read_text() == "x;s\n1;a\n2;b, c\n3;d\n"
    assert gzip.decompress((tmp_path / "out" / "o.csv.gz").read_bytes()) == b"1\ta\n2\tb, c\n3\td\n"
    with closing(sqlite3.connect(tmp_path / "out" / "out.db")) as database:
        assert database.execute("SELECT x, s FROM o").fetchall() == [
            (1, "a"),
            (2, "b, c"),
            (3, "d"),
        ]


def test_a_limit_on_a_relation_ends_a_run(deltafix, tmp_path):
    (tmp_path / "p.dl").write_text(f"{ENDLESS}.limitsize n(n=10)\n")
    ended = deltafix("run", tmp_path / "p.dl", "-D", tmp_path / "out", "-q")
    assert ended.code == 2
    assert "error[DF410]: `n` has " in ended.err
    assert not (tmp_path / "out").exists()
