"""Sharded execution on Spark against a DataFrame loop: `python -m bench.shards closure 1200 2 4 8`.

Lives here: workloads (closure of a random graph and reach from ten roots, which decompose, and
reach from one root, which does not), their DataFrame loop, and one line a measurement:
supersteps, messages and bytes between shards, seconds for the load and the median of five deletes
of one edge. Every route's answer is counted and must agree. Not here: how the engine does on one
machine (`bench.run`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import deltafix
from deltafix.facts.delta import Delta
from deltafix.spark.session import spark_session
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOSURE = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl out(x: number, y: number)
out(x, y) :- edge(x, y).
out(x, z) :- out(x, y), edge(y, z).
"""
REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl out(x: number)
out(x) :- root(x).
out(y) :- out(x), edge(x, y).
"""
ROOTED = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl out(r: number, y: number)
out(r, r) :- root(r).
out(r, y) :- out(r, x), edge(x, y).
"""
PROGRAMS = {"closure": CLOSURE, "reach": REACH, "rooted": ROOTED}
DELETES = 5
ROOTS = 10


def main() -> None:
    """Run one workload with the numbers of shards that are given, then the loop."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("workload", choices=[*PROGRAMS])
    parser.add_argument("nodes", type=int)
    parser.add_argument("shards", type=int, nargs="+")
    parser.add_argument("--degree", type=float, default=2.0)
    parser.add_argument("--no-loop", action="store_true", help="leave the DataFrame loop out")
    asked = parser.parse_args()
    program = PROGRAMS[asked.workload]
    roots = ROOTS if asked.workload == "rooted" else 1
    rng = np.random.default_rng(1)
    edges = np.unique(rng.integers(0, asked.nodes, (int(asked.nodes * asked.degree), 2)), axis=0)
    gone = edges[rng.choice(len(edges), DELETES, replace=False)]
    print(f"{asked.workload}: {asked.nodes:,} nodes, {len(edges):,} edges")
    with tempfile.TemporaryDirectory() as folder, spark_session(master="local[2]") as session:
        path = str(Path(folder) / "edge.parquet")
        parquet.write_table(pa.table({"x": edges[:, 0], "y": edges[:, 1]}), path)
        answer = one_engine(program, edges, gone, roots)
        session.range(1).count()
        for shards in asked.shards:
            state = Path(folder) / f"state-{shards}"
            with ShardedDatabase(
                program, session, shards=shards, state=state, executor="shards"
            ) as db:
                in_shards(db, session.read.parquet(path), roots, gone, answer)
        if not asked.no_loop:
            with timed("DataFrame loop") as note:
                found = loop(session.read.parquet(path), asked.workload)
                note.append(f"{found[1]} iterations")
            require(found[0], answer[0])


def one_engine(program: str, edges: Any, gone: Any, roots: int) -> tuple[int, int]:
    """The counts after the load and after the deletes, from one engine in this process."""
    db = deltafix.connect(program)
    with timed("one engine, load"), db.transaction() as tx:
        tx.insert("root", [(n,) for n in range(roots)])
        tx.insert("edge", edges)
    loaded = db.count("out")
    seconds = []
    for edge in gone.tolist():
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.delete("edge", [tuple(edge)])
        seconds.append(time.perf_counter() - began)
    print(f"  one engine, delete: {statistics.median(seconds):.4f} s; {loaded:,} rows")
    return loaded, db.count("out")


def in_shards(
    db: ShardedDatabase, edges: DataFrame, roots: int, gone: Any, answer: tuple[int, int]
) -> None:
    """Load and delete in shards; every delta's count is held against the engine's."""
    label = f"{(db.layout.shuffles and 'general') or 'no shuffle'}, {db.shards} shards"
    with timed(f"{label}, load") as note:
        changes = db.apply({"edge": edges, "root": edges.sparkSession.range(roots)})
        note.append(show(db))
    count = changes["out"].count()
    require(count, answer[0])
    seconds = []
    for edge in gone.tolist():
        began = time.perf_counter()
        delta = db.apply(Delta.of({"edge": ([], [tuple(edge)])}, db.schemas.values()))
        seconds.append(time.perf_counter() - began)
        count -= len(delta["out"].removed)
    require(count, answer[1])
    print(f"  {label}, delete: {statistics.median(seconds):.2f} s; last: {show(db)}")


def show(db: ShardedDatabase) -> str:
    """What the last epoch cost."""
    work = db.work
    return (
        f"{work.supersteps} supersteps, {work.messages:,} messages, {work.bytes:,} bytes, "
        f"{work.loads} shards read from files"
    )


def loop(edges: DataFrame, workload: str) -> tuple[int, int]:
    """The semi-naive DataFrame loop: join, leave out what is known, cut the lineage, count."""
    from pyspark.sql import functions as f

    step = edges.select(f.col("x").alias("y"), f.col("y").alias("z")).localCheckpoint()
    if workload == "closure":
        keys = ["x", "y"]
        new = edges.distinct().localCheckpoint()
    elif workload == "rooted":
        keys = ["x", "y"]
        given = edges.sparkSession.range(ROOTS).select(f.col("id").alias("x"))
        new = given.withColumn("y", f.col("x")).localCheckpoint()
    else:
        keys = ["y"]
        new = edges.sparkSession.createDataFrame([(0,)], "y long").localCheckpoint()
    known, total, rounds = new, new.count(), 0
    while True:
        rounds += 1
        columns = [c for c in keys if c != "y"]
        found = new.join(step, "y").select(*columns, f.col("z").alias("y")).distinct()
        new = found.join(known, keys, "left_anti").localCheckpoint()
        count = new.count()
        if count == 0:
            return total, rounds
        total += count
        known = known.unionByName(new).localCheckpoint()


def require(found: int, wanted: int) -> None:
    """Stop when a route gives another answer."""
    if found != wanted:
        raise SystemExit(f"wrong answer: {found:,} rows, not {wanted:,}")


@contextmanager
def timed(what: str) -> Iterator[list[str]]:
    """Print how long a block took, with the machine's load, and what it noted."""
    notes: list[str] = []
    began = time.perf_counter()
    yield notes
    seconds = time.perf_counter() - began
    print(
        f"  {what}: {seconds:.2f} s (load {os.getloadavg()[0]:.1f}); {'; '.join(notes)}", flush=True
    )


if __name__ == "__main__":
    main()
