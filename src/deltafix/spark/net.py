"""An epoch's net signed rows, made on the executors: read, cast, judge, net; the rest stays there.

    frames --decode--> signed rows and notes --condense--> [shuffle --condense-->] `Net`s

A task runs the functions that the local runner runs (`pipeline.columns`, `.debezium`, `.policy`).
What is no row (how many were read, a bad row, the highest version, an error) travels beside them as
a note, and rows of all relations travel alike, so that an epoch is one job; a small one is one task
without a shuffle. Invariant: rows and bad rows are those that the local runner finds. The shuffle
brings equal rows together, and of keyed inputs the rows of a key, of which only those of the
highest sequence go on. Of bad rows a task gives at most `BAD_ROWS` in full.

Rows travel packed (`filed.SENT`), through the shuffle and to the driver: as Java objects, which
they would be twice, five million of them filled a heap of 1 GB and took ten times as long. Where
shards take the rows, tasks leave them in files (`filed`), and the notes alone come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from deltafix.errors import BadRowError, DeltafixError
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.groups import dictionary_of
from deltafix.facts.schema import Schema
from deltafix.pipeline.condense import PLACE, How, by_place, condense
from deltafix.pipeline.policy import Highs, Policy, late_rows
from deltafix.pipeline.quarantine import BAD_ROWS, require_few
from deltafix.pipeline.signed import SIGN, Bad, Signed, plain
from deltafix.spark.errors import error_of, note_of
from deltafix.spark.filed import Filed, Filing, NetFile, NetFolder
from deltafix.spark.hashing import Key
from deltafix.spark.sent import SENT, Ended, Note, Output, Rows, opened, packed, packed_notes, send
from deltafix.spark.wire import route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDTH: Final = 36
"""Bits of a row's position in its partition or item."""


@dataclass(slots=True)
class Piece:
    """Signed rows as a task decodes them, the first of them at `position` in the order of all.

    `read` is how many rows were read for it; None: those it has. `tag` goes to `Net.tags`. All are
    of one `partition` of their input, in its order.
    """

    position: int
    signed: Signed
    stamp: float | None = None
    read: int | None = None
    tag: Any = None
    partition: str = ""


Decode = Callable[[Iterator[pa.RecordBatch], int], Iterable[Piece]]
"""From the batches of a partition, and its number, to pieces. Runs on executors."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at for a relation; `highs` are those as of the last epoch."""

    schema: Schema
    how: How
    policy: Policy = field(default_factory=Policy)
    highs: Highs = field(default_factory=lambda: {"": None})

    @property
    def needs_order(self) -> bool:
        """Whether which rows are late depends on all before them, so that one task sees them."""
        return self.policy.late != "apply" and "" in self.highs

    @property
    def columns(self) -> pa.Schema:
        """Of rows on their way: those of a signed table, with `PLACE` last."""
        keying = self.policy.keying
        numbers = [SIGN, *(keying.versions if keying.key else ()), PLACE]
        fields = [pa.field(name, pa.int64(), nullable=False) for name in numbers]
        return pa.schema([*arrow_schema(self.schema), *fields])


@dataclass(slots=True)
class Net:
    """What came of a look.

    Attributes:
        signed: net signed rows, and the bad ones.
        read: how many rows were read, bad ones included.
        highs: the highest version of each partition by now, late rows included.
        stamp: when the oldest of it was written, if known.
        tags: those of the pieces, by their positions.
        files: where the rows were left, if they were.
        error: what a task raised of it; then the rest says nothing.
    """

    signed: Signed
    read: int = 0
    highs: dict[str, int | None] = field(default_factory=dict)
    stamp: float | None = None
    tags: dict[int, Any] = field(default_factory=dict)
    files: list[NetFile] = field(default_factory=list)
    error: DeltafixError | None = None

    @property
    def has_versions(self) -> bool:
        """Whether any row had a version, now or before."""
        return any(high is not None for high in self.highs.values())

    def checked(self) -> Net:
        """Itself. Raises its error."""
        if self.error is not None:
            raise self.error
        return self


