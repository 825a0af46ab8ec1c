"""Which keys one shard has too many rows of: counted by shards, judged by all of them together.

Rows of a key are together in one shard, whatever their relation, as long as it is not heavy
(`hashing.Heavy`); so a shard knows all there is to know of its keys. What is done about them is
for `localize` (where their rows go) and `database` (when) to say. Invariant: keys are told by their
hashes, and nothing here changes a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import to_numpy
from deltafix.spark.hashing import hash_rows
from deltafix.spark.shards.layout import Copy, Layout
from deltafix.spark.shards.resident import Spec, local_rows

KEY_COUNTS = "shard int, key long, rows long"
"""Rows that a shard has of a key (its hash, as a signed number); of no key: of all."""

_SCHEMA = pa.schema([("shard", pa.int32()), ("key", pa.int64()), ("rows", pa.int64())])

_MOST = 64
"""Keys that a shard tells of."""

_LARGE = 500_000
"""Rows of a shard below which nothing is done."""

_UNEVEN = 1.5
"""How much more than the mean the largest shard may have."""

_SHARE = 0.25
"""The share of a shard's mean number of rows that one key may have."""


def is_uneven(rows: Mapping[int, int]) -> bool:
    """Whether one shard has so many more rows than the mean that its keys are worth a look.

    Rows, since bytes on a disk tell little: a key of many rows is a column that packs well.
    """
    largest = max(rows.values(), default=0)
    return largest > max(_LARGE, _UNEVEN * sum(rows.values()) / max(len(rows), 1))


def key_counts(spec: Spec, files: Sequence[str], number: int) -> pa.RecordBatch:
    """`KEY_COUNTS` of a shard: of the keys that it has most rows of, and of all. O(rows log rows).

    Keys that are shared already, and those that tell rows apart, are not counted.
    """
    hashes, rows = [np.empty(0, np.uint64)], 0
    for copy in _keyed(spec.layout):
        table = local_rows(spec, files, number, copy.name)
        own = hash_rows(table, copy.key.columns or ())
        rows += len(own)
        hashes.append(own if copy.key.heavy is None else own[~copy.key.heavy.rows(own)])
    keys, counts = np.unique(np.concatenate(hashes), return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_MOST]
    columns = [
        pa.array([number] * (len(most) + 1), pa.int32()),
        pa.array([None, *keys[most].view(np.int64).tolist()], pa.int64()),
        pa.array([rows, *counts[most].tolist()], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def outgrown(counts: pa.Table, shards: int) -> set[int]:
    """The hashes of keys that have too large a share of what a shard has in the mean."""
    keys, rows = counts.column("key"), to_numpy(counts.column("rows"))
    is_total = keys.is_null().to_numpy()
    mean = rows[is_total].sum() / shards
    hashes = to_numpy(keys.fill_null(0)).view(np.uint64)
    return set(hashes[~is_total & (rows > _SHARE * mean)].tolist())


def _keyed(layout: Layout) -> Iterator[Copy]:
    """The copies whose rows are together by a part of their columns."""
    homes = (Copy(name, report.key) for name, report in layout.reports.items())
    given = (copy for copies in layout.given.values() for copy in copies)
    derived = (
        copy for relation in layout.derived.values() for copy in (*relation.within, *relation.above)
    )
    by_name = {copy.name: copy for copy in (*homes, *given, *derived)}
    for copy in by_name.values():
        columns = copy.key.columns
        if copy.key.places and columns and len(columns) < len(layout.types[copy.name]):
            yield copy
