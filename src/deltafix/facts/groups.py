"""Equal rows of columns brought together: one integer a row, one sort.

Arrow's `group_by` hashes whole rows, which takes three to ten times as long as sorting integers.
Invariant: two rows have the same code exactly where their columns are equal. Rows whose columns do
not fit 62 bits together have no codes; `group_columns` brings them together all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import to_numpy

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_ROOM: Final = 1 << 62


class RowCodes(NamedTuple):
    """An integer a row, from 0 to below `bound`, which is at most 2**62."""

    codes: Ints
    bound: int


def dictionary_of(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """A column as one dictionary array; a column that is encoded keeps its dictionary's values."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if pa.types.is_dictionary(column.type):
        if isinstance(column, pa.Array):
            return column
        wide = column.cast(pa.dictionary(pa.int32(), column.type.value_type))
        return _joined(wide.unify_dictionaries())
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = whole.dictionary_encode()
    # Text of more than 2 GiB stays in chunks until it is indices.
    return coded if isinstance(coded, pa.Array) else _joined(coded.unify_dictionaries())


def _joined(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def code_rows(columns: Sequence[pa.ChunkedArray]) -> RowCodes | None:
    """An integer a row, equal where the rows are; None where rows do not fit 62 bits, or for nulls.

    The dictionaries of encoded columns hold no value twice. O(n).
    """
    if not columns or not len(columns[0]):
        return None
    codes: Ints | None = None
    bound = 1
    for column in columns:
        if column.null_count:
            return None
        if pa.types.is_signed_integer(column.type):
            part = to_numpy(column).astype(np.int64, copy=False)
        else:
            part = to_numpy(dictionary_of(column).indices).astype(np.int64)
        low = int(part.min())
        width = int(part.max()) - low + 1
        bound *= width
        if bound > _ROOM:
            return None
        part = part - low
        codes = part if codes is None else codes * width + part
    return None if codes is None else RowCodes(codes, bound)


def group_rows(rows: RowCodes) -> tuple[Ints, Ints]:
    """(places, starts): places of equal rows together, and where among them each group begins.

    Groups come in the order of their codes, places inside one ascend. O(n log n).
    """
    codes, bound = rows
    count = len(codes)
    bits = max(count - 1, 1).bit_length()
    if bound << bits <= 1 << 64:
        # Code and place in one integer: sorting is several times faster than argsort.
        packed = codes.astype(np.uint64) << np.uint64(bits)
        packed |= np.arange(count, dtype=np.uint64)
        packed.sort()
        places = (packed & np.uint64((1 << bits) - 1)).astype(np.int64)
        return places, _starts(packed >> np.uint64(bits))
    places = np.argsort(codes, kind="stable")
    return places, _starts(codes[places])


def group_columns(columns: Sequence[pa.ChunkedArray]) -> tuple[Ints, Ints]:
    """`group_rows` of any columns without nulls; groups come in no particular order."""
    coded = code_rows(columns)
    if coded is None:
        count = len(columns[0])
        codes = np.zeros(count, dtype=np.int64)
        for column in columns:
            part = to_numpy(dictionary_of(column).indices).astype(np.int64)
            # Numbered anew after each column, so that two always fit together.
            wide = codes * (int(part.max(initial=0)) + 1) + part
            codes = np.unique(wide, return_inverse=True)[1].reshape(count).astype(np.int64)
        coded = RowCodes(codes, max(1, count))
    return group_rows(coded)


def present(rows: pa.Table, signs: np.ndarray[Any, Any]) -> pa.Table:
    """Each row, of any types and NULLs, whose signs add up to more than nothing, once. O(rows)."""
    names, keys = rows.column_names, rows
    for index, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):  # Arrow groups by none: by texts, equal where they are
            texts = [
                None if value is None else repr(value) for value in rows.column(index).to_pylist()
            ]
            keys = keys.set_column(index, field.name, pa.array(texts, pa.string()))
    keys = keys.append_column("+", pa.array(signs))
    keys = keys.append_column("at", pa.array(np.arange(rows.num_rows)))
    keys = keys.rename_columns([*(f"_{name}" for name in names), "+", "at"])
    grouped = keys.group_by([f"_{name}" for name in names], use_threads=False)
    sums = grouped.aggregate([("+", "sum"), ("at", "min")])
    kept = np.zeros(rows.num_rows, np.bool_)
    kept[to_numpy(sums.filter(pc.greater(sums.column("+_sum"), 0)).column("at_min"))] = True
    return rows.filter(pa.array(kept))


def _starts(ordered: np.ndarray[Any, Any]) -> Ints:
    """Where a run of equal values begins."""
    fresh = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)
