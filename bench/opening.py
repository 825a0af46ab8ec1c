"""Opening a state: from its image, from an image and a tail of the log, and by deriving.

    python -m bench.opening [--nodes 3000] [--tail 200]

The state is the transitive closure of an R-MAT graph: millions of derived rows from thousands of
given ones. It is made, left with an image, and opened in new processes with the file cache warm;
each answers one question and sums all rows of the closure, and the sums must agree: else the exit
code is 1. Prints Markdown, processor seconds beside those of the clock. Not here: edits
(`bench.workloads`), Python's start (`bench.cold`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import deltafix
from bench.graphs import rmat
from bench.workload import answer

__all__ = ["main"]

PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def _warm() -> None:
    """Load compiled code and pyarrow before the clock starts; `bench.cold` measures that."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            with deltafix.connect(PROGRAM, folder, fsync="never") as db, db.transaction() as tx:
                tx.insert("edge", [(db.epoch, 1)])


def _spent() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _make(state: Path, nodes: int, tail: int) -> dict[str, Any]:
    """A state with an image, and an image's tail; seconds of the load and of the image."""
    _warm()
    edges = rmat(nodes, 5 * nodes, seed=nodes)
    db = deltafix.connect(PROGRAM, state / "whole", fsync="never")
    clock, spent = _spent()
    with db.transaction() as tx:
        tx.insert("edge", edges)
    load = time.perf_counter() - clock, time.process_time() - spent
    clock, spent = _spent()
    db.close()
    found: dict[str, Any] = {
        "load": load,
        "leave the image": (time.perf_counter() - clock, time.process_time() - spent),
        "rows": 0,
        "bytes": (state / "whole" / "image").stat().st_size,
    }
    image = (state / "whole" / "image").read_bytes()
    with deltafix.connect(PROGRAM, state / "whole", fsync="never") as db:
        found["rows"] = db.count("path")
        for x, y in edges[:tail].tolist():
            with db.transaction() as tx:
                tx.delete("edge", [(x, y)])
    (state / "whole" / "image").write_bytes(image)
    return found


def _open(state: Path) -> dict[str, Any]:
    _warm()
    clock, spent = _spent()
    db = deltafix.connect(PROGRAM, state, fsync="never")
    rows = db.select("path", (0, ...))
    seconds = time.perf_counter() - clock, time.process_time() - spent
    derivations = db.last_epoch.derivations
    clock, spent = _spent()
    with db.transaction() as tx:
        tx.insert("edge", [(1 << 29, 1 << 29)])
    edit = time.perf_counter() - clock, time.process_time() - spent
    with db.transaction() as tx:
        tx.delete("edge", [(1 << 29, 1 << 29)])
    count, hashed = answer(np.array(db.rows("path"), dtype=np.int64))
    return {
        "seconds": seconds, "edit": edit, "answer": [len(rows), count, hashed],
        "derivations": derivations, "told": list(db.recovered),
    }  # fmt: skip


def _apart(*arguments: str) -> Any:
    """What a process of its own prints."""
    command = [sys.executable, "-m", "bench.opening", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Run the bench, or one of its parts in this process; give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.opening")
    parser.add_argument("--nodes", type=int, default=3000)
    parser.add_argument("--tail", type=int, default=200)
    parser.add_argument("--make", type=Path)
    parser.add_argument("--open", type=Path)
    args = parser.parse_args(arguments)
    if args.make is not None:
        print(json.dumps(_make(args.make, args.nodes, args.tail)))
        return 0
    if args.open is not None:
        print(json.dumps(_open(args.open)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sizes = ["--nodes", str(args.nodes), "--tail", str(args.tail)]
        made = _apart("--make", folder, *sizes)
        state = home / "whole"
        tail = _apart("--open", str(state))
        (state / "image").unlink(missing_ok=True)
        derived = _apart("--open", str(state))
        # An image of the last epoch: the state is opened and closed once more.
        with deltafix.connect(PROGRAM, state, fsync="never"):
            pass
        mapped = _apart("--open", str(state))
    print(f"The closure of an R-MAT graph, {made['rows']:,} rows, image {made['bytes']:,} bytes.\n")
    print("| what | clock | processor | derivations | first edit |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (clock, spent) in ((n, made[n]) for n in ("load", "leave the image")):
        print(f"| {name} | {clock:.3f} s | {spent:.3f} s | | |")
    routes = {
        "open, deriving": derived,
        f"open an image and {args.tail} epochs": tail,
        "open an image": mapped,
    }
    for name, found in routes.items():
        (clock, spent), edit, work = found["seconds"], found["edit"][1], found["derivations"]
        print(f"| {name} | {clock:.3f} s | {spent:.3f} s | {work:,} | {edit * 1e6:.0f} µs |")
        if found["told"]:
            print(f"\n{name}: {'; '.join(found['told'])}", file=sys.stderr)
    differ = len({json.dumps(found["answer"]) for found in routes.values()}) > 1
    if differ:
        print("routes differ", file=sys.stderr)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
