"""Rows at the border: tables and frames in the user's columns, to messages and back.

Invariant: what goes in is checked against its relation's schema, on the driver or on the worker
that sees it, before any shard does. Spark has no unsigned 64-bit integers; such columns are
`decimal(20, 0)` there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from deltafix.errors import FactError
from deltafix.facts.arrow import arrow_schema, check_table
from deltafix.facts.delta import RelationDelta
from deltafix.facts.schema import Row, Schema
from deltafix.facts.side import Side
from deltafix.pipeline.condense import PLACE
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.signed import SIGN, plain
from deltafix.pipeline.sink import beside
from deltafix.spark.filed import NetFile, read_net
from deltafix.spark.scans import Piece, pieces_of, read_piece
from deltafix.spark.shards.onspark import MESSAGES, in_rows
from deltafix.spark.shards.resident import Changed, Spec
from deltafix.spark.shards.seat import SAID
from deltafix.spark.shards.step import Parcel
from deltafix.spark.wire import Batch, fold, route, table_schema
from deltafix.store.folder import Folder, LocalFolder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UNKNOWN = 1 << 60
"""Spark's estimate for a frame of which it knows nothing is 2^63 - 1."""

_UNSIGNED = pa.decimal128(20, 0)

PIECE = 100_000
"""Rows that are in memory at a time where they only pass."""


def sign_column(schema: Schema) -> str:
    """The name of the sign column beside a relation's columns."""
    return beside(schema.names)[0]


def local_table(schema: Schema, table: pa.Table) -> pa.Table:
    """Signed rows as shards take them: `c0`, …, `sign`. Rows without a sign column are added.

    Raises FactError or TypeMismatchError for rows that do not fit, or a sign that is not 1 or -1.
    """
    name = sign_column(schema)
    signs = pa.array(np.ones(table.num_rows, np.int8))
    if name in table.column_names:
        signs = pc.cast(table.column(name), pa.int8())
        if not pc.all(pc.equal(pc.abs(signs), 1)).as_py() and table.num_rows:
            message = f"{schema.relation}: column {name!r} must hold 1 and -1 only"
            raise FactError(message, relation=schema.relation, column=name)
        table = table.drop_columns([name])
    if not schema.arity:
        columns = [pa.array(np.zeros(len(signs), np.int64))]
        return pa.Table.from_arrays([*columns, signs], schema=table_schema(("number",)))
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.uint64()))
    rows = check_table(schema, table)
    return pa.Table.from_arrays([*rows.columns, signs], schema=table_schema(schema.types))


def parcels_of(spec: Spec, edits: Mapping[str, pa.Table]) -> Iterator[Parcel]:
    """Signed local tables by relation, as messages to the shards of their copies."""
    for relation, table in edits.items():
        net = fold([table])
        for copy in spec.layout.given[relation]:
            for shard, part in route(net, copy.key, spec.shards):
                yield shard, Batch(copy.name, part)


@dataclass(frozen=True, slots=True)
class Said:
    """What makes messages of signed rows of a relation, to who judges them.

    That is every copy of the relation, `in_place`, or its seat.
    """

    spec: Spec
    schema: Schema
    keying: Keying
    in_place: bool

    def parcels(self, table: pa.Table) -> Iterator[Parcel]:
        """Messages; a table without `PLACE` has its rows in their order."""
        layout, relation = self.spec.layout, self.schema.relation
        rows = self._rows(table)
        copies = layout.given[relation] if self.in_place else [layout.seat(relation)]
        for copy in copies:
            for shard, part in route(rows, copy.key, self.spec.shards):
                yield shard, Batch(SAID + copy.name, part)

    def parcels_in(self, file: NetFile) -> Iterator[Parcel]:
        """Messages of the rows of a file. Raises StateError."""
        for rows in read_net(file):
            yield from self.parcels(pa.Table.from_batches([rows]))

    def _rows(self, table: pa.Table) -> pa.Table:
        types = self.spec.layout.types[self.spec.layout.seat(self.schema.relation).name]
        table = plain(self.schema, table)
        places = pa.chunked_array([np.arange(table.num_rows)])
        if PLACE in table.column_names:
            places = table.column(PLACE)
        numbers = {SIGN: table.column(SIGN), PLACE: places}
        if self.keying.key:
            numbers |= {name: table.column(name) for name in self.keying.versions}
        fields = [*table_schema(types)][: len(types)]
        fields += [pa.field(name, pa.int64(), nullable=False) for name in numbers]
        columns = [table.column(name) for name in self.schema.names]
        columns += [column.cast(pa.int64()) for column in numbers.values()]
        return pa.table(columns, schema=pa.schema(fields))


def frame_bytes(frames: Iterable[DataFrame]) -> int | None:
    """What Spark takes the frames' bytes to be; None where it does not know of all of them."""
    plans = (frame._jdf.queryExecution().optimizedPlan() for frame in frames)
    total = sum(int(plan.stats().sizeInBytes()) for plan in plans)
    return total if total < _UNKNOWN else None


