"""How an epoch in shards grows, by rows and by a heavy key, as Markdown: `python -m bench.growth`.

Reach from one root on random graphs of five edges a node, all shards in this process, each step of
a shard timed by itself. On machines of their own shards work beside each other and wait for the
slowest, so what an epoch would take there is its *critical path*: the slowest shard of each
superstep, added up. To that comes what Spark takes for a job, which does not depend on rows or
shards here (`bench.executors`), and the bytes on the wire, which are counted. Twice the rows in
twice the shards should have the same path; `--spark` checks the sum of all steps against epochs
that were measured on `local[2]`. The second table has a hub from which half of all edges go out,
before and after its rows are shared (`ShardedDatabase.balance`). Not here: the state on more
machines than one, their network, and Spark's scheduling of more tasks than slots.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import deltafix
from bench.shards import REACH, require
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.delta import Delta, RelationDelta
from deltafix.facts.schema import Schema
from deltafix.spark.session import spark_session
from deltafix.spark.shards import ShardedDatabase
from deltafix.spark.shards.shard import Shard

NODES = 250_000
"""Nodes for two shards."""

CHANGES = 1_000
EPOCHS = 5


class Steps:
    """Seconds of each shard in each superstep, in their order."""

    def __init__(self) -> None:
        self.steps: list[dict[int, float]] = []

    def add(self, number: int, seconds: float) -> None:
        """What a shard took for the next step it has none of."""
        if not self.steps or number in self.steps[-1]:
            self.steps.append({})
        self.steps[-1][number] = seconds

    @property
    def path(self) -> float:
        """The slowest of each step, added up."""
        return sum(max(step.values()) for step in self.steps)

    @property
    def work(self) -> float:
        """All of them."""
        return sum(sum(step.values()) for step in self.steps)


@contextmanager
def stepping() -> Iterator[Steps]:
    """Times every step of a shard in the block."""
    found = Steps()

    def timed(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(shard: Any, *arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return step(shard, *arguments)
            finally:
                found.add(shard.number, time.perf_counter() - began)

        return run

    step = Shard.step
    Shard.step = timed(step)  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Shard.step = step  # type: ignore[method-assign]


def graph(nodes: int, hub: float) -> Any:
    """Random edges, five a node; a share of them goes out from one node."""
    rng = np.random.default_rng(3)
    edges = rng.integers(0, nodes, (nodes * 5, 2))
    edges[: int(len(edges) * hub), 0] = 1
    return rng.permutation(np.unique(edges, axis=0))


def epochs(edges: Any) -> Iterator[tuple[Any, Any]]:
    """What goes in and out of the edges, epoch by epoch: what went comes back in the next."""
    order = np.random.default_rng(4).permutation(len(edges))
    half = CHANGES // 2
    for number in range(EPOCHS + 1):
        back, gone = order[max(number - 1, 0) * half : number * half], order[number * half :][:half]
        yield edges[back], edges[gone]


def side(schema: Schema, rows: Any) -> RelationDelta:
    """Rows that come to be given."""
    table = pa.table(list(rows.T), names=list(schema.names)).cast(arrow_schema(schema))
    return RelationDelta(schema, table, [])


def measured(
    db: ShardedDatabase, edges: Any, one: Any, *, balanced: bool = False
) -> tuple[Steps, Steps, float]:
    """The load, the median epoch of changes (by its path), and the seconds of a median epoch."""
    schemas = db.schemas.values()
    given = [("root", np.zeros((1, 1), np.int64)), ("edge", edges)]
    with stepping() as load:
        db.apply(Delta([side(db.schemas[name], rows) for name, rows in given], schemas))
    if balanced:
        db.balance()
    found, seconds = [], []
    for number, (back, gone) in enumerate(epochs(edges)):
        change = {"edge": ([*map(tuple, back.tolist())], [*map(tuple, gone.tolist())])}
        delta = Delta.of(change, schemas)
        began = time.perf_counter()
        with stepping() as steps:
            db.apply(delta)
        if number:  # the first makes the engines of a load by columns
            found.append(steps)
            seconds.append(time.perf_counter() - began)
        if one is not None:
            one.apply(delta)
    if one is not None:
        require(f"{db.shards} shards", db.count("out"), one.count("out"))
    found.sort(key=lambda steps: steps.path)
    return load, found[len(found) // 2], statistics.median(seconds)


def growth(doublings: int, session: Any) -> None:
    """The first table."""
    columns = [
        "edges, shards", "load: path, all steps", "bytes a shard", "1,000 changes: path, all steps",
        "supersteps, bytes", "of half the size",
    ]  # fmt: skip
    columns += ["on `local[2]`: seen, expected"] if session else []
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}", flush=True)
    before = None
    for doubling in range(doublings):
        nodes, shards = NODES << doubling, 2 << doubling
        edges = graph(nodes, 0.0)
        one = deltafix.connect(REACH)
        with one.transaction() as tx:
            tx.insert("root", [(0,)])
            tx.insert("edge", edges)
        with tempfile.TemporaryDirectory() as folder:
            with ShardedDatabase(REACH, shards=shards, state=folder, executor="driver") as db:
                load, steps, _ = measured(db, edges, one)
                size = sum(file.stat().st_size for file in Path(folder).rglob("*.dfx")) / shards
                work = db.work
            ratio = "" if before is None else f"{steps.path / before:.2f}"
            before = steps.path
            text = (
                f"| {len(edges):,}, {shards} | {load.path:.2f} s, {load.work:.2f} s |"
                f" {size / 1e6:,.1f} MB | {steps.path * 1e3:.1f} ms, {steps.work * 1e3:.1f} ms |"
                f" {work.supersteps}, {work.bytes / 1e3:,.1f} kB | {ratio} |"
            )
            if session:
                text += f" {on_spark(session, edges, shards, steps)} |"
            print(text, flush=True)


def on_spark(session: Any, edges: Any, shards: int, steps: Steps) -> str:
    """A median epoch on two cores, and what the steps in this process let expect."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ShardedDatabase(REACH, session, shards=shards, state=folder, executor="shards") as db,
    ):
        path = str(Path(folder) / "edge.parquet")
        parquet.write_table(pa.table({"x": edges[:, 0], "y": edges[:, 1]}), path)
        db.apply({"edge": session.read.parquet(path), "root": session.range(1)})
        db.warm(wait=True)
        single = []
        for row in edges[:EPOCHS].tolist():
            began = time.perf_counter()
            db.apply(Delta.of({"edge": ([], [tuple(row)])}, db.schemas.values()))
            single.append(time.perf_counter() - began)
        seconds = []
        for back, gone in epochs(edges[EPOCHS:]):
            change = {"edge": ([*map(tuple, back.tolist())], [*map(tuple, gone.tolist())])}
            began = time.perf_counter()
            db.apply(Delta.of(change, db.schemas.values()))
            seconds.append(time.perf_counter() - began)
    expected = statistics.median(single) + steps.work / 2
    return f"{statistics.median(seconds):.2f} s, {expected:.2f} s"