def net_frames(
    frames: Sequence[tuple[DataFrame, Decode]],
    looks: Sequence[Look],
    *,
    owners: Sequence[int] = (),
    small: bool = False,
    folder: NetFolder | None = None,
) -> list[Net]:
    """Decode and net frames on the executors, in one job; a `Net` for each look.

    Args:
        frames: raw records, and what makes signed rows of them on the executors.
        looks: one for each relation of which the frames have rows.
        owners: for each frame, the look to which its errors belong; the first unless given.
        small: whether one task is to do all of it, which costs no shuffle.
        folder: a new one in which tasks leave the rows (`Filed`); None: they come here.

    What a decoder raises is the `Net`'s error where it is one of deltafix; else Spark raises.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  an extra

    schema = from_arrow_schema(SENT)
    small = small or any(look.needs_order for look in looks)
    parts = [frame.coalesce(1) if small else frame for frame, _ in frames]
    together = not small or len(frames) > len(looks)
    ending = send if folder is None else Filing(len(looks), str(folder.folder))
    routing = send if small else _Routing(tuple(looks), _targets(parts[0]))
    tasks: list[DataFrame] = []
    for number, (part, (_, decode)) in enumerate(zip(parts, frames, strict=True)):
        task = _Task(tuple(looks), decode, number, owners[number] if owners else 0)
        tasks.append(part.mapInArrow(Ended(task, routing if together else ending), schema))
    raw = reduce(lambda a, b: a.union(b), tasks)
    if together:
        raw = raw.coalesce(1) if small else raw.repartition(raw.target)
        raw = raw.mapInArrow(Ended(_Joined(tuple(looks)), ending), schema)
    nets = read_nets(raw.toArrow(), looks)
    if folder is not None:
        for net in nets:
            net.signed = Filed(net.signed, folder, net.files)
    return nets


def by_item(
    session: SparkSession, items: Sequence[Any], decode: Callable[[int, Any], Piece], *, tasks: int
) -> tuple[DataFrame, Decode]:
    """A frame whose tasks decode items (a file, a part of a table), and how: for `net_frames`.

    `decode` takes the position of an item's first row and the item; it is sent with all items.
    """
    frame = session.range(0, len(items), 1, max(1, min(tasks, len(items))))

    def each(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[Piece]:
        del partition
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield decode(number << WIDTH, items[number])

    return frame, each


def by_batch(decode: Callable[[pa.Table, int], Signed]) -> Decode:
    """Decodes a frame's own rows; `decode` takes a table and how many of its task were before.

    Rows follow each other in the order of their task.
    """

    def each(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[Piece]:
        before, position = 0, partition << WIDTH
        for batch in batches:
            if not batch.num_rows:
                continue
            signed = decode(pa.Table.from_batches([batch]), before)
            before += batch.num_rows
            position += signed.table.num_rows
            yield Piece(position - signed.table.num_rows, signed)

    return each


def read_nets(table: pa.Table, looks: Sequence[Look]) -> list[Net]:
    """What tasks sent (`filed.SENT`), by look."""
    notes, came = opened(table)
    nets = [Net(Signed(look.schema, None), highs=dict(look.highs)) for look in looks]
    beyond = [0] * len(nets)
    for note in sorted(notes, key=lambda note: note["at"]):
        index = note["look"]
        if "error" in note:
            nets[index].error = nets[index].error or error_of(note["error"])
        elif "file" in note:
            nets[index].files.append(NetFile(*note["file"]))
        elif "bad" in note:
            nets[index].signed.bad.append(Bad(*note["bad"]))
        else:
            beyond[index] += note["beyond"]
            _add(nets[index], note)
    for index, (look, net) in enumerate(zip(looks, nets, strict=True)):
        try:
            require_few(net.signed.bad, beyond[index])
        except BadRowError as error:
            net.error = net.error or error
        rows = [part.table for part in came if part.look == index]
        signed = by_place(pa.concat_tables(rows or [look.columns.empty_table()]))
        net.signed.table = _encoded(look.schema, signed.drop_columns([PLACE]))
    return nets


def _targets(frame: DataFrame) -> int:
    """Into how many parts rows are cut on their way through the shuffle: two a partition of it.

    Partitions that come out small are read together, so there may be many.
    """
    return 2 * int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


@dataclass(frozen=True, slots=True)
class _Routing:
    """Sends what a task found through the shuffle: equal rows, and those of a key, to one part."""

    looks: tuple[Look, ...]
    targets: int

    def __call__(self, outputs: Iterator[Output]) -> Iterator[pa.RecordBatch]:
        for output in outputs:
            if not isinstance(output, Rows):
                yield packed_notes(output)
                continue
            look = self.looks[output.look]
            names = look.policy.keying.key or look.schema.names
            alike = Key(tuple(output.table.column_names.index(name) for name in names))
            for target, rows in route(output.table, alike, self.targets):
                yield packed(Rows(output.look, rows), target)


@dataclass(frozen=True, slots=True)
class _Task:
    """What runs on an executor, over the batches of one partition of the frame of this number."""

    looks: tuple[Look, ...]
    decode: Decode
    number: int
    look: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Output]:
        from pyspark import TaskContext  # noqa: PLC0415  on executors only

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        indices = {look.schema.relation: index for index, look in enumerate(self.looks)}
        rows: dict[int, list[pa.Table]] = {}
        highs = [dict(look.highs) for look in self.looks]
        left, at = BAD_ROWS, [self.number, partition, 0]
        try:
            for piece in self.decode(batches, partition):
                index = indices[piece.signed.schema.relation]
                notes, left = self._notes(piece, index, highs, left)
                yield self._placed(notes, at)
                if piece.signed.table.num_rows:
                    rows.setdefault(index, []).append(_travelling(piece, self.looks[index]))
            yield from _condensed(self.looks, rows)
        except DeltafixError as error:
            yield self._placed([{"look": self.look, "error": note_of(error)}], at)

    def _notes(
        self, piece: Piece, index: int, highs: Sequence[dict[str, int | None]], left: int
    ) -> tuple[list[Note], int]:
        """What there is to say of a piece; takes its late rows out."""
        read = piece.signed.rows if piece.read is None else piece.read
        policy, known = self.looks[index].policy, highs[index]
        high = late_rows(policy, piece.signed, known.get(piece.partition))
        known[piece.partition] = high
        bad = piece.signed.bad
        notes: list[Note] = [
            {"look": index, "bad": [bad_row.reason, bad_row.origin, bad_row.row]}
            for bad_row in bad[:left]
        ]
        total = {"read": read, "high": [piece.partition, high], "stamp": piece.stamp,
                 "position": piece.position, "tag": piece.tag,
                 "beyond": len(bad[left:])}  # fmt: skip
        return [*notes, {"look": index, **total}], left - len(notes)

    def _placed(self, notes: Sequence[Note], at: list[int]) -> list[Note]:
        # What two tasks say alike is said twice: each note has a place of its own.
        first = at[-1]
        at[-1] += len(notes)
        return [{"at": [*at[:-1], n], **note} for n, note in enumerate(notes, start=first)]


@dataclass(frozen=True, slots=True)
class _Joined:
    """What runs on an executor over what was brought together."""

    looks: tuple[Look, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Output]:
        rows: dict[int, list[pa.Table]] = {}
        for batch in batches:
            notes, came = opened(pa.Table.from_batches([batch]))
            yield notes
            for part in came:
                rows.setdefault(part.look, []).append(part.table)
        yield from _condensed(self.looks, rows)


def _condensed(looks: Sequence[Look], rows: Mapping[int, Sequence[pa.Table]]) -> Iterator[Rows]:
    """Rows by their looks' indices, in fewer; none of a look of which nothing is left."""
    for index, tables in rows.items():
        look = looks[index]
        names, keying = list(look.schema.names), look.policy.keying
        sequence = keying.versions if keying.key else ()
        whole = pa.concat_tables(tables)
        table = condense(whole, names, look.how, look.policy, keys=keying.key, sequence=sequence)
        if table.num_rows:
            yield Rows(index, table)


