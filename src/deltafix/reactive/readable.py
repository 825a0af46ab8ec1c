"""Reading: what a collection holds, by key, as a whole and as it changes.

One noun: a `Readable` is a node of the graph seen from outside. Which operators make one from
another is `collection`'s.

Invariant: reading changes nothing but what is kept for it, and sees the last committed epoch, also
inside a transaction. A user function of an operator may not read its own graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltafix.errors import ReactiveError, TransactionError
from deltafix.reactive.changes import Changes, summed
from deltafix.reactive.delta import CollectionDelta, Subscription
from deltafix.reactive.graph import EpochPass
from deltafix.reactive.node import Node
from deltafix.reactive.reduce import Drift, Reduce

if TYPE_CHECKING:
    import pyarrow as pa


class Readable:
    """key -> multiset of values, to be read; the base of `Collection`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def _kept(self) -> Node:
        if self._node.graph._running:
            raise TransactionError("a user function of an operator may not read its own graph")
        self._node.keep()
        return self._node

    def values(self, key: Any) -> list[Any]:
        """The values at a key, repeated as often as they occur; empty if there are none.

        The first read by key of a collection that keeps no state makes it keep one: O(contents)
        then, O(values of the key) afterwards.
        """
        counts = self._kept().at(key)
        return [value for value, count in counts.items() for _ in range(count)]

    def get(self, key: Any, default: Any = None) -> Any:
        """The only value at a key, or `default` if there is none.

        Raises ReactiveError if there are several: read them with `values`.
        """
        counts = self._kept().at(key)
        if not counts:
            return default
        if len(counts) > 1 or next(iter(counts.values())) > 1:
            raise ReactiveError(
                f"{self._node.label} has {sum(counts.values())} values at key {key!r}; use values()"
            )
        return next(iter(counts))

    def __contains__(self, key: Any) -> bool:
        return bool(self._kept().at(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Every (key, value), repeated as often as it occurs. O(contents)."""
        for key, value, count in self._rows():
            for _ in range(count):
                yield key, value

    def _rows(self) -> Iterator[tuple[Any, Any, int]]:
        return self._node.rows()

    def to_dict(self) -> dict[Any, list[Any]]:
        """Each key with the list of its values, repeated as often as they occur. O(contents)."""
        found: dict[Any, list[Any]] = {}
        for key, value in self.items():
            found.setdefault(key, []).append(value)
        return found

    def __len__(self) -> int:
        """How many values there are in all, repetitions included. O(contents)."""
        return sum(count for _, _, count in self._rows())

    def subscribe(
        self, fn: Callable[[CollectionDelta], Any], *, initial: bool = False
    ) -> Subscription:
        """Call `fn(delta)` after every epoch that changes this collection, once, with net changes.

        `initial=True` first calls it with everything there is. An error in `fn` rises from the
        commit as SubscriberError, after the epoch stands and all others were told. `fn` may commit
        to the graph: that is an epoch of its own, told after this one.
        """
        node = self._node
        if initial:
            rows = summed(self._rows())
            if rows:
                fn(CollectionDelta(node.graph.epoch, rows))

        def tell(epoch: int, changes: Changes) -> None:
            fn(CollectionDelta(epoch, changes))

        node.subscribers.append(tell)
        return Subscription(node, tell)

    @property
    def epoch(self) -> int:
        """How many epochs the graph has committed."""
        return self._node.graph.epoch

    @property
    def last_epoch(self) -> EpochPass:
        """What the graph's last epoch did: which operators were visited, what was recomputed."""
        return self._node.graph.last_epoch

    @property
    def visits(self) -> int:
        """In how many epochs this operator was visited at all."""
        return self._node.visits

    @property
    def drifts(self) -> list[Drift]:
        """What `reduce(..., verify=...)` has found."""
        return list(self._node.drifts) if isinstance(self._node, Reduce) else []

    def explain(self) -> str:
        """The operators this collection comes from, as an indented tree, sources below."""
        lines: list[str] = []

        def walk(node: Node, depth: int) -> None:
            lines.append("  " * depth + node.label)
            for source in node.sources:
                walk(source, depth + 1)

        walk(self._node, 0)
        return "\n".join(lines)

    def check_invariants(self) -> None:
        """Compare every operator of the graph with its recomputation; for tests. O(contents)."""
        self._node.graph.check_invariants()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.label}>"

    def to_arrow(self) -> pa.Table:
        """Columns `key`, `value`, `count`; keys and values must be of types Arrow can infer."""
        import pyarrow as pa  # noqa: PLC0415  not loaded before it is asked for

        rows = list(self._rows())
        columns: Mapping[str, list[Any]] = {
            "key": [row[0] for row in rows],
            "value": [row[1] for row in rows],
            "count": [row[2] for row in rows],
        }
        return pa.table(dict(columns))
