"""Servers of a test, each in a thread of its own that ends with its block, and requests to them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from deltafix.web.server import Server

__all__ = ["Door", "events", "running", "serving_files", "write"]


@contextmanager
def running(server: Server, folder: Any = None, interval: float = 0.05) -> Iterator[str]:
    """The address of a server that runs and follows the files of `folder`."""
    thread = threading.Thread(target=server.run, args=(folder, interval))
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join()


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving_files(folder: Path) -> Iterator[str]:
    """The origin of a web server that hands out a folder's files, on a port of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def write(path: Path, lines: list[str]) -> None:
    """Write a file as editors do, whole: another one takes its place."""
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    new.rename(path)


class Door:
    """Requests to a server that is running, with its key."""

    def __init__(self, server: Server) -> None:
        found = urlsplit(server.url)
        assert found.port
        self.url, self.port, self.token = server.url, found.port, found.path.strip("/")

    def open(self, method, path, body=None, headers=(), token=None):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        allowed = {"Authorization": f"Bearer {token or self.token}"}
        line.request(method, f"/{path}", body, {**allowed, **dict(headers)})
        return line, line.getresponse()

    def __call__(self, method, path, body=None, headers=(), token=None):
        line, answer = self.open(method, path, body, headers, token)
        text = answer.read().decode()
        line.close()
        return answer.status, json.loads(text) if text.startswith("{") else text

    def edit(self, *edits):
        return self("POST", "live/edits", "\n".join(json.dumps(one) for one in edits))

    def rows(self, name, limit=1000, where=None):
        """All rows by pages, and the id of their epoch."""
        found, after = [], ""
        asked = "" if where is None else f"&where={quote(json.dumps(where))}"
        while True:
            status, page = self("GET", f"live/rows/{name}?limit={limit}{after}{asked}")
            assert status == 200, page
            found += page["rows"]
            if page["next"] is None:
                return found, page["id"]
            after = f"&after={page['next']}"

    @contextmanager
    def follow(self, name, place=None, where=None):
        headers = {} if place is None else {"Last-Event-ID": place}
        asked = "" if where is None else f"?where={quote(json.dumps(where))}"
        line, answer = self.open("GET", f"live/changes/{name}{asked}", headers=headers)
        assert answer.status == 200, answer.read()
        try:
            yield events(answer)
        finally:
            line.sock and line.sock.close()
            answer.close()


def events(answer):
    found = {}
    while line := answer.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if not line.strip():
            if "event" in found:
                yield found["event"], found.get("id"), json.loads(found["data"])
            found = {}
        elif name:
            found[name] = value
