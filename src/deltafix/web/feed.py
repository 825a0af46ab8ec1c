"""What changed, for those who follow it: bounded histories, read by position.

Life: one `Feed` over a source, told of each epoch. A relation has a history from when it is first
asked for; that of all relations, which pages follow, is there from the start and has the first rows
of each side only. A reader has a place in a history, an epoch, and nothing of its own, so one that
is slow costs nothing. Invariants: rows as of an epoch and the changes after it are the rows of now,
or the reader is told that its place is gone; a history keeps at most so many epochs and rows; an
epoch of a server that is no more is never taken for one of this one.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from starlette.concurrency import run_in_threadpool

from deltafix.errors import GoneError, LiveError, UnknownRelationError
from deltafix.facts.delta import Delta

if TYPE_CHECKING:
    from deltafix.engine.follow import Problem, ProgramEdit
    from deltafix.events import EpochReport
    from deltafix.web.sources import Part, Source, Write

__all__ = ["SHOWN", "Epoch", "Feed", "Limits", "Snapshot", "Where"]

SHOWN: Final = 100
"""Rows of each side of a relation that a page is told; the counts are whole."""
Where: TypeAlias = Mapping[str, Any]
"""Values that rows are to have, by column, as the source writes them."""

_EPOCHS: Final = 50
"""Epochs that are kept of all relations, for pages."""
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


@dataclass(slots=True)
class _Entry:
    """What an epoch changed in a relation; written once somebody reads it."""

    epoch: int
    part: Part
    write: Write
    size: int
    texts: tuple[list[str], list[str]] | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch changed, as a page shows it, and what it cost.

    Attributes:
        epoch: its number.
        changes: by relation the facts that were `added` and `removed`, at most SHOWN of each, and
            the `counts` of all of them.
        work: its report, for JSON.
        size: the facts of `changes`.
    """

    epoch: int
    changes: dict[str, dict[str, Any]]
    work: dict[str, Any]
    size: int


_Kept = TypeVar("_Kept", _Entry, Epoch)


