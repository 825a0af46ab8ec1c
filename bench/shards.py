"""Sharded execution on Spark against a DataFrame loop, as Markdown: `python -m bench.shards`.

Lives here: workloads (closure of a random graph and reach from ten roots, which decompose, and
reach from one root, which does not), their DataFrame loop, and a line a route: seconds of the load,
supersteps, messages and bytes between shards, for how long workers make engines beside all else,
the first change after that (which makes them in the driver) and the median of the next ones. Every
route's answer is counted and must agree: else the exit code is 1. `--only reach 1000000 2 4` runs
one workload. Not here: change sizes (`bench.change_sizes`), the engine on one machine
(`bench.run`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import deltafix
from bench import change_sizes
from deltafix.facts.delta import Delta
from deltafix.spark.session import spark_session
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


SIZES = (("closure", 4_000, 2.0), ("reach", 1_000_000, 5.0))
QUICK = (("closure", 300, 2.0), ("reach", 10_000, 5.0))
SHARDS = (2, 4, 8)
PATIENCE = 25
"""The loop is stopped after this many times what the fastest load in shards took."""


class WrongAnswerError(Exception):
    """Two routes disagree."""


def main(arguments: list[str]) -> int:
    """All workloads, or one; then a table by change size. The exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.shards", description=main.__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD NODES SHARDS")
    parser.add_argument("--degree", type=float, default=2.0)
    parser.add_argument("--no-loop", action="store_true", help="leave the DataFrame loop out")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    asked = parser.parse_args(arguments)
    print(f"Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    with spark_session(master="local[2]") as session:
        session.range(1).count()
        try:
            if asked.only:
                name, nodes, *shards = asked.only
                numbers = [int(number) for number in shards]
                workload(session, (name, int(nodes), asked.degree), numbers, not asked.no_loop)
                return 0
            for graph in QUICK if asked.quick else SIZES:
                workload(session, graph, SHARDS, not asked.no_loop)
            change_sizes.table(session, quick=asked.quick)
        except WrongAnswerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


def workload(
    session: SparkSession, graph: tuple[str, int, float], shards: Sequence[int], looped: bool
) -> None:
    """One workload: one engine, auto, each number of shards, the loop."""
    name, nodes, degree = graph
    program = PROGRAMS[name]
    roots = ROOTS if name == "rooted" else 1
    rng = np.random.default_rng(1)
    edges = np.unique(rng.integers(0, nodes, (int(nodes * degree), 2)), axis=0)
    gone = edges[rng.choice(len(edges), DELETES, replace=False)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "edge.parquet")
        parquet.write_table(pa.table({"x": edges[:, 0], "y": edges[:, 1]}), path)
        what = f"{name}, {len(edges):,} edges"
        print(f"\n| {what} | load | of which | engines | first delete | next | system load |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        answer = one_engine(program, edges, gone, roots)
        quickest = 1e9
        routes: list[tuple[int, Literal["auto", "shards"]]] = [(4, "auto")]
        routes += [(number, "shards") for number in shards]
        for number, executor in routes:
            state = Path(folder) / f"state-{executor}-{number}"
            with ShardedDatabase(
                program, session, shards=number, state=state, executor=executor
            ) as db:
                taken = in_shards(db, session.read.parquet(path), roots, gone, answer)
                quickest = min(quickest, taken) if executor == "shards" else quickest
            shutil.rmtree(state)
        if looped:
            began = time.perf_counter()
            limit = PATIENCE * quickest + 10
            count, rounds = loop(session.read.parquet(path), name, limit)
            seconds = time.perf_counter() - began
            note = f"{rounds} iterations"
            if count is None:
                note = f"stopped, unfinished, after {rounds} iterations"
            else:
                require("the loop", count, answer[0])
            ratio = f"{seconds / quickest:.1f} times the quickest in shards"
            line("DataFrame loop", seconds, f"{note}; {ratio}", None, None)


def one_engine(program: str, edges: Any, gone: Any, roots: int) -> tuple[int, int]:
    """The counts after the load and after the deletes, from one engine in this process."""
    db = deltafix.connect(program)
    began = time.perf_counter()
    with db.transaction() as tx:
        tx.insert("root", [(n,) for n in range(roots)])
        tx.insert("edge", edges)
    load = time.perf_counter() - began
    loaded = db.count("out")
    seconds = []
    for edge in gone.tolist():
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.delete("edge", [tuple(edge)])
        seconds.append(time.perf_counter() - began)
    line("one engine, no Spark", load, f"{loaded:,} rows", seconds[0], seconds[1:])
    return loaded, db.count("out")


def in_shards(
    db: ShardedDatabase, edges: DataFrame, roots: int, gone: Any, answer: tuple[int, int]
) -> float:
    """Load and delete in shards; every delta's count is held against the engine's."""
    began = time.perf_counter()
    changes = db.apply({"edge": edges, "root": edges.sparkSession.range(roots)})
    load = time.perf_counter() - began
    assert db.choice is not None
    label = f"{db.shards} shards, {db.choice.executor}"
    label += " (auto)" if not db.choice.why.startswith("asked") else ""
    work = db.work
    note = f"{work.supersteps} supersteps, {work.messages:,} messages, {work.bytes / 1e6:,.1f} MB"
    note += ", in a load" if "in a load" in db.choice.why else ""
    count = changes["out"].count()
    require(label, count, answer[0])
    began = time.perf_counter()
    db.warm(wait=True)
    made = time.perf_counter() - began
    seconds = []
    for edge in gone.tolist():
        began = time.perf_counter()
        delta = db.apply(Delta.of({"edge": ([], [tuple(edge)])}, db.schemas.values()))
        seconds.append(time.perf_counter() - began)
        count -= len(delta["out"].removed)
    require(label, count, answer[1])
    line(label, load, note, seconds[0], seconds[1:], made=made)
    return load


def line(
    what: str,
    load: float,
    note: str,
    first: float | None,
    more: list[float] | None,
    *,
    made: float = 0.0,
) -> None:
    """A line of the table."""
    engines = f"{made:.2f} s" if made >= 0.01 else ""
    delete = "" if first is None else f"{first:.4f} s"
    median = "" if more is None else f"{statistics.median(more):.4f} s"
    now = f"{os.getloadavg()[0]:.1f}"
    print(
        f"| {what} | {load:.2f} s | {note} | {engines} | {delete} | {median} | {now} |", flush=True
    )


def loop(edges: DataFrame, workload: str, limit: float = 1e9) -> tuple[int | None, int]:
    """The semi-naive DataFrame loop: join, leave out what is known, cut the lineage, count.

    Returns rows (None: it was stopped after `limit` seconds) and iterations.
    """
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
    began = time.perf_counter()
    while time.perf_counter() - began < limit:
        rounds += 1
        columns = [c for c in keys if c != "y"]
        found = new.join(step, "y").select(*columns, f.col("z").alias("y")).distinct()
        new = found.join(known, keys, "left_anti").localCheckpoint()
        count = new.count()
        if count == 0:
            return total, rounds
        total += count
        known = known.unionByName(new).localCheckpoint()
    return None, rounds


def require(what: str, found: int, wanted: int) -> None:
    """Raise WrongAnswerError when a route gives another answer."""
    if found != wanted:
        raise WrongAnswerError(f"{what}: {found:,} rows, not {wanted:,}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
