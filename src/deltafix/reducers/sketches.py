"""Reducers in bounded memory, within an error: ApproxDistinct, ApproxQuantile, HeavyHitters.

Each is a linear sketch: counts of where the values fall. So removal is exact where the usual form
(highest ranks of HyperLogLog, counters of Misra-Gries or SpaceSaving, compactions of KLL) cannot
forget or depends on the order of arrival; the estimate depends on the multiset alone, and two
sketches of two parts add up to that of the whole (`merge`).

Invariant: equal values fall into one place (1, 1.0 and True, inside tuples too), in every process.
The exact counterparts are in `sets` and `extremes`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from math import ceil, inf, isfinite, log, log2, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from deltafix.errors import ReducerError
from deltafix.facts.values import canonical, float_order
from deltafix.reducers.bag import Bag
from deltafix.reducers.numeric import _label, _OfField
from deltafix.reducers.reducer import Additive, Field, Mergeable

__all__ = ["ApproxDistinct", "ApproxQuantile", "HeavyHitters"]

_NOTHING: Bag[Any] = Bag()


class _Registers(NamedTuple):
    """`counts`: how many values have (register, rank); `ranks`: per register the set of ranks."""

    counts: Bag[tuple[int, int]]
    ranks: Bag[int]
    harmonic: int


class ApproxDistinct(_OfField, Additive[Any, _Registers, int], Mergeable[Any, _Registers, int]):
    """About how many different values a field takes, in memory that does not grow with them.

    HyperLogLog (Flajolet et al. 2007, with linear counting for few values) that can forget: where
    the usual sketch keeps each register's highest rank, this one counts how many values have each
    (register, rank), so removal is exact and the estimate depends on the multiset alone. Standard
    error 1.04 / sqrt(2**precision): 1.6 % at the default 12. At most 2**precision * 50 counts.
    `digest` turns a value into 8 bytes or more; the default hashes None, strings, numbers and
    tuples of them by what they equal, other objects by `repr`, and is the same in every process.
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
    def initial(self) -> _Registers:
        # 2**-rank in whole units of 2**-_top; an untouched register counts as rank 0.
        return _Registers(_NOTHING, _NOTHING, (1 << self.precision) << self._top)

    def _cell(self, value: Any) -> tuple[int, int]:
        item = value if self._get is None else self._get(value)
        bits = int.from_bytes(self._digest(item)[:8], "big")
        rest = bits & ((1 << (64 - self.precision)) - 1)
        return (bits >> (64 - self.precision), 64 - self.precision - rest.bit_length() + 1)

    def _counted(self, acc: _Registers, cell: tuple[int, int], count: int) -> _Registers:
        before = acc.counts.get(cell, 0)
        if before + count < 0:
            raise KeyError(cell)
        counts = acc.counts.with_count(cell, before + count)
        if (before > 0) == (before + count > 0):
            return acc._replace(counts=counts)
        register, rank = cell
        # The set of ranks of a register, as the bits of an int: its highest bit is the register.
        ranks = acc.ranks.get(register, 0)
        changed = ranks ^ (1 << rank)
        harmonic = acc.harmonic - self._share(ranks) + self._share(changed)
        return _Registers(counts, acc.ranks.with_count(register, changed), harmonic)

    def _share(self, ranks: int) -> int:
        return 1 << (self._top - max(ranks.bit_length() - 1, 0))

    def shift(self, acc: _Registers, value: Any, count: int) -> _Registers:
        return self._counted(acc, self._cell(value), count)

    def merge(self, left: _Registers, right: _Registers) -> _Registers:
        for cell, count in right.counts.items():
            left = self._counted(left, cell, count)
        return left

    def finish(self, acc: _Registers) -> int:
        registers = 1 << self.precision
        bias = 0.7213 / (1 + 1.079 / registers)
        estimate = bias * registers * registers * 2.0**self._top / acc.harmonic
        empty = registers - len(acc.ranks)
        if estimate <= 2.5 * registers and empty:
            estimate = registers * log(registers / empty)
        return round(estimate)


