"""Level 1 under load: one reachable set, edited pair by pair, by four contenders.

    python -m bench.fixpoint [--quick] [--sizes 10000 100000] [--touched] [--output FILE]

`managed` (ManagedFixpoint), `full` (FullFixpoint over dictionaries: pure Python, a step function
called), and recomputation with rustworkx and scipy after each edit. R-MAT graphs from fixed seeds,
10 roots, nodes a fifth of the pairs; 250 pairs of a breadth-first tree and 250 random ones are
removed one by one, then added again in the reverse order. Every contender reports the size of the
set after the last removal, and all must agree. `--touched` counts elements touched per element
lost instead, for the repair strategies of the kernel. Self-contained: `run(report)` and
`touched(report)` hand Markdown to whoever collects it. Not here: rules (`bench.workloads`).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.graphs import Ints, bfs_tree, pick_roots, rmat
from deltafix.fixpoint import FullFixpoint, ManagedFixpoint

__all__ = ["SIZES", "Script", "compare", "main", "run", "script", "touched"]

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
QUICK = (10_000, 50_000)
FULL_LIMIT = 1_000_000  # pure Python holds about 400 bytes a pair: 2 GB at this size with its graph
SAMPLES = 6  # epochs at which recomputation is measured: each one costs the same
Report = Callable[[str], None]


@dataclass(frozen=True)
class Script:
    """A graph, its roots, and the pairs that are removed and then added again."""

    nodes: int
    pairs: Ints
    roots: list[int]
    removed: list[tuple[int, int]]


@dataclass(frozen=True)
class Figures:
    """One contender: seconds to load, seconds per edit, elements after the last removal."""

    name: str
    load: float
    edits: list[float]
    elements: int


def script(size: int, edits: int = 500) -> Script:
    """A workload of `size` pairs; half of the removed ones hold up an element at first."""
    nodes = max(200, size // 5)
    pairs = rmat(nodes, size, seed=size)
    roots = pick_roots(nodes, pairs, 10, seed=size + 1)
    tree = bfs_tree(nodes, pairs, roots)
    rng = np.random.default_rng(size + 2)
    chosen = [tree[rng.permutation(len(tree))[: edits // 2]]]
    chosen.append(pairs[rng.permutation(len(pairs))[: edits // 2]])
    removed = list(dict.fromkeys(map(tuple, np.concatenate(chosen).tolist())))
    rng.shuffle(removed)
    return Script(nodes, pairs, roots.tolist(), removed)


# --- contenders ------------------------------------------------------------------------------


def _timed(edit: Callable[[int, int], object], pairs: Iterable[tuple[int, int]]) -> list[float]:
    times = []
    for x, y in pairs:
        start = time.perf_counter()
        edit(x, y)
        times.append(time.perf_counter() - start)
    return times


def managed(work: Script) -> Figures:
    """ManagedFixpoint: pairs as an array, edits as calls."""
    start = time.perf_counter()
    fixpoint: ManagedFixpoint[int] = ManagedFixpoint(work.roots, work.pairs)
    load = time.perf_counter() - start
    times = _timed(fixpoint.remove_step, work.removed)
    elements = len(fixpoint)
    times += _timed(fixpoint.add_step, reversed(work.removed))
    return Figures("managed", load, times, elements)


def full(work: Script) -> Figures:
    """FullFixpoint over a dictionary of successors; the fixpoint keeps the inverse itself."""
    start = time.perf_counter()
    successors: dict[int, dict[int, None]] = {}
    for x, y in work.pairs.tolist():
        successors.setdefault(x, {})[y] = None
    fixpoint = FullFixpoint(work.roots, lambda x: successors.get(x, ()))
    load = time.perf_counter() - start

    def remove(x: int, y: int) -> None:
        del successors[x][y]
        fixpoint.removed_step(x, y)

    def add(x: int, y: int) -> None:
        successors.setdefault(x, {})[y] = None
        fixpoint.added_step(x, y)

    times = _timed(remove, work.removed)
    elements = len(fixpoint)
    times += _timed(add, reversed(work.removed))
    return Figures("full (pure Python)", load, times, elements)


def with_rustworkx(work: Script) -> Figures:
    """Recompute: the graph is edited in place, the reachable set asked for again."""
    import rustworkx

    start = time.perf_counter()
    graph = rustworkx.PyDiGraph()  # pairs are distinct, and its own check of that is slow
    graph.add_nodes_from([None] * (work.nodes + 1))
    graph.extend_from_edge_list([(work.nodes, root) for root in work.roots])
    graph.extend_from_edge_list(list(map(tuple, work.pairs.tolist())))
    elements = len(rustworkx.descendants(graph, work.nodes))
    load = time.perf_counter() - start
    times = []
    for number, (x, y) in enumerate(work.removed):
        begin = time.perf_counter()
        graph.remove_edge(x, y)
        if number >= len(work.removed) - SAMPLES:
            elements = len(rustworkx.descendants(graph, work.nodes))
            times.append(time.perf_counter() - begin)
    return Figures("rustworkx, recomputing", load, times, elements)


def with_scipy(work: Script) -> Figures:
    """Recompute: a sparse matrix from the remaining pairs, then a breadth-first search."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    shape = (work.nodes + 1, work.nodes + 1)

    def reachable(pairs: Ints) -> int:
        roots = np.array(work.roots)
        sources = np.concatenate([pairs[:, 0], np.full(len(roots), work.nodes)])
        targets = np.concatenate([pairs[:, 1], roots])
        matrix = csr_matrix((np.ones(len(sources), np.int8), (sources, targets)), shape=shape)
        return len(breadth_first_order(matrix, work.nodes, return_predecessors=False)) - 1

    start = time.perf_counter()
    reachable(work.pairs)
    load = time.perf_counter() - start
    keys = work.pairs[:, 0] * work.nodes + work.pairs[:, 1]
    gone = np.array([x * work.nodes + y for x, y in work.removed])
    times = []
    elements = 0
    for last in range(len(gone) - SAMPLES, len(gone)):
        left = work.pairs[~np.isin(keys, gone[: last + 1])]
        begin = time.perf_counter()
        elements = reachable(left)
        times.append(time.perf_counter() - begin)
    return Figures("scipy, recomputing", load, times, elements)


