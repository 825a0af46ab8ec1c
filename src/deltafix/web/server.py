"""Serve the page from this process, on the loopback address, until interrupted.

Invariant: only 127.0.0.1 is bound. Fact files, where a folder is given, are followed by a thread
that ends with the server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

import uvicorn

from deltafix.errors import SourceError
from deltafix.web.app import make_app
from deltafix.web.feed import Feed, Limits
from deltafix.web.guard import new_token, origin_of, require_token
from deltafix.web.sources import served

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.engine.follow import FactFolder
    from deltafix.sql import Connection
    from deltafix.sql.follow import TableFolder

__all__ = ["Server"]

_ADDRESS = "127.0.0.1"
_LIMITS = Limits()


class Server:
    """A page over a database. `url` is known at once; `run` serves until interrupted.

    Args:
        db: the database, or a connection of SQL; it is closed by its owner. While it is served,
            whoever uses a connection in another thread holds `lock`.
        port: 0 for any that is free.
        writable: whether the page may edit given rows.
        title: what the page is called.
        limits: what is kept for those who follow changes.
        token: the key, of the characters of a URL's part; without one it is random.
        origins: those of web applications elsewhere that may ask too, with the key.

    `address` is `url` without the key. Raises SourceError for a port that is in use, AccessError
    for a key or an origin that is none.
    """

    def __init__(
        self,
        db: Database | Connection,
        *,
        port: int,
        writable: bool,
        title: str,
        limits: Limits = _LIMITS,
        token: str | None = None,
        origins: Collection[str] = (),
    ) -> None:
        token = new_token() if token is None else require_token(token)
        others = [origin_of(one) for one in origins]
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((_ADDRESS, port))
            self._socket.listen()  # from here on a browser may come: it waits for `run`
        except (OSError, OverflowError) as error:
            self._socket.close()
            message = f"port {port} cannot be used: {error}; --port 0 takes any that is free"
            raise SourceError(message, value=port) from None
        bound = int(self._socket.getsockname()[1])
        self.address = f"http://{_ADDRESS}:{bound}/"
        self.url = f"{self.address}{token}/"
        source = served(db)
        self.lock = source.lock
        self._feed = Feed(source, limits)
        app = make_app(
            self._feed, token=token, port=bound, writable=writable, title=title, origins=others
        )
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._stopped = threading.Event()
        self._failed: BaseException | None = None

    def run(self, folder: FactFolder | TableFolder | None = None, interval: float = 0.3) -> None:
        """Serve; follow the fact files of `folder`, looking every `interval` seconds.

        What ends the following, other than `stop`, ends the server and is raised: its page would
        show rows of before, as if they were those of now.
        """
        follower = None
        if folder is not None:
            follower = threading.Thread(target=self._follow, args=(folder, interval))
        try:
            if follower is not None:
                follower.start()
            self._server.run([self._socket])
        finally:
            self._stopped.set()
            if follower is not None and follower.ident is not None:
                follower.join()
            self._socket.close()
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stopped.set()
        self._server.should_exit = True

    def _follow(self, folder: FactFolder | TableFolder, interval: float) -> None:
        try:
            while not self._stopped.wait(interval):
                with self.lock:
                    folder.poll()
                self._feed.tell_files(folder.problems, folder.edit)
        except BaseException as error:
            self._failed = error
            self.stop()
