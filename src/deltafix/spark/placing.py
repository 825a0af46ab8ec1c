"""Rows to partitions by number, on every Spark: what shards and tasks that hold them stand on.

Invariant: a row is in the partition of the number that a column says. Spark 4.0 has no
`repartitionById`: there a number is told by a key whose hash leads to its partition.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SEED = 42
"""Of the hash by which Spark places rows."""


def placed(frame: DataFrame, partitions: int, number: Column) -> DataFrame:
    """The rows, each in the partition that `number` says: an int from 0 to `partitions` - 1."""
    if hasattr(type(frame), "repartitionById"):
        return frame.repartitionById(partitions, number)
    from pyspark.sql import functions as sf  # noqa: PLC0415  an extra

    keys = sf.array(*map(sf.lit, _keys(partitions)))
    return frame.repartition(partitions, sf.get(keys, number))


def numbered(spark: SparkSession, many: int) -> DataFrame:
    """The numbers from 0 on (`id`), each in the partition of its own: a task for every shard."""
    numbers = spark.range(many)
    return placed(numbers, many, numbers.id.cast("int"))


@cache
def _keys(partitions: int) -> tuple[int, ...]:
    """The least number that Spark's hash leads to each partition. Expected O(p log p) calls."""
    from pyspark import SparkContext  # noqa: PLC0415  an extra

    murmur = SparkContext._active_spark_context._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32
    found: dict[int, int] = {}
    key = 0
    while len(found) < partitions:
        found.setdefault(murmur.hashInt(key, _SEED) % partitions, key)
        key += 1
    return tuple(found[number] for number in range(partitions))