def messages_frame(spec: Spec, schema: Schema, frame: DataFrame) -> DataFrame:
    """The same of a frame, on Spark's workers."""
    return frame.mapInArrow(partial(_messages, spec, schema), MESSAGES)


def _messages(
    spec: Spec, schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for table in _larger(batches):
        yield from in_rows(_parcels(spec, schema, table))


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together: to cut each of Spark's 10,000 rows up took half as long again."""
    kept: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        if rows >= PIECE:
            yield pa.Table.from_batches(kept)
            kept, rows = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def _parcels(spec: Spec, schema: Schema, table: pa.Table) -> Iterator[Parcel]:
    return parcels_of(spec, {schema.relation: local_table(schema, table)})


def parcels_in(spec: Spec, schema: Schema, piece: Piece) -> Iterator[Parcel]:
    """Messages of the rows of a piece of a file. Raises as `local_table` and `read_piece` do."""
    return _parcels(spec, schema, read_piece(piece))


def gathered(frame: DataFrame) -> pa.Table:
    """All rows of a frame, here. Raises FactError, or what Spark raises."""
    pieces = pieces_of(frame)
    if not pieces:
        return frame.toArrow()
    return pa.concat_tables(map(read_piece, pieces))


def for_spark(schema: Schema) -> pa.Schema:
    """A relation's columns as Spark can hold them; a nullary one has the column `present`."""
    if not schema.arity:
        return pa.schema([pa.field("present", pa.int64(), nullable=False)])
    return pa.schema(
        [
            field.with_type(_UNSIGNED) if field.type == pa.uint64() else field
            for field in arrow_schema(schema)
        ]
    )


def shown_schema(schema: Schema) -> pa.Schema:
    """A relation's columns in its own types; a nullary one has the column `present`."""
    return arrow_schema(schema) if schema.arity else for_spark(schema)


class FileSide(Side):
    """A side of an epoch's changes, in files of shards; the files are read piece by piece."""

    __slots__ = ("_folder", "_pieces", "_sign")

    def __init__(
        self, schema: Schema, folder: Folder, pieces: Sequence[Changed], sign: int, count: int
    ) -> None:
        super().__init__(schema, self._whole, count)
        self._folder = folder
        self._pieces = pieces
        self._sign = sign

    @property
    def files(self) -> Sequence[tuple[Path, int]]:
        """As `Side.files`."""
        if not isinstance(self._folder, LocalFolder):
            return []
        pieces = (
            (self._folder.path / changed.path, changed.added + changed.removed)
            for changed in self._pieces
        )
        return [piece for piece in pieces if piece[1]]

    def tables(self) -> Iterator[pa.Table]:
        """As `Side.tables`."""
        column, names = sign_column(self._schema), list(self._schema.names)
        for piece in self._pieces:
            with self._folder.open(piece.path) as stream, parquet.ParquetFile(stream) as file:
                for batch in file.iter_batches(batch_size=PIECE):
                    mine = batch.filter(pc.equal(batch.column(column), self._sign))
                    if mine.num_rows:
                        rows = pa.Table.from_batches([mine]).select(names)
                        yield rows.cast(arrow_schema(self._schema))

    def _whole(self) -> pa.Table | list[Row]:
        if not self._schema.arity:
            return [()] * len(self)
        return pa.concat_tables([arrow_schema(self._schema).empty_table(), *self.tables()])


def changes_frame(
    spark: SparkSession, schema: Schema, folder: Folder, pieces: Sequence[Changed]
) -> DataFrame:
    """The same as a frame, with their signs. Spark reads a disk, and Python an object store."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  an extra

    sign = pa.field(sign_column(schema), pa.int8(), nullable=False)
    shape = pa.schema([*(for_spark(schema) if schema.arity else ()), sign])
    columns = from_arrow_schema(shape)
    if isinstance(folder, LocalFolder):
        # Of a schema that it is not told Spark asks the files, by a job a relation.
        return spark.read.schema(columns).parquet(
            *(str(folder.path / piece.path) for piece in pieces)
        )
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    return numbers.mapInArrow(partial(_changes, str(folder), pieces, shape), columns)


def _changes(
    folder: str, pieces: Sequence[Changed], shape: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    root = folder_at(folder)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with root.open(pieces[number].path) as stream, parquet.ParquetFile(stream) as file:
                for rows in file.iter_batches(batch_size=PIECE, columns=shape.names):
                    yield rows.cast(shape)


def read_delta(schema: Schema, folder: Folder, pieces: Sequence[Changed]) -> RelationDelta:
    """The changes of a relation that shards wrote to these files."""
    counts = sum(piece.added for piece in pieces), sum(piece.removed for piece in pieces)
    added, removed = (
        FileSide(schema, folder, pieces, sign, count)
        for sign, count in zip((1, -1), counts, strict=True)
    )
    return RelationDelta.of_sides(schema, added, removed)
