"""agree_*: a closure of about a million pairs against a second engine, as loaded and after edits.

Sees: what only tables of real size show: growth of buckets and tables, ranks far apart. The
second engine keeps each node's successors as the bits of one int.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import deltafix
from deltafix.kernel.jit import JIT_DISABLED

NODES = 60 if JIT_DISABLED else 1100
PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def closure(edges: set[tuple[int, int]]) -> list[int]:
    """The nodes that each node reaches, as bits (Warshall)."""
    reach = [0] * NODES
    for x, y in edges:
        reach[x] |= 1 << y
    for middle in range(NODES):
        bit = 1 << middle
        through = reach[middle]
        for node in range(NODES):
            if reach[node] & bit:
                reach[node] |= through
    return reach


def reached(db: deltafix.Database) -> list[int]:
    """The same of the relation `path`."""
    table = db.to_arrow("path")
    found = np.zeros((NODES, NODES), dtype=bool)
    found[table.column("x").to_numpy(), table.column("y").to_numpy()] = True
    bits = np.packbits(found, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


@pytest.mark.parametrize("strategy", ["wavefront", "local"])
def test_agree_closure_of_a_million_pairs(strategy: str) -> None:
    rng = Random(strategy)
    edges = {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(3 * NODES)}
    with deltafix.connect(PROGRAM, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("edge", sorted(edges))
        assert reached(db) == closure(edges)
        for _ in range(4):
            gone = set(rng.sample(sorted(edges), 5))
            came = {(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(5)} - edges
            edges = (edges - gone) | came
            with db.transaction() as tx:
                tx.delete("edge", sorted(gone))
                tx.insert("edge", sorted(came))
            assert reached(db) == closure(edges)
        assert JIT_DISABLED or db.count("path") > 800_000
