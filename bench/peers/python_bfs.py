"""Reachability in plain Python with breadth-first ranks: what a careful user would write by hand.

A node's rank is its distance from the roots. Inserting an edge lowers ranks by a bounded search;
deleting one looks for another parent of the same rank, and otherwise raises ranks level by level
(Even and Shiloach's scheme). It is exact. It is the shape of a BFS-level rank repair.
"""

from __future__ import annotations

import heapq
import platform
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Changes, Outcome, drive
from bench.peers.base import Peer
from bench.workload import Workload, answer

__all__ = ["make"]


class _Session:
    def __init__(self, workload: Workload) -> None:
        self._edges = workload.inputs["edge"].tolist()
        self._roots = workload.inputs["root"].ravel().tolist()
        self._out: dict[int, set[int]] = defaultdict(set)
        self._in: dict[int, set[int]] = defaultdict(set)
        self._rank: dict[int, int] = {}
        self._before: dict[int, bool] = {}
        self._delta: tuple[list[tuple[int]], list[tuple[int]]] = ([], [])

    def load(self) -> None:
        for a, b in self._edges:
            self._out[a].add(b)
            self._in[b].add(a)
        self._rank = dict.fromkeys(self._roots, 0)
        self._lower(list(self._roots))
        self._before.clear()

    def _lower(self, frontier: list[int]) -> None:
        """Propagate from nodes whose rank has become final and may lower their successors'."""
        rank, out = self._rank, self._out
        heap = [(rank[v], v) for v in frontier]
        heapq.heapify(heap)
        while heap:
            level, v = heapq.heappop(heap)
            if rank.get(v) != level:
                continue
            for w in out.get(v, ()):
                if rank.get(w, level + 2) > level + 1:
                    self._before.setdefault(w, w in rank)
                    rank[w] = level + 1
                    heapq.heappush(heap, (level + 1, w))

    def _raise(self, suspect: int) -> None:
        """Remove ranks that have lost every parent one below, level by level; then re-derive."""
        rank, parents = self._rank, self._in
        heap, lost = [(rank[suspect], suspect)], set()
        while heap:
            level, v = heapq.heappop(heap)
            if rank.get(v) != level or any(rank.get(u) == level - 1 for u in parents.get(v, ())):
                continue
            self._before.setdefault(v, True)
            del rank[v]
            lost.add(v)
            for w in self._out.get(v, ()):
                if rank.get(w) == level + 1:
                    heapq.heappush(heap, (level + 1, w))
        again = []
        for v in lost:
            standing = [rank[u] for u in parents.get(v, ()) if u in rank and u not in lost]
            if standing:
                again.append((v, min(standing) + 1))
        for v, level in again:
            rank[v] = level
        self._lower([v for v, _ in again])

    def apply(self, changes: Changes, evaluate: bool) -> None:
        for deleted, inserted in changes.values():
            for a, b in deleted.tolist():
                self._out[a].discard(b)
                self._in[b].discard(a)
                if a in self._rank and self._rank.get(b) == self._rank[a] + 1:
                    self._raise(b)
            for a, b in inserted.tolist():
                self._out[a].add(b)
                self._in[b].add(a)
                if a in self._rank and self._rank.get(b, 1 << 60) > self._rank[a] + 1:
                    self._before.setdefault(b, b in self._rank)
                    self._rank[b] = self._rank[a] + 1
                    self._lower([b])
        added = [(v,) for v, held in self._before.items() if not held and v in self._rank]
        removed = [(v,) for v, held in self._before.items() if held and v not in self._rank]
        self._delta = added, removed
        self._before.clear()

    def answers(self) -> dict[str, list[Any]]:
        rows = np.fromiter(self._rank, np.int64, len(self._rank)).reshape(-1, 1)
        return {"reach": list(answer(rows))}

    def counters(self) -> tuple[int, int] | None:
        return None


class _PythonBfs(Peer):
    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return f"CPython {platform.python_version()}"

    def cannot(self, workload: Workload) -> str | None:
        return None if workload.kind == "reach" else "a hand-written program for reachability only"

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        return drive(_Session(workload), workload, outcome, deadline)


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return _PythonBfs()
