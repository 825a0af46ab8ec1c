"""Tables of a Spark catalog: their change feed where they have one, else snapshots.

`mode = "changes"` reads the whole table the first time and its feed (`feeds`) from then on;
`mode = "snapshot"` diffs the whole table at each poll, with any catalog. Spark reads, orders and
bounds; nothing is kept in a checkpoint of Spark's. Mark: `table/<input>` = [v, n, w]: versions up
to v are in, and n rows of the next, in the order of `_ordered`; those up to w were perhaps in the
table as it was first read. Invariant: versions are taken in order; in each, rows go out before
rows come in, so that an update to what another update left is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.single import CHANGE, COMMIT, FEED, Single
from deltafix.spark.sources.feeds import Feed, find_feed
from deltafix.spark.sources.live import LiveSpark, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkTable"]

_HINT = '; mode = "snapshot" diffs the whole table where there is no change feed'


class SparkTable(Single):
    """A source of a table of Spark's catalog (`source = "table"`)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._origin = f"input {self.name}: table {self.values['table']}"
        self._live = LiveSpark(self.spark)
        self._feed: Feed | None = None

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed since the last version, or since the last look."""
        table = str(self.values["table"])
        spark = self._live.session()
        if self.values["mode"] == "snapshot":
            with spark_errors(self._origin, input=self.name, table=table):
                rows = spark.read.table(table).toArrow()
            portion = self.whole(state, rows, self._origin, limit)
            return portion if portion.rows else None
        with spark_errors(self._origin, _HINT, input=self.name, table=table):
            if self._feed is None:
                self._feed = find_feed(spark, table)
            mark = f"table/{self.name}"
            done = state.marks.get(mark)
            if done is None:
                return self._first(self._feed, state, limit, mark)
            return self._next(self._feed, done, limit, mark)

    def close(self) -> None:
        """Stop the session, if it was started here."""
        self._feed = None
        self._live.close()

    def _first(self, feed: Feed, state: State, limit: int, mark: str) -> Portion:
        # What is committed while the table is read is taken again from the feed.
        version = feed.latest(None)
        rows = feed.rows(version).toArrow()
        portion = self.whole(state, rows, self._origin, limit)
        if not portion.more:
            portion.marks[mark] = [version, 0, feed.latest(version)]
        return portion

    def _next(self, feed: Feed, done: list[Any], limit: int, mark: str) -> Portion | None:
        version, taken, settled = done
        until = feed.latest(version) if settled is None else settled
        if until is None:
            return None
        frame = self._ordered(feed.changes(version, until))
        table = frame.offset(taken).limit(limit + 1).toArrow()
        more = table.num_rows > limit
        table = table.slice(0, limit)
        policy = self.policy if settled is None else self.lenient
        portion = Portion(self.name, policy=policy, more=more or settled is not None)
        portion.signed.append(self.fit(table, self._origin, CHANGE))
        if not more:
            portion.marks[mark] = [until, 0, None]
            return portion
        versions = table.column(COMMIT).to_pylist()
        first, last = versions[0], versions[-1]
        of_last = versions.count(last)
        # Where all of the rows are of one version, those taken before may be of it too.
        after = [version, taken + of_last] if first == last else [versions[-1 - of_last], of_last]
        portion.marks[mark] = [*after, settled]
        return portion

    def _ordered(self, changes: DataFrame) -> DataFrame:
        """The columns that count, in the order in which rows are taken: the same at any look."""
        version = self.values["version"]
        beside = [version] if version else []
        found = [name for name in changes.columns if name not in FEED]
        names = self.choose(found, beside, self._origin)
        from pyspark.sql import functions as f  # noqa: PLC0415  Spark is an extra

        into = f.col(CHANGE).isin("insert", "update_postimage")
        chosen = list(dict.fromkeys([*names, *beside]))
        return changes.select(*chosen, CHANGE, COMMIT).orderBy(COMMIT, into, *chosen)
