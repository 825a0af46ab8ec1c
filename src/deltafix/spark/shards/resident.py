"""What runs on a worker: the shards it holds in memory, and one superstep of one of them.

A worker keeps every shard it has run, with the list of files that make it. A task says which files
its shard must stand on: if they continue those of the shard held here, only the rest is read
(another worker ran the steps between); if not, the shard is made anew from all of them. So any
worker can take any task at any time, which is all that Spark's scheduling and retries ask for.
Invariant: after `run_step` the shard in memory stands on the files it was asked for and the one
that the step wrote.

Spark stops Python workers that nobody asked for a minute, and may give a shard to another one: an
image of an engine is mapped in a fraction of the second that its files take. Images lie in the
folder that Spark gives its executor; they are a cache, named by the files they stand on.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID, uuid4

import pyarrow as pa
from pyarrow import parquet

from deltafix.engine.outside import Users
from deltafix.errors import DeltafixError, StateError
from deltafix.pipeline.sink import beside, beside_columns
from deltafix.spark.hashing import Key
from deltafix.spark.shards.files import epoch_of, inside, read_journal, write_journal
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.schedule import Report
from deltafix.spark.shards.shard import Shard
from deltafix.spark.shards.step import Command, Entry, Journal, Judging, Outcome, Parcel
from deltafix.spark.wire import Batch, split
from deltafix.store import disk
from deltafix.store.folder import Folder, folder_at


@dataclass(frozen=True)
class Spec:
    """What all tasks of a database share.

    `folder`: the path or URL of the shards; `columns`: the names of the columns users see; `users`:
    their functors and reducers; `program`: the digest of the layout; `reads`: shards are made to
    read their given rows alone, so that they know neither users' functions nor where rows are
    judged.
    """

    folder: str
    layout: Layout
    shards: int
    columns: Mapping[str, tuple[str, ...]]
    users: Users
    program: str
    reads: bool = False

    @cached_property
    def root(self) -> Folder:
        """The folder, as this process reaches it: with its own credentials."""
        return folder_at(self.folder, shared=True)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "root"}

    def key(self, number: int) -> _Key:
        """What tells a shard from all others that a worker may hold."""
        return self.folder, number, self.program, self.shards, self.reads


@dataclass(frozen=True)
class StepFiles:
    """On which files each shard stands before some step of an attempt, and where that writes."""

    files: Mapping[int, Sequence[str]]
    attempt: str
    number: int

    def file(self, shard: int) -> str:
        """The file that the step of a shard writes."""
        return f"{self.attempt}/step-{self.number:04}-shard-{shard}.dfx"

    def changes(self, relation: str, shard: int) -> str:
        """The file of a relation's net changes in a shard; a step that runs again has its own."""
        return f"{self.attempt}/changes/{relation}/step-{self.number:04}-shard-{shard}.parquet"


@dataclass(frozen=True)
class Task(StepFiles):
    """A superstep: what to do, and where.

    compact: shards that write all they hold instead of what changed.
    judging: how rows are judged, where there are some to be judged.
    """

    command: Command
    compact: frozenset[int] = frozenset()
    fresh: bool = False
    judging: Judging | None = None


_IMAGED = 100_000
"""Rows in the journals of a shard from which an image is left when they were replayed: 0.1 s."""

_IDLE = 300.0
"""Seconds after which a shard that nobody asked this worker for is dropped: it has moved on."""


@dataclass
class Resident:
    """A shard in memory, and the files that make it."""

    shard: Shard
    files: list[str] = field(default_factory=list)
    used: float = field(default_factory=time.monotonic)


_Key: TypeAlias = tuple[str, int, str, int, bool]
_RESIDENTS: dict[_Key, Resident] = {}


def run_step(
    spec: Spec, task: Task, number: int, inbox: Iterable[Batch]
) -> tuple[list[Parcel], dict[str, Any]]:
    """Run a superstep of a shard: its messages, and a note with its report."""
    wanted = list(task.files.get(number, ()))
    resident, loaded = take(spec, number, wanted)
    if task.fresh:
        resident.shard = resident.shard.anew()
    shard = resident.shard
    clock = shard.clock
    outcome = shard.step(task.attempt, task.command, inbox, task.judging, spec.columns)
    report = Report(loads=loaded, ended=True)
    parcels = tally(outcome, report)
    note: dict[str, Any] = {"shard": number}
    compact = number in task.compact
    if shard.journal or shard.clock != clock or task.fresh or compact:
        name = task.file(number)
        entries = shard.given() if compact else shard.journal
        journal = Journal(shard.clock, task.attempt, entries, task.fresh or compact)
        size, rows = write_journal(spec.root, name, journal)
        resident.files = [name] if compact else [*wanted, name]
        note |= {"file": name, "size": size, "rows": rows}
    keep(spec, number, resident)
    if compact:
        leave(spec.key(number), resident.files, shard, task.attempt)
    note["changes"] = write_changes(spec, task, number, outcome.changes)
    note["verdicts"] = {name: asdict(verdict) for name, verdict in outcome.verdicts.items()}
    return parcels, {**note, "report": asdict(report)}