@dataclass(slots=True)
class _History(Generic[_Kept]):
    """The changes of a relation, or of all, after the epoch `floor`: each of them."""

    shape: object
    floor: int
    entries: deque[_Kept] = field(default_factory=deque)
    size: int = 0

    @property
    def last(self) -> int:
        """The epoch of the last one, or that after which they begin."""
        return self.entries[-1].epoch if self.entries else self.floor

    def note(self, entry: _Kept, epochs: int, rows: int) -> None:
        """Have one more, and no more than so many epochs and rows."""
        self.entries.append(entry)
        self.size += entry.size
        while len(self.entries) > epochs or self.size > rows:
            gone = self.entries.popleft()
            self.floor, self.size = gone.epoch, self.size - gone.size

    def after(self, epoch: int) -> _Kept | None:
        """The next one after an epoch, if there is one. Raises GoneError. O(epochs kept)."""
        if epoch < self.floor:
            message = (
                f"this reader is at epoch {epoch} and changes after {self.floor} are kept: "
                "it was too slow; read the rows again"
            )
            raise GoneError(message, epoch=epoch)
        return next((entry for entry in self.entries if entry.epoch > epoch), None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a relation as of an epoch, each as JSON, sorted as such."""

    epoch: int
    rows: list[str]


class Feed:
    """The histories of a source's relations, and who waits for more.

    Attributes:
        last: the last epoch that it was told of, if there was one.
        delta: the delta of that, which may be asked for causes; of rules only.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.run: Final = secrets.token_hex(4)
        self.last: Epoch | None = None
        self.delta: Delta | None = None
        self._guard = threading.Lock()
        self._reports: deque[dict[str, Any]] = deque([_report(source.engine.last_epoch)], _EPOCHS)
        self._histories: dict[str, _History[_Entry]] = {}
        self._snapshots: OrderedDict[tuple[str, int, str], Snapshot] = OrderedDict()
        self._files = (0, _files((), None))
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._is_over = False
        with source.lock:  # no epoch comes between
            self._all: _History[Epoch] = _History(None, source.engine.epoch)
            source.watch(self._tell)

    # --- what is told --------------------------------------------------------------------------

    def _tell(self, epoch: int, changes: Mapping[str, Part]) -> None:
        shown = self._shown(epoch, changes)
        limits = self.limits
        with self._guard:
            self.last, self.delta = shown, changes if isinstance(changes, Delta) else None
            self._reports.append(shown.work)
            self._all.note(shown, min(_EPOCHS, limits.epochs), limits.rows)
            for name, history in list(self._histories.items()):
                if name not in changes:
                    continue
                if self._is_another(name, history):
                    del self._histories[name]
                    continue
                part = changes[name]
                write = self.source.writer(name, part)
                entry = _Entry(epoch, part, write, len(part.added) + len(part.removed))
                history.note(entry, limits.epochs, limits.rows)
        self._wake()

    def tell_files(self, problems: Iterable[Problem], edit: ProgramEdit | None) -> None:
        """Say what of the files that are followed stands: pages are told where it is another."""
        number, before = self._files
        text = _files(problems, edit)
        if text != before:
            self._files = number + 1, text
            self._wake()

    def end(self) -> None:
        """Have nobody wait for more: the server ends."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        with self._guard:
            pending = tuple(self._waiting.items())
        for event, loop in pending:
            with suppress(RuntimeError):  # the loop has been closed: its readers are gone
                loop.call_soon_threadsafe(event.set)

    def _shown(self, epoch: int, changes: Mapping[str, Part]) -> Epoch:
        """An epoch for pages, in the words of now: its names may mean something else later."""
        by_relation: dict[str, dict[str, Any]] = {}
        size = 0
        for name in changes:
            sides = (changes[name].added, changes[name].removed)
            added, removed = ([self.source.fact(name, row) for row in side[:SHOWN]]
                              for side in sides)  # fmt: skip
            counts = [len(side) for side in sides]
            by_relation[name] = {"added": added, "removed": removed, "counts": counts}
            size += len(added) + len(removed)
        return Epoch(epoch, by_relation, _report(self.source.engine.last_epoch), size)

    def _history(self, name: str) -> _History[_Entry]:
        """That of a relation, from now on if there is none. `source.lock` is held.

        Raises UnknownRelationError.
        """
        shape = self.source.relation(name).shape
        with self._guard:
            history = self._histories.get(name)
            if history is None or history.shape != shape:
                history = self._histories[name] = _History(shape, self.source.epoch)
                for key in [key for key in self._snapshots if key[0] == name]:
                    del self._snapshots[key]
            return history

    def reports(self) -> list[dict[str, Any]]:
        """The work of the last epochs, for JSON; that of the last one before there was a feed, too.

        At least one.
        """
        with self._guard:
            return list(self._reports)

    # --- rows ----------------------------------------------------------------------------------

    def snapshot(self, name: str, at: int | None = None, where: Where | None = None) -> Snapshot:
        """The rows of a relation, now or as of an epoch; of those `where`, if that is given.

        O(rows of the relation log rows told), once for its pages. Raises UnknownRelationError,
        GoneError.
        """
        source = self.source
        with source.lock:
            history, now = self._history(name), source.epoch
            epoch = now if at is None else at
            key = (name, epoch, json.dumps(where))
            if key in self._snapshots:
                self._snapshots.move_to_end(key)
                return self._snapshots[key]
            self._require(history, epoch, now)
            counts = Counter(_texts(source.writer(name), source.rows(name), where))
            for entry in history.entries:
                if entry.epoch > epoch:
                    added, removed = _sides(entry, where)
                    counts.subtract(added)
                    counts.update(removed)
            snapshot = Snapshot(epoch, sorted(counts.elements()))
            self._snapshots[key] = snapshot
            while len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
            return snapshot

    def start(self, name: str | None, event_id: str | None) -> int:
        """The epoch after which a reader goes on, from the id of an event; None: from now.

        Of all relations where no name is given: then nobody waits for an epoch that is being made.
        Raises UnknownRelationError, LiveError, GoneError.
        """
        if name is None:
            with self._guard:
                return self._from(self._all, self._all.last, event_id)
        with self.source.lock:
            return self._from(self._history(name), self.source.epoch, event_id)

    def _from(self, history: _History[Any], now: int, event_id: str | None) -> int:
        if event_id is None:
            return now
        run, _, epoch = event_id.rpartition(".")
        if not (epoch.isascii() and epoch.isdigit() and len(epoch) < 16):
            raise LiveError(f"{event_id!r} is no id of an event; ids are RUN.EPOCH", place=event_id)
        if run != self.run:
            raise GoneError("the id is of another run of the server: read the rows again")
        self._require(history, int(epoch), now)
        return int(epoch)

    def _require(self, history: _History[Any], epoch: int, now: int) -> None:
        if not history.floor <= epoch <= now:
            message = (
                f"epoch {epoch} is too old: changes after {history.floor} are kept, it is {now}; "
                "read the rows again"
            )
            raise GoneError(message, epoch=epoch)

    # --- changes -------------------------------------------------------------------------------

    async def follow(
        self, name: str | None, event_id: str | None, where: Where | None = None
    ) -> AsyncIterator[str]:
        """Server-sent events: `ready`, then one for each epoch, `gone` where place or relation is.

        That is a `delta` of a relation, with all of its rows, or without a name an `epoch`, which
        has the first rows of each relation and the work; and `files`, first and whenever it is
        another one: the problems that stand, and the last edit of the program. With `where` a delta
        has those rows alone, and there is none without rows: the place of the last of these comes
        with the heartbeat. The caller has asked `start` for errors.
        """
        event = asyncio.Event()
        self._waiting[event] = asyncio.get_running_loop()
        try:
            try:
                epoch = await run_in_threadpool(self.start, name, event_id)
                ready = {"epoch": epoch} if name is None else {"relation": name, "epoch": epoch}
                yield _event("ready", self.event_id(epoch), json.dumps(ready))
                heard, passed = -1, ""
                while not self._is_over:
                    event.clear()
                    if name is None and heard != self._files[0]:
                        heard, text = self._files
                        yield _event("files", "", text)
                        continue
                    following = await run_in_threadpool(self._after, name, epoch, where)
                    if following is not None:
                        epoch, text = following
                        passed = "" if text else f"id: {self.event_id(epoch)}\n"
                        if text:
                            kind = "epoch" if name is None else "delta"
                            yield _event(kind, self.event_id(epoch), text)
                        continue
                    try:
                        await asyncio.wait_for(event.wait(), self.limits.heartbeat)
                    except TimeoutError:
                        yield f"{passed}: still here\n\n"
                        passed = ""
            except (GoneError, UnknownRelationError) as gone:  # dropped since the caller asked
                yield _event("gone", "", json.dumps({"reason": str(gone), "code": gone.code}))
        finally:
            del self._waiting[event]

    @property
    def is_full(self) -> bool:
        """Whether no more may follow."""
        return len(self._waiting) >= self.limits.streams

    def event_id(self, epoch: int) -> str:
        """The id of an event."""
        return f"{self.run}.{epoch}"

    def _after(self, name: str | None, epoch: int, where: Where | None) -> tuple[int, str] | None:
        """The next change after an epoch, and what is told of it, if anything. Raises GoneError."""
        if name is None:
            with self._guard:
                shown = self._all.after(epoch)
            if shown is None:
                return None
            message = {"epoch": shown.epoch, "changes": shown.changes, "work": shown.work}
            return shown.epoch, json.dumps(message)
        with self._guard:
            history = self._histories.get(name)
            entry = None if history is None else history.after(epoch)
        if entry is None:
            if history is None or self._is_another(name, history, or_gone=True):
                raise GoneError(f"{name!r} is no more what it was: read the rows again")
            return None
        added, removed = _sides(entry, where)
        if where is not None and not (added or removed):
            return entry.epoch, ""
        sides = f'"added":[{",".join(added)}],"removed":[{",".join(removed)}]'
        return entry.epoch, f'{{"epoch":{entry.epoch},{sides}}}'

    def _is_another(self, name: str, history: _History[_Entry], *, or_gone: bool = False) -> bool:
        """Whether the name means something else by now; with `or_gone`, nothing at all, too."""
        try:
            return self.source.relation(name).shape != history.shape
        except UnknownRelationError:
            return or_gone


def _sides(entry: _Entry, where: Where | None) -> tuple[list[str], list[str]]:
    """What came and went, of those `where`. All of it is written once, for all who read it."""
    if where is None and entry.texts is not None:
        return entry.texts
    part, write = entry.part, entry.write
    texts = _texts(write, part.added, where), _texts(write, part.removed, where)
    if where is None:
        entry.texts = texts
    return texts


def _texts(write: Write, rows: Iterable[Any], where: Where | None) -> list[str]:
    conditions = () if where is None else tuple(where.items())
    return [
        json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        for row in map(write, rows)
        if all(name in row and row[name] == value for name, value in conditions)
    ]


def _event(kind: str, event_id: str, data: str) -> str:
    first = f"id: {event_id}\n" if event_id else ""
    return f"{first}event: {kind}\ndata: {data}\n\n"


def _files(problems: Iterable[Problem], edit: ProgramEdit | None) -> str:
    """What stands of the files, as JSON; an edit's rules are cut as rows are."""
    document: dict[str, Any] = {"edit": None}
    document["problems"] = [
        {
            "file": problem.path.name,
            "path": str(problem.path),
            "text": problem.text,
            "kept": problem.kept,
        }
        for problem in problems
    ]
    if edit is not None:
        document["edit"] = {
            "epoch": edit.epoch,
            "files": [path.name for path in edit.paths],
            "rules": [str(rule) for rule in edit.rules[:SHOWN]],
            "count": len(edit.rules),
            "changed": edit.changed,
        }
    return json.dumps(document)


def _report(epoch: EpochReport) -> dict[str, Any]:
    """An epoch's work for JSON; rules by number, as text keys."""
    report: dict[str, Any] = {"touched": epoch.touched}
    for counter in fields(epoch):
        value = getattr(epoch, counter.name)
        is_map = isinstance(value, Mapping)
        report[counter.name] = {str(key): n for key, n in value.items()} if is_map else value
    return report
