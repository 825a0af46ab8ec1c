"""`deltafix analyse`: any analysis over a tree, its views, matches, and what a save does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.job import Job, RowChange
from deltafix.analyses.registry import ANALYSES, UnknownAnalysisError, find_analysis
from deltafix.cli import analyse as command
from deltafix.cli import main as command_line
from deltafix.errors import UnknownRelationError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "lib.py").write_text("def f(): g()\ndef g(): ...\n")
    (root / "main.py").write_text("import lib\nlib.f()\n")
    return root


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command_line.main(["analyse", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def test_rows_of_the_views_and_a_summary(run: Run, tree: Path) -> None:
    code, out, err = run("call-graph", tree)
    assert (code, out) == (0, 'calls("lib:f", "lib:g").\ncalls("main", "lib:f").\n')
    assert "2 calls in 2 files (" in err


def test_alternatives_of_a_symbol_are_one_line_unless_rows_are_asked_for(
    run: Run, tmp_path: Path
) -> None:
    text = "def f(x):\n    return 1 if x else None\ndef g():\n    f('a')\n    f(2.5)\n"
    (tmp_path / "m.py").write_text(text)
    found = run("types", tmp_path)
    assert 'returns("m:f", "NoneType | int").' in found[1].splitlines()
    assert 'parameter("m:f", "x", "float | str").' in found[1].splitlines()
    assert "3 returns, 2 parameter, " in found[2]
    rows = ['returns("m:f", "NoneType").', 'returns("m:f", "int").', 'returns("m:g", "NoneType").']
    assert run("types", tmp_path, "--view", "returns")[1].splitlines() == rows
    assert run("types", tmp_path, "-q", "--limit", "1")[1].splitlines()[0] == rows[0]
    with_lines = run("types", tmp_path, "--lines", "-q")[1].splitlines()
    assert [line.partition("  //")[0] for line in with_lines[:3]] == rows
    assert len(json.loads(run("types", tmp_path, "--format", "json")[1])["rows"]["returns"]) == 3
    (tmp_path / "m.py").write_text("class A:\n    def go(self): ...\nclass B(A):\n"
                                   "    def go(self): ...\ndef f(x):\n    x.go()\n")  # fmt: skip
    assert run("call-graph", tmp_path)[1].splitlines() == [
        'calls("m:f", "m:A.go").', 'calls("m:f", "m:B.go").',
    ]  # fmt: skip


def test_any_relation_can_be_shown_and_rows_matched(run: Run, tree: Path) -> None:
    code, out, _ = run("call-graph", tree, "--view", "method", "--view", "calls", "-q")
    assert (code, out.count("calls(")) == (0, 2)
    _, out, _ = run("call-graph", tree, "--match", "callee=*:f", "-q")
    assert out == 'calls("main", "lib:f").\n'
    views = ("--view", "method", "--view", "calls")
    _, out, _ = run("call-graph", tree, *views, "--match", "callee=*:f", "-q")
    assert out == 'calls("main", "lib:f").\n'  # a method has no callee
    code, _, err = run("call-graph", tree, "--match", "colour=*")
    assert (code, "with one of callee, caller" in err) == (2, True)
    code, _, err = run("call-graph", tree, "--view", "cals")
    assert (code, "error[DF201]" in err) == (2, True)
    assert "Traceback" not in err


def test_json(run: Run, tree: Path) -> None:
    (tree / "broken.py").write_text("def f(:")
    code, out, err = run("call-graph", tree, "--format", "json")
    told = json.loads(out)
    assert (code, told["event"], told["analysis"], told["files"]) == (0, "report", "call-graph", 3)
    assert told["rows"] == {"calls": [["lib:f", "lib:g"], ["main", "lib:f"]]}
    assert told["unreadable"] == {"broken.py": "line 1: invalid syntax"}
    assert "note: broken.py skipped: line 1: invalid syntax" in err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_save_tells_the_rows_that_come_and_go(
    run: Run, tree: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(watcher, tell) -> None:
        (tree / "lib.py").write_text("def f(): ...\ndef g(): f()\n")
        (tree / "main.py").unlink()
        tell(watcher.poll())
        (tree / "lib.py").write_text("def f(: ...\n")
        tell(watcher.poll())

    monkeypatch.setattr(command, "follow", follow)
    code, out, _ = run("call-graph", tree, "--watch", "--format", form)
    assert code == 0
    if form == "json":
        first, second = map(json.loads, out.splitlines()[1:])
        assert first["went"] == {"calls": [["lib:f", "lib:g"], ["main", "lib:f"]]}
        assert first["came"] == {"calls": [["lib:g", "lib:f"]]}
        assert (second["went"], second["came"]) == ({"calls": []}, {"calls": []})
        assert second["unreadable"] == {"lib.py": "line 1: invalid syntax"}
    else:
        lines = out.splitlines()[2:]
        assert lines[:4] == [
            "changed: lib.py, main.py (deleted)",
            '  - calls("lib:f", "lib:g").',
            '  - calls("main", "lib:f").',
            '  + calls("lib:g", "lib:f").',
        ]
        assert "  lib.py: not read, its old facts are kept: line 1: invalid syntax" in lines


def test_every_analysis_is_listed_and_loads(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(ANALYSES)
    for name in ANALYSES:
        analysis = find_analysis(name)
        program = analysis.load_program()
        assert analysis.name == name
        assert set(program.names("input")) == set(analysis.inputs)
        assert set(analysis.views) <= {one.name for one in program.relations}
        assert program.warnings == ()


def test_bad_input_is_told_without_a_traceback(run: Run, tree: Path) -> None:
    code, _, err = run("call-grph", tree)
    assert (code, err.splitlines()[0]) == (
        2,
        "error[DF674]: there is no analysis 'call-grph'; did you mean 'call-graph'?",
    )
    assert run("call-graph")[0] == 2
    code, _, err = run("call-graph", tree / "nowhere")
    assert (code, "is neither a folder nor a file" in err) == (2, True)
    with pytest.raises(UnknownAnalysisError):
        find_analysis("")
    with pytest.raises(UnknownRelationError):
        Job(CALL_GRAPH, views=["nothing"])


@pytest.mark.parametrize(
    "asked",
    [
        ["dead-code", "."],
        ["analyse", "points-to", "."],
        ["analyse", "c-points-to", "."],
        ["ask", "callers", "f"],
    ],
)
def test_a_folder_without_a_file_to_read_is_an_error(
    deltafix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "a.py").write_text("def f(): ...\n")
    monkeypatch.chdir(tmp_path)
    done = deltafix(*asked)
    assert (done.code, done.out) == (2, "")
    assert f"error[DF300]: {tmp_path.resolve()} has no file to read" in done.err


@pytest.mark.parametrize(
    "asked", [["dead-code"], ["analyse", "call-graph"], ["analyse", "lineage"]]
)
def test_a_file_that_is_none_to_read_is_an_error(
    deltafix, tmp_path: Path, asked: list[str]
) -> None:
    file = tmp_path / "README.rst"
    file.write_text("Shop\n")
    done = deltafix(*asked, file)
    assert (done.code, done.out) == (2, "")
    assert f"error[DF300]: {file.resolve()} is no file to read (." in done.err
    if asked == ["dead-code"]:
        script = tmp_path / "run"
        script.write_text("#!/usr/bin/env python\nprint(1)\n")
        assert deltafix(*asked, script).code == 0


def test_a_job_tells_what_an_update_did(tree: Path) -> None:
    files = CALL_GRAPH.tree(tree)
    said = [CALL_GRAPH.extract(path, files.read(path), "") for path in files.scan().files]
    with Job(CALL_GRAPH) as job:
        first = job.update(said)
        assert (first.changed, len(first.came["calls"])) == (("lib.py", "main.py"), 2)
        assert first.work.facts_added == job.fact_count > 0
        again = job.update(said)
        assert isinstance(again, RowChange)
        assert (again.came, again.went) == ({"calls": ()}, {"calls": ()})
        assert (again.work.facts_added, again.work.facts_removed, again.work.touched) == (0, 0, 0)
        gone = job.update([], ["main.py", "never.py"])
        assert (gone.deleted, gone.went) == (
            ("main.py", "never.py"),
            {"calls": (("main", "lib:f"),)},
        )
        assert sorted(job.fragments) == ["lib.py"]
        job.check_invariants()
        job.update([], ["lib.py"])
        assert job.fact_count == 0
        job.check_invariants()


def test_lines_of_the_symbols_as_they_were_and_as_they_are(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(watcher, tell) -> None:
        (tree / "lib.py").write_text("\n\ndef g(): f()\ndef f(): ...\n")
        tell(watcher.poll())

    monkeypatch.setattr(command, "follow", follow)
    _, out, _ = run("call-graph", tree, "--lines", "--watch", "-q")
    assert out.splitlines()[:5] == [
        'calls("lib:f", "lib:g").  // lib.py:1, lib.py:2',
        'calls("main", "lib:f").  // main.py:1, lib.py:1',
        "changed: lib.py",
        '  - calls("lib:f", "lib:g").  // lib.py:1, lib.py:2',
        '  + calls("lib:g", "lib:f").  // lib.py:3, lib.py:4',
    ]
    _, out, _ = run("call-graph", tree, "--lines", "--watch", "--format", "json")
    first, second = map(json.loads, out.splitlines())
    assert first["lines"] == {"lib:f": "lib.py:4", "lib:g": "lib.py:3", "main": "main.py:1"}
    assert (second["came"], second["lines"]) == ({"calls": []}, {})
