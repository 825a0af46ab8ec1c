"""An epoch's net signed rows, made on the executors: read, cast, judge, net; the rest stays there.

    frames --decode--> signed rows and notes --condense--> [shuffle --condense-->] `Net`s

A task runs the functions that the local runner runs (`pipeline.columns`, `.debezium`, `.policy`).
What is no row (how many were read, a bad row, the highest version, an error) travels beside them as
a note, and rows of all relations travel in the same columns, so that an epoch is one job; a small
one is one task without a shuffle. Invariant: rows and bad rows are those that the local runner
finds; numbers travel as their 64 bits, so nothing is rounded. The shuffle brings equal rows
together, and of keyed inputs the rows of a key, of which only those of the highest sequence go on.
Of bad rows a task gives at most `BAD_ROWS` in full.

Where shards take the rows, tasks leave them in files (`filed`), and the notes alone come here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import BadRowError, DeltafixError
from deltafix.facts.arrow import ARROW_TYPES
from deltafix.facts.groups import dictionary_of
from deltafix.facts.schema import Column, Schema
from deltafix.pipeline.condense import PLACE, How, condense
from deltafix.pipeline.policy import Highs, Policy, late_rows
from deltafix.pipeline.quarantine import BAD_ROWS, require_few
from deltafix.pipeline.signed import SIGN, Bad, Signed, plain, signed_table
from deltafix.spark.errors import error_of, note_of
from deltafix.spark.filed import Filed, Filing, NetFile, NetFolder, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["WIDTH", "Decode", "Look", "Net", "Piece", "by_batch", "by_item", "net_frames"]

_RELATION, _NOTE = "relation", "note"
WIDTH: Final = 36
"""Bits of a row's place in its partition or item."""


@dataclass(slots=True)
class Piece:
    """Signed rows as a task decodes them, the first of them at `place` in the order of all.

    `read` is how many rows were read for it; None: those it has. `tell` goes to `Net.told`. All are
    of one `partition` of their input, in its order.
    """

    place: int
    signed: Signed
    stamp: float | None = None
    read: int | None = None
    tell: Any = None
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


@dataclass(slots=True)
class Net:
    """What came of a look.

    Attributes:
        signed: net signed rows, and the bad ones.
        read: how many rows were read, bad ones included.
        highs: the highest version of each partition by now, late rows included.
        stamp: when the oldest of it was written, if known.
        told: what the pieces told, by their places.
        files: where the rows were left, if they were.
        error: what a task raised of it; then the rest says nothing.
    """

    signed: Signed
    read: int = 0
    highs: dict[str, int | None] = field(default_factory=dict)
    stamp: float | None = None
    told: dict[int, Any] = field(default_factory=dict)
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

    wire = _Wire.of(looks)
    given = from_arrow_schema(wire.schema)
    small = small or any(look.needs_order for look in looks)
    parts = [frame.coalesce(1) if small else frame for frame, _ in frames]
    together = not small or len(frames) > len(looks)

    def ending(step: Step, *, last: bool) -> Step:
        return (
            Filing(step, wire, len(looks), str(folder.folder))
            if last and folder is not None
            else step
        )

    def task(number: int, decode: Decode) -> Step:
        task = _Task(wire, decode, number, owners[number] if owners else 0)
        return ending(task, last=not together)

    raw = reduce(
        lambda a, b: a.union(b),
        (
            part.mapInArrow(task(number, decode), given)
            for number, (part, (_, decode)) in enumerate(zip(parts, frames, strict=True))
        ),
    )
    if together:
        raw = raw.coalesce(1) if small else raw.repartition(*wire.together())
        raw = raw.mapInArrow(ending(_Joined(wire), last=True), given)
    nets = wire.read(raw.toArrow())
    if folder is not None:
        for net in nets:
            net.signed = Filed(net.signed, folder, net.files)
    return nets


