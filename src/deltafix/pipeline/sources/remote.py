"""A folder of files in an object store, as `folder.Folder` has one of the local disk.

Files are read whole, into memory, as those of a disk are. Invariant: what belongs, in which order,
and what is refused is `Folder`'s. A stamp is the time an object was put and its size; some stores
tell whole seconds, so what is below a second in it is of the object's ETag: one that is put twice
within a second, with as many bytes, is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

from deltafix.errors import PipelineError
from deltafix.pipeline.sources.folder import Folder, Stamp, is_hidden

_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object, with what is asked of a path of the local disk that is only read."""

    folder: Any
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}" if self.name else str(self.folder)

    def open(self, mode: str = "rb") -> BinaryIO:
        """As `Path.open`, to be read."""
        assert mode == "rb"  # noqa: S101  nobody writes one
        stream: BinaryIO = self.folder.open(self.name)
        return stream


@dataclass(frozen=True, slots=True)
class RemoteFolder(Folder):
    """As `Folder`; `path` is an `store.objects.ObjectFolder`, or one object."""

    def files(self) -> dict[str, Stamp]:
        """As `Folder.files`."""
        try:
            return super(RemoteFolder, self).files()
        except OSError as error:
            message = f"input {self.name}: {self.path} cannot be listed: {error}"
            raise PipelineError(message, input=self.name, path=str(self.path)) from None

    @property
    def last(self) -> str:
        """As `Folder.last`."""
        return PurePosixPath(str(self.path)).name

    @property
    def is_file(self) -> bool:
        """As `Folder.is_file`."""
        return self._single() is not None

    @property
    def is_folder(self) -> bool:
        """As `Folder.is_folder`: there is no empty one in a store."""
        return next(iter(self.path.walk()), None) is not None

    def markers(self, names: Collection[str]) -> set[tuple[str, str]]:
        """As `Folder.markers`."""
        marked = set()
        for entry in self.path.walk():
            parts = PurePosixPath(entry["path"]).parts
            for depth, part in enumerate(parts):
                if part in names:
                    marked.add(("/".join(parts[:depth]) or ".", part))
        return marked

    def at(self, file: str) -> RemoteFile:
        """As `Folder.at`."""
        return RemoteFile(self.path, "" if self.is_file else file)

    def size(self, file: str) -> int:
        """As `Folder.size`."""
        return int(self.path.size("" if self.is_file else file))

    def _single(self) -> Stamp | None:
        try:
            return _stamp(self.path.about(""))
        except FileNotFoundError:
            return None

    def _own_stamp(self) -> Stamp:
        stamp = self._single()
        assert stamp is not None  # noqa: S101  `is_file`
        return stamp

    def _walk(self, others: list[str]) -> Iterator[tuple[str, Stamp]]:
        for entry in self.path.walk():
            relative = str(entry["path"])
            *folders, name = relative.split("/")
            if is_hidden(name) or any(folder.startswith((".", "_")) for folder in folders):
                continue
            if self._belongs(name, relative):
                yield relative, _stamp(entry)
            elif not self.pattern:
                others.append(relative)


def _stamp(about: Mapping[str, Any]) -> Stamp:
    put: datetime = about["last_modified"]
    version = str(about["e_tag"] or about["version"]).encode()
    part = int.from_bytes(hashlib.blake2b(version, digest_size=8).digest(), "big") % _SECOND
    return [int(put.timestamp()) * _SECOND + part, int(about["size"])]
