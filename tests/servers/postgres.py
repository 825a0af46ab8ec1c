"""A PostgreSQL of the tests' own, from the package pgserver: on a socket file, and by a port.

`Postgres` is the server; JDBC knows no socket files, so `port` is a relay's on loopback. Invariant:
server and relay end with the with-statement.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Self
from urllib.parse import parse_qs, urlparse

import psycopg

SETTINGS = (
    "wal_level = logical", "max_replication_slots = 100", "max_wal_senders = 100", "fsync = off",
)  # fmt: skip
"""It tells changes: inputs of many tests read them, each through a slot of its own."""


class Postgres:
    """A server, from `with` on until its end, with these settings.

    Attributes:
        uri: where it is, for libpq.
    """

    uri: str

    def __init__(self, settings: Sequence[str] = SETTINGS) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of platformdirs, where there is no XDG_RUNTIME_DIR
            import pgserver

            # Not below pytest's folder: as root, the server runs as a user who may not look there.
            self._folder = tempfile.mkdtemp(prefix="deltafix-postgres-")
            self._server = pgserver.get_server(self._folder)
        self.uri = self._server.get_uri()
        with psycopg.connect(self.uri, autocommit=True) as db:
            for setting in self._settings:
                db.execute(f"ALTER SYSTEM SET {setting}")
        self.restart()
        self._listener: socket.socket | None = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop it and start it again, with settings that take that."""
        from pgserver import pg_ctl

        pg_ctl(["-w", "restart", "-m", "fast"], pgdata=self._server.pgdata,
               user=self._server.system_user)  # fmt: skip

    @property
    def port(self) -> int:
        """A port on loopback that leads to it."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            threading.Thread(target=self._relay, args=(self._listener,), daemon=True).start()
        return int(self._listener.getsockname()[1])

    def _relay(self, listener: socket.socket) -> None:
        (folder,) = parse_qs(urlparse(self.uri).query)["host"]
        with suppress(OSError):  # it was closed
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(os.path.join(folder, ".s.PGSQL.5432"))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=ends, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
