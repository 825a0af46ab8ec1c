"""Whose images are believed: a secret of this user, and the seal that it puts under bytes.

An image of the arena is memory that the kernel follows without a check, so a checksum, which
anybody can compute, is not enough. Invariant: bytes whose seal fits were written by somebody who
has the secret; it never leaves the machine and is in no state folder.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from deltafix.store import disk
from deltafix.store.disk import Piece

VARIABLE = "DELTAFIX_IMAGE_KEY"
"""Environment variable that gives the secret, for machines whose home does not last."""

SEAL_SIZE = 32


def seal(pieces: Iterable[Piece]) -> bytes:
    """HMAC-SHA-256 of some bytes under the user's secret. Raises OSError if there can be none."""
    mac = hmac.new(_secret(), digestmod=hashlib.sha256)
    for piece in pieces:
        mac.update(piece)
    return mac.digest()


def _secret() -> bytes:
    """What `VARIABLE` gives, or the user's file; made at its first use."""
    given = os.environ.get(VARIABLE)
    if given:
        return given.encode()
    path = _place() / "image.key"
    try:
        return disk.read(path)
    except FileNotFoundError:
        disk.make_folder(path.parent)
        beside = path.with_suffix(f".{secrets.token_hex(4)}")
        disk.create(beside, [secrets.token_bytes(32)], mode=0o600)
        disk.rename(beside, path)
        return disk.read(path)


def _place() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "deltafix"
    except RuntimeError as error:  # a user without a home
        raise FileNotFoundError(f"no place for the key of images: {error}") from None
