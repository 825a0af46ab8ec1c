"""The pipeline on one machine: ingest, small epochs on a large graph, and what they stand beside.

Prints Markdown: signed rows per second from Parquet into the engine; an epoch of 10 changes on a
graph of 5 million edges, end to end and by stage; the same answer by a rebuild and by a loop of
Spark joins. Exits with 1 if the answers differ. `--quick` shrinks everything, `--no-spark` leaves
the loop out.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import deltafix
from bench.graphs import Ints, pick_roots, rmat
from deltafix.pipeline.config import read_config
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.runner import Pipeline

REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.input edge, root
.decl reach(x: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""
PLAIN = ".decl edge(x: number, y: number)\n.input edge\n"
INPUT = '[input.{0}]\nsource = "files"\nformat = "parquet"\npath = "in/{0}"\n'
EPOCHS = 20
CHANGES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Sizes of further epochs, to hold against the rebuild and the loop."""


def write(
    folder: Path, relation: str, number: int, rows: Ints, signs: Ints, *, wide: int = 0
) -> None:
    """A change file; with `wide`, values are names that so many numbers share."""
    path = folder / "in" / relation
    path.mkdir(parents=True, exist_ok=True)
    names = ("x", "y")[: rows.shape[1]]
    columns: dict[str, Any] = {name: rows[:, place] for place, name in enumerate(names)}
    if wide:
        columns = {
            name: pc.binary_join_element_wise("node-", pa.array(values // wide).cast("string"), "")
            for name, values in columns.items()
        }
    pq.write_table(pa.table({"sign": signs.astype(np.int8), **columns}), path / f"{number}.parquet")


@contextmanager
def pipeline(program: str, inputs: tuple[str, ...], output: str = "") -> Iterator[tuple[Path, str]]:
    """A folder with a pipeline file of these inputs."""
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        folder = Path(name)
        (folder / "p.dl").write_text(program)
        text = '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = 100000000\n'
        text += "".join(INPUT.format(one) for one in inputs)
        text += f'[output.{output}]\npath = "out"\n' if output else ""
        (folder / "p.toml").write_text(text)
        yield folder, str(folder / "p.toml")


def stages(epoch: Epoch) -> str:
    """Seconds by stage, as text."""
    return ", ".join(f"{name} {seconds:.3f}" for name, seconds in epoch.seconds.items())


def ingest(rows: int, filled: int, *, names: bool) -> Iterator[str]:
    """Inserts into a state of `filled` rows, then as many changes of each kind.

    Mixed: half take rows out. Repeated: each row twice in the batch, half of them with both signs.
    With `names`, columns are text, a tenth as many names as numbers.
    """
    rng = np.random.default_rng(8)
    below = np.unique(rng.integers(0, rows, (filled, 2)), axis=0)
    # The second column tells what a row is: there at first, loaded, or fresh.
    edges = np.unique(rng.integers(0, rows, (rows, 2)), axis=0) + np.array([0, 2 * rows])
    rng.shuffle(edges)
    half, quarter = len(edges) // 2, len(edges) // 4
    fresh = edges[:half] + np.array([0, 2 * rows])
    mixed, signs = np.vstack([edges[:half], fresh]), np.repeat([-1, 1], half)
    some = edges[half : half + quarter]
    others = some + np.array([0, 4 * rows])
    twice = np.vstack([some, others, some, others])
    both = np.repeat([-1, 1, 1, 1], quarter)
    order, again = rng.permutation(len(mixed)), rng.permutation(len(twice))
    wide = 10 if names else 0
    columns = "symbols" if names else "numbers"
    with pipeline(PLAIN.replace("number", columns[:-1]), ("edge",)) as (folder, file):
        (folder / "in" / "edge").mkdir(parents=True)
        with Pipeline(read_config(file)) as opened:
            list(opened.drain())
            if filled:
                write(folder, "edge", 0, below, np.ones(len(below), np.int64), wide=wide)
                list(opened.drain())
            for number, what, part, sign in (
                (1, "inserts", edges, np.ones(len(edges), np.int64)),
                (2, "inserts and deletes, mixed", mixed[order], signs[order]),
                (3, "rows twice, of both signs", twice[again], both[again]),
            ):
                write(folder, "edge", number, part, sign, wide=wide)
                began, busy = time.perf_counter(), time.process_time()
                (epoch,) = opened.drain()
                seconds, busy = time.perf_counter() - began, time.process_time() - busy
                yield (
                    f"| {columns}, {what} | {len(below):,} | {len(part):,} | {seconds:.2f} s "
                    f"({busy:.2f}) | {len(part) / seconds / 1e6:.2f} M/s | {stages(epoch)} |"
                )


def epochs(nodes: int, edges: int, spark: bool) -> Iterator[str]:
    """Small epochs on a large graph, a rebuild, and the loop of joins."""
    graph = np.unique(rmat(nodes, edges, seed=edges), axis=0)
    roots = pick_roots(nodes, graph, 10, seed=edges + 1)
    rng = np.random.default_rng(9)
    with pipeline(REACH, ("edge", "root"), "reach") as (folder, file):
        write(folder, "edge", 0, graph, np.ones(len(graph), np.int64))
        write(folder, "root", 0, roots.reshape(-1, 1), np.ones(len(roots), np.int64))
        with Pipeline(read_config(file)) as opened:
            list(opened.drain())
            picks = rng.choice(len(graph), 5 * EPOCHS, replace=False)
            taken: list[float] = []
            done: list[Epoch] = []
            signs = np.repeat([-1, 1], 5)
            added = []
            for turn in range(EPOCHS):
                out = graph[picks[5 * turn : 5 * turn + 5]]
                new = np.column_stack([rng.integers(0, nodes, 5), nodes + rng.integers(0, 9, 5)])
                added.append(new)
                write(folder, "edge", turn + 1, np.vstack([out, new]), signs)
                began = time.perf_counter()
                done += opened.drain()
                taken.append(time.perf_counter() - began)
            own = [sum(one.seconds[name] for name in ("edit", "engine")) for one in done]
            middle = sorted(done, key=lambda one: sum(one.seconds.values()))[len(done) // 2]
            yield (
                f"| epoch of 10 changes, median of {EPOCHS} | {statistics.median(taken):.3f} s | "
                f"edit and engine {statistics.median(own):.3f} s; {stages(middle)} |"
            )
            left = rng.permutation(np.setdiff1d(np.arange(len(graph)), picks))
            by_size: list[tuple[int, float, float]] = []
            for number, size in enumerate(one for one in CHANGES if one <= len(left)):
                gone, left = left[: -(-size // 2)], left[-(-size // 2) :]
                picks = np.concatenate([picks, gone])
                count = size // 2
                leaves = nodes + 1000 + size + np.arange(count)  # no edge of another epoch
                added.append(np.column_stack([rng.integers(0, nodes, count), leaves]))
                changed = np.vstack([graph[gone], added[-1]])
                signs = np.repeat([-1, 1], [len(gone), count])
                write(folder, "edge", EPOCHS + 1 + number, changed, signs)
                began = time.perf_counter()
                last = list(opened.drain())
                took = time.perf_counter() - began
                mine = sum(one.seconds[name] for one in last for name in ("edit", "engine"))
                by_size.append((size, took, mine))
            answer = opened.maintainer.db.count("reach")
        now = np.vstack([np.delete(graph, picks, axis=0), *added])
        now = np.unique(now, axis=0)
        began = time.perf_counter()
        with deltafix.connect(REACH) as db:
            with db.transaction() as tx:
                tx.insert("root", roots.reshape(-1, 1))
                tx.insert("edge", now)
            rebuilt = time.perf_counter() - began
            yield f"| rebuild from arrays, in memory | {rebuilt:.3f} s | |"
            assert db.count("reach") == answer, "the rebuild differs"
        looped = 0.0
        if spark:
            looped, steps = loop(now, roots, answer)
            yield f"| loop of Spark joins, local[2] | {looped:.1f} s | {steps} steps |"
        for size, took, mine in by_size:
            ratios = f"edit and engine {mine:.4f} s; rebuild {rebuilt / took:,.1f} times as long"
            ratios += f", loop {looped / took:,.1f} times" if looped else ""
            yield f"| epoch of {size:,} changes | {took:.3f} s | {ratios} |"


def loop(edges: Ints, roots: Ints, answer: int) -> tuple[float, int]:
    """Recomputation by Spark: joins until nothing new comes, lineage cut at each step.

    Returns seconds and steps.
    """
    from pyspark.sql import functions as f

    from deltafix.spark.session import spark_session

    with tempfile.TemporaryDirectory() as name, spark_session(master="local[2]") as session:
        path = f"{name}/edges.parquet"
        pq.write_table(pa.table({"x": edges[:, 0], "y": edges[:, 1]}), path)
        began = time.perf_counter()
        frame = session.read.parquet(path).cache()
        known = delta = session.createDataFrame([(int(one),) for one in roots], "x long")
        steps = 0
        while True:
            found = delta.join(frame, "x").select(f.col("y").alias("x")).distinct()
            delta = found.join(known, "x", "left_anti").localCheckpoint()
            steps += 1
            if delta.isEmpty():
                break
            known = known.unionByName(delta).localCheckpoint()
        count = known.count()
        seconds = time.perf_counter() - began
        assert count == answer, f"the loop has {count}, the pipeline {answer}"
        return seconds, steps


def main(arguments: list[str]) -> int:
    """Everything, as Markdown."""
    quick = "--quick" in arguments
    out = sys.stdout
    out.write(f"Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n\n")
    out.write(
        "| ingest from Parquet | rows there | signed rows | time (CPU) | rate | stages, s |\n"
    )
    out.write("| --- | --- | --- | --- | --- | --- |\n")
    rows = 100_000 if quick else 2_000_000
    for names in (False, True):
        for filled in (0, 5 * rows // 2):
            for line in ingest(rows, filled, names=names):
                out.write(line + "\n")
                out.flush()
    size = (20_000, 100_000) if quick else (1_000_000, 5_000_000)
    out.write(f"\n| reach on {size[1]:,} edges | time | of which |\n| --- | --- | --- |\n")
    try:
        for line in epochs(*size, spark="--no-spark" not in arguments):
            out.write(line + "\n")
            out.flush()
    except AssertionError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
