"""What tasks of the netting job send: notes, and packed rows.

A record (`SENT`) is a note as JSON, or rows of one relation as an Arrow stream, and the part of the
shuffle that it is for. Invariant: nothing of a row is looked at on its way, so values arrive as
they left, and Spark moves bytes. What notes and rows mean is for `net` to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from deltafix.spark.wire import Batch, pack, unpack

SENT = pa.schema([("target", pa.int32()), ("note", pa.string()), ("rows", pa.binary())])

Note: TypeAlias = dict[str, Any]
"""What is no row; JSON."""


class Rows(NamedTuple):
    """Rows of one look, with `condense.PLACE` last."""

    look: int
    table: pa.Table


Output: TypeAlias = Rows | list[Note]
"""What a task gives."""


def packed_notes(notes: Sequence[Note]) -> pa.RecordBatch:
    """Notes as they are sent."""
    texts = [json.dumps(note, default=str) for note in notes]
    many = len(texts)
    columns = [pa.array([0] * many, pa.int32()), pa.array(texts, pa.string())]
    return pa.record_batch([*columns, pa.nulls(many, pa.binary())], SENT)


def packed(rows: Rows, target: int = 0) -> pa.RecordBatch:
    """Rows as they are sent."""
    parts = list(pack([Batch(str(rows.look), rows.table)]))
    many = len(parts)
    columns = [pa.array([target] * many, pa.int32()), pa.nulls(many, pa.string())]
    return pa.record_batch([*columns, pa.array(parts, pa.binary())], SENT)


def opened(sent: pa.Table) -> tuple[list[Note], list[Rows]]:
    """The notes and the rows in what was sent."""
    notes = [json.loads(text) for text in sent.column("note").drop_null().to_pylist()]
    parts = sent.column("rows").drop_null()
    batches = [batch for part in parts for batch in unpack(part.as_buffer())]
    return notes, [Rows(int(batch.name), batch.table) for batch in batches]


def send(outputs: Iterator[Output]) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: sends all that a task found."""
    for output in outputs:
        yield packed(output) if isinstance(output, Rows) else packed_notes(output)


@dataclass(frozen=True, slots=True)
class Ended:
    """Runs on an executor: a task, and what is done with what it finds."""

    task: Callable[[Iterator[pa.RecordBatch]], Iterator[Output]]
    ending: Callable[[Iterator[Output]], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What Spark takes on."""
        return self.ending(self.task(batches))
