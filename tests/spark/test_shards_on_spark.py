"""Shards on Spark's workers: the same answers, through its shuffle.

Sees: messages lost between partitions, shards that stand on the wrong step after moving between
workers, frames that differ from the rows they should hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deltafix
from deltafix.facts.delta import Delta
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""
CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def test_spark_supersteps_equal_one_engine(spark: SparkSession, tmp_path: Path) -> None:
    one = deltafix.connect(REACH)
    changes = [
        {"root": ([(0,)], []), "edge": ([(0, 1), (1, 2), (2, 1), (2, 3)], [])},
        {"edge": ([(3, 0)], [(0, 1)])},
    ]
    with ShardedDatabase(REACH, spark, shards=2, state=tmp_path, executor="shards") as db:
        for change in changes:
            delta = Delta.of(change, one.schemas.values())
            assert db.apply(delta) == one.apply(delta)
        assert db.read("reach").collect() == one.rows("reach") == [(0,)]


def test_spark_frames_in_and_out_in_one_superstep(spark: SparkSession, tmp_path: Path) -> None:
    with ShardedDatabase(CLOSURE, spark, shards=4, state=tmp_path) as db:
        rows = [(n, n + 1, 1) for n in range(8)] + [(3, 9, 1), (3, 9, -1)]
        found = db.apply({"edge": spark.createDataFrame(rows, "x long, y long, sign int")})
        assert db.choice is not None
        assert db.choice.executor == "shards"
        assert (db.work.supersteps, db.work.messages) == (1, 0)
        assert found["path"].count() == 36
        assert {row.sign for row in found["path"].collect()} == {1}
        assert db.read("path").where("x = 0").count() == 8
        found = db.apply({"edge": spark.createDataFrame([(3, 4, -1)], "x long, y long, sign int")})
        assert found["path"].agg({"sign": "sum"}).collect()[0][0] == -20
