"""Delta and Iceberg tables as outputs, written by Spark: by path, or by name in its catalogs.

    epoch -> one MERGE (or INSERT) in a session of our own -> one commit of the table, with its mark

The mark is the table's own, and the one that the packages `deltalake` and `pyiceberg` leave
(`deltafix.pipeline.targets`), so a table may go from one runner to the other. Delta has a
transaction version (`txn`) and itself leaves out an epoch that it holds. Iceberg has the summary of
the snapshot; a property repeats it when the epoch is in, for when that snapshot has expired.

Invariant: rows and mark are there together or not at all, and of two writers of one epoch one is
refused: by Delta for the mark, by Iceberg because MERGE allows no rows it has not seen. The session
is our own, since Spark says marks by settings, which would mark the commits of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from deltafix.errors import ConfigError, SinkError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.targets import registry
from deltafix.pipeline.targets.registry import MakeTarget
from deltafix.pipeline.targets.target import EpochRows, Target, decimals, name_of, whole
from deltafix.spark.errors import spark_errors
from deltafix.spark.sources.live import LiveSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DeltaTable", "IcebergTable", "on_tables"]


def on_tables(live: LiveSpark) -> MakeTarget:
    """What makes the targets of a pipeline on Spark: tables by Spark, the others as without it."""

    def make(one: OutputConfig, schema: Schema, state: str) -> Target | None:
        values, name = one.values, name_of(state, one.relation)
        if one.sink == "delta":
            path = values["path"]
            place = f"delta.{_quoted(path)}" if path else _named(one, values["table"])
            return DeltaTable(live.session, schema, place, name, values)
        if one.sink == "iceberg":
            place = _named(one, f"{values['catalog']}.{values['table']}")
            return IcebergTable(live.session, schema, place, name, values)
        return registry.make_target(one, schema, state)

    return make


class _Table:
    """What both formats share.

    Args:
        session: gives the session of the pipeline.
        schema: the view.
        place: the table, as SQL names it.
        name: this output, in the marks.
        values: those of the output's section: `mode`, `options`, ...
    """

    format: str
    provider: str
    hint: str

    def __init__(
        self, session: Callable[[], SparkSession], schema: Schema, place: str, name: str,
        values: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._session = session
        self._schema = schema
        self._place = place
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
            found = self._held(spark)
            if found is None and self._merge:
                count = spark.read.table(self._place).count()
                if count:
                    raise whole(self._called, f"{count:,} rows")
            return found

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        with self._failing():
            spark = self._opened()
            signed = decimals(rows.signed)
            self._make(spark, decimals(rows.added).schema if self._merge else signed.schema)
            held = self._held(spark)
            if held is not None and held >= rows.epoch:
                return
            shared, view = self._session(), f"deltafix_{uuid4().hex}"
            # Of the pipeline's session: what makes a frame becomes the session of its thread.
            shared.createDataFrame(signed).createGlobalTempView(view)
            try:
                self._commit(spark, rows, f"global_temp.{view}")
            finally:
                shared.catalog.dropGlobalTempView(view)

    def close(self) -> None:
        """As `Target.close`."""
        self._own = None

    def _exists(self, spark: SparkSession) -> bool:
        return bool(spark.catalog.tableExists(self._place))

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
            f"{_quoted(one.name)} {one.dataType.simpleString()} NOT NULL"
            for one in from_arrow_schema(shape)
        )
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self._place} ({columns}) USING {self.format}")

    def _insert(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        names = ", ".join(map(_quoted, self._columns(rows)))
        spark.sql(f"INSERT INTO {self._place} ({names}) SELECT {names} FROM {source}")  # noqa: S608  quoted

    def _change(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        """Merge the epoch. Signed rows are matched by its number too: with none that is there."""
        columns = self._columns(rows)
        sign, epoch = map(_quoted, rows.signed.column_names[-2:])
        same = " AND ".join(f"t.{name} = s.{name}" for name in map(_quoted, columns))
        gone, come = f"s.{sign} < 0", f"s.{sign} > 0"
        if not self._merge:
            same, gone, come = f"t.{epoch} = {rows.epoch} AND {same}", "false", "true"
        names = ", ".join(map(_quoted, columns))
        values = ", ".join(f"s.{_quoted(name)}" for name in columns)
        spark.sql(
            f"MERGE INTO {self._place} t USING {source} s ON {same} "  # noqa: S608  quoted
            f"WHEN MATCHED AND {gone} THEN DELETE "
            f"WHEN NOT MATCHED AND {come} THEN INSERT ({names}) VALUES ({values})"
        )

    def _columns(self, rows: EpochRows) -> list[str]:
        return list(self._schema.names if self._merge else rows.signed.column_names)

    # --- the session ---------------------------------------------------------------------------

    def _opened(self) -> SparkSession:
        """A session beside the pipeline's, with its settings and the output's."""
        from py4j.java_gateway import JavaClass  # noqa: PLC0415  comes with Spark

        if self._own is not None:
            return self._own
        spark = self._session()
        found = spark._jvm
        for part in self.provider.split("."):
            found = getattr(found, part)
        if not isinstance(found, JavaClass):
            raise SinkError(
                f"{self._called}: this Spark has no {self.format.title()}; {self.hint}",
                path=self._place,
            )
        own = spark.newSession()
        for name, value in {**spark.conf.getAll, **self._settings()}.items():
            if own.conf.isModifiable(name) or name not in own.conf.getAll:
                own.conf.set(name, value)
        own.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
        own.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
        self._own = own
        return own

    @property
    def _called(self) -> str:
        return f"{self.format.title()} table {self._place}"

    def _failing(self) -> Any:
        return spark_errors(self._called, kind=SinkError, path=self._place)


class DeltaTable(_Table):
    """A table of Delta Lake; `options` are settings of the session that writes it."""

    format = "delta"
    provider = "io.delta.tables.DeltaTable"
    hint = (
        "name its package, extension and catalog in [spark]: jars.packages = "
        '"io.delta:delta-spark_4.1_2.13:4.1.0", sql.extensions = '
        '"io.delta.sql.DeltaSparkSessionExtension", sql.catalog.spark_catalog = '
        '"org.apache.spark.sql.delta.catalog.DeltaCatalog"'
    )

    def _settings(self) -> dict[str, str]:
        return dict(self._values["options"])

    def _exists(self, spark: SparkSession) -> bool:
        path = self._values["path"]
        if not path:
            return super()._exists(spark)
        return bool(spark._jvm.io.delta.tables.DeltaTable.isDeltaTable(spark._jsparkSession, path))

    def _held(self, spark: SparkSession) -> int | None:
        detail = spark.sql(f"DESCRIBE DETAIL {self._place}").first()
        assert detail is not None  # noqa: S101  a table has one
        logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log = logs.forTable(spark._jsparkSession, detail["location"])
        # How many arguments it has, all with defaults, depends on the version of Delta.
        update = next(one for one in log.getClass().getMethods() if one.getName() == "update")
        count = len(update.getParameterTypes())
        defaults = [getattr(log, f"update$default${at}")() for at in range(1, count + 1)]
        found = log.update(*defaults).transactions().get(self._name)
        return int(found.get()) if found.isDefined() else None

    def _commit(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        spark.conf.set("spark.databricks.delta.write.txnAppId", self._name)
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(rows.epoch))
        if self._merge and rows.removed.num_rows:
            self._change(spark, rows, source)
        else:
            self._insert(spark, rows, source)


class IcebergTable(_Table):
    """A table of Iceberg; `options` are settings of its catalog, which Spark may know already."""

    format = "iceberg"
    provider = "org.apache.iceberg.spark.SparkCatalog"
    hint = (
        "name its package and extension in [spark]: jars.packages = "
        '"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0", sql.extensions = '
        '"org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"'
    )

    def _settings(self) -> dict[str, str]:
        catalog, options = f"spark.sql.catalog.{self._values['catalog']}", self._values["options"]
        found = {f"{catalog}.{key}": value for key, value in options.items()}
        known = self._session().conf.get(catalog, None)
        if known is None and not options:
            message = (
                f"{self._called}: Spark has no catalog of that name; say its options here, or in "
                f'[spark] sql.catalog.{self._values["catalog"]} = "{self.provider}" and the rest'
            )
            raise SinkError(message, path=self._place)
        return {catalog: known or self.provider, **found}

    def _held(self, spark: SparkSession) -> int | None:
        table = self._table(spark)
        snapshot = table.currentSnapshot()
        while snapshot is not None:  # by parents: a rollback leaves others beside them
            summary = snapshot.summary()
            if summary.get("deltafix.output") == self._name:
                return int(summary.get("deltafix.epoch"))
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        found = table.properties().get(self._name)
        return None if found is None else int(found)

    def _commit(self, spark: SparkSession, rows: EpochRows, source: str) -> None:
        for key, value in (("output", self._name), ("epoch", str(rows.epoch))):
            spark.conf.set(f"spark.sql.iceberg.snapshot-property.deltafix.{key}", value)
        self._change(spark, rows, source)
        table = self._table(spark)
        table.updateProperties().set(self._name, str(rows.epoch)).commit()
        shared = self._session()
        if shared.conf.get(f"spark.sql.catalog.{self._values['catalog']}", None) is not None:
            shared.catalog.refreshTable(self._place)  # it may have the table in a cache

    def _make(self, spark: SparkSession, shape: pa.Schema) -> None:
        space = self._place.rpartition(".")[0]
        if not self._exists(spark):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {space}")
        super()._make(spark, shape)

    def _table(self, spark: SparkSession) -> Any:
        """The table as it is now, whatever a catalog has in its cache."""
        util = spark._jvm.org.apache.iceberg.spark.Spark3Util
        table = util.loadIcebergTable(spark._jsparkSession, self._place)
        table.refresh()
        return table


_NAME: Final = re.compile(r"`(?:[^`]|``)+`|[^`.\s]+")


def _named(one: OutputConfig, text: str) -> str:
    """A table's name as SQL has it, each part in quotes."""
    parts = _NAME.findall(text)
    if ".".join(parts) != text:
        message = (
            f'[output.{one.relation}] table = "{text}" is no name of a table: parts with points '
            "between them, those with other signs in backquotes"
        )
        raise ConfigError(message, key="table", value=text)
    return ".".join(part if part[0] == "`" else _quoted(part) for part in parts)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
