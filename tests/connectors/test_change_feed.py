"""Tables with a change feed into a pipeline: Spark's own changelog, and Delta's feed.

A table's life is a list of sets of rows; each version tells how one became the next, in any order
and in any words the feed allows. The pipeline holds the last set, whatever the words were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connectors.jars import SETS, needs

from deltafix.errors import PipelineError
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.sources import on_spark
from deltafix.spark.sources.batch import SparkFeed

pytestmark = pytest.mark.spark

Row = tuple[str, int]

changelog = pytest.mark.skipif(
    "changelog" not in SETS,
    reason="spark.read.changes needs Spark 4.2: make connectors SPARK=4.2.0",
)


def open_on(folder: Path, table: str, more: str = "", what: str = "") -> Pipeline:
    what = what or f"table = '{table}'"
    (folder / "p.dl").write_text(
        ".decl edge(x: symbol, n: number)\n.input edge\n"
        ".decl twice(x: symbol, n: number)\ntwice(x, n + n) :- edge(x, n).\n"
    )
    (folder / "p.toml").write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = 4\n'
        f"[input.edge]\nsource = 'spark'\n{what}\n{more}\n[output.twice]\npath = 'out'\n"
    )
    return Pipeline(read_config(folder / "p.toml"), make_source=on_spark())


def taken(pipeline: Pipeline) -> tuple[int, set]:
    """Run; (rows given or taken away, the rows there are)."""
    moved = sum(sum(epoch.given) for epoch in pipeline.drain())
    db = pipeline.maintainer.db
    assert set(db.rows("twice")) == {(x, 2 * n) for x, n in db.rows("edge")}
    return moved, set(db.rows("edge"))


class Changelog:
    """A table of the catalog that Spark's own tests have, and the versions that it is told."""

    def __init__(self, spark: Any, name: str) -> None:
        self.spark = spark
        self.name = f"lake.db.{name}"
        self.rows: set[Row] = set()
        self.version = 0
        self._jvm = spark._jvm
        catalogs = spark._jsparkSession.sessionState().catalogManager()
        self._catalog = catalogs.catalog("lake")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        spark.sql(f"CREATE TABLE {self.name} (x STRING, n BIGINT)")
        space = spark.sparkContext._gateway.new_array(self._jvm.java.lang.String, 1)
        space[0] = "db"
        self._id = self._jvm.org.apache.spark.sql.connector.catalog.Identifier.of(space, name)

    def commit(self, *changes: tuple[str, Row]) -> None:
        """The next version, in these words."""
        self.version += 1
        values = ", ".join(
            f"('{x}', {n}L, '{kind}', {self.version}L, timestamp'2026-01-01 00:00:00')"
            for kind, (x, n) in changes
        )
        frame = self.spark.sql(f"SELECT * FROM VALUES {values}")
        rows = frame._jdf.queryExecution().executedPlan().executeCollect()
        told = self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(rows)
        self._catalog.addChangeRows(self._id, told)
        out = {row for kind, row in changes if kind in ("delete", "update_preimage")}
        self.rows -= out
        self.rows |= {row for kind, row in changes if kind in ("insert", "update_postimage")}

    def put(self) -> None:
        """Make the table's rows those that its versions amount to."""
        rows = ", ".join(f"('{x}', {n}L)" for x, n in sorted(self.rows))
        self.spark.sql(f"DELETE FROM {self.name}")
        if rows:
            self.spark.sql(f"INSERT INTO {self.name} VALUES {rows}")


def words(rng: Random, before: set[Row], after: set[Row]) -> Iterator[tuple[str, Row]]:
    """One way to tell a change; rows that stay may be told as moved."""
    moved = {row for row in before & after if rng.random() < 0.3}
    for row in sorted((before - after) | moved):
        yield rng.choice(["delete", "update_preimage"]), row
    for row in sorted((after - before) | moved):
        yield rng.choice(["insert", "update_postimage"]), row


@changelog
def test_oracle_versions_of_a_changelog(spark, tmp_path) -> None:
    rng = Random("changelog")
    table = Changelog(spark, "oracle")
    every = [(x, n) for x in "abc" for n in range(4)]
    table.commit(*(("insert", row) for row in rng.sample(every, 5)))
    table.put()
    with open_on(tmp_path, table.name) as pipeline:
        assert taken(pipeline) == (5, table.rows)
    for _ in range(3):  # each turn is a restart
        with open_on(tmp_path, table.name) as pipeline:
            for _ in range(2):
                before = set(table.rows)
                for _ in range(rng.randrange(1, 3)):
                    after = set(rng.sample(every, rng.randrange(2, 9)))
                    told = list(words(rng, table.rows, after))
                    rng.shuffle(told)
                    if told:
                        table.commit(*told)
                    assert table.rows == after
                moved, rows = taken(pipeline)
                assert rows == table.rows
                assert moved >= len(rows ^ before)
                assert taken(pipeline) == (0, table.rows)


@pytest.mark.shows("Change feeds of other catalogs (`spark.read.changes`), in")
@changelog
def test_a_chain_of_updates_in_one_version(spark, tmp_path) -> None:
    table = Changelog(spark, "chain")
    with open_on(tmp_path, table.name) as pipeline:
        assert taken(pipeline) == (0, set())  # there is no version yet
        table.commit(("insert", ("a", 1)), ("insert", ("b", 2)))
        assert taken(pipeline) == (2, table.rows)
        table.commit(
            ("update_preimage", ("a", 1)), ("update_postimage", ("b", 2)),
            ("update_preimage", ("b", 2)), ("update_postimage", ("c", 3)),
        )  # fmt: skip
        assert taken(pipeline)[1] == {("b", 2), ("c", 3)}


