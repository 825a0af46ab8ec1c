"""The image: all of a state's memory in one file, so that it can be opened without deriving.

    preamble    what the file is
    seal        of all that follows up to the first page (below)
    frame       JSON: of which state, epoch and program; sections and their lengths; after edits of
                rules the `Catalog`; then, as its body, the SHA-256 of every block of every section
    sections    each begins on a page: `Codes.to_tables`, then the arena's extents

Writing is not synced: an image that a power cut tore is found out, and costs what opening without
one costs. Invariant: no byte of a file is followed before its digest, and the seal over the
digests, were found right; what was read is mapped from the very file that was checked, which is
never written again.

An image is memory that the kernel follows without a check, so a checksum, which anybody can
compute, is not enough: bytes whose seal fits were written by somebody who has this user's secret,
which never leaves the machine and is in no state folder.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import mmap
import os
import platform
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deltafix.engine.codes import Codes
from deltafix.engine.database import Database
from deltafix.engine.link import Linked
from deltafix.engine.state.catalog import Catalog
from deltafix.errors import StateVersionError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.image import PAGE, Extent, extents, lay, linked_bytes
from deltafix.kernel.jit import sources_digest
from deltafix.store import disk
from deltafix.store.disk import Piece
from deltafix.store.frame import DamagedError, check_preamble, pack, preamble, read

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
    path = _key_folder() / "image.key"
    try:
        return disk.read(path)
    except FileNotFoundError:
        disk.make_folder(path.parent)
        beside = path.with_suffix(f".{secrets.token_hex(4)}")
        disk.create(beside, [secrets.token_bytes(32)], mode=0o600)
        disk.rename(beside, path)
        return disk.read(path)


def _key_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "state") / "deltafix"
    except RuntimeError as error:  # a user without a home
        raise FileNotFoundError(f"no place for the key of images: {error}") from None


_BLOCK = 4 << 20
"""Bytes under one digest; threads check blocks side by side."""

_START = len(preamble("image")) + SEAL_SIZE


class RefusedError(Exception):
    """An image that is not to be used; the message says why. Never leaves the state package."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What an image is of: the state's name, an epoch, and `origin` of the program.

    `catalog` is that of an arena whose rules were edited, and then part of the origin.
    """

    state: str
    epoch: int
    origin: str
    catalog: Catalog | None = None


def origin(program: str, linked: Linked, arena: Arena, codes: Codes) -> str:
    """What an image has to agree on with whoever opens it, as a digest.

    That is the kernel, the machine, the program (as its digest) and what linking its plan made of
    an arena without rows, which `arena` is. O(program).
    """
    tables = codes.to_tables().values()
    return _digest_of(program, [linked.program.tobytes(), linked_bytes(arena), *tables])


def origin_in_steps(program: str, catalog: Catalog) -> str:
    """The same of an arena whose rules were edited; its catalog says what is to be linked."""
    return _digest_of(program, [json.dumps(catalog.to_json(), sort_keys=True).encode()])


def _digest_of(program: str, parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    machine = f"{platform.machine()} {sys.byteorder} {PAGE}"
    for text in (sources_digest(), machine, program):
        digest.update(f"{text}\n".encode())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def is_half_way(arena: Arena) -> bool:
    """Whether an epoch was left before its end: there is no image of that."""
    return bool(arena.cells[at.J + 1] or arena.cells[at.CREATED + 1])


def write_image(path: Path, moment: Moment, arena: Arena, codes: Codes) -> None:
    """Put an image in the place of the one there, in one step. O(state); between epochs only.

    Raises OSError; what was there is as before.
    """
    pages = extents(arena)
    tables = codes.to_tables()
    data = arena.words.data.cast("B")
    sections = [memoryview(_padded(table)) for table in tables.values()]
    sections += [data[first : first + size] for first, size in pages]
    blocks = [part for section in sections for part in _blocks(section)]
    head = {
        "state": moment.state,
        "origin": moment.origin,
        "tables": {name: len(table) for name, table in tables.items()},
        "extents": pages,
        "catalog": None if moment.catalog is None else moment.catalog.to_json(),
    }
    frame = b"".join(map(bytes, pack(moment.epoch, head, [_digests(blocks)])))
    frame += bytes(-(_START + len(frame)) % PAGE)
    beside = path.with_suffix(".new")
    pieces = [preamble("image"), seal([frame]), frame, *blocks]
    disk.create(beside, pieces, durable=False)
    disk.rename(beside, path)


def open_image(
    path: Path,
    wanted: Moment,
    least: int,
    arena: Arena,
    codes: Codes,
    *,
    in_steps: Callable[[Catalog], str],
) -> Moment:
    """Make a linked arena without rows, and its codes, what an image says; returns what it is of.

    `wanted` has the last epoch of the state, `least` is the first that its log goes on from. An
    image with a catalog is to have the origin `in_steps` of it; nothing is linked then.

    Raises RefusedError: a damaged image, or one of another state, epoch, program or machine, or of
    another user's; the arena is as before.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise RefusedError(f"it cannot be read: {error.strerror}") from None
    try:
        if not os.fstat(fd).st_size:
            raise RefusedError("it is empty")
        content = _Content(mmap.mmap(fd, 0, access=mmap.ACCESS_READ), path)
        if content.catalog is not None:
            wanted = replace(wanted, origin=in_steps(content.catalog))
        content.check(wanted, least, arena)
        tables = content.tables()
        lay(arena, fd, content.extents, content.first_page)
    except OSError as error:
        raise RefusedError(f"it cannot be mapped: {error}") from None
    finally:
        os.close(fd)
    codes.restore(tables)
    return Moment(content.state, content.epoch, content.origin, content.catalog)


