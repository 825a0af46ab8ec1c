"""Who may talk to the page: the Host header, the origins, the key, and what every answer carries.

Invariant: nothing behind the guard runs unless the request names this server as its host and
carries the key, compared in constant time; every answer forbids inline scripts, framing, caching,
and other origins than those that were named. The server listens on the loopback address only; a web
page elsewhere that points a browser here (DNS rebinding) fails the host check, which comes first.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import shlex
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deltafix.errors import AccessError
from deltafix.facts.values import shown

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{22,512}")
"""What stands in a path as it is, and has 128 bits where it is random base64."""
_MOST: Final = 1024
"""Bytes of a key file that are read."""
_ORIGIN: Final = re.compile(
    r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?", re.ASCII
)
_PORTS: Final = {"http": 80, "https": 443}


def new_token() -> str:
    """256 random bits, as a part of a URL."""
    return secrets.token_urlsafe(32)


def require_token(token: str, where: str = "the key") -> str:
    """The key, if it can be one. Raises AccessError, which does not show it."""
    if _TOKEN.fullmatch(token) is None:
        others = sorted(
            {character for character in token if not re.fullmatch(r"[A-Za-z0-9._~-]", character)}
        )
        what = f"{shown(others[0])} in it" if others else f"{len(token)} characters"
        message = f"{where} has {what}; a key is 22 to 512 of A-Z a-z 0-9 - . _ ~, best random ones"
        raise AccessError(message, size=len(token))
    return token


def read_token(path: Path) -> str:
    """The key in a file that nobody but its owner may read. Raises AccessError.

    The owner is this process's user, or root. Space around the key is passed over.
    """
    name = shlex.quote(str(path))
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0):
                message = (
                    f"{path} is another user's, who may change the key; use a file of your own"
                )
                raise AccessError(message, path=str(path), owner=status.st_uid)
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                mode = stat.filemode(status.st_mode)
                message = f"{path} is {mode}: others than its owner may use it; chmod 600 {name}"
                raise AccessError(message, path=str(path), mode=mode)
            text = file.read(_MOST)
    except OSError as error:
        command = f"(umask 077; openssl rand -hex 32 > {name})"
        message = (
            f"{path} cannot be read: {error.strerror or error}; a key file is made by {command}"
        )
        raise AccessError(message, path=str(path)) from None
    return require_token(text.decode("latin-1").strip(), str(path))


def origin_of(text: str) -> str:
    """An origin as browsers send it: in lower case, without its scheme's own port.

    Raises AccessError.
    """
    match = _ORIGIN.fullmatch(text)
    port = int(match[3]) if match and match[3] else None
    if match is None or not (port is None or 0 < port < 1 << 16):
        message = (
            f"{shown(text)} is no origin; one is a scheme, a host and perhaps a port, and each is "
            "named: https://app.example or http://localhost:3000"
        )
        raise AccessError(message, origin=text)
    host = f"{match[1]}://{match[2].lower()}"
    return host if port in (None, _PORTS[match[1]]) else f"{host}:{port}"


class Guard:
    """Lets requests that name a loopback host and the port through, if they have the key.

    It is the first part of the path, `/KEY/…`, or in the header `Authorization: Bearer KEY`. Web
    pages of `origins` may ask too, with the key; a browser asks first whether they may (a CORS
    preflight), without it.
    """

    def __init__(
        self, app: ASGIApp, token: str, port: int, origins: Collection[str] = frozenset()
    ) -> None:
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._origins = frozenset(origins)
        self._app: ASGIApp = _Keyed(app, token, self._origins)
        if origins:
            self._app = CORSMiddleware(
                self._app,
                allow_origins=self._origins,
                allow_methods=("GET", "POST"),
                allow_headers=("authorization", "content-type", "last-event-id"),
                allow_private_network=True,  # the application lies elsewhere, this server does not
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        app = self._app
        if headers.get("host", "") not in self._hosts:
            app = PlainTextResponse("wrong host", 421)
        given = dict(HEADERS)
        if headers.get("origin") in self._origins:
            given["cross-origin-resource-policy"] = "cross-origin"
        await app(scope, receive, _with_headers(send, given))


class _Keyed:
    """Lets requests with the key through, from no other origin than the server's own and those."""

    def __init__(self, app: ASGIApp, token: str, origins: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        origin, own = headers.get("origin"), f"http://{headers.get('host')}"
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":  # the address then needs no key
            first, rest = bearer.strip(), scope["path"].removeprefix("/")
        app = self._app
        if not hmac.compare_digest(first.encode(errors="replace"), self._token):
            app = PlainTextResponse("not found", 404)
        elif origin is not None and origin not in (own, *self._origins):
            app = PlainTextResponse("wrong origin", 403)
        await app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send)


def _with_headers(send: Send, given: dict[str, str]) -> Send:
    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.encode(), value.encode()) for name, value in given.items()]
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_on
