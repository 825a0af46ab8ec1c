"""What a subscriber is handed: the net change of one collection in one epoch.

Invariant: `added` and `removed` are disjoint as multisets; a value that left and came back in the
same epoch is in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from deltafix.closing import Closing
from deltafix.reactive.changes import Changes
from deltafix.reactive.node import Node, rows_of


class CollectionDelta:
    """Net changes of a collection: iterate it for signed rows `(key, value, count)`."""

    def __init__(self, epoch: int, changes: Changes) -> None:
        self.epoch = epoch
        self._given = changes

    @cached_property
    def _changes(self) -> dict[Any, dict[Any, int]]:
        return rows_of(self._given)

    @property
    def added(self) -> list[tuple[Any, Any]]:
        """(key, value) pairs that came, repeated as often as they did."""
        return [(key, value) for key, value, count in self for _ in range(count)]

    @property
    def removed(self) -> list[tuple[Any, Any]]:
        """(key, value) pairs that left, repeated as often as they did."""
        return [(key, value) for key, value, count in self for _ in range(-count)]

    def keys(self) -> list[Any]:
        """The keys at which something changed."""
        return list(self._changes)

    def at(self, key: Any) -> dict[Any, int]:
        """What changed at one key, as value -> signed count."""
        return dict(self._changes.get(key, {}))

    def __iter__(self) -> Iterator[tuple[Any, Any, int]]:
        for key, counts in self._changes.items():
            for value, count in counts.items():
                yield key, value, count

    def __len__(self) -> int:
        return sum(len(counts) for counts in self._changes.values())

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:+d} {key!r}: {value!r}" for key, value, count in self)
        return f"<CollectionDelta epoch {self.epoch}: {rows}>"


class Subscription(Closing):
    """A running subscription; `close` ends it. Usable in a with-statement."""

    def __init__(self, node: Node, tell: Callable[[int, Changes], None]) -> None:
        self._node = node
        self._tell = tell

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._tell not in self._node.subscribers

    def close(self) -> None:
        """Stop being told. Closing twice is fine."""
        if not self.closed:
            self._node.subscribers.remove(self._tell)
