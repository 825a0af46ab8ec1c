"""Whole tables at once: rows of an Arrow table, sorted by key, kept as columns until touched.

One noun: a `Segment` is a loaded table whose rows lie together by key. Built-in reducers take
their first results from its columns in numpy; keys turn into dictionaries when they are first
touched. Measured (1M int64 rows, 100k keys): 0.1 to 0.2 s against 1.6 s through dictionaries.

Invariant: exact. Integer sums that may leave 64 bits and float sums are added in pieces that
cannot overflow or round, and joined as Python integers (`changes.digits`). What has no exact
columnar way here (nulls, decimals, nested columns) answers None, and the caller folds value by
value.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.changes.digits import float_totals, int_totals
from deltafix.changes.exact import Total
from deltafix.errors import FactError
from deltafix.reactive.changes import Counts

_Ints = npt.NDArray[np.int64]


class Segment:
    """The rows of one table by key. Build with `Segment.load`.

    `codes` maps a key to its code, from 0 in the order of the keys; `counts(code)` gives its
    values; `columns` hold the values, those of a key next to each other.
    """

    def __init__(
        self, keys: list[Any], offsets: _Ints, columns: dict[str, pa.Array], names: tuple[str, ...]
    ) -> None:
        self.codes: dict[Any, int] = dict(zip(keys, range(len(keys)), strict=True))
        self._offsets = offsets
        self._bounds = offsets.data  # the same memory, read one by one three times faster
        self.columns = columns
        self._names = names
        # Several operators thaw one key in one epoch: the last one read is kept.
        self._read: tuple[int, list[Any]] = (-1, [])
        self._row = row_class(names)

    @classmethod
    def load(cls, table: pa.Table, key: str, values: tuple[str, ...]) -> Segment:
        """Sort a table by key. Values are the column's, or named tuples of several columns.

        Raises FactError for unknown columns and for nulls in the key. O(n log n), in numpy.
        """
        require_columns(table, key, values)
        encoded = pc.dictionary_encode(table.column(key).combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        rows = len(codes)
        # Sorting code and row number as one int64 is several times faster than argsort.
        order = codes.astype(np.int64)
        order <<= 32
        order |= np.arange(rows, dtype=np.int64)
        order.sort()
        order &= 0xFFFFFFFF
        keys = encoded.dictionary.to_pylist()
        offsets = np.zeros(len(keys) + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=len(keys)), out=offsets[1:])
        columns = {name: taken(table.column(name).combine_chunks(), order) for name in values}
        return cls(keys, offsets, columns, values)

    def __len__(self) -> int:
        return int(self._offsets[-1])

    @property
    def is_settled(self) -> bool:
        """Whether equal keys and values are equal to Python: no NaN, no floats inside others."""
        return not any(key != key for key in self.codes) and all(  # noqa: PLR0124  NaN
            not pc.any(pc.is_nan(column)).as_py()
            if pa.types.is_floating(column.type)
            else not _holds_floats(column.type)
            for column in self.columns.values()
        )

    @property
    def after(self) -> Segment:
        """As a change of an empty state: what the state is behind it."""
        return self

    @property
    def keys(self) -> list[Any]:
        """As a change of an empty state: where it changes something."""
        return list(self.codes)

    def as_changes(self) -> dict[Any, Counts]:
        """The whole table as additions. O(rows) in Python."""
        return {key: self.counts(code) for key, code in self.codes.items()}

    def counts(self, code: int) -> Counts:
        """The multiset of one key, as value -> count."""
        values = self.values(code)
        counts: Counts = dict.fromkeys(values, 1)
        if len(counts) != len(values):
            counts = {}
            for value in values:
                counts[value] = counts.get(value, 0) + 1
        return counts

    def values(self, code: int) -> list[Any]:
        """The values of one key, in no particular order, repeated as often as they occur."""
        if self._read[0] == code:
            return self._read[1]
        start, stop = self._bounds[code], self._bounds[code + 1]
        values: list[Any]
        if self._row is None:
            values = self._views[0][start:stop].tolist()
        else:
            lists = [column[start:stop].tolist() for column in self._views]
            values = [self._row(*row) for row in zip(*lists, strict=True)]
        self._read = (code, values)
        return values

    def size(self, code: int) -> int:
        """How many values one key has."""
        return self._bounds[code + 1] - self._bounds[code]

    @cached_property
    def _views(self) -> list[Any]:
        """Columns whose slices have `tolist`; one of a memory view takes half of an array's."""
        return [_view(self.columns[name]) for name in self._names]

    def sizes(self) -> list[int]:
        """Rows of each key."""
        return cast("list[int]", np.diff(self._offsets).tolist())

    @cached_property
    def _numbers(self) -> dict[str, npt.NDArray[Any] | None]:
        return {}

    def numbers(self, field: Any) -> npt.NDArray[Any] | None:
        """A field as an int64 or float64 array in key order; None if it is nothing of the sort."""
        name = self._names[0] if field is None and self._row is None else field
        if isinstance(field, int) and self._row is not None and field < len(self._names):
            name = self._names[field]
        if not isinstance(name, str) or name not in self.columns:
            return None
        if field is not None and self._row is None:
            return None  # the value is the column's scalar: it has no such field
        if name not in self._numbers:
            self._numbers[name] = _as_numbers(self.columns[name])
        return self._numbers[name]

    def totals(self, field: Any) -> list[Total] | None:
        """The exact total of a field for each key, or None if there is no columnar way."""
        numbers = self.numbers(field)
        if numbers is None or not len(numbers):
            return None if numbers is None else []
        starts = self._offsets[:-1]
        longest = int(np.diff(self._offsets).max())
        if numbers.dtype == np.int64:
            return int_totals(numbers, starts, longest)
        return float_totals(numbers, starts, self.sizes(), longest)

    def extremes(self, field: Any, *, last: bool) -> list[Any] | None:
        """The least (or greatest) value of a field for each key, or None if not columnar."""
        numbers = self.numbers(field)
        if numbers is None or not len(numbers):
            return None if numbers is None else []
        reduce = np.maximum if last else np.minimum
        return cast("list[Any]", reduce.reduceat(numbers, self._offsets[:-1]).tolist())


