"""Tables of Delta and Iceberg as inputs: Spark and the packages read one table, by turns.

The oracle is the table: after each run the pipeline holds its rows, whoever read them, however
little of a version was in when the other took over.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connectors.jars import needs
from tests.support.amount import cases

from deltafix.errors import PipelineError
from deltafix.pipeline.config import read_config
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.runner import spark_runner

pytestmark = [pytest.mark.spark, needs("delta")]

SHAPE = "x string, n bigint"
TURNS = cases(6, fuzz=40)


class Reader:
    """A pipeline of one input `edge`, opened on either runner."""

    def __init__(self, folder: Path, section: str, more: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "p.toml"
        (folder / "p.dl").write_text(
            ".decl edge(x: symbol, n: number)\n.input edge\n"
            ".decl twice(x: symbol, n: number)\ntwice(x, n + n) :- edge(x, n).\n"
        )
        self.text = (
            '[pipeline]\nprogram = "p.dl"\nstate = "state"\nrows_per_epoch = 3\n'
            f'runner = "{{runner}}"\n{more}'
            f"[input.edge]\n{section}\n[output.twice]\npath = 'out'\n"
        )

    def take(self, runner: str, most: int | None = None) -> tuple[list[Epoch], set[Any]]:
        """Run at most so many epochs; (the epochs, the rows there are)."""
        self.file.write_text(self.text.replace("{runner}", runner))
        config = read_config(self.file)
        options = spark_runner(config)._asdict() if runner == "spark" else {}
        with Pipeline(config, **options) as pipeline:
            epochs = list(islice(pipeline.drain(), most))
            db = pipeline.maintainer.db
            assert set(db.rows("twice")) == {(x, 2 * n) for x, n in db.rows("edge")}
            return epochs, set(db.rows("edge"))


def at(name: str) -> str:
    """The section of a table of the catalog that both have."""
    return f'source = "iceberg"\ncatalog = "both"\ntable = "db.{name}"'


def change(spark: Any, rng: Random, table: str, form: str) -> None:
    """One commit of any kind."""
    move = rng.randrange(5)
    if move < 2:
        rows = [(rng.choice("abc"), rng.randrange(6)) for _ in range(rng.randrange(1, 6))]
        if form == "delta" and rng.random() < 0.7:  # a set, as far as nothing else is said
            held = {tuple(row) for row in spark.table(table).collect()}
            rows = sorted(set(rows) - held) or [("new", rng.randrange(10**6))]
        values = ", ".join(f"('{x}', {n}L)" for x, n in rows)
        spark.sql(f"INSERT INTO {table} VALUES {values}")
    elif move == 2:
        spark.sql(f"DELETE FROM {table} WHERE n = {rng.randrange(6)}")
    elif move == 3:
        spark.sql(f"UPDATE {table} SET n = n + 10 WHERE x = '{rng.choice('abc')}' AND n < 6")
    else:
        kind = "OPTIMIZE " + table
        if form == "iceberg":
            name = table.removeprefix("both.")
            kind = (
                f"CALL both.system.rewrite_data_files(table => '{name}', "
                "options => map('rewrite-all', 'true'))"
            )
        spark.sql(kind)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param("delta", marks=pytest.mark.shows("Delta tables by path, in: change feed")),
        "delta with deletion vectors",
        pytest.param("iceberg", marks=needs("iceberg")),
    ],
)
def test_oracle_two_readers_of_one_table_by_turns(spark, request, tmp_path, form) -> None:
    rng = Random(f"{form} by turns")
    form, _, feature = form.partition(" ")
    order = ("local", "spark") if feature else ("spark", "local")
    if form == "delta":
        table = f"delta.`{tmp_path}/lake`"
        more = (
            " TBLPROPERTIES (delta.enableChangeDataFeed = true, "
            f"delta.enableDeletionVectors = {bool(feature)})"
        )
        section = f'source = "delta"\npath = "{tmp_path}/lake"\nduplicates = "count"'
        readers = dict.fromkeys(("spark", "local"), Reader(tmp_path, section))
    else:
        table, more = "both.db.turns", ""
        spark.sql("CREATE NAMESPACE IF NOT EXISTS both.db")
        both = request.getfixturevalue("both")
        options = ", ".join(f'{name} = "{value}"' for name, value in both.items())
        readers = {
            "spark": Reader(tmp_path, at("turns")),  # its catalog is the session's
            "local": Reader(tmp_path, f"{at('turns')}\noptions = {{ {options} }}"),
        }
    shards = Reader(
        tmp_path / "shards", section if form == "delta" else at("turns"),
        'executor = "shards"\nshards = 2\n',
    )  # fmt: skip
    spark.sql(f"CREATE TABLE {table} ({SHAPE}) USING {form}{more}")
    if feature:
        rows = ", ".join(f"('{x}', {n})" for x in "abc" for n in range(6))
        spark.sql(f"INSERT INTO {table} VALUES {rows}")
        spark.sql(f"DELETE FROM {table} WHERE n = 2")
    taken_in_part = 0
    for turn in range(TURNS):
        for _ in range(rng.randrange(1, 3)):
            change(spark, rng, table, form)
        runner, most = order[turn % 2], rng.choice([1, 2, None])
        epochs, rows = readers[runner].take(runner, most)
        taken_in_part += len(epochs) == most
        if most is None:
            assert rows == {tuple(row) for row in spark.table(table).collect()}
        if turn in (1, 4):  # a load that ends in the middle, what has changed since
            shards.take("spark", 2)
    assert shards.take("spark")[1] == {tuple(row) for row in spark.table(table).collect()}
    if feature:
        files = spark.read.json(f"{tmp_path}/lake/_delta_log/*.json").select("add.deletionVector")
        assert files.where("deletionVector IS NOT NULL").count() > 1
    for runner in ("spark", "local"):
        epochs, rows = readers[runner].take(runner)
        assert rows == {tuple(row) for row in spark.table(table).collect()}
    assert epochs == []  # all was in
    assert taken_in_part


@needs("iceberg")
@pytest.mark.shows("Iceberg tables, in: appends, and diffs of snapshots")
def test_what_was_appended_to_an_iceberg_table_is_all_that_is_read(spark, tmp_path) -> None:
    table = "both.db.appends"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS both.db")
    spark.sql(f"CREATE TABLE {table} ({SHAPE}) USING iceberg")
    reader = Reader(tmp_path, at("appends"))
    assert reader.take("spark")[1] == set()
    spark.sql(f"INSERT INTO {table} SELECT 'a', id FROM range(200)")
    reader.text = reader.text.replace("rows_per_epoch = 3", "rows_per_epoch = 1000")
    assert len(reader.take("spark")[1]) == 200
    first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").first()[0]
    spark.sql(f"INSERT INTO {table} VALUES ('b', 1), ('b', 2)")
    spark.sql("CALL both.system.rewrite_data_files('db.appends')")
    spark.sql(f"INSERT INTO {table} VALUES ('b', 2), ('c', 3)")
    (epoch,), rows = reader.take("spark")
    assert epoch.read == {"edge": 4}
    assert len(rows) == 203
    spark.sql(f"DELETE FROM {table} WHERE x = 'b'")
    (epoch,), rows = reader.take("spark")
    assert epoch.read["edge"] > 200  # a diff
    assert len(rows) == 201
    spark.sql(f"CALL both.system.rollback_to_snapshot('db.appends', {first})")
    assert reader.take("spark")[1] == {("a", n) for n in range(200)}


@needs("iceberg")
@pytest.mark.shows("Iceberg tables, in: appends, and diffs of snapshots")
def test_oracle_the_changelog_of_an_iceberg_table_is_all_that_is_read(spark, tmp_path) -> None:
    table, rng = "both.db.logged", Random("logged")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS both.db")
    spark.sql(f"CREATE TABLE {table} ({SHAPE}) USING iceberg PARTITIONED BY (x)")
    spark.sql(f"INSERT INTO {table} SELECT 'z', id FROM range(1000, 1500)")
    reader = Reader(tmp_path, f'{at("logged")}\nduplicates = "count"')
    reader.text = reader.text.replace("rows_per_epoch = 3", "rows_per_epoch = 1000")
    assert len(reader.take("spark")[1]) == 500
    for _ in range(TURNS):
        for _ in range(rng.randrange(1, 4)):
            change(spark, rng, table, "iceberg")
        epochs, rows = reader.take("spark")
        assert rows == {tuple(row) for row in spark.table(table).collect()}
        assert sum(sum(epoch.read.values()) for epoch in epochs) < 200, "not the whole table"
    # Deletes beside the rows are not in a changelog: the rows are diffed.
    mode = "'write.delete.mode' = 'merge-on-read', 'format-version' = '2'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({mode})")
    spark.sql(f"DELETE FROM {table} WHERE x = 'z' AND n % 7 = 3")
    (epoch,), rows = reader.take("spark")
    assert rows == {tuple(row) for row in spark.table(table).collect()}
    assert epoch.read["edge"] > 400


def test_a_table_that_was_made_anew_is_refused_by_both(spark, tmp_path) -> None:
    path = tmp_path / "lake"
    reader = Reader(tmp_path, f'source = "delta"\npath = "{path}"')
    frame = spark.createDataFrame([("a", 1)], SHAPE)

    def make() -> None:
        options = {"delta.enableChangeDataFeed": "true"}
        frame.write.format("delta").options(**options).save(str(path))

    make()
    frame.write.format("delta").mode("append").save(str(path))
    _, before = reader.take("spark")
    assert before == {("a", 1)}
    path.rename(tmp_path / "old")
    make()
    for runner in ("local", "spark"):
        with pytest.raises(PipelineError, match=r"at version 0, but was read up to 1: it was made"):
            reader.take(runner)


@needs("iceberg")
def test_tables_that_are_not_there(spark, tmp_path) -> None:
    for section, said in (
        (f'source = "delta"\npath = "{tmp_path}/none"', "input edge: .*none: .*DELTA"),
        (at("none"), "input edge: `both`.`db`.`none`: "),
        (at("none").replace('"both"', '"nowhere"'), "no catalog of that name"),
        (
            at("t") + '\noptions = { type = "rest" }',
            "its options say sql.catalog.both.type = 'rest', but this Spark has 'jdbc'",
        ),
    ):  # fmt: skip
        with pytest.raises(PipelineError, match=said):
            Reader(tmp_path, section).take("spark")
