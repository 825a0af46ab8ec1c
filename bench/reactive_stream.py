"""Reducers over batches of signed rows: the first batch, then batches into a filled state.

    python -m bench.reactive_stream [--rows 2000000] [--keys 100000]

What `StreamReduce` does in Spark's driver with each batch, its files included, on tables: no
session. Prints Markdown: rows per second by the clock, seconds of processor time, changed results.
Target: 500,000 rows a second into a filled state. What limits it: `bench/notes/reactive.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltafix.reactive import Count, Mean, Min, Sum
from deltafix.spark.reduce import StreamReduce

Ints = npt.NDArray[np.int64]


def batches(rows: int, keys: int) -> Iterator[tuple[str, pa.Table]]:
    """Inserts into nothing, inserts, and as many changes of which half take rows away."""
    rng = np.random.default_rng(7)

    def draw(count: int) -> Ints:
        return np.column_stack([rng.integers(0, keys, count), rng.integers(0, 1000, count)])

    first = draw(rows)
    half = rows // 2
    mixed = np.vstack([first[:half], draw(half)])
    order = rng.permutation(len(mixed))
    ones = np.ones(rows, np.int64)
    yield "first batch", table(first, ones)
    yield "inserts, filled state", table(draw(rows), ones)
    yield "half deletes, filled state", table(mixed[order], np.repeat([-1, 1], half)[order])
    few = draw(rows // 100)
    yield "a hundredth as many", table(few, np.ones(len(few), np.int64))


def table(rows: Ints, signs: Ints) -> pa.Table:
    """A batch as `StreamReduce` takes it."""
    return pa.table({"key": rows[:, 0], "value": rows[:, 1], "sign": signs})


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.reactive_stream")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    given = parser.parse_args()
    out = sys.stdout
    out.write(f"Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n\n")
    out.write("| reducer | batch | rows | time (CPU) | rows/s | changed results |\n")
    out.write("| --- | --- | --- | --- | --- | --- |\n")
    for reducer in (Sum(), Min(), Mean(), Count()):
        with tempfile.TemporaryDirectory(prefix="deltafix-bench-") as folder:
            stream = StreamReduce(reducer, folder)
            for number, (what, batch) in enumerate(batches(given.rows, given.keys)):
                began, busy = time.perf_counter(), time.process_time()
                delta = stream.apply(number, batch).delta
                seconds, busy = time.perf_counter() - began, time.process_time() - busy
                out.write(
                    f"| {reducer.name} | {what} | {len(batch):,} | {seconds:.2f} s ({busy:.2f}) "
                    f"| {len(batch) / seconds:,.0f} | {len(delta):,} |\n"
                )
                out.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
