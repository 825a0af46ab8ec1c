"""Frames: the checksummed pieces that a snapshot and a log are made of.

A file is a preamble (what it is, and the version of the format) and frames, each

    4 bytes  magic            8 bytes  epoch
    4 bytes  length of meta   4 bytes  CRC-32 of meta and body
    8 bytes  length of body   4 bytes  CRC-32 of the 28 bytes before
    meta (JSON), body (bytes)

Invariant: a length is believed only under its own checksum, so a flipped bit never makes a
reader jump over intact frames. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from mmap import mmap
from typing import Any, NamedTuple

from deltafix.errors import StateVersionError
from deltafix.store.disk import Piece

VERSION = 2
"""The version of the format that is written, and the only one that is read."""

_MAGIC = b"dfx\x1a"
_HEAD = struct.Struct("<4sIQQI")
_CRC = struct.Struct("<I")
_HEAD_SIZE = _HEAD.size + _CRC.size
_PREAMBLE = struct.Struct("<12sI")


class DamagedError(Exception):
    """Bytes that are no intact frame; the message says why. Never leaves the state package."""


class Frame(NamedTuple):
    """One intact frame: `epoch`, `meta` as parsed, `body`, and the byte where it `end`s."""

    epoch: int
    meta: dict[str, Any]
    body: memoryview
    end: int


def preamble(kind: str) -> bytes:
    """The first bytes of a file of that kind (`snapshot` or `log`)."""
    return _PREAMBLE.pack(f"dfx-{kind}".encode(), VERSION)


def check_preamble(data: bytes | mmap, kind: str, path: str) -> int:
    """Where the frames of a file begin.

    Raises DamagedError for a file of another kind, StateVersionError for one of another version.
    """
    if len(data) < _PREAMBLE.size:
        raise DamagedError(f"it has {len(data)} bytes, too few for a {kind}")
    name, version = _PREAMBLE.unpack_from(data)
    if name.rstrip(b"\0") != f"dfx-{kind}".encode():
        raise DamagedError(f"it is not a {kind}: it begins with {name!r}")
    if version != VERSION:
        message = f"a {kind} of format {version}, and this deltafix reads format {VERSION}"
        hint = "read its rows with the version that wrote it, and begin a new state with them"
        raise StateVersionError(f"{path}: {message}; {hint}", path=path, format=version)
    return _PREAMBLE.size


def pack(epoch: int, meta: dict[str, Any], body: Sequence[Piece] = ()) -> list[Piece]:
    """A frame as pieces to write one after another; the body is not copied."""
    text = json.dumps(meta, separators=(",", ":")).encode()
    crc = zlib.crc32(text)
    for piece in body:
        crc = zlib.crc32(piece, crc)
    size = sum(memoryview(piece).nbytes for piece in body)
    head = _HEAD.pack(_MAGIC, len(text), size, epoch, crc)
    return [head + _CRC.pack(zlib.crc32(head)) + text, *body]


def read(data: bytes | mmap, start: int) -> Frame:
    """The frame at byte `start`. O(frame). Raises DamagedError."""
    if len(data) - start < _HEAD_SIZE:
        raise DamagedError(f"{len(data) - start} bytes are too few for a frame")
    magic, meta_size, body_size, epoch, crc = _HEAD.unpack_from(data, start)
    (head_crc,) = _CRC.unpack_from(data, start + _HEAD.size)
    view = memoryview(data)
    if magic != _MAGIC or head_crc != zlib.crc32(view[start : start + _HEAD.size]):
        raise DamagedError("the head of a frame does not match its checksum")
    middle = start + _HEAD_SIZE + meta_size
    end = middle + body_size
    if end > len(data):
        raise DamagedError(f"the frame of epoch {epoch} lacks {end - len(data)} bytes")
    if crc != zlib.crc32(view[start + _HEAD_SIZE : end]):
        raise DamagedError(f"the frame of epoch {epoch} does not match its checksum")
    try:
        meta = dict(json.loads(data[start + _HEAD_SIZE : middle]))
    except (ValueError, TypeError) as error:
        raise DamagedError(f"the frame of epoch {epoch} is not readable: {error}") from None
    return Frame(epoch, meta, view[middle:end], end)


def find_intact(data: bytes, start: int) -> Frame | None:
    """The first intact frame that begins behind byte `start`. O(bytes), no frame per byte."""
    offset = data.find(_MAGIC, start + 1)
    while offset >= 0:
        try:
            return read(data, offset)
        except DamagedError:
            offset = data.find(_MAGIC, offset + 1)
    return None
