"""Serve from this process, on the loopback address: a page, or requests into a pipeline.

Invariant: only 127.0.0.1 is bound. What is beside the server (fact files that are followed, inputs
that are looked at) is a thread that ends with it, and what ends that ends the server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from deltafix.errors import SourceError
from deltafix.web.app import make_app
from deltafix.web.feed import Feed, Limits
from deltafix.web.guard import Guard, new_token, origin_of, require_token
from deltafix.web.sources import served

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from deltafix.engine.database import Database
    from deltafix.engine.follow import FactFolder
    from deltafix.errors import PipelineError
    from deltafix.pipeline.epoch import Epoch
    from deltafix.pipeline.runner import Pipeline
    from deltafix.sql import Connection
    from deltafix.sql.follow import TableFolder

__all__ = ["PipelineServer", "Server"]

_ADDRESS = "127.0.0.1"
_LIMITS = Limits()


class _Protocol(H11Protocol):
    """HTTP in which what is no HTTP ends its request, too.

    The application went on to answer it on the connection that was closed, and each time there was
    a traceback in the log: anybody could fill it.
    """

    def send_400_response(self, msg: str) -> None:
        """Answer that what came is no HTTP, if an answer has not begun, and close."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        with suppress(LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()


class _Uvicorn(uvicorn.Server):
    """A server that ends what it streams before it ends."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], object]) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End. A stream that nobody ended was cancelled after a while, with an error in the log."""
        self._ending()
        await super().shutdown(sockets)


class _Listener:
    """A port that is bound; `url` is known at once, `_serve` serves until `stop` or an interrupt.

    `address` is `url` without the key. Raises SourceError for a port that is in use, AccessError
    for a key that is none.
    """

    def __init__(self, port: int, token: str | None) -> None:
        self._token = new_token() if token is None else require_token(token)
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((_ADDRESS, port))
            self._socket.listen()  # from here on a browser may come: it waits for `run`
        except (OSError, OverflowError) as error:
            self._socket.close()
            message = f"port {port} cannot be used: {error}; --port 0 takes any that is free"
            raise SourceError(message, value=port) from None
        self._port = int(self._socket.getsockname()[1])
        self.address = f"http://{_ADDRESS}:{self._port}/"
        self.url = f"{self.address}{self._token}/"
        self._stopped = threading.Event()
        self._failed: BaseException | None = None
        self._server: uvicorn.Server

    def _answer(self, app: ASGIApp, ending: Callable[[], object]) -> None:
        """Have the guarded application answer; `ending` is called before the end."""
        config = uvicorn.Config(
            app, http=_Protocol, log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = _Uvicorn(config, ending)

    def _serve(self, beside: Callable[[], object] | None, interval: float) -> None:
        """Serve; call `beside` every `interval` seconds. Raises what that raises."""
        thread = None
        if beside is not None:
            thread = threading.Thread(target=self._repeat, args=(beside, interval))
        try:
            if thread is not None:
                thread.start()
            self._server.run([self._socket])
        finally:
            self._stopped.set()
            if thread is not None and thread.ident is not None:
                thread.join()
            self._socket.close()
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._stopped.set()
        self._server.should_exit = True

    def _repeat(self, beside: Callable[[], object], interval: float) -> None:
        try:
            while not self._stopped.wait(interval):
                beside()
        except BaseException as error:
            self._failed = error
            self.stop()


class Server(_Listener):
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
        others = [origin_of(origin) for origin in origins]
        super().__init__(port, token)
        source = served(db)
        self.lock = source.lock
        self._feed = Feed(source, limits)
        self._answer(
            make_app(
                self._feed,
                token=self._token,
                port=self._port,
                writable=writable,
                title=title,
                origins=others,
            ),
            self._feed.end,
        )

    def run(self, folder: FactFolder | TableFolder | None = None, interval: float = 0.3) -> None:
        """Serve; follow the fact files of `folder`, looking every `interval` seconds.

        What ends the following, other than `stop`, ends the server and is raised: its page would
        show rows of before, as if they were those of now.
        """
        self._serve(None if folder is None else lambda: self._follow(folder), interval)

    def _follow(self, folder: FactFolder | TableFolder) -> None:
        with self.lock:
            folder.poll()
        self._feed.tell_files(folder.problems, folder.edit)


class PipelineServer(_Listener):
    """Requests into an open pipeline; `run` serves until interrupted.

    Args:
        pipeline: one whose rows this process keeps; it is closed by its owner.
        port: 0 for any that is free.
        token: the key, of the characters of a URL's part; without one it is random.
        on_epoch: hears each epoch.
        on_stop: hears why another input was left out of a look.

    Raises what `_Listener` raises.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        port: int,
        token: str | None = None,
        on_epoch: Callable[[Epoch], object] = lambda epoch: None,
        on_stop: Callable[[PipelineError], object] = lambda error: None,
    ) -> None:
        from deltafix.web.inlet import Inlet  # noqa: PLC0415  pyarrow is slow

        super().__init__(port, token)
        self._on_stop = on_stop
        self._inlet = Inlet(pipeline, on_epoch)
        self._answer(Guard(self._inlet.app, self._token, self._port), lambda: None)

    def run(self, every: float | None = None) -> None:
        """Serve; look at the other inputs `every` so many seconds. Raises what fails a look."""
        beside = None if every is None else lambda: self._inlet.look(self._on_stop)
        self._serve(beside, every or 0.0)
