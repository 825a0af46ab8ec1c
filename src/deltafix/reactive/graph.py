"""The graph of collections, and the one pass an epoch makes through it.

Three nouns: a `Node` is an operator with its state, a `Graph` is every node that shares epochs, an
`EpochPass` says what the last epoch did. The life of an epoch:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count as counter
from typing import Any

from deltafix.errors import (
    DeltafixError,
    MissingRowError,
    OperatorError,
    ReactiveError,
    SubscriberError,
    TransactionError,
)
from deltafix.reactive.changes import Changes, Counts, State, negated, summed

__all__ = ["ABSENT", "EpochPass", "Graph", "Leaf", "Node", "contents", "guarded", "rows_of"]

_next_id = counter().__next__

ABSENT: Any = object()
"""Stands for no value where None may be one."""


@dataclass(frozen=True, slots=True)
class EpochPass:
    """What one epoch did: labels of the visited operators in order, and the work in them."""

    epoch: int
    visited: tuple[str, ...]
    recomputed: int
    drifted: int


def rows_of(changes: Changes) -> dict[Any, Counts]:
    """Changes as dictionaries, whatever form they came in."""
    return changes if isinstance(changes, dict) else changes.as_changes()


class Node:
    """An operator. Subclasses give `visit` (what changes), `compute` (all of it, from scratch).

    `inbox[port]` holds the changes of `sources[port]` during a pass, None if it did not change.
    """

    takes_segments = False
    routes_by_key = False
    """Whether each dependent gets the changes at one key only, that of its `route`."""
    route: Any = None

    def __init__(self, graph: Graph, sources: Sequence[Node], label: str) -> None:
        self.id = _next_id()
        self.graph = graph
        self.sources = tuple(sources)
        self.label = label
        self.inbox: list[Any] = [None] * len(self.sources)
        self.dependents: list[tuple[Node, int]] = []
        self.out: Changes | None = None
        self.kept: State | None = None
        self.visits = 0
        self.recomputed = 0
        self.drifted = 0
        self.subscribers: list[Callable[[int, Changes], None]] = []
        self.leaves: tuple[Leaf, ...] | None = None
        graph.nodes.append(self)

    def connect(self) -> None:
        """Start receiving changes; called once the node's state is set up without an error."""
        for port, source in enumerate(self.sources):
            source.dependents.append((self, port))
        for node in self.graph.nodes:
            node.leaves = None

    def visit(self) -> Changes:
        """Net output changes of the inbox. State may change, `rollback` must undo it."""
        raise NotImplementedError

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        """(key, value, count) rows of the whole output, from the sources' current contents."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Undo the effect of the visit of this epoch; also called when that visit raised."""
        if self.kept is not None and self.out is not None:
            self.kept.apply(negated(rows_of(self.out)))

    def commit(self) -> None:
        """Forget what a rollback would have needed."""

    def keep(self) -> None:
        """Hold the output as state from now on, so that it can be read by key."""
        if self.kept is None:
            state = State()
            state.apply(summed(self.compute()))
            self.kept = state

    def at(self, key: Any) -> Mapping[Any, int]:
        """Counts at a key, in the state after this epoch's changes. Needs `keep`."""
        if self.kept is None:
            raise ReactiveError(f"{self.label} is read by key but does not keep its state")
        return self.kept.at(key)

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        """Everything the node holds, as (key, value, count)."""
        return self.compute() if self.kept is None else self.kept.rows()

    def check_invariants(self) -> None:
        """Raise AssertionError if the state differs from recomputation. O(contents)."""
        if self.kept is not None:
            self.kept.check_invariants()
            held, fresh = summed(self.kept.rows()), summed(self.compute())
            if held != fresh:
                raise AssertionError(f"{self.label} holds {held}, recomputing gives {fresh}")

    def failed(self, error: Exception, key: Any, value: Any) -> OperatorError:
        """The error that names this operator, the key and the value a user function got."""
        return OperatorError(
            f"{self.label} failed at key {key!r} on value {value!r}: "
            f"{type(error).__name__}: {error}",
            operator=self.label,
            key=key,
            value=value,
        )


