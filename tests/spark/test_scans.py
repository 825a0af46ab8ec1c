"""Frames that only read Parquet files: their rows by way of Arrow are those that Spark shows.

Sees: a filter, a rename or an option that is passed over; columns of another type or name; rows of
a partition column; a file that is gone when a task reads it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

import deltafix
from deltafix.errors import FactError, SourceError
from deltafix.spark import scans
from deltafix.spark.scans import pieces_of, read_piece
from deltafix.spark.shards import ShardedDatabase, frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RULES = """
.decl edge(x: number, y: number)
.decl name(x: number, n: symbol)
.decl path(x: number, n: symbol)
path(x, n) :- name(x, n).
path(x, n) :- edge(x, y), path(y, n).
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Two files, of several row groups, below a name that an address has to spell otherwise."""
    place = tmp_path / "a b%20ä"
    place.mkdir()
    for part in range(2):
        numbers = range(40 * part, 40 * part + 40)
        table = pa.table(
            {"x": [*numbers], "y": [n + 1 for n in numbers], "n": [*map(str, numbers)]}
        )
        parquet.write_table(table, place / f"part {part}.parquet", row_group_size=17)
    return str(place)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize(
    "chosen",
    [
        lambda frame: frame,
        lambda frame: frame.select("n", "x"),
        lambda frame: frame.drop("y"),
    ],
)
def test_a_scan_is_taken_for_its_files(
    spark: SparkSession, folder: str, chosen: Callable[[DataFrame], DataFrame]
) -> None:
    frame = chosen(spark.read.parquet(folder))
    pieces = pieces_of(frame)
    assert pieces is not None
    assert len(pieces) == 6
    table = pa.concat_tables(map(read_piece, pieces))
    assert table.column_names == frame.columns
    columns = [column.to_pylist() for column in table.columns]
    assert sorted(zip(*columns, strict=True)) == rows_of(frame)


@pytest.mark.parametrize(
    "made",
    [
        lambda spark, folder: spark.read.parquet(folder).where("x > 3"),
        lambda spark, folder: spark.read.parquet(folder).withColumnRenamed("x", "k"),
        lambda spark, folder: spark.read.parquet(folder).selectExpr("x + 1 AS x"),
        lambda spark, folder: spark.read.parquet(folder).limit(3),
        lambda spark, folder: spark.read.parquet(folder).union(spark.read.parquet(folder)),
        lambda spark, folder: spark.read.parquet(folder).sample(0.5, seed=1),
        lambda spark, folder: spark.read.parquet(folder).selectExpr("x", "_metadata.file_size"),
        lambda spark, folder: spark.read.option("pathGlobFilter", "*1.parquet").parquet(folder),
        lambda spark, folder: spark.read.schema("x bigint, z int").parquet(folder),
        lambda spark, folder: spark.read.schema("X bigint").parquet(folder),
        lambda spark, folder: spark.read.schema("x string").parquet(folder),
        lambda spark, folder: spark.range(3),
    ],
)
def test_what_is_more_than_a_scan_is_left_to_spark(
    spark: SparkSession, folder: str, made: Callable[[SparkSession, str], DataFrame]
) -> None:
    assert pieces_of(made(spark, folder)) is None


def test_partitions_caches_and_settings_are_left_to_spark(
    spark: SparkSession, folder: str, tmp_path: Path
) -> None:
    frame = spark.read.parquet(folder)
    frame.write.partitionBy("n").parquet(str(tmp_path / "parted"))
    assert pieces_of(spark.read.parquet(str(tmp_path / "parted"))) is None
    frame.selectExpr("DATE_FROM_UNIX_DATE(CAST(x AS int)) AS x").write.parquet(
        str(tmp_path / "days")
    )
    assert pieces_of(spark.read.parquet(str(tmp_path / "days"))) is None
    kept = spark.read.parquet(folder).cache()
    try:
        assert pieces_of(kept) is None
    finally:
        kept.unpersist()
    other = spark.newSession()
    other.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    assert pieces_of(other.read.parquet(folder)) is None
    assert pieces_of(frame) is not None


@pytest.mark.parametrize("executor", ["shards", "driver"])
def test_files_and_frames_give_the_answers_of_one_engine(
    spark: SparkSession, folder: str, tmp_path: Path, executor: str
) -> None:
    one = deltafix.connect(RULES)
    numbers = range(80)
    with one.transaction() as tx:
        tx.insert("edge", [(n, n + 1) for n in numbers])
        tx.insert("name", [(n, str(n)) for n in numbers if n > 70])
    frame = spark.read.parquet(folder)
    changes = {"edge": frame.select("x", "y"), "name": frame.where("x > 70").select("x", "n")}
    kinds = [pieces_of(one) is None for one in changes.values()]
    assert kinds == [False, True]
    with ShardedDatabase(RULES, spark, shards=3, state=tmp_path / "s", executor=executor) as db:
        db.apply(changes)
        assert db.rows("path") == one.rows("path")
        assert db.rows("edge") == one.rows("edge")


def test_rows_of_files_are_checked_like_all_others(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "holes.parquet")
    parquet.write_table(pa.table({"x": [1, None], "y": [2, 3]}), path)
    with ShardedDatabase(RULES, spark, shards=2, state=tmp_path / "s", executor="shards") as db:
        with pytest.raises(FactError, match="edge"):
            db.apply({"edge": spark.read.parquet(path)})
        assert not db.rows("edge")


def test_a_file_that_is_gone_when_it_is_read_is_told(
    spark: SparkSession, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(frame: DataFrame) -> list[scans.Piece] | None:
        found = pieces_of(frame)
        for piece in found or ():
            if os.path.exists(piece.path):
                os.remove(piece.path)
        return found

    monkeypatch.setattr("deltafix.spark.shards.database.pieces_of", late)
    monkeypatch.setattr(frames, "pieces_of", late)
    changes = {"edge": spark.read.parquet(folder).select("x", "y")}
    with ShardedDatabase(RULES, spark, shards=2, state=tmp_path / "s", executor="shards") as db:
        with pytest.raises(SourceError, match=r"part 0\.parquet: it cannot be read"):
            db.apply(changes)
        assert not db.rows("edge")