@changelog
def test_what_is_committed_while_the_table_is_read_is_not_lost(
    spark, tmp_path, monkeypatch
) -> None:
    table = Changelog(spark, "busy")
    table.commit(("insert", ("a", 1)), ("insert", ("b", 2)))
    table.put()
    real = SparkFeed.rows

    def busy(feed: SparkFeed, version: int | None):
        table.commit(("delete", ("a", 1)), ("insert", ("c", 3)))
        table.put()
        found = real(feed, version).localCheckpoint()
        table.commit(("delete", ("b", 2)), ("insert", ("d", 4)))
        table.put()
        return found

    monkeypatch.setattr(SparkFeed, "rows", busy)
    with open_on(tmp_path, table.name) as pipeline:
        # The deletes of rows that the table had lost already are no error.
        assert taken(pipeline)[1] == table.rows == {("c", 3), ("d", 4)}
        table.commit(("delete", ("e", 5)))
        with pytest.raises(PipelineError, match="delete of a row that is not there"):
            taken(pipeline)


def test_a_table_that_is_not_there(spark, tmp_path) -> None:
    with open_on(tmp_path, "default.nothing") as pipeline:
        before = pipeline.maintainer.epoch
        with pytest.raises(PipelineError, match=r"input edge: table default.nothing: \[TABLE_OR"):
            taken(pipeline)
        assert pipeline.maintainer.epoch == before


@needs("delta")
@pytest.mark.parametrize(
    ("how", "mode"),
    [
        ("by name", "changes"),
        ("by quoted path", "snapshot"),
        ("by format", "changes"),
    ],
)
def test_oracle_a_delta_table_by_spark(spark, tmp_path, mode, how) -> None:
    path = tmp_path / "lake"
    named = how == "by name"
    table = f"default.edges_{mode}" if named else f"delta.`{path}`"
    more = f'mode = "{mode}"'
    what = f"format = 'delta'\npath = '{path}'" if how == "by format" else ""
    start = spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "x string, n bigint")
    options = {"delta.enableChangeDataFeed": "true"} if mode == "changes" else {}
    start.write.format("delta").options(**options).save(str(path))
    if named:
        spark.sql(f"CREATE TABLE {table} USING delta LOCATION '{path}'")
    with open_on(tmp_path, table, more, what) as pipeline:
        assert taken(pipeline) == (3, {("a", 1), ("b", 2), ("c", 3)})
        spark.sql(f"DELETE FROM {table} WHERE n = 1")
        spark.sql(f"UPDATE {table} SET n = n * 10 WHERE n = 2")
        more_rows = spark.createDataFrame([("d", 4), ("e", 5)], "x string, n bigint")
        more_rows.write.format("delta").mode("append").save(str(path))
        assert taken(pipeline)[1] == {("b", 20), ("c", 3), ("d", 4), ("e", 5)}
    # A row that a merge wrote again as it was is no change.
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 'c' x, 3L n UNION SELECT 'f', 6L) s ON s.x = t.x "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    with open_on(tmp_path, table, more, what) as pipeline:
        assert taken(pipeline) == (1, {("b", 20), ("c", 3), ("d", 4), ("e", 5), ("f", 6)})
        assert taken(pipeline)[0] == 0
        mark = {"changes": "feed", "snapshot": "version"}[mode]
        assert pipeline.maintainer.db.marks[f"{mark}/edge"] in (4, [4, None])


@needs("delta")
def test_a_delta_table_without_a_feed(spark, tmp_path) -> None:
    path = tmp_path / "lake"
    table = f"delta.`{path}`"
    frame = spark.createDataFrame([("a", 1)], "x string, n bigint")
    frame.write.format("delta").save(str(path))
    with open_on(tmp_path, table) as pipeline:
        taken(pipeline)
        frame.write.format("delta").mode("append").save(str(path))
        with pytest.raises(PipelineError, match=r'change data.*mode = "snapshot" diffs') as error:
            taken(pipeline)
        assert str(error.value).startswith(f"input edge: table {table}: ")
        assert pipeline.maintainer.db.count("edge") == 1


@needs("delta")
def test_a_delta_table_as_a_stream_of_changes_by_key(spark, tmp_path) -> None:
    path = tmp_path / "lake"
    columns = "op string, at bigint, x string, n bigint"

    def put(*rows) -> None:
        spark.createDataFrame(rows, columns).write.format("delta").mode("append").save(str(path))

    what = f"format = 'delta'\npath = '{path}'"
    more = "mode = 'stream'\nsign = 'op'\nkey = 'x'\nsequence_by = 'at'\ncolumns = ['x', 'n']"
    put(("+", 1, "a", 1), ("+", 2, "a", 2), ("+", 5, "b", 1))
    for _ in range(2):
        with open_on(tmp_path, "", more, what) as pipeline:
            assert taken(pipeline)[1] == {("a", 2), ("b", 1)}
    put(("-", 7, "a", None))
    put(("+", 6, "a", 9), ("+", 4, "b", 9), ("+", 1, "c", 3))
    with open_on(tmp_path, "", more, what) as pipeline:
        assert taken(pipeline)[1] == {("b", 1), ("c", 3)}


@needs("iceberg")
def test_oracle_an_iceberg_table_by_snapshots(spark, tmp_path) -> None:
    table = "ice.db.edges"
    spark.sql(f"CREATE TABLE {table} (x string, n bigint) USING iceberg")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2), ('b', 2)")
    with open_on(tmp_path, table, 'mode = "snapshot"') as pipeline:
        assert taken(pipeline) == (2, {("a", 1), ("b", 2)})
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT 'a' x, 9L n UNION SELECT 'c', 3L) s ON s.x = t.x "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert taken(pipeline) == (3, {("a", 9), ("b", 2), ("c", 3)})
        assert taken(pipeline)[0] == 0
