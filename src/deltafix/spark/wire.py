"""Signed rows on their way: tables with a sign column, folded, routed, packed.

A *signed* table has a relation's columns (`c0`, `c1`, …) and last `sign` (int8, +1 or -1); a
`Batch` is one of those with the local relation it edits. Invariant: `unpack(pack(b))` equals `b`,
and nothing is read from bytes but what Arrow validates: no pickle, no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import ARROW_TYPES, to_numpy
from deltafix.facts.values import BaseType
from deltafix.spark.hashing import Key, cut, hash_rows

ROWS = 500_000
"""Rows in one piece of bytes at most: a Spark row, and the Arrow batch it is in, stay small."""


_FEW = 1_000
"""Rows up to which a piece is not compressed: the frame of each buffer would outweigh it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Signed rows for one local relation."""

    name: str
    table: pa.Table


def table_schema(types: Sequence[BaseType]) -> pa.Schema:
    """The schema of signed rows with these columns."""
    fields = [pa.field(f"c{n}", ARROW_TYPES[kind], nullable=False) for n, kind in enumerate(types)]
    return pa.schema([*fields, pa.field("sign", pa.int8(), nullable=False)])


def signed(rows: pa.Table, types: Sequence[BaseType], sign: int) -> pa.Table:
    """Rows, all with one sign."""
    signs = pa.array(np.full(rows.num_rows, sign, np.int8))
    return pa.Table.from_arrays([*rows.columns, signs], schema=table_schema(types))


def split(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows to take away and the rows to add, without signs."""
    signs = to_numpy(table.column("sign"))
    rows = table.drop_columns(["sign"])
    if (signs > 0).all():
        return rows.slice(0, 0), rows
    return rows.filter(pa.array(signs < 0)), rows.filter(pa.array(signs > 0))


def fold(tables: Sequence[pa.Table]) -> pa.Table:
    """The net of tables of one relation: each row once, with a sign, or not at all.

    O(rows); tables whose rows all have one sign are taken to list no row twice.
    """
    whole = pa.concat_tables(tables)
    signs = to_numpy(whole.column("sign"))
    if len(signs) == 0 or (signs == signs[0]).all():
        return whole
    names = [name for name in whole.column_names if name != "sign"]
    net = whole.group_by(names, use_threads=False).aggregate([("sign", "sum")])
    net = net.filter(pc.not_equal(net.column("sign_sum"), 0))
    sums = np.sign(to_numpy(net.column("sign_sum"))).astype(np.int8)
    return pa.Table.from_arrays(
        [*(net.column(name) for name in names), pa.array(sums)], schema=whole.schema
    )


def route(table: pa.Table, key: Key, shards: int) -> Iterator[tuple[int, pa.Table]]:
    """The parts of a table by shard; rows of heavy keys are in parts of their own."""
    if table.num_rows == 0:
        return
    if key.columns is None or shards == 1:
        for shard in range(shards):
            yield shard, table
        return
    hashes = hash_rows(table, key.columns)
    if key.heavy is not None and (heavy := key.heavy.rows(hashes)).any():
        yield from route(table.filter(pa.array(heavy)), Key(key.heavy.columns), shards)
        yield from route(table.filter(pa.array(~heavy)), Key(key.columns), shards)
        return
    order, parts = cut(hashes, shards)
    table = table if order is None else table.take(pa.array(order))
    for shard, where in parts.items():
        yield shard, table.slice(where.start, where.stop - where.start)


def pack(batches: Iterable[Batch]) -> Iterator[bytes]:
    """Batches as bytes, at most `ROWS` rows in one piece: Arrow IPC streams, each with its name."""
    sink = pa.BufferOutputStream()
    count = 0
    for batch in batches:
        schema = batch.table.schema.with_metadata({"relation": batch.name})
        for start in range(0, max(batch.table.num_rows, 1), ROWS):
            part = batch.table.slice(start, ROWS)
            if count and count + part.num_rows > ROWS:
                yield sink.getvalue().to_pybytes()
                sink, count = pa.BufferOutputStream(), 0
            count += part.num_rows
            options = pa.ipc.IpcWriteOptions(compression="lz4" if part.num_rows > _FEW else None)
            with pa.ipc.new_stream(sink, schema, options=options) as writer:
                writer.write_table(part)
    yield sink.getvalue().to_pybytes()


def unpack(data: bytes | memoryview) -> Iterator[Batch]:
    """Read what `pack` wrote, in order. Raises pyarrow.ArrowInvalid."""
    # Bytes of a Python object begin anywhere; Arrow's kernels want their buffers aligned.
    aligned = pa.allocate_buffer(len(data))
    np.frombuffer(aligned, np.uint8)[:] = np.frombuffer(data, np.uint8)
    source = pa.BufferReader(aligned)
    while source.tell() < source.size():
        with pa.ipc.open_stream(source) as reader:
            table = reader.read_all()
            name = reader.schema.metadata[b"relation"].decode()
        yield Batch(name, table.replace_schema_metadata(None))
