"""What changed in each relation, for those who follow it: a bounded history, read by position.

Life: one `Feed` over a source, told of each epoch. A relation has a history from when it is first
asked for; a reader has a place in it, an epoch, and nothing of its own, so one that is slow costs
nothing. Invariants: rows as of an epoch and the changes after it are the rows of now, or the reader
is told that its place is gone; a history keeps at most so many epochs and rows; an epoch of a
server that is no more is never taken for one of this one.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from deltafix.errors import LiveError

if TYPE_CHECKING:
    from deltafix.web.sources import Part, Source

__all__ = ["Feed", "GoneError", "Limits", "Snapshot"]

_SNAPSHOTS: Final = 4
"""Snapshots kept for those who read them page by page."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server holds for its readers.

    Attributes:
        epochs, rows: the changes of a relation that are kept: so many epochs, so many rows in all.
        streams: how many may follow at once.
        stall: seconds that a reader may take nothing, before it is dropped.
        heartbeat: seconds without changes after which a comment is sent.
        body: bytes of a request.
    """

    epochs: int = 1000
    rows: int = 100_000
    streams: int = 100
    stall: float = 30.0
    heartbeat: float = 15.0
    body: int = 1 << 26


class GoneError(LiveError):
    """A place in a history that is kept no more: the rows are to be read again."""

    code = "DF691"


@dataclass(slots=True)
class _Entry:
    """What an epoch changed in a relation; written once somebody reads it."""

    epoch: int
    part: Part
    size: int
    texts: tuple[list[str], list[str]] | None = None


@dataclass(slots=True)
class _History:
    """The changes of a relation after the epoch `floor`, all of them."""

    shape: object
    floor: int
    entries: deque[_Entry] = field(default_factory=deque)
    size: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a relation as of an epoch, each as JSON, sorted as such."""

    epoch: int
    rows: list[str]


