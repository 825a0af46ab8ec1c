"""Ctrl-C at random moments of real commands: code 130, one line, a state as of some epoch.

The signal is held back until the command line listens for it (Python's own first 20 ms are not
ours), and comes at shares of the time that the command takes alone. `DELTAFIX_INTERRUPTS=40` tries
more moments of each.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.pipelines import Job

import deltafix
from deltafix import Program, sql
from deltafix.kernel.native import cache_folder

MOMENTS = int(os.environ.get("DELTAFIX_INTERRUPTS", "2"))

# SIGINT is blocked from the process's beginning to where the command line listens for it.
DRIVER = """
import signal
from deltafix import __main__ as process
listen = process.listen
def listening():
    listen()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
process.listen = listening
process.main()
"""

PROGRAM = """\
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
TABLES = """\
CREATE TABLE edge(x INT, y INT);
CREATE VIEW path AS WITH RECURSIVE p(x, y) AS (
    SELECT x, y FROM edge UNION SELECT p.x, edge.y FROM p JOIN edge ON p.y = edge.x
) SELECT * FROM p;
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@dataclass
class Case:
    """A command in a folder of its own, and what must hold there when it has ended."""

    arguments: list[str]
    check: Callable[[Ended], None] = lambda ended: None
    typed: str | None = None
    until: str | None = None
    """What it says when it is up, if it ends by Ctrl-C alone."""


def start(case: Case, **environment: str) -> subprocess.Popen[str]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, *case.arguments],
            stdin=subprocess.DEVNULL if case.typed is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interrupted(case: Case, seconds: float, **environment: str) -> Ended:
    """Run it, and send SIGINT after so many seconds."""
    process = start(case, **environment)
    timer = threading.Timer(seconds, process.send_signal, [signal.SIGINT])
    timer.start()
    out, err = process.communicate(case.typed, timeout=120)
    timer.cancel()
    timer.join()
    with pytest.raises(ProcessLookupError):  # nobody of its session is left
        os.killpg(process.pid, 0)
    return Ended(process.returncode, out, err)


def seconds_of(case: Case) -> float:
    """How long it takes alone; of one that ends by Ctrl-C alone, a second more than to be up."""
    began = time.perf_counter()
    process = start(case)
    if case.until is None:
        process.communicate(case.typed, timeout=120)
        assert process.returncode == 0
        return time.perf_counter() - began
    assert process.stderr is not None
    assert any(case.until in line for line in process.stderr)
    up = time.perf_counter() - began
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    return up + 1.0


def chain(rows: int) -> str:
    return "".join(f"{n}\t{n + 1}\n" for n in range(rows))


def closure(rows: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Of a chain that begins at 0."""
    assert rows == {(n, n + 1) for n in range(len(rows))}
    return {(x, y) for x in range(len(rows)) for y in range(x + 1, len(rows) + 1)}


def program(folder: Path, rows: int) -> list[str]:
    (folder / "p.dl").write_text(PROGRAM)
    (folder / "edge.facts").write_text(chain(rows))
    return [f"{folder}/p.dl", "-F", f"{folder}"]


def run(folder: Path) -> Case:
    def check(ended: Ended) -> None:
        left = sorted((folder / "out").glob("*")) if (folder / "out").exists() else []
        if ended.code == 0 or left:  # whole, or not there
            assert [one.name for one in left] == ["path.csv"]
            assert len(left[0].read_text().splitlines()) == 700 * 701 // 2

    return Case(["run", *program(folder, 700), "-D", f"{folder}/out"], check)


def script(folder: Path) -> Case:
    """A statement for each row, each its own transaction."""
    inserts = "".join(f"INSERT INTO edge VALUES ({n}, {n + 1});\n" for n in range(60))
    (folder / "s.sql").write_text(TABLES + inserts)

    def check(ended: Ended) -> None:
        if not (folder / "state").exists():
            return
        with sql.connect(folder / "state") as db:
            if not db.catalog.views:
                return
            rows = set(db.execute("SELECT * FROM edge").fetchall())
            assert set(db.execute("SELECT * FROM path").fetchall()) == closure(rows)
        shown = [int(end) for end in re.findall(r"^\+path\t0\t(\d+)\n", ended.out, re.M)]
        assert len(rows) >= max(shown, default=0), "what was shown is there"

    return Case(["sql", "--state", f"{folder}/state", f"{folder}/s.sql"], check)


def shell(folder: Path) -> Case:
    (folder / "p.dl").write_text(PROGRAM)
    typed = "".join(f"+edge({n}, {n + 1})\ncommit\n" for n in range(120))

    def check(ended: Ended) -> None:
        if not (folder / "state").exists():
            return
        with deltafix.connect(Program.parse(PROGRAM), folder / "state") as db:
            rows = set(db.rows("edge"))
            assert set(db.rows("path")) == closure(rows)
            db.check_invariants()
        shown = [int(end) for end in re.findall(r"^\+edge\(\d+, (\d+)\)$", ended.out, re.M)]
        assert len(rows) >= max(shown, default=0), "what was answered is there"

    return Case(["shell", f"{folder}/p.dl", "--state", f"{folder}/state"], check, typed)


def pipeline(folder: Path, *options: str) -> Case:
    job = Job(folder, pipeline="rows_per_epoch = 4")
    job.say("grant", ("+", ("t40", 7)))
    for n in range(0, 40, 4):
        job.say("member", *(("+", (f"t{m}", f"t{m + 1}")) for m in range(n, n + 4)))

    def check(ended: Ended) -> None:
        job.run()  # goes on where it was ended, and is checked

    return Case(["pipeline", "run", f"{job.toml}", *options], check)


def every(folder: Path) -> Case:
    case = pipeline(folder, "--every", "50ms")
    case.until = "executor"
    return case


