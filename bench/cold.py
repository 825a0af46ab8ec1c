"""The `cold` workload: a new process imports deltafix, opens a ten-line program, runs one epoch.

Measured from outside, interpreter start included: the median of several runs with a warm compile
cache, and one run with an empty one. Not here: steady state, which every other workload measures.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["measure"]

PROGRAM = """
import deltafix
program = deltafix.Program.parse('''
.decl edge(x: symbol, y: symbol)
.decl root(x: symbol)
.decl reach(x: symbol)
.decl dead(x: symbol)
.input edge
.input root
.output reach
.output dead
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
dead(y) :- edge(_, y), !reach(y).
''')
with deltafix.connect(program) as db:
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c"), ("d", "e")])
        tx.insert("root", [("a",)])
    assert db.rows("reach") == [("a",), ("b",), ("c",)], db.rows("reach")
    assert db.rows("dead") == [("e",)], db.rows("dead")
"""


def _once(cache: Path | None, seconds: float) -> float:
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return time.perf_counter() - start


def measure(runs: int = 7, seconds: float = 300) -> dict[str, Any]:
    """`warm` and `compile` in seconds, `python` for a bare interpreter; `skipped` on failure."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    bare = time.perf_counter() - start
    try:
        with tempfile.TemporaryDirectory() as cache:
            compiled = _once(Path(cache), seconds)
        _once(None, seconds)
        warm = statistics.median(_once(None, seconds) for _ in range(runs))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"skipped": str(error)}
    return {"warm": warm, "compile": compiled, "bare interpreter with numpy": bare}
