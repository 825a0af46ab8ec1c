"""The graph of collections, and the one pass an epoch makes through it.

Two nouns: a `Graph` is every node that shares epochs, an `EpochPass` says what the last epoch did.
The life of an epoch:

1. *Seed.* Net changes are applied to the states of input nodes.
2. *Pass.* Nodes with changes in their inboxes are visited once each, in creation order (a node's
   sources are older than it, so that is a topological order), and hand net changes on. A node
   none of whose inputs changed is never looked at.
3. *Commit or roll back.* If anything raised, every visited node takes back what it did and the
   inputs are as before. Otherwise undo logs are dropped, and then subscribers are told.

Invariant: between epochs every node's state is what recomputation from the inputs would give; no
node sees one input's new state beside another's old one (no glitches). The graph runs in the
thread that commits; it takes no locks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from deltafix.errors import (
    MissingRowError,
    OperatorError,
    SubscriberError,
    TransactionError,
)
from deltafix.reactive.changes import ABSENT, Changes, Counts
from deltafix.reactive.node import Leaf, Node, rows_of


@dataclass(frozen=True, slots=True)
class EpochPass:
    """What one epoch did: labels of the visited operators in order, and the work in them."""

    epoch: int
    visited: tuple[str, ...]
    recomputed: int
    drifted: int


class Graph:
    """Everything that is connected shares one graph, and so its epochs and transactions."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.epoch = 0
        self.open: object | None = None
        self._running = False
        self._visited: Sequence[Node] = ()
        self._delivering = False
        self._deliveries: deque[tuple[Callable[[int, Changes], None], int, Changes, str]] = deque()

    @property
    def last_epoch(self) -> EpochPass:
        """What the last committed epoch did."""
        nodes = self._visited
        return EpochPass(
            self.epoch,
            tuple(node.label for node in nodes),
            sum(node.recomputed for node in nodes),
            sum(node.drifted for node in nodes),
        )

    @property
    def running(self) -> bool:
        """Whether an epoch is passing through the graph now."""
        return self._running

    def absorb(self, other: Graph) -> None:
        """Make one graph of two. Neither may be within a transaction."""
        if other is self:
            return
        if self.open is not None or other.open is not None or self._running or other._running:
            raise TransactionError("cannot connect collections while a transaction is open")
        for node in other.nodes:
            node.graph = self
        self.nodes.extend(other.nodes)
        self.nodes.sort(key=lambda node: node.id)
        self.epoch = max(self.epoch, other.epoch)

    def check_idle(self) -> None:
        """Raise TransactionError inside a pass or an open transaction."""
        if self.open is not None:
            raise TransactionError("a transaction is open on this graph; commit it first")
        if self._running:
            raise TransactionError("a user function of an operator may not change its own graph")

    def run(self, seeds: Sequence[tuple[Node, Changes]]) -> None:
        """One epoch: all or nothing. `seeds` are input nodes with non-empty net changes."""
        if self._running:
            raise TransactionError("a user function of an operator may not change its own graph")
        self._running = True
        heap: list[int] = []
        pending: dict[int, Node] = {}
        visited: list[Node] = []
        seeded: list[Node] = []
        try:
            for node, changes in seeds:
                node.inbox = [changes]
                seeded.append(node)
                node.out = node.visit()
                _send(node, node.out, heap, pending)
            while heap:
                node = pending.pop(heappop(heap))
                visited.append(node)
                node.visits += 1
                node.recomputed = node.drifted = 0
                out = node.visit()
                if out:
                    if node.kept is not None:
                        _apply_kept(node, rows_of(out))
                    node.out = out
                    _send(node, out, heap, pending)
        except BaseException:
            for node in reversed(visited):
                node.rollback()
                _clear(node)
            for node in reversed(seeded):
                node.rollback()
                _clear(node)
            for node in pending.values():
                _clear(node)
            raise
        finally:
            self._running = False
        self.epoch += 1
        self._visited = visited
        for nodes in (seeded, visited):
            for node in nodes:
                net, node.out = node.out, None
                inbox = node.inbox
                for port in range(len(inbox)):
                    inbox[port] = None
                node.commit()
                if node.subscribers and net:
                    self._queue(node, net)
        if self._deliveries and not self._delivering:
            self._deliver()

    def run_row(self, source: Node, key: Any, gone: Any, come: Any) -> None:
        """One epoch in which a value leaves an input, another comes, or one takes its place.

        `ABSENT` stands for neither; the two differ. The same epoch as `run` makes of it, by the
        short way where every dependent is a leaf: no inboxes, no changes as dictionaries, and
        nothing made for subscribers that are not there.
        """
        leaves = source.leaves if source.leaves_known else _find_leaves(source)
        kept = source.kept
        if leaves is None or kept is None or self._running:
            self.run(((source, {key: _counts(gone, come)}),))
            return
        kept.replace(key, gone, come)
        self._running = True
        done = 0
        try:
            for leaf in leaves:
                leaf.row(key, gone, come)
                done += 1
        except BaseException:
            for leaf in reversed(leaves[:done]):
                leaf.undo_row(key)
            kept.replace(key, come, gone)
            raise
        finally:
            self._running = False
        self.epoch += 1
        self._visited = leaves
        if source.subscribers:
            self._queue(source, {key: _counts(gone, come)})
        for leaf in leaves:
            if leaf.subscribers:
                change = leaf.row_change(key)
                if change:
                    self._queue(leaf, {key: change})
        if self._deliveries and not self._delivering:
            self._deliver()

    def _queue(self, node: Node, changes: Changes) -> None:
        for tell in node.subscribers:
            self._deliveries.append((tell, self.epoch, changes, node.label))

    def _deliver(self) -> None:
        """Tell subscribers, in epoch order also when one of them commits another epoch."""
        self._delivering = True
        first: tuple[str, int, Exception] | None = None
        try:
            while self._deliveries:
                tell, epoch, changes, label = self._deliveries.popleft()
                try:
                    tell(epoch, changes)
                except Exception as error:  # every subscriber is told, then the first error rises
                    first = first or (label, epoch, error)
        finally:
            self._delivering = False
        if first is not None:
            label, epoch, cause = first
            raise SubscriberError(label, cause, f"epoch {epoch}") from cause

    def check_invariants(self) -> None:
        """Check every node against recomputation; for tests. O(contents of the graph)."""
        for node in self.nodes:
            node.check_invariants()