def tally(outcome: Outcome, report: Report) -> list[Parcel]:
    """Add to a report what a shard's step gave; the messages."""
    parcels: list[Parcel] = []
    for stratum, count in outcome.pending.items():
        report.pending[stratum] = report.pending.get(stratum, 0) + count
    report.falling += outcome.falling
    report.ended &= outcome.ended
    for target, batches in outcome.messages.items():
        for batch in batches:
            report.sent[batch.name] = report.sent.get(batch.name, 0) + batch.table.num_rows
            report.bytes += batch.table.nbytes
            parcels.append((target, batch))
    return parcels


def task_error(spec: Spec, error: DeltafixError | OSError) -> DeltafixError:
    """What users are told of an error in a task."""
    if isinstance(error, DeltafixError):
        return error
    message = f"{spec.folder}: the epoch could not be written: {error}; nothing changed"
    return StateError(message, path=spec.folder)


def take(spec: Spec, number: int, wanted: list[str]) -> tuple[Resident, int]:
    """A shard as its files make it, to be changed, and whether all had to be read (1 or 0).

    It is `keep`'s to have it here again: a step that fails leaves nothing to go on with.
    """
    taken = _stand_on(spec, number, wanted)
    del _RESIDENTS[spec.key(number)]
    return taken


def keep(spec: Spec, number: int, resident: Resident) -> None:
    """Have a shard here, which stands on `resident.files`."""
    _RESIDENTS[spec.key(number)] = resident


def given_rows(spec: Spec, files: Sequence[str], number: int, relation: str) -> pa.Table:
    """The given rows of a relation whose seat a shard is; columns are those of the copy."""
    seat = spec.layout.seat(relation)
    table = local_rows(spec, files, number, seat.name)
    if seat.key == Key(()) and spec.layout.given[relation][0].key == Key(None):
        return table if number == 0 else table.slice(0, 0)
    return table


def read_rows(spec: Spec, files: Sequence[str], number: int, relation: str) -> pa.Table | None:
    """The rows of a relation that a shard answers for; None if another one does."""
    home = spec.layout.home(relation)
    if home.key.columns is None and number != 0:
        return None
    table = local_rows(spec, files, number, home.name)
    names = spec.columns[relation]
    width = max(len(names), 1)
    return table.select(range(width)).rename_columns(list(names) or ["present"])


def local_rows(spec: Spec, files: Sequence[str], number: int, local: str) -> pa.Table:
    """The rows of a local relation of a shard."""
    resident, _ = _stand_on(spec, number, list(files))
    table: pa.Table = resident.shard.db.to_arrow(local)
    return table


def given_before(spec: Spec, number: int, wanted: list[str]) -> list[Entry]:
    """What a shard begins with that is to derive everything anew (`Shard.restart`).

    An engine is made only where the files hold rows.
    """
    resident = _RESIDENTS.get(spec.key(number))
    if resident is None or resident.files != wanted:
        journals = [read_journal(spec.root, name) for name in wanted]
        if not any(journal.entries for journal in journals):
            return []
        resident, _ = _stand_on(spec, number, wanted)
    return resident.shard.restart()


def stands(spec: Spec, number: int, files: Sequence[str]) -> bool:
    """Whether a shard is here and stands on these files, and perhaps on more."""
    here = _RESIDENTS.get(spec.key(number))
    return here is not None and here.files[: len(files)] == list(files)


def warm(
    spec: Spec, number: int, files: Sequence[str], begun: Callable[[Shard], None] = lambda _: None
) -> None:
    """Have the engine of a shard that was loaded made, if nobody has asked for it before.

    `begun` is told of the shard before it is made. Several threads may make one each.
    """
    if not stands(spec, number, files):
        _stand_on(spec, number, list(files), begun)


def forget(folder: str) -> None:
    """Drop the shards of a folder from this process."""
    for key in [key for key in _RESIDENTS if key[0] == folder]:
        del _RESIDENTS[key]


