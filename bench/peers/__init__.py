"""One adapter per peer, behind one protocol.

A peer module has a `Peer` subclass in `PEERS` below: it says whether its tool is here
(`missing`), whether it can express a workload (`cannot`), and runs it (`run`). Peers are imported
in the worker process only, each when it is asked for, so a broken one breaks nothing else.
Invariant: an adapter may prepare files before the clock starts, and must not keep answers.
"""

from __future__ import annotations

import importlib

from bench.peers.base import Peer

__all__ = ["PEERS", "Peer", "find"]

PEERS: dict[str, tuple[str, str]] = {
    "deltafix": ("bench.peers.deltafix", "wavefront"),
    "deltafix-auto": ("bench.peers.deltafix", "auto"),
    "deltafix-local": ("bench.peers.deltafix", "local"),
    "deltafix-deletes_first": ("bench.peers.deltafix", "deletes_first"),
    "deltafix-inserts_first": ("bench.peers.deltafix", "inserts_first"),
    "deltafix-dred": ("bench.peers.deltafix", "dred"),
    "deltafix-recompute": ("bench.peers.deltafix", "recompute"),
    "python-bfs": ("bench.peers.python_bfs", ""),
    "rustworkx": ("bench.peers.rustworkx", ""),
    "duckdb": ("bench.peers.duckdb", ""),
    "clingo": ("bench.peers.clingo", ""),
    "swipl-incremental": ("bench.peers.swipl", "incremental"),
    "swipl-monotonic": ("bench.peers.swipl", "monotonic"),
    "pathway": ("bench.peers.pathway", ""),
    "souffle-compiled": ("bench.peers.souffle", "compiled"),
    "souffle-interpreted": ("bench.peers.souffle", "interpreted"),
    "differential": ("bench.peers.differential", ""),
    "dbsp": ("bench.peers.dbsp", ""),
    "flowlog": ("bench.peers.flowlog", ""),
}
"""Name to (module, variant), in the order of the report."""


def find(name: str) -> Peer:
    """The peer called `name`, its module imported now. Raises KeyError for an unknown name."""
    module, variant = PEERS[name]
    found: Peer = importlib.import_module(module).make(variant)
    return found
