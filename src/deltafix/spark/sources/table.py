"""Tables of a Spark catalog: their change feed where they have one, else snapshots.

`mode = "changes"` reads the whole table the first time and its feed (`feeds`) from then on;
`mode = "snapshot"` diffs the whole table at each poll, with any catalog. Spark reads, orders and
bounds; nothing is kept in a checkpoint of Spark's. Mark: `table/<input>` = [v, w]: versions up to v
are in; those up to w were perhaps in the table as it was first read. Invariant: versions are taken
whole and in order; in each, rows go out before rows come in, so that an update to what another
update left is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from deltafix.errors import PipelineError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.single import CHANGE, COMMIT
from deltafix.spark.sources.feeds import Feed, find_feed
from deltafix.spark.sources.frames import FrameSource
from deltafix.spark.sources.live import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkTable"]

_HINT = '; mode = "snapshot" diffs the whole table where there is no change feed'


class SparkTable(FrameSource):
    """A source of a table of Spark's catalog (`source = "table"`)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._origin = f"input {self.name}: table {self.values['table']}"
        self._feed: Feed | None = None

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed since the last version, or since the last look."""
        table = str(self.values["table"])
        spark = self._live.session()
        if self.values["mode"] == "snapshot":
            with spark_errors(self._origin, input=self.name, table=table):
                rows = spark.read.table(table)
            return self.take_whole(state, rows, self._origin, limit)
        with spark_errors(self._origin, _HINT, input=self.name, table=table):
            if self._feed is None:
                self._feed = find_feed(spark, table)
            if self._feed is None:
                message = (
                    f"{self._origin}: it has no change feed of Delta's, and feeds of other "
                    f"catalogs need Spark 4.2 (this is {spark.version}){_HINT}"
                )
                raise PipelineError(message, input=self.name, table=table)
            mark = f"table/{self.name}"
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
        last = _within(feed.changes(version, until), limit, until)
        policy = self.policy if settled is None else self.lenient
        portion = Portion(self.name, policy=policy, more=last < until or settled is not None)
        # Rows follow each other as versions do, and in one rows go out before rows come in.
        into = f.col(CHANGE).isin("insert", "update_postimage")
        changes = feed.changes(version, last).orderBy(COMMIT, into)
        self.take(portion, changes, self._origin, state, sign=CHANGE)
        portion.marks[f"table/{self.name}"] = [last, settled if last < until else None]
        return portion


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
