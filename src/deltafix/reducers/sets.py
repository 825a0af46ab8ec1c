"""Reducers over values as sets: Union, Distinct. Both well-formed.

Invariant: a value contributed twice and removed once is still there, as counts are kept. The
printed dead-code example (Skip reduce paper, 6.5) deduplicates instead and loses an edge that two
files share; see the test. Counts of distinct values in bounded memory are in `sketches`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltafix.reducers.bag import Bag
from deltafix.reducers.numeric import _OfField
from deltafix.reducers.reducer import WellFormed

__all__ = ["Distinct", "Union"]

_NOTHING: Bag[Any] = Bag()


class _Bagged(_OfField, WellFormed[Any, "Bag[Any]", Any]):
    initial: Bag[Any] = _NOTHING

    def add(self, acc: Bag[Any], value: Any) -> Bag[Any]:
        return acc.add(value if self._get is None else self._get(value))

    def remove(self, acc: Bag[Any], value: Any) -> Bag[Any]:
        return acc.discard(value if self._get is None else self._get(value))

    def apply(self, acc: Bag[Any], changes: Mapping[Any, int]) -> Bag[Any]:
        get = self._get
        for sign in (-1, 1):
            for value, count in changes.items():
                if count * sign > 0:
                    item = value if get is None else get(value)
                    acc = acc.add(item, count) if sign > 0 else acc.discard(item, -count)
        return acc


class Union(_Bagged):
    """All values of a key as one `Bag` (multiset insert and delete, 6.6). O(log n) a change.

    A collection already is a multiset per key; reduce with Union only where the whole multiset is
    wanted as one value.
    """


class Distinct(_Bagged):
    """How many different values a field takes. O(log n) a change, memory O(distinct)."""

    def finish(self, acc: Bag[Any]) -> int:
        return len(acc)
