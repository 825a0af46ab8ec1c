"""The manifest of a delta log, and reading the log: by epoch, and the view as a whole.

Readers need nothing but the folder: they read the manifest and then the files that it names. A
writer may replace both between the two; `read_log` then begins again. Invariant: a reader sees the
log of one published epoch, whatever is being written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError, SourceError
from deltafix.facts.arrow import to_numpy
from deltafix.facts.groups import present
from deltafix.store.folder import Folder, Where, folder_at
from deltafix.store.tables import read_table

__all__ = [
    "MANIFEST",
    "DeltaFile",
    "Manifest",
    "parse_manifest",
    "read_deltas",
    "read_manifest",
    "read_view",
]

MANIFEST = "manifest.json"

_FORMAT = 1
_TRIES = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file of the log: its name, its first and last epoch, its rows."""

    file: str
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is published of a view.

    Attributes:
        state: the name of the engine's state.
        view: the view as declared.
        epoch: the last epoch; one that changed nothing has no file.
        snapshot: the view as of `snapshot.last`, if one is kept.
        deltas: by epoch, ascending.
        floor: the first epoch whose delta is still there.
    """

    state: str
    view: str
    epoch: int
    snapshot: DeltaFile | None
    deltas: tuple[DeltaFile, ...]
    floor: int

    @property
    def is_unused(self) -> bool:
        """Whether no row was ever published."""
        return not self.deltas and self.floor <= 1 and not (self.snapshot and self.snapshot.rows)

    def with_(self, **changes: Any) -> Manifest:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1).encode()


def read_manifest(folder: Where) -> Manifest | None:
    """The manifest of a folder; None if there is none. Raises SinkError for damage, or a link."""
    folder = folder_at(folder)
    try:
        content = folder.look(MANIFEST)
    except OSError as error:
        message = f"{folder}/{MANIFEST}: cannot be read: {error.strerror or error}"
        raise SinkError(message, path=f"{folder}/{MANIFEST}") from None
    return parse_manifest(None if content is None else content[0], f"{folder}/{MANIFEST}")


def parse_manifest(data: bytes | None, path: str) -> Manifest | None:
    """A manifest from its bytes, None from none. Raises SinkError if it is damaged."""
    if data is None:
        return None
    try:
        saved = json.loads(data)
        if saved["format"] != _FORMAT:
            message = f"{path} has format {saved['format']}, and this deltafix reads {_FORMAT}"
            raise SinkError(message, path=path)
        snapshot = saved["snapshot"]
        return Manifest(
            saved["state"],
            saved["view"],
            int(saved["epoch"]),
            None if snapshot is None else _file(snapshot),
            tuple(_file(delta) for delta in saved["deltas"]),
            int(saved["floor"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise SinkError(f"{path} is damaged: {error}", path=path) from None


def _file(saved: dict[str, Any]) -> DeltaFile:
    # A manifest cannot name a file outside its folder.
    name = Path(str(saved["file"])).name
    return DeltaFile(name, int(saved["first"]), int(saved["last"]), int(saved["rows"]))


def read_deltas(folder: Where, first: int = 0, last: int | None = None) -> pa.Table | None:
    """The signed rows of the epochs `first` to `last`, in the order of epochs.

    None if no epoch among them changed the view. Raises SourceError for a folder without a log,
    or for epochs that were dropped.
    """

    def read(manifest: Manifest, folder: Folder) -> pa.Table | None:
        until = manifest.epoch if last is None else last
        if max(first, 1) < manifest.floor and first <= until:
            message = (
                f"{folder}: epoch {max(first, 1)} is not there any more; the log begins with epoch "
                f"{manifest.floor}, and the snapshot holds what was before"
            )
            raise SourceError(message, path=str(folder), epoch=manifest.floor)
        files = [delta for delta in manifest.deltas if delta.last >= first and delta.first <= until]
        if not files:
            return None
        table = pa.concat_tables([read_table(folder, delta.file) for delta in files])
        epochs = table.column(table.num_columns - 1)
        kept = pc.and_(pc.greater_equal(epochs, first), pc.less_equal(epochs, until))
        return table.filter(kept)

    return _of_one_epoch(folder, read)


def read_view(folder: Where) -> tuple[int, pa.Table | None]:
    """(epoch, the rows of the view at that epoch); no table if it never had rows."""

    def read(manifest: Manifest, folder: Folder) -> tuple[int, pa.Table | None]:
        done = manifest.snapshot.last if manifest.snapshot else 0
        parts = []
        if manifest.snapshot:
            rows = read_table(folder, manifest.snapshot.file)
            parts.append(rows.append_column("+", pa.repeat(pa.scalar(1, pa.int8()), rows.num_rows)))
        for delta in manifest.deltas:
            if delta.last <= done:
                continue
            table = read_table(folder, delta.file)
            later = pc.greater(table.column(table.num_columns - 1), done)
            table = table.filter(later).remove_column(table.num_columns - 1)
            parts.append(table.rename_columns([*table.column_names[:-1], "+"]))
        if not parts:
            return manifest.epoch, None
        whole = pa.concat_tables(parts)
        names = whole.column_names[:-1]
        return manifest.epoch, present(whole.select(names), to_numpy(whole.column("+")))

    return _of_one_epoch(folder, read)


def _of_one_epoch(where: Where, read: Callable[[Manifest, Folder], _T]) -> _T:
    folder = folder_at(where)
    for remaining in reversed(range(_TRIES)):
        manifest = read_manifest(folder)
        if manifest is None:
            raise SourceError(f"{folder} holds no delta log: no manifest.json", path=str(folder))
        try:
            return read(manifest, folder)
        except FileNotFoundError as error:
            if not remaining or read_manifest(folder) == manifest:
                message = f"{folder}: {error.filename or error} is gone, but the manifest names it"
                raise SourceError(message, path=str(folder)) from None
    raise AssertionError("unreachable")  # pragma: no cover
