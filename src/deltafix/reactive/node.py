"""The node: an operator of the graph, with its state and what an epoch needs of it.

Two nouns: a `Node` is visited with net changes and hands net changes on; a `Leaf` is a node that
can also take an epoch of a single value by a shorter way. Which nodes are visited when, and what
happens when one raises, is the graph's (see `graph`).

Invariant: between epochs a node's inbox is empty, its undo log too, and its state is what `compute`
would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as counter
from typing import TYPE_CHECKING, Any

from deltafix.errors import DeltafixError, OperatorError, ReactiveError
from deltafix.reactive.changes import Changes, Counts, State, negated, summed

if TYPE_CHECKING:
    from deltafix.reactive.graph import Graph

_next_id = counter().__next__


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
        """The dependents, if all take single rows, where `leaves_known`."""
        self.leaves_known = False
        graph.nodes.append(self)

    def connect(self) -> None:
        """Start receiving changes; called once the node's state is set up without an error."""
        for port, source in enumerate(self.sources):
            source.dependents.append((self, port))
            # What depends on the source has changed, and with it whether it takes single rows.
            source.leaves_known = False
            for above in source.sources:
                above.leaves_known = False

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
    """A node that can also be brought up to date by one value that left and one that came.

    It keeps its own state. While nothing depends on it, epochs of a single value take that way.
    """

    def row(self, key: Any, gone: Any, come: Any) -> None:
        """As `visit`, for one value that left and one that came; either may be `ABSENT`.

        If it raises, it has changed nothing.
        """
        raise NotImplementedError

    def undo_row(self, key: Any) -> None:
        """Take back the last `row`, which was at `key`."""
        raise NotImplementedError

    def row_change(self, key: Any) -> Counts:
        """The net change of the result at `key` by the last `row`; empty if there was none."""
        raise NotImplementedError

    @property
    def takes_rows(self) -> bool:
        """Whether the short way is open to it now."""
        return not self.dependents


def contents(node: Node) -> dict[Any, Counts]:
    """Everything a node holds, as key -> {value: count}. O(contents)."""
    return summed(node.rows())


def guarded(node: Node, error: Exception, key: Any, value: Any) -> DeltafixError:
    """An OperatorError, unless the error already is one of ours with a place in it."""
    return error if isinstance(error, OperatorError) else node.failed(error, key, value)