class ApproxQuantile(_OfField, Mergeable[Any, "Bag[int]", "float | None"]):
    """The `q`-quantile of numbers to a relative `error`, in memory that does not grow with them.

    A DDSketch (Masson, Rim, Lee: DDSketch, VLDB 2019) with the linear mapping of the field's bits:
    values whose doubles agree in the exponent and the leading bits share a count. The result lies
    within `error` times itself of the value that `Quantile(q, interpolate=False)` gives, always and
    not only probably; below 2.3e-308 within that much. Infinities, to which whole numbers past
    every double belong, and NaN (above them) have places of their own. Memory: about 3.4 / error
    counts for each factor of ten that the values span. Adding and removing cost O(log counts), the
    result O(counts * log counts). Float; None over no values.
    """

    def __init__(self, q: float, of: Field = None, *, error: float = 0.01) -> None:
        super().__init__(of)
        if not 0 <= q <= 1:
            raise ReducerError(f"q must lie between 0 and 1, not {q!r}")
        if not 1e-9 <= error <= 0.25:
            raise ReducerError(f"error must lie between 1e-9 and 0.25, not {error!r}")
        self.q = q
        # With k leading bits, the middle of a place is off by at most 2**-(k + 1) of its least.
        self._dropped = 52 - (ceil(-log2(error)) - 1)

    initial: Bag[int] = _NOTHING

    @property
    def name(self) -> str:
        return _label(f"ApproxQuantile {self.q:g} ", self.of)

    def _bucket(self, value: Any) -> int:
        number = value if self._get is None else self._get(value)
        if not isinstance(number, (int, float, Decimal, Fraction)):
            raise TypeError(f"{number!r} ({type(number).__name__}) is not a number")
        try:
            double = float(number)
        except OverflowError:
            double = inf if number > 0 else -inf
        return float_order(canonical(double)) >> self._dropped

    def _middle(self, bucket: int) -> float:
        if bucket < 0:
            return -self._middle(~bucket)
        (least,) = struct.unpack("<d", struct.pack("<q", bucket << self._dropped))
        if bucket == 0 or not isfinite(least):
            return canonical(least)
        (middle,) = struct.unpack("<d", struct.pack("<q", (2 * bucket + 1) << (self._dropped - 1)))
        return float(middle)

    def add(self, acc: Bag[int], value: Any) -> Bag[int]:
        return acc.add(self._bucket(value))

    def remove(self, acc: Bag[int], value: Any) -> Bag[int]:
        return acc.discard(self._bucket(value))

    def merge(self, left: Bag[int], right: Bag[int]) -> Bag[int]:
        return _together(left, right)

    def finish(self, acc: Bag[int]) -> float | None:
        # As `Quantile`: 0.1 * 10 in doubles may land beside the value it means.
        rank = int(Fraction(self.q).limit_denominator(10**9) * (acc.total - 1))
        for bucket in sorted(acc):
            rank -= acc[bucket]
            if rank < 0:
                return self._middle(bucket)
        return None


