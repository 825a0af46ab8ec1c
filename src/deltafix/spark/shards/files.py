"""Where shards are kept: a file per shard and superstep, and a manifest that says which count.

    state/manifest.json            epoch, marks, program, and the files of each shard, in order
    state/epoch-000007-1f3a…/      what one attempt at an epoch wrote: step files and changes

A step file is a journal in checksummed frames (`store.frame`), written beside and renamed.
An epoch counts when the manifest that names its files has replaced the one before, in one rename.
Invariant: files that a manifest names never change; an attempt that fails leaves a folder that no
manifest names, removed by the next commit. A shard is made from its files alone, on any machine
that sees the folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltafix.engine.state.marks import Marks
from deltafix.errors import StateError, StateVersionError
from deltafix.rules.ast import Program
from deltafix.rules.show import show
from deltafix.spark.shards import wire
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Entry, Journal
from deltafix.store import disk
from deltafix.store.disk import Piece
from deltafix.store.folder import LocalFolder
from deltafix.store.frame import DamagedError, check_preamble, pack, preamble, read

__all__ = [
    "Manifest", "digest_of", "epoch_of", "new_manifest", "read_journal", "require_same",
    "write_journal",
]  # fmt: skip

FORMAT = 2
_KIND = "shard"


def write_journal(path: Path, journal: Journal) -> int:
    """Write a journal under its final name, whole or not at all; returns its bytes.

    The folder is that of its attempt.
    """

    def pieces() -> Iterator[Piece]:
        yield preamble(_KIND)
        yield from pack(0, {"clock": journal.clock, "fresh": journal.fresh})
        for kind, batch in journal.entries:
            for data in wire.pack([batch]):
                yield from pack(0, {"kind": kind}, [data])
        yield from pack(1, {})

    size = LocalFolder(path.parent, shared=True).write(path.name, pieces())
    disk.sync_folder(path.parent)  # this worker, or its machine, need not see the commit
    return size


def read_journal(path: Path) -> Journal:
    """Read and check a journal. Raises StateError naming the file and the byte."""
    place = 0
    try:
        data = path.read_bytes()
        place = check_preamble(data, _KIND, str(path))
        head = read(data, place)
        place = head.end
        entries = []
        while (frame := read(data, place)).epoch == 0:
            (batch,) = wire.unpack(frame.body)
            entries.append(Entry(frame.meta["kind"], batch))
            place = frame.end
        meta = head.meta
        return Journal(int(meta["clock"]), path.parent.name, entries, bool(meta["fresh"]))
    except StateVersionError:
        raise
    except (OSError, DamagedError, LookupError, TypeError, ValueError) as damage:
        message = (
            f"{path}: the shard's file is damaged or gone, at byte {place}: {damage}. "
            "Restore the folder from a copy of it, or begin a new one from the given rows"
        )
        raise StateError(message, path=str(path), byte=place) from None


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

    @classmethod
    def load(cls, folder: Path) -> Manifest | None:
        """The committed manifest, None where there is none. Raises StateError."""
        path = folder / "manifest.json"
        if not path.exists():
            return None
        try:
            saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if saved["format"] != FORMAT:
                message = f"format {saved['format']}, and this deltafix reads format {FORMAT}"
                raise ValueError(message)
            files = {int(n): [str(f) for f in names] for n, names in saved["files"].items()}
            named = [Path(name) for names in files.values() for name in names]
            if any(".." in name.parts or name.is_absolute() for name in named):
                raise ValueError("it names files outside of its folder")
            return cls(
                str(saved["program"]), int(saved["shards"]), int(saved["epoch"]), files,
                int(saved["given"]), int(saved["base"]), int(saved["log"]),
                str(saved["rules"]), str(saved["name"]), dict(saved["marks"]),
            )  # fmt: skip
        except (OSError, LookupError, TypeError, ValueError) as damage:
            message = f"{path}: not a manifest of shards: {damage}"
            raise StateError(message, path=str(path)) from None

    def commit(self, folder: Path) -> None:
        """Make this the folder's manifest, in one step."""
        saved = {
            "format": FORMAT, "program": self.program, "shards": self.shards,
            "epoch": self.epoch, "given": self.given, "base": self.base, "log": self.log,
            "files": self.files, "rules": self.rules, "name": self.name, "marks": self.marks,
        }  # fmt: skip
        LocalFolder(folder).commit("manifest.json", [json.dumps(saved, indent=1).encode()], "")

    def sweep(self, folder: Path, keep: Iterable[str] = ()) -> None:
        """Remove the folders of attempts that are not part of the state. Failures are left."""
        named = {Path(f).parts[0] for names in self.files.values() for f in names} | set(keep)
        for attempt in folder.glob("epoch-*"):
            if attempt.name not in named:
                with suppress(OSError):
                    shutil.rmtree(attempt)


def epoch_of(name: str) -> int:
    """The epoch of an attempt, by the name of its folder or of a file in it."""
    return int(name.split("-")[1])


def digest_of(layout: Layout) -> str:
    """What tells the program of shards from others."""
    merges = [f"{r.name}: {r.merge}" for r in layout.core.relations if r.merge is not None]
    text = "\n".join((show(layout.program), str(layout.core), *merges))
    return hashlib.sha256(text.encode()).hexdigest()


def new_manifest(program: Program, layout: Layout, shards: int) -> Manifest:
    """That of a folder without one."""
    return Manifest(digest_of(layout), shards, rules=show(program))


def require_same(folder: Path, found: Manifest, wanted: Manifest) -> None:
    """Raise StateError for a manifest of another program or number of shards."""
    if found.shards != wanted.shards:
        message = (
            f"{folder} has {found.shards} shards, not {wanted.shards}; open it with that number"
        )
        raise StateError(message, path=str(folder), shards=found.shards)
    if found.program != wanted.program:
        message = f"{folder} was made by another program; begin a new folder from the given rows"
        raise StateError(message, path=str(folder))
