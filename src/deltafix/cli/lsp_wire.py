"""Messages of the Language Server Protocol on a pair of streams, and what one asks for.

A message is a header (`Content-Length: 42`), then JSON: a body that is no JSON object is an error
that leaves the stream at the next message, a header that is none ends the conversation. Source:
Language Server Protocol 3.17, base protocol.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

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


class BadParamsError(ValueError):
    """The parameters of a message are not those of its method."""


def path_of(uri: object) -> Path:
    """The file that a `file:` URI names. Raises BadParamsError."""
    parts = urlsplit(uri) if isinstance(uri, str) else None
    if parts is None or parts.scheme != "file" or "\0" in unquote(parts.path):
        raise BadParamsError(f"{uri!r} is not the URI of a file, as file:///home/x/y.py is")
    return Path(url2pathname(parts.path)).resolve()


def has(message: object, *keys: str) -> object:
    """What stands in a message under these keys, one in the other; None if nothing does."""
    for key in keys:
        message = message.get(key) if isinstance(message, dict) else None
    return message
