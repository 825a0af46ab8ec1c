"""What Spark reads whole: change feeds of tables, and snapshots of anything it can read.

    mode = "changes"    the whole table the first time, its feed from then on
    mode = "snapshot"   all rows at each look, diffed with those that are given; of a Delta table
                        only when there is a new version, and as of that

Spark reads, orders and bounds; nothing is kept in a checkpoint of Spark's. Marks: `feed/<input>` =
[v, w]: versions up to v are in; those up to w were perhaps in the table as it was first read;
`version/<input>` = the version that was diffed last. Invariant: versions are taken whole and in
order; in each, rows go out before rows come in, so that an update to what another update left is
not lost.

`SparkFeed` reads `spark.read.changes` (Spark 4.2), where the table's catalog has a changelog;
`DeltaFeed` Delta's own `readChangeFeed`. Both give the table's columns, `_change_type` and
`_commit_version`, and hold what makes the rows of version v those of the latest, in no order.

Options and names are Spark's and its connectors', so they are checked there; frames are lazy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from deltafix.errors import PipelineError, SparkMissingError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.single import CHANGE, COMMIT
from deltafix.spark.errors import spark_errors
from deltafix.spark.sources.frames import FrameSource

try:
    from pyspark.sql import functions as f
except ImportError as _error:
    raise SparkMissingError from _error

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
        return cls(**{field.name: values[field.name] for field in fields(cls)})

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
            frame: DataFrame = reader.table(self.table)
            return frame
        reader = reader.format(self.format)
        if self.schema:
            reader = reader.schema(self.schema)
        loaded: DataFrame = reader.load(self.path) if self.path else reader.load()
        return loaded


_NO_CHANGELOG = "UNSUPPORTED_FEATURE.CHANGE_DATA_CAPTURE"


class Feed(Protocol):
    """A table's feed. All may raise what Spark raises."""

    def latest(self, after: int | None) -> int | None:
        """The highest version above `after` (None: of all); None if there is none."""

    def rows(self, version: int | None) -> DataFrame:
        """The table as of that version or, where no table of the past can be read, a later one."""

    def changes(self, after: int | None, until: int | None) -> DataFrame:
        """Changes of the versions above `after`, up to `until` (None: all there are)."""


class SparkFeed:
    """A feed that the catalog gives; `rows` are those of now."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._table = table

    def latest(self, after: int | None) -> int | None:
        """Read from the feed: what catalogs tell of versions differs."""
        top = self.changes(after, None).selectExpr(f"max({COMMIT}) as top").collect()[0].top
        if top is None or isinstance(top, int):
            return top
        message = f"its {COMMIT} is {top!r}, and only whole numbers that grow can be followed"
        raise PipelineError(f"table {self._table}: {message}", table=self._table)

    def rows(self, version: int | None) -> DataFrame:
        """The rows of now."""
        return self._spark.read.table(self._table)

    def changes(self, after: int | None, until: int | None) -> DataFrame:
        """By `spark.read.changes`, rows that were only moved left out by Spark."""
        reader = self._spark.read
        if after is None:  # Spark takes no end without a beginning
            every = reader.changes(self._table)
            return every if until is None else every.where(f"{COMMIT} <= {until}")
        reader = reader.option("startingVersion", str(after))
        reader = reader.option("startingBoundInclusive", "false")
        if until is not None:
            reader = reader.option("endingVersion", str(until))
        return reader.changes(self._table)


class DeltaFeed:
    """The feed of a Delta table with `delta.enableChangeDataFeed`."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark = spark
        self._table = table

    def latest(self, after: int | None) -> int | None:
        """From the table's history."""
        latest = self._spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT 1").collect()
        top = int(latest[0].version)
        if after is not None and top < after:
            message = f"it is at version {top}, but was read up to {after}: it was made anew"
            raise PipelineError(f"table {self._table}: {message}", table=self._table)
        return None if top == after else top

    def rows(self, version: int | None) -> DataFrame:
        """The rows of that version."""
        reader = self._spark.read
        if version is not None:
            reader = reader.option("versionAsOf", str(version))
        return reader.table(self._table)

    def changes(self, after: int | None, until: int | None) -> DataFrame:
        """By `readChangeFeed`; `after` must not be the latest version."""
        reader = self._spark.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", str(0 if after is None else after + 1))
        if until is not None:
            reader = reader.option("endingVersion", str(until))
        return reader.table(self._table)


def find_feed(spark: SparkSession, table: str) -> Feed | None:
    """The feed of a table; None where only Spark 4.2 could tell whether it has one.

    Raises what Spark raises, for a table without one too.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415  an extra

    try:
        if hasattr(spark.read, "changes"):
            spark.read.changes(table).schema  # noqa: B018  Spark looks the table up for it
            return SparkFeed(spark, table)
        spark.read.table(table).schema  # noqa: B018  likewise
        missing = None
    except AnalysisException as error:
        if error.getCondition() != _NO_CHANGELOG:
            raise
        missing = error
    feed = delta_of(spark, table)
    if feed is None and missing is not None:
        raise missing
    return feed


def delta_of(spark: SparkSession, table: str) -> DeltaFeed | None:
    """The versions of a table that is Delta's; None for others, and for no name."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  an extra

    if not table:
        return None
    feed = DeltaFeed(spark, table)
    try:
        feed.latest(None)
    except PySparkException:
        return None
    return feed


def in_order(feed: Feed, after: int, until: int, limit: int) -> tuple[int, DataFrame]:
    """The next versions with at most `limit` changes, one at least: the last of them, and changes.

    Changes follow each other as versions do, and in one rows go out before rows come in.
    """
    last = _within(feed.changes(after, until), limit, until)
    into = f.col(CHANGE).isin("insert", "update_postimage")
    return last, feed.changes(after, last).orderBy(COMMIT, into)


def _within(changes: DataFrame, limit: int, until: int) -> int:
    """The version up to which there are at most `limit` changes; the first one at least."""
    counts = changes.groupBy(COMMIT).count().orderBy(COMMIT).limit(limit + 1).collect()
    total = 0
    for index, (version, count) in enumerate(counts):
        total += count
        if total > limit and index:
            return int(counts[index - 1][0])
        if total > limit:
            return int(version)
    return until
