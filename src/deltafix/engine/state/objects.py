"""A state in an object store, where nothing is renamed, appended or locked.

    log                           the one object that decides: who writes, the snapshot's name, the
                                  names of older records, and the newest records themselves
    snapshot-<epoch>-<g>-<n>      all given rows of an epoch
    records-<first>-<last>-<g>-<n>  records that have moved out of `log`

Every epoch puts `log` anew, under the condition that it is as this writer saw it last (`Head`): one
request for a small epoch, two for a large one or where records move out. Opening puts it too, with
the next `generation`; so a writer that was given up, and is only slow, meets a version that is gone
at its next epoch: it is told, and that epoch is nowhere. The newest opener has the state.

Invariant: `log` names objects that are there and never change; a compaction is one put. Objects of
dead attempts, which nothing names, are removed by the next opener.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from deltafix.engine.state.edits import Edit
from deltafix.engine.state.log import Records, log_header, read_records
from deltafix.engine.state.snapshot import Snapshot, parse_snapshot, snapshot_pieces
from deltafix.engine.state.state import State
from deltafix.errors import StateError, StateInUseError
from deltafix.store.disk import Piece
from deltafix.store.folder import Folder, Head, ReplacedError
from deltafix.store.frame import pack, preamble
from deltafix.store.lock import taken, who

INLINE = 256 << 10
"""Bytes of records that `log` itself holds, at most."""

_LOG = "log"
_TRIES = 20
_OURS = re.compile(r"(?:snapshot-\d+|records-\d+-\d+)-(\d+)-\d+")


@dataclass(frozen=True, slots=True)
class _Content:
    """What `log` says: all of its header, then the bytes of the newest records."""

    state: str
    base: int
    snapshot: str
    generation: int
    turn: int
    owner: Mapping[str, Any]
    records: tuple[str, ...]
    tail: bytes

    def to_bytes(self) -> bytes:
        meta = {
            "state": self.state, "snapshot": self.snapshot, "generation": self.generation,
            "turn": self.turn, "owner": dict(self.owner), "records": list(self.records),
        }  # fmt: skip
        return b"".join([preamble("log"), *pack(self.base, meta), self.tail])

    @classmethod
    def read(cls, data: bytes, path: str) -> _Content:
        head = log_header(data, path)
        meta = head.meta
        try:
            names = [str(meta["snapshot"]), *map(str, meta["records"])]
            if not all(_OURS.fullmatch(name) for name in names):
                raise ValueError(f"it names {names}")
            return cls(
                str(meta["state"]), head.epoch, names[0], int(meta["generation"]),
                int(meta["turn"]), dict(meta["owner"]), tuple(names[1:]), bytes(data[head.end :]),
            )  # fmt: skip
        except (LookupError, TypeError, ValueError) as damage:
            raise StateError(f"{path}: the log's header is damaged: {damage}", path=path) from None


def read_objects(folder: Folder) -> tuple[Snapshot, Records] | None:
    """A state as it is now, without opening it; None if there is none. Raises StateError."""
    for remaining in reversed(range(_TRIES)):
        head = folder.look(_LOG)
        if head is None:
            return None
        content = _Content.read(head[0], f"{folder}/{_LOG}")
        try:
            return _objects_of(folder, content)
        except FileNotFoundError as error:
            # A compaction removed them behind our back, and `log` says so; or they are lost.
            if not remaining or folder.look(_LOG) == head:
                message = f"{folder}: an object that the log names is gone: {error}"
                raise StateError(message, path=str(folder), epoch=content.base) from None
    raise AssertionError("unreachable")  # pragma: no cover


def _objects_of(folder: Folder, content: _Content) -> tuple[Snapshot, Records]:
    path = f"{folder}/{content.snapshot}"
    snapshot = parse_snapshot(folder.read(content.snapshot), path)
    frames, size, last = [], 0, content.base
    parts = [(f"{folder}/{name}", folder.read(name)) for name in content.records]
    for where, data in [*parts, (f"{folder}/{_LOG}", content.tail)]:
        added, end, torn = read_records(data, 0, last, where)
        if torn:
            message = f"{where}: the records are damaged: {torn}; the last good epoch is {last}"
            raise StateError(message, path=where, epoch=last)
        frames += added
        size += end
        last = frames[-1].epoch if frames else last
    return snapshot, Records(content.state, content.base, frames, size, "")


class ObjectLog:
    """The log of a state in an object store, for the writer of one generation."""

    def __init__(self, folder: Folder, head: Head, content: _Content, epoch: int, end: int) -> None:
        self.epoch = epoch
        self.end = end
        self.broken = ""
        self.content = content
        self._folder = folder
        self._head = head
        self._before = (content, epoch, end)
        self._unsure = False
        self._refusal: type[StateError] = StateError

    def append(self, epoch: int, meta: dict[str, Any], body: Sequence[Piece]) -> None:
        """Put the record of an epoch.

        Raises StateInUseError if another opener has the state now, StateError if it cannot be
        written; the caller then calls `undo`.
        """
        if self.broken:
            raise self._refusal(self.broken, path=str(self._folder))
        record = b"".join(pack(epoch, meta, body))
        self._before = (self.content, self.epoch, self.end)
        self._unsure = True
        try:
            self._put(self._with(record, epoch))
        except StateError:
            raise
        except OSError as error:
            message = f"{self._folder}: epoch {epoch} could not be written: {error}; rolled back"
            raise StateError(message, path=str(self._folder), epoch=epoch) from error
        self.epoch, self.end = epoch, self.end + len(record)

    def _with(self, record: bytes, epoch: int) -> _Content:
        tail = self.content.tail + record
        if len(tail) <= INLINE:
            return replace(self.content, tail=tail)
        names = self.content.records
        first = self.content.base + 1 if not names else int(names[-1].split("-")[2]) + 1
        name = self.name(f"records-{first:012d}-{epoch:012d}")
        self._folder.write(name, [tail])
        return replace(self.content, records=(*names, name), tail=b"")

    def undo(self, epoch: int) -> None:
        """Put the log back as it was before an epoch after `epoch`.

        Raises StateError if that fails too. The next record then settles it: it is put on what
        was acknowledged. If the process ends before that, the epoch may be there.
        """
        if self.broken or not (self._unsure or self.epoch > epoch):
            return
        content, self.epoch, self.end = self._before
        self.content = replace(content, turn=self.content.turn)
        try:
            self._put(self.content)
        except StateError:
            raise
        except OSError as error:
            message = (
                f"{self._folder}: an epoch after {epoch} may be in the log, and could not be taken "
                f"back: {error}; it is tried again with the next epoch"
            )
            raise StateError(message, path=str(self._folder)) from error

    def name(self, prefix: str) -> str:
        """A name for an object that no other attempt gives."""
        self.content = replace(self.content, turn=self.content.turn + 1)
        return f"{prefix}-{self.content.generation}-{self.content.turn}"

    def begin(self, snapshot: str) -> None:
        """Rest on a new snapshot of the last epoch, with no records. Raises OSError, StateError."""
        self._put(replace(self.content, base=self.epoch, snapshot=snapshot, records=(), tail=b""))
        self.end = 0

    def _put(self, content: _Content) -> None:
        content = replace(content, turn=max(content.turn, self.content.turn) + 1)
        self.content = replace(self.content, turn=content.turn)
        try:
            self._head.replace(content.to_bytes())
        except ReplacedError as error:
            self.broken, self._refusal = _taken(self._folder), StateInUseError
            raise self._refusal(self.broken, path=str(self._folder)) from error
        self.content = content
        self._unsure = False

    def close(self) -> None:
        """Nothing waits: every epoch is in the store when it is acknowledged."""
        self.broken = self.broken or f"{self._folder}: the state is closed"


class _ThisProcess:
    """The owner of a state that fences by its generation: only forks need to be told apart."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        return self._pid == os.getpid()

    def release(self) -> None:
        """Nothing is held."""


