"""The commands on this repository's own source: its calls as a program's facts, its files, its git.

Commands that answer and end are called in this process; those that go on (`watch`, `serve`, `lsp`,
`analyse --watch`) are processes of their own, talked to over pipes and files.
"""

from __future__ import annotations

import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from bench.analyses.editor import Editor

from deltafix.analyses.call_graph import CALL_GRAPH
from deltafix.analyses.job import Job
from deltafix.analyses.reading import read_fragments
from deltafix.analyses.registry import ANALYSES, find_analysis

ROOT = Path(__file__).parents[3]
OWN = ROOT / "src" / "deltafix" / "analyses"
PACKAGE = OWN / "dead_code"  # a part of it, where every analysis is run
REPORT = Path("dead_code") / "report.py"
MODULE = "deltafix.analyses.dead_code.report"
LEAF, NEW = f"{MODULE}:_totals", f"{MODULE}:_new"
PYTHON = [name for name in ANALYSES if ".py" in find_analysis(name).suffixes]
PROGRAM = """
.decl calls(caller: symbol, callee: symbol)
.input calls
.decl reaches(caller: symbol, callee: symbol)
.output reaches
reaches(x, y) :- calls(x, y).
reaches(x, z) :- reaches(x, y), calls(y, z).
"""
Calls = set[tuple[str, str]]


def calls_of(folder: Path) -> Calls:
    """The call graph of a tree."""
    tree = CALL_GRAPH.tree(folder)
    with Job(CALL_GRAPH) as job:
        job.update(read_fragments(tree, list(tree.scan().files), CALL_GRAPH.extract))
        return {(str(caller), str(callee)) for caller, callee in job.rows("calls")}


def write_facts(folder: Path, calls: Calls) -> None:
    (folder / "new").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(calls)))
    (folder / "new").rename(folder / "calls.facts")


@pytest.fixture(scope="module")
def calls(warm_kernel: None) -> Calls:
    return calls_of(OWN)


