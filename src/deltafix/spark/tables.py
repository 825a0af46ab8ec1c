"""Delta and Iceberg tables as outputs, written by Spark: by path, or by name in its catalogs.

    epoch -> one MERGE (or INSERT) in a session of our own -> one commit of the table, with its mark

The mark is the table's own, and the one that the packages `deltalake` and `pyiceberg` leave
(`deltafix.pipeline.targets`), so a table may go from one runner to the other. Delta has a
transaction version (`txn`) and itself leaves out an epoch that it holds. Iceberg has the summary of
the snapshot; a property repeats it when the epoch is in, for when that snapshot has expired.

Invariant: rows and mark are there together or not at all, and of two writers of one epoch one is
refused: by Delta for the mark, by Iceberg because MERGE allows no rows it has not seen. The session
is our own, since Delta takes marks from settings, which would mark the commits of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from deltafix.errors import SinkError
from deltafix.facts.logical import logical_schema
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.sink import delta_table
from deltafix.pipeline.targets import registry
from deltafix.pipeline.targets.ancestry import EPOCH, OUTPUT, held, note
from deltafix.pipeline.targets.registry import MakeTarget
from deltafix.pipeline.targets.target import EpochRows, Target, decimals, name_of, whole
from deltafix.spark import formats
from deltafix.spark.errors import spark_errors
from deltafix.spark.sources.live import LiveSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_tables(live: LiveSpark) -> MakeTarget:
    """What makes the targets of a pipeline on Spark: tables by Spark, the others as without it."""

    def make(output: OutputConfig, schema: Schema, state: str) -> Target | None:
        values, name, where = (
            output.values,
            name_of(state, output.relation),
            f"[output.{output.relation}]",
        )
        if output.sink == "delta":
            path = values["path"]
            table = (
                f"delta.{formats.quoted(path)}" if path else formats.named(where, values["table"])
            )
            return DeltaTable(live.session, schema, table, name, values)
        if output.sink == "iceberg":
            table = formats.named(where, f"{values['catalog']}.{values['table']}")
            return IcebergTable(live.session, schema, table, name, values)
        return registry.make_target(output, schema, state)

    return make


class _Table:
    """What both formats share.

    Args:
        session: gives the session of the pipeline.
        schema: the view.
        table: the table, as SQL names it.
        name: this output, in the marks.
        values: those of the output's section: `mode`, `options`, ...
    """

    format: formats.Format

    def __init__(
        self, session: Callable[[], SparkSession], schema: Schema, table: str, name: str,
        values: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._session = session
        self._schema = schema
        self._table = table
        self._name = name
        self._merge = values["mode"] == "merge"
        self._values = values
        self._own: SparkSession | None = None

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing():
            spark = self._opened()
            if not self._exists(spark):
                return None
            held = self._held(spark)
            if held is None and self._merge:
                count = spark.read.table(self._table).count()
                if count:
                    raise whole(self._called, f"{count:,} rows")
            return held

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        with self._failing():
            spark = self._opened()
            self._make(spark, self._shape())
            held = self._held(spark)
            if held is not None and held >= rows.epoch:
                return
            shared, view = self._session(), f"deltafix_{uuid4().hex}"
            # Of the pipeline's session: what makes a frame becomes the session of its thread.
            rows.frame(shared).createGlobalTempView(view)
            try:
                self._commit(spark, rows, f"global_temp.{view}")
            finally:
                shared.catalog.dropGlobalTempView(view)

    def close(self) -> None:
        """As `Target.close`."""
        self._own = None

    def _exists(self, spark: SparkSession) -> bool:
        return bool(spark.catalog.tableExists(self._table))

    # --- what the formats differ in ------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        raise NotImplementedError

    def _held(self, spark: SparkSession) -> int | None:
        raise NotImplementedError

    def _commit(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        raise NotImplementedError

    # --- SQL -----------------------------------------------------------------------------------

    def _make(self, spark: SparkSession, shape: pa.Schema) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  Spark is an extra

        if self._exists(spark):
            return
        columns = ", ".join(
            f"{formats.quoted(c.name)} {c.dataType.simpleString()}" + " NOT NULL" * (not c.nullable)
            for c in from_arrow_schema(shape, prefer_timestamp_ntz=True)
        )
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING {self.format.title}")

    def _insert(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        names = ", ".join(map(formats.quoted, self._columns(rows)))
        spark.sql(f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {source}")  # noqa: S608  quoted

    def _change(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        """Merge the epoch. Signed rows are matched by its number too: with none that is there."""
        columns = self._columns(rows)
        sign, epoch = map(formats.quoted, rows.columns[-2:])
        nullable = {
            formats.quoted(column.name) for column in self._schema.columns if column.nullable
        }
        same = " AND ".join(
            f"t.{name} {'<=>' if name in nullable else '='} s.{name}"
            for name in map(formats.quoted, columns)
        )
        gone, come = f"s.{sign} < 0", f"s.{sign} > 0"
        if not self._merge:
            same, gone, come = f"t.{epoch} = {rows.epoch} AND {same}", "false", "true"
        names = ", ".join(map(formats.quoted, columns))
        values = ", ".join(f"s.{formats.quoted(name)}" for name in columns)
        spark.sql(
            f"MERGE INTO {self._table} t USING {source} s ON {same} "  # noqa: S608  quoted
            f"WHEN MATCHED AND {gone} THEN DELETE "
            f"WHEN NOT MATCHED AND {come} THEN INSERT ({names}) VALUES ({values})"
        )

    def _removes(self, spark: SparkSession, rows: EpochRows, source: str) -> bool:
        """Whether an epoch takes rows out; those that are not here are not fetched for it."""
        if not rows.files:
            return bool(rows.removed.num_rows)
        gone = spark.read.table(source).where(f"{formats.quoted(rows.columns[-2])} < 0")
        return not gone.isEmpty()

    def _columns(self, rows: EpochRows) -> list[str]:
        return list(self._schema.names) if self._merge else rows.columns

    def _shape(self) -> pa.Schema:
        """The columns of the table."""
        empty = logical_schema(self._schema).empty_table()
        rows = empty if self._merge else delta_table(self._schema, empty, empty, 0)
        return decimals(self._schema, rows).schema

    # --- the session ---------------------------------------------------------------------------

    def _opened(self) -> SparkSession:
        """A session beside the pipeline's, with its settings and the output's."""
        if self._own is not None:
            return self._own
        spark = self._session()
        formats.require(spark, self.format, self._called, SinkError, path=self._table)
        own = spark.newSession()
        there = own.conf.getAll  # a call to Java for each of a hundred settings
        for name, value in {**spark.conf.getAll, **self._settings()}.items():
            if there.get(name) != value and (name not in there or own.conf.isModifiable(name)):
                own.conf.set(name, value)
        own.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
        own.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
        self._own = own
        return own

    @property
    def _called(self) -> str:
        return f"{self.format.title} table {self._table}"

    def _failing(self) -> Any:
        return spark_errors(self._called, kind=SinkError, path=self._table)


class DeltaTable(_Table):
    """A table of Delta Lake; `options` are settings of the session that writes it."""

    format = formats.DELTA

    def _settings(self) -> dict[str, str]:
        return dict(self._values["options"])

    def _exists(self, spark: SparkSession) -> bool:
        path = self._values["path"]
        if not path:
            return super()._exists(spark)
        return bool(spark._jvm.io.delta.tables.DeltaTable.isDeltaTable(spark._jsparkSession, path))

    def _held(self, spark: SparkSession) -> int | None:
        detail = spark.sql(f"DESCRIBE DETAIL {self._table}").first()
        assert detail is not None  # noqa: S101  a table has one
        logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log = logs.forTable(spark._jsparkSession, detail["location"])
        # How many arguments it has, all with defaults, depends on the version of Delta.
        update = next(
            method for method in log.getClass().getMethods() if method.getName() == "update"
        )
        count = len(update.getParameterTypes())
        defaults = [getattr(log, f"update$default${at}")() for at in range(1, count + 1)]
        version = log.update(*defaults).transactions().get(self._name)
        return int(version.get()) if version.isDefined() else None

    def _commit(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        spark.conf.set("spark.databricks.delta.write.txnAppId", self._name)
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(rows.epoch))
        if self._merge and self._removes(spark, rows, source):
            self._change(spark, rows, source)
        else:
            self._insert(spark, rows, source)


class IcebergTable(_Table):
    """A table of Iceberg; `options` are settings of its catalog, which Spark may know already."""

    format = formats.ICEBERG

    def _settings(self) -> dict[str, str]:
        catalog, options = self._values["catalog"], self._values["options"]
        return formats.catalog_settings(
            self._session(), catalog, options, self._called, SinkError, path=self._table
        )

    def _held(self, spark: SparkSession) -> int | None:
        table = formats.iceberg_table(spark, self._table)
        return held(self._called, self._name, formats.ancestry(table), table.properties())

    def _commit(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        with formats.marking(spark, {OUTPUT: self._name, EPOCH: str(rows.epoch)}):
            self._change(spark, rows, source)
        table = formats.iceberg_table(spark, self._table)
        noted = note(rows.epoch, next(formats.ancestry(table), None))
        table.updateProperties().set(self._name, noted).commit()
        shared = self._session()
        if shared.conf.get(f"spark.sql.catalog.{self._values['catalog']}", None) is not None:
            shared.catalog.refreshTable(self._table)  # it may have the table in a cache

    def _exists(self, spark: SparkSession) -> bool:
        # Not as Spark is asked, which looks for a view too: JDBC catalogs may know none.
        from pyspark.errors import AnalysisException  # noqa: PLC0415  an extra

        try:
            formats.iceberg_table(spark, self._table)
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                raise
            return False
        return True

    def _make(self, spark: SparkSession, shape: pa.Schema) -> None:
        space = self._table.rpartition(".")[0]
        if not self._exists(spark):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {space}")
        super()._make(spark, shape)