def by_item(
    session: SparkSession, items: Sequence[Any], decode: Callable[[int, Any], Piece], *, tasks: int
) -> tuple[DataFrame, Decode]:
    """A frame whose tasks decode items (a file, a part of a table), and how: for `net_frames`.

    `decode` takes the place of an item's first row and the item; it is sent with all items.
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
        before, place = 0, partition << WIDTH
        for batch in batches:
            if not batch.num_rows:
                continue
            signed = decode(pa.Table.from_batches([batch]), before)
            before += batch.num_rows
            place += signed.table.num_rows
            yield Piece(place - signed.table.num_rows, signed)

    return each


@dataclass(frozen=True, slots=True)
class _Wire:
    """How rows travel: which relation, its text, its numbers as 64 bits; sign, place, note."""

    looks: tuple[Look, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, looks: Sequence[Look]) -> _Wire:
        texts = max(sum(_is_text(one) for one in look.schema.columns) for look in looks)
        numbers = max(
            sum(not _is_text(one) for one in look.schema.columns)
            + (len(look.policy.keying.sequence) if look.policy.keying.key else 0)
            for look in looks
        )
        columns = [(_RELATION, pa.int32())]
        columns += [(f"t{place}", pa.string()) for place in range(texts)]
        columns += [(f"n{place}", pa.int64()) for place in range(numbers)]
        columns += [(SIGN, pa.int64()), (PLACE, pa.int64()), (_NOTE, pa.string())]
        return cls(tuple(looks), pa.schema(columns))

    def condensed(self, tables: Sequence[pa.Table], place: int) -> Iterator[pa.RecordBatch]:
        """Rows of one look, as they travel, in fewer."""
        if not tables:
            return
        look = self.looks[place]
        names, sequence = self.names(look.schema), self.sequence(look)
        whole = pa.concat_tables(tables).select([*names, *sequence, SIGN, PLACE])
        table = condense(
            whole, names, look.how, look.policy, keys=self.keys(look), sequence=sequence
        )
        for batch in table.combine_chunks().to_batches():
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns[_RELATION] = pa.repeat(pa.scalar(place, pa.int32()), batch.num_rows)
            yield self.write(columns, batch.num_rows)

    def names(self, schema: Schema) -> list[str]:
        """The columns in which those of a relation travel."""
        seen = {"t": 0, "n": 0}
        names = []
        for column in schema.columns:
            kind = "t" if _is_text(column) else "n"
            names.append(f"{kind}{seen[kind]}")
            seen[kind] += 1
        return names

    def keys(self, look: Look) -> list[str]:
        """The columns in which a key travels."""
        pairs = zip(self.names(look.schema), look.schema.names, strict=True)
        return [name for name, own in pairs if own in look.policy.keying.key]

    def sequence(self, look: Look) -> list[str]:
        """The columns in which the sequences of keyed rows travel."""
        if not look.policy.keying.key:
            return []
        first = sum(not _is_text(one) for one in look.schema.columns)
        return [f"n{first + place}" for place in range(len(look.policy.keying.sequence))]

    def together(self) -> list[Any]:
        """What is alike in rows that are netted with each other."""
        from pyspark.sql import functions as f  # noqa: PLC0415  an extra

        found = []
        for name in self.schema.names:
            if name in (SIGN, PLACE):
                continue
            apart = [
                place
                for place, look in enumerate(self.looks)
                if look.policy.keying.key and name not in (*self.keys(look), _RELATION, _NOTE)
            ]
            column = f.col(name)
            found.append(f.when(~f.col(_RELATION).isin(apart), column) if apart else column)
        return found

    def sorted_out(self, batch: pa.RecordBatch) -> tuple[int, pa.Table] | None:
        """As `filed.Wire.sorted_out`: a batch has notes, or rows of one look."""
        if not batch.num_rows or batch.column(_NOTE)[0].is_valid:
            return None
        place = batch.column(_RELATION)[0].as_py()
        rows = pa.Table.from_batches([batch])
        return place, self._signed(self.looks[place], rows).append_column(PLACE, rows.column(PLACE))

    def told(self, notes: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Notes as they travel."""
        texts = [json.dumps(note, default=str) for note in notes]
        return self.write({_NOTE: pa.array(texts, pa.string())}, len(texts))

    def write(self, columns: Mapping[str, Any], many: int) -> pa.RecordBatch:
        """A batch of these columns, the others empty."""
        arrays = [
            columns[one.name] if one.name in columns else pa.nulls(many, one.type)
            for one in self.schema
        ]
        return pa.record_batch(arrays, self.schema)

    def read(self, table: pa.Table) -> list[Net]:
        """What the executors gave, by look."""
        told = pc.is_valid(table.column(_NOTE))
        nets = [Net(Signed(look.schema, table), highs=dict(look.highs)) for look in self.looks]
        beyond = [0] * len(nets)
        notes = [json.loads(text) for text in table.column(_NOTE).filter(told).to_pylist()]
        for note in sorted(notes, key=lambda note: note["at"]):
            place = note["look"]
            if "error" in note:
                nets[place].error = nets[place].error or error_of(note["error"])
            elif "file" in note:
                nets[place].files.append(NetFile(*note["file"]))
            elif "bad" in note:
                nets[place].signed.bad.append(Bad(*note["bad"]))
            else:
                beyond[place] += note["beyond"]
                _add(nets[place], note)
        rows = table.filter(pc.invert(told))
        for place, net in enumerate(nets):
            try:
                require_few(net.signed.bad, beyond[place])
            except BadRowError as error:
                net.error = net.error or error
            own = rows.filter(pc.equal(rows.column(_RELATION), place)) if len(nets) > 1 else rows
            signed = self._signed(self.looks[place], own.sort_by(PLACE))
            net.signed.table = _encoded(self.looks[place].schema, signed)
        return nets

    def _signed(self, look: Look, rows: pa.Table) -> pa.Table:
        schema = look.schema
        columns = [
            _values(rows.column(name), column)
            for name, column in zip(self.names(schema), schema.columns, strict=True)
        ]
        table = pa.table(dict(zip(schema.names, columns, strict=True)))
        signed = signed_table(schema, table, rows.column(SIGN))
        if look.policy.keying.key:
            versions = look.policy.keying.versions
            for name, own in zip(versions, self.sequence(look), strict=True):
                signed = signed.append_column(name, rows.column(own))
        return signed


