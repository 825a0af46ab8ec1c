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

import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa

from deltafix.errors import DeltafixError, StateError
from deltafix.pipeline.condense import PLACE
from deltafix.pipeline.signed import Signed
from deltafix.spark.common import ONE_FOLDER, require_here
from deltafix.spark.errors import note_of

__all__ = ["Filed", "Filing", "NetFile", "NetFolder", "Step", "read_net"]

_NETS = "net-*"


class NetFile(NamedTuple):
    """A file of net rows of a relation: its size, and how many of its first rows count."""

    path: str
    size: int
    rows: int


class NetFolder:
    """A folder for the net rows of a job, beside shards. It is there as long as somebody holds it.

    Raises StateError if it cannot be made.
    """

    def __init__(self, shards: Path) -> None:
        self.path = shards / f"{_NETS[:-1]}{uuid4().hex}"
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        try:
            self.path.mkdir()
        except OSError as error:
            message = f"{self.path}: it cannot be made: {error.strerror or error}"
            raise StateError(message, path=str(self.path)) from error

    @staticmethod
    def sweep(shards: Path) -> None:
        """Remove what a stop has left. Failures are left."""
        for folder in shards.glob(_NETS):
            shutil.rmtree(folder, ignore_errors=True)


class Wire(Protocol):
    """How rows of several looks, and notes, travel; see `net`."""

    def sorted_out(self, batch: pa.RecordBatch) -> tuple[int, pa.Table] | None:
        """A batch that has rows: their look, and the rows as they are; None for one of notes."""

    def told(self, notes: Sequence[dict[str, object]]) -> pa.RecordBatch:
        """Notes as they travel."""


Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Filing:
    """Runs on an executor behind the step that nets: passes on its notes, and files its rows."""

    step: Step
    wire: Wire
    looks: int
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The notes, and one for each file."""
        parts: dict[int, _Part] = {}
        try:
            with ExitStack() as stack:
                for batch in self.step(batches):
                    found = self.wire.sorted_out(batch)
                    if found is None:
                        yield batch
                        continue
                    look, rows = found
                    if look not in parts:
                        path = Path(self.folder) / f"{look}-{uuid4().hex}.arrow"
                        parts[look] = stack.enter_context(_Part(path, rows.schema))
                    parts[look].write(rows)
        except OSError as error:
            if isinstance(error, DeltafixError):
                raise
            message = f"{self.folder}: net rows could not be written: {error}"
            if not Path(self.folder).is_dir():
                message += f"; {ONE_FOLDER}"
            failed = StateError(message, path=self.folder)
            error_note = {"at": [-1], "error": note_of(failed)}
            yield self.wire.told([{**error_note, "look": look} for look in range(self.looks)])
            return
        yield self.wire.told(
            [{"at": [-1], "look": look, "file": part.done()} for look, part in parts.items()]
        )


class _Part:
    """A file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._rows = 0
        self._writer = pa.ipc.new_stream(str(path), schema)

    def write(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        self._writer.write_table(rows)

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def done(self) -> NetFile:
        return NetFile(str(self._path), self._path.stat().st_size, self._rows)


class Filed(Signed):
    """Signed rows in files. `table` reads them here; whoever takes them from `files` does not.

    Raises StateError if a file is not to be seen here.
    """

    __slots__ = ("_folder", "files")

    def __init__(self, told: Signed, folder: NetFolder, files: Sequence[NetFile]) -> None:
        self.schema = told.schema
        self.bad = told.bad
        self.files = tuple(files)
        self._folder = folder
        for file in files:
            require_here(Path(file.path), file.size, "a task that netted rows")

    @property
    def table(self) -> pa.Table:
        """The rows, brought here, in their order."""
        tables = [pa.Table.from_batches([one]) for file in self.files for one in read_net(file)]
        return pa.concat_tables(tables).sort_by(PLACE).drop_columns([PLACE])

    @property
    def good(self) -> int:
        """As `Signed.good`."""
        return sum(file.rows for file in self.files)

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
        with pa.memory_map(file.path) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    return
    except (OSError, pa.ArrowException) as error:
        message = f"{file.path}: net rows of the epoch cannot be read: {error}"
        raise StateError(message, path=file.path) from error