class _Content:
    """A mapped image whose head was found right."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        try:
            start = check_preamble(data, "image", str(path))
            frame = read(data, start + SEAL_SIZE)
            self.start = -(-frame.end // PAGE) * PAGE
            try:
                own = seal([data[_START : self.start]])
            except OSError as error:
                raise RefusedError(f"there is no key to know it by: {error}") from None
            if not hmac.compare_digest(own, data[start:_START]):
                message = f"its seal does not fit: damage, or another user's key (see {VARIABLE})"
                raise RefusedError(message)
        except StateVersionError as other:
            raise RefusedError(f"it is of format {other.values['format']}") from None
        except DamagedError as damage:
            raise RefusedError(f"it is damaged: {damage}") from None
        meta: dict[str, Any] = frame.meta
        self.epoch = frame.epoch
        self.digests = bytes(frame.body)
        self.state, self.origin = str(meta["state"]), str(meta["origin"])
        saved = meta["catalog"]
        self.catalog = None if saved is None else Catalog.from_json(saved)
        self.sizes: dict[str, int] = meta["tables"]
        self.extents: list[Extent] = [(first, size) for first, size in meta["extents"]]
        sizes = [-(-size // PAGE) * PAGE for size in self.sizes.values()]
        self.first_page = self.start + sum(sizes)
        self.sections = [*sizes, *(size for _, size in self.extents)]
        self.data = memoryview(data)

    def check(self, wanted: Moment, least: int, arena: Arena) -> None:
        """Raise RefusedError unless all of it is right. O(bytes)."""
        if self.state != wanted.state:
            raise RefusedError("it is of another state")
        if self.origin != wanted.origin:
            raise RefusedError("it is of another program, kernel or machine")
        if not least <= self.epoch <= wanted.epoch:
            reach = f"the log goes on from epoch {least} to {wanted.epoch}"
            raise RefusedError(f"it is of epoch {self.epoch}, and {reach}")
        size = self.start + sum(self.sections)
        if len(self.data) != size:
            raise RefusedError(f"it is damaged: it has {len(self.data)} bytes, not {size}")
        if any(first + length > arena.words.nbytes // 2 for first, length in self.extents):
            raise RefusedError("this process may not reserve as much memory")
        blocks, offset = [], self.start
        for length in self.sections:
            blocks += _blocks(self.data[offset : offset + length])
            offset += length
        if _digests(blocks) != self.digests:
            raise RefusedError("it is damaged: a digest does not match")

    def tables(self) -> dict[str, bytes]:
        """The tables by name."""
        tables, offset = {}, self.start
        for name, size in self.sizes.items():
            tables[name] = bytes(self.data[offset : offset + size])
            offset += -(-size // PAGE) * PAGE
        return tables


def _padded(table: bytes) -> bytes:
    return table + bytes(-len(table) % PAGE)


def _blocks(section: memoryview) -> list[Piece]:
    return [section[at : at + _BLOCK] for at in range(0, len(section), _BLOCK)]


def _digests(blocks: Sequence[Piece]) -> bytes:
    """The SHA-256 of each block, one after another."""

    def digest(block: Piece) -> bytes:
        return hashlib.sha256(block).digest()

    if len(blocks) < 8:
        return b"".join(map(digest, blocks))
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return b"".join(pool.map(digest, blocks))


class CachedImage:
    """The images of one engine, which has no rows yet and calls no function of Python."""

    def __init__(self, db: Database, program: str) -> None:
        self._instance = instance = db.instance
        self._origin = origin(program, instance.linked, instance.arena, instance.codes)

    def leave(self, path: Path, name: str) -> bool:
        """Write an image between epochs; whether there is one. O(state). Raises OSError."""
        arena = self._instance.arena
        if is_half_way(arena):
            return False
        write_image(path, Moment(name, 0, self._origin), arena, self._instance.codes)
        return True

    def take_up(self, path: Path, name: str) -> bool:
        """Become what an image says that was left under a name; whether it is one. O(bytes)."""
        instance, wanted = self._instance, Moment(name, 0, self._origin)
        arena, codes = instance.arena, instance.codes
        try:
            open_image(path, wanted, 0, arena, codes, in_steps=lambda catalog: "")
        except RefusedError:
            return False
        instance.is_unrun = False
        instance.strata.cool()
        return True
