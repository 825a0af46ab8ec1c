"""The Spark session of a pipeline, and the one job of its epochs.

Sources say what they look at (`look`); when all of an epoch's have, one job reads and nets it, and
each portion gets its part (`Portion.settle`). Invariant: an epoch is one job, unless an input
fails: whose fault it is shows when each has a job of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.condense import How
from deltafix.pipeline.policy import high_mark
from deltafix.pipeline.portion import Portion, State
from deltafix.spark.errors import spark_errors
from deltafix.spark.filed import NetFolder
from deltafix.spark.net import Decode, Look, Net, Piece, by_item, net_frames
from deltafix.spark.shards import ShardedDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK_BYTES: Final = 4 << 20
"""Up to so many bytes are read by one task: a second one would cost a shuffle."""

_TASKS_PER_SLOT: Final = 3


class OnSpark:
    """Base of a source that Spark reads: its session ends with it."""

    _live: LiveSpark

    def close(self) -> None:
        """Stop the session, if it was started here."""
        self._live.close()


class LiveSpark:
    """Holds a session from its first use to `close`, which stops it only if it was started here."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._stack = ExitStack()
        self._session: SparkSession | None = None
        self._options = options
        self._pending: list[_Pending] = []

    def session(self) -> SparkSession:
        """The session. Raises SparkMissingError, JavaNotFoundError, PipelineError."""
        if self._session is None:
            from deltafix.spark.session import spark_session  # noqa: PLC0415  Spark is an extra

            with spark_errors("Spark cannot be started", "; what it printed says why"):
                self._session = self._stack.enter_context(spark_session(options=self._options))
        return self._session

    def before_close(self, function: Callable[[], object]) -> None:
        """Have a function called before the session may be stopped."""
        self._stack.callback(function)

    def look_items(
        self,
        portion: Portion,
        schema: Schema,
        items: Sequence[Any],
        decode: Callable[[int, Any], Piece],
        state: State,
        *,
        size: int,
        how: How = "said",
        then: Callable[[Net], None] | None = None,
    ) -> None:
        """As `look`, at items of `size` bytes in all that tasks decode one by one."""
        session = self.session()
        slots = session.sparkContext.defaultParallelism
        tasks = min(slots * _TASKS_PER_SLOT, -(-size // _TASK_BYTES))
        frames = [by_item(session, items, decode, tasks=tasks)]
        origin = f"input {portion.source}"
        small = tasks <= 1
        self.look(portion, schema, frames, state, origin, how=how, small=small, then=then)

    def look(
        self,
        portion: Portion,
        schema: Schema,
        frames: Sequence[tuple[DataFrame, Decode]],
        state: State,
        origin: str,
        *,
        how: How = "said",
        small: bool = False,
        partitions: Collection[str] = ("",),
        then: Callable[[Net], None] | None = None,
    ) -> None:
        """Look at frames for a portion: once it is settled it has their rows, net, with bad rows.

        `how` says how rows are netted, `origin` is what errors begin with, `small` tells that one
        task is enough; `partitions` are all that the input has, if each row is of one; `then` is
        called when it is settled.
        """
        before = state.marks.get(high_mark(schema.relation), {})
        look = Look(schema, how, portion.policy, {name: before.get(name) for name in partitions})
        nets = state.nets if isinstance(state, ShardedDatabase) else None
        pending = _Pending(portion, look, tuple(frames), origin, small, nets, then)
        self._pending.append(pending)
        portion.settle = partial(self._settle, pending)

    def _settle(self, pending: _Pending) -> None:
        """Read and net all that is looked at, if that is not done; give a portion its part.

        Raises PipelineError, DriftError, BadRowError for what is wrong with that part.
        """
        if pending.net is None:
            waiting, self._pending = self._pending or [pending], []
            try:
                self._run(waiting)
            except PipelineError:
                if len(waiting) == 1:
                    raise
                self._run([pending])
        assert pending.net is not None  # noqa: S101  it ran
        net = pending.net.checked()
        portion, look = pending.portion, pending.look
        portion.signed.append(net.signed)
        portion.read = net.read
        if net.has_versions:
            portion.marks[high_mark(look.schema.relation)] = net.highs
        stamps = [stamp for stamp in (portion.stamp, net.stamp) if stamp is not None]
        portion.stamp = min(stamps, default=None)
        if pending.then is not None:
            pending.then(net)

    def _run(self, waiting: Sequence[_Pending]) -> None:
        began = time.perf_counter()
        make = waiting[0].nets  # an epoch has one state
        with spark_errors("; ".join(pending.origin for pending in waiting)):
            nets = net_frames(
                [frame for pending in waiting for frame in pending.frames],
                [pending.look for pending in waiting],
                owners=[index for index, pending in enumerate(waiting) for _ in pending.frames],
                small=all(pending.small for pending in waiting),
                folder=None if make is None else make(),
            )
        waiting[0].portion.net_seconds = time.perf_counter() - began
        for pending, net in zip(waiting, nets, strict=True):
            pending.net = net

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._session = None
        self._pending.clear()
        self._stack.close()


@dataclass(slots=True)
class _Pending:
    portion: Portion
    look: Look
    frames: tuple[tuple[DataFrame, Decode], ...]
    origin: str
    small: bool
    nets: Callable[[], NetFolder] | None
    then: Callable[[Net], None] | None
    net: Net | None = None