class Feed:
    """The histories of a source's relations, and who waits for more."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.run: Final = secrets.token_hex(4)
        self._guard = threading.Lock()
        self._histories: dict[str, _History] = {}
        self._snapshots: OrderedDict[tuple[str, int], Snapshot] = OrderedDict()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        source.watch(self._tell)

    # --- what is told --------------------------------------------------------------------------

    def _tell(self, epoch: int, changes: Mapping[str, Part]) -> None:
        with self._guard:
            for name, history in self._histories.items():
                if name in changes:
                    self._note(history, epoch, changes[name])
            waiting = tuple(self._waiting.items())
        for event, loop in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def _note(self, history: _History, epoch: int, part: Part) -> None:
        size = len(part.added) + len(part.removed)
        history.entries.append(_Entry(epoch, part, size))
        history.size += size
        while len(history.entries) > self.limits.epochs or history.size > self.limits.rows:
            gone = history.entries.popleft()
            history.floor, history.size = gone.epoch, history.size - gone.size

    def _history(self, name: str) -> _History:
        """That of a relation, from now on if there is none. `source.lock` is held.

        Raises UnknownRelationError.
        """
        shape = self.source.relation(name).shape
        with self._guard:
            history = self._histories.get(name)
            if history is None or history.shape != shape:
                history = self._histories[name] = _History(shape, self.source.epoch)
                for one in [key for key in self._snapshots if key[0] == name]:
                    del self._snapshots[one]
            return history

    # --- rows ----------------------------------------------------------------------------------

    def snapshot(self, name: str, at: int | None = None) -> Snapshot:
        """The rows of a relation, now or as of an epoch. O(rows log rows), once for its pages.

        Raises UnknownRelationError, GoneError.
        """
        source = self.source
        with source.lock:
            history, now = self._history(name), source.epoch
            epoch = now if at is None else at
            key = (name, epoch)
            if key in self._snapshots:
                self._snapshots.move_to_end(key)
                return self._snapshots[key]
            self._require(history, epoch, now)
            counts = Counter(self._text(name, row) for row in source.rows(name))
            for entry in history.entries:
                if entry.epoch > epoch:
                    added, removed = self._texts(name, entry)
                    counts.subtract(added)
                    counts.update(removed)
            made = Snapshot(epoch, sorted(counts.elements()))
            self._snapshots[key] = made
            while len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
            return made

    def start(self, name: str, place: str | None) -> int:
        """The epoch after which a reader goes on, from the id of an event; None: from now.

        Raises UnknownRelationError, LiveError, GoneError.
        """
        with self.source.lock:
            history, now = self._history(name), self.source.epoch
            if place is None:
                return now
            run, _, epoch = place.rpartition(".")
            if not (epoch.isascii() and epoch.isdigit() and len(epoch) < 16):
                raise LiveError(f"{place!r} is no id of an event; ids are RUN.EPOCH", place=place)
            if run != self.run:
                raise GoneError("the id is of another run of the server: read the rows again")
            self._require(history, int(epoch), now)
            return int(epoch)

    def _require(self, history: _History, epoch: int, now: int) -> None:
        if not history.floor <= epoch <= now:
            message = (
                f"epoch {epoch} is too old: changes after {history.floor} are kept, it is {now}; "
                "read the rows again"
            )
            raise GoneError(message, epoch=epoch)

    # --- changes -------------------------------------------------------------------------------

    async def follow(self, name: str, place: str | None) -> AsyncIterator[str]:
        """Server-sent events: `ready`, then `delta` for each epoch, `gone` where the place is.

        The caller has asked `start` for errors.
        """
        event = asyncio.Event()
        self._waiting[event] = asyncio.get_running_loop()
        try:
            try:
                epoch = await run_in_threadpool(self.start, name, place)
                yield _event("ready", self.place(epoch), {"relation": name, "epoch": epoch})
                while True:
                    event.clear()
                    found = await run_in_threadpool(self._after, name, epoch)
                    if found is not None:
                        epoch, text = found
                        yield f"id: {self.place(epoch)}\nevent: delta\ndata: {text}\n\n"
                        continue
                    try:
                        await asyncio.wait_for(event.wait(), self.limits.heartbeat)
                    except TimeoutError:
                        yield ": still here\n\n"
            except GoneError as gone:
                yield _event("gone", "", {"reason": str(gone), "code": gone.code})
        finally:
            del self._waiting[event]

    @property
    def is_full(self) -> bool:
        """Whether no more may follow."""
        return len(self._waiting) >= self.limits.streams

    def place(self, epoch: int) -> str:
        """The id of an event."""
        return f"{self.run}.{epoch}"

    def _after(self, name: str, epoch: int) -> tuple[int, str] | None:
        """The next change of a relation after an epoch, and what is told of it. Raises GoneError.

        O(epochs that are kept).
        """
        with self._guard:
            history = self._histories[name]
            if epoch < history.floor:
                message = (
                    f"this reader is at epoch {epoch} and changes after {history.floor} are kept: "
                    "it was too slow; read the rows again"
                )
                raise GoneError(message, epoch=epoch)
            entry = next((one for one in history.entries if one.epoch > epoch), None)
        if entry is None:
            return None
        added, removed = self._texts(name, entry)
        told = f'"added":[{",".join(added)}],"removed":[{",".join(removed)}]'
        return entry.epoch, f'{{"epoch":{entry.epoch},{told}}}'

    def _texts(self, name: str, entry: _Entry) -> tuple[list[str], list[str]]:
        if entry.texts is None:
            part = entry.part
            added, removed = ([self._text(name, row) for row in side]
                              for side in (part.added, part.removed))  # fmt: skip
            entry.texts = added, removed
        return entry.texts

    def _text(self, name: str, row: Any) -> str:
        return json.dumps(self.source.to_json(name, row), ensure_ascii=False, separators=(",", ":"))


def _event(kind: str, place: str, data: Mapping[str, Any]) -> str:
    first = f"id: {place}\n" if place else ""
    return f"{first}event: {kind}\ndata: {json.dumps(data)}\n\n"
