"""Folders of files, read by Spark's executors: change files, data files by file, snapshots.

Which files there are, and what is in (the marks), is as on the local runner, so a state can be
taken from one runner to the other at any epoch. Only the reading differs: a task takes whole files
and reads them as that runner would (`FileReader`), and what reaches the driver is net. Invariant:
an epoch holds whole files, of about `ROW_BYTES` times as many bytes as it may have rows, and at
least one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed, plain, signed_table
from deltafix.pipeline.sources.by_file import ByFile, FolderContents, by_file_schema
from deltafix.pipeline.sources.changes import ChangeFiles, digest_of
from deltafix.pipeline.sources.folder import Folder, Stamp
from deltafix.pipeline.sources.reading import FileReader
from deltafix.pipeline.sources.snapshot import Snapshot, Snapshots
from deltafix.spark.net import WIDTH, Net, Piece
from deltafix.spark.sources.frames import held_piece, held_slices, slices
from deltafix.spark.sources.live import LiveSpark, OnSpark

ROW_BYTES: Final = 64
"""A row is reckoned as so many bytes, where rows are not counted before they are read."""


class SparkChangeFiles(OnSpark, ChangeFiles):
    """Change files (`source = "files"`, `mode = "changes"`), read by executors."""

    def __init__(
        self, name: str, folder: Folder, reader: FileReader, policy: Policy, live: LiveSpark
    ) -> None:
        super().__init__(name, folder, reader, policy)
        self._live = live

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rows of the next files."""
        portion = Portion(self.name, policy=self._policy)
        waiting: list[tuple[str, int]] = []
        size = 0
        files, marks = self._listed(state)
        for file in self._in_order(files, marks):
            try:
                taken = self._taken(file, files[file], marks.get(file), state)
            except PipelineError:
                if not waiting:
                    raise
                portion.more = True  # what is before it is taken first
                break
            if taken is None:
                continue
            if size >= limit * ROW_BYTES:
                portion.more = True
                break
            size += max(1, files[file][1])
            waiting.append((file, taken))
        if not waiting:
            return None
        self._look(portion, waiting, files, marks, state)
        return portion

    def _look(
        self,
        portion: Portion,
        waiting: Sequence[tuple[str, int]],
        files: Mapping[str, Stamp],
        marks: Mapping[str, Any],
        state: State,
    ) -> None:
        """Have some files read; half of them where one of them cannot be."""

        def settled(net: Net) -> None:
            for number, (file, _) in enumerate(waiting):
                self._mark(portion, file, files[file], net.tags[number << WIDTH])
            portion.marks |= self._forgotten(files, marks, state)

        items = [(self._folder.at(file), taken) for file, taken in waiting]
        size = sum(files[file][1] for file, _ in waiting)
        self._live.look_items(
            portion, self._reader.schema, items, _Changes(self._reader), state,
            size=size, then=settled,
        )  # fmt: skip
        together = portion.settle
        assert together is not None  # noqa: S101  it was just made

        def settle() -> None:
            try:
                together()
            except PipelineError:
                if len(waiting) == 1:
                    raise
                portion.more = True  # what is before the one that cannot be read is taken first
                self._look(portion, waiting[: len(waiting) // 2], files, marks, state)
                assert portion.settle is not None  # noqa: S101  likewise
                portion.settle()

        portion.settle = settle


@dataclass(frozen=True, slots=True)
class _Changes:
    """Reads change files: (path, rows that are in already)."""

    reader: FileReader

    def __call__(self, position: int, item: tuple[Path, int]) -> Piece:
        path, taken = item
        signed = self.reader.read(path)
        if taken:
            signed.table = signed.table.slice(taken)
            signed.bad.clear()  # they went with the first part
        return Piece(position, signed, tag=digest_of(path))


class SparkSnapshots(OnSpark, Snapshots):
    """Snapshots (`source = "snapshot"`), read by executors and diffed there."""

    def __init__(
        self, name: str, folder: Folder, reader: FileReader, *, quarantine: bool, live: LiveSpark
    ) -> None:
        super().__init__(name, folder, reader, quarantine=quarantine)
        self._live = live

    def _compare(
        self, portion: Portion, snapshot: Snapshot, state: State, then: Callable[[], None]
    ) -> None:
        schema = self._reader.schema
        held = held_slices(state, schema, self._policy)
        size = sum(stamp[1] for stamp in snapshot.files.values())
        size += sum(part.table.nbytes for part in held)
        items = [*(self._folder.at(file) for file in snapshot.files), *held]
        decode = _Whole(self._reader)
        self._live.look_items(
            portion, schema, items, decode, state, size=size, how="whole", then=lambda _: then()
        )


@dataclass(frozen=True, slots=True)
class _Whole:
    """A file's rows come, rows that are given go: what is both stays."""

    reader: FileReader

    def __call__(self, position: int, item: Path | Signed) -> Piece:
        if isinstance(item, Signed):
            return held_piece(position, item)
        return Piece(position, self.reader.read(item))


class SparkByFile(OnSpark, ByFile):
    """Rows by file (`source = "files"`, `mode = "rows"`), read by executors and diffed there."""

    def __init__(
        self, name: str, folder: Folder, reader: FileReader, *, quarantine: bool, live: LiveSpark
    ) -> None:
        contents = FolderContents(folder, reader)
        super().__init__(name, [reader.schema], contents, quarantine=quarantine)
        self._folder = folder
        self._reader = reader
        self._live = live

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed in the next files."""
        now, waiting = self._waiting(state)
        if not waiting:
            return None
        portion = Portion(self.name, policy=self._policy)
        taken: list[str] = []
        size = 0
        for file in waiting:
            if size >= limit * ROW_BYTES:
                portion.more = True
                break
            taken.append(file)
            size += max(1, now[file][1] if file in now else 1)
            self._mark(portion, file, now)
        schema = by_file_schema(self._reader.schema)
        table = signed_table(schema, self._held_table(state, schema, taken), -1)
        held = slices(schema, [table])
        files = [(file, self._folder.at(file)) for file in taken if file in now]
        size += table.nbytes
        decode = _OfFiles(schema, self._reader)
        self._live.look_items(
            portion, schema, [*files, *held], decode, state, size=size, how="whole"
        )
        return portion


@dataclass(frozen=True, slots=True)
class _OfFiles:
    """The rows of files, each beside its file's name, come; those that are given go."""

    schema: Schema
    reader: FileReader

    def __call__(self, position: int, item: tuple[str, Path] | Signed) -> Piece:
        if isinstance(item, Signed):
            return held_piece(position, item)
        file, path = item
        signed = self.reader.read(path)
        rows = plain(signed.schema, signed.table).select(list(signed.schema.names))
        names = pa.array([file] * rows.num_rows, pa.string())
        rows = rows.add_column(0, self.schema.names[0], names)
        return Piece(position, Signed(self.schema, signed_table(self.schema, rows, 1), signed.bad))
