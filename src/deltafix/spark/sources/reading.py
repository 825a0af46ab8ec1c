"""What an input says of Spark's readers, passed through as it is: a table, a query, or a format.

Invariant: options and names are Spark's and its connectors', so they are checked there; whoever
calls turns what Spark raises into an error of the input (`spark_errors`). Nothing is read
here: frames are lazy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Reading:
    """A table of the catalog, a query, or a format with its path: one of the three.

    Attributes:
        options: the reader's.
        schema: the columns of formats that do not say theirs, as in `CREATE TABLE`.
    """

    table: str = ""
    query: str = ""
    format: str = ""
    path: str = ""
    schema: str = ""
    options: Mapping[str, str] | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Reading:
        """From the values of a section."""
        return cls(**{one.name: values[one.name] for one in fields(cls)})

    def show(self) -> str:
        """What is read, as errors name it."""
        if self.table:
            return f"table {self.table}"
        return "query" if self.query else f"{self.format} {self.path}".strip()

    @property
    def named(self) -> str:
        """The name of a table that may have versions; empty for what has none."""
        if self.format == "delta" and self.path:
            return f"delta.`{self.path}`"
        return self.table

    def batch(self, spark: SparkSession, **more: str) -> DataFrame:
        """All rows there are now, with some more options."""
        if self.query:
            return spark.sql(self.query)
        return self._loaded(spark.read.options(**more))

    def stream(self, spark: SparkSession) -> DataFrame:
        """All rows from now on, and those that the source still has."""
        return self._loaded(spark.readStream)

    def _loaded(self, reader: Any) -> DataFrame:
        reader = reader.options(**(self.options or {}))
        if self.table:
            found: DataFrame = reader.table(self.table)
            return found
        reader = reader.format(self.format)
        if self.schema:
            reader = reader.schema(self.schema)
        loaded: DataFrame = reader.load(self.path) if self.path else reader.load()
        return loaded
