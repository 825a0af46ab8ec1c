"""Net rows that stay with the executors until an epoch takes them there.

    rows and notes --`Counted`--> kept by Spark --`Away.taken`--> messages to who judges them

Invariant: what is taken is what was counted. Spark may lose what it keeps and have it made again,
from a source that has changed since; each task's rows are therefore counted and hashed as they are
made, and again as they are taken, and others than those fail the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from deltafix.errors import PipelineError
from deltafix.pipeline.condense import PLACE
from deltafix.pipeline.signed import Signed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Away", "Count", "Counted", "Take"]

Take = Callable[[pa.Table, pa.ChunkedArray], Iterator[pa.RecordBatch]]
"""What is made of signed rows and their places, on executors."""


class Wire(Protocol):
    """How rows of several looks, and notes, travel; see `net`."""

    def rows(self, batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
        """The rows of a look."""

    def notes(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """What is no row."""

    def told(self, notes: list[dict[str, Any]]) -> pa.RecordBatch:
        """Notes as they travel."""

    def signed(self, place: int, rows: pa.Table) -> pa.Table:
        """Rows of a look as they are, from how they travel."""


class Count(NamedTuple):
    """Rows in any order: how many, and the sum of their hashes, which tells them from others."""

    rows: int = 0
    digest: int = 0

    def plus(self, other: Count) -> Count:
        """Of both."""
        return Count(self.rows + other.rows, (self.digest + other.digest) & (2**64 - 1))

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Count:
        """Of a batch."""
        from pandas.util import hash_pandas_object  # noqa: PLC0415  comes with Spark

        hashes = hash_pandas_object(rows.to_pandas(), index=False).to_numpy(np.uint64)
        return cls(rows.num_rows, int(hashes.sum()))


@dataclass(frozen=True, slots=True)
class Counted:
    """What runs on an executor last over rows that stay: says how many there are, and which."""

    wire: Wire
    looks: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, then a note for each look."""
        from pyspark import TaskContext  # noqa: PLC0415  on executors only

        counts = [Count()] * self.looks
        for batch in batches:
            counts = [
                count.plus(Count.of(self.wire.rows(batch, place)))
                for place, count in enumerate(counts)
            ]
            yield batch
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        yield self.wire.told(
            [
                {"at": [-1, task, place], "look": place, "task": task, "count": count}
                for place, count in enumerate(counts)
            ]
        )


@dataclass(frozen=True, slots=True)
class _Taken:
    """What runs on an executor over rows that stayed, to have them taken elsewhere."""

    wire: Wire
    relation: str
    place: int
    counts: Mapping[int, Count]
    take: Take

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found, task = Count(), 0
        for batch in batches:
            for note in self.wire.notes(batch):
                task = note.get("task", task)
            rows = self.wire.rows(batch, self.place)
            found = found.plus(Count.of(rows))
            if rows.num_rows:
                table = pa.Table.from_batches([rows])
                yield from self.take(self.wire.signed(self.place, table), table.column(PLACE))
        if found != self.counts[task]:
            raise PipelineError(
                f"{self.relation}: its input was read again after a worker was lost, and had other "
                "rows than before; nothing of the epoch is there"
            )


class Away(Signed):
    """Signed rows that are with the executors. `table` brings them here; `taken` does not.

    `let_go` when they are not wanted any more.
    """

    __slots__ = ("_counts", "_frame", "_place", "_wire")

    def __init__(
        self, told: Signed, frame: DataFrame, wire: Wire, place: int, counts: dict[int, Count]
    ) -> None:
        self.schema = told.schema
        self.bad = told.bad
        self._frame = frame
        self._wire = wire
        self._place = place
        self._counts = counts

    @property
    def table(self) -> pa.Table:
        """The rows, brought here."""
        batches = self._frame.toArrow().to_batches()
        rows = pa.Table.from_batches([self._wire.rows(one, self._place) for one in batches])
        return self._wire.signed(self._place, rows.sort_by(PLACE))

    @property
    def good(self) -> int:
        """As `Signed.good`."""
        return sum(count.rows for count in self._counts.values())

    @property
    def has_versions(self) -> bool:
        """As `Signed.has_versions`: those who read rows set late ones aside."""
        return False

    def copy(self) -> Signed:
        """As `Signed.copy`."""
        told = Signed(self.schema, None, [*self.bad])
        return Away(told, self._frame, self._wire, self._place, self._counts)

    def taken(self, take: Take, schema: str) -> DataFrame:
        """What is made of the rows, as a frame of that schema, without bringing them here."""
        taken = _Taken(self._wire, self.schema.relation, self._place, self._counts, take)
        return self._frame.mapInArrow(taken, schema)

    def let_go(self) -> None:
        """Give back the executors' room."""
        self._frame.unpersist()
