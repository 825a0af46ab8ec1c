"""A process that ends: whoever of it started a session, it neither waits for it nor leaves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

HANGS = 300
"""So many seconds no ending takes; a process that hangs waits forever."""

TEXT = """\
[pipeline]
program = "p.dl"
state = "state"
[input.edge]
source = "files"
path = "in"
[output.node]
sink = "delta"
path = "out"
[spark]
master = "local[1]"
"""

RULES = """\
.decl edge(x: symbol, n: number)
.input edge
.decl node(x: symbol)
.output node
node(x) :- edge(x, _).
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False,
        timeout=HANGS,
    )  # fmt: skip


def test_a_run_that_cannot_open_its_target_ends_with_the_error(tmp_path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.dl").write_text(RULES)
    (tmp_path / "p.toml").write_text(TEXT)
    done = run(tmp_path, "-m", "deltafix", "pipeline", "run", "p.toml", "--quiet")
    assert done.returncode == 2, done.stderr
    assert "this Spark has no Delta" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_session_that_nobody_closed_is_stopped_at_the_end(tmp_path) -> None:
    code = """
from deltafix.spark.session import spark_session
held = spark_session(master="local[1]")
print(held.__enter__().conf.get("spark.master"))
"""
    (tmp_path / "job.py").write_text(code)
    done = run(tmp_path, "job.py")
    assert (done.returncode, done.stdout) == (0, "local[1]\n"), done.stderr


INTERRUPTED = """\
import os, signal
from deltafix.spark.session import spark_session
with spark_session(master="local[1]"):
    during = signal.getsignal(signal.SIGINT)
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    print("interrupted", during is signal.default_int_handler)
"""


def test_ctrl_c_is_pythons_again_once_the_session_has_ended(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", INTERRUPTED)
    assert ended.stdout.strip() == "interrupted False", ended.stderr
