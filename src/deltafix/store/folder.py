"""Files by name in one place, and the one of them that decides.

    folder.write(name, ...)     whole or not at all; nobody looks at it yet
    ...                         more of them
    head.replace(...)           one file that names them, replaced in one step

`folder_at` opens a path or URL. `LocalFolder` is a folder of a local disk; `objects.ObjectFolder`
is a prefix in an object store, `hdfs.HadoopFolder` a folder in HDFS. Invariant: a name never shows
part of a file, and `Head.replace` succeeds only on the content that its caller saw last. On a local
disk a `Lock` keeps other writers out, so nothing is compared there; elsewhere the comparison is the
lock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeAlias, runtime_checkable
from uuid import uuid4

from deltafix.errors import SourceError
from deltafix.paths import local_path
from deltafix.store import disk
from deltafix.store.disk import Piece

Version: TypeAlias = str | None
"""What an object store calls a content (its ETag); None: there was no such file."""


class ReplacedError(OSError):
    """Another writer has replaced the file that decides."""


@runtime_checkable
class Folder(Protocol):
    """Files by name; `str(folder)` is its path or URL. Errors are `OSError`s."""

    def __truediv__(self, name: str) -> Folder:
        """The folder of that name inside."""

    def read(self, name: str) -> bytes:
        """All of a file. Raises FileNotFoundError."""

    def open(self, name: str) -> BinaryIO:
        """A file to be read from any place, in parts. Raises FileNotFoundError."""

    def size(self, name: str) -> int:
        """The bytes of a file. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def names(self) -> list[str]:
        """The files in it, sorted; those of folders inside are left out."""

    def folders(self) -> list[str]:
        """The folders inside, sorted."""

    def write(self, name: str, pieces: Iterable[Piece], *, durable: bool = True) -> int:
        """Write a file, whole or not at all; returns its bytes.

        A machine without power may lose it until the next `commit` in the folder or `sync`; and
        any part of it, for good, if it is not `durable`.
        """

    def sync(self) -> None:
        """Wait until what this object wrote is there to stay."""

    def look(self, name: str) -> tuple[bytes, Version] | None:
        """A file and its version, None if there is none."""

    def commit(self, name: str, pieces: Iterable[Piece], seen: Version) -> Version:
        """Replace a file in one step if its version is `seen`. Raises ReplacedError if it is not.

        After any other error it may have been replaced, now or later; see `Head`.
        """

    def remove(self, name: str) -> None:
        """Remove a file that may not be there."""

    def remove_folder(self, name: str) -> None:
        """Remove what can be removed of a folder inside, and all in it. Raises nothing."""


OBJECTS: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
HADOOP: Final = ("webhdfs", "swebhdfs")
"""Schemes of URLs, by what reaches them."""

RETRIES = 8
"""How often a request is tried again that a store answered with an error of its own."""

PATIENCE: Final = timedelta(seconds=float(os.environ.get("DELTAFIX_STORE_TIMEOUT", "60")))
"""How long a request is tried again, in all, before it fails."""

Where: TypeAlias = str | Path | Folder
"""A path, a URL, or a folder."""


