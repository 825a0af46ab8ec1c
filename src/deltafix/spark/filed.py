"""An epoch's net rows as files beside its shards: from the tasks that made them to their judges.

    1. written   a task of the netting job writes the rows of each look, under a name of its own
    2. listed    the job's result has the names and counts of the attempts that counted
    3. taken     tasks of the epoch's first superstep read them, and route the rows to their judges
    4. removed   when the epoch is committed; what a stop has left, when the state is opened

Only the list passes through the driver. Invariant: a file is written once and read if it is listed,
so a task that Spark runs again, in whatever stage, reads the rows that were netted, though the
input may have changed since. Nothing is synced: after a crash the files are worth nothing.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from deltafix.errors import DeltafixError, StateError
from deltafix.facts.arrow import to_numpy
from deltafix.pipeline.condense import PLACE, by_place
from deltafix.pipeline.signed import SIGN, Signed
from deltafix.spark.common import require_here
from deltafix.spark.errors import note_of
from deltafix.spark.sent import Output, Rows, packed_notes
from deltafix.store.folder import Folder, folder_at

_NETS = "net-"
_SPOOL = 32 << 20
"""Bytes of a file that is being written which are kept in memory."""


_CHUNK = 100_000
"""Rows that who reads a file has in memory at a time."""


class NetFile(NamedTuple):
    """A file of net rows in a folder: its size, and how many of its first rows count.

    `removed`: how many of all its rows take rows away, if any do.
    """

    folder: str
    name: str
    size: int
    rows: int
    removed: int


NET_FILES = "folder string, name string, size long, rows long, removed long"
"""A `NetFile` as Spark has it."""


class NetFolder:
    """A folder for the net rows of a job, beside shards. It is there as long as somebody holds it.

    Args:
        shards: the folder of the shards.
        generation: that of the writer, if the folder is in an object store.
    """

    def __init__(self, shards: Folder, generation: int = 0) -> None:
        name = f"{_NETS}{generation}-{uuid4().hex}"
        self.folder = shards / name
        self.remove = weakref.finalize(self, shards.remove_folder, name)

    @staticmethod
    def sweep(shards: Folder, generation: int = 0) -> None:
        """Remove what writers before this one have left. Failures are left."""
        with suppress(OSError):
            for name in shards.folders():
                if name.startswith(_NETS) and int(name.split("-")[1]) <= generation:
                    shards.remove_folder(name)


@dataclass(frozen=True, slots=True)
class Filing:
    """Runs on an executor: sends the notes that a task found, and files its rows.

    Attributes:
        looks: how many there are; each is told if rows cannot be written.
        folder: the path or URL of the `NetFolder`.
    """

    looks: int
    folder: str

    def __call__(self, outputs: Iterator[Output]) -> Iterator[pa.RecordBatch]:
        """The notes, and one for each file."""
        parts: dict[int, _Part] = {}
        try:
            with ExitStack() as stack:
                for output in outputs:
                    if not isinstance(output, Rows):
                        yield packed_notes(output)
                        continue
                    if output.look not in parts:
                        parts[output.look] = stack.enter_context(_Part(output.table.schema))
                    parts[output.look].write(output.table)
                folder = folder_at(self.folder, shared=True)
                files = {look: part.file(folder, str(look)) for look, part in parts.items()}
        except OSError as error:
            if isinstance(error, DeltafixError):
                raise
            message = f"{self.folder}: net rows could not be written: {error}"
            failed = {"at": [-1], "error": note_of(StateError(message, path=self.folder))}
            yield packed_notes([{**failed, "look": look} for look in range(self.looks)])
            return
        yield packed_notes(
            [{"at": [-1], "look": look, "file": file} for look, file in files.items()]
        )


class _Part:
    """A file that is being written."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = self._removed = 0
        self._spool = tempfile.SpooledTemporaryFile(_SPOOL)  # noqa: SIM115  it is closed below
        self._writer = pa.ipc.new_stream(self._spool, schema)

    def write(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        if SIGN in rows.column_names:
            self._removed += int(np.count_nonzero(to_numpy(rows.column(SIGN)) < 0))
        self._writer.write_table(rows, max_chunksize=_CHUNK)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def file(self, folder: Folder, kind: str) -> NetFile:
        """Write it whole, under a name of its own."""
        self._writer.close()
        self._spool.seek(0)
        name = f"{kind}-{uuid4().hex}.arrow"
        size = folder.write(name, iter(partial(self._spool.read, _SPOOL), b""), durable=False)
        return NetFile(str(folder), name, size, self._rows, self._removed)


def file_net(folder: Folder, kind: str, rows: pa.Table) -> NetFile:
    """Write rows as a file of a name of its own, which begins with its kind. Raises OSError."""
    with _Part(rows.schema) as part:
        part.write(rows)
        return part.file(folder, kind)


class Filed(Signed):
    """Signed rows in files. `table` reads them here; whoever takes them from `files` does not.

    Raises StateError if a file is not to be seen here.
    """

    __slots__ = ("_folder", "files")

    def __init__(self, signed: Signed, folder: NetFolder, files: Sequence[NetFile]) -> None:
        self.schema = signed.schema
        self.bad = signed.bad
        self.spans = ()  # a file tells the order of its rows, not what brought them
        self.files = tuple(files)
        self._folder = folder
        for file in files:
            require_here(folder.folder, file.name, file.size, "a task that netted rows")

    @property
    def table(self) -> pa.Table:
        """The rows, brought here, in their order."""
        tables = [pa.Table.from_batches([batch]) for file in self.files for batch in read_net(file)]
        return by_place(pa.concat_tables(tables)).drop_columns([PLACE])

    @property
    def good(self) -> int:
        """As `Signed.good`."""
        return sum(file.rows for file in self.files)

    @property
    def removed(self) -> int:
        """As `Signed.removed`; no less, where some rows of a file do not count."""
        return sum(min(file.removed, file.rows) for file in self.files)

    @property
    def has_versions(self) -> bool:
        """As `Signed.has_versions`: who netted the rows has set late ones aside."""
        return False

    def head(self, limit: int) -> Signed:
        """As `Signed.head`; which rows are the first is the files' order."""
        files, left = [], limit
        for file in self.files:
            rows = min(file.rows, left)
            left -= rows
            if rows:
                files.append(file._replace(rows=rows))
        return Filed(Signed(self.schema, None), self._folder, files)

    def copy(self) -> Signed:
        """As `Signed.copy`."""
        return Filed(Signed(self.schema, None, [*self.bad]), self._folder, self.files)

    def remove(self) -> None:
        """Remove the files, and all others of their job. Idempotent."""
        self._folder.remove()


def read_net(file: NetFile) -> Iterator[pa.RecordBatch]:
    """The rows of a file that count, with `PLACE` last. Raises StateError."""
    left = file.rows
    try:
        folder = folder_at(file.folder)
        with folder.open(file.name) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    return
    except (OSError, pa.ArrowException) as error:
        path = f"{file.folder}/{file.name}"
        message = f"{path}: net rows of the epoch cannot be read: {error}"
        raise StateError(message, path=path) from error
