"""A superstep as a Spark job, or many: one `mapInArrow` over shards, one shuffle before it.

A job of many has tasks that run together (`rest`) and exchange through the state's folder
(`rendezvous`); Spark gives such a job up when a task of it is lost, and it is run again from here.
Else messages are rows (destination, bytes). Spark sends them to the partition of their shard, keeps
what a step gave on the executors' disks until the epoch ends, and runs a task again, from the step
before if need be, when a worker or an executor is lost: a task's answer depends on its shard's
files and its messages only. What a task raises that is deltafix's own, or the file system's, is
told like a report and raised here: the same again would come of it.
Invariant: nothing durable is Spark's; the files of `files` are the state, and an epoch that cannot
be finished leaves the state of the one before.

A row is in the partition of the number that a column says, on every Spark: 4.0 has no
`repartitionById`, and there a number is told by a key whose hash leads to its partition.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from deltafix.errors import DeltafixError, SparkJobError
from deltafix.spark.errors import error_of, note_of, spark_errors
from deltafix.spark.shards.rendezvous import APART, Rendezvous, leave_mark
from deltafix.spark.shards.resident import Spec, Task, run_step, task_error, warm
from deltafix.spark.shards.rest import (
    Done,
    FailedError,
    Link,
    RefusedError,
    RestTask,
    exchanged,
    run_rest,
)
from deltafix.spark.shards.schedule import Report, Work
from deltafix.spark.shards.step import First, Parcel
from deltafix.spark.wire import Batch, pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_LOG = logging.getLogger(__name__)

PARCELS = "parcels"
_TASKS_PER_SLOT = 3
"""Of those that make first messages for a shuffle."""

_TRIES = 4
"""How often tasks run together before a loss of one fails the epoch: as often as Spark's others."""

_LOST = "failed barrier ResultStage"
"""What Spark says when it gives up tasks that run together because one of them was lost."""
CONTROL = -1
"""The destination of a report: the driver."""

Message = tuple[int, bytes]
"""Destination and bytes. No bytes: the shard is to run, and nothing was sent to it."""

