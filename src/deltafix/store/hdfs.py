"""A folder in HDFS, by its web interface (WebHDFS), through the package `requests`.

A file is written under a name of its own and renamed over the one it is to have, in one step of the
namenode. HDFS has no conditional put, so a file that decides is a folder of its versions:

    manifest.json.versions/000000000007     the content is that of the highest number

(or, where there are none, the file of that name, as version 0). Who saw version 7 renames its
content to 8, and the namenode refuses a name that is taken. Lower
numbers are removed behind that, so a late writer may find 8 free again; it looks for higher ones
afterwards, and is told. Invariant: of two writers that saw the same version, one succeeds, the
other is told; the highest number is never removed before a higher one is there.

A request that may have been done is not sent again: only those that did not get to the namenode,
and those that it was too busy for. Not here: Kerberos, and namenodes that stand in for each other.
"""

from __future__ import annotations

import errno
import getpass
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from deltafix.errors import MissingDependencyError, SourceError
from deltafix.store.disk import Piece
from deltafix.store.folder import PATIENCE, RETRIES, ReplacedError, Version
from deltafix.store.parts import PART, Parts

try:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry
except ImportError as _error:
    raise MissingDependencyError(
        "HDFS needs the package requests: `pip install 'deltafix[hdfs]'`"
    ) from _error

_PORTS: Final = {"webhdfs": ("http", 9870), "swebhdfs": ("https", 9871)}
_VERSIONS: Final = ".versions"
_LOOKS: Final = 100
"""How often a file that decides is looked for, where writers replace it all the time."""