class Leaf(Node):
    """A node that can also be brought up to date by one added or removed value.

    While nothing depends on it, epochs of a single value take that short way: a third of the time.
    """

    def row(self, key: Any, gone: Any, come: Any) -> tuple[Any, Any, Any]:
        """As `visit`, for one value that left and one that came; either may be `ABSENT`.

        Returns `(undo, before, after)`: what `undo_row` needs, and the results at the key, either
        of them `ABSENT`. If it raises, it has changed nothing.
        """
        raise NotImplementedError

    def undo_row(self, key: Any, undo: Any) -> None:
        """Put back what `row` returned first."""
        raise NotImplementedError

    @property
    def takes_rows(self) -> bool:
        """Whether the short way is open to it now."""
        return not self.dependents and self.kept is None


def contents(node: Node) -> dict[Any, Counts]:
    """Everything a node holds, as key -> {value: count}. O(contents)."""
    return summed(node.rows())


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
        waiting: dict[int, Node] = {}
        visited: list[Node] = []
        seeded: list[Node] = []
        try:
            for node, changes in seeds:
                node.inbox = [changes]
                seeded.append(node)
                node.out = node.visit()
                _send(node, node.out, heap, waiting)
            while heap:
                node = waiting.pop(heappop(heap))
                visited.append(node)
                node.visits += 1
                node.recomputed = node.drifted = 0
                out = node.visit()
                if out:
                    if node.kept is not None:
                        _apply_kept(node, rows_of(out))
                    node.out = out
                    _send(node, out, heap, waiting)
        except BaseException:
            for node in reversed(visited):
                node.rollback()
                _clear(node)
            for node in reversed(seeded):
                node.rollback()
                _clear(node)
            for node in waiting.values():
                _clear(node)
            raise
        finally:
            self._running = False
        self.epoch += 1
        self._visited = visited
        for nodes in (seeded, visited):
            for node in nodes:
                told, node.out = node.out, None
                inbox = node.inbox
                for port in range(len(inbox)):
                    inbox[port] = None
                node.commit()
                if node.subscribers and told:
                    self._queue(node, told)
        if self._deliveries and not self._delivering:
            self._deliver()

    def run_row(self, source: Node, key: Any, gone: Any, come: Any) -> None:
        """One epoch in which a value leaves an input, another comes, or one takes its place.

        `ABSENT` stands for neither. The same epoch as `run` makes of it, by the short way where
        every dependent is a leaf.
        """
        leaves = source.leaves
        if leaves is None:
            leaves = source.leaves = leaves_of(source)
        kept = source.kept
        if self._running or kept is None or len(leaves) != len(source.dependents):
            self.run(((source, {key: _counts(gone, come)}),))
            return
        self._running = True
        done: list[tuple[Leaf, tuple[Any, Any, Any]]] = []
        try:
            if gone is not ABSENT:
                kept.bump(key, gone, -1)
            if come is not ABSENT:
                kept.bump(key, come, 1)
            try:
                for leaf in leaves:
                    done.append((leaf, leaf.row(key, gone, come)))
            except BaseException:
                for leaf, (undo, _, _) in reversed(done):
                    leaf.undo_row(key, undo)
                kept.apply({key: _counts(come, gone)})
                raise
        finally:
            self._running = False
        self.epoch += 1
        self._visited = leaves
        if source.subscribers:
            self._queue(source, {key: _counts(gone, come)})
        for leaf, (_, before, after) in done:
            leaf.visits += 1
            if leaf.subscribers and before is not after:
                self._queue(leaf, {key: _counts(before, after)})
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
            raise SubscriberError(
                f"a subscriber of {label} raised {type(cause).__name__}: {cause}; "
                f"epoch {epoch} is committed and every other subscriber was told"
            ) from cause

    def check_invariants(self) -> None:
        """Check every node against recomputation; for tests. O(contents of the graph)."""
        for node in self.nodes:
            node.check_invariants()


def _counts(gone: Any, come: Any) -> Counts:
    counts = {} if gone is ABSENT else {gone: -1}
    if come is not ABSENT:
        counts[come] = 1
    return counts


def leaves_of(source: Node) -> tuple[Leaf, ...]:
    """The dependents that can take single rows."""
    children = (child for child, _ in source.dependents)
    return tuple(child for child in children if isinstance(child, Leaf) and child.takes_rows)


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


def guarded(node: Node, error: Exception, key: Any, value: Any) -> DeltafixError:
    """An OperatorError, unless the error already is one of ours with a place in it."""
    return error if isinstance(error, OperatorError) else node.failed(error, key, value)
