"""Explanations under load: `db.why` of random rows of large closures.

    python -m bench.why [--quick] [--questions 2000]

Two closures of about ten million rows from fixed seeds: of an R-MAT graph (the `tc-bulk-10m` one:
short proofs, wide cones) and of a chain (proofs up to the bound of 100 facts, narrow cones). Rows
are drawn at random; those whose smallest proof has more than 100 facts are left out and counted.
Every proof is checked: its leaves are edges of the graph, and lead from end to end. Prints
Markdown. Not here: maintenance (`bench.workloads`); nothing is recorded for explanations there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

import deltafix
from bench.graphs import Ints, rmat
from deltafix.errors import ProofBoundError
from deltafix.provenance.proof import Proof
from deltafix.provenance.search import searcher_of

__all__ = ["main", "run"]

STEPS = 100
GOAL = 0.010
"""Seconds that the 99th percentile may take."""
PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def _chain(nodes: int) -> Ints:
    ids = np.arange(nodes)
    return np.column_stack([ids[:-1], ids[1:]]).astype(np.int64)


def _near(rng: np.random.Generator, nodes: int, count: int) -> Ints:
    """Pairs of a chain at most half the bound apart: such a proof has two facts an edge."""
    start = rng.integers(0, nodes - STEPS // 2 - 1, count)
    return np.column_stack([start, start + rng.integers(1, STEPS // 2 + 1, count)])


def _agrees(proof: Proof, edges: set[tuple[int, int]], row: tuple[int, int]) -> bool:
    """Whether the leaves are edges that make a walk from end to end."""
    walk = {leaf.row[0]: leaf.row[1] for leaf in proof.leaves}
    at, seen = row[0], 0
    while at in walk and seen < len(walk):
        at, seen = walk[at], seen + 1
        if at == row[1] and seen == len(walk):
            break
    return at == row[1] and edges >= {leaf.row for leaf in proof.leaves}


def _measure(name: str, graph: Ints, pick: Callable[[deltafix.Database], Ints]) -> tuple[str, bool]:
    """One line of the table, and whether every proof is right."""
    db = deltafix.connect(PROGRAM)
    with db.transaction() as tx:
        tx.insert("edge", graph)
    rows = [tuple(row) for row in pick(db).tolist()]
    edges = {tuple(edge) for edge in graph.tolist()}
    began = time.perf_counter()
    db.why("path", rows[0])  # compiled or read from the cache
    first = time.perf_counter() - began
    seconds, processor, work = [], [], []
    longer, smallest, right = 0, 0, True
    for row in rows:
        began, busy = time.perf_counter(), time.thread_time()
        try:
            proof = db.why("path", row, max_steps=STEPS)
        except ProofBoundError:
            longer += 1
            continue
        seconds.append(time.perf_counter() - began)
        processor.append(time.thread_time() - busy)
        work.append(searcher_of(db).work)
        smallest += proof.is_smallest
        right = right and _agrees(proof, edges, row)
    p50, p99, worst = np.quantile(seconds, [0.5, 0.99, 1.0]) * 1e3
    cpu = np.quantile(processor, 0.99) * 1e3
    line = (
        f"| {name} | {db.count('path'):,} | {len(seconds):,} | {longer:,} | {p50:.3g} ms "
        f"| {p99:.3g} ms | {cpu:.3g} ms | {worst:.3g} ms | {int(np.median(work)):,} | {smallest:,} "
        f"| {first:.2f} s | {'reached' if p99 <= GOAL * 1e3 else '**not reached**'} |"
    )
    return line, right


def run(report: Callable[[str], None], *, quick: bool, questions: int) -> bool:
    """Measure both closures; whether every proof was right."""
    rng = np.random.default_rng(9)
    report(
        "`db.why` of random rows of a closure: a smallest proof, found on demand. The goal is a "
        f"99th percentile of {GOAL * 1e3:.0f} ms for proofs of up to {STEPS} facts.\n"
    )
    report(
        "| graph | rows | asked | longer proofs | p50 | p99 | p99, processor | slowest "
        "| rows looked at (median) "
        "| proved smallest | first question | goal |"
    )
    report(f"|{' --- |' * 12}")
    nodes, count = (820, 1_850) if quick else (8_200, 18_500)
    graph = rmat(nodes, count, seed=2)

    def drawn(db: deltafix.Database) -> Ints:
        _, codes = db.committed("path")
        return codes[rng.integers(0, len(codes), questions)].astype(np.int64)

    wide, first = _measure("R-MAT", graph, drawn)
    report(wide)
    length = 450 if quick else 4_500
    long, second = _measure("chain", _chain(length), lambda _: _near(rng, length, questions))
    report(long)
    return first and second


def main(arguments: list[str] | None = None) -> int:
    """Print the section; 1 if a proof is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.why")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--questions", type=int, default=2_000)
    args = parser.parse_args(arguments)
    right = run(lambda text: print(text, flush=True), quick=args.quick, questions=args.questions)
    if not right:
        print("a proof's leaves do not lead from end to end", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
