"""What states on a disk and in an object store share: what was read, epochs, when to compact.

Life: made, which reads the files once and says which program is `known`; `take`, with the program
that goes on with them; `close`. Invariant: the given rows of the last epoch are the snapshot's and
then what its log's epochs changed. How both are replaced in one step is the matter of `folder` and
`objects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from deltafix.engine.codes import Codes
from deltafix.engine.state.edits import Edit
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.log import Records
from deltafix.engine.state.marks import Marks, set_marks
from deltafix.engine.state.rows import (
    GivenRows,
    decode,
    encode,
    left,
)
from deltafix.engine.state.snapshot import Snapshot, snapshot_pieces
from deltafix.errors import StateError
from deltafix.facts.schema import Schema
from deltafix.store.disk import Piece

COMPACT_FACTOR = 2
"""The log is folded into a new snapshot when it is this many times as large as the snapshot."""

COMPACT_LEAST = 4 << 20
"""Bytes below which a log is left alone, however small the snapshot is."""


class AnyLog(Protocol):
    """A log that is open: its last epoch, its bytes, and why it takes no more, if so."""

    epoch: int
    end: int
    broken: str

    def append(self, epoch: int, meta: dict[str, Any], body: Sequence[Piece]) -> None:
        """Make an epoch durable. Raises StateError; the caller then calls `undo`."""

    def undo(self, epoch: int) -> None:
        """Take back what was written for an epoch after `epoch`. Raises StateError."""

    def close(self) -> None:
        """Let go of it. Idempotent."""


class Owner(Protocol):
    """Who has the state."""

    @property
    def is_ours(self) -> bool:
        """Whether this process took it, and not the one it was forked from."""

    def release(self) -> None:
        """Give it back. Idempotent."""


class State:
    """A state, opened by this process. All but `path`, `known`, `marks` and `close` need `take`.

    Attributes:
        path: where it is, in words.
        generation: how often a state in an object store was opened; 0 on a disk.
        known: the program that it was last used by; None if it has none yet.
        recovered: what was mended or noticed, in words.
        marks: what was noted beside the rows, as of the last epoch.
        same_program: whether the state was last used by the very same program.
        image: where its image lies; None for states that have none.
        codes: those of the rows that are written.
    """

    _log: AnyLog
    _lock: Owner
    generation = 0
    image: Path | None = None

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: Identity | None = None
        self.marks: Marks = {}
        self.recovered: list[str] = []
        self._read: tuple[Snapshot, Records] | None = None
        self._taken = False
        self._tried = 0

    def take(self, identity: Identity, schemas: Mapping[str, Schema], codes: Codes) -> None:
        """Go on with a program, or begin. Raises StateError if the state is of another one."""
        self._identity, self._schemas, self.codes = identity, schemas, codes
        self._open()
        self._taken = True

    def _open(self) -> None:
        raise NotImplementedError

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Say what went wrong with a file as StateError."""
        try:
            yield
        except OSError as error:
            if isinstance(error, StateError):
                raise
            message = f"{self.path} cannot be used as a state: {error}"
            raise StateError(message, path=self.path) from error

    def _believe(self, snapshot: Snapshot, records: Records) -> None:
        """Note what was read. Raises StateError if it does not fit together."""
        self._check(snapshot, records)
        self._read = snapshot, records
        try:
            self.known = records.program(snapshot.epoch, snapshot.identity)
            self.marks = _marks_of(snapshot, records)
        except (LookupError, TypeError, ValueError) as error:
            message = f"{self.path}: the program of the state cannot be read: {error}"
            raise StateError(message, path=self.path) from error

    def _fit(self, snapshot: Snapshot, records: Records) -> None:
        """Take up what was read. Raises StateError if it is of another program."""
        self._check_program(snapshot, records)
        self._state = snapshot.state
        self.marks = _marks_of(snapshot, records)
        self._snapshot_size = snapshot.size
        self._base = snapshot.epoch
        self.same_program = self.known in (None, self._identity)

    @property
    def epoch(self) -> int:
        """The last epoch that the files hold."""
        return self._log.epoch

    @property
    def is_full(self) -> bool:
        """Whether the log has outgrown the snapshot (`COMPACT_FACTOR`, `COMPACT_LEAST`)."""
        limit = max(COMPACT_LEAST, COMPACT_FACTOR * self._snapshot_size, 2 * self._tried)
        return self._log.end > limit and not self._log.broken

    @property
    def base(self) -> int:
        """The epoch of the snapshot that was read: the log has what later ones changed."""
        return self._base

    @property
    def is_ours(self) -> bool:
        """Whether this process may write to it."""
        return self._lock.is_ours and not self._log.broken

    def given(self, after: int | None = None) -> Iterator[GivenRows]:
        """What the files held when they were opened: rows and then edits, in order. Once.

        With `after`, an epoch not before `base`: the edits of later epochs alone.
        """
        contents, self._read = self._read, None
        if contents is None:
            return
        snapshot, records = contents
        frames = chain(snapshot.frames, records.after(snapshot.epoch))
        try:
            yield from decode(frames if after is None else records.after(after), self._schemas)
        except (LookupError, TypeError, ValueError) as error:
            message = f"{self.path}: given rows cannot be read: {error}"
            raise StateError(message, path=self.path) from error

    @property
    def name(self) -> str:
        """What tells this state from all others, from its beginning on."""
        return self._state

    def append(
        self, epoch: int, edits: Sequence[Edit], marks: Marks, program: Identity | None = None
    ) -> None:
        """Write the record of an epoch that is about to be committed. Raises StateError.

        `program` says that its rules are edited, and what is then the state's program: `edited`
        takes note when the epoch is committed.
        """
        self._require_ours()
        entries, body = encode(edits, self.codes)
        meta: dict[str, Any] = {"edits": entries, **({"marks": marks} if marks else {})}
        if program is not None:
            meta["program"] = program.to_json()
        self._log.append(epoch, meta, body)

    @property
    def program(self) -> Identity:
        """The program that the state has now."""
        return self._identity

    def edited(self, program: Identity) -> None:
        """An epoch that edits the rules is committed."""
        self._identity = program

    def undo(self, epoch: int) -> None:
        """Forget what was written for an epoch after `epoch`. Raises StateError."""
        if self._lock.is_ours:
            self._log.undo(epoch)

    def compact(self, edits: Sequence[Edit]) -> None:
        """Make the given rows of the current epoch the snapshot, and begin a new log.

        Raises StateError if it cannot be written; the state is as before, unless the message
        says that no more epochs are taken.
        """
        self._require_ours()
        if self._log.broken:
            raise StateError(self._log.broken, path=self.path)
        self._tried = self._log.end
        self._compact(edits)
        self._tried = 0

    def _compact(self, edits: Sequence[Edit]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Sync as the policy says and give the state back. Idempotent."""
        try:
            if self._taken:
                self._log.close()
        finally:
            self._lock.release()

    def _pieces(self, epoch: int, edits: Sequence[Edit]) -> Iterator[Piece]:
        return snapshot_pieces(
            self._state, epoch, self._identity, edits=edits, marks=self.marks, codes=self.codes
        )

    def _require_ours(self) -> None:
        if not self._lock.is_ours:
            message = (
                f"{self.path}: this process was forked from the one that opened the state and "
                "cannot write to it; connect to another folder"
            )
            raise StateError(message, path=self.path)

    def _check(self, snapshot: Snapshot, records: Records) -> None:
        if snapshot.state != records.state:
            message = f"{self.path}: snapshot and log are of two different states"
            raise StateError(message, path=self.path)
        if records.base > snapshot.epoch:
            message = (
                f"{self.path}: the log begins after epoch {records.base}, but the snapshot is of "
                f"epoch {snapshot.epoch}, which is the last good epoch"
            )
            raise StateError(message, path=self.path, epoch=snapshot.epoch)

    def _check_program(self, snapshot: Snapshot, records: Records) -> None:
        known = self.known or self._identity
        rows = left(self.path, chain(snapshot.frames, records.after(snapshot.epoch)))
        differences = known.differences(self._schemas, rows)
        if differences:
            message = f"{self.path} is the state of another program: {'; '.join(differences)}"
            raise StateError(message, path=self.path, differences=differences)
        if records.torn:
            self.recovered.append(
                f"a torn tail of the log was cut off: {records.torn}; the state is epoch "
                f"{max(records.epoch, snapshot.epoch)}"
            )
        if known != self._identity:
            if known.is_edited:
                self.recovered.append("the edits of rules went with another program")
            self.recovered.append("the program has changed: derived relations follow the new rules")


def _marks_of(snapshot: Snapshot, records: Records) -> Marks:
    marks = dict(snapshot.marks)
    for changed in records.marks(snapshot.epoch):
        set_marks(marks, changed)
    return marks
