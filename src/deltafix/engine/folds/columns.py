"""The rows of a fold's source by group, sorted, as columns of codes: what `Columnar` reducers take.

Rows are sorted by codes where these have the order of their values, else by numbers that have
(`Codes.positions`). Invariant: the order is that of `reducers.ways.ranked`, and equal values have
equal codes. Texts are ranked among rows that numbers leave equal only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from deltafix.engine.codes import Codes, occurring
from deltafix.facts.values import OPTIONAL, BaseType
from deltafix.kernel.arena import Words
from deltafix.kernel.values import NIL
from deltafix.reducers.ways import Way

_Ints = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
_BITS = 63
_LARGE = (1 << 63) - 1


class Columns:
    """Rows as `reducers.aggregate.SortedRows`.

    `rows` are codes (n, arity), `taken` the columns of the values, of these `kinds`; `results` are
    the types of what a reducer makes of them, and `read` makes values of rows.
    """

    def __init__(  # noqa: PLR0917  made in one place
        self,
        codes: Codes,
        rows: Words,
        starts: _Ints,
        taken: tuple[int, ...],
        kinds: tuple[BaseType, ...],
        results: Sequence[BaseType],
        read: Callable[[Words], list[Any]],
    ) -> None:
        self.rows = rows
        self.starts = starts
        self._codes = codes
        self._taken = taken
        self._kinds = kinds
        self._results = results
        self._read = read

    def codes(self, column: int) -> Words:
        """A column as the engine has it."""
        return np.ascontiguousarray(self.rows[:, self._taken[column]])

    def present(self, column: int) -> _Flags | None:
        """Where a column that may be NULL is not."""
        return self.codes(column) != NIL if self._kinds[column] in OPTIONAL else None

    def numbers(self, column: int) -> npt.NDArray[Any] | None:
        """A column as int64 or float64, 0 where it is NULL."""
        kind, codes, present = self._kinds[column], self.codes(column), self.present(column)
        kind = OPTIONAL.get(kind, kind)
        if kind not in ("number", "float"):
            return None
        if present is None:
            return self._codes.decode_numbers(kind, codes)
        numbers: npt.NDArray[Any] = np.zeros(len(codes), np.int64 if kind == "number" else float)
        numbers[present] = self._codes.decode_numbers(kind, codes[present])
        return numbers

    def ranks(self, column: int) -> tuple[_Ints, Words]:
        """Where values lie among those that occur, and the codes of these."""
        kind, codes, present = self._kinds[column], self.codes(column), self.present(column)
        used, own = occurring(codes if present is None else codes[present])
        positions = self._codes.positions(OPTIONAL.get(kind, kind), used)
        assert positions is not None  # noqa: S101  what no order is of is no argument of MIN
        order = np.argsort(positions)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        ranks = np.full(len(codes), -1, dtype=np.int64)
        ranks[slice(None) if present is None else present] = places[own]
        return ranks, used[order]

    def values(self, places: Sequence[int]) -> list[Any]:
        """The values in places, as the reducer takes them."""
        if isinstance(places, range):
            return self._read(self.rows[places.start : places.stop : places.step])
        return self._read(self.rows[places])

    def coded(self, result: int, values: Any, present: _Flags | None = None) -> Words:
        """Values of a column of the results, with NULL where not `present`."""
        kind = self._results[result]
        bare = OPTIONAL.get(kind, kind)
        if isinstance(values, np.ndarray):
            some = values if present is None else values[present]
            codes = self._codes.encode_numbers(bare, some)
        else:
            listed = values if present is None else [*compress(values, present)]
            codes = self._codes.encode(bare, listed)
        if present is None:
            return codes
        whole = np.full(len(present), NIL, dtype=np.int32)
        whole[present] = codes
        return whole


def ordered(
    codes: Codes,
    rows: Words,
    group: tuple[int, ...],
    sorts: Sequence[tuple[int, BaseType, Way]],
) -> tuple[Words, _Ints] | None:
    """Rows by group and then by columns, and where each group begins, and the last has ended.

    None where a column is of values that have no order of numbers. O(n log n), in numpy.
    """
    bare = {OPTIONAL.get(kind, kind) for _, kind, _ in sorts}
    if not bare <= {"number", "unsigned", "float", "symbol"}:
        return None
    if any(way.nullable and kind not in OPTIONAL for _, kind, way in sorts):
        return None
    parts = [
        *(_Part(column, "number", None) for column in group),
        *(_Part(column, kind, way) for column, kind, way in sorts),
    ]
    order = np.arange(len(rows))
    begins = np.zeros(len(rows), dtype=np.bool_)
    begins[:1] = True
    tied: _Ints | slice = slice(None)
    while parts:
        chosen = order[tied]
        run: _Ints = np.cumsum(begins, dtype=np.int64)[tied]
        keys = [run]
        room = _BITS - _bits(run) - len(chosen).bit_length()
        while parts and (len(keys) == 1 or not parts[0].is_text):
            more = [*parts[0].keys(codes, rows[chosen, parts[0].column])]
            room -= sum(map(_bits, more))
            if room < 0 and len(keys) > 1:
                break
            keys += more
            parts.pop(0)
        turned = _argsort(keys, len(chosen))
        order[tied] = chosen[turned]
        new = np.zeros(len(chosen), dtype=np.bool_)
        new[:1] = True
        for key in keys:
            there = key[turned]
            new[1:] |= there[1:] != there[:-1]
        begins[tied] |= new
        ends = np.append(begins[1:], True)
        tied = np.flatnonzero(~(begins & ends))
        if not len(tied):
            break
    sorted_rows = rows[order]
    new = np.zeros(len(rows), dtype=np.bool_)
    new[:1] = True
    for column in group:
        new[1:] |= sorted_rows[1:, column] != sorted_rows[:-1, column]
    return sorted_rows, np.append(np.flatnonzero(new), len(rows))


class _Part:
    """A column that rows are sorted by; without a way, by its codes, whatever their order."""

    def __init__(self, column: int, kind: BaseType, way: Way | None) -> None:
        self.column = column
        self.kind: BaseType = OPTIONAL.get(kind, kind)
        self.way = way
        self.is_text = self.kind == "symbol"

    def keys(self, codes: Codes, column: Words) -> Iterator[_Ints]:
        """Numbers that order rows by the column: whether it is NULL, and of the values."""
        way = self.way
        if way is None:
            yield column.astype(np.int64)
            return
        present = column != NIL if way.nullable else np.ones(len(column), dtype=np.bool_)
        if way.nullable:
            yield (present == way.nulls_first).astype(np.int64)
        positions = codes.positions(self.kind, column[present])
        assert positions is not None  # noqa: S101  `ordered` saw to it
        if way.descending:
            positions = ~positions
        values = np.full(len(column), positions.min(initial=_LARGE), dtype=np.int64)
        values[present] = positions
        yield values


def _bits(key: _Ints) -> int:
    """How many bits tell the values of a key apart."""
    return (int(key.max(initial=key[0])) - int(key.min(initial=key[0]))).bit_length()


def _argsort(keys: list[_Ints], count: int) -> _Ints:
    """The order of rows by several keys.

    They are one number with that of the row, where this has room: sorting numbers is several times
    faster than their order.
    """
    widths = [_bits(key) for key in keys]
    row = count.bit_length()
    if sum(widths) + row > _BITS:
        order: _Ints = np.lexsort(keys[::-1])
        return order
    packed = np.zeros(count, dtype=np.int64)
    for key, width in zip(keys, widths, strict=True):
        packed <<= width
        packed |= key - key.min()
    packed <<= row
    packed |= np.arange(count)
    packed.sort()
    return packed & ((1 << row) - 1)