_LANE = 64
_COUNT = (1 << _LANE) - 1
# A byte as eight lanes of 64 bits, lowest bit first: multisets of texts add up lane by lane.
_SPREAD = [
    b"".join((byte >> bit & 1).to_bytes(_LANE // 8, "little") for bit in range(8))
    for byte in range(256)
]


_Hits: TypeAlias = "tuple[tuple[Any, int], ...]"
_Cells: TypeAlias = "Bag[tuple[int, int]]"


class HeavyHitters(_OfField, Additive[Any, _Cells, _Hits], Mergeable[Any, _Cells, _Hits]):
    """The values that make up at least `share` of all occurrences, with about how often they occur.

    Combinatorial group testing (Cormode, Muthukrishnan: What's hot and what's not, TODS 2005): a
    Count-Min sketch of `depth` rows of 4 / share cells, whose cells also count the bits of the
    values, so that the value that holds most of a cell can be read from it. Counters that follow
    arrivals (Misra-Gries, SpaceSaving) need less, but cannot forget.

    Result: `(value, count)` pairs, most frequent first. A count is never too low. With probability
    at least 1 - 4**-depth for each value, it is too high by less than `share` of all occurrences,
    and a value of at least that share is not missed. Values are None, strings, numbers and tuples
    of them; numbers come back as equal ones. Memory: depth * 4 / share cells at most, and no more
    than depth for each different value; a cell takes 64 bytes for each byte of its longest value as
    JSON. Adding and removing touch `depth` cells, the result looks at all of them.
    """

    def __init__(self, share: float = 0.01, of: Field = None, *, depth: int = 5) -> None:
        super().__init__(of)
        if not 1e-6 <= share <= 1:
            raise ReducerError(f"share must lie between 1e-6 and 1, not {share!r}")
        if not 1 <= depth <= 16:
            raise ReducerError(f"depth must lie between 1 and 16, not {depth!r}")
        self.share = share
        self.depth = depth
        self._width = ceil(4 / share)

    initial: _Cells = _NOTHING

    @property
    def name(self) -> str:
        return _label(f"HeavyHitters {self.share:g} ", self.of)

    def _cells(self, text: bytes) -> Iterator[tuple[int, int]]:
        digest = blake2b(text, digest_size=4 * self.depth).digest()
        for row, (bits,) in enumerate(struct.iter_unpack("<I", digest)):
            yield row, bits % self._width

    def shift(self, acc: _Cells, value: Any, count: int) -> _Cells:
        text = _text(value if self._get is None else self._get(value))
        # The lowest lane counts the values, the others how many of them have each bit.
        spread = 1 | int.from_bytes(b"".join(map(_SPREAD.__getitem__, text)), "little") << _LANE
        for cell in self._cells(text):
            left = acc.get(cell, 0) + count * spread
            if left < 0:
                raise KeyError(value)
            acc = acc.with_count(cell, left)
        return acc

    def merge(self, left: _Cells, right: _Cells) -> _Cells:
        return _together(left, right)

    def finish(self, acc: _Cells) -> _Hits:
        enough = self.share * ((acc.total & _COUNT) // self.depth)  # every row counts all values
        texts = {_most(held) for held in acc.values() if held & _COUNT >= enough}
        hits: list[tuple[int, bytes, Any]] = []
        for text in texts:
            count = min(acc.get(cell, 0) & _COUNT for cell in self._cells(text))
            if count < enough or not count:
                continue
            try:
                value = _value(json.loads(text))
                same = _text(value) == text
            except (ValueError, ReducerError, RecursionError):  # no value has most of that cell
                continue
            if same:
                hits.append((-count, text, value))
        return tuple((value, -count) for count, _, value in sorted(hits, key=lambda hit: hit[:2]))


def _most(held: int) -> bytes:
    """The text whose bits are those that more than half of a cell's values have."""
    lanes = np.frombuffer(held.to_bytes((held.bit_length() // _LANE + 1) * 8, "little"), "<u8")
    bits = lanes[1:] > lanes[0] // 2
    return np.packbits(bits, bitorder="little").tobytes().rstrip(b"\0")


def _together(left: Bag[Any], right: Bag[Any]) -> Bag[Any]:
    """The multiset sum. O(the smaller one)."""
    if len(left) < len(right):
        left, right = right, left
    for value, count in right.items():
        left = left.add(value, count)
    return left


def _plain(value: Any) -> Any:
    """A value as JSON has it, the same for equal values; ReducerError where it has none."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (int, float, Decimal, Fraction)):
        if value != value:  # noqa: PLR0124  the test for NaN
            return nan
        if value in {inf, -inf}:
            return float(value)
        if -(1 << 63) < value < 1 << 63 and value == int(value):
            return int(value)
        try:
            if float(value) == value:
                return float(value)
        except OverflowError:  # a whole number past every double is written as a ratio
            pass
        return {"ratio": [f"{part:x}" for part in value.as_integer_ratio()]}
    raise ReducerError(
        f"{value!r} ({type(value).__name__}) cannot be written in a sketch: it takes None, "
        "strings, numbers and tuples of them"
    )


def _value(plain: Any) -> Any:
    """The value that `_plain` wrote; ValueError where it wrote no such thing."""
    if isinstance(plain, list):
        return tuple(_value(item) for item in plain)
    if isinstance(plain, dict):
        match plain:
            case {"ratio": [str(above), str(below)]} if int(below, 16):
                ratio = Fraction(int(above, 16), int(below, 16))
                return ratio.numerator if ratio.denominator == 1 else ratio
        raise ValueError(f"{plain!r} is no ratio")
    return canonical(plain) if isinstance(plain, float) else plain


def _text(value: Any) -> bytes:
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def _digest(value: Any) -> bytes:
    try:
        text = _text(value)
    except ReducerError:
        text = repr(value).encode()
    return blake2b(text, digest_size=8).digest()