class LocalFolder:
    """A folder of a local disk, made with the first file in it.

    Args:
        path: the folder.
        shared: whether processes write the same names at a time; each then writes beside under a
            name of its own.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self._shared = shared
        self._unsynced = False

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name, shared=self._shared)

    def read(self, name: str) -> bytes:
        """As `Folder.read`."""
        return disk.read(self.path / name)

    def open(self, name: str) -> BinaryIO:
        """As `Folder.open`."""
        return (self.path / name).open("rb")

    def size(self, name: str) -> int:
        """As `Folder.size`."""
        return (self.path / name).stat().st_size

    def exists(self, name: str) -> bool:
        """As `Folder.exists`."""
        return (self.path / name).exists()

    def names(self) -> list[str]:
        """As `Folder.names`."""
        if not self.path.exists():
            return []
        return sorted(path.name for path in self.path.iterdir() if not path.is_dir())

    def folders(self) -> list[str]:
        """As `Folder.folders`."""
        if not self.path.exists():
            return []
        return sorted(path.name for path in self.path.iterdir() if path.is_dir())

    def write(self, name: str, pieces: Iterable[Piece], *, durable: bool = True) -> int:
        """As `Folder.write`."""
        beside, size = self._beside(name, pieces, durable=durable)
        disk.rename(beside, self.path / name)
        self._unsynced |= durable
        return size

    def sync(self) -> None:
        """As `Folder.sync`."""
        if self._unsynced:
            disk.sync_folder(self.path)
            self._unsynced = False

    def link(self, name: str, path: Path) -> None:
        """Have a file of this disk here too, as `write` would. Raises OSError where none can be."""
        disk.make_folder(self.path)
        beside = self.path / f"{name}.new"
        disk.link(path, beside)
        disk.rename(beside, self.path / name)
        self._unsynced = True

    def look(self, name: str) -> tuple[bytes, Version] | None:
        """As `Folder.look`."""
        try:
            return self.read(name), ""
        except FileNotFoundError:
            return None

    def commit(self, name: str, pieces: Iterable[Piece], seen: Version) -> Version:
        """As `Folder.commit`; who calls has the folder's lock, so `seen` is what is there."""
        del seen
        beside, _ = self._beside(name, pieces)
        self.sync()  # the names of files before the file that mentions them
        disk.rename(beside, self.path / name)
        disk.sync_folder(self.path)
        return ""

    def remove(self, name: str) -> None:
        """As `Folder.remove`."""
        disk.remove(self.path / name)

    def remove_folder(self, name: str) -> None:
        """As `Folder.remove_folder`."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def _beside(
        self, name: str, pieces: Iterable[Piece], *, durable: bool = True
    ) -> tuple[Path, int]:
        own = f".{uuid4().hex[:8]}" if self._shared else ""
        beside = self.path / f"{name}{own}.new"
        disk.make_folder(self.path, durable=durable)
        return beside, disk.create(beside, pieces, durable=durable)


class Head:
    """The file of a folder that decides. `data` and `version` are as last seen, or None.

    A store that answers with an error, or too late, leaves open whether it has replaced the file.
    So what was tried is kept: the next `replace` succeeds on the last content seen or on one of
    those, and puts an end to them, since a late one meets a version that is gone. Every content
    must be new: it has a counter or a name of its own in it.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._name = name
        seen = folder.look(name)
        self.data = None if seen is None else seen[0]
        self.version = None if seen is None else seen[1]
        self._tried: list[bytes] = []

    def replace(self, data: bytes) -> None:
        """Make `data` the content. Raises ReplacedError if another writer was there; OSError."""
        try:
            self._commit(data)
        except ReplacedError:
            raise
        except OSError:
            self._tried.append(data)
            raise
        self.data = data
        self._tried.clear()

    def _commit(self, data: bytes) -> None:
        while True:
            try:
                self.version = self._folder.commit(self._name, [data], self.version)
                return
            except ReplacedError:
                seen = self._folder.look(self._name)
                if seen is None or seen[0] not in (data, *self._tried):
                    raise
                self.version = seen[1]
                if seen[0] == data:
                    return
                self._tried.remove(seen[0])


def folder_at(where: Where, *, shared: bool = False) -> Folder:
    """The folder of a path or URL: `file://`, `s3://`, `gs://`, `az://`, `abfs://`, `webhdfs://`.

    Raises:
        SourceError: a URL of another kind, or what is neither path nor URL.
        MissingDependencyError: an object store without the package that reaches it.
    """
    if isinstance(where, Path):
        return LocalFolder(local_path(where), shared=shared)
    if isinstance(where, Folder):
        return where
    if not isinstance(where, str):
        raise SourceError(f"a folder is a path or a URL, not {where!r}", value=where)
    scheme, separator, _ = where.partition("://")
    if not separator:
        return LocalFolder(local_path(where), shared=shared)
    if scheme == "file":
        return LocalFolder(local_path(where), shared=shared)
    if scheme in HADOOP:
        from deltafix.store.hdfs import HadoopFolder  # noqa: PLC0415  an extra

        return HadoopFolder.at(where)
    if scheme in OBJECTS:
        from deltafix.store.objects import ObjectFolder  # noqa: PLC0415  an extra

        return ObjectFolder.at(where)
    valid = ", ".join(f"{kind}://" for kind in ("file", *OBJECTS, *HADOOP))
    message = f"{where}: a path, or a URL of {valid}"
    if scheme == "hdfs":
        message += "; HDFS is reached by the namenode's web port: webhdfs://namenode:9870/path"
    raise SourceError(message, value=where)