def watch(folder: Path) -> Case:
    return Case(["watch", *program(folder, 20)], until="Ctrl-C ends")


def serve(folder: Path) -> Case:
    return Case(["serve", *program(folder, 20), "--port", "0"], until="Ctrl-C ends")


def analyse(folder: Path) -> Case:
    return Case(["analyse", "call-graph", str(Path(deltafix.__file__).parent / "store")])


@pytest.mark.parametrize(
    "make",
    [run, script, shell, pipeline, every, watch, serve, analyse],
    ids=lambda one: one.__name__,
)
def test_an_interrupt_at_any_moment_is_code_130_and_damages_nothing(make, tmp_path, warm_kernel):
    (tmp_path / "alone").mkdir()
    whole = seconds_of(make(tmp_path / "alone"))
    moments = random.Random(make.__name__)
    ended_by_it = 0
    for number in range(MOMENTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = make(folder)
        # The first while it is loading, whatever the machine.
        share = 0.0 if number == 0 else moments.random()
        ended = interrupted(case, share * whole)
        assert "Traceback" not in ended.err
        assert "error" not in ended.err
        if ended.code == 0 and case.until is None:  # it was quicker than alone
            assert "interrupted" not in ended.err
        else:
            assert ended.code == 130, ended
            assert ended.err.endswith("interrupted\n")
            assert ended.err.count("interrupted") == 1
            ended_by_it += 1
        case.check(ended)
        shutil.rmtree(folder)
    assert ended_by_it, "none came in time"


def test_an_interrupt_while_the_kernel_compiles_leaves_no_half_of_it(tmp_path, warm_kernel):
    cache = tmp_path / "cache"
    case = Case(["run", *program(tmp_path, 3), "-D", "-"])
    process = start(case, NUMBA_CACHE_DIR=str(cache))
    assert process.stderr is not None
    assert "compiling the kernel" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert not list(cache.rglob("*.o*"))
    assert cache != cache_folder()


def test_an_interrupt_between_two_steps_of_llvmlite_frees_nothing_twice(tmp_path, warm_kernel):
    """A module that was linked is LLVM's to free, which llvmlite notes after it has linked."""
    linked = """
import signal
from deltafix import __main__ as process
from llvmlite.binding import ModuleRef
detach = ModuleRef.detach
def detaching(module):
    signal.raise_signal(signal.SIGINT)
    detach(module)
ModuleRef.detach = detaching
process.main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", linked, "run", *program(tmp_path, 3), "-D", "-", "-q"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_that_python_only_prints_ends_the_process_too(tmp_path):
    """In a destructor nothing can be raised."""
    lost = """
import os, signal
from deltafix import __main__ as process
import deltafix.cli.main as line
class Broken:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
def main():
    broken = Broken()
    del broken
    while True: pass
line.main = main
process.main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", lost], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_what_an_interrupt_ended_runs_what_is_registered_and_puts_nothing_away():
    """Behind a compiled kernel Python puts away for over a second, and no thread ends it then."""
    large = """
import atexit, signal
from deltafix import __main__ as process
import deltafix.cli.main as line
class Large:
    def __del__(self):
        print("put away", flush=True)
def main():
    global large
    large = Large()
    atexit.register(print, "registered")
    signal.raise_signal(signal.SIGINT)
line.main = main
process.main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", large], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "registered\n", "interrupted\n")


NEVER_LOOKS = """
import hashlib, signal, sys, threading
from deltafix import __main__ as process
import deltafix.cli.main as line
from deltafix.interrupt import answer_oneself
def main():
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
    if sys.argv[1:] == ["prompt"]:
        answer_oneself()
        rounds = 5_000_000  # some seconds
    else:
        rounds = 2_000_000_000  # some minutes
    try:
        hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)
    except KeyboardInterrupt:
        print("caught")
    raise SystemExit(0)
line.main = main
process.main()
"""


def test_a_call_of_c_that_goes_on_does_not_keep_the_process():
    """Signals are handled between two steps of Python; that call is one."""
    ran = subprocess.run(
        [sys.executable, "-c", NEVER_LOOKS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_a_prompt_answers_when_the_call_is_over():
    ran = subprocess.run(
        [sys.executable, "-c", NEVER_LOOKS, "prompt"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "caught\n", "")


def test_a_module_that_an_interrupt_broke_off_is_an_interrupt(tmp_path):
    """C extensions say ImportError then."""
    broken = """
from deltafix import __main__ as process
import deltafix.cli.versions as versions
def show_versions():
    "Fail."
    try:
        import signal
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise ImportError("cannot load") from error
versions.show_versions = show_versions
process.main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", broken, "show-versions"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


def test_where_a_shell_has_it_ignored_it_stays_ignored():
    ignoring = """
import signal
from deltafix import __main__ as process
import deltafix.cli.main as line
signal.signal(signal.SIGINT, signal.SIG_IGN)
def main():
    signal.raise_signal(signal.SIGINT)
    raise SystemExit(3)
line.main = main
process.main()
"""
    ran = subprocess.run([sys.executable, "-c", ignoring], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (3, b"")


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")],
)
def test_a_signal_while_an_output_is_written_leaves_nothing_of_it(tmp_path, number, code, said):
    """As a scheduler ends a job that takes too long: no half of a file stays, hidden or not."""
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("".join(f"{n}\t{n + 1}\n" for n in range(1500)))
    out = tmp_path / "out"
    process = start(
        Case(["run", "-q", str(tmp_path / "p.dl"), "-F", str(tmp_path), "-D", str(out)])
    )
    try:
        until = time.monotonic() + 120
        while not [*out.glob(".path.csv.*")] and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, err) == (code, said)
    assert [*out.iterdir()] == []
