"""An S3 server on loopback, and ways in which a store can fail.

`Server` is moto's, over HTTP, with every PUT one step: it refuses conditional puts as S3 does. Its
`fault` is asked before each request and can have it fail, before or behind the work. `Cut` stands
for `obstore` in `deltafix.store.objects`: the process ends at a request. Not here: what must hold.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self
from uuid import uuid4

import obstore
from moto.server import create_backend_app
from werkzeug.serving import make_server

SETTINGS = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
SIGNED = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/s3/x"
STEPS = ("put", "delete", "get", "get_range", "head", "list", "list_with_delimiter")


class Server:
    """From `with` on until its end. `url()` is a new, empty prefix."""

    def __init__(self) -> None:
        self.fault: Callable[[str, str], str] = lambda method, path: ""
        self.late: list[dict[str, Any]] = []
        self._app = create_backend_app("s3")  # one service: moto looks for it in each request
        self._one = threading.RLock()

    def __enter__(self) -> Self:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.settings = {**SETTINGS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.port}"}
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self._call({"REQUEST_METHOD": "PUT", "PATH_INFO": "/bucket"})
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self) -> str:
        return f"s3://bucket/{uuid4().hex[:8]}"

    def settle(self) -> None:
        """Do now what was to be late."""
        late, self.late = self.late, []
        for request in late:
            self._app_answer(request)

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        what = self.fault(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if what == "late":
            self.late.append({**environ, "wsgi.input": io.BytesIO(body)})
        if what == "done":
            self._app_answer(environ)
        if what:
            start("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        status, headers, content = self._app_answer(environ)
        start(status, headers)
        return [content]

    def _app_answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        said: list[Any] = []
        with self._one:  # a conditional put looks and writes in one step
            content = b"".join(self._app(environ, lambda *args: said.append(args)))
        return said[0][0], said[0][1], content

    def _call(self, request: dict[str, str]) -> None:
        from werkzeug.test import EnvironBuilder

        builder = EnvironBuilder(
            path=request["PATH_INFO"], method=request["REQUEST_METHOD"],
            base_url=self.settings["AWS_ENDPOINT_URL"],
            headers={"Authorization": SIGNED},
        )  # fmt: skip
        assert self._app_answer(builder.get_environ())[0].startswith("200")


class Stopped(BaseException):
    """The process ended here: nothing after this happens."""


class Cut:
    """Stands for `obstore`: the process ends before the request of number `at`, or behind it."""

    def __init__(self, at: int, mode: str = "before") -> None:
        self.at = at
        self.mode = mode
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(obstore, name)
        if name not in STEPS:
            return real

        def step(*args: Any, **options: Any) -> Any:
            number = len(self.seen)
            self.seen.append(name)
            if number < self.at:
                return real(*args, **options)
            if number == self.at and self.mode == "behind":
                real(*args, **options)
            raise Stopped

        return step