def _counts(gone: Any, come: Any) -> Counts:
    counts = {} if gone is ABSENT else {gone: -1}
    if come is not ABSENT:
        counts[come] = 1
    return counts


def _find_leaves(source: Node) -> tuple[Leaf, ...] | None:
    """The dependents of a node if all of them take single rows, else None; kept at the node."""
    nodes = [child for child, _ in source.dependents]
    leaves = tuple(node for node in nodes if isinstance(node, Leaf) and node.takes_rows)
    source.leaves = leaves if len(leaves) == len(nodes) else None
    source.leaves_known = True
    return source.leaves


def _send(node: Node, changes: Changes, heap: list[int], waiting: dict[int, Node]) -> None:
    for child, port in node.dependents:
        if node.routes_by_key and child.route not in rows_of(changes):
            continue
        child.inbox[port] = (
            changes if child.takes_segments or type(changes) is dict else rows_of(changes)
        )
        if child.id not in waiting:
            waiting[child.id] = child
            heappush(heap, child.id)


def _apply_kept(node: Node, changes: dict[Any, Counts]) -> None:
    try:
        if node.kept is not None:
            node.kept.apply(changes)
    except MissingRowError as error:
        raise OperatorError(
            f"{node.label} took away what it never gave ({error}); its function must return the "
            "same for the same key and value every time",
            operator=node.label,
        ) from error


def _clear(node: Node) -> None:
    node.out = None
    node.inbox = [None] * len(node.inbox)
