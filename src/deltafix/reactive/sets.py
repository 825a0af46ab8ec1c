"""Reducers over values as sets: Union, Distinct, ApproxDistinct. All well-formed.

Invariant: a value contributed twice and removed once is still there, as counts are kept. The
printed dead-code example (Skip reduce paper, 6.5) deduplicates instead and loses an edge that two
files share; see the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from math import log
from typing import Any, NamedTuple

from deltafix.errors import ReducerError
from deltafix.reactive.bag import Bag
from deltafix.reactive.numeric import _OfField
from deltafix.reactive.reducer import WellFormed

__all__ = ["ApproxDistinct", "Distinct", "Union"]

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


class _Sketch(NamedTuple):
    """`counts`: how many values have (register, rank); `ranks`: per register the set of ranks."""

    counts: Bag[tuple[int, int]]
    ranks: Bag[int]
    harmonic: int


class ApproxDistinct(_OfField, WellFormed[Any, _Sketch, int]):
    """About how many different values a field takes, in memory that does not grow with them.

    HyperLogLog (Flajolet et al. 2007, with linear counting for few values) that can forget: where
    the usual sketch keeps each register's highest rank, this one counts how many values have each
    (register, rank), so removal is exact and the estimate depends on the multiset alone. Standard
    error 1.04 / sqrt(2**precision): 1.6 % at the default 12. At most 2**precision * 50 counts.
    `digest` turns a value into 8 bytes or more; the default hashes `repr` and is the same in every
    process.
    """

    def __init__(
        self, of: Any = None, *, precision: int = 12, digest: Callable[[Any], bytes] | None = None
    ) -> None:
        super().__init__(of)
        if not 4 <= precision <= 16:
            raise ReducerError(f"precision must lie between 4 and 16, not {precision}")
        self.precision = precision
        self._digest = digest or _digest
        self._top = 64 - precision + 1

    @property
    def initial(self) -> _Sketch:
        # 2**-rank in whole units of 2**-_top; an untouched register counts as rank 0.
        return _Sketch(_NOTHING, _NOTHING, (1 << self.precision) << self._top)

    def _place(self, value: Any) -> tuple[int, int]:
        item = value if self._get is None else self._get(value)
        bits = int.from_bytes(self._digest(item)[:8], "big")
        rest = bits & ((1 << (64 - self.precision)) - 1)
        return (bits >> (64 - self.precision), 64 - self.precision - rest.bit_length() + 1)

    def _shift(self, acc: _Sketch, value: Any, count: int) -> _Sketch:
        place = self._place(value)
        before = acc.counts.get(place, 0)
        if before + count < 0:
            raise KeyError(value)
        counts = acc.counts.with_count(place, before + count)
        if (before > 0) == (before + count > 0):
            return acc._replace(counts=counts)
        register, rank = place
        # The set of ranks of a register, as the bits of an int: its highest bit is the register.
        ranks = acc.ranks.get(register, 0)
        changed = ranks ^ (1 << rank)
        harmonic = acc.harmonic - self._share(ranks) + self._share(changed)
        return _Sketch(counts, acc.ranks.with_count(register, changed), harmonic)

    def _share(self, ranks: int) -> int:
        return 1 << (self._top - max(ranks.bit_length() - 1, 0))

    def add(self, acc: _Sketch, value: Any) -> _Sketch:
        return self._shift(acc, value, 1)

    def remove(self, acc: _Sketch, value: Any) -> _Sketch:
        return self._shift(acc, value, -1)

    def finish(self, acc: _Sketch) -> int:
        registers = 1 << self.precision
        bias = 0.7213 / (1 + 1.079 / registers)
        estimate = bias * registers * registers * 2.0**self._top / acc.harmonic
        empty = registers - len(acc.ranks)
        if estimate <= 2.5 * registers and empty:
            estimate = registers * log(registers / empty)
        return round(estimate)


def _digest(value: Any) -> bytes:
    return blake2b(repr(value).encode(), digest_size=8).digest()