@dataclass(frozen=True, slots=True)
class _Task:
    """What runs on an executor, over the batches of one partition of the frame of this number."""

    wire: _Wire
    decode: Decode
    number: int
    look: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415  on executors only

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        places = {look.schema.relation: place for place, look in enumerate(self.wire.looks)}
        rows: dict[int, list[pa.Table]] = {}
        highs = [dict(look.highs) for look in self.wire.looks]
        left, at = BAD_ROWS, [self.number, partition, 0]
        try:
            for piece in self.decode(batches, partition):
                place = places[piece.signed.schema.relation]
                notes, left = self._notes(piece, place, highs, left)
                yield self._told(notes, at)
                if piece.signed.table.num_rows:
                    rows.setdefault(place, []).append(self._rows(piece, self.wire.looks[place]))
            for place, some in rows.items():
                yield from self.wire.condensed(some, place)
        except DeltafixError as error:
            yield self._told([{"look": self.look, "error": note_of(error)}], at)

    def _notes(
        self, piece: Piece, place: int, highs: Sequence[dict[str, int | None]], left: int
    ) -> tuple[list[dict[str, Any]], int]:
        """What there is to say of a piece; takes its late rows out."""
        read = piece.signed.rows if piece.read is None else piece.read
        policy, known = self.wire.looks[place].policy, highs[place]
        high = late_rows(policy, piece.signed, known.get(piece.partition))
        known[piece.partition] = high
        bad = piece.signed.bad
        notes: list[dict[str, Any]] = [
            {"look": place, "bad": [one.reason, one.origin, one.row]} for one in bad[:left]
        ]
        total = {"read": read, "high": [piece.partition, high], "stamp": piece.stamp,
                 "place": piece.place, "tell": piece.tell, "beyond": len(bad[left:])}  # fmt: skip
        return [*notes, {"look": place, **total}], left - len(notes)

    def _rows(self, piece: Piece, look: Look) -> pa.Table:
        """The rows of a piece as they travel, in few words already."""
        schema = piece.signed.schema
        table = plain(schema, piece.signed.table)
        names = self.wire.names(schema)
        arrays = [_bits(table.column(name)) for name in schema.names]
        if look.policy.keying.key:
            names += self.wire.sequence(look)
            arrays += [table.column(name) for name in look.policy.keying.versions]
        signs = table.column(SIGN).cast(pa.int64())
        places = pa.array(np.arange(piece.place, piece.place + table.num_rows))
        return pa.table([*arrays, signs, places], [*names, SIGN, PLACE])

    def _told(self, notes: Sequence[dict[str, Any]], at: list[int]) -> pa.RecordBatch:
        # What two tasks say alike is said twice: each note has a place of its own.
        first = at[-1]
        at[-1] += len(notes)
        return self.wire.told(
            [{"at": [*at[:-1], n], **note} for n, note in enumerate(notes, start=first)]
        )


@dataclass(frozen=True, slots=True)
class _Joined:
    """What runs on an executor over rows that were brought together."""

    wire: _Wire

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = []
        for batch in batches:
            told = batch.column(_NOTE).is_valid()
            notes = batch.filter(told)
            if notes.num_rows:
                yield notes
            found.append(batch.filter(pc.invert(told)))
        if not found:
            return
        rows = pa.Table.from_batches(found, self.wire.schema)
        for place in range(len(self.wire.looks)):
            own = rows.filter(pc.equal(rows.column(_RELATION), place))
            yield from self.wire.condensed([own], place)


def _add(net: Net, note: Mapping[str, Any]) -> None:
    partition, high = note["high"]
    highs = [one for one in (net.highs.get(partition), high) if one is not None]
    stamps = [one for one in (net.stamp, note["stamp"]) if one is not None]
    net.read += note["read"]
    if note["tell"] is not None:
        net.told[note["place"]] = note["tell"]
    net.highs[partition], net.stamp = max(highs, default=None), min(stamps, default=None)


def _is_text(column: Column) -> bool:
    return bool(ARROW_TYPES[column.type] == pa.string())


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_int64(column.type):
        return column
    return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())


def _values(column: pa.ChunkedArray, kind: Column) -> Any:
    wanted = ARROW_TYPES[kind.type]
    if wanted in (column.type, pa.string()):
        return column.cast(wanted)
    return pa.chunked_array([chunk.view(wanted) for chunk in column.chunks], wanted)


def _encoded(schema: Schema, table: pa.Table) -> pa.Table:
    """The table with symbols dictionary-encoded, as engines like them."""
    for place, column in enumerate(schema.columns):
        if column.type == "symbol":
            texts = dictionary_of(table.column(place))
            table = table.set_column(
                place, pa.field(column.name, texts.type, nullable=False), texts
            )
    return table