CONTENDERS = {
    "managed": managed,
    "full": full,
    "rustworkx": with_rustworkx,
    "scipy": with_scipy,
}


def compare(size: int, contenders: Iterable[str] = tuple(CONTENDERS)) -> Iterator[Figures]:
    """Contenders at one size, one after the other, each as soon as it is measured.

    Raises AssertionError if one ends with another number of elements than the first.
    """
    work = script(size)
    first: Figures | None = None
    for name in contenders:
        if name == "full" and size > FULL_LIMIT:
            continue
        gc.collect()
        found = CONTENDERS[name](work)
        first = first or found
        if found.elements != first.elements:
            raise AssertionError(
                f"at {size} pairs {first.name} has {first.elements} elements, "
                f"{found.name} {found.elements}"
            )
        yield found


# --- reports ---------------------------------------------------------------------------------


def _duration(seconds: float) -> str:
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    return ""


def run(
    report: Report,
    sizes: Iterable[int] = SIZES,
    contenders: Iterable[str] = tuple(CONTENDERS),
) -> None:
    """The comparison as Markdown: one table, a block of rows per size."""
    report("## Level 1: one edit of a reachable set\n")
    report("| pairs | contender | load | p50 an edit | p99 an edit | against the first (p50) |")
    report("| ---: | --- | ---: | ---: | ---: | ---: |")
    for size in sizes:
        own = 0.0
        for figures in compare(size, contenders):
            p50 = float(np.median(figures.edits))
            own = own or p50
            many = len(figures.edits) > SAMPLES
            p99 = _duration(float(np.percentile(figures.edits, 99))) if many else "-"
            report(
                f"| {size:,} | {figures.name} | {_duration(figures.load)} | {_duration(p50)} | "
                f"{p99} | {p50 / own:,.3g}× |"
            )


def touched(report: Report, size: int = 50_000, edits: int = 300) -> None:
    """Elements touched per element lost, per strategy: counts, the same on every machine."""
    from deltafix.kernel import layout as at

    pairs = rmat(size // 5, size, seed=size)
    roots = pick_roots(size // 5, pairs, 10, seed=size + 1).tolist()
    report("## Level 1: elements touched per element lost\n")
    report(
        "| strategy | edits | touched | of these kept at a new rank | lost | touched per lost | "
        "derivations |"
    )
    report("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    strategies = {"wavefront": at.WAVEFRONT, "local": at.LOCAL, "deletes_first": at.DELETES_FIRST}
    for name, strategy in {**strategies, "dred": at.DRED}.items():
        fixpoint: ManagedFixpoint[int] = ManagedFixpoint(roots, pairs)
        elements = sorted(x for x in fixpoint if len(fixpoint.why(x)) > 1)
        fixpoint._state.arena.cells[at.SCHEDULE] = strategy
        done = retracted = revived = lost = derivations = 0
        for place in np.random.default_rng(3).permutation(len(elements))[:edits]:
            element = elements[place]
            if element not in fixpoint:
                continue
            fixpoint.remove_step(*fixpoint.why(element)[-2:])
            work = fixpoint.last_report
            done += 1
            retracted += work.touched
            revived += work.reranked
            lost += work.removed
            derivations += work.derivations
        report(
            f"| {name} | {done} | {retracted:,} | {revived:,} | {lost} | "
            f"{retracted / max(lost, 1):,.3g} | {derivations:,} |"
        )


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them to a file on request."""
    parser = argparse.ArgumentParser(prog="python -m bench.fixpoint", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, every code path")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of pairs")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--touched", action="store_true", help="count work instead of time")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    if options.touched:
        touched(report)
    else:
        sizes = options.sizes or (QUICK if options.quick else SIZES)
        run(report, sizes, options.contenders)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