MESSAGES = "target int not null, payload binary not null"
_SCHEMA = pa.schema(
    [
        pa.field("target", pa.int32(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


_NOTHING = (f"{CONTROL} AS target", "CAST('' AS binary) AS payload")
"""What a task is told that has no messages to take."""


def planless(session: SparkSession) -> SparkSession:
    """A session on the same context whose plans are run as they are.

    A step's frame stands on the cached frame of the step before. With adaptive execution Spark
    prints both versions of every cached plan, so that the text doubles with each step: 20 steps
    took all of the driver's memory. It also spares 0.1 s a step, and nothing here is adaptable.
    """
    other = session.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "false")
    # Rows reach Python in larger pieces: each piece is cut up for the shards and packed.
    other.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "200000")
    return other


def united(session: SparkSession, frames: Iterable[DataFrame]) -> DataFrame | None:
    """Frames of messages as one of this session, with whose settings it runs; None for none."""
    nothing = session.createDataFrame(pa.Table.from_batches([], _SCHEMA), MESSAGES)
    sent = [*frames]
    return reduce(lambda left, right: left.unionAll(right), sent, nothing) if sent else None


def _first_frame(session: SparkSession, shards: int, first: First) -> DataFrame:
    """First messages as a frame, and one without bytes for every shard, so that each runs."""
    wake: list[Message] = [(number, b"") for number in range(shards)]
    table = pa.Table.from_batches(_rows([*wake, *_messages(first.here)]))
    frame = session.createDataFrame(table, MESSAGES)
    if first.frame is not None:
        frame = frame.unionAll(first.frame)
    if not first.makers:
        return frame
    tasks = min(len(first.makers), session.sparkContext.defaultParallelism * _TASKS_PER_SLOT)
    numbers = session.range(0, len(first.makers), 1, tasks)
    return frame.unionAll(numbers.mapInArrow(partial(_make, first.makers), MESSAGES))


def _make(
    makers: Sequence[Callable[[], Iterable[Parcel]]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for parcel in makers[number]():
                yield from in_rows([parcel])


def in_rows(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Parcels as rows of a frame, packed."""
    return _rows(_messages(parcels))


def _messages(parcels: Iterable[Parcel]) -> Iterator[Message]:
    shards: dict[int, list[Batch]] = {}
    for target, batch in parcels:
        shards.setdefault(target, []).append(batch)
    for target, batches in shards.items():
        for data in pack(batches):
            yield target, data


def _rows(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as record batches, one each."""
    for target, data in messages:
        columns = [pa.array([target], pa.int32()), pa.array([data], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _inboxes(batches: Iterable[pa.RecordBatch]) -> dict[int, list[Batch]]:
    """The messages in rows of a frame, by shard: also those of shards that are to run only."""
    came: dict[int, list[Batch]] = {}
    for batch in batches:
        for target, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            came.setdefault(target, []).extend(unpack(data) if data else ())
    return came


class OnSpark:
    """Runs the steps of one epoch, whose first messages are given."""

    def __init__(self, session: SparkSession, spec: Spec, first: First) -> None:
        self._session = session
        self._spec = spec
        self._waiting: First | DataFrame = first
        self._kept: list[DataFrame] = []

    def run(self, task: Task) -> list[dict[str, Any]]:
        """One superstep on every shard; the shards' reports."""
        step: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
        step = partial(_over_partition, self._spec, task)
        sent = self._sent()
        rows = placed(sent, self._spec.shards, sent.target)
        self._waiting = rows.mapInArrow(step, MESSAGES).persist(_level())
        self._kept.append(self._waiting)
        return _reports(self._waiting.where(f"target = {CONTROL}"))

    def _sent(self) -> DataFrame:
        """The messages that wait, as a frame."""
        if isinstance(self._waiting, First):
            return _first_frame(self._session, self._spec.shards, self._waiting)
        return self._waiting.where(f"target <> {CONTROL}")

    def rest(self, task: RestTask) -> Done:
        """The supersteps that are left of an epoch, as one job whose tasks run together.

        Raises RefusedError, also where Spark cannot start tasks together now.
        """
        for tried in range(1, _TRIES):
            try:
                return self._at_once(task)
            except SparkJobError as error:
                if APART in str(error.__cause__):
                    raise RefusedError from error
                if _LOST not in str(error.__cause__):
                    raise
                _LOG.info("tasks that run together are run again, try %d: %s", tried + 1, error)
        return self._at_once(task)

    def _at_once(self, task: RestTask) -> Done:
        tasks = min(self._spec.shards, _slots(self._session))
        if tasks < 1:
            raise RefusedError
        # Each takes its own of what all are told, makes its share of what is to be made, and has
        # the rest from Spark.
        first = self._waiting if isinstance(self._waiting, First) else First()
        sent = first.frame if first is self._waiting else self._sent()
        if sent is None:
            rows = self._session.range(0, tasks, 1, tasks).selectExpr(*_NOTHING)
        else:
            rows = placed(sent, tasks, sent.target % tasks)
        # Of its own: a task of a run that was given up may still be at work.
        parcels = f"{task.attempt}/{PARCELS}-{uuid4().hex[:8]}"
        first = replace(first, frame=None)
        run = _Together(self._spec, task, parcels, tasks, first)
        try:
            leave_mark(self._spec.root / parcels)
            notes = _reports(rows.mapInArrow(run, MESSAGES, barrier=True))
        finally:
            self._spec.root.remove_folder(parcels)
        self._waiting = First()
        works = [note for note in notes if "supersteps" in note]
        return Done(Work(**works[0]), [note for note in notes if "supersteps" not in note])

    def close(self) -> None:
        """Let go of the messages of the epoch."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


class Warming:
    """A job beside the caller's: workers make the engines of shards that were just loaded.

    The first change finds them made, or waits for what is left of it. Nothing depends on it.
    """

    def __init__(
        self, session: SparkSession, spec: Spec, files: Mapping[int, Sequence[str]]
    ) -> None:
        from pyspark import InheritableThread  # noqa: PLC0415  an extra

        self._context = session.sparkContext
        self._group = f"deltafix-{uuid4().hex}"
        shards = numbered(session, spec.shards)
        self._frame = shards.mapInArrow(partial(_warm_part, spec, files), shards.schema)
        self._thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is done."""
        self._thread.join()

    def close(self) -> None:
        """Stop it, if it runs. Idempotent."""
        if self._thread.is_alive():
            with suppress(Exception):  # a session that is gone has stopped it
                self._context.cancelJobGroup(self._group)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "deltafix: engines of loaded shards")
            self._frame.count()
        except Exception as error:
            _LOG.info("engines are made with the next change: %s", error)


def _warm_part(
    spec: Spec, files: Mapping[int, Sequence[str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            warm(spec, number, list(files[number]))
        yield batch


def _over_partition(
    spec: Spec, task: Task, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The shards whose messages are in one partition: one, but nothing here relies on it."""
    for number, inbox in sorted(_inboxes(batches).items()):
        try:
            parcels, note = run_step(spec, task, number, inbox)
        except (DeltafixError, OSError) as error:
            yield from _note_rows([{"error": note_of(task_error(spec, error))}])
            return
        yield from in_rows(parcels)
        yield from _rows([(number, b"")])
        yield from _note_rows([note])


@dataclass(frozen=True, slots=True)
class _Together:
    """The shards of one of the tasks that run together; its notes, and what all cost.

    `first`: messages beside those that come.
    """

    spec: Spec
    task: RestTask
    parcels: str
    tasks: int
    first: First

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext  # noqa: PLC0415  an extra

        me = BarrierTaskContext.get().partitionId()
        link = Rendezvous(self.spec.root / self.parcels, me, self.tasks)
        came = _inboxes(batches)
        inboxes = {n: came.get(n, []) for n in range(me, self.spec.shards, self.tasks)}
        try:
            self._open(self.first, inboxes, me, link)
            done = run_rest(self.spec, self.task, inboxes, link)
        except FailedError as failed:
            yield from _note_rows([{"error": note_of(failed.error)}])
            return
        yield from _note_rows([*done.notes, asdict(done.work)] if me == 0 else done.notes)

    def _open(self, first: First, inboxes: dict[int, list[Batch]], me: int, link: Link) -> None:
        """Have one's own of the first messages, and make one's share for all."""
        parcels = [parcel for parcel in first.here if parcel[0] in inboxes]
        if first.makers:
            away, failed = list[Parcel](), None
            try:
                for make in first.makers[me :: self.tasks]:
                    away += make()
            except (DeltafixError, OSError) as error:
                failed = task_error(self.spec, error)
            parcels += exchanged(link, Report(), away, failed)[1]
        for target, batch in parcels:
            inboxes[target].append(batch)


def _note_rows(notes: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    return _rows((CONTROL, json.dumps(note).encode()) for note in notes)


def _reports(frame: DataFrame) -> list[dict[str, Any]]:
    """Run a step. Raises what its tasks tell, and SparkJobError."""
    with spark_errors("a job of shards failed", kind=SparkJobError):
        rows = frame.select("payload").collect()
    notes = [json.loads(bytes(row.payload)) for row in rows]
    for note in notes:
        if "error" in note:
            raise error_of(note["error"])
    return notes


def _slots(session: SparkSession) -> int:
    """Tasks that Spark can run at once now: what it asks before it starts a barrier stage."""
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))


def _level() -> Any:
    from pyspark import StorageLevel  # noqa: PLC0415  an extra

    return StorageLevel.MEMORY_AND_DISK


_SEED = 42
"""Of the hash by which Spark places rows."""


def placed(frame: DataFrame, partitions: int, number: Column) -> DataFrame:
    """The rows, each in the partition that `number` says: an int from 0 to `partitions` - 1."""
    if hasattr(type(frame), "repartitionById"):
        return frame.repartitionById(partitions, number)
    from pyspark.sql import functions as sf  # noqa: PLC0415  an extra

    keys = sf.array(*map(sf.lit, _keys(partitions)))
    return frame.repartition(partitions, sf.get(keys, number))


def numbered(spark: SparkSession, many: int) -> DataFrame:
    """The numbers from 0 on (`id`), each in the partition of its own: a task for every shard."""
    numbers = spark.range(many)
    return placed(numbers, many, numbers.id.cast("int"))


@cache
def _keys(partitions: int) -> tuple[int, ...]:
    """The least number that Spark's hash leads to each partition. Expected O(p log p) calls."""
    from pyspark import SparkContext  # noqa: PLC0415  an extra

    murmur = SparkContext._active_spark_context._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < partitions:
        keys.setdefault(murmur.hashInt(key, _SEED) % partitions, key)
        key += 1
    return tuple(keys[number] for number in range(partitions))