def skew(nodes: int, shards: int) -> None:
    """The second table."""
    edges = graph(nodes, 0.5)
    print(f"\n| {len(edges):,} edges, half of them from one node | largest shard, of the mean |"
          " load: path | 1,000 changes: path |")  # fmt: skip
    print("| --- | --- | --- | --- |")
    for label, balanced in (("as hashes have it", False), ("shared", True)):
        with (
            tempfile.TemporaryDirectory() as folder,
            ShardedDatabase(REACH, shards=shards, state=folder, executor="driver") as db,
        ):
            load, steps, _ = measured(db, edges, None, balanced=balanced)
            rows = sizes(db)
        share = max(rows) * len(rows) / sum(rows)
        path = f"{load.path:.2f} s | {steps.path * 1e3:.1f} ms"
        print(f"| {label} | {share:.2f} | {path} |", flush=True)


def sizes(db: ShardedDatabase) -> list[int]:
    """Rows of every shard."""
    from deltafix.spark.shards.resident import local_rows

    return [
        sum(
            local_rows(db._spec, db._manifest.files[number], number, name).num_rows
            for name in db.layout.types
        )
        for number in range(db.shards)
    ]


def main(arguments: list[str]) -> int:
    """Both tables. The exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=main.__doc__)
    parser.add_argument("--doublings", type=int, default=4, help="sizes, each twice the one before")
    parser.add_argument("--spark", action="store_true", help="measure on local[2] beside it")
    asked = parser.parse_args(arguments)
    print(f"Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    if asked.spark:
        with spark_session(master="local[2]") as session:
            growth(asked.doublings, session)
    else:
        growth(asked.doublings, None)
    skew(NODES << max(asked.doublings - 2, 0), 8)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
