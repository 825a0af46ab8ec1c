r"""Messages of the Language Server Protocol over two byte streams: a header, then JSON.

    Content-Length: 42\r\n\r\n{"jsonrpc": "2.0", ...}

Invariant: `read` returns one whole message, or None at the end of the input; a body that is no
JSON object is an error that leaves the stream at the next message (BadMessageError), a header that
is none ends the conversation (ProtocolError). Nothing here knows a method.
Source: Language Server Protocol 3.17, base protocol.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO, TypeAlias

from deltafix.errors import DeltafixError

Message: TypeAlias = dict[str, Any]
"""A request, notification or response of JSON-RPC 2.0."""

_HEADER_LIMIT = 4096  # bytes of one header line
_BODY_LIMIT = 64 << 20  # bytes; a file in a message is far below


class ProtocolError(DeltafixError, ValueError):
    """The other side does not speak the protocol; there is no way to find the next message."""

    code = "DF672"


class BadMessageError(DeltafixError, ValueError):
    """A body that is not a JSON object. The next message can be read."""

    code = "DF673"


class Wire:
    """Reads and writes messages on a pair of binary streams."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def read(self) -> Message | None:
        """The next message; None at the end. Raises ProtocolError and BadMessageError."""
        length = self._length()
        if length is None:
            return None
        body = self._source.read(length)
        if len(body) < length:
            raise ProtocolError(f"the input ended after {len(body)} of {length} bytes of a message")
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadMessageError(f"a message is not JSON: {error}") from error
        if not isinstance(message, dict):
            raise BadMessageError(f"a message is a {type(message).__name__}, not an object")
        return message

    def write(self, message: Message) -> None:
        """Send one message at once."""
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
        self._sink.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._sink.flush()

    def _length(self) -> int | None:
        """The length that the header gives; None at the end of the input."""
        length: int | None = None
        first = True
        while line := self._source.readline(_HEADER_LIMIT):
            first = False
            if line in {b"\r\n", b"\n"}:
                break
            name, colon, value = line.partition(b":")
            if not colon or not line.endswith(b"\n"):
                raise ProtocolError(f"{line[:40]!r} is not a header; Content-Length: N is one")
            if name.strip().lower() == b"content-length":
                text = value.strip()
                length = int(text) if text.isdigit() and len(text) < 10 else -1
        if first:
            return None
        if length is None or not 0 <= length <= _BODY_LIMIT:
            raise ProtocolError(f"a message needs a Content-Length from 0 to {_BODY_LIMIT}")
        return length