class HadoopFolder:
    """A folder below a namenode.

    Args:
        namenode: how requests get there; shared with folders inside.
        path: of the folder, absolute.
    """

    def __init__(self, namenode: _Namenode, path: str) -> None:
        self._namenode = namenode
        self._path = path

    @classmethod
    def at(cls, url: str) -> HadoopFolder:
        """The folder of `webhdfs://user@namenode:port/path`. Raises SourceError.

        Without a user it is `HADOOP_USER_NAME`, or whoever runs this process; without a port 9870,
        or 9871 with `swebhdfs`.
        """
        try:
            parts = urlsplit(url)
            scheme, port = _PORTS[parts.scheme]
            if not parts.hostname:
                raise ValueError("it names no namenode")
            user = parts.username or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
            address = f"{parts.hostname}:{parts.port or port}"
        except (ValueError, OSError) as error:
            raise SourceError(f"{url}: no folder of HDFS: {error}", value=url) from None
        shown = f"{parts.scheme}://{parts.netloc}"
        return cls(_Namenode(f"{scheme}://{address}", shown, user), f"/{parts.path.strip('/')}")

    def __str__(self) -> str:
        return self._namenode.shown + self._path

    def __truediv__(self, name: str) -> HadoopFolder:
        return HadoopFolder(self._namenode, self._of(name))

    def read(self, name: str) -> bytes:
        """As `Folder.read`."""
        try:
            return self._read(name)
        except FileNotFoundError:
            seen = self.look(name)
            if seen is None:
                raise
            return seen[0]

    def open(self, name: str) -> BinaryIO:
        """As `Folder.open`."""
        return io.BufferedReader(Parts(self, name), PART)

    def size(self, name: str) -> int:
        """As `Folder.size`; not of a file that decides."""
        status = self._namenode.ask("GET", "GETFILESTATUS", self._of(name)).json()["FileStatus"]
        if status["type"] != "FILE":
            raise FileNotFoundError(errno.ENOENT, "it is a folder", f"{self}/{name}")
        return int(status["length"])

    def exists(self, name: str) -> bool:
        """As `Folder.exists`."""
        try:
            self.size(name)
        except FileNotFoundError:
            return self._newest(name) > 0
        return True

    def names(self) -> list[str]:
        """As `Folder.names`."""
        entries = self._list("")
        files = [name for name, kind in entries if kind == "FILE" and not name.startswith(".")]
        heads = (name.removesuffix(_VERSIONS) for name, _ in entries if name.endswith(_VERSIONS))
        return sorted([*files, *(name for name in heads if self._newest(name))])

    def folders(self) -> list[str]:
        """As `Folder.folders`."""
        names = (name for name, kind in self._list("") if kind == "DIRECTORY")
        return sorted(name for name in names if not name.endswith(_VERSIONS))

    def write(self, name: str, pieces: Iterable[Piece], *, durable: bool = True) -> int:
        """As `Folder.write`; what durable means is the datanodes' affair."""
        del durable
        beside = f".{name}.{uuid4().hex}"
        try:
            size = self._create(beside, pieces)
            self._rename(beside, name, "OVERWRITE")
        except BaseException:
            with suppress(OSError):
                self._delete(beside)
            raise
        return size

    def sync(self) -> None:
        """As `Folder.sync`: a rename that was answered is in the namenode's journal."""

    def look(self, name: str) -> tuple[bytes, Version] | None:
        """As `Folder.look`."""
        for _ in range(_LOOKS):
            newest = self._newest(name)
            with suppress(FileNotFoundError):  # a newer one has come, and this one was removed
                return self._read(_version(name, newest) if newest else name), str(newest)
            if not newest:
                return None
        raise OSError(errno.EBUSY, "it is replaced all the time", f"{self}/{name}")

    def commit(self, name: str, pieces: Iterable[Piece], seen: Version) -> Version:
        """As `Folder.commit`, by a rename to the next number."""
        number = int(seen or 0) + 1
        beside = f"{name}{_VERSIONS}/.{uuid4().hex}"
        self._create(beside, pieces)
        try:
            self._rename(beside, _version(name, number), "NONE")
        except FileExistsError:
            with suppress(OSError):
                self._delete(beside)
            raise self._replaced(name) from None
        numbers = self._numbers(name)
        if max(numbers, default=0) > number:
            with suppress(OSError):
                self._delete(_version(name, number))
            raise self._replaced(name)
        for older in numbers:
            if older < number:
                with suppress(OSError):
                    self._delete(_version(name, older))
        return str(number)

    def remove(self, name: str) -> None:
        """As `Folder.remove`."""
        self._delete(name)
        self._delete(name + _VERSIONS)

    def remove_folder(self, name: str) -> None:
        """As `Folder.remove_folder`."""
        with suppress(OSError):
            self._delete(name)

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file. Raises FileNotFoundError."""
        return self._read(name, offset=start, length=end - start)

    # --- one request, or two -------------------------------------------------------------------

    def _of(self, name: str) -> str:
        return "/".join(part for part in (self._path.rstrip("/"), name) if part)

    def _read(self, name: str, **part: int) -> bytes:
        return bytes(self._namenode.ask("GET", "OPEN", self._of(name), **part).content)

    def _create(self, name: str, pieces: Iterable[Piece]) -> int:
        """Write a file; the namenode names a datanode, which takes the bytes."""
        path = self._of(name)
        response = self._namenode.ask("PUT", "CREATE", path, overwrite="true", noredirect="true")
        size = 0

        def data() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                if len(piece):  # an empty chunk would be the last one
                    size += len(piece)
                    yield bytes(piece)

        self._namenode.send("PUT", response.json()["Location"], path, data=data())
        return size

    def _rename(self, old: str, new: str, options: str) -> None:
        self._namenode.ask(
            "PUT", "RENAME", self._of(old), destination=self._of(new), renameoptions=options
        )

    def _delete(self, name: str) -> None:
        """Remove a file or a folder that may not be there."""
        self._namenode.ask("DELETE", "DELETE", self._of(name), recursive="true")

    def _list(self, name: str) -> list[tuple[str, str]]:
        """The names in a folder that may not be there, and what they are."""
        try:
            listing = self._namenode.ask("GET", "LISTSTATUS", self._of(name)).json()
        except FileNotFoundError:
            return []
        return [
            (status["pathSuffix"], status["type"])
            for status in listing["FileStatuses"]["FileStatus"]
        ]

    def _numbers(self, name: str) -> list[int]:
        """The versions of a file that are there."""
        return [int(version) for version, _ in self._list(name + _VERSIONS) if version.isdecimal()]

    def _newest(self, name: str) -> int:
        """The version of a file, 0 if there is none."""
        return max(self._numbers(name), default=0)

    def _replaced(self, name: str) -> ReplacedError:
        return ReplacedError(f"{self}/{name} was replaced by another writer")


def _version(name: str, number: int) -> str:
    return f"{name}{_VERSIONS}/{number:012d}"


class _Namenode:
    """Requests to a namenode, and what it answers as errors of the system."""

    def __init__(self, root: str, shown: str, user: str) -> None:
        self.shown = shown
        self._root = root
        self._user = user
        self._session = requests.Session()
        busy = Retry(
            total=RETRIES, connect=RETRIES, read=0, redirect=5, status=RETRIES, other=0,
            backoff_factor=0.1, status_forcelist=[503], allowed_methods=None,
        )  # fmt: skip
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=busy))

    def ask(self, method: str, op: str, path: str, **params: Any) -> Any:
        """One operation; the answer. Raises OSError."""
        url = f"{self._root}/webhdfs/v1{quote(path)}"
        return self.send(method, url, path, params={"op": op, "user.name": self._user, **params})

    def send(self, method: str, url: str, path: str, **how: Any) -> Any:
        """A request about a path. Raises OSError."""
        where = self.shown + path
        try:
            answer = self._session.request(method, url, timeout=PATIENCE.total_seconds(), **how)
        except (requests.RequestException, HTTPError, ValueError) as error:
            raise OSError(f"{where}: {error}") from None
        if answer.ok:
            return answer
        try:
            exception = answer.json()["RemoteException"]
            kind, message = (
                str(exception["exception"]),
                str(exception["message"]).partition("\n")[0],
            )
        except (ValueError, LookupError, TypeError):
            raise OSError(f"{where}: {answer.status_code} {answer.reason}") from None
        if kind == "FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, message, where)
        if kind == "FileAlreadyExistsException":
            raise FileExistsError(errno.EEXIST, message, where)
        raise OSError(f"{where}: {kind}: {message}")
