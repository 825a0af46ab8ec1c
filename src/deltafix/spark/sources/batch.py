"""What Spark reads whole: change feeds of tables, and snapshots of anything it can read.

    mode = "changes"    the whole table the first time, its feed (`feeds`) from then on
    mode = "snapshot"   all rows at each look, diffed with those that are given; of a Delta table
                        only when there is a new version, and as of that

Spark reads, orders and bounds; nothing is kept in a checkpoint of Spark's. Marks: `feed/<input>` =
[v, w]: versions up to v are in; those up to w were perhaps in the table as it was first read;
`version/<input>` = the version that was diffed last. Invariant: versions are taken whole and in
order; in each, rows go out before rows come in, so that an update to what another update left is
not lost.

Options and names are Spark's and its connectors', so they are checked there; frames are lazy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from deltafix.errors import PipelineError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.single import CHANGE
from deltafix.spark.errors import spark_errors
from deltafix.spark.sources.feeds import DeltaFeed, Feed, delta_of, find_feed, in_order
from deltafix.spark.sources.frames import FrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_HINT = '; mode = "snapshot" diffs the whole table where there is no change feed'


class SparkSnapshot(FrameSource):
    """A source of all rows that Spark reads (`source = "spark"`, `mode = "snapshot"`)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._reading = Reading.of(self.values)
        self._origin = f"input {self.name}: {self._reading.show()}"
        self._versions: DeltaFeed | None = None
        self._asked = False

    def poll(self, state: State, limit: int) -> Portion | None:
        """What differs from the rows that are given."""
        mark = f"version/{self.name}"
        spark = self._live.session()
        with spark_errors(self._origin, input=self.name):
            if not self._asked:
                self._versions, self._asked = delta_of(spark, self._reading.named), True
            feed = self._versions
            if feed is None:
                rows = self._reading.batch(spark)
                return self.take_whole(state, rows, self._origin, limit)
            version = feed.latest(None)
            if version == state.marks.get(mark):
                return None
            rows = self._reading.batch(spark, versionAsOf=str(version))

        def read(portion: Portion) -> None:
            portion.marks[mark] = version

        return self.take_whole(state, rows, self._origin, limit, read)


class SparkChanges(FrameSource):
    """A source of a table's change feed (`source = "spark"`, `mode = "changes"`)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._table = Reading.of(self.values).named
        self._origin = f"input {self.name}: table {self._table}"
        self._feed: Feed | None = None

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed since the last version."""
        spark = self._live.session()
        with spark_errors(self._origin, _HINT, input=self.name, table=self._table):
            if self._feed is None:
                self._feed = find_feed(spark, self._table)
            if self._feed is None:
                message = (
                    f"{self._origin}: it has no change feed of Delta's, and feeds of other "
                    f"catalogs need Spark 4.2 (this is {spark.version}){_HINT}"
                )
                raise PipelineError(message, input=self.name, table=self._table)
            mark = f"feed/{self.name}"
            done = state.marks.get(mark)
            if done is None:
                return self._first(self._feed, state, limit, mark)
            return self._next(self._feed, done, state, limit)

    def close(self) -> None:
        """Stop the session, if it was started here."""
        self._feed = None
        super().close()

    def _first(self, feed: Feed, state: State, limit: int, mark: str) -> Portion:
        # What is committed while the table is read is taken again from the feed.
        version = feed.latest(None)

        def read(portion: Portion) -> None:
            with spark_errors(self._origin, input=self.name):
                portion.marks[mark] = [version, feed.latest(version)]

        return self.take_whole(state, feed.rows(version), self._origin, limit, read)

    def _next(self, feed: Feed, done: list[Any], state: State, limit: int) -> Portion | None:
        version, settled = done
        until = feed.latest(version) if settled is None else settled
        if until is None:
            return None
        last, changes = in_order(feed, version, until, limit)
        policy = self.policy if settled is None else self.lenient
        portion = Portion(self.name, policy=policy, more=last < until or settled is not None)
        self.take(portion, changes, self._origin, state, sign=CHANGE)
        portion.marks[f"feed/{self.name}"] = [last, settled if last < until else None]
        return portion


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
