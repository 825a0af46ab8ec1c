"""A web server on loopback that takes epochs as webhooks say them, and can be made to fail.

Invariant: a request that comes again says the same; requests of an output come in order of epochs
and parts, each at least once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = int | str | None
"""A status; `late` and `lost` take the request and give no answer; `gone` does not take it."""


class Hook:
    """A server, from `with` on until its end.

    Attributes:
        url: where it is.
        answer: asked how to answer a request, by its number.
        seen: idempotency key and path of each request, in order.
        headers: those of the last request.
        says: the body of an answer.
    """

    def __init__(self) -> None:
        self.answer: Callable[[int], Answer] = lambda number: 204
        self.seen: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        self.says = b"no"
        self._taken: dict[str, dict[str, Any]] = {}
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.take(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """One request."""
        body = request.rfile.read(int(request.headers["Content-Length"]))
        key = request.headers["Idempotency-Key"]
        number = len(self.seen)
        self.seen.append((key, request.path))
        self.headers = dict(request.headers)
        answer = self.answer(number)
        taken = {"path": request.path, **json.loads(body)}
        if answer in ("late", "lost") or (isinstance(answer, int) and answer < 300):
            assert self._taken.setdefault(key, taken) == taken
        if answer == "late":
            self._ends.wait(3)
        if not isinstance(answer, int):
            request.close_connection = True
            return
        request.send_response(answer)
        request.send_header("Content-Length", str(len(self.says)))
        if answer in (301, 302):
            request.send_header("Location", "/elsewhere")
        request.end_headers()
        request.wfile.write(self.says)

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The signed rows that a path was told, once each, in order."""
        messages = [one for one in self._taken.values() if one["path"] == path]
        order = [(one["epoch"], one["part"]) for one in messages]
        assert order == sorted(order)
        for one in messages:
            assert one["parts"] == sum(other["epoch"] == one["epoch"] for other in messages)
        return [
            {**row["row"], "sign": row["sign"], "epoch": one["epoch"]}
            for one in messages
            for row in one["rows"]
        ]
