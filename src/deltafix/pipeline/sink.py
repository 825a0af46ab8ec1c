"""A view's delta log in a folder of Parquet files, made visible by one manifest.

    prepare(epoch)   delta-<epoch>.parquet is written and synced, or parts of it that are files of
                     shards get names here; nobody sees it
    ...              the engine commits the epoch
    publish(epoch)   manifest.json names it, by one atomic rename

Rows come as the engine has them, and are written as users have them (`facts.logical`).
Invariant: what the manifest names is on the disk and never changes; `snapshot` is the view at its
epoch, and the deltas from `floor` on, applied in order to the view before it, give the view at
`epoch`. A file of an epoch that was not committed is written over or removed. Publishing twice is
publishing once. The epoch of the engine decides; a sink that lags is brought up by `Outputs`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError
from deltafix.facts.logical import logical_schema, to_logical
from deltafix.facts.schema import Schema
from deltafix.pipeline.manifest import MANIFEST, DeltaFile, Manifest, parse_manifest
from deltafix.store.folder import Head, LocalFolder, Where, folder_at
from deltafix.store.tables import read_table, schema_of, write_tables

T = TypeVar("T")

MERGE = 50
"""So many files of single epochs are joined into one."""

LINK = 100_000
"""Rows of an epoch up to which one file is written of them, though other files have them."""

_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}

_LEAST = 10_000
"""Rows of deltas below which no new snapshot is written by itself."""


def delta_table(schema: Schema, added: pa.Table, removed: pa.Table, epoch: int) -> pa.Table:
    """The relation's columns, `sign` (int8; removed rows first) and `epoch` (int64).

    A column of the relation with one of these names keeps it; ours then end in `_`.
    """
    rows = pa.concat_tables([removed, added])
    sign, tag = beside(schema.names)
    signs, epochs = beside_columns(added.num_rows, removed.num_rows, epoch)
    return rows.append_column(sign, signs).append_column(tag, epochs)


def beside_columns(added: int, removed: int, epoch: int) -> tuple[pa.Array, pa.Array]:
    """The columns of signs and epochs of so many rows."""
    signs = [
        pa.repeat(pa.scalar(-1, pa.int8()), removed),
        pa.repeat(pa.scalar(1, pa.int8()), added),
    ]
    return pa.concat_arrays(signs), pa.repeat(pa.scalar(epoch, pa.int64()), added + removed)


def beside(columns: Collection[str]) -> tuple[str, str]:
    """The names of the columns of signs and epochs beside those of a relation."""
    names = []
    for name in ("sign", "epoch"):
        while name in columns:
            name += "_"  # noqa: PLW2901
        names.append(name)
    return names[0], names[1]


class ParquetSink:
    """The delta log of one view. `manifest` is what is published.

    Args:
        schema: the view.
        folder: made if it is not there; nobody else may write in it.
        state: the name of the engine's state: a log belongs to one state.
        keeps_snapshot: whether a snapshot is kept beside the deltas.
        writer: the generation of a state in an object store, in the names of files: one that was
            fenced off writes over nothing and removes nothing of its successors.

    Raises SinkError for a folder that is of another state or view, or cannot be used.
    """

    def __init__(
        self, schema: Schema, folder: Where, state: str, *, keeps_snapshot: bool, writer: int = 0
    ) -> None:
        self.schema = schema
        self.folder = folder_at(folder)
        self._keeps_snapshot = keeps_snapshot
        self._writer = writer
        try:
            self._head = Head(self.folder, MANIFEST)
            manifest = parse_manifest(self._head.data, f"{self.folder}/{MANIFEST}")
            if manifest is None and any(_writer_of(name) < 0 for name in self.folder.names()):
                raise self._refused("it holds other files; name a new folder")
        except OSError as error:
            if isinstance(error, SinkError):
                raise
            raise self._refused(f"it cannot be used: {error.strerror or error}") from error
        if manifest is not None and manifest.state != state:
            raise self._refused("it belongs to another state; name a new folder, or that state")
        if manifest is not None and manifest.view != schema.show():
            if not manifest.is_unused:
                message = f"it holds {manifest.view}, not {schema.show()}; name a new folder"
                raise self._refused(message)
            manifest = None
        self.is_new = manifest is None
        self._prepared = (-1, "")
        self.manifest = manifest or Manifest(state, schema.show(), 0, None, (), 1)

    # --- one epoch -----------------------------------------------------------------------------

    def prepare(
        self,
        epoch: int,
        added: Iterable[pa.Table],
        removed: Iterable[pa.Table],
        files: Sequence[tuple[Path, int]] = (),
        attempt: str = "",
    ) -> list[int]:
        """Write what the epoch changes, ahead of its commit; returns the rows of each file.

        `attempt` is in their names, in place of the writer: one that failed writes over nothing.
        Of the tables one is in memory at a time. If there are more than `LINK` rows, and `files` of
        a log hold them already, with so many rows each, those become files of this log, where
        they are on its disk. Raises SinkError.
        """
        if sum(rows for _, rows in files) > LINK and self._link(epoch, files):
            self._prepared = (epoch, attempt)
            return [rows for _, rows in files]
        sides = [map(self._logical, side) for side in (removed, added)]
        removals = (delta_table(self.schema, table.slice(0, 0), table, epoch) for table in sides[0])
        additions = (
            delta_table(self.schema, table, table.slice(0, 0), epoch) for table in sides[1]
        )
        waiting = (table for table in chain(removals, additions) if table.num_rows)
        first = next(waiting, None)
        parts = []
        if first is not None:
            parts = [self._write(self._file("delta", epoch, by=attempt), chain([first], waiting))]
        self._prepared = (epoch, attempt)
        return parts

    def _link(self, epoch: int, files: Sequence[tuple[Path, int]]) -> bool:
        """Have files here too, as parts of the epoch; whether that could be done."""
        if not isinstance(self.folder, LocalFolder):
            return False
        empty = logical_schema(self.schema).empty_table()
        wanted = delta_table(self.schema, empty, empty, epoch).schema
        for part, (path, _) in enumerate(files):
            try:
                if schema_of(path) != wanted:
                    return False
                self.folder.link(self._file("delta", epoch, by="", part=part), path)
            except OSError as error:
                if error.errno in _NO_LINK:
                    return False
                raise self._refused(f"{path}: {error.strerror or error}") from error
        return True

    def has(self, epoch: int, parts: Sequence[int], attempt: str = "") -> bool:
        """Whether the epoch stands prepared by that attempt, with files of so many rows each."""
        names = [self._file("delta", epoch, by=attempt, part=part) for part in range(len(parts))]
        return self._prepared == (epoch, attempt) or self._try(
            lambda: all(map(self.folder.exists, names))
        )

    def publish(self, epoch: int, parts: Sequence[int], attempt: str = "") -> None:
        """Name an epoch that an attempt prepared in the manifest, with the rows of each file.

        Idempotent. Raises SinkError.
        """
        if epoch <= self.manifest.epoch:
            return
        new = (
            DeltaFile(self._file("delta", epoch, by=attempt, part=part), epoch, epoch, rows)
            for part, rows in enumerate(parts)
        )
        deltas = (*self.manifest.deltas, *new)
        self._replace(self.manifest.with_(epoch=epoch, deltas=deltas))
        self.is_new = False

    # --- upkeep --------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Remove what no manifest names: the files of epochs that were not committed."""
        named = {delta.file for delta in self.manifest.deltas}
        if self.manifest.snapshot is not None:
            named.add(self.manifest.snapshot.file)
        for name in self._try(self.folder.names):
            if name not in named and name != MANIFEST and 0 <= _writer_of(name) <= self._writer:
                self._try(partial(self.folder.remove, name))

    def fold(self, tables: Callable[[], Iterable[pa.Table]], *, force: bool = False) -> bool:
        """Join small files, and write a new snapshot if the deltas since the last outweigh it.

        `tables` gives the view at the published epoch, in parts, of which one at a time is in
        memory. Returns whether a snapshot was written.
        """
        single = [delta for delta in self.manifest.deltas if delta.first == delta.last]
        manifest = self.manifest
        if len(single) >= MERGE or (force and len(single) > 1):
            manifest = manifest.with_(deltas=self._merged(single))
        due = force
        if self._keeps_snapshot and not due:
            snapshot = manifest.snapshot
            done = snapshot.last if snapshot else 0
            since = sum(delta.rows for delta in manifest.deltas if delta.last > done)
            due = since > max(_LEAST, snapshot.rows if snapshot else 0)
        if self._keeps_snapshot and due:
            epoch = manifest.epoch
            name = self._file("snapshot", epoch)
            begun = bool(self.schema.arity) and _is_one_epoch(manifest)
            # Rows that are in the log already need not be asked for: shards would gather them.
            logged = (self._added(delta.file) for delta in manifest.deltas)
            parts = logged if begun else map(self._logical, tables())
            rows = self._write(name, parts)
            manifest = manifest.with_(snapshot=DeltaFile(name, epoch, epoch, rows))
        if manifest != self.manifest:
            self._replace(manifest)
            self.tidy()
        return self._keeps_snapshot and due

    def drop_before(self, epoch: int) -> None:
        """Forget the deltas of epochs before `epoch`; readers begin there then."""
        if epoch <= self.manifest.floor:
            return
        kept = []
        for delta in self.manifest.deltas:
            if delta.first < epoch <= delta.last:
                table = self._read(delta.file)
                later = pc.greater_equal(table.column(table.num_columns - 1), epoch)
                kept.append(self._joined(table.filter(later), epoch, delta.last))
            elif delta.last >= epoch:
                kept.append(delta)
        self._replace(self.manifest.with_(deltas=tuple(kept), floor=epoch))
        self.tidy()

    def _merged(self, single: list[DeltaFile]) -> tuple[DeltaFile, ...]:
        first, last = single[0].first, single[-1].last
        table = pa.concat_tables([self._read(delta.file) for delta in single])
        kept = [delta for delta in self.manifest.deltas if delta not in single]
        return (*kept, self._joined(table, first, last))

    def _joined(self, table: pa.Table, first: int, last: int) -> DeltaFile:
        name = self._file("deltas", first, last)
        return DeltaFile(name, first, last, self._write(name, [table]))

    # --- files ---------------------------------------------------------------------------------

    def _file(self, kind: str, *epochs: int, by: str | None = None, part: int = 0) -> str:
        if by is None:
            by = str(self._writer or "")
        numbers = [f"{epoch:012d}" for epoch in epochs] + ([by] if by else [])
        return f"{'-'.join([kind, *numbers])}{f'.{part}' if part else ''}.parquet"

    def _read(self, name: str) -> pa.Table:
        try:
            return read_table(self.folder, name)
        except OSError as error:
            raise self._refused(str(error)) from error

    def _added(self, name: str) -> pa.Table:
        """The rows that a file of deltas adds, as a snapshot has them."""
        table = self._read(name)
        sign, _ = beside(self.schema.names)
        rows = table.filter(pc.greater(table.column(sign), 0)).select(list(self.schema.names))
        return rows.cast(logical_schema(self.schema))

    def _logical(self, rows: pa.Table) -> pa.Table:
        return to_logical(self.schema, rows)

    def _write(self, name: str, tables: Iterable[pa.Table]) -> int:
        return self._try(lambda: write_tables(self.folder, name, tables))

    def _replace(self, manifest: Manifest) -> None:
        self._try(lambda: self._head.replace(manifest.to_bytes()))
        self.manifest = manifest

    def _try(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except OSError as error:
            raise self._refused(f"it cannot be written: {error.strerror or error}") from error

    def _refused(self, reason: str) -> SinkError:
        message = f"output {self.schema.relation}: {self.folder}: {reason}"
        return SinkError(message, relation=self.schema.relation, path=str(self.folder))


def _is_one_epoch(manifest: Manifest) -> bool:
    """Whether the log begins with the view as it is now: with one epoch, before which was none."""
    epochs = {epoch for delta in manifest.deltas for epoch in (delta.first, delta.last)}
    return manifest.snapshot is None and manifest.floor <= 1 and len(epochs) == 1


_FILE = re.compile(
    r"(?:(?:delta|snapshot)-|deltas-\d{12}-)\d{12}(-\d+)?(?:-\d+)?(?:\.\d+)?\.parquet"
)


def _writer_of(name: str) -> int:
    """The writer whose file it is; -1 for a file that is none of ours."""
    name = name.removesuffix(".new")
    match = _FILE.fullmatch(name)
    if match is None:
        return 0 if name == MANIFEST else -1
    return int((match[1] or "-0")[1:])
