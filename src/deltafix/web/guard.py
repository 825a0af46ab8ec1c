"""Who may talk to the page: the token, the Host header, and what every answer carries.

Invariant: nothing behind the guard runs unless the request names this server as its host and
carries the token, compared in constant time; every answer forbids other origins, inline scripts,
framing and caching. The server listens on the loopback address only; a web page elsewhere that
points a browser here (DNS rebinding) fails the host check.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard", "new_token"]

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


def new_token() -> str:
    """256 random bits, as a part of a URL."""
    return secrets.token_urlsafe(32)


class Guard:
    """Lets requests that name a loopback host and the port through, if they have the token.

    It is the first part of the path, `/TOKEN/…`, or in the header `Authorization: Bearer TOKEN`.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        first, _, rest = scope["path"].removeprefix("/").partition("/")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":  # the address then needs no key
            first, rest = bearer.strip(), scope["path"].removeprefix("/")
        refused: PlainTextResponse | None = None
        if host not in self._hosts:
            refused = PlainTextResponse("wrong host", 421)
        elif not hmac.compare_digest(first.encode(errors="replace"), self._token):
            refused = PlainTextResponse("not found", 404)
        elif origin is not None and origin != f"http://{host}":
            refused = PlainTextResponse("wrong origin", 403)
        inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
        await (refused or self._app)(inner, receive, _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return send_on