def _travelling(piece: Piece, look: Look) -> pa.Table:
    """The rows of a piece as they travel."""
    table = plain(look.schema, piece.signed.table)
    positions = pa.array(np.arange(piece.position, piece.position + table.num_rows))
    columns = [table.column(name) for name in look.columns.names[:-1]]
    casts = [
        column.cast(wanted.type) for column, wanted in zip(columns, look.columns, strict=False)
    ]
    return pa.Table.from_arrays([*casts, positions], schema=look.columns)


def _add(net: Net, note: Note) -> None:
    partition, high = note["high"]
    highs = [known for known in (net.highs.get(partition), high) if known is not None]
    stamps = [known for known in (net.stamp, note["stamp"]) if known is not None]
    net.read += note["read"]
    if note["tag"] is not None:
        net.tags[note["position"]] = note["tag"]
    net.highs[partition], net.stamp = max(highs, default=None), min(stamps, default=None)


def _encoded(schema: Schema, table: pa.Table) -> pa.Table:
    """The table with symbols dictionary-encoded, as engines like them."""
    for index, column in enumerate(schema.columns):
        if column.type == "symbol":
            texts = dictionary_of(table.column(index))
            table = table.set_column(
                index, pa.field(column.name, texts.type, nullable=False), texts
            )
    return table
