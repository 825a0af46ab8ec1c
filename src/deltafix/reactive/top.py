"""The top_k operator: each key's k greatest values, as values of their own.

Invariant: a key's state is the sorted multiset of its values; the output is the first (or last) k
of it, with multiplicity. O(log n + k) a change. Compare `reduce(TopK(k))`, which gives one tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltafix.reactive.changes import Changes, Counts
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node
from deltafix.reactive.reduce import Reduce

__all__ = ["Spread"]


class Spread(Node):
    """Gives each item of a reduced tuple as a value of its own; what `top_k` stands on."""

    def __init__(self, graph: Graph, source: Reduce, label: str) -> None:
        super().__init__(graph, (source,), label)

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        for key, counts in self.inbox[0].items():
            spread = _spread(counts)
            if spread:
                out[key] = spread
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key, items, count in self.sources[0].rows():
            for value in items:
                yield key, value, count


def _spread(counts: Mapping[Any, int]) -> Counts:
    """Net counts of the items of signed tuples: what stays in the top does not appear."""
    spread: Counts = {}
    for items, count in counts.items():
        for value in items:
            total = spread.get(value, 0) + count
            if total:
                spread[value] = total
            else:
                del spread[value]
    return spread
