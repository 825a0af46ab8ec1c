"""The body of a request: taken whole, as it is, and not beyond a size.

Invariant: what is refused is refused before it is held: a body that is packed, or the part of one
that would be too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response

from deltafix.errors import LiveError

if TYPE_CHECKING:
    from starlette.requests import Request


class Refusal(NamedTuple):
    """Why a body is not taken, and the status of HTTP that says so."""

    error: LiveError
    status: int


async def read_body(request: Request, limit: int, way_out: str) -> bytes | Refusal:
    """The bytes of a request, at most so many; `way_out` is what to do about more. O(limit)."""
    if request.headers.get("content-encoding", "identity") != "identity":
        return Refusal(LiveError("a request is plain text; send it unpacked"), 415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            return Refusal(LiveError(f"a request has at most {limit:,} bytes; {way_out}"), 413)
    return bytes(body)


def cut_off(_: Request, __: Exception) -> Response:
    """To a request that ended in its middle: nobody reads it, and the log need not have it."""
    return Response(status_code=400)
