"""Servers of a test, each in a thread of its own that ends with its block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deltafix.web.server import Server

__all__ = ["running", "serving_files", "write"]


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
