"""What a change costs by its size, each way: maintained by one engine and in shards, or done anew.

Reach from one root on a random graph; an epoch takes away half of its rows and gives back half.
After each epoch the routes' answers are counted against each other, and at the end against the
rebuild and the DataFrame loop. Prints Markdown; run by `bench.shards`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import deltafix
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["table"]

NODES = 300_000
CHANGES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def table(session: SparkSession, *, quick: bool) -> None:
    """The table, for a graph of five edges a node."""
    from bench.shards import REACH, loop, require

    def rows_of(which: Any) -> list[Row]:
        return [tuple(row) for row in edges[which].tolist()]

    nodes = 2_000 if quick else NODES
    rng = np.random.default_rng(2)
    edges = rng.permutation(np.unique(rng.integers(0, nodes, (nodes * 5, 2)), axis=0))
    here = np.ones(len(edges), np.bool_)
    one = deltafix.connect(REACH)

    def rebuild() -> None:
        with deltafix.connect(REACH) as anew, anew.transaction() as tx:
            tx.insert("root", [(0,)])
            tx.insert("edge", edges[here])

    with tempfile.TemporaryDirectory() as folder:
        with one.transaction() as tx:
            tx.insert("root", [(0,)])
            tx.insert("edge", edges)
        with ShardedDatabase(REACH, session, shards=2, state=Path(folder) / "state") as shards:
            everything: dict[str, tuple[list[Row], list[Row]]] = {
                "root": ([(0,)], []),
                "edge": (rows_of(here), []),
            }
            shards.apply(Delta.of(everything, shards.schemas.values()))
            count = one.count("out")
            # The first change after a load makes the shards' engines (see the tables above).
            shards.apply(Delta.of({"root": ([], [(nodes,)])}, shards.schemas.values()))
            rows = []
            for size in (size for size in CHANGES if size <= len(edges)):
                # Rows that are there go, rows that went before come back.
                away = np.flatnonzero(~here)
                back = rng.choice(away, min(size // 2, len(away)), False)
                gone = rng.choice(np.flatnonzero(here), size - len(back), False)
                here[gone], here[back] = False, True
                edits = {"edge": (rows_of(back), rows_of(gone))}
                change = Delta.of(edits, one.schemas.values())
                engine = timed(partial(one.apply, change))
                began = time.perf_counter()
                found = shards.apply(change)
                sharded = time.perf_counter() - began
                count += len(found["out"].added) - len(found["out"].removed)
                require(f"shards after {size:,} changes", count, one.count("out"))
                assert shards.choice is not None
                where = shards.choice.executor
                rows.append((len(change["edge"]), engine, sharded, where, timed(rebuild)))
        path = f"{folder}/edge.parquet"
        parquet.write_table(pa.table({"x": edges[here, 0], "y": edges[here, 1]}), path)
        began = time.perf_counter()
        looped, rounds = loop(session.read.parquet(path), "reach")
        seconds = time.perf_counter() - began
        require("the loop", looped or 0, one.count("out"))
    now = os.getloadavg()[0]
    print(f"\nReach, {len(edges):,} edges, by rows that change; the system's load was {now:.1f}.")
    left = f"the {int(here.sum()):,} edges left at the end"
    print(f"The DataFrame loop took {seconds:.1f} s ({rounds} iterations) for {left}.\n")
    print("| changes | engine | in 2 shards | ran in | rebuild | rebuild / engine | loop / engine "
          "| loop / shards |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for size, engine, sharded, where, anew in rows:
        print(
            f"| {size:,} | {engine:.5f} s | {sharded:.3f} s | {where} | {anew:.2f} s | "
            f"{anew / engine:,.1f} | {seconds / engine:,.1f} | {seconds / sharded:,.1f} |"
        )