def _stand_on(
    spec: Spec, number: int, wanted: list[str], begun: Callable[[Shard], None] = lambda _: None
) -> tuple[Resident, int]:
    """The shard as its files make it, and whether all had to be read for it (1 or 0)."""
    key = spec.key(number)
    now = time.monotonic()
    for other, kept in list(_RESIDENTS.items()):
        if other != key and now - kept.used > _IDLE:
            _RESIDENTS.pop(other, None)
    resident = _RESIDENTS.get(key)
    # A shard without files, as before a load, has nothing that an image would not have.
    is_empty = resident is not None and not resident.files and bool(wanted)
    if resident is None or is_empty or wanted[: len(resident.files)] != resident.files:
        _RESIDENTS.pop(key, None)
        resident = Resident(Shard(spec.layout, number, spec.shards, spec.users))
        resident.files = take_up(key, wanted, resident.shard)
    missing = wanted[len(resident.files) :]
    replayed = False
    if missing:
        journals = [read_journal(spec.root, name) for name in missing]
        # Nothing before a fresh start counts.
        starts = [n for n, journal in enumerate(journals) if journal.fresh]
        if starts and starts[-1] + len(resident.files) > 0:
            journals = journals[starts[-1] :]
            resident = Resident(Shard(spec.layout, number, spec.shards, spec.users))
        replayed = not resident.files
        begun(resident.shard)
        resident.shard.replay(journals)
        resident.files = wanted
        if replayed and _is_large_and_given(journals):
            leave(key, wanted, resident.shard, journals[-1].attempt)
    resident.used = now
    _RESIDENTS[key] = resident
    return resident, int(replayed)


def _is_large_and_given(journals: Sequence[Journal]) -> bool:
    """Whether an image pays, and is one between epochs: the shard was only given rows."""
    entries = [entry for journal in journals for entry in journal.entries]
    rows = sum(entry.batch.table.num_rows for entry in entries)
    return rows >= _IMAGED and all(entry.kind == "edit" for entry in entries)


class Changed(NamedTuple):
    """A file of the net changes of a relation, and how many rows of each sign it has."""

    path: str
    added: int
    removed: int


def write_changes(
    spec: Spec, step: StepFiles, number: int, tables: Mapping[str, pa.Table]
) -> dict[str, Changed]:
    """Write the net changes of relations in a shard, each a file."""
    return {
        relation: _write_changes(spec, step.changes(relation, number), relation, table)
        for relation, table in tables.items()
    }


def _write_changes(spec: Spec, path: str, relation: str, table: pa.Table) -> Changed:
    """Write the net changes of a relation as a file of a delta log has them."""
    names = spec.columns[relation]
    removed, added = split(table)
    rows = pa.concat_tables([removed, added]).select(range(len(names)))
    numbers = beside_columns(added.num_rows, removed.num_rows, epoch_of(path))
    fields = [field.with_name(name) for field, name in zip(rows.schema, names, strict=True)]
    for name, column in zip(beside(names), numbers, strict=True):
        fields.append(pa.field(name, column.type))
    shown = pa.Table.from_arrays([*rows.columns, *numbers], schema=pa.schema(fields))
    # Numbers of changes seldom repeat: dictionaries of them took half of the time.
    texts = [field.name for field in shown.schema if pa.types.is_string(field.type)]
    sink = pa.BufferOutputStream()
    parquet.write_table(shown, sink, use_dictionary=texts)
    folder, name = inside(spec.root, path)
    folder.write(name, [memoryview(sink.getvalue())], durable=False)
    return Changed(path, added.num_rows, removed.num_rows)


def leave(about: Sequence[object], files: Sequence[str], shard: Shard, attempt: str) -> bool:
    """Leave an image of a shard between epochs, instead of any other; whether there is one.

    `about` tells the shard from all others, `files` are what it stands on, `attempt` wrote the last
    of them. Outside of Spark's workers, and on a full disk, there is none. O(state).
    """
    folder = _folder(about)
    if folder is None or shard.image is None:
        return False
    # No name is written twice: an image that somebody has mapped must stay as it is.
    own = uuid4().hex
    about_image = {"files": list(files), "clock": shard.clock, "attempt": attempt, "image": own}
    text = json.dumps(about_image)
    try:
        disk.make_folder(folder, durable=False)
        # It is sealed under what is told of it, so that neither fits another.
        if not shard.image.leave(folder / own, _digest(text)):
            return False
        beside = folder / f"{own}.told"
        disk.create(beside, [text.encode()], durable=False)
        beside.replace(folder / _TOLD)
        for path in folder.iterdir():
            if path.name not in (_TOLD, own):
                disk.remove(path)
    except OSError:
        return False
    return True


def take_up(about: Sequence[object], wanted: Sequence[str], shard: Shard) -> list[str]:
    """Have an empty shard be what an image says; the files on which it stands now, or none."""
    folder = _folder(about)
    if folder is None or shard.image is None:
        return []
    try:
        text = (folder / _TOLD).read_text()
        about_image = json.loads(text)
        files, clock = [str(name) for name in about_image["files"]], int(about_image["clock"])
        attempt, own = str(about_image["attempt"]), UUID(about_image["image"]).hex
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    if not files or files != list(wanted[: len(files)]):
        return []
    if not shard.image.take_up(folder / own, _digest(text)):
        return []
    shard.stand_at(clock, attempt)
    return files


_TOLD = "told"


def _folder(about: Sequence[object]) -> Path | None:
    given = os.environ.get("SPARK_LOCAL_DIRS")  # Spark sets it for its Python workers
    if not given:
        return None
    name = _digest(json.dumps([str(part) for part in about]))
    return Path(given.split(",")[0]) / f"deltafix-{name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
