"""Every workload of the bench, made from fixed seeds.

Lives here: one builder per workload in `WORKLOADS` (read it as the table of contents), and
`prepare`, which makes a workload once and keeps it in the cache. `quick` sizes are small enough
for a laptop's coffee break and share every code path. Invariant: a builder is a function of its
arguments alone. Not here: goals and ratios (`goals`), peers (`peers`).
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.csources import SetupError, preprocessed
from bench.graphs import Ints, batch_edits, bfs_tree, edge_edits, pick_roots, reach_edits, rmat
from bench.workload import Workload, cache_folder, load, save

__all__ = ["GALEN_ANSWER", "WORKLOADS", "SetupError", "prepare"]

REACH = """
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""
CLOSURE = """
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
GALEN = """
p(x, z) :- p(x, y), p(y, z).
q(x, r, z) :- p(x, y), q(y, r, z).
p(x, z) :- p(y, w), u(w, r, z), q(x, r, y).
p(x, z) :- c(y, w, z), p(x, w), p(x, y).
q(x, t, z) :- q(x, r, z), s(r, t).
q(x, e, o) :- q(x, y, z), r(y, u, e), q(z, u, o).
"""
GALEN_ANSWER = {"p": 7_560_179, "q": 16_595_494}
_GALEN_COLUMNS = {"p": 2, "q": 3, "c": 3, "r": 3, "s": 2, "u": 3}
_NONE = np.empty((0, 5), np.int64)


def _single(edits: Ints, relation: int) -> Ints:
    """One epoch per (sign, source, target): the edit file's layout."""
    m = len(edits)
    epoch, number = np.arange(1, m + 1), np.full(m, relation)
    return np.column_stack([epoch, edits[:, 0], number, edits[:, 1:]]).astype(np.int64)


def _spread(epochs: int, samples: int) -> tuple[int, ...]:
    """`samples` epoch numbers spread evenly, the last one among them."""
    return tuple(sorted({int(e) for e in np.linspace(epochs / samples, epochs, samples)}))


def _reach(name: str, nodes: int, edges: int, edits: int, what: str) -> Workload:
    graph = rmat(nodes, edges, seed=edges)
    roots = pick_roots(nodes, graph, 10, seed=edges + 1)
    script = reach_edits(nodes, graph, roots, seed=edges + 2, edits=edits)
    tree = len(bfs_tree(nodes, graph, roots)) + len(roots)
    return Workload(
        name=name,
        what=what,
        kind="reach",
        rules=REACH,
        inputs={"edge": graph, "root": roots.reshape(-1, 1)},
        outputs=("reach",),
        edits=_single(script, 0),
        samples=_spread(edits, 3),
        facts={"nodes": f"{nodes:,}", "edges": f"{edges:,}", "reached": f"{tree:,}"},
    )


def _reach_edit(name: str, quick: bool) -> Workload:
    nodes, edges, edits = (20_000, 100_000, 200) if quick else (1_000_000, 5_000_000, 1000)
    what = f"R-MAT, 10 roots, {edits} single-edge edits, half of them deletes"
    return _reach(name, nodes, edges, edits, what)


def _reach_edit_small(name: str, quick: bool) -> Workload:
    nodes, edges, edits = (2_000, 10_000, 200) if quick else (100_000, 500_000, 1000)
    what = f"as reach-edit, at a size every peer can hold, {edits} edits"
    return _reach(name, nodes, edges, edits, what)


