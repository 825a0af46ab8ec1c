"""An epoch of a pipeline by stage, for each keeper of its rows: `python -m bench.executors`.

Prints Markdown: reach on a graph, loaded from Parquet and then changed, with `executor` driver,
shards on Spark's executors, and shards under `auto`; seconds by stage of the load, of the first
change after it (when the engines of shards are made), and of the median of those that follow, and
supersteps, each a job of Spark under `shards`. An epoch that changes one row is the fixed cost.
Exits with 1 if the answers differ. `--quick` shrinks everything, `--only shards` leaves the others
out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.graphs import Ints
from bench.pipeline import INPUT, REACH, stages, write
from bench.shards import loop
from deltafix.pipeline.config import read_config
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.runner import spark_runner
from deltafix.spark.session import spark_session
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS = ("driver", "shards", "auto, moved")
CHANGES = (1, 10, 1_000, 100_000, 1_000_000)
FILES = 8
"""Into which the load is written, as Spark would write it: a file is read by one task."""
TURNS = 5
"""Epochs of each size, after the first; 1 with `--quick`, and of a million changes."""


def measure(
    executor: str, edges: Ints, shards: int, turns: int, looped: SparkSession | None
) -> Iterator[str]:
    """One keeper: lines of the table; a line without a bar says how many rows there are.

    `looped`: run the DataFrame loop in that session, too, on the edges that are left.
    """
    with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as name:
        folder = Path(name)
        (folder / "p.dl").write_text(REACH)
        (folder / "p.toml").write_text(
            '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = 100000000\n'
            + "".join(INPUT.format(one) for one in ("edge", "root"))
            + '[output.reach]\npath = "out"\n'
        )
        config = read_config(folder / "p.toml")
        started = "shards" if executor == "auto, moved" else executor
        write(folder, "root", 0, np.array([[0]]), np.ones(1, np.int64))
        for number, part in enumerate(np.array_split(edges, FILES)):
            write(folder, "edge", number, part, np.ones(len(part), np.int64))
        config = replace(config, values={**config.values, "executor": started, "shards": shards})
        with Pipeline(config, **spark_runner(config)._asdict()) as opened:
            seconds, epoch = timed(opened)
            yield line(executor, f"load of {len(edges):,}", seconds, epoch, opened)
            if isinstance(db := opened.maintainer.db, ShardedDatabase):
                began = time.perf_counter()
                db.warm(wait=True)
                seconds = time.perf_counter() - began
                yield f"| {executor} | engines of the load, beside all else | {seconds:.3f} s | | |"
        if executor == "auto, moved":
            config = replace(config, values={**config.values, "executor": "auto"})
        with Pipeline(config, **spark_runner(config)._asdict()) as opened:
            left, number = edges, FILES
            for size in (one for one in CHANGES if one * 3 <= len(edges)):
                taken: list[tuple[float, Epoch]] = []
                more = turns if size < CHANGES[-1] else 1
                for turn in range(more + 1):
                    left, gone = left[:-size], left[-size:]
                    write(folder, "edge", number, gone, np.full(size, -1))
                    number += 1
                    taken.append(timed(opened))
                    if turn == 0 and size == CHANGES[0]:
                        yield line(executor, "first change", *taken[0], opened)
                middle = sorted(taken[1:], key=lambda one: one[0])[more // 2]
                median = statistics.median(seconds for seconds, _ in taken[1:])
                yield line(executor, f"{size:,} deletes", median, middle[1], opened)
            if looped:
                path = str(folder / "left.parquet")
                parquet.write_table(pa.table({"x": left[:, 0], "y": left[:, 1]}), path)
                began = time.perf_counter()
                count, rounds = loop(looped.read.parquet(path), "reach")
                seconds = time.perf_counter() - began
                yield f"| DataFrame loop | all anew, {rounds} iterations | {seconds:.3f} s | | |"
                yield str(count)
            yield str(opened.maintainer.db.count("reach"))


def timed(opened: Pipeline) -> tuple[float, Epoch]:
    """Seconds of all that there is to do, and its last epoch."""
    began = time.perf_counter()
    epoch = list(opened.drain())[-1]
    return time.perf_counter() - began, epoch


def line(executor: str, what: str, seconds: float, epoch: Epoch, opened: Pipeline) -> str:
    """A line of the table."""
    db = opened.maintainer.db
    work = f"{db.work.supersteps} of {db.choice}" if isinstance(db, ShardedDatabase) else ""
    return f"| {executor} | {what} | {seconds:.3f} s | {stages(epoch)} | {work} |"


def main(arguments: list[str]) -> int:
    """All keepers on one graph. The exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.executors", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph")
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--only", choices=EXECUTORS)
    parser.add_argument("--loop", action="store_true", help="beside the DataFrame loop")
    asked = parser.parse_args(arguments)
    many = 20_000 if asked.quick else asked.edges
    edges = np.random.default_rng(1).integers(0, many // 5, (many, 2))
    edges = np.unique(edges, axis=0)
    np.random.default_rng(2).shuffle(edges)
    sys.stdout.write(f"Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n\n")
    sys.stdout.write("| executor | epoch | time | stages, s | supersteps |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- |\n")
    answers: set[str] = set()
    with spark_session(master="local[2]") as session:
        session.range(1).count()
        for executor in EXECUTORS if asked.only is None else (asked.only,):
            turns, last = 1 if asked.quick else TURNS, executor in (EXECUTORS[-1], asked.only)
            looped = session if asked.loop and last else None
            for told in measure(executor, edges, asked.shards, turns, looped):
                if not told.startswith("|"):
                    answers.add(told)
                    continue
                sys.stdout.write(f"{told}\n")
                sys.stdout.flush()
    if len(answers) > 1:
        sys.stderr.write(f"the executors disagree: {sorted(answers)} rows\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
