"""What workers read of their shards for the driver: frames, tables by way of files, counts of keys.

Each is a task a shard, which stands on the files that the driver names, so what is read is of one
epoch. Invariant: nothing here changes a shard. Rows that the driver takes pass it a piece at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from deltafix.errors import SparkJobError
from deltafix.facts.schema import Schema
from deltafix.spark.common import require_here
from deltafix.spark.errors import spark_errors
from deltafix.spark.filed import NET_FILES, NetFile, NetFolder, file_net, read_net
from deltafix.spark.shards.balance import KEY_COUNTS, key_counts
from deltafix.spark.shards.frames import PIECE, for_spark, shown_schema
from deltafix.spark.shards.onspark import numbered
from deltafix.spark.shards.resident import Spec, read_rows
from deltafix.store.folder import folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Files: TypeAlias = Mapping[int, list[str]]
"""The files of each shard."""


def frame_of(spark: SparkSession, spec: Spec, files: Files, schema: Schema) -> DataFrame:
    """A relation as a frame that is read when it is used."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  an extra

    shape = for_spark(schema)
    task = partial(_read_part, spec, files, schema.relation, shape)
    return numbered(spark, spec.shards).mapInArrow(task, from_arrow_schema(shape))


def tables_of(
    spark: SparkSession, spec: Spec, files: Files, schema: Schema, nets: NetFolder
) -> Iterator[pa.Table]:
    """The rows of a relation, from files that workers write; the first table is empty.

    Raises StateError, SparkJobError.
    """
    shape = shown_schema(schema)
    yield shape.empty_table()
    try:
        task = partial(_file_part, spec, files, schema.relation, str(nets.folder))
        with spark_errors(f"{schema.relation} cannot be read", kind=SparkJobError):
            rows = numbered(spark, spec.shards).mapInArrow(task, NET_FILES).collect()
        for file in (NetFile(*row) for row in rows):
            require_here(nets.folder, file.name, file.size, "a task that read a shard")
            for batch in read_net(file):
                yield pa.Table.from_batches([batch]).cast(shape)
    finally:
        nets.remove()


def counted(spark: SparkSession | None, spec: Spec, files: Files) -> pa.Table:
    """How many rows shards have of the keys with the most (`balance.KEY_COUNTS`)."""
    task = partial(_count_part, spec, files)
    if spark is None:
        numbers = pa.record_batch([pa.array(range(spec.shards))], ["id"])
        return pa.Table.from_batches(task(iter([numbers])))
    with spark_errors("keys cannot be counted", kind=SparkJobError):
        return numbered(spark, spec.shards).mapInArrow(task, KEY_COUNTS).toArrow()


def _read_part(
    spec: Spec,
    files: Files,
    relation: str,
    shape: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for table in _rows_of(spec, files, relation, batches):
        yield from table.cast(shape).to_batches(max_chunksize=PIECE)


def _file_part(
    spec: Spec,
    files: Files,
    relation: str,
    folder: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    target = folder_at(folder, shared=True)
    filed = [file_net(target, "rows", table) for table in _rows_of(spec, files, relation, batches)]
    columns = zip(*filed, strict=True) if filed else [[]] * len(NetFile._fields)
    yield pa.RecordBatch.from_arrays([pa.array([*column]) for column in columns], NetFile._fields)


def _rows_of(
    spec: Spec,
    files: Files,
    relation: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.Table]:
    """The rows of a relation in shards whose numbers are given."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            table = read_rows(spec, files.get(number, []), number, relation)
            if table is not None:
                yield table


def _count_part(
    spec: Spec, files: Files, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield key_counts(spec, files.get(number, []), number)
