"""Reducers under load: sum and min per key, one row at a time and in bulk, beside their peers.

    python -m bench.reactive [--rows 1000000] [--keys 100000] [--edits 20000] [--json]

Data come from a fixed seed. Every contender loads the same rows, then replaces single values; the
clock runs around loading and around each replacement with its epoch. Times of the first change at
a key and of later ones are kept apart: a loaded table is taken apart key by key as keys change. All
must end with the same sums and minima. Peers run where they are found: Node's `@electric-sql/d2ts`
and `@skipruntime` are installed by npm into the bench cache on first use, Pathway comes from the
cache's `peers-venv` (`python -m bench --setup`); a peer that is missing or too slow says so.
Targets (1M rows, 100k keys): p50 at most 5 µs with built-in reducers, 15 µs with a user-written
one, bulk load at least 5M rows/s. What limits the figures: `bench/notes/reactive.md`.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.peers.base import installed
from bench.workload import cache_folder
from deltafix.reactive import Collection, Min, Partial, Reducer, Sum, WellFormed

Ints = npt.NDArray[np.int64]
Reducers = tuple[Reducer[Any, Any, Any], Reducer[Any, Any, Any]]

# Versions that npm resolves together: later wasm packages ask for a core that is not published.
PACKAGES = {
    "d2ts": ("@electric-sql/d2ts@0.1.8",),
    "skip": ("@skipruntime/core@0.0.15", "@skipruntime/wasm@0.0.15"),
}
# Peers load this many rows at most and make this many edits: d2ts needs minutes for a million
# rows, Pathway milliseconds for an epoch.
PEER_ROWS = 100_000
PEER_EDITS = 2_000
LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Figures:
    """One contender: rows per second of loading, microseconds per replaced value.

    `first_us` is the median of the first change at a key, the others are of later changes.
    """

    name: str
    rows: int
    load_rows_per_second: float
    p50_us: float
    p99_us: float
    first_us: float
    answer: tuple[int, int]


class UserSum(WellFormed[int, int, int]):
    """A sum as a user writes it."""

    initial = 0

    def add(self, acc: int, value: int) -> int:
        return acc + value

    def remove(self, acc: int, value: int) -> int:
        return acc - value


class UserMin(Partial[int, float, float]):
    """A minimum as a user writes it: recomputed when it leaves."""

    initial = float("inf")

    def add(self, acc: float, value: int) -> float:
        return min(acc, value)

    def remove(self, acc: float, value: int) -> float | None:
        return None if value == acc else acc


def data(rows: int, keys: int, edits: int) -> tuple[Ints, Ints, Ints]:
    """Keys and values per row, and edits (key, old value, new value): two for each picked row."""
    chance = np.random.default_rng(6)
    at = chance.integers(0, keys, rows)
    values = chance.integers(0, 10**6, rows)
    picked = chance.choice(rows, min(edits, rows), replace=False)
    once, again = chance.integers(0, 10**6, (2, len(picked)))
    first = np.column_stack([at[picked], values[picked], once])
    return at, values, np.concatenate([first, np.column_stack([at[picked], once, again])])


def ours(name: str, reducers: Reducers, at: Ints, values: Ints, edits: Ints) -> Figures:
    """deltafix with these two reducers; loads an Arrow table, then `update` per edit.

    The load is the median of three, each into collections of its own.
    """
    table = pa.table({"key": at, "value": values})
    loads = []
    for _ in range(3):
        source = Collection.input(key=int, value=None)
        sums, mins = (source.reduce(reducer) for reducer in reducers)
        gc.collect()
        start = time.perf_counter()
        source.load(table, key="key")
        loads.append(time.perf_counter() - start)
    times = []
    for key, old, new in edits.tolist():
        begin = time.perf_counter()
        source.update(key, old, new)
        times.append(time.perf_counter() - begin)
    answer = (sum(v for _, v in sums.items()), int(sum(v for _, v in mins.items())))
    return _figures(name, len(at), statistics.median(loads), times, (edits, answer))


def _node(peer: str) -> list[str] | str:
    """How to start a peer in Node, or why it does not run."""
    npm, program = shutil.which("npm"), shutil.which("node")
    if npm is None or program is None:
        return "Node is not installed"
    folder = _folder(peer)
    if not (folder / "node_modules").is_dir():
        (folder / "package.json").write_text('{"private": true}')
        command = [npm, "install", "--silent", *PACKAGES[peer]]
        if subprocess.run(command, cwd=folder, check=False).returncode:
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            return f"npm cannot install {' '.join(PACKAGES[peer])}"
    return [program, "--max-old-space-size=8192", str(_script(f"reactive_{peer}.mjs"))]


def _pathway() -> list[str] | str:
    """How to start Pathway, or why it does not run."""
    own = cache_folder() / "peers-venv" / "bin" / "python"
    python = sys.executable if installed("pathway") else str(own)
    if not Path(python).is_file():
        return "not installed; python -m bench --setup does it"
    return [python, str(_script("reactive_pathway.py"))]


def _folder(peer: str) -> Path:
    folder = cache_folder() / f"reactive-{peer}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _script(name: str) -> Path:
    return Path(__file__).with_name(name)


def other(peer: str, at: Ints, values: Ints, edits: Ints) -> Figures | str:
    """A peer in a process of its own, or why it did not run."""
    command = _pathway() if peer == "pathway" else _node(peer)
    if isinstance(command, str):
        return command
    folder = _folder(peer)
    for name, numbers in (("keys", at), ("values", values), ("edits", edits)):
        numbers.astype("<i8").tofile(folder / f"{name}.i64")
    try:
        done = subprocess.run(
            [*command, str(folder)],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT_SECONDS} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}"
    found = json.loads(done.stdout.strip().splitlines()[-1])
    sums, mins = found["answer"]
    return _figures(peer, len(at), found["load"], found["times"], (edits, (sums, mins)))


def _figures(
    name: str, rows: int, load: float, times: list[float], end: tuple[Ints, tuple[int, int]]
) -> Figures:
    edits, answer = end
    _, firsts = np.unique(edits[:, 0], return_index=True)
    taken = np.array(times) * 1e6
    first = np.zeros(len(taken), dtype=bool)
    first[firsts] = True
    p50, p99 = (float(np.percentile(taken[~first], q)) for q in (50, 99))
    return Figures(name, rows, rows / load, p50, p99, float(np.median(taken[first])), answer)


def run(rows: int, keys: int, edits: int, peers: bool = True) -> list[Figures | tuple[str, str]]:
    """All contenders on one data set; peers on a tenth of it, with deltafix again."""
    results: list[Figures | tuple[str, str]] = []
    given = data(rows, keys, edits)
    # Once unmeasured, so that no contender pays for imports.
    ours("warm-up", (Sum(), Min()), *data(1000, 100, 100))
    results.append(ours("deltafix, built-in", (Sum(), Min()), *given))
    results.append(ours("deltafix, built-in, Min(partial)", (Sum(), Min(partial=True)), *given))
    results.append(ours("deltafix, user-written", (UserSum(), UserMin()), *given))
    few = min(rows // 10, PEER_ROWS)
    given = data(few, max(keys * few // rows, 1), min(edits, PEER_EDITS))
    results.append(ours("deltafix, built-in", (Sum(), Min()), *given))
    results.append(ours("deltafix, user-written", (UserSum(), UserMin()), *given))
    for peer in ("pathway", *PACKAGES) if peers else ():
        found = other(peer, *given)
        results.append((peer, found) if isinstance(found, str) else found)
    return results


def disagreements(results: list[Figures | tuple[str, str]]) -> list[str]:
    """Contenders on the same number of rows that end with different answers."""
    wrong = []
    first: dict[int, Figures] = {}
    for one in results:
        if isinstance(one, Figures):
            other = first.setdefault(one.rows, one)
            if one.answer != other.answer:
                wrong.append(f"{one.name} ends with {one.answer}, {other.name} with {other.answer}")
    return wrong


def main() -> int:
    """Run and print; 1 if contenders disagree."""
    parser = argparse.ArgumentParser(prog="python -m bench.reactive")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--edits", type=int, default=20_000)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = run(given.rows, given.keys, given.edits, not given.no_peers)
    if given.json:
        sys.stdout.write(json.dumps([asdict(r) if isinstance(r, Figures) else r for r in results]))
    else:
        sys.stdout.write(
            "| contender | rows | load, rows/s | update p50 | p99 | first at its key, p50 |\n"
            "|---|---|---|---|---|---|\n"
        )
        for one in results:
            if isinstance(one, Figures):
                sys.stdout.write(
                    f"| {one.name} | {one.rows:,} | {one.load_rows_per_second:,.0f} "
                    f"| {one.p50_us:.1f} µs | {one.p99_us:.1f} µs | {one.first_us:.1f} µs |\n"
                )
            else:
                sys.stdout.write(f"| {one[0]} | {one[1]} | | | | |\n")
    wrong = disagreements(results)
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
