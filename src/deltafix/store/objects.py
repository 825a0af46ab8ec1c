"""A folder in an object store: S3, Google's or Azure's, through the package `obstore`.

Nothing is renamed and nothing is appended there: a file is one object, put whole. The file that
decides is put under a condition (`If-None-Match`, `If-Match`), which the store checks and does in
one step. Invariant: of two writers that saw the same version, one succeeds, the other is told.

Where the store is and who asks, obstore takes from the environment: `AWS_ENDPOINT_URL`,
`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` and so on;
Google's `STORAGE_EMULATOR_HOST` is read here. What a version is differs: Google's stores compare a
generation, the others an ETag.
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Final

from deltafix.errors import MissingDependencyError, SourceError
from deltafix.store.disk import Piece
from deltafix.store.folder import PATIENCE, RETRIES, ReplacedError, Version
from deltafix.store.parts import PART, Parts

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
except ImportError as _error:
    raise MissingDependencyError(
        "object stores need the package obstore: `pip install 'deltafix[s3]'`"
    ) from _error


class ObjectFolder:
    """A prefix of a bucket."""

    def __init__(self, store: Any, url: str, prefix: str) -> None:
        self._store = store
        self._url = url
        self._prefix = prefix
        self._version = "version" if url.startswith("gs:") else "e_tag"

    @classmethod
    def at(cls, url: str) -> ObjectFolder:
        """The folder of a URL. Raises SourceError if there can be none."""
        scheme, _, rest = url.partition("://")
        bucket, _, prefix = rest.partition("/")
        root = f"{scheme}://{bucket}"
        endpoint, config = _endpoint(scheme)
        http = endpoint.startswith("http://")
        try:
            store = obstore.store.from_url(
                root,
                config=config,
                client_options={"allow_http": http, "timeout": PATIENCE},
                retry_config={"retry_timeout": PATIENCE, "max_retries": RETRIES},
            )
        except (BaseError, ValueError, OSError) as error:
            raise SourceError(f"{url}: no object store: {_first_line(error)}", value=url) from None
        return cls(store, f"{root}/{prefix}".rstrip("/"), prefix.strip("/"))

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> ObjectFolder:
        return ObjectFolder(self._store, f"{self._url}/{name}", self._path(name))

    def read(self, name: str) -> bytes:
        """As `Folder.read`."""
        return self._get(name)[0]

    def open(self, name: str) -> BinaryIO:
        """As `Folder.open`."""
        return io.BufferedReader(Parts(self, name), PART)

    def size(self, name: str) -> int:
        """As `Folder.size`."""
        return int(self.about(name)["size"])

    def exists(self, name: str) -> bool:
        """As `Folder.exists`."""
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """As `Folder.names`."""
        listing = self._ask(obstore.list_with_delimiter, "")
        return sorted(entry["path"].rpartition("/")[2] for entry in listing["objects"])

    def folders(self) -> list[str]:
        """As `Folder.folders`."""
        listing = self._ask(obstore.list_with_delimiter, "")
        return sorted(prefix.rpartition("/")[2] for prefix in listing["common_prefixes"])

    def write(self, name: str, pieces: Iterable[Piece], *, durable: bool = True) -> int:
        """As `Folder.write`."""
        del durable
        data = b"".join(pieces)
        self._ask(obstore.put, name, data)
        return len(data)

    def sync(self) -> None:
        """As `Folder.sync`: a put that was answered is there to stay."""

    def look(self, name: str) -> tuple[bytes, Version] | None:
        """As `Folder.look`."""
        try:
            return self._get(name)
        except FileNotFoundError:
            return None

    def commit(self, name: str, pieces: Iterable[Piece], seen: Version) -> Version:
        """As `Folder.commit`, by a conditional put."""
        mode: Any = "create" if seen is None else {self._version: seen}
        try:
            put = self._ask(obstore.put, name, b"".join(pieces), mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            raise ReplacedError(f"{self._url}/{name} was replaced by another writer") from None
        return str(put[self._version])

    def remove(self, name: str) -> None:
        """As `Folder.remove`."""
        try:
            self._ask(obstore.delete, name)
        except FileNotFoundError:
            return

    def remove_folder(self, name: str) -> None:
        """As `Folder.remove_folder`."""
        with suppress(OSError):
            try:
                for page in obstore.list(self._store, prefix=self._path(name)):
                    obstore.delete(self._store, [entry["path"] for entry in page])
            except BaseError as error:
                raise self._failed(name, error) from None

    def walk(self) -> Iterator[Mapping[str, Any]]:
        """What the store tells of each file here and in folders inside, by `path` from here."""
        prefix = f"{self._prefix}/" if self._prefix else ""
        try:
            entries = [
                entry for page in obstore.list(self._store, prefix=self._prefix) for entry in page
            ]
        except BaseError as error:
            raise self._failed("", error) from None
        inside = [entry for entry in entries if entry["path"].startswith(prefix)]
        for entry in sorted(inside, key=lambda entry: str(entry["path"])):
            yield {**entry, "path": entry["path"].removeprefix(prefix)}

    def about(self, name: str) -> Mapping[str, Any]:
        """What the store tells of a file: `size`, `last_modified`. Raises FileNotFoundError."""
        described: Mapping[str, Any] = self._ask(obstore.head, name)
        return described

    def part(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a file. Raises FileNotFoundError."""
        return bytes(self._ask(obstore.get_range, name, start=start, end=end))

    def _path(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _get(self, name: str) -> tuple[bytes, Version]:
        response = self._ask(obstore.get, name)
        try:
            return bytes(response.bytes()), str(response.meta[self._version])
        except BaseError as error:
            raise self._failed(name, error) from None

    def _ask(self, verb: Any, name: str, *rest: Any, **options: Any) -> Any:
        try:
            return verb(self._store, self._path(name), *rest, **options)
        except (AlreadyExistsError, PreconditionError):
            raise
        except FileNotFoundError as error:
            where = f"{self._url}/{name}"
            raise FileNotFoundError(errno.ENOENT, _first_line(error), where) from None
        except BaseError as error:
            raise self._failed(name, error) from None

    def _failed(self, name: str, error: Exception) -> OSError:
        return OSError(f"{self._url}/{name}: {_first_line(error)}")


def _endpoint(scheme: str) -> tuple[str, dict[str, str] | None]:
    """Where the environment says that a store is, if it does, and what obstore is to be told."""
    if scheme == "gs":
        host = os.environ.get("STORAGE_EMULATOR_HOST", "")
        if not host:
            return "", None
        host = host if "://" in host else f"http://{host}"
        nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        account = {"gcs_base_url": host, "disable_oauth": True, **nobody}
        return host, {"service_account_key": json.dumps(account)}
    names = ("AWS_ENDPOINT_URL",) if scheme.startswith("s3") else _AZURE
    return next(filter(None, map(os.environ.get, names)), ""), None


_AZURE: Final = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


def _first_line(error: Exception) -> str:
    """What an error of the store says; the rest is its source, in the words of another language."""
    return str(error).strip().partition("\n")[0]