@pytest.fixture
def folder(calls: Calls, tmp_path: Path) -> Path:
    """A program over the calls in this repository's analyses."""
    (tmp_path / "program.dl").write_text(PROGRAM)
    write_facts(tmp_path, calls)
    return tmp_path


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree, to edit; it lies in packages of the same names."""
    parent = tmp_path / "deltafix"
    shutil.copytree(OWN, parent / "analyses", ignore=shutil.ignore_patterns("__pycache__"))
    (parent / "__init__.py").write_text("")
    return parent / "analyses"


def call_new_from_report(copy: Path) -> None:
    """Add a function to a module, and a call of it."""
    with (copy / REPORT).open("a") as file:
        file.write("\n\ndef _new() -> None: ...\n\n\n_new()\n")


@contextmanager
def running(*arguments: object) -> Iterator[Callable[[], str]]:
    """A command in a process; what is given back reads its next line. Ended by Ctrl-C."""
    command = [sys.executable, "-m", "deltafix", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: [lines.put(one) for one in process.stdout or ()])
        reader.start()
        try:
            yield lambda: lines.get(timeout=120).rstrip("\n")
            process.send_signal(signal.SIGINT)
            process.wait(timeout=300)  # as long as a busy machine takes
        finally:
            process.kill()
            reader.join()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def farthest(calls: Calls) -> tuple[str, str, int]:
    """A caller, what it reaches over the longest shortest way, and the length of that way."""
    after: dict[str, list[str]] = {}
    for caller, callee in sorted(calls):
        after.setdefault(caller, []).append(callee)
    best = ("", "", 0)
    for start in after:
        far, waiting = {start: 0}, deque([start])
        while waiting:
            at = waiting.popleft()
            for one in after.get(at, ()):
                if one not in far:
                    far[one] = far[at] + 1
                    waiting.append(one)
        end = max(far, key=lambda one: far[one])
        if far[end] > best[2]:
            best = (start, end, far[end])
    return best


def test_why_a_function_reaches_another(deltafix, folder: Path, calls: Calls) -> None:
    start, end, steps = farthest(calls)
    assert steps > 5
    fact = f'reaches("{start}", "{end}")'
    question = ("why", folder / "program.dl", "-F", folder, fact)
    done = deltafix(*question)
    assert done.code == 0
    assert done.out.startswith(fact)
    given = [line.split("calls(")[1] for line in done.out.splitlines() if "[given]" in line]
    chain = [tuple(json.loads(f"[{one.rpartition(')')[0]}]")) for one in given]
    assert len(chain) == steps  # a smallest proof
    assert set(chain) <= calls
    assert json.loads(deltafix(*question, "--format", "json").out)["height"] == steps

    done = deltafix(*question, "--max-steps", steps)
    assert (done.code, done.out) == (2, "")
    assert f"more than max_steps={steps} facts" in done.err


def test_why_a_function_does_not_reach_another(deltafix, folder: Path) -> None:
    question = ("why-not", folder / "program.dl", "-F", folder, f'reaches("{LEAF}", "{NEW}")')
    done = deltafix(*question, "--limit", 1)
    assert done.code == 0
    assert done.out.splitlines()[-1] == f'it would hold with  +calls("{LEAF}", "{NEW}")'
    assert json.loads(deltafix(*question, "--format", "json").out)["suggestions"]


@pytest.mark.parametrize(
    ("command", "fact", "message"),
    [
        ("why", f'reaches("{LEAF}", "nothing")', "error[DF681]"),  # a row that does not hold
        ("why", f'reaches("{LEAF}", X)', "column `callee` has no value"),
        ("why", 'reches("a", "b")', "did you mean 'reaches'"),
        ("why-not", f'reaches("{LEAF}", _)', "column `callee` has no value"),
        ("why-not", 'calls("a")', "calls"),
    ],
)
def test_a_question_that_is_none_is_refused(
    deltafix, folder: Path, command: str, fact: str, message: str
) -> None:
    done = deltafix(command, folder / "program.dl", "-F", folder, fact)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_watch_prints_the_calls_that_an_edit_adds(folder: Path, copy: Path, calls: Calls) -> None:
    asked = ("watch", folder / "program.dl", "-F", folder, "-r", "calls", "--all")
    with running(*asked, "--interval", "0.05") as line:
        assert {line() for _ in calls} == {f'+calls("{a}", "{b}")' for a, b in calls}
        call_new_from_report(copy)
        write_facts(folder, calls_of(copy))
        assert line() == f'+calls("{MODULE}", "{NEW}")'


def test_analyse_watch_follows_the_files_themselves(copy: Path, calls: Calls) -> None:
    with running("analyse", "call-graph", copy, "--watch") as line:
        assert len([line() for _ in calls]) == len(calls)
        call_new_from_report(copy)
        assert line() == f"changed: {REPORT.as_posix()}"
        assert line() == f'  + calls("{MODULE}", "{NEW}").'


def test_serve_answers_with_rows_and_proofs(folder: Path, calls: Calls) -> None:
    with running("serve", folder / "program.dl", "-F", folder, "--port", 0) as line:
        page = line()

        def get(path: str) -> bytes:
            with urlopen(page + path, timeout=60) as answer:  # noqa: S310  our own server
                assert answer.status == 200
                return bytes(answer.read())

        assert b"<!doctype html" in get("").lower()
        sizes = {one["name"]: one["size"] for one in json.loads(get("api/state"))["relations"]}
        assert sizes["calls"] == len(calls) < sizes["reaches"]
        caller, callee = sorted(calls)[0]
        proof = json.loads(get(f"api/why?fact=reaches(%22{caller}%22,%22{callee}%22)"))
        assert (proof["holds"], proof["text"].count("[given]")) == (True, 1)


def test_lsp_marks_what_a_save_leaves_dead(copy: Path) -> None:
    with Editor.opened(copy) as editor:
        editor.news()
        text = (copy / REPORT).read_text() + "\n\ndef _idle() -> None: ...\n"
        marks = editor.save(REPORT.as_posix(), text.encode()).marks
        assert any("report:_idle: nothing alive reaches it" in mark for mark in marks)


def split(text: str, start: str) -> tuple[list[str], list[str]]:
    """What follows `start` in the lines that begin with it, unescaped; the other lines."""
    lines = text.splitlines()
    found = [one.removeprefix(start).replace("%25", "%") for one in lines if one.startswith(start)]
    return found, [one for one in lines if not one.startswith(start)]


def test_dead_code_says_the_same_in_every_format(deltafix) -> None:
    roots = ("--roots", "entry-points", "--confidence", "likely")  # without its users
    asked = ("dead-code", PACKAGE, "-q", "--framework", "pytest", *roots)
    done = deltafix(*asked, "--format", "json")
    data = json.loads(done.out)
    assert (done.code, done.err, data["unreadable"]) == (1, "", {})
    dead = {one["symbol"] for one in data["dead"]}
    outermost = sorted(
        (one["path"], one["line"]) for one in data["dead"] if one["inside"] not in dead
    )
    results = json.loads(deltafix(*asked, "--format", "sarif").out)["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["region"]["startLine"] for place in places] == [line for _, line in outermost]
    whole, noted = split(deltafix(*asked, "--format", "github").out, "::notice title=Dead code::")
    notes, told = split(deltafix(*asked).out, "note: ")
    assert whole == notes
    assert len(noted) == len(told) == len(outermost) + 1
    for line, place, (path, number), text in zip(noted, places, outermost, told, strict=False):
        assert f"file={place['artifactLocation']['uri']}," in line
        assert text.startswith(f"{path}:{number}: ")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: no history to replay")
@pytest.mark.parametrize("name", PYTHON)
def test_churn_of_every_python_analysis_gives_a_table(deltafix, name: str) -> None:
    asked = ("churn", "--analysis", name, PACKAGE, "HEAD~2..HEAD", "--sample", "2")
    done = deltafix(*asked, "--format", "json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert (data["analysis"], len(data["commits"])) == (name, 2)
    assert data["commits"][-1]["scratch"] is not None  # and had the same answer
    assert all(one["work"]["touched"] < data["start"]["work"]["touched"] for one in data["commits"])


@pytest.mark.parametrize("name", PYTHON)
def test_analyse_of_every_python_analysis(deltafix, name: str) -> None:
    done = deltafix("analyse", name, PACKAGE)
    assert (done.code, done.err.count("skipped")) == (0, 0)
    assert done.out.count("\n") > 100


@pytest.mark.parametrize("name", ANALYSES)
def test_a_binary_file_is_skipped_with_a_reason(deltafix, name: str, tmp_path: Path) -> None:
    path = f"binary{find_analysis(name).suffixes[0]}"
    (tmp_path / path).write_bytes(b"\x7fELF\x02\x01\x00\x00\xff\xfe")
    done = deltafix("analyse", name, tmp_path)
    assert done.code == 0
    assert "binary" not in done.out  # what holds without a file may be there
    told, count = [line for line in done.err.splitlines() if "skipped" in line]
    assert ", 1 file skipped (" in count
    assert told.startswith(f"note: {path} skipped: ")
    assert len(told) > len(f"note: {path} skipped: ")


def test_a_revision_that_does_not_exist_is_told(deltafix) -> None:
    done = deltafix("churn", OWN, "no-such-revision..HEAD")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[DF67")