def _growth(edges: int) -> Callable[[str, bool], Workload]:
    def build(name: str, quick: bool) -> Workload:
        size = min(edges // 20, 50_000) if quick else edges
        nodes = max(200, size // 5)
        return _reach(name, nodes, size, 200 if quick else 1000, f"reach-edit at {size:,} edges")

    return build


def _closure(nodes: int, edges: int, edits: int) -> Callable[[str, bool], Workload]:
    def build(name: str, quick: bool) -> Workload:
        n, m = (max(100, nodes // 10), max(250, edges // 10)) if quick else (nodes, edges)
        graph = rmat(n, m, seed=2)
        count = min(edits, 50) if quick else edits
        script = _single(edge_edits(n, graph, 3, count), 0) if count else _NONE
        return Workload(
            name=name,
            what=f"transitive closure of an R-MAT graph, {count} single-edge edits"
            if count
            else "transitive closure of an R-MAT graph from scratch",
            kind="tc",
            rules=CLOSURE,
            inputs={"edge": graph},
            outputs=("path",),
            edits=script,
            samples=_spread(count, 3) if count else (),
            facts={"nodes": f"{n:,}", "edges": f"{m:,}"},
        )

    return build


def galen_folder() -> Path:
    """`$DELTAFIX_GALEN`, or the data folder that lies beside the repository."""
    given = os.environ.get("DELTAFIX_GALEN")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "galen"
    return Path(given) if given else beside


def _galen(name: str, quick: bool) -> Workload:
    folder = galen_folder()
    inputs = {}
    for relation, arity in _GALEN_COLUMNS.items():
        path = folder / f"{relation}.facts.gz"
        if not path.is_file():
            raise SetupError(f"no {path.name} in the galen folder (set DELTAFIX_GALEN)")
        with gzip.open(path, "rt") as text:
            rows = np.fromstring(text.read(), np.int64, sep="\t").reshape(-1, arity)
        inputs[relation] = np.unique(rows, axis=0)
    if quick:  # the ontology is one connected whole: a slice of the given rows is still real data
        inputs = {n: rows[:: 8 if n in "pqcu" else 1] for n, rows in inputs.items()}
    rng = np.random.default_rng(5)
    edits = 20 if quick else 200
    # Half deletes of given p, q, c, u rows, half of them brought back, the rest held out.
    names = tuple(inputs)
    choices = [names.index(n) for n in rng.choice(["p", "q", "c", "u"], edits)]
    edited: list[list[int]] = []
    gone: list[tuple[int, list[int]]] = []
    for epoch, number in enumerate(choices, 1):
        if epoch % 2:
            row = inputs[names[number]][rng.integers(len(inputs[names[number]]))].tolist()
            while (number, row) in gone:
                row = inputs[names[number]][rng.integers(len(inputs[names[number]]))].tolist()
            gone.append((number, row))
            edited.append([epoch, -1, number, *row, *[0] * (3 - len(row))])
        else:
            back, row = gone.pop(int(rng.integers(len(gone))))
            edited.append([epoch, 1, back, *row, *[0] * (3 - len(row))])
    return Workload(
        name=name,
        what=f"the GALEN ontology: six mutually recursive rules, {edits} single-row edits",
        kind="galen",
        rules=GALEN,
        inputs=inputs,
        outputs=("p", "q"),
        edits=np.array(edited, np.int64),
        samples=(edits,),
        facts={"rows": f"{sum(map(len, inputs.values())):,}"},
    )


def _points_to(name: str, quick: bool) -> Workload:
    from bench.points_to import RULES, extract  # pycparser is checked by `preprocessed`

    units = preprocessed(cache_folder() / "csources")
    # Without fields and contexts, the interpreter loops of less and lua make everything point to
    # everything: less alone passes 116 M derivations for 1 M facts, and no peer finishes either.
    chosen = ("bzip2/",) if quick else ("bzip2/", "zlib/")
    units = [(unit, path) for unit, path in units if unit.startswith(chosen)]
    inputs, read, failed = extract(units)
    edits = 50 if quick else 250
    rng = np.random.default_rng(7)
    statements = ("addr", "copy", "load", "store")
    pool = [(n, i) for n in statements for i in range(len(inputs[n]))]
    picked = [pool[i] for i in rng.permutation(len(pool))[:edits].tolist()]
    # Half of the picked statements are there and get deleted; the others are held out at first.
    names, rows = tuple(inputs), []
    held: dict[str, list[int]] = {n: [] for n in inputs}
    for epoch, (relation, index) in enumerate(picked, 1):
        sign = -1 if epoch % 2 else 1
        if sign > 0:
            held[relation].append(index)
        row = inputs[relation][index].tolist()
        rows.append([epoch, sign, names.index(relation), *row, 0])
    inputs = {n: np.delete(table, held[n], axis=0) for n, table in inputs.items()}
    return Workload(
        name=name,
        what=f"Andersen's analysis of C sources with function pointers, {edits} statement edits",
        kind="points-to",
        rules=RULES,
        inputs=inputs,
        outputs=("pt", "callee"),
        edits=np.array(rows, np.int64),
        samples=_spread(edits, 3),
        facts={
            "C files": f"{read} read, {failed} not parsed",
            "statements": f"{sum(len(inputs[n]) for n in statements):,}",
        },
    )


_FRACTIONS = ("0.001 %", "0.1 %", "1 %", "10 %", "50 %")


def _batch(name: str, quick: bool) -> Workload:
    base = _reach_edit(name, quick)
    graph = base.inputs["edge"]
    nodes = 20_000 if quick else 1_000_000
    labels = tuple(f for f in _FRACTIONS for _ in range(3 if float(f[:-2]) <= 1 else 1))
    sizes = tuple(max(2, int(len(graph) * float(f[:-2]) / 100)) for f in labels)
    blocks = [
        np.column_stack([np.full(len(e), i), e[:, 0], np.zeros(len(e)), e[:, 1:]])
        for i, e in enumerate(batch_edits(nodes, graph, 11, sizes), 1)
    ]
    return replace(
        base,
        what="reach-edit's graph, one epoch changing a share of all edges, half of it deletes",
        edits=np.concatenate(blocks).astype(np.int64),
        labels=labels,
        samples=tuple(range(1, len(labels) + 1)),
    )


def _load(name: str, quick: bool) -> Workload:
    nodes, edges = (20_000, 100_000) if quick else (1_000_000, 5_000_000)
    return Workload(
        name=name,
        what="edges from Arrow into a relation with the indexes reach needs; no roots yet",
        kind="reach",
        rules=REACH,
        inputs={"edge": rmat(nodes, edges, seed=edges), "root": np.empty((0, 1), np.int64)},
        outputs=("reach",),
        edits=_NONE,
        facts={"edges": f"{edges:,}"},
    )


WORKLOADS: dict[str, Callable[[str, bool], Workload]] = {
    "reach-edit": _reach_edit,
    "reach-edit-small": _reach_edit_small,
    "tc-edit": _closure(2_200, 5_500, 200),
    "tc-bulk-1m": _closure(2_200, 5_500, 0),
    "tc-bulk-10m": _closure(8_200, 18_500, 0),
    "tc-bulk-100m": _closure(27_300, 63_000, 0),
    "galen": _galen,
    "points-to": _points_to,
    "growth-10k": _growth(10_000),
    "growth-100k": _growth(100_000),
    "growth-1m": _growth(1_000_000),
    "growth-10m": _growth(10_000_000),
    "batch": _batch,
    "load": _load,
}


def prepare(name: str, quick: bool) -> Path:
    """The cache folder of a workload, made now if it is not there yet.

    Raises:
        SetupError: its data cannot be had here; the message says why.
    """
    folder = cache_folder() / "workloads" / (f"{name}-quick" if quick else name)
    if load(folder) is None:
        save(WORKLOADS[name](name, quick), folder)
    return folder
