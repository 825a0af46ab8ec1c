"""Operators over two or more collections: join, semi-join, anti-join, set operations, distinct.

All read their sources' kept states by key, so their work is proportional to what changes (times
the values it meets). The states are already new when a node is visited; what is old is the new
state less the inbox.

Invariant: `join` is bilinear and respects multiplicities. The set operations (`union`,
`intersection`, `difference`, `distinct`) ask only whether a value is there, and give each value
once: two files that declare one symbol do not make it dead twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deltafix.facts.values import settled
from deltafix.reactive.changes import Changes, Counts, add_change
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node, guarded

_NONE: Mapping[Any, int] = {}


class _ReadsSources(Node):
    def __init__(self, graph: Graph, sources: Sequence[Node], label: str) -> None:
        super().__init__(graph, sources, label)
        for source in sources:
            source.keep()

    def _changed(self, port: int) -> Mapping[Any, Counts]:
        changes: Mapping[Any, Counts] | None = self.inbox[port]
        return _NONE if changes is None else changes  # type: ignore[return-value]  # empty


class Join(_ReadsSources):
    """Per key, every pair of a left and a right value, through `combine(key, left, right)`.

    d(A ⋈ B) = dA ⋈ B + A ⋈ dB - dA ⋈ dB, with A and B new. O(|dA| |B(k)| + |dB| |A(k)|).
    """

    def __init__(
        self,
        graph: Graph,
        left: Node,
        right: Node,
        combine: Callable[[Any, Any, Any], Any] | None,
        label: str,
    ) -> None:
        super().__init__(graph, (left, right), label)
        self._combine = combine

    def _pair(self, key: Any, left: Any, right: Any) -> Any:
        if self._combine is None:
            return (left, right)
        try:
            combined = settled(self._combine(key, left, right))
            hash(combined)
        except Exception as error:
            raise guarded(self, error, key, (left, right)) from error
        return combined

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        changed_left, changed_right = self._changed(0), self._changed(1)
        left, right = self.sources
        for key, counts in changed_left.items():
            # dA ⋈ (B - dB): the right side as it was.
            before = dict(right.at(key))
            for value, count in changed_right.get(key, _NONE).items():
                before[value] = before.get(value, 0) - count
            self._cross(out, key, counts, before)
        for key, counts in changed_right.items():
            self._cross(out, key, left.at(key), counts)
        return out

    def _cross(
        self, out: dict[Any, Counts], key: Any, lefts: Mapping[Any, int], rights: Mapping[Any, int]
    ) -> None:
        for left, often in lefts.items():
            for right, times in rights.items():
                if often * times:
                    add_change(out, key, self._pair(key, left, right), often * times)

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        left, right = self.sources
        for key, value, count in left.rows():
            for other, times in right.at(key).items():
                yield key, self._pair(key, value, other), count * times


class SemiJoin(_ReadsSources):
    """The left values whose key the right has (`present`), or has not (an anti-join)."""

    def __init__(self, graph: Graph, left: Node, right: Node, *, present: bool, label: str) -> None:
        super().__init__(graph, (left, right), label)
        self._present = present

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        left, right = self.sources
        changed_left, changed_right = self._changed(0), self._changed(1)
        for key, change in changed_right.items():
            is_there = bool(right.at(key))
            if is_there == _was_there(right.at(key), change):
                continue
            # The key came or went on the right: all old left values enter or leave with it.
            sign = 1 if is_there == self._present else -1
            own = changed_left.get(key, _NONE)
            for value, count in left.at(key).items():
                if count - own.get(value, 0):
                    add_change(out, key, value, sign * (count - own.get(value, 0)))
            for value, count in own.items():
                if value not in left.at(key):
                    add_change(out, key, value, sign * -count)
        for key, counts in changed_left.items():
            if bool(right.at(key)) == self._present:
                for value, count in counts.items():
                    add_change(out, key, value, count)
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        left, right = self.sources
        for key, value, count in left.rows():
            if bool(right.at(key)) == self._present:
                yield key, value, count


def _was_there(now: Mapping[Any, int], change: Mapping[Any, int]) -> bool:
    """Whether a key had values before `change` led to `now`. O(|change|)."""
    if any(count < 0 for count in change.values()):
        return True
    return len(now) != len(change) or any(now[value] != count for value, count in change.items())


class SetOperation(_ReadsSources):
    """Gives a value at a key once, if `holds` says so of the sources that have it there."""

    def __init__(
        self,
        graph: Graph,
        sources: Sequence[Node],
        holds: Callable[[Sequence[bool]], bool],
        label: str,
    ) -> None:
        super().__init__(graph, sources, label)
        self._holds = holds

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        touched: dict[Any, dict[Any, None]] = {}
        for changes in self.inbox:
            if changes is not None:
                for key, counts in changes.items():
                    touched.setdefault(key, {}).update(dict.fromkeys(counts))
        for key, values in touched.items():
            now = [source.at(key) for source in self.sources]
            change = [self._changed(port).get(key, _NONE) for port in range(len(now))]
            for value in values:
                counts = [at.get(value, 0) for at in now]
                after = self._holds([count > 0 for count in counts])
                before = self._holds(
                    [
                        count > changed.get(value, 0)
                        for count, changed in zip(counts, change, strict=True)
                    ]
                )
                if before != after:
                    add_change(out, key, value, 1 if after else -1)
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        seen: set[tuple[Any, Any]] = set()
        for source in self.sources:
            for key, value, _ in source.rows():
                if (key, value) not in seen:
                    seen.add((key, value))
                    if self._holds([value in other.at(key) for other in self.sources]):
                        yield key, value, 1
