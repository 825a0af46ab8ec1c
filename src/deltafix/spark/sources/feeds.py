"""Change feeds of a Spark catalog's tables: what changed behind a version, whoever keeps it.

    SparkFeed   `spark.read.changes` (Spark 4.2), where the table's catalog has a changelog
    DeltaFeed   Delta's own `readChangeFeed`, which its catalog does not give as a changelog

Both give the table's columns, `_change_type` and `_commit_version`. Invariant: `changes(v)` holds
what makes the rows of version v those of the latest, if each version is taken as a whole in order;
rows come in no order. Versions are whole numbers that grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as f

from deltafix.errors import PipelineError
from deltafix.pipeline.sources.single import CHANGE, COMMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        found = self._spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT 1").collect()
        top = int(found[0].version)
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
    found = delta_of(spark, table)
    if found is None and missing is not None:
        raise missing
    return found


def delta_of(spark: SparkSession, table: str) -> DeltaFeed | None:
    """The versions of a table that is Delta's; None for others, and for no name."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  an extra

    if not table:
        return None
    found = DeltaFeed(spark, table)
    try:
        found.latest(None)
    except PySparkException:
        return None
    return found


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
    for place, (version, count) in enumerate(counts):
        total += count
        if total > limit and place:
            return int(counts[place - 1][0])
        if total > limit:
            return int(version)
    return until
