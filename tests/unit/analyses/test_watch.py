"""Watching and the command line, without Spark."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.dead_code.report import Change
from deltafix.analyses.files import Tree
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.watch import Watcher, watch
from deltafix.cli import console
from deltafix.cli import main as command_line

MAIN = 'if __name__ == "__main__": '
LIB = "def f(): g()\ndef g(): ...\ndef h(): ...\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "lib.py").write_text(LIB)
    (root / "main.py").write_text(f"import lib\n{MAIN}lib.f()\n")
    return root


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command_line.main(["dead-code", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call


def test_watching_tells_of_each_save_once(tree: Path) -> None:
    told: list[Change] = []
    doubts: list[str] = []
    edits = iter(
        [
            lambda: None,
            lambda: (tree / "main.py").write_text(f"import lib\n{MAIN}lib.h() or 1\n"),
            lambda: (tree / "main.py").write_text("def broken(:"),
            (tree / "lib.py").unlink,
            lambda: None,
        ]
    )

    def wait() -> bool:
        edit = next(edits, None)
        if edit is not None:
            edit()
        return edit is not None

    with DeadCode() as job:
        watcher = Watcher(DEAD_CODE.tree(tree), job, DEAD_CODE.extract)
        watcher.poll()
        watch(watcher, wait, told.append, doubts.append)
    assert doubts == []
    assert [(c.changed, c.deleted) for c in told] == [
        (("main.py",), ()),
        (("main.py",), ()),
        ((), ("lib.py",)),
    ]
    assert [f.symbol for f in told[0].became_dead] == ["lib:f", "lib:g"]
    assert [f.symbol for f in told[0].became_alive] == ["lib:h"]
    assert list(told[1].unreadable) == ["main.py"]
    assert told[2].gone == ("lib:f", "lib:g")


def test_only_the_first_look_and_large_changes_go_the_way_for_many_files(tree: Path) -> None:
    asked: list[int] = []
    at = DEAD_CODE.tree(tree)

    def many(paths: object) -> list:
        asked.append(len(list(paths)))  # type: ignore[call-overload]
        return list(read_fragments(at, list(paths), DEAD_CODE.extract))  # type: ignore[call-overload]

    with DeadCode() as job:
        watcher = Watcher(at, job, DEAD_CODE.extract, many)
        assert watcher.poll() is not None
        assert watcher.poll() is None
        (tree / "lib.py").write_text(LIB + "\n")
        watcher.poll()
        assert asked == [2]
        for number in range(250):
            (tree / f"m{number}.py").write_text("")
        watcher.poll()
        assert asked == [2, 250]


def test_an_update_that_fails_is_tried_again_at_the_next_look(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DeadCode() as job:
        watcher = Watcher(DEAD_CODE.tree(tree), job, DEAD_CODE.extract)
        with monkeypatch.context() as patch:
            patch.setattr(job, "update", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                watcher.poll()
        watcher.poll()
        assert [f.symbol for f in job.dead()] == ["lib:h"]


def test_dead_symbols_give_exit_code_one_and_none_gives_zero(tree: Path, run: Callable) -> None:
    code, out, err = run(tree)
    assert (code, err) == (1, "")
    assert out.splitlines()[0] == "lib.py:3: dead function lib:h"
    assert "\x1b" not in out
    (tree / "lib.py").write_text("def f(): ...")
    assert run(tree)[0] == 0


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_progress_unless_it_wants_quiet(
    tree: Path, run: Callable, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    came = threading.Event()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            written = super().write(text)
            if "extracting 2 files" in self.getvalue():
                came.set()
            return written

    def slow(self: Tree, path: str) -> bytes:
        assert quiet or came.wait(30)
        return read(self, path)

    read = Tree.read
    monkeypatch.setattr(Tree, "read", slow)
    monkeypatch.setattr(console, "AFTER", 0.0)
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    code, out, _ = run(tree, *(["--quiet"] if quiet else []))
    assert (code, len(out.splitlines())) == (1, 3)
    assert ("extracting 2 files" in shown.getvalue()) is not quiet


def test_json_is_one_document_that_says_the_same(tree: Path, run: Callable) -> None:
    code, out, _ = run(tree, "--format", "json", "--quiet")
    data = json.loads(out)
    assert code == 1
    assert [finding["symbol"] for finding in data["dead"]] == ["lib:h"]
    assert (data["files"], data["symbols"], data["unreadable"]) == (2, 5, {})
    assert data["assumed"] == {
        "kind": "application",
        "why": 'main runs it (if __name__ == "__main__")',
    }


def test_a_baseline_silences_what_it_knows_and_nothing_else(tree: Path, run: Callable) -> None:
    baseline = tree / "known.json"
    assert run(tree, "--write-baseline", baseline)[0] == 0
    code, out, _ = run(tree, "--baseline", baseline)
    assert code == 0
    assert out.splitlines()[-1].startswith("0 dead symbols and 1 known from the baseline")
    (tree / "main.py").write_text(f"import lib\n{MAIN}pass\n")
    code, out, _ = run(tree, "--baseline", baseline)
    assert code == 1
    assert [line.split()[3] for line in out.splitlines()[:-2]] == ["lib:f", "lib:g"]
    (tree / "main.py").write_text(f"import lib\n{MAIN}lib.f(), lib.h()\n")
    code, out, _ = run(tree, "--baseline", baseline)
    assert code == 0
    assert "1 baseline entry no longer dead" in out


def test_why_is_answered_for_living_dead_and_unknown_symbols(tree: Path, run: Callable) -> None:
    code, out, _ = run(tree, "--why", "g")
    assert code == 0
    assert out.splitlines()[-2:] == ["  main refers to lib:f", "  lib:f refers to lib:g"]
    alone = "lib:h is dead: nothing refers to it\n"
    assert run(tree, "--why", "lib:h")[1] == f"{alone}sure: nothing speaks against it\n"
    (tree / "fast.pyx").write_text("h()")
    assert run(tree, "--why", "lib:h")[1].startswith(f"{alone}likely: its name is written in ")
    code, _, err = run(tree, "--why", "nothing")
    assert (code, err) == (2, "error[DF652]: there is no symbol 'nothing'\n")
    for form in ("json", "sarif"):
        code, out, err = run(tree, "--why", "g", "--format", form)
        assert (code, out) == (2, "")
        assert f"--why cannot be combined with --format {form}" in err
    (tree / "other.py").write_text("def g(): ...")
    code, _, err = run(tree, "--why", "g")
    assert (code, err) == (2, "error[DF652]: 'g' fits 2 symbols: lib:g, other:g\n")


def test_options_that_choose_what_is_alive(tree: Path, run: Callable) -> None:
    assert run(tree, "--roots", "public")[0] == 0
    assert run(tree, "--roots", "lib:h")[0] == 0
    (tree / "README.md").write_text("The old way, `h()`, is gone.\n")
    code, out, _ = run(tree)
    assert (code, "; 1 more is likely" in out.splitlines()[-1]) == (0, True)
    code, out, _ = run(tree, "--confidence", "likely")
    assert code == 1
    assert out.splitlines()[0] == (
        "lib.py:3: dead function lib:h (likely: its name is written in README.md)"
    )
    (tree / "README.md").unlink()
    assert run(tree, "--exclude", "main.py")[0] == 0  # a library
    excluded = ("--exclude", "main.py", "--roots", "entry-points")
    assert run(tree, *excluded)[0] == 0  # whoever runs lib.py by hand
    assert run(tree, *excluded, "--confidence", "likely")[0] == 1
    (tree / "test_lib.py").write_text("import lib\ndef test_h(): lib.h()")
    assert run(tree)[0] == 0
    code, out, _ = run(tree, "--no-tests")  # of the tests themselves nothing is told
    assert (code, out.splitlines()[0]) == (1, "lib.py:3: dead function lib:h")
    assert out.splitlines()[-1].startswith("1 dead symbol among ")


def test_a_broken_file_is_reported_and_the_run_goes_on(tree: Path, run: Callable) -> None:
    (tree / "bad.py").write_bytes(b"\xff\xfe")
    code, out, _ = run(tree)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "lib.py:3: dead function lib:h"
    assert lines[1].startswith("bad.py: not read: ")
    assert lines[2].startswith("assumed an application: main runs it")
    assert lines[3] == "note: what only an unread file uses may be reported dead"


@pytest.mark.parametrize(
    "arguments",
    [
        ("{missing}",),
        ("{tree}", "--baseline", "{missing}"),
        ("{tree}", "--watch", "--why", "x"),
        ("{tree}", "--watch", "--write-baseline", "x"),
        ("{tree}", "--format", "xml"),
    ],
)
def test_bad_input_is_exit_code_two_and_one_message(
    tree: Path, run: Callable, arguments: tuple[str, ...]
) -> None:
    places = {"tree": str(tree), "missing": str(tree / "missing")}
    code, out, err = run(*(argument.format(**places) for argument in arguments))
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err


def test_watching_from_the_command_line_ends_with_an_interrupt(
    tree: Path, run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = iter([f"import lib\n{MAIN}lib.h()\n", f"import lib\n{MAIN}lib.f(), lib.h()\n"])

    def sleep(_: float) -> None:
        text = next(saves, None)
        if text is None:
            raise KeyboardInterrupt
        (tree / "main.py").write_text(text)

    monkeypatch.setattr("deltafix.cli.source_trees.sleep", sleep)
    code, out, err = run(tree, "--watch", "--format", "json")
    documents = [json.loads(line) for line in out.splitlines()]
    assert code == 130
    assert [one["event"] for one in documents] == ["report", "change", "change"]
    assert [f["symbol"] for f in documents[1]["became_dead"]] == ["lib:f", "lib:g"]
    assert [f["symbol"] for f in documents[2]["became_alive"]] == ["lib:f", "lib:g"]
    assert "Ctrl-C ends" in err


@pytest.mark.parametrize("command", [("dead-code",), ("analyse", "call-graph")])
@pytest.mark.parametrize("only", [False, True])
def test_what_is_watched_may_go_away_and_come_back(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, only: bool,
    command: tuple[str, ...],
) -> None:  # fmt: skip
    what, away = (tree / "lib.py" if only else tree), tree.with_name("away")

    def back() -> None:
        away.rename(what)
        (tree / "lib.py").write_text(f"{LIB}def _k(): h()\n")

    edits = iter([lambda: what.rename(away), lambda: None, back])

    def sleep(_: float) -> None:
        edit = next(edits, None)
        if edit is None:
            raise KeyboardInterrupt
        edit()

    monkeypatch.setattr("deltafix.cli.source_trees.sleep", sleep)
    with pytest.raises(SystemExit) as ended:
        command_line.main([*command, str(what), "--watch"])
    printed = capsys.readouterr()
    assert ended.value.code == 130, printed.err
    said = f"cannot read {what}: No such file or directory; what was found stays as it was"
    assert printed.err.count(said) == 1
    assert "lib:_k" in printed.out


def test_a_folder_that_goes_while_it_is_listed_is_skipped(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "sub").mkdir()
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("sub"):
            (tree / "sub").rmdir()
        return real(path)

    monkeypatch.setattr("deltafix.analyses.files.os.scandir", scandir)
    scan = DEAD_CODE.tree(tree).scan()
    assert [*scan.files] == ["lib.py", "main.py"]
    assert scan.skipped == {"sub": "No such file or directory"}
