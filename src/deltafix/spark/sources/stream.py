"""Streaming queries as inputs: whatever `readStream` takes, each micro-batch in one epoch.

    query's thread      batch n: net it --offer--> wait ----------------> done, Spark commits n
    pipeline's thread            poll <--take-- [epoch with n's mark] --release--^ at the next poll

A look runs one query (`availableNow`) to its end. Mark: `stream/<input>` = [batch, id of the query,
digest of where the sources were]. Spark keeps the offsets themselves, and what its sources note, in
the checkpoint; it writes those of a batch before the batch runs and calls for it again until it has
ended. Invariant: a batch ends for Spark only after the epoch that has its rows and its mark, and
one whose mark is in is passed over, so each is in once, whatever is killed. A checkpoint that does
not go with the state is refused. Rows of a batch are in no order: without a key they are summed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import ConfigError, DeltafixError, PipelineError
from deltafix.pipeline.policy import Highs, high_mark
from deltafix.pipeline.portion import Portion, State
from deltafix.spark.checkpoint import Checkpoint
from deltafix.spark.errors import spark_errors
from deltafix.spark.filed import NetFolder
from deltafix.spark.net import Look, Net, by_batch, net_frames
from deltafix.spark.shards import ShardedDatabase
from deltafix.spark.sources.batch import Reading
from deltafix.spark.sources.frames import FrameSource, fitted
from deltafix.store.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

_LOOK_SECONDS: Final = 0.05
"""How often it is looked whether a query has ended by itself."""


class SparkStream(FrameSource):
    """A source of a stream (`source = "spark"`, `mode = "stream"`).

    Args:
        given: as for `FrameSource`.
        state: the pipeline's state folder, beside which the checkpoint is.
    """

    def __init__(self, *given: Any, state: Folder) -> None:
        super().__init__(*given)
        self._reading = Reading.of(self.values)
        self._origin = f"input {self.name}: {self._reading.show()}"
        self._mark = f"stream/{self.name}"
        self._checkpoint = str(self.values["checkpoint"] or state / "streams" / self.name)
        if "://" in str(state) and not self.values["checkpoint"]:
            message = (
                f"{self._origin}: the state is at a URL, and Spark reaches such places by names of "
                'its own: say checkpoint = "s3a://..." (or wherever Spark can write)'
            )
            raise ConfigError(message, key="checkpoint")
        self._query: StreamingQuery | None = None
        self._done: list[Any] = [-1, "", ""]
        self._highs: Highs = {"": None}
        self._nets: Callable[[], NetFolder] | None = None
        self._offer: tuple[list[Any], Net] | None = None
        self._error: Exception | None = None
        self._closed = False
        self._guarded = False
        self._turn = threading.Condition()

    def poll(self, state: State, limit: int) -> Portion | None:
        """The next micro-batch, whole: options such as `maxFilesPerTrigger` bound it."""
        del limit
        with self._turn:
            self._done = state.marks.get(self._mark) or [-1, "", ""]
            self._highs = state.marks.get(high_mark(self.schema.relation), {"": None})
            self._nets = state.nets if isinstance(state, ShardedDatabase) else None
            if self._offer is not None and self._offer[0][0] <= self._done[0]:
                self._offer = None
                self._turn.notify_all()
        if self._query is None:
            self._start()
        offer = self._wait()
        if offer is None:
            return None
        mark, net = offer
        net.checked()
        portion = Portion(self.name, [net.signed], policy=self.policy, more=True, read=net.read)
        portion.marks[self._mark] = mark
        if net.has_versions:
            portion.marks[high_mark(self.schema.relation)] = net.highs
        return portion

    def close(self) -> None:
        """Stop the query; and the session, if it was started here."""
        self._stop()
        super().close()

    def _start(self) -> None:
        spark = self._live.session()
        with spark_errors(self._origin, input=self.name):
            frame = self._reading.stream(spark)
            slim, fit = fitted(
                self.schema, frame, self._origin, sign=self.values["sign"] or 1,
                columns=self.values["columns"], keying=self.policy.keying, merges=self.merges,
            )  # fmt: skip
            checkpoint = Checkpoint(spark, self._checkpoint)
            self._require_run(checkpoint.run() or "", checkpoint.last())

            def handle(batch: DataFrame, number: int) -> None:
                try:
                    mark = [number, checkpoint.run() or "", checkpoint.offsets(number)]
                    if not self._is_in(mark):
                        look = Look(self.schema, "sum", self.policy, self._highs)
                        folder = None if self._nets is None else self._nets()
                        (net,) = net_frames([(batch, by_batch(fit))], [look], folder=folder)
                        self._hand(mark, net)
                except Exception as error:
                    self._error = error  # it would come back through the JVM as text
                    raise

            writer = frame.select(*(f"`{name}`" for name in slim)).writeStream
            writer = writer.foreachBatch(handle).option("checkpointLocation", self._checkpoint)
            self._closed, self._error = False, None
            if not self._guarded:
                self._live.before_close(self._stop)
                self._guarded = True
            self._query = writer.trigger(availableNow=True).start()

    def _require_run(self, run: str, last: int) -> None:
        """Raise PipelineError unless a checkpoint goes on where the state is."""
        number, known, _ = self._done
        if number >= 0 and run != known:
            raise self._refused(
                f"its batches up to {number} were counted by another checkpoint than the one in "
                f"{self._checkpoint}: what this one reads could have been taken before, or lost in "
                "between; put that checkpoint back"
            )
        if last > number:
            known = "none" if number < 0 else f"those up to {number}"
            raise self._refused(
                f"the checkpoint in {self._checkpoint} has finished batch {last}, but the state "
                f"has {known}: it is new, or was put back from an older copy; put back the "
                "checkpoint of that time, or remove it with the state to begin anew"
            )

    def _is_in(self, mark: list[Any]) -> bool:
        """Whether a batch is in. Raises PipelineError for one that cannot follow, or be it."""
        number, run, offsets = self._done
        if mark[0] == number + 1:
            return False
        if mark != [number, run, offsets]:
            raise self._refused(
                f"Spark comes with batch {mark[0]}, and the state has those up to {number}: the "
                f"checkpoint in {self._checkpoint} was put back from another time, and what its "
                "batches hold is not what they held; put back the one that goes with the state"
            )
        return True

    def _hand(self, mark: list[Any], net: Net) -> None:
        """Give a batch to the pipeline and wait until its epoch stands."""
        with self._turn:
            self._offer = (mark, net)
            self._turn.notify_all()
            while self._offer is not None:
                if self._closed:
                    raise self._refused(f"batch {mark[0]} was not taken: the input was closed")
                self._turn.wait()

    def _wait(self) -> tuple[list[Any], Net] | None:
        """The batch on offer; None when the query has ended. Raises what it ended with."""
        query = self._query
        assert query is not None  # noqa: S101  it was started
        with self._turn:
            while self._offer is None and self._error is None and query.isActive:
                self._turn.wait(_LOOK_SECONDS)
            if self._offer is not None:
                return self._offer
        self._query = None
        with spark_errors(self._origin, input=self.name):
            if isinstance(self._error, DeltafixError):
                raise self._error
            query.awaitTermination()
        return None

    def _stop(self) -> None:
        query, self._query = self._query, None
        self._guarded = False
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if query is not None:
            with spark_errors(self._origin, input=self.name):
                query.stop()
        self._offer = None

    def _refused(self, reason: str) -> PipelineError:
        return PipelineError(f"{self._origin}: {reason}", input=self.name)
