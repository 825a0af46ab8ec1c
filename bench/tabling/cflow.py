"""Control flow of C functions as facts over integers, from the graphs of `deltafix.analyses.c`.

A node defines at most one whole variable (`assigns`): a step that writes several is as many nodes
in a row, and every function has an exit node of its own. Parameters, pointers and members define
nothing, as in the textbook analysis. Invariant: the graph is a function of the texts alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from deltafix.analyses.c.flow import Flow as Steps
from deltafix.analyses.c.parse import UnreadableError, parse
from deltafix.analyses.reaching.extract import flows

__all__ = ["Flow", "flow_of"]


@dataclass(slots=True)
class Flow:
    """Nodes are numbered over all functions; `exits` holds one exit node per function."""

    nodes: int = 0
    edges: set[tuple[int, int]] = field(default_factory=set)
    assigns: dict[int, str] = field(default_factory=dict)
    exits: list[int] = field(default_factory=list)

    def facts(self) -> list[tuple[Any, ...]]:
        """`flow(m, n)`, `sets(n, v)` and `plain(n)` rows, functor first."""
        rows: list[tuple[Any, ...]] = [("flow", m, n) for m, n in sorted(self.edges)]
        for node in range(self.nodes):
            if node in self.assigns:
                rows.append(("sets", node, self.assigns[node]))
            else:
                rows.append(("plain", node))
        return rows

    def add(self, graph: Steps) -> None:
        """One function more."""
        first: list[int] = []
        last: list[int] = []
        for number, step in enumerate(graph.steps):
            written = sorted(step.sets) if number else []  # the entry sets what comes in
            nodes = range(self.nodes, self.nodes + max(len(written), 1))
            self.assigns.update(zip(nodes, written, strict=False))
            self.edges.update(pairwise(nodes))
            self.nodes = nodes.stop
            first.append(nodes[0])
            last.append(nodes[-1])
        self.edges.update((last[source], first[target]) for source, target in graph.edges)
        self.edges.update((last[leaf], self.nodes) for leaf in graph.leaves)
        self.exits.append(self.nodes)
        self.nodes += 1


def flow_of(texts: Iterable[str], functions: int | None = None) -> Flow:
    """The flow graph of the first `functions` functions of C texts; unreadable ones are skipped."""
    flow = Flow()
    for number, text in enumerate(texts):
        try:
            root = parse(text.encode())
        except UnreadableError:
            continue
        for graph, _ in flows(str(number), root):
            if functions is not None and len(flow.exits) >= functions:
                return flow
            flow.add(graph)
    return flow
