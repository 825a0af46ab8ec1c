"""Which shard a row belongs to: a hash of its key columns, the same on every machine and run.

Numbers go by their 64 bits, floats by their value (one zero, one NaN), symbols by the CRC-32 of
their UTF-8, once for each different one. Invariant: rows with equal keys have equal hashes,
whatever relation they are of; nothing here depends on Python's own, seeded `hash`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import to_numpy

Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Heavy(NamedTuple):
    """Keys of which one shard would have too many rows.

    Attributes:
        hashes: theirs (`hash_rows`), ascending.
        columns: the columns that place their rows instead; None: every shard has them.
    """

    hashes: tuple[int, ...]
    columns: tuple[int, ...] | None

    def rows(self, hashes: Hashes) -> Any:
        """Which rows are of such a key, by the hashes of their keys."""
        return np.isin(hashes, np.array(self.hashes, np.uint64))


class Key(NamedTuple):
    """What places rows: the columns whose hash says in which shard a row is.

    Attributes:
        columns: None: every shard has every row. No columns: one shard has them all.
        heavy: keys whose rows are placed otherwise.
    """

    columns: tuple[int, ...] | None
    heavy: Heavy | None = None

    @property
    def places(self) -> bool:
        """Whether every row is in one shard alone."""
        return self.columns is not None and (self.heavy is None or self.heavy.columns is not None)


def hash_rows(table: pa.Table, columns: Sequence[int]) -> Hashes:
    """A 64-bit hash of the key columns of each row. O(cells), without an object per cell."""
    return _mixed([_patterns(table.column(column)) for column in columns], table.num_rows)


def cut(hashes: Hashes, shards: int) -> tuple[Any, dict[int, slice]]:
    """Rows by the shard of their hash: an order of them, and where each shard's are in it.

    The order is None where all are of one shard. The hash of no columns is one for all rows. O(n).
    """
    # One sort of small numbers, and one copy, however many shards there are.
    targets = (hashes >> np.uint64(32)) % np.uint64(shards)
    targets = targets.astype(np.min_scalar_type(shards - 1))
    counts = np.bincount(targets, minlength=shards)
    ends = np.cumsum(counts)
    slices = {
        int(shard): slice(int(ends[shard] - counts[shard]), int(ends[shard]))
        for shard in np.flatnonzero(counts)
    }
    return np.argsort(targets, kind="stable") if len(slices) > 1 else None, slices


def _mixed(patterns: Sequence[Hashes], size: int) -> Hashes:
    hashes = np.full(size, _SEED, dtype=np.uint64)
    for pattern in patterns:
        hashes = _mix(hashes * np.uint64(31) + pattern)
    return hashes


def _mix(x: Hashes) -> Hashes:
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))


def _patterns(column: pa.ChunkedArray) -> Hashes:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = column.combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.combine_chunks()
        words = coded.dictionary.to_pylist()
        codes = np.fromiter((zlib.crc32(w.encode()) for w in words), np.uint64, count=len(words))
        hashes: Hashes = codes[to_numpy(coded.indices)]
        return hashes
    values = to_numpy(column)
    if pa.types.is_floating(kind):
        clean = np.where(np.isnan(values), np.nan, values + 0.0)
        return clean.view(np.uint64)
    return (
        values.astype(np.int64, copy=False).view(np.uint64) if values.dtype != np.uint64 else values
    )
