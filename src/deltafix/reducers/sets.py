"""Reducers over values as sets: Union, Distinct. Both well-formed.

Invariant: a value contributed twice and removed once is still there, as counts are kept. The
printed dead-code example (Skip reduce paper, 6.5) deduplicates instead and loses an edge that two
files share; see the test. Counts of distinct values in bounded memory are in `sketches`.
"""

from __future__ import annotations

from typing import Any

from deltafix.reducers.bag import Bag
from deltafix.reducers.numeric import _OfField
from deltafix.reducers.reducer import Additive

__all__ = ["Distinct", "Union"]

_NOTHING: Bag[Any] = Bag()


class _Bagged(_OfField, Additive[Any, "Bag[Any]", Any]):
    initial: Bag[Any] = _NOTHING

    def shift(self, acc: Bag[Any], value: Any, count: int) -> Bag[Any]:
        item = value if self._get is None else self._get(value)
        return acc.add(item, count) if count > 0 else acc.discard(item, -count)


class Union(_Bagged):
    """All values of a key as one `Bag` (multiset insert and delete, 6.6). O(log n) a change.

    A collection already is a multiset per key; reduce with Union only where the whole multiset is
    wanted as one value.
    """


class Distinct(_Bagged):
    """How many different values a field takes. O(log n) a change, memory O(distinct)."""

    def finish(self, acc: Bag[Any]) -> int:
        return len(acc)
