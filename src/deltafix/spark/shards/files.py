"""Where shards are kept: a file per shard and superstep, and a manifest that says which count.

    state/manifest.json            epoch, marks, program, and the files of each shard, in order
    state/epoch-000007-1f3a…/      what one attempt at an epoch wrote: step files and changes

A step file is a journal in checksummed frames (`store.frame`), written beside and renamed.
An epoch counts when the manifest that names its files has replaced the one before, in one step
(`Ledger`). On a disk a lock keeps other writers out. In an object store each opener puts the
manifest with the next generation, as states of an engine do: a writer that was given up, and is
only slow, meets a version that is gone at its next commit, and is told. The folder of an attempt
has its writer's generation in its name (`epoch-000007-2-1f3a…`), and nobody removes those of later
ones. Invariant: files that a manifest names never change; an attempt that fails leaves a folder
that no manifest names, removed by the next commit. A shard is made from its files alone, on any
machine that sees the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from deltafix.engine.state.marks import Marks
from deltafix.errors import StateError, StateInUseError, StateVersionError
from deltafix.rules.ast import Program
from deltafix.rules.show import show
from deltafix.spark import wire
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Entry, Journal
from deltafix.store.disk import Piece
from deltafix.store.folder import Folder, Head, LocalFolder, ReplacedError
from deltafix.store.frame import DamagedError, check_preamble, pack, preamble, read
from deltafix.store.lock import taken, who

FORMAT = 4
_KIND = "shard"
_MANIFEST = "manifest.json"
_TRIES = 20


def inside(folder: Folder, path: str) -> tuple[Folder, str]:
    """The folder of a file that is named relative to one above it, and its name there."""
    way, _, name = path.rpartition("/")
    return folder / way, name


def write_journal(folder: Folder, path: str, journal: Journal) -> tuple[int, int]:
    """Write a journal under its final name, whole or not at all; returns its bytes and its rows.

    `path` is relative to the shards' folder; its first part is the journal's attempt.
    """
    rows = 0

    def pieces() -> Iterator[Piece]:
        nonlocal rows
        yield preamble(_KIND)
        yield from pack(0, {"clock": journal.clock, "fresh": journal.fresh})
        for kind, batch in journal.entries:
            rows += batch.table.num_rows
            for data in wire.pack([batch]):
                yield from pack(0, {"kind": kind}, [data])
        yield from pack(1, {})

    attempt, name = inside(folder, path)
    size = attempt.write(name, pieces())
    attempt.sync()  # this worker, or its machine, need not see the commit
    return size, rows


def read_journal(folder: Folder, path: str) -> Journal:
    """Read and check a journal. Raises StateError naming the file and the byte."""
    offset = 0
    try:
        data = folder.read(path)
        offset = check_preamble(data, _KIND, f"{folder}/{path}")
        head = read(data, offset)
        offset = head.end
        entries = []
        while (frame := read(data, offset)).epoch == 0:
            (batch,) = wire.unpack(frame.body)
            entries.append(Entry(frame.meta["kind"], batch))
            offset = frame.end
        meta = head.meta
        attempt, _, _ = path.partition("/")
        return Journal(int(meta["clock"]), attempt, entries, bool(meta["fresh"]))
    except StateVersionError:
        raise
    except (FileNotFoundError, DamagedError, LookupError, TypeError, ValueError) as damage:
        message = (
            f"{folder}/{path}: the shard's file is damaged or gone, at byte {offset}: {damage}. "
            "Restore the folder from a copy of it, or begin a new one from the given rows"
        )
        raise StateError(message, path=f"{folder}/{path}", byte=offset) from None
    except OSError as error:
        message = f"{folder}/{path}: the shard's file cannot be read: {error}"
        raise StateError(message, path=f"{folder}/{path}") from error


@dataclass
class Manifest:
    """What a state folder holds.

    Attributes:
        program: digest of the layout; `shards`: how many there are; `epoch`: the last one.
        files: per shard, relative to the folder, in order.
        given: rows given, about: every added row counts, every removed one is taken off.
        base: bytes of files that hold whole shards; `log`: bytes of the steps after those.
        rules: the program as text.
        name: what tells this state from all others, from its beginning on.
        marks: what was noted beside the rows, as of the last epoch.
        generation: how often a state in an object store was opened; 0 on a disk.
        owner: who opened it last there.
        heavy: `Layout.heavy`.
    """

    program: str
    shards: int
    epoch: int = -1
    files: dict[int, list[str]] = field(default_factory=dict)
    given: int = 0
    base: int = 0
    log: int = 0
    rules: str = ""
    name: str = field(default_factory=lambda: uuid4().hex)
    marks: Marks = field(default_factory=dict)
    generation: int = 0
    owner: dict[str, Any] = field(default_factory=dict)
    heavy: tuple[int, ...] = ()

    @classmethod
    def load(cls, folder: Folder) -> Manifest | None:
        """The committed manifest, None where there is none. Raises StateError."""
        path = f"{folder}/{_MANIFEST}"
        try:
            content = folder.look(_MANIFEST)
        except OSError as error:
            raise StateError(f"{path}: it cannot be read: {error}", path=path) from error
        return None if content is None else cls.of_bytes(content[0], path)

    @classmethod
    def of_bytes(cls, data: bytes, path: str) -> Manifest:
        """What a file at a path says. Raises StateError."""
        try:
            saved: dict[str, Any] = json.loads(data)
            if saved["format"] != FORMAT:
                message = f"format {saved['format']}, and this deltafix reads format {FORMAT}"
                raise ValueError(message)
            files = {int(n): [str(f) for f in names] for n, names in saved["files"].items()}
            named = [PurePosixPath(name) for names in files.values() for name in names]
            if any(".." in name.parts or name.is_absolute() for name in named):
                raise ValueError("it names files outside of its folder")
            return cls(
                str(saved["program"]), int(saved["shards"]), int(saved["epoch"]), files,
                int(saved["given"]), int(saved["base"]), int(saved["log"]),
                str(saved["rules"]), str(saved["name"]), dict(saved["marks"]),
                int(saved["generation"]), dict(saved["owner"]),
                tuple(int(key) for key in saved["heavy"]),
            )  # fmt: skip
        except (LookupError, TypeError, ValueError) as damage:
            message = f"{path}: not a manifest of shards: {damage}"
            raise StateError(message, path=path) from None

    def to_bytes(self) -> bytes:
        """As the folder has it."""
        saved = {
            "format": FORMAT, "program": self.program, "shards": self.shards,
            "epoch": self.epoch, "given": self.given, "base": self.base, "log": self.log,
            "files": self.files, "rules": self.rules, "name": self.name, "marks": self.marks,
            "generation": self.generation, "owner": self.owner, "heavy": self.heavy,
        }  # fmt: skip
        return json.dumps(saved, indent=1).encode()

    def attempts(self) -> set[str]:
        """The folders of the attempts whose files it names."""
        return {name.split("/")[0] for names in self.files.values() for name in names}


class Ledger:
    """The manifest of a folder, for the one who may write it. `manifest` is what there was.

    Attributes:
        folder: where shards are.
        is_sure: whether a manifest that could not be put is not there, and will not be: an object
            store that did not answer may still do what it was asked for.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.is_sure = True
        self.manifest: Manifest | None
        self._look()

    def take(self, begun: Manifest, check: Callable[[Manifest], None]) -> None:
        """In an object store: fence off whoever had it; `begun` is put where nothing is.

        `check` is asked about what is there before. Raises what it raises, OSError, and
        StateInUseError if others open the state all the time.
        """
        for _ in range(_TRIES):
            before = self.manifest or begun
            check(before)
            if isinstance(self.folder, LocalFolder):
                return
            mine = replace(before, generation=before.generation + 1, owner=who())
            try:
                self._head.replace(mine.to_bytes())
            except ReplacedError:
                self._look()
                continue
            self.manifest = mine
            return
        raise self._taken()

    def commit(self, manifest: Manifest) -> None:
        """Make it the folder's manifest, in one step.

        Raises StateInUseError if another opener has the state now, OSError.
        """
        self.is_sure = isinstance(self.folder, LocalFolder)
        try:
            self._head.replace(manifest.to_bytes())
        except ReplacedError:
            raise self._taken() from None
        self.is_sure = True

    def sweep(self, manifest: Manifest, keep: str) -> None:
        """Remove the folders of attempts that are not part of the state. Failures are left."""
        named = manifest.attempts() | {keep}
        with suppress(OSError):
            for name in self.folder.folders():
                ours = name.startswith("epoch-") and name not in named
                if ours and int(name.split("-")[2]) <= manifest.generation:
                    self.folder.remove_folder(name)

    def _look(self) -> None:
        self._head = Head(self.folder, _MANIFEST)
        data = self._head.data
        self.manifest = (
            None if data is None else Manifest.of_bytes(data, f"{self.folder}/{_MANIFEST}")
        )

    def require_ours(self, manifest: Manifest) -> None:
        """Raise StateInUseError if another opener has the state now, who may remove its files."""
        try:
            current = Manifest.load(self.folder)
        except StateError:
            return
        if current is not None and current.generation != manifest.generation:
            raise StateInUseError(taken(str(self.folder), current.owner), path=str(self.folder))

    def _taken(self) -> StateInUseError:
        current = None
        with suppress(StateError):
            current = Manifest.load(self.folder)
        message = taken(str(self.folder), current.owner if current else {})
        return StateInUseError(message, path=str(self.folder))


def epoch_of(name: str) -> int:
    """The epoch of an attempt, by the name of its folder or of a file in it."""
    return int(name.split("-")[1])


def digest_of(layout: Layout) -> str:
    """What tells the program of shards from others."""
    merges = [f"{r.name}: {r.merge}" for r in layout.core.relations if r.merge is not None]
    heavy = [str(layout.heavy)] if layout.heavy else []
    text = "\n".join((show(layout.program), str(layout.core), *merges, *heavy))
    return hashlib.sha256(text.encode()).hexdigest()


def new_manifest(program: Program, layout: Layout, shards: int) -> Manifest:
    """That of a folder without one."""
    return Manifest(digest_of(layout), shards, rules=show(program), heavy=layout.heavy)


def require_same(folder: Folder, manifest: Manifest, wanted: Manifest) -> None:
    """Raise StateError for a manifest of another program or number of shards."""
    if manifest.shards != wanted.shards:
        message = (
            f"{folder} has {manifest.shards} shards, not {wanted.shards}; open it with that number"
        )
        raise StateError(message, path=str(folder), shards=manifest.shards)
    if manifest.program != wanted.program:
        message = f"{folder} was made by another program; begin a new folder from the given rows"
        raise StateError(message, path=str(folder))
