"""Object stores on loopback that speak Google's and Azure's protocols, beside `servers/s3.py`.

`Gcs` stands for Google's: its XML interface is that of S3 but for what a version is, so moto's
server answers, and generations are counted and compared here, as Google documents them.
`Azurite` is Microsoft's own emulator, where `make build/azurite/.ready` has put it. Not here: what
must hold.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import socket
import subprocess
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from tests.servers.s3 import SIGNED, Server

AZURITE = Path(__file__).parents[2] / "build/azurite/node_modules/.bin/azurite-blob"
_ACCOUNT = "devstoreaccount1"
_SHARED = (  # public: every emulator has it
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class Gcs(Server):
    """From `with` on until its end. `url()` is a new, empty prefix."""

    def __init__(self) -> None:
        super().__init__()
        self._generations: dict[str, int] = {}
        self._last = 1_700_000_000_000_000

    def __enter__(self) -> Self:
        super().__enter__()
        self.settings = {"STORAGE_EMULATOR_HOST": self.settings["AWS_ENDPOINT_URL"]}
        return self

    def url(self) -> str:
        return f"gs://bucket/{uuid4().hex[:8]}"

    def _call(self, request: dict[str, str]) -> None:
        assert request["REQUEST_METHOD"] == "PUT"
        super()._call(request)

    def _app_answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        environ = {**environ, "HTTP_AUTHORIZATION": SIGNED}
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._one:
            wanted = environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH")
            if wanted is not None and int(wanted) != self._generations.get(path, 0):
                return "412 Precondition Failed", [("Content-Length", "0")], b""
            status, headers, content = super()._app_answer(environ)
            if status.startswith("2"):
                if method == "PUT":
                    self._last += 1
                    self._generations[path] = self._last
                if method == "DELETE":
                    self._generations.pop(path, None)
                headers = [*headers, ("x-goog-generation", str(self._generations.get(path, 0)))]
            return status, headers, content


class Azurite:
    """From `with` on until its end. `url()` is a new, empty prefix."""

    def __init__(self, scheme: str = "az") -> None:
        self.scheme = scheme

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        options = ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
        command = [str(AZURITE), "--blobPort", str(self.port), "--skipApiVersionCheck", *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        try:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                        break
                assert self._process.poll() is None, "Azurite ended"
                assert time.monotonic() < end, "Azurite did not start"
                time.sleep(0.05)
            self._make("bucket")
        except BaseException:
            self.__exit__()
            raise
        self.settings = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{self.port}",
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def url(self, scheme: str = "az") -> str:
        prefix = uuid4().hex[:8]
        if scheme == "az":
            return f"az://bucket/{prefix}"
        return f"{scheme}://bucket@{_ACCOUNT}.dfs.core.windows.net/{prefix}"

    def _make(self, name: str) -> None:
        """A container, by a request that is signed with the emulator's key."""
        said = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        lines = ["PUT", *[""] * 11, *(f"{key}:{text}" for key, text in said.items())]
        lines += [f"/{_ACCOUNT}/{_ACCOUNT}/{name}", "restype:container"]
        digest = hmac.digest(base64.b64decode(_SHARED), "\n".join(lines).encode(), hashlib.sha256)
        said["authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        line.request("PUT", f"/{_ACCOUNT}/{name}?restype=container", headers=said)
        answer = line.getresponse()
        assert answer.status == 201, answer.read()
        line.close()
