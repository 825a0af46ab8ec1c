"""The `cold` workload: a new process imports deltafix, opens a ten-line program, runs one epoch.

Measured from outside, interpreter start included: several runs with the kernel's object on disk,
one of a package as a wheel with an object leaves it, and one that compiles. `python -m bench.cold`
prints them. Not here: steady state, which every other workload measures.
"""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltafix

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


_COUNT = "\nimport sys; print('numba' in sys.modules)"


@dataclass
class _Start:
    """One process, from outside: seconds by the clock and of the processor."""

    seconds: float
    processor: float
    imports_numba: bool


def _once(limit: float, **variables: str) -> _Start:
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    spent = _spent()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + _COUNT],
        capture_output=True,
        text=True,
        timeout=limit,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return _Start(time.perf_counter() - start, _spent() - spent, done.stdout.strip() == "True")


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _as_installed(cache: Path, target: Path) -> None:
    """Put the package where a wheel would, with the object from a cache and with bytecode."""
    package = target / "deltafix"
    shutil.copytree(
        Path(deltafix.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(cache, package / "kernel" / "objects")
    compileall.compile_dir(package, quiet=1)


def measure(runs: int = 7, limit: float = 300) -> dict[str, Any]:
    """What was measured, to seconds; `skipped` on failure."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    bare = time.perf_counter() - start
    try:
        with tempfile.TemporaryDirectory() as folder:
            cache, installed = Path(folder, "cache"), Path(folder, "installed")
            compiled = _once(limit, NUMBA_CACHE_DIR=str(cache))
            _as_installed(cache, installed)
            first = _once(limit, PYTHONPATH=str(installed), NUMBA_CACHE_DIR=str(Path(folder, "no")))
        _once(limit)
        warm = [_once(limit) for _ in range(runs)]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"skipped": str(error)}
    if first.imports_numba or warm[0].imports_numba or not compiled.imports_numba:
        return {"skipped": "numba is imported where no kernel is compiled, or the other way round"}
    return {
        "warm": statistics.median(found.seconds for found in warm),
        "warm, processor, least": min(found.processor for found in warm),
        "first, with a wheel's object": first.seconds,
        "first, with a wheel's object, processor": first.processor,
        "compile": compiled.seconds,
        "bare interpreter with numpy": bare,
    }


if __name__ == "__main__":
    for name, figure in measure().items():
        print(f"{name:42} {figure:.2f}" if isinstance(figure, float) else f"{name}: {figure}")
