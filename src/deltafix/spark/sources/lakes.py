"""Delta and Iceberg tables, read by Spark, with the marks of those that read them without it.

    source = "delta"      the table at one version, from then on its change feed, version by version
    source = "iceberg"    what was appended between snapshots, where nothing else happened in
                          between; its changelog, where rows are counted and no file of deletes
                          lies beside them; else all rows of the current one, diffed on the
                          executors

Marks are those of `deltafix.pipeline.sources.delta_lake` and `.iceberg`, so a pipeline may go from
one runner to the other between any two epochs. Invariant: a version, or the appends of a snapshot,
are in an epoch wholly; a version that the other runner took in part is finished by a diff with the
rows of that version, which says of each row what is left to do.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from deltafix.errors import PipelineError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.iceberg import NO_SNAPSHOT
from deltafix.pipeline.sources.single import CHANGE
from deltafix.pipeline.targets.ancestry import Ancestor
from deltafix.spark.errors import spark_errors
from deltafix.spark.formats import (
    DELTA,
    ICEBERG,
    ancestry,
    catalog_settings,
    iceberg_table,
    named,
    quoted,
    require,
)
from deltafix.spark.sources.batch import DeltaFeed, in_order
from deltafix.spark.sources.frames import FrameSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_FEED = (
    "; if it has no change feed, set delta.enableChangeDataFeed on it, or read it with "
    'source = "spark", format = "delta" and mode = "snapshot"'
)


class SparkDelta(FrameSource):
    """A source of a Delta table with a change feed (`source = "delta"`)."""

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rest of the first version, or the next versions."""
        path = self.values["path"]
        origin, mark = f"input {self.name}: {path}", f"delta/{self.name}"
        done, start = state.marks.get(mark), state.marks.get(f"{mark}/start")
        spark = self._live.session()
        require(spark, DELTA, origin, PipelineError, input=self.name)
        feed = DeltaFeed(spark, f"delta.{quoted(path)}")
        with spark_errors(origin, _NO_FEED, input=self.name, path=path):
            if done is None or done[1]:
                version = done[0] + 1 if done else feed.latest(None) if start is None else start
                portion = self.take_whole(
                    state, feed.rows(version), origin, limit,
                    lambda whole: whole.marks.update({mark: [version, 0], f"{mark}/start": None}),
                )  # fmt: skip
                portion.marks |= {mark: None, f"{mark}/start": version}
                return portion
            until = feed.latest(done[0])
            if until is None:
                return None
            last, changes = in_order(feed, done[0], until, limit)
            portion = Portion(self.name, policy=self.policy, more=last < until)
            self.take(portion, changes, origin, state, sign=CHANGE)
            portion.marks[mark] = [last, 0]
            return portion


class SparkIceberg(FrameSource):
    """A source of an Iceberg table (`source = "iceberg"`)."""

    merges = True  # as without Spark

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._table = named(
            f"[input.{self.name}]", f"{self.values['catalog']}.{self.values['table']}"
        )
        self._origin = f"input {self.name}: {self._table}"

    def poll(self, state: State, limit: int) -> Portion | None:
        """What was appended since the last snapshot, or what differs from the rows given."""
        mark = f"iceberg/{self.name}"
        spark = self._live.session()
        require(spark, ICEBERG, self._origin, PipelineError, input=self.name)
        with spark_errors(self._origin, input=self.name, table=self._table):
            self._know_catalog()
            done = state.marks.get(mark)
            way = ancestry(iceberg_table(spark, self._table))
            current = next(way, None)
            version = NO_SNAPSHOT if current is None else current.id
            if version == done:
                return None
            counts = self.policy.duplicates == "count"
            before = list(takewhile(lambda snapshot: snapshot.id != done, way))
            next_ = _followed(current, before, done, limit, _LOGGED if counts else _APPENDED)
            if next_ is not None:
                last, appended = next_
                options = {"start-snapshot-id": str(done), "end-snapshot-id": str(last)}
                portion = Portion(self.name, policy=self.policy, more=last != version)
                reader = spark.read.options(**options)
                if appended:
                    self.take(portion, reader.table(self._table), self._origin, state, sign=1)
                else:
                    rows = _logged(reader.table(f"{self._table}.changes"))
                    self.take(portion, rows, self._origin, state, sign=CHANGE)
                portion.marks[mark] = last
                return portion
            at = f" VERSION AS OF {version}" if version else ""
            return self.take_whole(
                state, spark.sql(f"SELECT * FROM {self._table}{at}"), self._origin, limit,  # noqa: S608  quoted
                lambda whole: whole.marks.update({mark: version}),
            )  # fmt: skip

    def _know_catalog(self) -> None:
        """Have the session know the catalog: it is the one of the frames, so it gets settings."""
        spark, options = self._live.session(), self.values["options"]
        settings = catalog_settings(
            spark, self.values["catalog"], options, self._origin, PipelineError, input=self.name
        )
        for name, value in settings.items():
            before = spark.conf.get(name, None)
            if before is not None and before != value:
                message = (
                    f"{self._origin}: its options say {name.removeprefix('spark.')} = {value!r}, "
                    f"but this Spark has {before!r}; leave them out, or use another name"
                )
                raise PipelineError(message, input=self.name, key=name)
            if before is None:
                spark.conf.set(name, value)


_APPENDED = frozenset({"append", "replace"})
"""What leaves all rows where they are: compaction replaces files."""

_LOGGED = _APPENDED | {"overwrite", "delete"}
"""What a changelog tells. It tells every row of a file that was written anew as gone and come, so
rows are right where they are counted; as a set, a row that is there twice would be gone with one of
the two."""


def _followed(
    current: Ancestor | None,
    before: list[Ancestor],
    done: int | None,
    limit: int,
    operations: Collection[str],
) -> tuple[int, bool] | None:
    """The snapshot up to which at most `limit` rows came or went since `done`; the first at least.

    And whether rows were only appended. None if more than these operations happened, or files of
    deletes are beside the rows (Iceberg's changelog refuses them), or if they do not lead back to
    `done`. `before` are the ancestors of the current one, down to the one behind `done`.
    """
    way = [*([] if current is None else [current]), *before]
    if not done or not way or way[-1].parent != done:
        return None
    appended = all(snapshot.operation in _APPENDED for snapshot in way)
    deletes = any(int(snapshot.summary.get("total-delete-files", 0)) for snapshot in way)
    if any(snapshot.operation not in operations for snapshot in way) or (deletes and not appended):
        return None
    total, last = 0, way[-1].id
    for snapshot in reversed(way):
        counted = (snapshot.summary.get(f"{what}-records", 0) for what in ("added", "deleted"))
        total += sum(map(int, counted)) if snapshot.operation != "replace" else 0
        if total > limit and snapshot is not way[-1]:
            break
        last = snapshot.id
    return last, appended


def _logged(changes: DataFrame) -> DataFrame:
    """A changelog in its order: in a snapshot rows go before rows come."""
    from pyspark.sql import functions as f  # noqa: PLC0415  an extra

    named = changes.withColumn(CHANGE, f.lower(CHANGE))  # delete, insert
    return named.orderBy("_change_ordinal", CHANGE).drop("_change_ordinal", "_commit_snapshot_id")