def require_columns(table: pa.Table, key: str, values: tuple[str, ...]) -> None:
    """Raise FactError for unknown columns, unusable names, and nulls in the key."""
    for name in (key, *values):
        if name not in table.column_names:
            raise FactError(
                f"the table has no column {name!r}; its columns are "
                f"{', '.join(map(repr, table.column_names))}"
            )
    if not values:
        raise FactError(f"besides the key {key!r} the table has no column to take values from")
    invalid = [name for name in values if not name.isidentifier() or name.startswith("_")]
    if invalid and len(values) > 1:
        raise FactError(f"column names must be usable as attributes; {invalid[0]!r} is not")
    if table.column(key).null_count:
        raise FactError(f"column {key!r} is the key and holds nulls")


@lru_cache
def row_class(names: tuple[str, ...]) -> Callable[..., Any] | None:
    """The named tuple of these columns; None for one column, whose values are its scalars."""
    make: Any = namedtuple("Row", names) if len(names) > 1 else None
    return cast("Callable[..., Any] | None", make)


def taken(column: pa.Array, order: _Ints) -> pa.Array:
    """The column in another order; numpy's take is twice as fast where it applies."""
    if column.null_count == 0 and column.type in (pa.int64(), pa.float64()):
        return pa.array(column.to_numpy()[order])
    return column.take(pa.array(order))


def _holds_floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind)) or any(
        _holds_floats(kind.field(index).type) for index in range(kind.num_fields)
    )


def _view(column: pa.Array) -> Any:
    numbers = _as_numbers(column)
    if numbers is not None:
        return numbers.data
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values


def _as_numbers(column: pa.Array) -> npt.NDArray[Any] | None:
    if column.null_count:
        return None
    kind = column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return cast(
            "npt.NDArray[Any]", column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        )
    if pa.types.is_float64(kind):
        return cast("npt.NDArray[Any]", column.to_numpy(zero_copy_only=False))
    return None
