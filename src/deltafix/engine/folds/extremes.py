"""`min` and `max` within a recursion: the best value per group and how many rows have it.

A better row replaces it in O(1). When the last row with the best value goes, the group is looked
at again, through the source's index by group; from then on the group keeps its values in order
(a heap with lazy deletion), so the next time costs O(log n). Floats are held as their places in the
total order. Invariant: the best value held is that of the source's rows as they stand. Not here:
those outside recursion (`kernel.extremes`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from deltafix.engine.folds.groups import Journal, Key
from deltafix.facts.values import BaseType, Value, float_at, float_order
from deltafix.plan.clause import Fold


@total_ordering
class _Last:
    """A value in the opposite order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Last) and self.value == other.value

    def __lt__(self, other: _Last) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class _Order:
    """All values of a group: how often each occurs, and a heap of those that ever did."""

    counts: Counter[Any]
    heap: list[Any] = field(default_factory=list)


class Extremes:
    """The least (or greatest) value of each group. `kind` is the base type of the values.

    `look` gives the values in one group as they stand, one for each row of the source.
    """

    def __init__(self, fold: Fold, kind: BaseType, look: Callable[[Key], list[Value]]) -> None:
        self._kind = kind
        self._look = look
        self._least = fold.op == "min"
        self._groups: Journal[tuple[Any, int]] = Journal()
        self._orders: dict[Key, _Order] = {}
        self._open: set[Key] = set()

    def change(self, key: Key, value: Value | None, sign: int) -> None:
        """A row of a group comes (`sign` 1) or goes (-1)."""
        self._change(key, self._ordered(value), sign)

    def value(self, key: Key) -> Value | None:
        """The value of a group; None: it has no rows."""
        if key in self._open:
            self._open.discard(key)
            self._settle(key)
        held = self._groups.now.get(key)
        return None if held is None else self._shown(held[0])

    def keep(self) -> None:
        """The epoch was committed."""
        self._groups.keep()

    def undo(self) -> None:
        """The epoch was rolled back. Kept orders of touched groups are dropped, not undone."""
        for key in self._groups.touched:
            self._orders.pop(key, None)
        self._groups.undo()
        self._open.clear()

    def _ordered(self, value: Any) -> Any:
        return float_order(value) if self._kind == "float" else value

    def _shown(self, value: Any) -> Value:
        return float_at(value) if self._kind == "float" else value

    def _better(self, value: Any, than: Any) -> bool:
        return bool(value < than if self._least else value > than)

    def _change(self, key: Key, value: Any, sign: int) -> None:
        held = self._groups.touch(key)
        order = self._orders.get(key)
        if order is not None:
            order.counts[value] += sign
            if sign > 0 and order.counts[value] == 1:
                heapq.heappush(order.heap, value if self._least else _Last(value))
            self._open.add(key)
        elif held is None or (sign > 0 and self._better(value, held[0])):
            self._groups.put(key, (value, 1))
        elif value == held[0]:
            self._groups.put(key, (value, held[1] + sign))
            if held[1] + sign <= 0:
                self._open.add(key)

    def _settle(self, key: Key) -> None:
        """The best value of a group whose best may be gone."""
        order = self._orders.get(key)
        if order is None:
            if key in self._groups.now and self._groups.now[key][1] > 0:
                return  # a row with the best value came in the same epoch
            values = [self._ordered(value) for value in self._look(key)]
            order = _Order(Counter(values))
            order.heap = list(order.counts) if self._least else [_Last(v) for v in order.counts]
            heapq.heapify(order.heap)
            if len(values) > 1:
                self._orders[key] = order
        while order.heap:
            top = order.heap[0] if self._least else order.heap[0].value
            if order.counts[top] > 0:
                self._groups.put(key, (top, order.counts[top]))
                return
            heapq.heappop(order.heap)
            del order.counts[top]
        self._groups.put(key, None)
        self._orders.pop(key, None)