class StateObjects(State):
    """A state in an object store, opened by this process; `take` fences off whoever had it.

    Raises:
        StateInUseError: others open it all the time.
        StateError: damaged, of another format, or not a state.
    """

    _log: ObjectLog

    def __init__(self, folder: Folder) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._lock = _ThisProcess()
        with self._usable():
            self._look()

    def _open(self) -> None:
        with self._usable():
            self._log = self._owned()
            self.generation = self._log.content.generation
            self._sweep()

    def _look(self) -> None:
        for _ in range(_TRIES):
            head = self._head = Head(self._folder, _LOG)
            if head.data is None:
                return
            content = self._content = _Content.read(head.data, self.path)
            try:
                contents = _objects_of(self._folder, content)
            except FileNotFoundError as error:
                if self._folder.look(_LOG) != (head.data, head.version):
                    continue
                message = f"{self.path}: an object that the log names is gone: {error}"
                raise StateError(message, path=self.path, epoch=content.base) from None
            self._believe(*contents)
            return
        raise StateInUseError(_taken(self._folder), path=self.path)

    def _owned(self) -> ObjectLog:
        known = self.known
        for _ in range(_TRIES):
            if self._read is None:
                self._content = self._begun()
                self._read = _objects_of(self._folder, self._content)
            snapshot, records = self._read
            self.recovered.clear()
            self._fit(snapshot, records)
            generation = self._content.generation + 1
            mine = replace(self._content, generation=generation, turn=0, owner=who())
            try:
                self._head.replace(mine.to_bytes())
            except ReplacedError:
                self._look()
                if self.known != (known or self._identity):
                    message = f"{self.path}: its rules changed while it was opened; open it again"
                    raise StateInUseError(message, path=self.path) from None
                continue
            return ObjectLog(self._folder, self._head, mine, records.epoch, records.end)
        raise StateInUseError(_taken(self._folder), path=self.path)

    def _begun(self) -> _Content:
        """What an empty prefix is taken for."""
        others = [name for name in self._folder.names() if not _OURS.fullmatch(name)]
        if others and _LOG not in others:
            message = f"{self.path} holds other files and no state; name a new prefix"
            raise StateError(message, path=self.path)
        state = uuid4().hex
        name = f"snapshot-{0:012d}-0-{int(state[:8], 16)}"
        pieces = snapshot_pieces(state, 0, self._identity, edits=[], marks={}, codes=self.codes)
        self._folder.write(name, pieces)
        return _Content(state, 0, name, 0, 0, {}, (), b"")

    def _compact(self, edits: Sequence[Edit]) -> None:
        epoch = self.epoch
        try:
            name = self._log.name(f"snapshot-{epoch:012d}")
            size = self._folder.write(name, self._pieces(epoch, edits))
            self._log.begin(name)
        except StateError:
            raise
        except OSError as error:
            message = f"{self.path}: the snapshot of epoch {epoch} could not be written: {error}"
            raise StateError(message, path=self.path, epoch=epoch) from error
        self._snapshot_size = size
        with suppress(OSError):
            self._sweep()

    def _sweep(self) -> None:
        """Remove the objects of this and earlier generations that the log does not name."""
        content = self._log.content
        kept = {content.snapshot, *content.records}
        for name in self._folder.names():
            match = _OURS.fullmatch(name)
            if match and name not in kept and int(match[1]) <= self.generation:
                self._folder.remove(name)


def _taken(folder: Folder) -> str:
    """What a writer is told that was fenced off."""
    owner: Mapping[str, Any] = {}
    with suppress(OSError, StateError):
        head = folder.look(_LOG)
        owner = _Content.read(head[0], str(folder)).owner if head else {}
    return taken(str(folder), owner)
