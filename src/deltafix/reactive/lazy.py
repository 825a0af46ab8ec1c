"""The lazy operator: computed for the keys somebody reads, kept up to date while read.

Invariant: as a collection it holds exactly the watched keys. A key that was read once but is not
watched is cached until its values change; nothing is computed for a key nobody asks for (counted
in `computed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from deltafix.errors import ReactiveError
from deltafix.facts.values import settled
from deltafix.reactive.changes import Changes, Counts, negated
from deltafix.reactive.collection import Collection
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node, guarded

__all__ = ["KeyWatch", "Lazy", "LazyCollection"]

# Unwatched keys kept between reads; the oldest goes first.
_CACHED = 10_000


class Lazy(Node):
    """Results per key: of watched keys for good, of read ones until they change."""

    def __init__(
        self,
        graph: Graph,
        source: Node,
        fn: Callable[[Any, list[Any]], Iterable[Any]],
        label: str,
    ) -> None:
        super().__init__(graph, (source,), label)
        source.keep()
        self._fn = fn
        self._watched: dict[Any, Counts] = {}
        self._watchers: dict[Any, int] = {}
        self._cached: dict[Any, Counts] = {}
        self._undo: dict[Any, Counts | None] = {}
        self._request: tuple[Any, bool] | None = None
        self._stale: list[Any] = []
        self.computed = 0

    def _compute_at(self, key: Any) -> Counts:
        values = [value for value, count in self.sources[0].at(key).items() for _ in range(count)]
        self.computed += 1
        counts: Counts = {}
        try:
            for value in map(settled, self._fn(key, values)):
                counts[value] = counts.get(value, 0) + 1
        except Exception as error:
            raise guarded(self, error, key, values) from error
        return counts

    def visit(self) -> Changes:
        if self._request is not None:
            return self._answer(*self._request)
        out: dict[Any, Counts] = {}
        for key in self.inbox[0]:
            if key in self._cached:
                self._stale.append(key)
            before = self._watched.get(key)
            if before is None:
                continue
            after = self._compute_at(key)
            self._undo[key] = before
            self._watched[key] = after
            change = _difference(before, after)
            if change:
                out[key] = change
        return out

    def _answer(self, key: Any, wanted: bool) -> Changes:
        """Begin or end to hold a key: its whole result is what changes."""
        if wanted:
            counts = dict(self.read(key))
            self._undo[key] = None
            self._watched[key] = counts
            return {key: counts} if counts else {}
        counts = self._watched.pop(key)
        self._undo[key] = counts
        return negated({key: counts}) if counts else {}

    def rollback(self) -> None:
        for key, before in self._undo.items():
            if before is None:
                self._watched.pop(key, None)
            else:
                self._watched[key] = before
        self._undo.clear()
        self._stale.clear()

    def commit(self) -> None:
        for key in self._stale:
            self._cached.pop(key, None)
        self._stale.clear()
        self._undo.clear()

    def keep(self) -> None:
        """Results are kept per key as they are asked for."""

    def at(self, key: Any) -> Mapping[Any, int]:
        return self._watched.get(key, {})

    def read(self, key: Any) -> Mapping[Any, int]:
        """Counts at a key, computed if they are not known."""
        counts = self._watched.get(key)
        if counts is None:
            counts = self._cached.get(key)
        if counts is None:
            counts = self._compute_at(key)
            if len(self._cached) >= _CACHED:
                del self._cached[next(iter(self._cached))]
            self._cached[key] = counts
        return counts

    def watch(self, key: Any) -> None:
        """Hold a key from now on; the first watcher of a key makes an epoch of it."""
        if key not in self._watchers:
            self._request_epoch(key, True)
        self._watchers[key] = self._watchers.get(key, 0) + 1

    def unwatch(self, key: Any) -> None:
        """Let a key go when its last watcher does, in an epoch."""
        if self._watchers[key] == 1:
            self._request_epoch(key, False)
            del self._watchers[key]
        else:
            self._watchers[key] -= 1

    def _request_epoch(self, key: Any, wanted: bool) -> None:
        self.graph.check_idle()
        self._request = (key, wanted)
        try:
            self.graph.run(((self, {}),))
        finally:
            self._request = None

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        for key, counts in self._watched.items():
            for value, count in counts.items():
                yield key, value, count

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key in self._watched:
            for value, count in self._compute_at(key).items():
                yield key, value, count

    def check_invariants(self) -> None:
        """Raise AssertionError if a held result differs from recomputation."""
        for held in (self._watched, self._cached):
            for key, counts in held.items():
                if counts != self._compute_at(key):
                    raise AssertionError(f"{self.label} holds {counts} at {key!r}")
        if self._watched.keys() != self._watchers.keys():
            raise AssertionError(f"{self.label} watches {list(self._watchers)}")


def _difference(before: Counts, after: Counts) -> Counts:
    return {
        value: after.get(value, 0) - before.get(value, 0)
        for value in {**before, **after}
        if after.get(value, 0) != before.get(value, 0)
    }


class LazyCollection(Collection):
    """A collection that computes a key when it is read (`values`, `get`) or watched.

    For operators over it and for subscribers it holds the watched keys. Made by `Collection.lazy`.
    """

    _node: Lazy

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Lazy):
            raise TypeError(f"{node.label} is not lazy")
        super().__init__(node)

    def values(self, key: Any) -> list[Any]:
        """The values at a key, computed now if nobody watches it and it is not cached."""
        return [value for value, count in self._node.read(key).items() for _ in range(count)]

    def get(self, key: Any, default: Any = None) -> Any:
        """The only value at a key, as for any collection, computed now if need be."""
        values = self.values(key)
        if len(values) > 1:
            raise ReactiveError(
                f"{self._node.label} has {len(values)} values at key {key!r}; use values()"
            )
        return values[0] if values else default

    def watch(self, key: Any) -> KeyWatch:
        """Keep a key up to date until the watch is closed."""
        self._node.watch(key)
        return KeyWatch(self._node, key)

    @property
    def computed(self) -> int:
        """How often the function was called so far."""
        return self._node.computed


class KeyWatch:
    """Keeps one key of a lazy collection up to date; `close` ends it. A context manager."""

    def __init__(self, node: Lazy, key: Any) -> None:
        self._node: Lazy | None = node
        self.key = key

    def close(self) -> None:
        """Let the key go. Closing twice is fine."""
        node, self._node = self._node, None
        if node is not None:
            node.unwatch(self.key)

    def __enter__(self) -> KeyWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
