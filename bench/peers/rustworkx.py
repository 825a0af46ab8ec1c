"""rustworkx: the graph is edited in place, reachability is searched again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Changes, Outcome, drive
from bench.peers.base import Peer, installed
from bench.workload import Workload, answer

__all__ = ["make"]


class _Session:
    def __init__(self, workload: Workload) -> None:
        import rustworkx

        self._library = rustworkx
        self._edges = [tuple(e) for e in workload.inputs["edge"].tolist()]
        self._roots = workload.inputs["root"].ravel().tolist()
        self._nodes = 1 + max(map(max, self._edges))
        self._found: Any = set()

    def load(self) -> None:
        self._graph = self._library.PyDiGraph()
        self._graph.add_nodes_from(range(self._nodes))
        # One node above all roots: a single search answers for all of them.
        self._top = self._graph.add_node(None)
        self._graph.add_edges_from_no_data(self._edges)
        self._graph.add_edges_from_no_data([(self._top, r) for r in self._roots])
        self._found = self._library.descendants(self._graph, self._top)

    def apply(self, changes: Changes, evaluate: bool) -> None:
        for deleted, inserted in changes.values():
            self._graph.remove_edges_from([tuple(e) for e in deleted.tolist()])
            new = [tuple(e) for e in inserted.tolist()]
            missing = max((max(e) for e in new), default=0) - self._top
            if missing > 0:
                raise ValueError("an edge names a node beyond the graph")
            self._graph.add_edges_from_no_data(new)
        if evaluate:
            self._found = self._library.descendants(self._graph, self._top)

    def answers(self) -> dict[str, list[Any]]:
        rows = np.fromiter(self._found, np.int64, len(self._found)).reshape(-1, 1)
        return {"reach": list(answer(rows))}

    def counters(self) -> tuple[int, int] | None:
        return None


class _Rustworkx(Peer):
    mode = "recompute"

    def missing(self) -> str | None:
        return None if installed("rustworkx") else "not installed (pip install rustworkx)"

    def version(self) -> str:
        return installed("rustworkx") or ""

    def cannot(self, workload: Workload) -> str | None:
        return None if workload.kind == "reach" else "a graph library: reachability only"

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        return drive(_Session(workload), workload, outcome, deadline)


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return _Rustworkx()
